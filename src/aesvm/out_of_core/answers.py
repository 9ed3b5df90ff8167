"""Rows that are elsewhere, as a place of ``machines.rounds``.

Whoever has them (``Answers``: a source that is read again, or a cluster) is sent the machines, and
answers with sums and with sets. Only what is gathered is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, sqrt
from typing import NoReturn, Protocol

import numpy as np

from aesvm.bases.sums import Answer, Question, SpanMachines
from aesvm.formulations.objective import total_loss
from aesvm.machines.problem import Machine, TrainingSets
from aesvm.machines.rounds import Cut, Look, OverBudgetError, State
from aesvm.out_of_core.looks import PartLook, PartLooks
from aesvm.out_of_core.many_pairs import are_many
from aesvm.out_of_core.part import SentMachine, SentMachines, Strata
from aesvm.out_of_core.training_sets import GatheredSets, SetMaker, over_budget
from aesvm.out_of_core.weighted_rows import GatheredRows
from aesvm.runtime.progress import Progress


class Answers(Protocol):
    """Whoever holds the rows and answers about them; every method asks for all of them once."""

    @property
    def budget(self) -> float:
        """Bytes for the rows that are gathered."""

    def gather(self, hull_tol: float) -> GatheredRows:
        """Representatives of all rows, within a squared distance; all of them where it is zero.

        It is asked for where no round follows: nothing else need be answered afterwards.
        """

    def look(self, sent: SentMachines) -> PartLooks:
        """What each machine says of its rows."""

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, Strata]:
        """Rows near a kink, and sets of the others, as the machines of the last look have them."""

    def add_up(self, sent: SpanMachines, questions: dict[int, Question]) -> Answer:
        """What machines in the span of a basis are asked, summed over all rows."""


@dataclass
class RowsElsewhere:
    """All rows of some machines, which answer from where they are."""

    answers: Answers
    maker: SetMaker
    hull_tol: float
    tol: float  #: how far from a kink a row must be to have crossed it
    enough: int | None = None  #: bytes of a budget with which no round would be made
    holds_all_rows: bool = field(default=False, init=False)
    sent: list[int] = field(default_factory=list, init=False)  #: machines of the last look
    finer_rows: GatheredRows | None = field(default=None, init=False)  #: that ``finer`` gathered

    def look(self, state: State, free_offsets: bool) -> list[Look]:
        sent = self._sent(state)
        self.sent = list(sent.machines)
        seen = self.answers.look(sent)
        return [
            _look(machine, seen.one(number), free_offsets, self.maker)
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
        return self.maker.of_strata(strata, self.hull_tol)

    def finer(self, progress: Progress) -> TrainingSets | None:
        """The set at ``hull_tol``; None where pairs of it are trained many at a time, not here."""
        self.finer_rows = self.answers.gather(self.hull_tol)
        if are_many(self.maker):
            return None
        return self.maker.of_one_set(self.finer_rows)

    def everything(self) -> NoReturn:
        raise AssertionError("rows that are elsewhere are never all here")

    def _sent(self, state: State) -> SentMachines:
        """The machines as they are trained, to be sent to the rows."""
        sets = state.sets
        assert isinstance(sets, GatheredSets)
        maker = self.maker
        support = [machine.set.rows[machine.support] for machine in state.machines]
        used = np.unique(np.concatenate(support))
        used = used[np.argsort(sets.given[used], kind="stable")]  # as a fitted model has them
        place = np.empty(len(sets.given), dtype=np.intp)
        place[used] = np.arange(len(used))
        machines = {}
        for number, (machine, rows) in enumerate(zip(state.machines, support, strict=True)):
            if machine.solution is None:
                continue
            definite = maker.spec.is_definite
            machines[number] = SentMachine(
                maker.selections[number],
                place[rows],
                machine.coefs[machine.support],
                machine.offsets,
                sqrt(max(machine.squared_norm, 0.0)) if definite else inf,
            )
        return SentMachines(sets.kernel.X[used], machines, maker.spec, maker.formulation, self.tol)


def _look(machine: Machine, seen: PartLook | None, free_offsets: bool, maker: SetMaker) -> Look:
    """A look at all rows of a machine, from what the parts have seen of them."""
    if machine.solution is None or seen is None:
        return Look(loss=0.0, offsets=machine.offsets, doubt=0.0, n_values=0)
    formulation, own = maker.formulation, machine.set
    offsets = machine.offsets
    positions = formulation.positions(machine.scores, own.targets, offsets)
    loss_reduced = total_loss(formulation, positions, own.bounds, offsets)
    doubt = seen.doubt(loss_reduced, offsets)
    loss = seen.here(offsets)
    if free_offsets:
        offsets, loss = seen.best(offsets)
    return Look(
        loss=loss,
        offsets=offsets,
        doubt=doubt,
        n_values=seen.n_values,
        n_crossed=seen.n_crossed,
    )
