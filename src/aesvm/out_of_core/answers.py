"""Queries to the holder of rows that are elsewhere (``Answers``), and rounds made of them.

The holder is a source that is read again, or a cluster. It is sent the machines, and answers with
sums and with sets. Only the rows that it answers with are held here.

``RereadSource`` is a source that is read again. It is read in buffers, twice in a round: once to
look, once to stratify. In between, the scores of all rows are kept: 16 bytes for each row and
machine that it belongs to. A look needs twice that, to compare them with the scores of the round
before. Sums for machines in the span of few vectors keep nothing of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import NoReturn, Protocol

import numpy as np

from aesvm.bases.solve_in_passes import Query, SpanMachines, SumsByMachine, add_up, merged_sums
from aesvm.formulations.objective import total_loss
from aesvm.machines.problem import Machine, TrainingSets
from aesvm.machines.rounds import Cut, Look, OverBudgetError, State
from aesvm.out_of_core import part as parts
from aesvm.out_of_core.many_pairs import are_many
from aesvm.out_of_core.merge_tree import buffers, folded
from aesvm.out_of_core.part import (
    PartLook,
    PartLooks,
    SentMachine,
    SentMachines,
    Strata,
    merged_looks,
)
from aesvm.out_of_core.reducer import LevelReducer
from aesvm.out_of_core.training_sets import (
    GatheredLearner,
    GatheredSets,
    check_budget,
    over_budget,
    strata_bytes,
)
from aesvm.out_of_core.weighted_rows import GatheredRows, WeightedRows, joined
from aesvm.runtime.progress import Progress


class Answers(Protocol):
    """The holder of the rows; every method takes one pass over all of them."""

    @property
    def budget(self) -> float:
        """Bytes for the rows that are gathered."""

    def gather(self, hull_tol: float) -> GatheredRows:
        """Representatives of all rows, within a squared distance; all rows where it is zero.

        No other query follows.
        """

    def look(self, sent: SentMachines) -> PartLooks:
        """The losses that all rows have by each machine, at its offsets and near to them."""

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, Strata]:
        """Rows near a kink, and representatives of the others, by the scores of the last look."""

    def add_up(self, sent: SpanMachines, queries: dict[int, Query]) -> SumsByMachine:
        """The sums over all rows that machines in the span of a basis query."""


@dataclass
class RowsElsewhere:
    """A ``Place`` of ``machines.rounds`` whose rows are elsewhere."""

    answers: Answers
    learner: GatheredLearner
    hull_tol: float
    enough: int | None = None  #: bytes of a budget that holds all rows, so that no round is made
    holds_all_rows: bool = field(default=False, init=False)
    sent: list[int] = field(default_factory=list, init=False)  #: machines of the last look
    finer_rows: GatheredRows | None = field(default=None, init=False)  #: that ``finer`` gathered

    def look(self, state: State, free_offsets: bool) -> list[Look]:
        sent = self._sent(state)
        self.sent = list(sent.machines)
        seen = self.answers.look(sent)
        return [
            _look(machine, seen.one(number), free_offsets, self.learner)
            for number, machine in enumerate(state.machines)
        ]

    def look_cost(self, state: State) -> float:
        return state.cost_of_all_rows

    def certificate_cost(self, state: State) -> float:
        return state.cost_of_all_rows

    def stratify(self, cuts: list[Cut], progress: Progress) -> TrainingSets:
        by_number = {number: cuts[number] for number in self.sent}
        try:
            strata = self.answers.stratify(by_number, self.hull_tol)
        except OverBudgetError:
            raise over_budget(self.answers.budget, self.hull_tol, self.enough) from None
        return self.learner.of_strata(strata, self.hull_tol)

    def finer(self, progress: Progress) -> TrainingSets | None:
        """The set at ``hull_tol``; None where pairs of it are trained many at a time, not here."""
        self.finer_rows = self.answers.gather(self.hull_tol)
        if are_many(self.learner):
            return None
        return self.learner.of_one_set(self.finer_rows)

    def everything(self) -> NoReturn:
        raise AssertionError("rows that are elsewhere are never all here")

    def _sent(self, state: State) -> SentMachines:
        """The machines as they are trained, to be sent to the rows."""
        sets = state.sets
        assert isinstance(sets, GatheredSets)
        learner = self.learner
        support = [machine.set.rows[machine.support] for machine in state.machines]
        used = np.unique(np.concatenate(support))
        used = used[np.argsort(sets.given[used], kind="stable")]  # as a fitted model has them
        place = np.empty(len(sets.given), dtype=np.intp)
        place[used] = np.arange(len(used))
        machines = {}
        for number, (machine, rows) in enumerate(zip(state.machines, support, strict=True)):
            if machine.solution is None:
                continue
            definite = learner.spec.is_definite
            machines[number] = SentMachine(
                learner.selections[number],
                place[rows],
                machine.coefs[machine.support],
                machine.offsets,
                sqrt(max(machine.squared_norm, 0.0)) if definite else inf,
            )
        return SentMachines(
            sets.kernel.X[used], machines, learner.spec, learner.formulation, learner.tol
        )


def _look(
    machine: Machine, seen: PartLook | None, free_offsets: bool, learner: GatheredLearner
) -> Look:
    """All rows of a machine as rounds see them, from the sums of the parts."""
    if machine.solution is None or seen is None:
        return Look(loss=0.0, offsets=machine.offsets, doubt=0.0, n_values=0)
    formulation, own = learner.formulation, machine.set
    offsets = machine.offsets
    positions = formulation.positions(machine.scores, own.targets, offsets)
    loss_reduced = total_loss(formulation, positions, own.bounds, offsets)
    doubt = seen.doubt(loss_reduced, offsets)
    loss = seen.here(offsets)
    if free_offsets:
        offsets, loss = seen.best(offsets)
    return Look(
        loss=loss, offsets=offsets, doubt=doubt, n_values=seen.n_values, n_crossed=seen.n_crossed
    )


@dataclass(eq=False)
class RereadSource:
    """A source that is read again: it answers queries about its rows (``Answers``)."""

    rows: Callable[[str], Iterator[WeightedRows]]  #: all of them again, for a query of this name
    reduce: LevelReducer
    #: The tolerance of the first set: what its representatives get wrong is judged by others of the
    #: same tolerance.
    first_tol: float
    held: GatheredRows  #: the set that the first pass has made
    budget: float  #: bytes for the rows that are gathered
    run: Callable  #: a parallel ``map``
    sent: parts.SentMachines | None = field(default=None, init=False)
    #: By buffer, of the last look.
    scores: list[dict[int, parts.RowScores]] = field(default_factory=list, init=False)
    cuts: dict[int, Cut] | None = field(default=None, init=False)  #: of the last round

    def gather(self, hull_tol: float) -> GatheredRows:
        """What the first pass holds; all rows are read again where it does not hold them."""
        if hull_tol > 0.0:
            return self.held

        def distinct(rows: WeightedRows) -> WeightedRows:
            return self.reduce.part(rows, 0.0).rows

        held = self.held.rows
        if held.whole:
            return GatheredRows(distinct(held), 0.0)
        return GatheredRows(distinct(joined(list(map(distinct, self._buffers("gather"))))), 0.0)

    def look(self, sent: parts.SentMachines) -> PartLooks:
        before, cuts = self.scores, self.cuts
        self.sent, self.scores = sent, []
        seen = PartLooks.of([])
        for number, rows in enumerate(self._buffers("look")):
            part = self.reduce.part(rows, self.first_tol)
            self.scores.append(parts.score(part, sent, self.run))
            then = None if cuts is None else parts.LastRound(before[number], cuts)
            seen = merged_looks([seen, parts.look(part, self.scores[-1], sent, then)])
        return seen

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, parts.Strata]:
        self.cuts = cuts
        sent = self.sent
        assert sent is not None  # rounds look before they stratify
        tolerances = parts.stratum_tolerances(sent.formulation, hull_tol)

        def of_buffers() -> Iterator[dict[int, parts.Strata]]:
            for rows, scores in zip(self._buffers("stratify"), self.scores, strict=True):
                part = self.reduce.part(rows, 0.0)  # equal rows are merged, and nothing else
                yield parts.stratify(part, scores, cuts, sent, hull_tol, self.reduce)

        def merge(
            several: list[dict[int, parts.Strata]], level: int | None
        ) -> dict[int, parts.Strata]:
            merged = parts.merged_strata(several, level, tolerances, self.reduce)
            check_budget(strata_bytes(merged), self.budget, hull_tol)
            return merged

        return merge([folded(of_buffers(), merge)], None)

    def add_up(self, sent: SpanMachines, queries: dict[int, Query]) -> SumsByMachine:
        whole: SumsByMachine = {}
        for rows in self._buffers("pass"):
            own = add_up(rows.X, rows.targets, rows.weights, sent, queries, self.run)
            whole = merged_sums([whole, own])
        return whole

    def _buffers(self, name: str) -> Iterator[WeightedRows]:
        """All rows, in buffers such as the first pass reduced."""
        return buffers(self.rows(name), self.budget)
