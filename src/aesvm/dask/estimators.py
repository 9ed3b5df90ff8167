"""DaskAESVC and DaskRepresentativeSet: the estimators, with rows on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import dask
import dask.dataframe as dd
import numpy as np
import scipy.sparse as sp
from distributed import Client
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from aesvm.certificate import Certificate
from aesvm.dask.clients import (
    CLIENT_CONSTRAINTS,
    clone_with_client,
    state_without_client,
)
from aesvm.dask.cluster import Cluster
from aesvm.dask.partitions import Partition, is_lazy, partitions
from aesvm.dask.prediction import (
    BlockModel,
    check_names,
    correct_weight,
    decision_values,
    predicted,
)
from aesvm.dask.rows import NO_ROWS, ClusterRows, Features, WorkerSettings, gamma_scale
from aesvm.estimators.fitting import fit_method, fitting, forget
from aesvm.estimators.gathered import (
    certify_gathered,
    gathered_trainer,
    policy_of,
    set_gathered,
)
from aesvm.estimators.parameters import (
    check_unchanged,
    kernel_spec,
    reduction_settings,
    with_parameters_of,
)
from aesvm.estimators.prediction import PairwiseClassifier
from aesvm.estimators.trained import TrainedOn, certificate
from aesvm.kernels import resolve_gamma
from aesvm.kernels.gamma import has_gamma
from aesvm.machines.rounds import COARSER
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.tally import ClassCounts
from aesvm.out_of_core.training import check_not_exact
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.representative_set import RepresentativeSet, set_rows
from aesvm.runtime.progress import Progress
from aesvm.runtime.threads import Threads
from aesvm.svc import AESVC

_CONSTRAINTS: dict[str, list] = {
    "split_every": [Interval(Integral, 2, None, closed="left")],
    **CLIENT_CONSTRAINTS,
}


class _Asked(NamedTuple):
    """The rows of a collection that can be asked, and what the work here is done with."""

    rows: ClusterRows
    run: Threads
    progress: Progress


def _checked_partitions(estimator: Any, X: Any, y: Any, sample_weight: Any) -> list[Partition]:
    """The partitions of a fit; of an estimator that has forgotten what was fitted before."""
    bytes_of(estimator.memory_budget)
    reduction_settings(estimator)
    if estimator.kernel == "precomputed":
        raise ValueError(
            'kernel="precomputed" is the kernel matrix of all rows, and these are not in one '
            "place: use another kernel, or a callable."
        )
    found = partitions(X, y, sample_weight)
    forget(estimator)
    if isinstance(X, dd.DataFrame):
        _check_feature_names(estimator, X._meta, reset=True)
    estimator.n_features_in_ = X.shape[1]
    return found


@contextmanager
def _cluster_rows(
    estimator: Any, found: list[Partition], gamma: float | None = None
) -> Iterator[_Asked]:
    """A context in which partitions can be asked; without a gamma, the parameter's is found."""
    features = Features(estimator.n_features_in_, type(estimator).__name__)
    with (
        fitting(estimator) as (run, progress),
        Cluster(found, estimator.split_every, progress, estimator.client) as cluster,
    ):
        if gamma is None and estimator.gamma == "scale" and has_gamma(estimator.kernel):
            gamma = gamma_scale(cluster, features)
        elif gamma is None:
            empty = sp.csr_array((1, features.n_features))
            gamma = resolve_gamma(estimator.gamma, empty, estimator.kernel)
        estimator.gamma_ = gamma
        spec = kernel_spec(estimator, gamma)
        reduction = WorkerSettings(
            RowReducer(spec, reduction_settings(estimator)),
            bytes_of(estimator.memory_budget),
            estimator.on_overflow == "loosen",
        )
        yield _Asked(ClusterRows(cluster, features, reduction, run), run, progress)


