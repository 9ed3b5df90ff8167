"""Representative sets: the paper's DeriveRS, and the estimator that computes them.

A set of M rows with weights beta stands for N rows: within each class, every row lies within
``hull_tol`` (a squared distance in kernel space) of a convex combination of representatives,

    z_i = sum_t gamma_it z_t + tau_i,   |tau_i|^2 <= hull_tol,   beta_t = sum_i w_i gamma_it.

Equal rows of a class are merged first. Each class is then cut into subsets of similar rows
(``partition``), and each subset is reduced by itself (``hull``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from aesvm.base import (
    REDUCTION_CONSTRAINTS,
    Progress,
    Threads,
    all_or_nothing,
    one_blas_thread,
    say,
    validated_rows,
    warn,
)
from aesvm.distinct import distinct_rows
from aesvm.kernels import (
    KernelMatrix,
    bounded,
    check_symmetric,
    kernel_matrix,
    resolve_gamma,
)
from aesvm.reduction import Representatives, Settings, derive
from aesvm.streaming import STREAM_CONSTRAINTS, Streaming
from aesvm.tree import Held, Tree, reached

#: A kernel value is trusted down to this many units of rounding.
_ROUNDINGS = 1000


class Merged(NamedTuple):
    """The distinct rows and the weight of each, and who represents them; by row of X."""

    distinct: NDArray[np.intp]
    weights: NDArray[np.float64]
    found: Representatives
    kernel: KernelMatrix


class RepresentativeSet(CallbackSupportMixin, Streaming, BaseEstimator):
    """A small weighted subset of the rows that stands for all of them in kernel space.

    The rows that remain span, class by class, a convex hull that every row lies within
    ``hull_tol`` of: the approximate extreme points of the paper's AESVM. They come with
    weights, so any estimator that takes ``sample_weight`` can be trained on them.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel whose space distances are measured in. A callable takes two arrays of
        rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the "rbf", "poly" and "sigmoid" kernels, as in scikit-learn.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Independent term of the "poly" and "sigmoid" kernels.
    hull_tol : float, default=1e-3
        Largest squared distance in kernel space between a row and the combination of
        representatives that stands for it (the paper's epsilon). It is absolute: the
        "linear" and "poly" kernels want scaled data. 0 merges equal rows of a class and
        does nothing else.
    subset_size : int, default=1000
        Rows reduced together (the paper's V). Larger subsets give smaller sets and take
        longer; each thread holds a kernel block of ``subset_size ** 2`` values.
    partition_size : int, default=100_000
        Rows of the coarse pieces that are cut into subsets (the paper's P).
    partition : {"distance", "sequence"}, default="distance"
        How the coarse pieces are made: by distance in kernel space (FLS2), or consecutive
        rows (FLS1), for data whose order carries its similarity.
    keep_combinations : bool, default=False
        Keep the matrix that writes every row as a combination of representatives.
    memory_budget : int or str, default=None
        Of streams: bytes for the rows that are held, as a number or as in "2 GiB"; None is no
        limit.
    on_overflow : {"raise", "loosen"}, default="raise"
        Of streams, where the budget cannot hold the set: an error, or a larger tolerance, which is
        warned of and shows in ``max_residual_``.
    n_jobs : int, default=None
        Threads. None is one, -1 all processors. The result does not depend on it.
    verbose : int, default=0
        1 prints what is done, a few lines in all. For a progress bar, see
        ``sklearn.callback.ProgressBar``.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_representatives,)
        Rows of X that represent, ascending; of a stream, counted from its beginning.
    weights_ : ndarray of shape (n_representatives,)
        How much of the total weight each of them carries (the paper's beta). Their sum is
        the sum of ``sample_weight``, in every class.
    residuals_ : ndarray of shape (n_samples,)
        Squared distance of each row to the combination that stands for it; NaN for rows of
        weight zero, which nothing stands for.
    max_residual_ : float
        The largest of them, at most ``hull_tol`` (up to the rounding of kernel values). Of a stream
        it is a bound: what the levels of sets have added up to.
    n_subsets_ : int
        Subsets into which the distinct rows were cut.
    reduced_ : bool
        Whether subsets were reduced. False where ``hull_tol`` is 0, and where reducing was
        given up because a few subsets, spread over all of them, kept over nine tenths of their
        rows; then every distinct row represents itself.
    combinations_ : scipy.sparse.csr_array of shape (n_samples, n_representatives)
        With ``keep_combinations``: convex weights of the representatives in each row (the
        paper's Gamma). Rows of weight zero are empty.
    gamma_ : float
        The value used.
    n_seen_ : int
        Of ``partial_fit``: rows so far.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    M. Nandan, P. P. Khargonekar, S. S. Talathi, "Fast SVM Training Using Approximate Extreme
    Points", Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from aesvm import RepresentativeSet
    >>> X, y = make_moons(5000, noise=0.1, random_state=0)
    >>> X_small, y_small, weights = RepresentativeSet(gamma=1.0).fit_select(X, y)
    >>> len(X_small) < 500
    True
    >>> model = SVC(gamma=1.0).fit(X_small, y_small, sample_weight=weights)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    _enough: float | None = None  # as in Settings: of the sets that a stream goes through
    _parameter_constraints: ClassVar[dict] = {
        **REDUCTION_CONSTRAINTS,
        "keep_combinations": ["boolean"],
        **STREAM_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        hull_tol: float = 1e-3,
        subset_size: int = 1000,
        partition_size: int = 100_000,
        partition: str = "distance",
        keep_combinations: bool = False,
        memory_budget: int | str | None = None,
        on_overflow: str = "raise",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.hull_tol = hull_tol
        self.subset_size = subset_size
        self.partition_size = partition_size
        self.partition = partition
        self.keep_combinations = keep_combinations
        self.memory_budget = memory_budget
        self.on_overflow = on_overflow
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @all_or_nothing
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> RepresentativeSet:
        """Compute the representative set of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows, or with ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,), default=None
            Classes. Without them all rows belong together.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; those of weight zero are left out.
        groups : array-like of shape (n_samples,), default=None
            A further division: rows of different groups never stand for each other.

        Returns
        -------
        self : RepresentativeSet
        """
        self._validate_params()
        self._forget_stream()
        data, labels, weights = self._validate(X, y, sample_weight, groups)
        fit_task = self._init_callback_context(max_subtasks=2)
        fit_task.call_on_fit_task_begin(estimator=self, X=data, y=y)

        with one_blas_thread, Threads(self.n_jobs) as run:
            gamma = resolve_gamma(self.gamma, data, self.kernel)
            self._represent(data, labels, weights, gamma, run, Progress(self, fit_task))
        fit_task.call_on_fit_task_end(estimator=self, X=data, y=y)
        return self

    def fit_select(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> tuple[Any, Any, NDArray[np.float64]]:
        """Compute the set, and return what another estimator is trained with.

        Parameters are those of ``fit``.

        Returns
        -------
        X_selected : of the kind of X, shape (n_representatives, n_features)
            With ``kernel="precomputed"``, the representatives' own kernel matrix.
        y_selected : of the kind of y, shape (n_representatives,), or None
        weights : ndarray of shape (n_representatives,)
            To be passed as ``sample_weight``.
        """
        rows: Any = X
        if sp.issparse(rows):
            rows = rows.tocsr()
        elif isinstance(rows, list | tuple):
            rows = np.asarray(rows)
        self.fit(rows, y, sample_weight=sample_weight, groups=groups)
        selected = _safe_indexing(rows, self.sample_indices_)
        if self.kernel == "precomputed":
            selected = _safe_indexing(selected, self.sample_indices_, axis=1)
        return (
            selected,
            None if y is None else _safe_indexing(y, self.sample_indices_),
            self.weights_,
        )

    def _reduced(
        self, held: Held, tolerance: float, enough: float | None, run, progress: Progress
    ) -> Held:
        return reduced(self, held, tolerance, self.gamma_, run, progress, enough)

    def _representative_set(self, hull_tol: float) -> RepresentativeSet:
        parameters = {**self.get_params(deep=False), "gamma": self.gamma_, "hull_tol": hull_tol}
        return RepresentativeSet(**parameters)

    def _tell(self, tree: Tree, at_end: bool, run, progress: Progress) -> None:
        super()._tell(tree, at_end, run, progress)
        self._describe(tree)

    def _describe(self, tree: Tree) -> None:
        held = tree.sets()
        indices = np.concatenate([one.indices for one in held])
        order = np.argsort(indices)
        self.sample_indices_ = indices[order]
        self.weights_ = np.concatenate([one.weights for one in held])[order]
        self.max_residual_ = tree.reach**2
        for name in ("residuals_", "combinations_", "n_subsets_", "reduced_"):
            self.__dict__.pop(name, None)  # of a fit before: a stream has none

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "sample_indices_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = False
        return tags

    def _validate(self, X, y, sample_weight, groups):
        """The rows, the label of each (class and group together) and its weight."""
        X = validated_rows(self, X, reset=True)
        self._check(X)
        labels = np.zeros(X.shape[0], dtype=np.intp)
        if y is not None:
            check_consistent_length(X, y)
            y = column_or_1d(y, warn=True)
            if y.dtype.kind not in "biu":  # whole numbers are classes: no need to look
                check_classification_targets(y)
            labels = np.unique(y, return_inverse=True)[1]
        if groups is not None:
            check_consistent_length(X, groups)
            try:
                codes = np.unique(column_or_1d(groups), return_inverse=True)[1]
            except TypeError as error:
                raise ValueError(
                    "groups has values of different kinds that cannot be compared: use numbers "
                    "or strings, and none missing."
                ) from error
            labels = np.unique(labels * (codes.max() + 1) + codes, return_inverse=True)[1]
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return X, labels, weights

    def _check(self, X) -> None:
        """Refuse parameters that do not fit each other, or the rows."""
        if self.subset_size > self.partition_size:
            raise ValueError(
                f"subset_size={self.subset_size} is larger than "
                f"partition_size={self.partition_size}: it must be at most that."
            )
        if self.kernel == "precomputed":
            check_symmetric(X)

    def _represent(
        self,
        X,
        labels,
        weights,
        gamma: float,
        run,
        progress: Progress,
        refined_to: float | None = None,
    ) -> Merged:
        """The fitted attributes, of valid rows; and the set as it stands for the distinct ones.

        ``refined_to``: the tolerance of the finest set that is to be made of these rows. Then
        the distinct rows' combinations are returned, and kernel values precise enough for it.
        """
        started = time.perf_counter()
        same_as = merge(X, labels, weights, run)
        distinct = np.flatnonzero(same_as == np.arange(len(same_as)))
        used = same_as >= 0
        merged = np.bincount(same_as[used], weights[used], len(labels)).astype(float)
        progress.say(
            f"{len(labels):,} rows, {len(np.unique(labels)):,} classes, {len(distinct):,} "
            "distinct rows of non-zero weight"
        )
        order = np.argsort(labels[distinct], kind="stable")
        edges = np.flatnonzero(np.diff(labels[distinct][order])) + 1
        finest = self.hull_tol if refined_to is None else min(self.hull_tol, refined_to)
        kernel = self._kernel_matrix(X, gamma, distinct, finest)
        settings = Settings(
            self.hull_tol,
            self.subset_size,
            self.partition_size,
            self.partition,
            self.keep_combinations or (refined_to is not None and self.hull_tol > 0),
            self._enough,
        )
        classes = np.split(distinct[order], edges)
        derived = derive(kernel, classes, merged, settings, run, progress)
        if derived.kept_of is not None:
            self._say_given_up(*derived.kept_of, len(distinct))
        found = derived.found
        if not self.keep_combinations:
            found = found._replace(combinations=None)
        found = found.spread(same_as)
        self.sample_indices_ = selected = found.selected
        self.weights_ = found.weights
        self.residuals_ = found.residuals
        self.max_residual_ = float(np.nanmax(found.residuals))
        self.__dict__.pop("combinations_", None)  # an earlier fit's
        if self.keep_combinations:
            self.combinations_ = found.combinations
        self.n_subsets_ = derived.n_subsets
        self.reduced_ = derived.reduced
        self.gamma_ = gamma
        progress.say(
            f"{len(selected):,} representatives ({len(selected) / len(labels):.1%}), largest "
            f"residual {self.max_residual_:.3g}, {time.perf_counter() - started:.1f} s"
        )
        return Merged(distinct, merged, derived.found, kernel)

    def _say_given_up(self, seen: int, kept: int, total: int) -> None:
        message = (
            f"{seen:,} of {total:,} distinct rows were reduced, and {kept / seen:.1%} of them "
            "kept: there is little to gain, so every distinct row represents itself. A larger "
            "hull_tol, a larger subset_size or a smaller gamma would reduce more."
        )
        say(self, message)
        warn(message)

    def _kernel_matrix(
        self, X, gamma: float, distinct: NDArray[np.intp], hull_tol: float
    ) -> KernelMatrix:
        """The kernel matrix, in a precision that can tell residuals from rounding."""

        def of(dtype) -> KernelMatrix:
            return kernel_matrix(
                X,
                kernel=self.kernel,
                gamma=gamma,
                degree=self.degree,
                coef0=self.coef0,
                dtype=dtype,
                accuracy=hull_tol / 100,
            )

        if hull_tol == 0:
            return of(np.float64)
        kernel = of(np.float64 if callable(self.kernel) else X.dtype)
        largest = bounded(kernel, self.kernel, distinct)
        if hull_tol >= _ROUNDINGS * np.finfo(kernel.dtype).eps * largest:
            return kernel
        if hull_tol < _ROUNDINGS * np.finfo(np.float64).eps * largest:
            warn(
                f"hull_tol={hull_tol:g} is close to the rounding of kernel values as "
                f"large as {largest:.3g}: scale the data, or raise hull_tol."
            )
        return of(np.float64)


class _Quiet(RepresentativeSet):
    """One of the many sets that a stream goes through."""

    def _say_given_up(self, seen: int, kept: int, total: int) -> None:
        """Say nothing: the next one may do better."""


def reduced(
    settings: RepresentativeSet,
    held: Held,
    tolerance: float,
    gamma: float,
    run,
    progress: Progress,
    enough: float | None = None,
) -> Held:
    """Some weighted rows by their representatives, with an estimator's settings.

    Where more than a share of ``enough`` would be kept, all that are different are.
    """
    chosen, merged = represented(settings, held, tolerance, gamma, run, progress, enough=enough)
    if enough is not None and len(chosen.sample_indices_) > enough * len(merged.distinct):
        return reached(held, merged.distinct, merged.weights[merged.distinct], 0.0)
    return reached(held, chosen.sample_indices_, chosen.weights_, chosen.max_residual_)


def represented(
    settings: RepresentativeSet,
    held: Held,
    tolerance: float,
    gamma: float,
    run,
    progress: Progress,
    combinations: bool = False,
    enough: float | None = None,
) -> tuple[RepresentativeSet, Merged]:
    """The set of some weighted rows, with an estimator's settings; and who stands for whom."""
    own = {"hull_tol": tolerance, "keep_combinations": False}
    chosen = _Quiet(**{**settings.get_params(deep=False), **own})
    chosen._enough = enough
    chosen._check(held.X)
    labels = np.unique(held.y, return_inverse=True)[1]
    refined_to = tolerance if combinations else None
    merged = chosen._represent(held.X, labels, held.weights, gamma, run, progress, refined_to)
    return chosen, merged


def merge(X, labels, weights, run) -> NDArray[np.intp]:
    """For every row the first one equal to it in its class, -1 for rows of weight zero."""
    rows = np.flatnonzero(weights)
    everything_counts = len(rows) == len(labels)
    first, inverse = distinct_rows(X if everything_counts else X[rows], labels[rows], run)
    same_as = np.full(len(labels), -1)
    same_as[rows] = rows[first[inverse]]
    return same_as
