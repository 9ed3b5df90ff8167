"""Fits to rows on a cluster: ``DaskMachine``, and what every such fit begins with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar

import dask.dataframe as dd
import numpy as np
import scipy.sparse as sp
from distributed import Client
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from aesvm.certificate.certificate import Certificate
from aesvm.dask.cluster import Cluster, Partition, is_lazy, partitions
from aesvm.dask.lazy import check_names, predict_lazily
from aesvm.dask.worker import ClusterRows, Features, statistics
from aesvm.estimators.conversion import to_sklearn
from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.fitting import fit_method, fitting, forget
from aesvm.estimators.gathered import Gathered, certify_gathered, train_gathered
from aesvm.estimators.learning import Learning
from aesvm.estimators.parameters import (
    check_unchanged,
    kernel_spec,
    plan_elsewhere,
    reduction_settings,
    with_parameters_of,
)
from aesvm.estimators.prediction import ask
from aesvm.estimators.trained import TrainedOn, certificate, check_same_rows
from aesvm.estimators.validation import ChunkOf, Interval
from aesvm.io.model_file import plain_state, save, set_plain_state
from aesvm.kernels import resolve_gamma
from aesvm.kernels.gamma import has_gamma
from aesvm.kernels.joint import TargetScale
from aesvm.machines.plan import Rounds, Span
from aesvm.out_of_core.gathered_training import SET_BYTES
from aesvm.out_of_core.merge_tree import MergeTree, bytes_of
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.weighted_rows import GatheredRows
from aesvm.representative_set import RepresentativeSet

T = TypeVar("T", bound=type)


def on_cluster(twin: type) -> Callable[[T], T]:
    """Decorate an estimator of rows on a cluster: it has the parameters of its twin.

    What the twin learns, the estimator learns. A client is a connection, which can neither be
    copied nor sent: clones share it, and a pickled or saved estimator has none.
    """

    @with_parameters_of(twin)
    def initialize(
        self: Any, *, split_every: int = 16, client: Client | None = None, **parameters: Any
    ) -> None:
        self.split_every = split_every
        self.client = client

    def decorate(cls: T) -> T:
        estimator: Any = cls
        estimator.__init__ = initialize
        estimator._parameter_constraints = {
            **twin._parameter_constraints,  # type: ignore[attr-defined]
            "split_every": [Interval(Integral, 2, None, closed="left")],
            "client": [Client, None],
        }
        if hasattr(twin, "_learns"):
            estimator._learns = twin._learns
        estimator.__sklearn_clone__ = _clone_with_client
        estimator.__getstate__ = _state_without_client
        estimator.__setstate__ = set_plain_state
        estimator.save = save
        return cls

    return decorate


def _clone_with_client(estimator: Any) -> Any:
    """A clone that works with the same client."""
    without = copy.copy(estimator)
    without.client = None
    clone = BaseEstimator.__sklearn_clone__(without)
    clone.client = estimator.client
    return clone


def _state_without_client(estimator: Any) -> dict[str, Any]:
    """What is pickled, and copied."""
    return {**plain_state(estimator), "client": None}


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
) -> Iterator[ClusterRows]:
    """A context in which the workers answer queries about their rows.

    - ``chunk_of``: checks rows on the workers.
    - ``joint``: whether rows stand for each other together with their targets. The unit of targets
      is then found before any row is reduced.
    - ``gamma``: where it is known; otherwise it is found, and written to the estimator.
    - ``name``: of the task, as callbacks see it.
    - ``passes``: whether passes over all rows follow, so that few rows need come here.
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
        empty = MergeTree(
            estimator.hull_tol,
            min(budget, SET_BYTES) if passes else budget,
            passes or estimator.on_overflow == "loosen",
            samples=passes,
        )
        reducer = RowReducer(spec, reduction_settings(estimator), scale)
        yield ClusterRows(cluster, features, reducer, empty, run)


class DaskMachine(LinkedToDocumentation):
    """An estimator that trains one or several SVMs on rows of a cluster."""

    _learns: ClassVar[Learning]

    refine: int | str
    hull_tol: float
    memory_budget: int | str | None
    on_overflow: str
    gamma_: float
    representative_set_: RepresentativeSet
    shape_fit_: tuple[int, int]
    _trained_on_: dict[str, Any]  # see TrainedOn

    certificate_ = property(certificate)
    to_sklearn = to_sklearn

    @fit_method
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on representatives of all rows, as ``refine`` and ``max_vectors`` say.

        Parameters
        ----------
        X : dask array or dask dataframe of shape (n_samples, n_features)
            Its chunk sizes need not be known.
        y : dask array or series of shape (n_samples,)
            What is to be learned, in the partitions of X: classes, or numbers. Ignored where
            outliers are to be found.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Factors of C by row; rows of weight zero are left out.

        Returns
        -------
        self : object
        """
        learns, y = self._learns, self._targets(y)
        plan = plan_elsewhere(self)
        first_tol = plan.settings.hull_tol if isinstance(plan, Rounds) else self.hull_tol
        found = checked_partitions(self, X, y, sample_weight)
        passes = isinstance(plan, Span)
        asking = cluster_rows(self, found, learns.chunk_of, learns.joint, passes=passes)
        with asking as rows:
            tree, tally = rows.reduce(first_tol, keep=self.refine != 0)
            if not passes:
                warn_if_looser(tree, first_tol, self.memory_budget)
            learns.check_enough(tally, "y")
            first = GatheredRows(rows.condensed(tree), tree.hull_tol)
            rows.progress.say(f"{tree.n_rows:,} rows reduced to {len(tree.everything()):,}")
            counts = tally.sorted_classes(first.rows.groups)
            gathered = Gathered(first, tally, counts, rows.scale)
            train_gathered(self, plan, gathered, rows, rows.run, rows.progress)
        return self

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives that the model was trained on first: see ``representative_set_``."""
        check_is_fitted(self)
        return self.representative_set_.select()

    @fit_method
    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
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
        known, learns, y = TrainedOn.of(self), self._learns, self._targets(y)
        check_unchanged(self, known.parameters)
        check_names(self, X)
        found = partitions(X, y, sample_weight)
        asking = cluster_rows(
            self, found, learns.chunk_of, learns.joint, self.gamma_, name="certify"
        )
        with asking as rows:
            tally = rows.count(self.hull_tol)
            check_same_rows(self, known, tally.digest, tally.n_rows, "in the same partitions")
            counts = tally.sorted_classes(getattr(self, "classes_", np.zeros(0)))
            return certify_gathered(self, counts, rows.scale, rows)

    def _targets(self, y: Any) -> Any:
        """The y that is learned from; an error where there must be one, and is not."""
        if not self._learns.takes_targets:
            return None
        if y is None:
            self._learns.valid_targets(self, y, None)  # says what is missing
        return y

    def _ask(self, method: str, X: Any) -> Any:
        """What a method of the model gives for some rows: lazily, where X is."""
        if not is_lazy(X):
            return ask(self, method, X)
        check_is_fitted(self)
        return predict_lazily(self, method, X)
