"""Rows in memory, from valid input to trained machines: exactly, or by representatives and rounds.

Equal rows are merged first. ``plan`` then says what is done with the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.records import Record
from aesvm.certificate.text import EXACT_GAP
from aesvm.formulations.objective import tol_of
from aesvm.formulations.protocol import Formulation
from aesvm.machines import small_pairs
from aesvm.machines.class_bundles import ClassMembers
from aesvm.machines.place import RowsInMemory
from aesvm.machines.plan import Exact, Facts, Rounds
from aesvm.machines.problem import ClassPairs, Machine, Problem, TrainingRows, TrainingSets
from aesvm.machines.represent import Represented, distinct_of, represent
from aesvm.machines.results import Trained, TrainedMachines
from aesvm.machines.rounds import Policy, State, is_cheap, refine, seen
from aesvm.machines.sharing import SharedWork
from aesvm.machines.trainer import SolverOptions, Trainer, constant_machine, train_together
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.runtime.threads import Threads, side_by_side
from aesvm.sets.derive import (
    Derived,
    PreparedRows,
    ReductionSettings,
    Representatives,
    SetKernel,
    derive,
    identity,
)
from aesvm.sets.distinct import row_hashes

#: The number that machines trained together have in a history.
_TOGETHER = -1

#: Machines for each thread, at least, where machines are trained side by side: with fewer, threads
#: that work on one of them together take less time, and report more steps of it.
_MACHINES_A_THREAD = 2


@dataclass(frozen=True)
class FitContext:
    """The context of a fit: what is trained on, and what it is done with."""

    data: TrainingRows
    kernel: TrainingKernel
    formulation: Formulation
    settings: ReductionSettings
    options: SolverOptions
    run: Callable  #: ``map`` or a parallel one
    progress: Progress
    shared: SharedWork
    every_machine: bool = True  #: whether one that is not reached in time has a model nonetheless

    def distinct(self) -> PreparedRows:
        """The distinct rows of non-zero weight, kernel values of which are finite."""
        data, kernel, shared = self.data, self.kernel, self.shared
        kernel.prepare(self.run)
        kernel.check_bounded(np.flatnonzero(data.weights))
        with self.progress.task("distinct rows", None, share=0.0) as task:
            hashes = shared.of_rows("hashes", lambda: row_hashes(kernel.X, self.run))
            return shared.of_rows(
                "distinct rows",
                lambda: distinct_of(kernel, data.groups, data.weights, self.run, task, hashes),
            )

    def trainer(self, plan: Exact | Rounds | None = None) -> Trainer:
        """Trains these machines, as a plan says; without one, their pilots."""
        support_share = None if plan is None else plan.support_share
        # no start where a solve may be cut short, nor where the dual has several minima
        may_start = self.options.max_iter == -1 and self.kernel.spec.is_definite
        return Trainer(
            self.formulation,
            self.options,
            self.data.n_machines,
            self.run,
            self.progress,
            duality_tol=plan.duality_tol if isinstance(plan, Exact) else None,
            enough=plan.enough if isinstance(plan, Exact) else None,
            support_share=support_share,
            values_share=plan.values_share if isinstance(plan, Exact) else None,
            starts=self.shared.starts if plan is not None and may_start else None,
        )


def counted(facts: Facts, context: FitContext, prepared: PreparedRows) -> Facts:
    """What the user has set, with the counts and the time of a fit: a plan is made from both."""
    rows = prepared.rows
    return replace(
        facts,
        seconds=context.progress.seconds_left(),
        n_rows=len(rows),
        n_machines=context.data.n_machines,
        squared_rows=context.data.squared_sizes(rows),
        n_features=context.kernel.n_features,
    )


def every_row(context: FitContext, prepared: PreparedRows) -> Represented:
    """The set in which every distinct row stands for itself."""
    found = identity(prepared.rows, prepared.weights, context.kernel.X.shape[0], False)
    settings = context.settings._replace(hull_tol=0.0)
    return Represented(prepared, Derived(found, 0, None, False), None, settings)


def first_set(context: FitContext, prepared: PreparedRows, plan: Rounds) -> Represented:
    """The representatives that all machines are trained on first.

    Where too many rows would be kept, every row stands for itself.
    """
    key = "set", plan.settings, context.settings.hull_tol
    first = context.shared.of_kernel(key, lambda: _reduced(context, prepared, plan))
    if plan.most is None:
        _say_kept(first, context.progress)
    return first


def _reduced(context: FitContext, prepared: PreparedRows, plan: Rounds) -> Represented:
    settings = plan.settings
    share = plan.phases.reduce / plan.phases.whole(plan.n_expected)
    data, kernel, shared, run = context.data, context.kernel, context.shared, context.run
    finest_tol = context.settings.hull_tol
    with context.progress.task("representatives", 2, share=share, bar=True) as task:
        values = kernel.for_residuals(prepared.rows, min(settings.hull_tol, finest_tol))
        with shared.timed("partition"):
            subsets = shared.of_rows(
                _key_of_subsets(kernel, values, settings),
                lambda: values.cut(prepared.groups, settings, run, task),
            )
        shared.count("kernel_values", sum(len(rows) ** 2 / 2 for rows in subsets))
        with shared.timed("sets"):
            return represent(
                kernel,
                data.groups,
                data.weights,
                settings,
                run,
                task,
                keep_combinations=True,
                finest_tol=finest_tol,
                prepared=prepared,
                subsets=subsets,
            )


def _key_of_subsets(
    kernel: TrainingKernel, values: SetKernel, settings: ReductionSettings
) -> tuple:
    """What the subsets that rows are cut into depend on."""
    spec = kernel.spec
    sizes = settings.subset_size, settings.partition_size, settings.partition
    return "subsets", spec.kernel if spec.kernel == "rbf" else spec, values.dtype, sizes


def train(context: FitContext, first: Represented, plan: Exact | Rounds) -> TrainedMachines:
    """Train every machine on a first set, and refine it as the plan says.

    Many machines are trained side by side, few of them in turn.
    """
    started = time.perf_counter()
    data, shared, trainer = context.data, context.shared, context.trainer(plan)
    numbers, small = np.arange(data.n_machines), None
    if data.n_machines >= small_pairs.FEWEST_PAIRS and not first.derived.reduced:
        small = _small_pairs(context, first)
    steps = None if trainer.alone else len(numbers)
    if small is not None:
        numbers = np.delete(numbers, small.numbers)
        steps = len(numbers) + len(small.batches)
    with (
        shared.timed("solve"),
        context.progress.task(
            "training", steps, quiet=not trainer.alone, share=1.0, bar=True
        ) as task,
    ):
        if small is None:
            trained = _one_by_one(context, first, plan, trainer, numbers, task)
        else:
            trained = train_together(small, trainer, task)
            sums = trained.records.total
            objective = 0.5 * sums("squared_norm") + sums("loss")
            trainer.history.note(_TOGETHER, objective, sums("dual_objective"))
            if len(numbers):
                others = _one_by_one(context, first, plan, trainer, numbers, task)
                trained = trained.put_together(small.numbers, others, numbers)
    if trainer.duality_tol is not None:
        trained = trained._replace(converged=_as_proven(trained, trainer))
    trainer.say_trained(trained, started)
    trainer.note_cut(int(np.count_nonzero(~trained.converged)))
    # small pairs do not count theirs
    shared.count("kernel_values", sum(trainer.n_values) if small is None else None)
    shared.count("rows_solved", len(trained.solved))
    return trained._replace(history=trainer.history.steps())


def _one_by_one(
    context: FitContext,
    first: Represented,
    plan: Exact | Rounds,
    trainer: Trainer,
    numbers: NDArray[np.intp],
    task: Progress,
) -> TrainedMachines:
    """Train machines one after another, or each by one thread."""
    data, rows = context.data, first.prepared.rows
    each = zip(numbers.tolist(), data.problems(rows, first.prepared.weights, numbers), strict=True)
    squared_rows = data.squared_sizes(rows)
    train_one = partial(_train_one, context, first, plan, trainer, squared_rows)
    n_even = min(len(numbers), squared_rows / _largest_squared(data.groups[rows]))
    results = _side_by_side(train_one, each, context, trainer, task, squared_rows, n_even)
    if results is None:
        results = []
        for number, problem in each:
            of_pair = task.task("pair", None, share=_share_of(problem, squared_rows))
            with nullcontext(task) if trainer.alone else of_pair as progress:
                results.append(train_one(number, problem, progress))
    return TrainedMachines.of(results, context.formulation)


def _small_pairs(context: FitContext, first: Represented) -> small_pairs.SmallPairs | None:
    """The pairs of classes that are trained many at a time; None: this fit has no pairs."""
    data, rows, weights = context.data, first.prepared.rows, first.prepared.weights
    pairs = data.selections
    if not isinstance(pairs, ClassPairs):
        return None
    classes = ClassMembers.of(pairs, rows, data.given[rows], weights[rows])
    cache_bytes, kernel = context.options.cache_bytes, context.kernel
    return small_pairs.SmallPairs(classes, kernel, context.formulation, cache_bytes, context.run)


def _side_by_side(
    train_one: Callable[[int, Problem, Progress], Trained],
    each: Iterable[tuple[int, Problem]],
    context: FitContext,
    trainer: Trainer,
    task: Progress,
    squared_rows: float,
    n_even: float,
) -> list[Trained] | None:
    """Machines trained side by side; None where one after another takes less time.

    Machines must be enough to keep the threads busy: ``n_even`` is how many there would be, if all
    were as large as the largest. And where solves keep kernel rows, each may take as much memory as
    is allowed.
    """
    streams = None if trainer.alone else context.kernel.streams()
    if streams is not None:
        trainer.history.side_by_side = streams.n > 1
        return streams.each(train_one, each, task)
    threads, kernel = context.run, context.kernel
    if not isinstance(threads, Threads) or threads.n_threads == 1:
        return None
    if n_even < _MACHINES_A_THREAD * threads.n_threads:
        return None
    every = np.arange(kernel.X.shape[0])
    precisions = (kernel.matrix(dtype, kernel.sum_tol / 10) for dtype in (np.float32, np.float64))
    if any(matrix.keeps(every) for matrix in precisions):
        return None
    trainer.history.side_by_side = True

    def done(number: int, problem: Problem) -> None:
        with task.task("pair", None, share=_share_of(problem, squared_rows)):
            pass  # its part of the bar, all at once

    return side_by_side(threads, train_one, each, task, done)


def _train_one(
    context: FitContext,
    first: Represented,
    plan: Exact | Rounds,
    trainer: Trainer,
    squared_rows: float,
    number: int,
    problem: Problem,
    progress: Progress,
) -> Trained:
    """Train a machine on all of its rows, or on a first set of them that is then refined.

    ``squared_rows``: the squared numbers of rows of all machines, added up.
    """
    formulation, kernel = context.formulation, context.kernel
    constant = formulation.constant(problem.targets)
    if constant is not None:
        return Trained(constant_machine(constant), 0, Record.of_nothing(), None)
    if not context.every_machine and progress.is_over():
        nothing = constant_machine((0.0,) * len(formulation.slopes(1.0)))
        unknown = replace(Record.of_nothing(), loss=None, dual_objective=None, proven=False)
        return Trained(nothing, 0, unknown, None)
    if not trainer.alone:
        trainer.history.begin(number)
    share, spent, look_share = _share_of(problem, squared_rows), 0.0, 0.0
    reduced = first.derived.reduced
    if isinstance(plan, Rounds):
        spent = plan.phases.reduce if reduced else 0.0
        plan, look_share = plan.of_machine(share), plan.shares.look
    place = RowsInMemory(
        problem,
        kernel,
        partial(represent_anew, first, context.settings, context.run),
        formulation,
        context.options.tol,
        context.run,
        progress,
        share,
        spent,
        look_share,
    )
    certify, note = not context.shared.in_search, partial(trainer.note, number)
    if reduced:
        assert isinstance(plan, Rounds)  # else nothing is reduced
        policy = Policy(plan, share, certify=certify, spent=spent)

        def again(sets: TrainingSets, progress: Progress) -> list[Machine]:
            return [trainer.train(number, kernel, sets.sets[0], progress)]

        sets = place.represented(first.derived.found)
        state = refine(place, sets, policy, formulation, again, progress, note)
    else:
        sets = place.represented(None)
        state = State([trainer.train(number, kernel, sets.sets[0], progress)], 0, sets)
        if is_cheap(place, state, share, spent):
            state = seen(place, state, free_offsets=True, note=note)
    # what is cheap beside a fit need not be beside one that was cut short
    return place.trained(state, trainer.n_iter[number], certify and not progress.is_over())


def _share_of(problem: Problem, squared_rows: float) -> float:
    """What a machine takes of the time of all: its squared rows, of theirs."""
    return len(problem.rows) ** 2 / max(squared_rows, 1.0)


def _as_proven(trained: TrainedMachines, trainer: Trainer) -> NDArray[np.bool_]:
    """Which exact machines have converged, by the gaps that were proven of them."""
    records = trained.records
    gaps = records.relative_gaps()
    tol = tol_of(trainer.formulation, trainer.options.tol, records["total_cost"], records["n_rows"])
    reached = (trained.kkt_violation <= tol) & (gaps <= EXACT_GAP)
    return np.where(np.isnan(gaps) | records.negligible, trained.converged, reached)


def _largest_squared(groups: NDArray[np.intp]) -> float:
    """The squared number of rows of the largest machine, which is of one group or of two."""
    return max(float(np.sort(np.bincount(groups))[-2:].sum()) ** 2, 1.0)


def _say_kept(first: Represented, progress: Progress) -> None:
    """Print what a first set of "auto" has kept."""
    given_up, found = first.derived.given_up, first.derived.found
    if given_up is not None:
        progress.say(
            f"auto: exact after all, which may take long: {given_up.n_kept / given_up.n_rows:.0%} "
            f"of the first {given_up.n_rows:,} rows would have to represent themselves, and rounds "
            f"pay only up to {first.settings.most_kept:.0%}; max_vectors or refine=1 take less time"
        )
    elif first.derived.reduced:
        share = len(found.selected) / len(first.prepared.rows)
        progress.say(f"auto: rounds, since {share:.0%} of the rows represent all")


def represent_anew(
    first: Represented,
    settings: ReductionSettings,
    run: Callable,
    groups: list[NDArray[np.intp]],
    coarser: float,
    progress: Progress,
) -> Representatives:
    """Represent rows of some groups, ``coarser`` times as coarsely as the settings say."""
    assert first.kernel is not None  # the first set was reduced
    own = settings._replace(hull_tol=coarser * settings.hull_tol)
    weights = first.prepared.weights
    return derive(first.kernel, groups, weights, own, run, progress, keep_combinations=True).found
