"""What workers do with the rows of Dask collections, and ``Answers`` from all of them.

Every partition becomes a part (``out_of_core.part``), which stays on the worker that made it: its
rows, and which of them stand for the others. Queries are sent to the parts.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from distributed import Future

from aesvm.bases.solve_in_passes import Query, SpanMachines, SumsByMachine, add_up, merged_sums
from aesvm.dask.cluster import Cluster, Partition
from aesvm.estimators.validation import ChunkOf, rows_in_place, with_or_without_classes
from aesvm.kernels import KernelSpec
from aesvm.kernels.gamma import Moments, Variance
from aesvm.kernels.joint import TargetScale
from aesvm.machines.processor import processor
from aesvm.machines.rounds import Cut
from aesvm.out_of_core import part as parts
from aesvm.out_of_core.merge_tree import MergeTree, merged
from aesvm.out_of_core.part import PartLooks, merged_looks
from aesvm.out_of_core.reducer import LevelReducer, RowReducer, most_kept_at, tolerance_of
from aesvm.out_of_core.source import Tally
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.training_sets import check_budget, strata_bytes
from aesvm.out_of_core.weighted_rows import GatheredRows, WeightedRows, joined, sample
from aesvm.runtime.progress import Progress, Silence
from aesvm.runtime.threads import Threads, one_blas_thread

#: Rows are numbered from this times their partition, until the sizes of partitions are known.
_STRIDE = 2**40

NO_ROWS = "X has no row of non-zero weight: there must be at least one."


class Features(NamedTuple):
    """What rows must have, and the estimator that says so."""

    n_features: int
    estimator: str
    chunk_of: ChunkOf = with_or_without_classes  #: checks what belongs to the rows

    def check(self, n_features: int) -> None:
        """Refuse rows of another number of features, in scikit-learn's words."""
        if n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features, but {self.estimator} is expecting "
                f"{self.n_features} features as input."
            )

    def rows(self, X: Any) -> Any:
        """Valid rows of a partition."""
        rows = rows_in_place(X)
        self.check(rows.shape[1])
        return rows

    def chunk(self, partition: Partition) -> WeightedRows:
        """A partition that has rows, all of it valid."""
        X, y, sample_weight = partition
        return self.chunk_of(self.rows(X), y, sample_weight, self.estimator)


class Counted(NamedTuple):
    """A part, or the representatives of several; with counts of all their rows."""

    held: Any  #: a ``Part`` or ``WeightedRows``; None where no row has any weight
    tally: Tally
    sizes: dict[int, int]  #: rows of each partition


class Statistics(NamedTuple):
    """What is known of all rows before any is reduced; it adds up."""

    variance: Variance = Variance()  #: of the values of X
    targets: Moments = Moments()

    def __or__(self, other: Statistics) -> Statistics:
        return Statistics(self.variance | other.variance, self.targets | other.targets)


def statistics(cluster: Cluster, features: Features, of_rows: bool, of_targets: bool) -> Statistics:
    """Statistics of the values of X, of the targets, or of both, in one pass."""
    before = [(features, of_rows, of_targets)] * cluster.n_partitions
    own = cluster.of_partitions("scale", _statistics, before)
    cluster.wait_for("scale", own)
    whole = cluster.merged("scale", own, _added)
    known: Statistics = cluster.result("scale", whole)
    if (of_rows and not known.variance.n_values) or (of_targets and not known.targets.weight):
        raise ValueError(NO_ROWS)
    cluster.release(own)
    return known