class DaskRepresentativeSet(CallbackSupportMixin, BaseEstimator):
    """RepresentativeSet of rows that lie on a cluster.

    Every partition is reduced where it is, class by class; the sets are put together and reduced
    again, ``split_every`` at a time. The tolerance of each level is that of a stream, so that all
    levels together stay within ``hull_tol``. The result depends on the partitions, and not on the
    workers.

    Parameters
    ----------
    split_every : int, default=16
        Sets that are put together at a time.
    client : dask.distributed.Client, default=None
        The cluster to work on; None: that of the current client. Clones share it. A pickled
        estimator has none.
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

    _parameter_constraints: ClassVar[dict] = {
        **RepresentativeSet._parameter_constraints,
        **_CONSTRAINTS,
    }
    _rows_: WeightedRows

    @with_parameters_of(RepresentativeSet)
    def __init__(
        self, *, split_every: int = 16, client: Client | None = None, **parameters: Any
    ) -> None:
        self.split_every = split_every
        self.client = client

    __sklearn_clone__ = clone_with_client
    __getstate__ = state_without_client

    @fit_method
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
        with _cluster_rows(self, _checked_partitions(self, X, y, sample_weight)) as (rows, _, _):
            tree, _ = rows.reduce(self.hull_tol, keep=False)
        warn_if_looser(tree, self.hull_tol, self.memory_budget)
        set_rows(self, tree.everything(), tree.n_rows, self.gamma_)
        return self

    def fit_select(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> tuple[Any, Any, NDArray[np.float64]]:
        """Compute the set, and return its rows, their classes and weights (see ``select``)."""
        self.fit(X, y, sample_weight, groups)
        rows, classes, weights = self.select()
        return rows, None if y is None else classes, weights

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """Rows, classes and weights of the set: see ``aesvm.RepresentativeSet.select``."""
        check_is_fitted(self)
        return self._rows_.columns()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "sample_indices_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = False
        return tags


class DaskAESVC(CallbackSupportMixin, PairwiseClassifier, ClassifierMixin, BaseEstimator):
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
    client : dask.distributed.Client, default=None
        The cluster to work on; None: that of the current client. Clones share it. A pickled
        estimator has none.
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

    _parameter_constraints: ClassVar[dict] = {**AESVC._parameter_constraints, **_CONSTRAINTS}
    _trained_on_: dict[str, Any]  # see TrainedOn
    representative_set_: RepresentativeSet
    shape_fit_: tuple[int, int]
    certificate_ = property(certificate)

    @with_parameters_of(AESVC)
    def __init__(
        self, *, split_every: int = 16, client: Client | None = None, **parameters: Any
    ) -> None:
        self.split_every = split_every
        self.client = client

    __sklearn_clone__ = clone_with_client
    __getstate__ = state_without_client

    @fit_method
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
        check_not_exact(self.refine)
        first_tol = self.hull_tol * (COARSER if self.refine != 0 else 1.0)
        with _cluster_rows(self, _checked_partitions(self, X, y, sample_weight)) as (
            rows,
            run,
            progress,
        ):
            tree, tally = rows.reduce(first_tol, keep=self.refine != 0)
            warn_if_looser(tree, first_tol, self.memory_budget)
            tally.check_two_classes("y")
            first = rows.condensed(tree)
            progress.say(f"{tree.n_rows:,} rows reduced, {len(tree.everything()):,} came here")
            counts = tally.sorted_classes(first.targets)
            trainer = gathered_trainer(self, AESVC._learns, counts, None, run, progress)
            if self.refine == 0:
                fit = trainer.train(first, tree.hull_tol)
            else:
                policy = policy_of(self)
                fit = trainer.refine(first, tree.hull_tol, rows, self.hull_tol, policy)
        set_gathered(self, fit, tally.n_rows, tally.digest)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the class of each row; lazily, where X is.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : dask array, dask series or ndarray of shape (n_samples,)
            A dataframe gives a series with its index and divisions, as in
            ``X.assign(label=model.predict(X))``.
        """
        if not is_lazy(X):
            return super().predict(X)
        check_is_fitted(self)
        return predicted(self, X)

    def decision_function(self, X: Any) -> Any:
        """Signed distances from the margins, as AESVC has them; lazily, where X is.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        values : dask array, series or dataframe, or ndarray of shape (n_samples,), \
                (n_samples, n_classes) or (n_samples, n_pairs)
            A dataframe gives a series with two classes, and with more a dataframe, with a column
            named after each class, or after each pair ("a or b").
        """
        if not is_lazy(X):
            return super().decision_function(X)
        check_is_fitted(self)
        return decision_values(self, X)

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
        check_names(self, X)
        model = dask.delayed(BlockModel.of(self), traverse=False)
        counts = [
            dask.delayed(correct_weight)(model, own) for own in partitions(X, y, sample_weight)
        ]
        right, total = np.sum(dask.compute(*counts, scheduler=self.client), axis=0)
        if not total:
            raise ValueError(NO_ROWS)
        return float(right / total)

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives that the model was trained on first: see ``representative_set_``."""
        check_is_fitted(self)
        return self.representative_set_.select()

    @fit_method
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
        known = TrainedOn.of(self)
        check_unchanged(self, known.parameters)
        check_names(self, X)
        with _cluster_rows(self, partitions(X, y, sample_weight), self.gamma_) as (rows, _, _):
            if rows.count(self.hull_tol).digest != known.digest:
                raise ValueError(
                    f"X, y or sample_weight is not what the model was trained on, shape "
                    f"{self.shape_fit_}: certify wants the same rows, in the same partitions."
                )
            counts = ClassCounts(self.classes_, np.zeros(len(self.classes_), dtype=np.intp))
            return certify_gathered(self, AESVC._learns, counts, None, rows)
