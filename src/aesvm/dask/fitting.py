"""What every fit to rows on a cluster begins with: parameters, partitions, gamma, units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import dask.dataframe as dd
import scipy.sparse as sp
from distributed import Client
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names

from aesvm.dask.clients import CLIENT_CONSTRAINTS
from aesvm.dask.cluster import Cluster
from aesvm.dask.partitions import Partition, partitions
from aesvm.dask.worker import ClusterRows, Features, WorkerSettings, statistics
from aesvm.estimators.fitting import fitting, forget
from aesvm.estimators.parameters import kernel_spec, reduction_settings, with_parameters_of
from aesvm.estimators.validation import ChunkOf
from aesvm.kernels import resolve_gamma
from aesvm.kernels.gamma import has_gamma
from aesvm.kernels.joint import TargetScale
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.spans import SET_BYTES
from aesvm.runtime.progress import Progress
from aesvm.runtime.threads import Threads

#: Of every estimator of rows on a cluster.
CLUSTER_CONSTRAINTS: dict[str, list] = {
    "split_every": [Interval(Integral, 2, None, closed="left")],
    **CLIENT_CONSTRAINTS,
}


def initializer(twin: type) -> Any:
    """The ``__init__`` of an estimator: parameters of its twin, and of the cluster."""

    @with_parameters_of(twin)
    def initialize(
        self: Any, *, split_every: int = 16, client: Client | None = None, **parameters: Any
    ) -> None:
        self.split_every = split_every
        self.client = client

    return initialize


class Asked(NamedTuple):
    """The rows of a collection that can be asked, and what the work here is done with."""

    rows: ClusterRows
    run: Threads
    progress: Progress


def checked_partitions(estimator: Any, X: Any, y: Any, sample_weight: Any) -> list[Partition]:
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
def cluster_rows(
    estimator: Any,
    found: list[Partition],
    chunk_of: ChunkOf,
    joint: bool = False,
    gamma: float | None = None,
    name: str = "fit",
    passes: bool = False,
) -> Iterator[Asked]:
    """A context in which partitions can be asked.

    Parameters
    ----------
    estimator : object
        ``gamma_`` is written to it.
    found : list of Partition
    chunk_of : callable
        Checks rows on the workers.
    joint : bool
        Whether rows stand for each other together with their targets: all of them in one unit,
        found before any is reduced.
    gamma : float or None
        None: what the parameter stands for.
    name : str
        Of the task, as callbacks see it.
    passes : bool
        Whether passes over all rows follow, so that little of them need come here.
    """
    features = Features(estimator.n_features_in_, type(estimator).__name__, chunk_of)
    with (
        fitting(estimator, name=name) as (run, progress),
        Cluster(found, estimator.split_every, progress, estimator.client) as cluster,
    ):
        scaled = gamma is None and estimator.gamma == "scale" and has_gamma(estimator.kernel)
        scale = None
        if scaled or joint:
            known = statistics(cluster, features, scaled, joint)
            gamma = known.variance.gamma("scale") if scaled else gamma
            scale = TargetScale.from_moments(known.targets) if joint else None
        if gamma is None:
            empty = sp.csr_array((1, features.n_features))
            gamma = resolve_gamma(estimator.gamma, empty, estimator.kernel)
        estimator.gamma_ = gamma
        spec = kernel_spec(estimator, gamma)
        budget = bytes_of(estimator.memory_budget)
        reduction = WorkerSettings(
            RowReducer(spec, reduction_settings(estimator), scale),
            min(budget, SET_BYTES) if passes else budget,
            passes or estimator.on_overflow == "loosen",
            passes,
        )
        yield Asked(ClusterRows(cluster, features, reduction, run), run, progress)
