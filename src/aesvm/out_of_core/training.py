"""SVMs of rows that are not in one place: streams, sources, clusters.

The SVM is that of a weighted set, as in the paper. Where rows can be asked again, rounds follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import Step
from aesvm.certificate.proof import prove_machine
from aesvm.certificate.records import Record, Records
from aesvm.formulations.objective import Objective
from aesvm.formulations.protocol import Array, Formulation
from aesvm.kernels import KernelSpec
from aesvm.machines.certifying import records_of
from aesvm.machines.fitted import Fitted
from aesvm.machines.plan import Span
from aesvm.machines.prediction import MachineModel, PairwiseModel
from aesvm.machines.problem import Machine
from aesvm.machines.results import Terms, Trained, TrainedMachines
from aesvm.machines.rounds import (
    STAYED_COARSE,
    OverBudgetError,
    Policy,
    State,
    free_values,
    refine,
    warn_of_round_over_budget,
)
from aesvm.machines.rows import Selections
from aesvm.machines.trainer import SolverOptions, Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.elsewhere import Answers, RowsElsewhere
from aesvm.out_of_core.gathered import GatheredSets, Gatherer, StartOf, over_budget
from aesvm.out_of_core.many_pairs import are_many, budget_for_all, round_exceeds_budget, train_pairs
from aesvm.out_of_core.part import SentMachine, SentMachines
from aesvm.out_of_core.spans import train_in_span
from aesvm.out_of_core.stream import Stream
from aesvm.out_of_core.tally import ClassCounts
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress
from aesvm.sets.digest import NOTHING, Digest

#: The model of a stream is trained again once the stream is this much longer: all trainings
#: together then take as long as a few of the last.
GROWTH = 1.25


class GatheredFit(NamedTuple):
    """Trained machines of rows that are elsewhere."""

    fitted: Fitted
    records: Records
    refined: bool  #: whether all rows were asked again
    n_solved: int  #: rows that were solved for
    hull_tol: float  #: of the rows that the model was trained on
    first: WeightedRows  #: the set of the first solution
    first_tol: float  #: its tolerance
    #: support vectors by their index in the stream, and multipliers; None where there are none
    starts: Terms | None
    cut_short: str  #: what a callback has cut short; empty where nothing was
    n_vectors: int | None = None  #: of all machines together, where they are few by design
    history: Sequence[Step] = ()


@dataclass(frozen=True)
class StreamedModel:
    """A stream, and the model of it that was trained last."""

    stream: Stream
    classes: NDArray | None = None  #: all that there will be; None while a source shows them
    trained_at: int = 0  #: rows of the stream when the model was trained
    trained_digest: Digest = NOTHING  #: of these rows
    refined: bool = False  #: whether rounds led to the model, or passes over all rows
    starts: Terms | None = None  #: multipliers of the model, rows by their index in the stream

    def counts(self) -> ClassCounts:
        tally = self.stream.tally
        if self.classes is not None:
            return tally.of_classes(self.classes)
        return tally.sorted_classes(self.stream.tree.sets()[0].groups)

    @property
    def is_final(self) -> bool:
        """Whether another training on the set alone would be a step back."""
        return self.refined and self.trained_at == self.stream.n_rows

    def is_due(self, n_groups: int) -> bool:
        """Whether the stream has grown enough for the model to be trained again.

        ``n_groups``: of rows that there must be, classes or others, for anything to be learned.
        """
        enough = len(self.stream.tally.present) >= n_groups
        return enough and self.stream.n_rows >= GROWTH * self.trained_at

    def check_classes(self, labels: NDArray) -> None:
        """Refuse classes that were not announced."""
        if self.classes is None:
            return
        unknown = np.setdiff1d(labels, self.classes)
        if len(unknown):
            raise ValueError(
                f"y has {unknown.tolist()}, which are not among classes={self.classes.tolist()}."
            )

    def start_of(self, number: int, indices: NDArray[np.int64]) -> Array | None:
        """The coefficients of the last model, for those of its rows that are still held."""
        if self.starts is None or not len(indices):
            return None
        start = np.zeros(len(indices))
        support, coefs = self.starts.one(number)
        at = np.minimum(np.searchsorted(indices, support), len(indices) - 1)
        here = indices[at] == support
        start[at[here]] = coefs[here]
        return start


#: Makes fitted attributes of rows, the targets they were given with, and trained machines.
Assemble = Callable[[Any, NDArray, TrainedMachines], Fitted]


class GatheredLearner(NamedTuple):
    """What machines learn of rows that are elsewhere."""

    selections: Selections  #: the rows of each machine
    formulation: Formulation
    assemble: Assemble


class GatheredTrainer:
    """Trains machines of rows that are elsewhere.

    Parameters
    ----------
    learner : GatheredLearner
    spec : KernelSpec
    options : SolverOptions
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    """

    def __init__(
        self,
        learner: GatheredLearner,
        spec: KernelSpec,
        options: SolverOptions,
        run: Callable,
        progress: Progress,
    ) -> None:
        self.learner = learner
        self.formulation = learner.formulation
        self.gatherer = Gatherer(learner.selections, spec, learner.formulation, options.tol)
        n_machines = len(learner.selections)
        self.trainer = Trainer(learner.formulation, options, n_machines, run, progress)
        self.progress = progress

    def train(
        self, rows: WeightedRows, hull_tol: float, start_of: StartOf | None = None
    ) -> GatheredFit:
        """Train on one set of a tolerance, without rounds."""
        gatherer, trainer = self.gatherer, self.trainer
        kernel = gatherer.kernel(rows)
        if are_many(gatherer):
            found = train_pairs(rows, hull_tol, gatherer, kernel, trainer, self.progress, start_of)
            sets = GatheredSets(kernel, [], rows.targets, rows.indices, hull_tol)
            return self._fit(found, sets, 0, rows, hull_tol)
        sets = gatherer.of_one_set(rows, hull_tol, start_of, kernel)
        state = State(trainer.train_all(sets, self.progress), 0, sets)
        return self._fit(self._trained(state), sets, 0, rows, hull_tol)

    def refine(
        self,
        rows: WeightedRows,
        first_tol: float,
        answers: Answers,
        hull_tol: float,
        policy: Policy,
    ) -> GatheredFit:
        """Train on a first set of a tolerance, and make rounds with who has the rows."""
        if rows.whole:  # there is nothing to refine
            return self.train(rows, first_tol)
        enough = budget_for_all(self.gatherer, rows)
        ended = self.progress.is_over()
        if enough is not None and enough <= answers.budget and not ended:
            self.progress.say("all rows are gathered: every pair of classes is small")
            return self.train(*answers.gather(0.0))._replace(refined=True)
        if (
            policy.loosen
            and not ended
            and round_exceeds_budget(self.gatherer, rows, answers.budget)
        ):
            finer = answers.gather(hull_tol)
            if not finer.rows.whole:
                warn_of_round_over_budget(over_budget(answers.budget, hull_tol, enough), 0)
            return self.train(*finer)
        place = RowsElsewhere(answers, self.gatherer, hull_tol, self.trainer.options.tol, enough)
        sets = self.gatherer.of_one_set(rows, first_tol)
        train = self.trainer.train_all
        note = partial(self.trainer.note, 0)
        try:
            state = refine(place, sets, policy, self.formulation, train, self.progress, note)
        except OverBudgetError as error:
            return self._of_all_rows(answers, hull_tol, error)
        if place.finer_rows is not None and are_many(self.gatherer):
            if not self.progress.is_over():
                return self.train(*place.finer_rows)
            self.progress.cut_short(STAYED_COARSE)
        elif place.finer_rows is not None and state.sets is not sets:
            rows, first_tol = place.finer_rows
        last = state.sets
        assert isinstance(last, GatheredSets)
        return self._fit(self._trained(state), last, state.rounds, rows, first_tol)

    def _of_all_rows(
        self, answers: Answers, hull_tol: float, error: OverBudgetError
    ) -> GatheredFit:
        """Train on all rows, where the budget holds them and not what a round gathers."""
        try:
            rows, hull_tol = answers.gather(hull_tol)
        except ValueError:  # not even the set
            raise error from None
        if not rows.whole:
            raise error
        return self.train(rows, hull_tol)

    def train_in_span(
        self,
        rows: WeightedRows,
        hull_tol: float,
        span: Span,
        n_rows: int,
        answers: Answers | None = None,
    ) -> GatheredFit:
        """Train in the span of few vectors, chosen by a set; of all rows where they can be asked.

        ``n_rows``: how many there are.
        """
        add_up = None if answers is None else answers.add_up
        found = train_in_span(rows, hull_tol, span, self.gatherer, self.trainer, add_up)
        trained = TrainedMachines.of(found.trained, self.formulation)
        fitted = self.learner.assemble(found.sets.kernel.X, found.sets.given, trained)
        self.trainer.note_cut(int(np.count_nonzero(~trained.converged)))
        return GatheredFit(
            fitted._replace(support=found.sets.indices[fitted.support]),
            trained.records,
            found.of_all_rows,
            n_rows if found.of_all_rows else len(found.rows),
            hull_tol,
            found.rows,
            hull_tol,
            None,
            self.progress.ending.message(),
            len(trained.solved),
        )

    def _trained(self, state: State) -> TrainedMachines:
        records = records_of(state, self.formulation)
        free = free_values(share=1.0, spent=0.0, machines=state.machines)  # as of rows in memory
        if sum(machine.n_support * len(machine.set.rows) for machine in state.machines) <= free:
            records = [
                self._with_gap(machine, record, state.sets.kernel)
                for machine, record in zip(state.machines, records, strict=True)
            ]
        each = [
            Trained(machine, n_iter, record, machine.terms)
            for machine, n_iter, record in zip(
                state.machines, self.trainer.n_iter, records, strict=True
            )
        ]
        return TrainedMachines.of(each, self.formulation)

    def _with_gap(self, machine: Machine, record: Record, kernel: TrainingKernel) -> Record:
        """The record with a gap, where the machine was trained on all of its rows."""
        own = machine.set
        if machine.solution is None or not own.coverage.exact:
            return record
        proof = prove_machine(
            kernel.in_double(),
            kernel.spec.is_definite,
            own.rows,
            Objective(self.formulation, own.targets, own.bounds),
            own.rows[machine.support],
            machine.coefs[machine.support],
            machine.offsets,
            machine.multipliers,
            self.trainer.tol_of(own),
            self.trainer.run,
            n_summed=own.n_rows,
        )
        return record.proven_by(proof)

    def _fit(
        self,
        trained: TrainedMachines,
        sets: GatheredSets,
        rounds: int,
        first: WeightedRows,
        first_tol: float,
    ) -> GatheredFit:
        fitted = self.learner.assemble(sets.kernel.X, sets.given, trained)
        multipliers = trained.multipliers
        starts = multipliers._replace(rows=sets.indices[multipliers.rows])
        support = sets.indices[fitted.support]
        self.trainer.note_cut(int(np.count_nonzero(~trained.converged)))
        return GatheredFit(
            fitted._replace(support=support),
            trained.records,
            rounds > 0,
            len(trained.solved),
            sets.hull_tol,
            first,
            first_tol,
            starts,
            self.progress.ending.message(),
            history=self.trainer.history.steps(),
        )


def certify(
    records: Records,
    model: PairwiseModel | MachineModel,
    learner: GatheredLearner,
    answers: Answers,
    tol: float,
) -> Records:
    """The records of a trained model with all rows seen, wherever they are."""
    spec, formulation = model.spec, learner.formulation
    model = replace(model, support=np.arange(model.vectors.shape[0], dtype=np.int32))
    expansions = list(model.expansions())
    sent = SentMachines(
        model.vectors,
        {
            number: SentMachine(
                learner.selections[number],
                expansions[number].rows,
                expansions[number].coefs * formulation.decision(record.offsets).scale,
                record.offsets,
                sqrt(max(record.squared_norm, 0.0)) if spec.is_definite else inf,
            )
            for number, record in enumerate(records)
            if record.n_rows
        },
        spec,
        formulation,
        tol,
    )
    seen = answers.look(sent)
    found = []
    for number, record in enumerate(records):
        own = seen.one(number)
        found.append(record if own is None else replace(record, loss=own.here(record.offsets)))
    return Records.of(found)