class ClusterRows:
    """The rows of a collection: its workers answer queries about them (``Answers``).

    ``run``: a parallel ``map`` for the work of this process.
    """

    def __init__(
        self,
        cluster: Cluster,
        features: Features,
        reducer: RowReducer,
        empty: MergeTree,
        run: Callable,
    ) -> None:
        self.cluster = cluster
        self.features = features
        self.reducer = reducer
        self.empty = empty  # settings of all trees; the budget is for the rows that come here
        self.run = run
        self.parts: list[Future] = []
        self.sent: Future | None = None
        self.spanned: tuple[SpanMachines, Future] | None = None  # in the span of few vectors
        self.scores: list[Future] = []  # of the last look
        self.cuts: dict[int, Cut] | None = None  # of the last round
        self.starts = np.zeros(1, dtype=np.int64)  # of the partitions, among all rows

    @property
    def progress(self) -> Progress:
        return self.cluster.progress

    @property
    def budget(self) -> float:
        return self.empty.budget

    @property
    def scale(self) -> TargetScale | None:
        """The unit of targets that rows stand for each other with."""
        return self.reducer.scale

    def reduce(self, tolerance: float, keep: bool) -> tuple[MergeTree, Tally]:
        """Representatives within a squared distance; ``keep`` the parts, to be asked again."""
        cluster, tree = self.cluster, self.empty._replace(hull_tol=tolerance)
        self._make_parts(tolerance)
        answers = [cluster.submit("answer", _representatives, part) for part in self.parts]
        if not keep:  # a worker forgets a part when it has answered
            cluster.release(self.parts)
            self.parts = []
        cluster.wait_for("reduce", answers)
        whole = cluster.merged("merge", answers, _merged_rows, self.reducer, tree)
        tally = self._counted(whole)
        settled = cluster.submit("settle", _settled, self.reducer, tree, whole)
        found: MergeTree = cluster.result("settle", settled)
        cluster.release([*answers, whole])
        return found._replace(levels=tuple(map(self._numbered, found.sets()))), tally

    def count(self, tolerance: float) -> Tally:
        """Make the parts, which stay on the workers, and count their rows."""
        cluster, tree = self.cluster, self.empty._replace(hull_tol=tolerance)
        self._make_parts(tolerance)
        answers = [cluster.submit("answer", _without_rows, part) for part in self.parts]
        cluster.wait_for("reduce", answers)
        whole = cluster.merged("merge", answers, _merged_rows, self.reducer, tree)
        tally = self._counted(whole)
        cluster.release([*answers, whole])
        return tally

    def gather(self, hull_tol: float) -> GatheredRows:
        tree, _ = self.reduce(hull_tol, keep=False)
        warn_if_looser(tree, hull_tol)
        return GatheredRows(self.condensed(tree), tree.hull_tol)

    def condensed(self, tree: MergeTree) -> WeightedRows:
        """The set that a model is trained on."""
        return tree.condensed(self.reducer.at_levels(self.run, self.cluster.progress))

    def look(self, sent: parts.SentMachines) -> PartLooks:
        cluster = self.cluster
        before, cuts = self.scores, self.cuts
        if self.sent is not None:
            cluster.release([self.sent])
        self.sent = shown = cluster.submit("machines", _unchanged, sent)
        self.scores = [cluster.submit("score", _score, part, shown) for part in self.parts]
        then = before if cuts is not None else [None] * len(self.parts)
        looks = [
            cluster.submit("look", _look, part, scores, shown, own, cuts)
            for part, scores, own in zip(self.parts, self.scores, then, strict=True)
        ]
        cluster.wait_for("look", looks)
        seen = cluster.result("look", cluster.merged("look", looks, merged_looks))
        cluster.release([*looks, *before])
        return seen

    def add_up(self, sent: SpanMachines, queries: dict[int, Query]) -> SumsByMachine:
        cluster = self.cluster
        if self.spanned is None or self.spanned[0] is not sent:
            self.spanned = sent, cluster.submit("machines", _unchanged, sent)
        _, shown = self.spanned
        asked = cluster.submit("queries", _unchanged, queries)
        answers = [cluster.submit("pass", _add_up, part, shown, asked) for part in self.parts]
        whole = cluster.merged("pass", answers, merged_sums, at_a_time=2)
        cluster.wait_for("pass", answers, release=len(answers) > 1)
        found: SumsByMachine = cluster.result("pass", whole)
        cluster.release([asked])
        return found

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, parts.Strata]:
        cluster, reducer = self.cluster, self.reducer
        self.cuts = cuts
        shown = self.sent
        strata = [
            cluster.submit(
                "stratify", _stratify, reducer, part, scores, cuts, shown, hull_tol, self._level
            )
            for part, scores in zip(self.parts, self.scores, strict=True)
        ]
        cluster.wait_for("stratify", strata)
        whole = cluster.merged("stratify", strata, _merged_strata, reducer, shown, hull_tol)
        settled = cluster.submit("settle", _within_budget, self.empty.budget, whole)
        found, n_bytes = cluster.result("settle", settled)
        cluster.release([*strata, whole])
        check_budget(n_bytes, self.empty.budget, hull_tol)
        return {number: [self._numbered(rows) for rows in own] for number, own in found.items()}

    @property
    def _level(self) -> int | None:
        """The level of partitions: the first, or the last where there is one partition."""
        return None if self.cluster.n_partitions == 1 else 1

    def _make_parts(self, tolerance: float) -> None:
        cluster = self.cluster
        cluster.release(self.parts)
        before = [
            (self.features, self.reducer, number, tolerance, self._level)
            for number in range(cluster.n_partitions)
        ]
        self.parts = cluster.of_partitions("reduce", _part, before)

    def _counted(self, whole: Future) -> Tally:
        tally, sizes = self.cluster.result("count", self.cluster.submit("count", _tally, whole))
        if not tally.present:
            raise ValueError(NO_ROWS)
        ordered = [sizes[number] for number in range(self.cluster.n_partitions)]
        self.starts = np.r_[0, np.cumsum(ordered)].astype(np.int64)
        return tally

    def _numbered(self, rows: WeightedRows) -> WeightedRows:
        """The rows numbered from the beginning of X."""
        partition, place = np.divmod(rows.indices, _STRIDE)
        return replace(rows, indices=self.starts[partition] + place)


# What workers do. They have one thread for each task: Dask runs as many tasks as it sees fit.


@contextmanager
def _working(spec: KernelSpec) -> Iterator[Threads]:
    device = processor(spec.device)
    with one_blas_thread(), device.computing(), device.threads(None) as run:
        yield run


@contextmanager
def _reducing(reducer: RowReducer) -> Iterator[LevelReducer]:
    with _working(reducer.spec) as run:
        yield reducer.at_levels(run, Silence())


