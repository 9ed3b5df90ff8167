"""RepresentativeSet: the estimator of the paper's representative sets.

A set of M rows with weights beta stands for N rows: within each class, every row lies within
``hull_tol`` (a squared distance in kernel space) of a convex combination of representatives,

    z_i = sum_t gamma_it z_t + tau_i,   |tau_i|^2 <= hull_tol,   beta_t = sum_i w_i gamma_it.

How they are found is in ``sets``; how a stream of rows is reduced, in ``out_of_core``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.fitting import fit_method, fitting, forget
from aesvm.estimators.parameters import by_name, kernel_spec, reduction_settings
from aesvm.estimators.streams import (
    available_for_streams,
    check_streams,
    extended,
    new_stream,
    streamed_from,
    takes_source,
)
from aesvm.estimators.validation import (
    REDUCTION_CONSTRAINTS,
    STREAM_CONSTRAINTS,
    from_gpu,
    valid_chunk,
    valid_classes,
    valid_weights,
    validated_rows,
    with_or_without_classes,
)
from aesvm.io.model_file import plain_state, save, set_plain_state
from aesvm.kernels import check_symmetric, resolve_gamma
from aesvm.machines.processor import processor
from aesvm.machines.represent import Represented, represent
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.stream import Stream
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress, say
from aesvm.runtime.scikit_learn import CallbackSupportMixin, safe_indexing
from aesvm.runtime.warn import warn
from aesvm.sets.derive import GivenUp


class RepresentativeSet(CallbackSupportMixin, LinkedToDocumentation, BaseEstimator):
    """A small, weighted subset of the rows that stands for all of them in kernel space.

    Class by class, every row lies within ``hull_tol`` of the convex hull of the representatives:
    the approximate extreme points of the paper's AESVM. They have weights, so any estimator that
    takes ``sample_weight`` can be trained on them.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel. Distances are measured in its space. A callable takes two arrays of rows and
        returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the "rbf", "poly" and "sigmoid" kernels, as in scikit-learn.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Independent term of the "poly" and "sigmoid" kernels.
    hull_tol : float, default=1e-3
        Largest squared distance in kernel space between a row and the combination of
        representatives that stands for it (the paper's epsilon). It is absolute: scale the data
        for the "linear" and "poly" kernels. 0 merges equal rows of a class and does nothing else.
    subset_size : int, default=1000
        Number of rows that are reduced together (the paper's V). Larger subsets give smaller sets
        and take longer. Each thread holds a kernel block of ``subset_size ** 2`` values.
    partition_size : int, default=100_000
        Number of rows of the partitions that are cut into subsets (the paper's P).
    partition : {"distance", "sequence"}, default="distance"
        How the partitions are made: by distance in kernel space (the paper's FLS2), or from
        consecutive rows (FLS1), for data whose order carries its similarity.
    keep_combinations : bool, default=False
        Keep the matrix that writes every row as a combination of representatives.
    memory_budget : int or str, default=None
        In streams: bytes for the rows that are held, as a number or as in "2 GiB". None is no
        limit.
    on_overflow : {"raise", "loosen"}, default="raise"
        In streams, what to do if the set exceeds the budget: raise an error, or loosen the
        tolerance and in the end hold a random sample. A warning and ``max_residual_`` say so.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        What computes: the processor, or an NVIDIA GPU by number (``pip install "aesvm[gpu]"``).
        See docs/gpu.md.
    n_jobs : int, default=None
        Number of threads. None is one, -1 all processors. The result does not depend on it.
    verbose : int, default=0
        1 prints what is done, in a few lines. For a progress bar, see
        ``sklearn.callback.ProgressBar``.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_representatives,)
        Indices of the representatives in X, ascending. In a stream they count from its beginning.
    weights_ : ndarray of shape (n_representatives,)
        Weight of each representative (the paper's beta). In every class they add up to the sum of
        ``sample_weight``.
    residuals_ : ndarray of shape (n_samples,)
        Squared distance between each row and the combination that stands for it. NaN for rows of
        weight zero.
    max_residual_ : float
        The largest residual, at most ``hull_tol`` (up to the rounding of kernel values). In a
        stream it is a bound.
    n_subsets_ : int
        Number of subsets into which the distinct rows were cut.
    reduced_ : bool
        Whether subsets were reduced. False if ``hull_tol`` is 0, or if a few subsets, spread over
        all, kept over nine tenths of their rows. Then every distinct row represents itself.
    combinations_ : scipy.sparse.csr_array of shape (n_samples, n_representatives)
        Convex weights of the representatives in each row (the paper's Gamma). Rows of weight zero
        are empty. Only with ``keep_combinations``.
    gamma_ : float
        The value of gamma that was used.
    n_seen_ : int
        Number of rows so far. Only with ``partial_fit``.
    device_ : str
        The device that computed the set: "cpu", or "cuda:0".
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has names that are strings.

    See Also
    --------
    AESVC : SVMs that use representatives where the exact SVM takes too long.

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

    _parameter_constraints: ClassVar[dict] = {
        **REDUCTION_CONSTRAINTS,
        "keep_combinations": ["boolean"],
        **STREAM_CONSTRAINTS,
    }

    _stream_: Stream | None  # None where the set is of rows in memory
    _rows_: WeightedRows | None  # the representatives, of rows that are not in memory

    @by_name
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
        device: str = "cpu",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        """Parameters become attributes by ``by_name``."""

    @fit_method
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
            Weights of the rows; rows of weight zero are left out.
        groups : array-like of shape (n_samples,), default=None
            A further division of the rows: rows of different groups never stand for each other.

        Returns
        -------
        self : RepresentativeSet
        """
        forget(self)
        given = X
        X, y, sample_weight = from_gpu(self, X, y, sample_weight)
        data = validated_rows(self, X, reset=True)
        settings = reduction_settings(self)
        if self.kernel == "precomputed":
            check_symmetric(data)
        labels = _groups(data, y, groups)
        weights = valid_weights(sample_weight, data)
        with fitting(self, data, y, n_tasks=2) as (run, progress):
            gamma = resolve_gamma(self.gamma, data, self.kernel)
            spec = kernel_spec(self, gamma)
            there = processor(spec.device).rows(spec, data, given, partial(say, self))
            represented = represent(
                TrainingKernel(spec, data, rows=there),
                labels,
                weights,
                settings,
                run,
                progress,
                keep_combinations=self.keep_combinations,
            )
        warn_given_up(self, represented)
        _warn_cut(progress)
        set_represented(self, represented, gamma)
        return self

    def fit_select(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> tuple[Any, Any, NDArray[np.float64]]:
        """Compute the set, and return rows, classes and weights to train another estimator with.

        The parameters are those of ``fit``.

        Returns
        -------
        X_selected : of the kind of X, shape (n_representatives, n_features)
            With ``kernel="precomputed"``, the representatives' own kernel matrix.
        y_selected : of the kind of y, shape (n_representatives,), or None
        weights : ndarray of shape (n_representatives,)
            To be passed as ``sample_weight``.
        """
        self.fit(X, y, sample_weight=sample_weight, groups=groups)
        rows, classes, _ = from_gpu(self, X, y)
        if sp.issparse(rows):
            rows = rows.tocsr()
        elif isinstance(rows, list | tuple):
            rows = np.asarray(rows)
        selected = safe_indexing(rows, self.sample_indices_)
        if self.kernel == "precomputed":
            selected = safe_indexing(selected, self.sample_indices_, axis=1)
        device = processor(self.device)
        selected = device.like_input(selected, X)
        if y is None:
            return selected, None, self.weights_
        classes = safe_indexing(classes, self.sample_indices_)
        return selected, device.like_input(classes, y), self.weights_

    @available_for_streams
    def partial_fit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows of a stream, which need not fit into memory as a whole.

        The first call begins a stream, as does the first call after ``fit``. ``gamma`` must be a
        number.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The next rows. None: reduce the rows that are waiting.
        y : array-like of shape (n_samples,), default=None
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights; rows of weight zero are left out.

        Returns
        -------
        self : object

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import RepresentativeSet
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> stream = RepresentativeSet(gamma=1.0)
        >>> for first in range(0, 20_000, 5_000):
        ...     rows = slice(first, first + 5_000)
        ...     stream = stream.partial_fit(X[rows], y[rows])
        >>> stream = stream.partial_fit()
        >>> len(stream.sample_indices_) < 1_000
        True
        >>> float(round(stream.weights_.sum(), 6))
        20000.0
        """
        before: Stream | None = getattr(self, "_stream_", None)
        if before is None:
            if X is None:
                raise ValueError("partial_fit without X needs rows of a stream that has begun.")
            forget(self)
            before = new_stream(self, self.hull_tol)
        with fitting(self) as (run, progress):
            validate = partial(valid_chunk, with_or_without_classes, self)
            stream = extended(self, before, X, y, sample_weight, validate, run, progress)
        set_stream(self, stream)
        return self

    @takes_source
    def fit_stream(self, source: Iterable[tuple[Any, Any, Any]]) -> Self:
        """Compute the representative set of all chunks of a source.

        Parameters
        ----------
        source : iterable of (X, y, sample_weight)
            Chunks of rows; y and sample_weight may be None. The readers of ``aesvm.io`` are such
            sources. One that can be iterated over again is read twice where ``gamma`` is "scale",
            and by AESVC twice more for each of the rounds that ``refine`` asks for.

        Returns
        -------
        self : object

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import RepresentativeSet
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> parts = [slice(first, first + 5_000) for first in range(0, 20_000, 5_000)]
        >>> chunks = [(X[part], y[part], None) for part in parts]
        >>> stream = RepresentativeSet().fit_stream(chunks)
        >>> stream.n_seen_
        20000
        """
        check_streams(self, source)
        forget(self)
        with fitting(self) as (run, progress):
            validate = partial(valid_chunk, with_or_without_classes, self)
            stream = streamed_from(self, source, self.hull_tol, validate, run, progress)
        _warn_cut(progress)
        set_stream(self, stream)
        return self

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives of a stream: what another estimator is trained with.

        Returns
        -------
        X_selected : of the kind of the rows, shape (n_representatives, n_features)
        y_selected : ndarray of shape (n_representatives,)
            Zeros where the stream has no classes.
        weights : ndarray of shape (n_representatives,)
            To be passed as ``sample_weight``.
        """
        check_is_fitted(self)
        if self._rows_ is None:
            raise ValueError(
                "select returns the representatives of a stream, and this set was fitted to X: "
                "X[sample_indices_] are its representatives."
            )
        return self._rows_.columns()

    save = save
    __getstate__ = plain_state
    __setstate__ = set_plain_state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "sample_indices_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = False
        return tags


def _groups(X: Any, y: Any, groups: Any) -> NDArray[np.intp]:
    """Class and group of each row together, by number."""
    labels = np.zeros(X.shape[0], dtype=np.intp)
    if y is not None:
        labels = np.unique(valid_classes(y, X), return_inverse=True)[1]
    if groups is not None:
        check_consistent_length(X, groups)
        try:
            codes = np.unique(column_or_1d(groups), return_inverse=True)[1]
        except (TypeError, ValueError) as error:
            raise ValueError(
                "groups has values that cannot be compared: use numbers or strings, one for each "
                "row and none missing."
            ) from error
        labels = np.unique(labels * (codes.max() + 1) + codes, return_inverse=True)[1]
    return labels


def warn_given_up(estimator: Any, represented: Represented) -> None:
    """Warn where reducing was given up."""
    given_up: GivenUp | None = represented.derived.given_up
    if given_up is not None:
        message = given_up.message(len(represented.prepared.rows))
        say(estimator, message)
        warn(message)


def _warn_cut(progress: Progress) -> None:
    """Warn where a callback has cut a fit short."""
    message = progress.ending.message()
    if message:
        warn(message)


def set_represented(chosen: Any, represented: Represented, gamma: float) -> None:
    """Write the fitted attributes of a set of rows in memory."""
    derived = represented.derived
    found = derived.found
    if not chosen.keep_combinations:
        found = found._replace(combinations=None)
    found = found.for_equal_rows(represented.prepared.same_as)
    chosen.sample_indices_ = found.selected
    chosen.weights_ = found.weights
    chosen.residuals_ = found.residuals
    chosen.max_residual_ = represented.max_residual
    if chosen.keep_combinations:
        chosen.combinations_ = found.combinations
    chosen.n_subsets_ = derived.n_subsets
    chosen.reduced_ = derived.reduced
    chosen.gamma_ = gamma
    chosen.device_ = processor(chosen.device).name
    chosen._stream_ = chosen._rows_ = None


def set_rows(chosen: Any, rows: WeightedRows, n_seen: int, gamma: float) -> None:
    """Write the fitted attributes of a set of rows that are not in memory."""
    chosen.sample_indices_ = rows.indices
    chosen.weights_ = rows.weights
    chosen.max_residual_ = rows.reach**2
    chosen.n_seen_ = n_seen
    chosen.gamma_ = gamma
    chosen.device_ = processor(chosen.device).name
    chosen._stream_ = None
    chosen._rows_ = rows


def set_stream(chosen: Any, stream: Stream) -> None:
    """Write the fitted attributes of the set of a stream."""
    set_rows(chosen, stream.tree.everything(), stream.n_rows, stream.spec.gamma)
    chosen._stream_ = stream


#: Parameters of an estimator that its set has too.
_SHARED = (
    "kernel",
    "degree",
    "coef0",
    "subset_size",
    "partition_size",
    "partition",
    "device",
    "n_jobs",
    "verbose",
)


def set_of(estimator: Any, hull_tol: float) -> RepresentativeSet:
    """The set that belongs to another estimator, with its parameters; not yet fitted."""
    shared = {name: getattr(estimator, name) for name in _SHARED}
    chosen = RepresentativeSet(**shared, gamma=estimator.gamma_, hull_tol=hull_tol)
    chosen.n_features_in_ = estimator.n_features_in_
    return chosen
