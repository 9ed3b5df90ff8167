"""What the rivals share: validation, pairs of classes, and a kernel expansion to predict with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.fitting import fit_method, fitting
from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.prediction import PairwiseClassifier
from aesvm.estimators.validation import (
    KERNEL_CONSTRAINTS,
    check_two_classes,
    valid_classes,
    validated_rows,
)
from aesvm.kernels import KernelMatrix, check_symmetric, resolve_gamma
from aesvm.machines import one_vs_one
from aesvm.machines.problem import total_of_costs
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.runtime.scikit_learn import CallbackSupportMixin
from aesvm.runtime.warn import warn

#: Parameter constraints of a rival, of one that draws random numbers, and of one with a cache.
RIVAL_CONSTRAINTS: dict[str, list] = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    **KERNEL_CONSTRAINTS,
}
RANDOM_CONSTRAINTS: dict[str, list] = {"random_state": ["random_state"]}
CACHE_CONSTRAINTS: dict[str, list] = {
    "cache_size": [Interval(Real, 0.0, None, closed="left")],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
}


def validated_classes(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[np.intp]]:
    """Rows, and the class of each by number; ``classes_`` is set."""
    data = validated_rows(estimator, X, reset=True)
    y = valid_classes(y, data, type(estimator).__name__)
    estimator.classes_, labels = np.unique(y, return_inverse=True)
    check_two_classes(estimator.classes_, labels, np.ones(len(labels)))
    return data, labels


class Pair(NamedTuple):
    """Two classes to tell apart."""

    kernel: KernelMatrix
    rows: NDArray[np.intp]  #: training rows of both classes
    signs: NDArray[np.float64]  #: of each: +1 for the first class, -1 for the second
    weights: NDArray[np.float64]  #: how many rows of its class each stands for
    random: np.random.RandomState
    run: Callable  #: ``map``, on threads
    progress: Progress


class Expansion(NamedTuple):
    """What the training of a pair gives: ``f(x) = sum_i coefs_i k(x_i, x) + offset``."""

    coefs: NDArray[np.float64]  #: one for each row of the pair
    offset: float
    n_iter: int
    converged: bool = True


@dataclass(kw_only=True, eq=False, repr=False)
class PairwiseSVM(CallbackSupportMixin, PairwiseClassifier, ClassifierMixin, BaseEstimator):
    """A kernel SVM of two classes at a time, whose expansion is over training rows.

    A subclass says how a pair of classes is trained (``_train``). Fitted attributes are SVC's.
    Parameters are the fields of the class and of its bases.
    """

    C: float = 1.0
    kernel: str | Callable[[Any, Any], Any] = "rbf"
    degree: int = 3
    gamma: str | float = "scale"
    coef0: float = 0.0
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    decision_function_shape = "ovr"
    break_ties = True  # as one-vs-rest, so that predictions are the largest decision values

    _parameter_constraints: ClassVar[dict] = {**RIVAL_CONSTRAINTS, **RANDOM_CONSTRAINTS}

    @fit_method
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows, or with ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Classes.

        Returns
        -------
        self : object
        """
        data, labels = validated_classes(self, X, y)
        if self.kernel == "precomputed":
            check_symmetric(data)
        self.gamma_ = resolve_gamma(self.gamma, data, self.kernel)
        rows = np.arange(len(labels))
        total_of_costs(np.full(len(rows), float(self.C)))
        owner = TrainingKernel(kernel_spec(self, self.gamma_), data, self._precision())
        owner.check_bounded(rows)
        random = check_random_state(self.random_state)
        classes = [np.flatnonzero(labels == c) for c in range(len(self.classes_))]
        used = [self._drawn(of_class, len(labels), random) for of_class in classes]
        found = []
        with fitting(self, data, y) as (run, progress):
            kernel = owner.for_sums(rows, np.array([self._coefficient_norm(len(rows))]))
            for i, j in combinations(range(len(classes)), 2):
                of_pair = np.sort(np.concatenate([used[i], used[j]]))
                signs = np.where(labels[of_pair] == i, 1.0, -1.0)
                shares = [len(classes[c]) / len(used[c]) for c in (i, j)]
                weights = np.where(signs > 0, shares[0], shares[1])
                with progress.task("pair of classes", None) as task:
                    pair = Pair(kernel, of_pair, signs, weights, random, run, task)
                    found.append((of_pair, self._train(pair)))
        self._assemble(data, labels, found)
        return self

    @abstractmethod
    def _train(self, pair: Pair) -> Expansion:
        """Tell two classes apart."""

    def _drawn(
        self, rows: NDArray[np.intp], n_rows: int, random: np.random.RandomState
    ) -> NDArray[np.intp]:
        """The rows of a class to train on, of ``n_rows`` rows in all."""
        return rows

    def _precision(self) -> float:
        """How precisely sums of kernel values are needed."""
        return min(getattr(self, "tol", 1e-3), 1e-3)

    def _coefficient_norm(self, n_rows: int) -> float:
        """What the norm of an expansion's coefficients does not exceed."""
        return self.C * float(np.sqrt(n_rows))

    def _assemble(self, X, labels, found: list[tuple[NDArray[np.intp], Expansion]]) -> None:
        support, self.n_support_, dual, self.intercept_ = one_vs_one.assemble(
            labels,
            [one_vs_one.Expansion(rows, own.coefs, own.offset) for rows, own in found],
        )
        self.support_ = support.astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else X[support]
        self.dual_coef_ = type(X)(dual) if sp.issparse(X) else dual
        self.n_iter_ = np.array([one.n_iter for _, one in found], dtype=np.int32)
        self.fit_status_ = int(not all(one.converged for _, one in found))
        if self.fit_status_:
            warn(
                f"{type(self).__name__} stopped before it had converged: raise max_iter, scale "
                "the data, or lower C.",
                ConvergenceWarning,
            )


class Scored(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """A classifier that predicts from values of its own: one for each row, or one per class."""

    classes_: NDArray

    @abstractmethod
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Positive for the second of two classes; of more, the largest wins."""

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        values = self.decision_function(X)
        if values.ndim == 1:
            return self.classes_[(values > 0).astype(np.intp)]
        return self.classes_[values.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
