"""What the rivals share: validation, pairs of classes, and a kernel expansion to predict with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from aesvm import one_vs_one
from aesvm.base import (
    REDUCTION_CONSTRAINTS,
    Progress,
    Threads,
    all_or_nothing,
    one_blas_thread,
    validated_rows,
    warn,
)
from aesvm.kernels import (
    KernelMatrix,
    bounded,
    check_symmetric,
    in_enough_precision,
    resolve_gamma,
)
from aesvm.one_vs_one import Trained
from aesvm.voting import Voting

#: Parameter constraints of an estimator with a kernel, and of one that draws random numbers.
KERNEL_CONSTRAINTS: dict[str, list] = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    **{
        name: REDUCTION_CONSTRAINTS[name]
        for name in ("kernel", "gamma", "degree", "coef0", "n_jobs", "verbose")
    },
}
RANDOM_CONSTRAINTS: dict[str, list] = {"random_state": ["random_state"]}
CACHE_CONSTRAINTS: dict[str, list] = {
    "cache_size": [Interval(Real, 0.0, None, closed="left")],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
}


def validated_classes(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[np.intp]]:
    """Rows, and the class of each by number; ``classes_`` is set."""
    data = validated_rows(estimator, X, reset=True)
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    check_consistent_length(data, y)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    estimator.classes_, labels = np.unique(y, return_inverse=True)
    if len(estimator.classes_) < 2:
        raise ValueError(
            f"y has 1 class ({estimator.classes_.tolist()}): {name} needs at least two classes."
        )
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


class PairwiseSVM(CallbackSupportMixin, Voting, ClassifierMixin, BaseEstimator):
    """A kernel SVM of two classes at a time, whose expansion is over training rows.

    A subclass says how a pair of classes is trained (``_train``). Fitted attributes are SVC's.
    """

    C: float
    tol: float
    random_state: Any
    verbose: int
    decision_function_shape = "ovr"
    break_ties = True  # as one-vs-rest, so that predictions are the largest decision values

    _parameter_constraints: ClassVar[dict] = {**KERNEL_CONSTRAINTS, **RANDOM_CONSTRAINTS}

    @with_callbacks
    @all_or_nothing
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
        self._validate_params()
        data, labels = validated_classes(self, X, y)
        if self.kernel == "precomputed":
            check_symmetric(data)
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self, X=data, y=y)
        self.gamma_ = resolve_gamma(self.gamma, data, self.kernel)
        rows = np.arange(len(labels))
        precision = self._precision()
        bounded(self._kernel_of(data, precision, np.float64), self.kernel, rows)
        random = check_random_state(self.random_state)
        classes = [np.flatnonzero(labels == c) for c in range(len(self.classes_))]
        used = [self._drawn(of_class, len(labels), random) for of_class in classes]
        found = []
        with one_blas_thread, Threads(self.n_jobs) as run:
            kernel = in_enough_precision(
                partial(self._kernel_of, data, precision / 10),
                rows,
                np.array([self._coefficient_norm(len(rows))]),
                precision,
            )
            for i, j in combinations(range(len(classes)), 2):
                of_pair = np.sort(np.concatenate([used[i], used[j]]))
                signs = np.where(labels[of_pair] == i, 1.0, -1.0)
                shares = [len(classes[c]) / len(used[c]) for c in (i, j)]
                weights = np.where(signs > 0, shares[0], shares[1])
                with Progress(self, task).task("pair of classes", None) as progress:
                    pair = Pair(kernel, of_pair, signs, weights, random, run, progress)
                    found.append((of_pair, self._train(pair)))
        self._assemble(data, labels, found)
        task.call_on_fit_task_end(estimator=self, X=data, y=y)
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
        return min(self.tol, 1e-3)

    def _coefficient_norm(self, n_rows: int) -> float:
        """What the norm of an expansion's coefficients does not exceed."""
        return self.C * float(np.sqrt(n_rows))

    def _assemble(self, X, labels, found: list[tuple[NDArray[np.intp], Expansion]]) -> None:
        support, self.n_support_, dual, self.intercept_ = one_vs_one.assemble(
            labels, [Trained(rows, one.coefs, one.offset) for rows, one in found]
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


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
