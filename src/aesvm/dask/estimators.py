"""DaskAESVC and DaskRepresentativeSet: the estimators, with rows on a cluster."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from numpy.typing import NDArray
from sklearn.callback import with_callbacks
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from aesvm.base import Progress, Threads, all_or_nothing, fitted_attributes, one_blas_thread
from aesvm.certificate import Certificate, check_unchanged
from aesvm.dask.cluster import Cluster, Tally
from aesvm.dask.partitions import Partition, is_lazy, one_block_of_columns, partitions
from aesvm.gathered import Census
from aesvm.kernels import resolve_gamma
from aesvm.kernels.functions import WITH_GAMMA
from aesvm.refine import COARSER
from aesvm.representative import RepresentativeSet
from aesvm.svc import AESVC
from aesvm.tree import Tree, bytes_of


def _with_parameters_of(parent: type) -> Callable[[Callable], Callable]:
    """Decorate an ``__init__`` with parameters of its own and ``**others``: name those as well.

    scikit-learn reads the parameters of an estimator from the signature.
    """

    def decorate(init: Any) -> Any:
        own = list(inspect.signature(init).parameters.values())[:-1]
        others = list(inspect.signature(parent).parameters.values())
        init.__signature__ = inspect.Signature([*own, *others])
        return init

    return decorate


class _OnCluster:
    """What the estimators share: how they come by a set of all rows."""

    split_every: int
    _without_dask: ClassVar[type]  #: the estimator that works on partitions

    # of the estimator that this is a part of
    kernel: Any
    gamma: Any
    hull_tol: float
    memory_budget: int | str | None
    n_jobs: int | None
    _validate_params: Any
    _init_callback_context: Any

    def _not_here(self) -> None:
        raise AttributeError(
            f"{type(self).__name__} takes whole collections: for rows that come in pieces, there "
            "are partial_fit and fit_stream of the estimator without Dask."
        )

    partial_fit: Any = property(_not_here)
    fit_stream: Any = property(_not_here)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._validate_params()
        bytes_of(self.memory_budget)
        if self.kernel == "precomputed":
            raise ValueError(
                'kernel="precomputed" is the kernel matrix of all rows, and these are not in one '
                "place: use another kernel, or a callable."
            )
        rows = partitions(X, y, sample_weight)
        for name in fitted_attributes(self):
            delattr(self, name)
        if isinstance(X, dd.DataFrame):
            _check_feature_names(self, X._meta, reset=True)
        self.n_features_in_ = X.shape[1]
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        progress = Progress(self, task)
        with (
            self._cluster(rows, progress) as cluster,
            one_blas_thread,
            Threads(self.n_jobs) as run,
        ):
            if self.gamma == "scale" and self.kernel in WITH_GAMMA:
                self.gamma_ = cluster.scale()
            else:
                self.gamma_ = resolve_gamma(self.gamma, np.empty((1, X.shape[1])), self.kernel)
            self._travelling(_REDUCING)._representative_set(self.hull_tol)._check(None)
            self._fit_on(cluster, run, progress)
        task.call_on_fit_task_end(estimator=self)

    def _travelling(self, attributes: tuple[str, ...]) -> Any:
        """The estimator without Dask, with some fitted attributes: what workers are sent."""
        names = set(inspect.signature(self._without_dask).parameters) - {"n_jobs", "verbose"}
        sent = self._without_dask(**{name: getattr(self, name) for name in names})
        for name in attributes:
            if hasattr(self, name):
                setattr(sent, name, getattr(self, name))
        return sent

    def _cluster(self, rows: list[Partition], progress: Progress) -> Cluster:
        return Cluster(partial(self._travelling, _REDUCING), rows, self.split_every, progress)

    def _fit_on(self, cluster: Cluster, run: Any, progress: Progress) -> None:
        raise AssertionError("an estimator says what it does with its rows")


class DaskRepresentativeSet(_OnCluster, RepresentativeSet):
    """RepresentativeSet of rows that lie on a cluster.

    Every partition is reduced where it is, class by class; the sets are put together and reduced
    again, ``split_every`` at a time. The tolerance of each level is that of a stream, so that all
    levels together stay within ``hull_tol``. The result depends on the partitions, and not on the
    workers.

    Parameters
    ----------
    split_every : int, default=16
        Sets that are put together at a time.
    **parameters
        Those of :class:`aesvm.RepresentativeSet`. ``memory_budget`` is for the set that comes here;
        ``n_jobs`` plays no role: how many tasks a worker does at a time is Dask's to say.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_representatives,)
        Rows of X that represent, ascending.
    weights_ : ndarray of shape (n_representatives,)
    max_residual_ : float
        A bound: what the levels of sets have added up to.
    n_seen_ : int
        Rows of X.
    gamma_, n_features_in_, feature_names_in_
        As in :class:`aesvm.RepresentativeSet`.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from aesvm.dask import DaskRepresentativeSet
    >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, classes = (da.from_array(array, chunks=5_000) for array in (X, y))
    ...     chosen = DaskRepresentativeSet(gamma=1.0).fit(rows, classes)
    >>> X_small, y_small, weights = chosen.select()
    >>> len(X_small) < 1_000
    True
    >>> float(round(weights.sum(), 6))
    20000.0
    """

    _without_dask = RepresentativeSet
    _parameter_constraints: ClassVar[dict] = {
        **RepresentativeSet._parameter_constraints,
        "split_every": [Interval(Integral, 2, None, closed="left")],
    }

    @_with_parameters_of(RepresentativeSet)
    def __init__(self, *, split_every: int = 16, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.split_every = split_every

    @with_callbacks
    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> DaskRepresentativeSet:
        """Compute the representative set of X.

        Parameters
        ----------
        X : dask array or dask dataframe of shape (n_samples, n_features)
            Its chunk sizes need not be known.
        y : dask array or series of shape (n_samples,), default=None
            Classes, in the partitions of X. Without them all rows belong together.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Weights of the rows; those of weight zero are left out.
        groups : None
            Not on a cluster: make classes of them.

        Returns
        -------
        self : DaskRepresentativeSet
        """
        if groups is not None:
            raise ValueError("groups is given: on a cluster, make them a part of y.")
        if self.keep_combinations:
            raise ValueError(
                "keep_combinations=True: combinations of rows on many machines are not kept."
            )
        self._fit(X, y, sample_weight)
        return self

    def fit_select(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> tuple[Any, Any, NDArray[np.float64]]:
        """Compute the set, and return its rows, their classes and weights (see ``select``)."""
        self.fit(X, y, sample_weight, groups)
        rows, classes, weights = self.select()
        return rows, None if y is None else classes, weights

    def _fit_on(self, cluster: Cluster, run: Any, progress: Progress) -> None:
        tree, _ = cluster.gather(self.hull_tol, keep=False)
        self._keep(self._planted(), tree)
        self.n_seen_ = tree.n_rows
        self._describe(tree)


class DaskAESVC(_OnCluster, AESVC):
    """AESVC of rows that lie on a cluster.

    Every partition is reduced where it is, class by class, and the sets are put together on the
    workers. The SVM of the set is trained here. In the rounds that ``refine`` asks for, every
    partition looks at its rows with that SVM, and sends those near the margin as they are, and
    representatives of the others. The rows themselves never leave the workers. The result depends
    on the partitions, and not on the workers.

    Parameters
    ----------
    split_every : int, default=16
        Sets that are put together at a time.
    **parameters
        Those of :class:`aesvm.AESVC`. ``refine="exact"`` needs all rows in one place, and is not
        available. ``memory_budget`` is for the rows that come here, and ``n_jobs`` for the threads
        that train here: how many tasks a worker does at a time is Dask's to say.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Rows of X that are support vectors, class by class.
    certificate_ : Certificate
        Residuals are bounds: what the levels of sets have added up to.
    others
        As in :class:`aesvm.AESVC`.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from aesvm.dask import DaskAESVC
    >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, classes = (da.from_array(array, chunks=5_000) for array in (X, y))
    ...     model = DaskAESVC(gamma=1.0).fit(rows, classes)
    ...     accuracy = model.score(rows, classes)
    >>> accuracy > 0.98
    True
    >>> model.predict(rows)  # doctest: +ELLIPSIS
    dask.array<...>

    The model works without Dask as well:

    >>> int(model.predict([[0.0, 1.0]])[0])
    0
    """

    _without_dask = AESVC
    _parameter_constraints: ClassVar[dict] = {
        **AESVC._parameter_constraints,
        "split_every": [Interval(Integral, 2, None, closed="left")],
    }

    @_with_parameters_of(AESVC)
    def __init__(self, *, split_every: int = 16, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.split_every = split_every

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DaskAESVC:
        """Train on representatives of all rows, as ``refine`` says.

        Parameters
        ----------
        X : dask array or dask dataframe of shape (n_samples, n_features)
            Its chunk sizes need not be known.
        y : dask array or series of shape (n_samples,)
            Classes, in the partitions of X.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Factors of C by row; rows of weight zero are left out.

        Returns
        -------
        self : DaskAESVC
        """
        if y is None:
            raise ValueError(
                "DaskAESVC requires y to be passed, but the target y is None: pass the classes."
            )
        self._check_not_exact()
        self._fit(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the class of each row; lazily, where X is.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : dask array or ndarray of shape (n_samples,)
        """
        if not is_lazy(X):
            return super().predict(X)
        check_is_fitted(self)
        return self._lazily(X, "predict", self.classes_.dtype, ())

    def decision_function(self, X: Any) -> Any:
        """Signed distances from the margins, as AESVC has them; lazily, where X is.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        values : dask array or ndarray of shape (n_samples,), (n_samples, n_classes) or \
                (n_samples, n_pairs)
        """
        if not is_lazy(X):
            return super().decision_function(X)
        check_is_fitted(self)
        n = len(self.classes_)
        width = n if self.decision_function_shape == "ovr" else n * (n - 1) // 2
        return self._lazily(X, "decision_function", np.dtype(float), () if n == 2 else (width,))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted right.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)
        y : of the kind of X, shape (n_samples,)
        sample_weight : of the kind of X, shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        if not is_lazy(X):
            return super().score(X, y, sample_weight)
        check_is_fitted(self)
        model = dask.delayed(self._travelling(_PREDICTING), traverse=False)
        counts = [dask.delayed(_right)(model, own) for own in partitions(X, y, sample_weight)]
        right, total = np.sum(dask.compute(*counts), axis=0)
        return float(right / total)

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives that the model was trained on first: see ``representative_set_``."""
        check_is_fitted(self)
        return self.representative_set_.select()

    @with_callbacks
    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """Compute the objective that ``certificate_`` lacks, by another look at all rows.

        Parameters
        ----------
        X, y, sample_weight
            What ``fit`` was given.

        Returns
        -------
        certificate : Certificate
            It takes the place of ``certificate_``.
        """
        check_is_fitted(self)
        check_unchanged(self, self._trained_with_)
        rows = partitions(X, y, sample_weight)
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        with self._cluster(rows, Progress(self, task)) as cluster, one_blas_thread:
            if cluster.count(self.hull_tol).digest != self._digest_:
                raise ValueError(
                    f"X, y or sample_weight is not what the model was trained on, shape "
                    f"{self.shape_fit_}: certify wants the same rows, in the same partitions."
                )
            self._look(cluster)
        task.call_on_fit_task_end(estimator=self)
        return self.certificate_

    certify_stream: Any = property(_OnCluster._not_here)

    def _fit_on(self, cluster: Cluster, run: Any, progress: Progress) -> None:
        tree, tally = self._gathered(cluster, COARSER if self.refine else 1.0)
        self._digest_ = tally.digest
        if len(tally.present) < 2:
            raise ValueError(
                f"y has {len(tally.present)} class among the rows of any weight "
                f"({sorted(tally.present)}): classification needs at least two classes."
            )
        census = Census.of(tree.n_rows, tally.counts, tree.everything().y)
        progress.say(f"{tree.n_rows:,} rows reduced, {len(tree.everything()):,} came here")
        finer = partial(self._finer, cluster)
        self._refine_from(cluster, tree, census, run, progress, finer)

    def _gathered(self, cluster: Cluster, coarser: float) -> tuple[Tree, Tally]:
        """The set of all rows, so much more coarsely than ``hull_tol``."""
        hull_tol = coarser * self.hull_tol
        tree, tally = cluster.gather(hull_tol, keep=coarser > 1.0)
        self._warn_if_looser(hull_tol, tree)
        return tree, tally

    def _finer(self, cluster: Cluster) -> Tree:
        return self._gathered(cluster, 1.0)[0]

    def _lazily(self, X: Any, method: str, dtype: np.dtype, width: tuple[int, ...]) -> da.Array:
        """What a method gives for every block of rows."""
        if isinstance(X, dd.DataFrame):
            _check_feature_names(self, X._meta, reset=False)
            X = X.to_dask_array()
        X = one_block_of_columns(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        name = f"aesvm-model-{uuid.uuid4().hex}"
        empty = np.empty((0, *width), dtype=dtype)
        return X.map_blocks(
            _of_block,
            model=dask.delayed(self._travelling(_PREDICTING), name=name, traverse=False),
            method=method,
            empty=empty,
            dtype=dtype,
            chunks=(X.chunks[0], *((columns,) for columns in width)),
            drop_axis=[] if width else 1,
            meta=empty,
        )


#: Fitted attributes that a partition is reduced with, and those that predictions are made of.
_REDUCING = ("n_features_in_", "feature_names_in_", "gamma_")
_PREDICTING = (
    "classes_",
    "support_",
    "support_vectors_",
    "n_support_",
    "dual_coef_",
    "intercept_",
    "gamma_",
    "n_features_in_",
    "feature_names_in_",
)


def _of_block(block: Any, model: AESVC, method: str, empty: NDArray) -> NDArray:
    return getattr(model, method)(block) if block.shape[0] else empty


def _right(model: AESVC, partition: Partition) -> tuple[float, float]:
    """The weight of the rows whose class is predicted right, and that of all."""
    X, y, weights = partition
    if not X.shape[0]:
        return 0.0, 0.0
    right = model.predict(X) == column_or_1d(y)
    weights = np.ones(len(right)) if weights is None else np.asarray(weights, dtype=float)
    return float(weights @ right), float(weights.sum())
