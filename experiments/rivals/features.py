"""Features whose products approximate a kernel, and a linear SVM on them.

``RandomFeatureSVM`` draws them from the kernel's spectrum: for the RBF kernel ``sqrt(2/E)
cos(w.x + b)`` with ``w`` normal of variance ``2 gamma`` and ``b`` uniform on the circle (Rahimi and
Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, Algorithm 1).
``NystroemSVM`` takes values of that kernel with a random sample of the rows, made orthonormal.
What is left is a linear SVM, ``minimise 1/2 |w|^2 + C sum of losses``, the hinge or its square.

The features of all training rows are held at once, eight bytes each; for prediction they are made
for a few thousand rows at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.fitting import fit_method, fit_task
from aesvm.estimators.validation import KERNEL_CONSTRAINTS, validated_rows
from aesvm.kernels import resolve_gamma
from experiments.rivals.base import RANDOM_CONSTRAINTS, Scored, validated_classes

#: Rows whose features are made together, to predict.
_AT_A_TIME = 4096


@dataclass(kw_only=True, eq=False, repr=False)
class _FeatureSVM(Scored):
    """A map of the rows to features, and a linear SVM on these."""

    C: float = 1.0
    gamma: str | float = "scale"
    n_components: int = 100
    loss: str = "exact"
    tol: float = 1e-3
    max_iter: int = 10_000
    random_state: Any = None

    kernel = "rbf"

    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "gamma": KERNEL_CONSTRAINTS["gamma"],
        "n_components": [Interval(Integral, 1, 2**31 - 1, closed="both")],
        "loss": [StrOptions({"hinge", "squared_hinge", "exact"})],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        **RANDOM_CONSTRAINTS,
    }

    @fit_method
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw the features, and train a linear SVM on them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes.

        Returns
        -------
        self : object
        """
        data, labels = validated_classes(self, X, y)
        with fit_task(self, data, y, n_tasks=2) as progress:
            self.gamma_ = resolve_gamma(self.gamma, data, self.kernel)
            random = check_random_state(self.random_state)
            self.map_ = self._map(data.shape[0], random)
            with progress.task("features"), np.errstate(over="ignore", invalid="ignore"):
                features = self._features(data)
            with progress.task("linear SVM"):
                self.linear_ = self._linear(random).fit(features, labels)
        self.n_iter_ = int(np.max(self.linear_.n_iter_))
        return self

    def _features(self, data: Any) -> Any:
        try:
            return self.map_.fit(data).transform(data)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"the features made of X are not finite ({error}): scale the data."
            ) from error

    @abstractmethod
    def _map(self, n_rows: int, random: np.random.RandomState) -> Any:
        """A scikit-learn transformer, not yet fitted."""

    def _linear(self, random: np.random.RandomState) -> Any:
        if self.loss == "exact":
            return SVC(C=self.C, kernel="linear", tol=self.tol, cache_size=600)
        return LinearSVC(
            C=self.C,
            loss=self.loss,
            dual="auto" if self.loss == "squared_hinge" else True,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=random,
        )

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed distances from the separating planes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive for the second.
        """
        check_is_fitted(self)
        rows = validated_rows(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            features = (
                self.map_.transform(rows[part]) for part in gen_batches(rows.shape[0], _AT_A_TIME)
            )
            return np.concatenate([self.linear_.decision_function(part) for part in features])


class RandomFeatureSVM(_FeatureSVM):
    """A linear SVM on random Fourier features of the RBF kernel.

    Parameters
    ----------
    C : float, default=1.0
    gamma : {"scale", "auto"} or float, default="scale"
        Of the RBF kernel that is approximated.
    n_components : int, default=100
        Features (the paper's E).
    loss : {"exact", "hinge", "squared_hinge"}, default="exact"
        "exact" is LIBSVM with the linear kernel, as in the AESVM paper's comparison: the hinge
        loss, with an offset that is not penalised. "hinge" and "squared_hinge" are LIBLINEAR's,
        which is far faster and penalises the offset.
    tol : float, default=1e-3
    max_iter : int, default=10_000
        Most iterations of LIBLINEAR; LIBSVM has no limit.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    map_ : sklearn.kernel_approximation.RBFSampler
    linear_ : sklearn.svm.SVC or sklearn.svm.LinearSVC
    gamma_ : float
    n_iter_ : int
        Iterations of the linear SVM, the most of any class.

    Notes
    -----
    Faithful to Algorithm 1 of Rahimi and Recht (2007), which scikit-learn's ``RBFSampler``
    implements in its form with one cosine and a random phase for each feature. LIBSVM and
    LIBLINEAR answer an interrupt only when they have ended.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import RandomFeatureSVM
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = RandomFeatureSVM(gamma=2.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def _map(self, n_rows: int, random: np.random.RandomState) -> RBFSampler:
        return RBFSampler(gamma=self.gamma_, n_components=self.n_components, random_state=random)


@dataclass(kw_only=True, eq=False, repr=False)
class NystroemSVM(_FeatureSVM):
    """A linear SVM on Nystroem features: kernel values with a sample of the rows.

    Parameters and attributes are those of :class:`RandomFeatureSVM`, but for these.

    Parameters
    ----------
    n_components : int, default=1000
        Rows of the sample; all of them where there are fewer.
    loss : {"squared_hinge", "hinge", "exact"}, default="squared_hinge"

    Notes
    -----
    scikit-learn's ``Nystroem`` and ``LinearSVC``, as one would put them together in a pipeline.
    LIBLINEAR and LIBSVM answer an interrupt only when they have ended.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import NystroemSVM
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = NystroemSVM(gamma=2.0, n_components=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    n_components: int = 1000
    loss: str = "squared_hinge"

    def _map(self, n_rows: int, random: np.random.RandomState) -> Nystroem:
        n_components = min(self.n_components, n_rows)
        return Nystroem(gamma=self.gamma_, n_components=n_components, random_state=random)