def _part(
    features: Features,
    reducer: RowReducer,
    number: int,
    hull_tol: float,
    level: int | None,
    partition: Partition,
) -> Counted:
    """A partition as a part, and its tally."""
    n_rows = partition.X.shape[0]
    if not n_rows:
        return Counted(None, Tally.of_nothing(), {number: 0})
    chunk = features.chunk(partition)
    first = number * _STRIDE
    tally = Tally.of(chunk, first)
    rows = replace(chunk, indices=first + chunk.indices)
    tolerance = tolerance_of(hull_tol, level, 0.0)
    with _reducing(reducer) as reduce:
        part = reduce.part(rows, tolerance, most_kept_at(level))
    return Counted(part if len(part.rows) else None, tally, {number: n_rows})


def _representatives(counted: Counted) -> Counted:
    part, tally, sizes = counted
    return Counted(None if part is None else part.representatives(), tally, sizes)


def _without_rows(counted: Counted) -> Counted:
    return Counted(None, counted.tally, counted.sizes)


def _merged_rows(
    answers: list[Counted], level: int | None, reducer: RowReducer, tree: MergeTree
) -> Counted:
    tally, sizes = _added([one.tally for one in answers]), _added([one.sizes for one in answers])
    sets = [answer.held for answer in answers if answer.held is not None]
    if not sets:
        return Counted(None, tally, sizes)
    with _reducing(reducer) as reduce:
        if level is None:  # what travels further is to be as little as it can
            rows = reduce(joined(sets), tree.hull_tol, None)
        else:
            rows = merged(sets, tree.hull_tol, level, reduce)
    if tree.samples and rows.n_bytes > tree.budget:
        n_drawn = int(len(rows) * tree.budget / rows.n_bytes)
        rows = sample(rows, n_drawn, seed=tally.n_rows)
    return Counted(rows, tally, sizes)


def _added(several: list) -> Any:
    """All of them as one, by the operator ``|``."""
    return functools.reduce(operator.or_, several)


def _tally(answer: Counted) -> tuple[Tally, dict[int, int]]:
    return answer.tally, answer.sizes


def _settled(reducer: RowReducer, empty: MergeTree, answer: Counted) -> MergeTree:
    """The set of all rows, within the budget of where it goes."""
    tree = empty._replace(levels=(answer.held,), n_rows=answer.tally.n_rows)
    with _reducing(reducer) as reduce:
        return tree.within_budget(reduce)


def _unchanged(sent: Any) -> Any:
    return sent


def _add_up(counted: Counted, sent: SpanMachines, queries: dict[int, Query]) -> SumsByMachine:
    if counted.held is None:
        return {}
    rows = counted.held.rows
    with _working(sent.spec) as run:
        return add_up(rows.X, rows.targets, rows.weights, sent, queries, run)


def _score(counted: Counted, sent: parts.SentMachines) -> dict[int, parts.RowScores]:
    if counted.held is None:
        return {}
    with _working(sent.spec) as run:
        return parts.score(counted.held, sent, run)


def _look(
    counted: Counted,
    scores: dict[int, parts.RowScores],
    sent: parts.SentMachines,
    before: dict[int, parts.RowScores] | None,
    cuts: dict[int, Cut] | None,
) -> PartLooks:
    if counted.held is None:
        return PartLooks.of([])
    then = None if before is None or cuts is None else parts.LastRound(before, cuts)
    return parts.look(counted.held, scores, sent, then)


def _stratify(
    reducer: RowReducer,
    counted: Counted,
    scores: dict[int, parts.RowScores],
    cuts: dict[int, Cut],
    sent: parts.SentMachines,
    hull_tol: float,
    level: int | None,
) -> dict[int, parts.Strata]:
    if counted.held is None:
        return {}
    with _reducing(reducer) as reduce:
        return parts.stratify(counted.held, scores, cuts, sent, hull_tol, reduce, level)


def _merged_strata(
    several: list[dict[int, parts.Strata]],
    level: int | None,
    reducer: RowReducer,
    sent: parts.SentMachines,
    hull_tol: float,
) -> dict[int, parts.Strata]:
    tolerances = parts.stratum_tolerances(sent.formulation, hull_tol)
    with _reducing(reducer) as reduce:
        return parts.merged_strata(several, level, tolerances, reduce)


def _within_budget(
    budget: float, strata: dict[int, parts.Strata]
) -> tuple[dict[int, parts.Strata] | None, int]:
    """The strata, where they fit in the budget of where they go; and their bytes."""
    n_bytes = strata_bytes(strata)
    return (strata if n_bytes <= budget else None), n_bytes


def _statistics(
    features: Features, of_rows: bool, of_targets: bool, partition: Partition
) -> Statistics:
    if not partition.X.shape[0]:
        return Statistics()
    known = Statistics()
    if of_rows:
        known = known._replace(variance=Variance.of(features.rows(partition.X)))
    if of_targets:
        chunk = features.chunk(partition)
        known = known._replace(targets=Moments.of(chunk.targets, chunk.weights))
    return known
