"""SVMs of rows that are not in one place: rows of a stream, of a source, or of a cluster.

A weighted set that stands for all rows is gathered first, by a stream or by workers. The SVM of
that set is the paper's. Where the holder of the rows answers queries (``Answers``), rounds refine
it, or passes over all rows solve in the span of few vectors.

For the latter the set is trained on as rows in memory are, which gives the vectors and a first
solution (``bases.span_training``). Where all rows can be read again, passes over them then solve
the SVM of all rows in that span (``bases.solve_in_passes``). In that case a small set is enough,
which may be a random sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np

from aesvm.bases.descent import Point
from aesvm.bases.solve_in_passes import ProblemElsewhere, SpanMachines, solve_in_passes
from aesvm.bases.span_training import SpanTraining
from aesvm.certificate.history import Step
from aesvm.certificate.proof import prove_machine
from aesvm.certificate.records import Record, Records
from aesvm.formulations.objective import Objective
from aesvm.machines.one_vs_one import Fitted
from aesvm.machines.plan import Rounds, Span
from aesvm.machines.prediction import MachineModel, PairwiseModel
from aesvm.machines.problem import Machine, TrainingRows, TrainingSet
from aesvm.machines.results import Terms, Trained, TrainedMachines, records_of
from aesvm.machines.rounds import (
    STAYED_COARSE,
    OverBudgetError,
    Policy,
    State,
    free_values,
    refine,
    warn_of_round_over_budget,
)
from aesvm.machines.trainer import SolverOptions, Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.answers import Answers, RowsElsewhere
from aesvm.out_of_core.many_pairs import are_many, budget_for_all, round_exceeds_budget, train_pairs
from aesvm.out_of_core.part import SentMachine, SentMachines
from aesvm.out_of_core.training_sets import GatheredLearner, GatheredSets, StartOf, over_budget
from aesvm.out_of_core.weighted_rows import GatheredRows, sample
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import PreparedRows

#: Where passes over all rows follow: the most bytes of the set; and the most rows of it that are
#: trained on, or as many for each vector if that is more.
SET_BYTES, _MOST, _FOR_EACH = 2.0**27, 100_000, 50

#: Bytes of kernel values that are held while a set is trained on, where there is no budget.
_HELD = 2.0**29


class GatheredFit(NamedTuple):
    """Trained machines of rows that are elsewhere."""

    fitted: Fitted
    records: Records
    refined: bool  #: whether the holder of the rows was asked again
    n_solved: int | None  #: rows that were solved for; None: all of them
    hull_tol: float  #: of the rows that the model was trained on
    first: GatheredRows  #: the set of the first solution
    #: support vectors by their index in the stream, and multipliers; None where there are none
    starts: Terms | None
    n_vectors: int | None = None  #: of all machines together, where they are few by design
    history: Sequence[Step] = ()


class GatheredTraining:
    """Trains machines of rows that are elsewhere."""

    def __init__(
        self,
        learner: GatheredLearner,
        options: SolverOptions,
        run: Callable,
        progress: Progress,
    ) -> None:
        self.formulation = learner.formulation
        self.learner = learner
        n_machines = len(learner.selections)
        self.trainer = Trainer(learner.formulation, options, n_machines, run, progress)
        self.progress = progress

    def train(
        self,
        plan: Rounds | Span,
        first: GatheredRows,
        answers: Answers | None,
        hull_tol: float,
        loosen: bool = False,
        start_of: StartOf | None = None,
    ) -> GatheredFit:
        """Train as a plan says, from a first set of all rows.

        ``answers``: the holder of the rows; None where the rows cannot be read again. ``hull_tol``:
        the tolerance of rounds. ``loosen``: whether a round over the memory budget ends the rounds,
        rather than raise. ``start_of``: coefficients that machines of the set begin with.
        """
        if isinstance(plan, Span):
            return self._in_span(first, plan, answers)
        if plan.most == 0 or first.rows.whole:  # in the second case there is nothing to refine
            return self._on_set(first, start_of)
        assert answers is not None  # a plan of rounds needs rows that can be asked again
        return self._refined(first, answers, hull_tol, Policy(plan, loosen=loosen))

    def _on_set(self, gathered: GatheredRows, start_of: StartOf | None = None) -> GatheredFit:
        """Train on one set, without rounds."""
        rows, hull_tol = gathered
        kernel = self.learner.kernel(rows)
        if are_many(self.learner):
            found = train_pairs(
                gathered, self.learner, kernel, self.trainer, self.progress, start_of
            )
            sets = GatheredSets(kernel, [], rows.targets, rows.indices, hull_tol)
            return self._fit(found, sets, gathered)
        sets = self.learner.of_one_set(gathered, start_of, kernel)
        state = State(self.trainer.train_all(sets, self.progress), 0, sets)
        return self._fit(self._trained(state), sets, gathered)

    def _refined(
        self, first: GatheredRows, answers: Answers, hull_tol: float, policy: Policy
    ) -> GatheredFit:
        """Train on a first set, and refine by queries to the holder of the rows."""
        enough = budget_for_all(self.learner, first.rows)
        if not self.progress.is_over():
            if enough is not None and enough <= answers.budget:
                self.progress.say("all rows are gathered: every pair of classes is small")
                return self._on_set(answers.gather(0.0))._replace(refined=True)
            if policy.loosen and round_exceeds_budget(self.learner, first.rows, answers.budget):
                finer = answers.gather(hull_tol)
                if not finer.rows.whole:
                    warn_of_round_over_budget(over_budget(answers.budget, hull_tol, enough), 0)
                return self._on_set(finer)
        place = RowsElsewhere(answers, self.learner, hull_tol, enough)
        sets = self.learner.of_one_set(first)
        train = self.trainer.train_all
        note = partial(self.trainer.note, 0)
        try:
            state = refine(place, sets, policy, self.formulation, train, self.progress, note)
        except OverBudgetError as error:
            return self._on_all_rows(answers, hull_tol, error)
        if place.finer_rows is not None and are_many(self.learner):
            if not self.progress.is_over():
                return self._on_set(place.finer_rows)
            self.progress.cut_short(STAYED_COARSE)
        elif place.finer_rows is not None and state.sets is not sets:
            first = place.finer_rows
        last = state.sets
        assert isinstance(last, GatheredSets)
        return self._fit(self._trained(state), last, first)._replace(refined=state.rounds > 0)

    def _on_all_rows(
        self, answers: Answers, hull_tol: float, error: OverBudgetError
    ) -> GatheredFit:
        """Train on all rows, where the budget holds them and not what a round gathers."""
        try:
            gathered = answers.gather(hull_tol)
        except ValueError:  # not even the set
            raise error from None
        if not gathered.rows.whole:
            raise error
        return self._on_set(gathered)

    def _in_span(self, first: GatheredRows, plan: Span, answers: Answers | None) -> GatheredFit:
        """Train in the span of few vectors of a set; for all rows where they can be asked."""
        rows = first.rows
        if answers is not None:  # a small set will do, also a random sample
            n_most = max(_MOST, _FOR_EACH * plan.max_vectors)
            rows = sample(rows, n_most, seed=0) if len(rows) > n_most else rows
        gathered = first._replace(rows=rows)
        sets = self.learner.of_one_set(gathered)
        if plan.most_bytes is None:
            plan = replace(plan, most_bytes=_HELD)
        groups = np.unique(rows.groups, return_inverse=True)[1]
        data = TrainingRows(rows.X, rows.targets, groups, rows.weights, self.learner.selections)
        every = np.arange(len(rows))
        prepared = PreparedRows(every, every, rows.weights, [])  # equal ones are few in a set
        each = SpanTraining(data, sets.kernel, prepared, self.trainer).train(plan)
        solved: dict[int, ProblemElsewhere] = {}
        if answers is not None and not sets.exact:
            solved = self._solved_in_passes(sets, each, answers)
        pairs = zip(each, sets.sets, strict=True)
        if solved:
            each = [
                _of_all_rows(one, solved[number], own) if number in solved else one
                for number, (one, own) in enumerate(pairs)
            ]
        else:
            each = [_of_the_set(one, own) for one, own in pairs]
        trained = TrainedMachines.of(each, self.formulation)
        return self._fit(trained, sets, gathered)._replace(
            refined=bool(solved),
            n_solved=None if solved else len(rows),
            starts=None,
            n_vectors=len(trained.solved),
            history=(),
        )

    def _solved_in_passes(
        self, sets: GatheredSets, each: list[Trained], answers: Answers
    ) -> dict[int, ProblemElsewhere]:
        """Machines with something to learn, solved for all rows; empty where time was over."""
        kernel = sets.kernel
        machines = {
            number: one.machine
            for number, one in enumerate(each)
            if one.machine.solution is not None
        }
        if not machines:
            return {}
        used = np.concatenate([machine.set.rows for machine in machines.values()])
        basis = used[np.sort(np.unique(used, return_index=True)[1])]  # as a single machine has it
        place = np.empty(kernel.X.shape[0], dtype=np.intp)
        place[basis] = np.arange(len(basis))
        enough = [kernel.in_sums(one.set.rows, one.coefs).dtype for one in machines.values()]
        accuracy = kernel.sum_tol / 10
        sent = SpanMachines(
            kernel.X[basis],
            {number: place[one.set.rows] for number, one in machines.items()},
            {number: self.learner.selections[number] for number in machines},
            self.learner.spec,
            self.learner.formulation,
            np.result_type(*enough),
            accuracy,
        )
        double = kernel.matrix(np.float64, accuracy)
        problems = {
            number: ProblemElsewhere(
                np.asarray(double.square(one.set.rows), dtype=np.float64),
                Point(one.coefs, one.offsets),
                self.learner.selections[number].n_rows,
                self.formulation,
            )
            for number, one in machines.items()
        }

        ask = partial(answers.add_up, sent)
        with self.progress.task("passes", None) as task:
            return solve_in_passes(problems, ask, task)

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
        self, trained: TrainedMachines, sets: GatheredSets, first: GatheredRows
    ) -> GatheredFit:
        fitted = self.learner.assemble(sets.kernel.X, sets.given, trained)
        multipliers = trained.multipliers
        self.trainer.note_cut(int(np.count_nonzero(~trained.converged)))
        return GatheredFit(
            fitted._replace(support=sets.indices[fitted.support]),
            trained.records,
            False,
            len(trained.solved),
            sets.hull_tol,
            first,
            multipliers._replace(rows=sets.indices[multipliers.rows]),
            history=self.trainer.history.steps(),
        )


def certify(
    records: Records,
    model: PairwiseModel | MachineModel,
    learner: GatheredLearner,
    answers: Answers,
) -> Records:
    """The records of a trained model with all rows seen, wherever they are."""
    spec, formulation = learner.spec, learner.formulation
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
        learner.tol,
    )
    seen = answers.look(sent)
    found = []
    for number, record in enumerate(records):
        own = seen.one(number)
        # what was proven is more precise than a look
        if own is not None and not record.proven:
            record = replace(record, loss=own.here(record.offsets))
        found.append(record)
    return Records.of(found)


def _of_all_rows(one: Trained, solved: ProblemElsewhere, own: TrainingSet) -> Trained:
    """A machine of the set, replaced by the one that passes over all rows have found."""
    (coefs, offsets), loss, _ = solved.best
    solution = one.machine.solution
    assert solution is not None
    n_iter = one.n_iter + solved.n_steps
    machine = replace(
        one.machine,
        coefs=coefs,
        scores=solved.scores,
        offsets=offsets,
        solution=solution._replace(
            alpha=np.abs(coefs),
            scores=solved.scores,
            objective=nan,  # the dual's, which is not known
            n_updates=n_iter,
            converged=solved.converged,
        ),
    )
    record = replace(
        one.record.without_dual(),
        n_rows=own.n_rows,
        squared_norm=machine.squared_norm,
        loss_reduced=loss,
        loss=loss,
        offsets=offsets,
    )
    return Trained(machine, n_iter, record, None)


def _of_the_set(one: Trained, own: TrainingSet) -> Trained:
    """A machine of the set; its loss over all rows is known only if the set has all of them."""
    if one.machine.solution is None:
        return one
    covered = own.coverage
    record = replace(one.record, n_rows=covered.n_rows)
    if not covered.exact:
        record = replace(
            record.without_dual(),
            rounding=record.proof_rounding,
            max_residual=covered.max_residual,
            total_residual=covered.total_residual,
            weighted_distances=covered.weighted_distances,
            loss=None,
        )
    return one._replace(record=record, multipliers=None)
