"""Machines trained: a solve for each, and its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import History
from aesvm.formulations.objective import Objective, only, tol_of
from aesvm.formulations.objective import n_support as count_support
from aesvm.formulations.protocol import Formulation, Offsets
from aesvm.machines.plan import TABLE
from aesvm.machines.problem import (
    Coverage,
    Machine,
    Problem,
    TrainingSet,
    TrainingSets,
    n_different,
)
from aesvm.machines.results import Trained, TrainedMachines
from aesvm.machines.rounds import State
from aesvm.machines.sharing import Start, Starts
from aesvm.machines.small_pairs import SmallPairs
from aesvm.machines.solving import solve_precisely
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.runtime.side_by_side import side_by_side
from aesvm.runtime.threads import Threads

#: Largest relative duality gap of an exact solution; solves aim at somewhat less, which leaves room
#: for the rounding that a proof counts.
DUALITY_TOL, _AIMED_GAP = 1e-3, 0.9e-3

#: The number that machines trained together have in a history.
_TOGETHER = -1

#: Steps in which the progress of a single solve is reported.
_STEPS = 20

#: Machines for each thread, at least, where machines are trained side by side: with fewer, threads
#: that work on one of them together take less time, and tell more of it.
_MACHINES_A_THREAD = 2

#: From here on a solve that takes more kernel values than expected comes ever slower to its end.
_NEARLY = 0.75


class SolverOptions(NamedTuple):
    """What the solver is told, by the names of the estimators' parameters."""

    tol: float
    max_iter: int
    cache_size: float
    shrinking: bool


class Trainer:
    """Trains machines, and tells how far it is.

    Parameters
    ----------
    formulation : Formulation
    options : SolverOptions
    n_machines : int
    run : callable
        ``map`` or a parallel one.
    progress : Progress
        Where lines are printed.
    aim_at_duality_gap : bool, default=False
        Whether a set that is all rows is solved to a relative duality gap of 1e-3.
    support_share : float, default=None
        The share of the rows that are expected to be support vectors, for progress. None: what is
        usual.
    starts : Starts, default=None
        Solutions of other fits to these rows, to begin with.
    """

    def __init__(
        self,
        formulation: Formulation,
        options: SolverOptions,
        n_machines: int,
        run: Callable,
        progress: Progress,
        aim_at_duality_gap: bool = False,
        support_share: float | None = None,
        starts: Starts | None = None,
    ) -> None:
        self.formulation = formulation
        self.options = options
        self.run = run
        self.progress = progress
        self.aim_at_duality_gap = aim_at_duality_gap
        self.support_share = TABLE.support_share if support_share is None else support_share
        self.starts = starts
        self.n_iter = [0] * n_machines
        self.n_values = [0] * n_machines  # kernel values that their solves have taken
        self.history = History(progress.started)

    @property
    def alone(self) -> bool:
        """Whether there is a single machine: then the steps of its solve are reported."""
        return len(self.n_iter) == 1

    def train_all(self, sets: TrainingSets, progress: Progress) -> list[Machine]:
        """Train a machine on each of the sets."""
        started = time.perf_counter()
        with progress.task("solve", None if self.alone else len(sets.sets)) as task:
            machines = self.train_each(sets, np.arange(len(sets.sets)), task)
        found = [machine for machine in machines if machine.solution is not None]
        n_exact = sum(machine.set.coverage.exact for machine in found)
        n_rows = n_different(machine.set.rows for machine in found)
        off = max(
            (machine.solution.violation for machine in found if machine.solution), default=0.0
        )
        self.say_solved(len(found), n_exact, 0, n_rows, off, sum(self.n_iter), started)
        return machines

    def train_each(
        self, sets: TrainingSets, numbers: NDArray[np.intp], progress: Progress
    ) -> list[Machine]:
        """Train machines of some numbers, one after another."""
        if self.alone:
            return [self.train(0, sets.kernel, sets.sets[0], progress)]
        machines = []
        for number, own in zip(numbers.tolist(), sets.sets, strict=True):
            with progress.task("pair", None) as part:
                machines.append(self.train(number, sets.kernel, own, part))
        return machines

    def note(self, number: int, state: State) -> None:
        """Take down what was seen of a machine, or of all of them."""
        self.history.note(number, state.objective, state.dual, state.rounds)

    def note_cut(self, n_cut: int) -> None:
        """Note how many of the machines in the end a callback has cut short."""
        if n_cut and self.progress.is_over():
            for _ in range(n_cut):
                self.progress.cut_short(f"a solve ended before tol={self.options.tol:g}")

    def say_trained(self, trained: TrainedMachines, started: float) -> None:
        """Print a line about all machines of a fit."""
        records = trained.records
        learned = records["n_rows"] > 0
        self.say_solved(
            int(np.count_nonzero(learned)),
            int(np.count_nonzero(learned & records["exact"])),
            int(records["rounds"].max()),
            len(trained.solved),
            float(trained.kkt_violation.max()),
            int(trained.n_iter.sum()),
            started,
        )

    def say_solved(
        self,
        n_machines: int,
        n_exact: int,
        rounds: int,
        n_rows: int,
        violation: float,
        n_iter: int,
        started: float,
    ) -> None:
        """Print a line about all solves; ``n_rows`` counts a row once."""
        how = "on representatives" if not rounds else f"rounds {rounds}"
        if n_exact:
            how = "exact" if n_exact == n_machines else f"{n_exact:,} of them exact, {how}"
        self.progress.say(
            f"solve: {n_machines:,} SVM{'' if n_machines == 1 else 's'} ({how}), "
            f"{n_rows:,} rows solved for, largest KKT violation {violation:.3g}, "
            f"{n_iter:,} iterations, {time.perf_counter() - started:.1f} s"
        )

    def train(
        self, number: int, kernel: TrainingKernel, own: TrainingSet, progress: Progress
    ) -> Machine:
        """Train machine ``number`` on a set."""
        formulation, options = self.formulation, self.options
        constant = formulation.constant(own.targets)
        if constant is not None:
            return constant_machine(constant)
        bounds = own.bounds
        variables = formulation.variables(own.targets, bounds)
        rows = own.rows[variables.rows]
        values = kernel.for_sums(rows, variables.bounds)
        start, prepared, tol = None, None, self.tol_of(own)
        if own.start is not None:
            start = Start(
                np.clip(formulation.alpha(own.targets, own.start, bounds), 0.0, variables.bounds)
            )
        elif self.starts is not None:
            start = self.starts.find(number, values, rows, variables)
            prepared = self.starts.prepared(number, values, rows, variables)
        exact = self.aim_at_duality_gap and own.coverage.exact
        n_support = self.support_share * len(rows)
        if own.positions_before is not None:
            n_support = count_support(formulation, own.positions_before)
        # the bar counts kernel values: a violation falls slowly at first, and fast at the end
        n_values = TABLE.exact_values * len(rows) * max(n_support, 1)
        with progress.task("steps", _STEPS if self.alone else 0, share=1.0) as task:
            solution, used = solve_precisely(
                kernel,
                values,
                rows,
                variables,
                start,
                prepared,
                tol=tol,
                max_iter=options.max_iter,
                run=self.run,
                watch=_Watch(self, number, n_values, task),
                duality_tol=_AIMED_GAP if exact else None,
                cache_bytes=int(options.cache_size * 1e6),
                shrinking=options.shrinking,
            )
        self.n_iter[number] += solution.n_updates
        self.n_values[number] += solution.n_evaluations
        if self.starts is not None and own.start is None:
            kept = prepared if used is values else None
            self.starts.keep(number, used, rows, variables, solution, kept)
        scores = np.empty(len(own.rows))
        scores[variables.rows] = solution.scores
        coefs, dual_coefs = formulation.coefs(own.targets, solution.alpha), None
        objective = Objective(formulation, own.targets, bounds)
        if not solution.converged:
            (t,) = objective.best_multiples_of_w(scores, float(coefs @ scores))
            coefs, scores, dual_coefs = t * coefs, t * scores, coefs
        norm = float(coefs @ scores)
        offsets = only(objective.unbiased_offsets(scores, norm, solution.violation))
        return Machine(own, coefs, scores, offsets, solution, dual_coefs)

    def tol_of(self, own: TrainingSet) -> float:
        """The violation of optimality that a set is solved to."""
        n_rows = max(own.coverage.n_rows, len(own.rows))
        return tol_of(self.formulation, self.options.tol, float(own.bounds.sum()), n_rows)


class _Watch:
    """Reports a solve: how many of the kernel values are there, and now and then a line."""

    def __init__(self, trainer: Trainer, number: int, n_expected: float, task: Progress) -> None:
        self.trainer = trainer
        self.number = number
        self.n_expected = n_expected
        self.task = task

    def __call__(self, violation: float, n_iter: int, n_values: int) -> bool:
        trainer = self.trainer
        self.task.reach(done_of(n_values, self.n_expected))
        trainer.progress.say_now_and_then(
            f"solve: SVM {self.number + 1:,} of {len(trainer.n_iter):,} at KKT violation "
            f"{violation:.3g} after {n_iter:,} iterations"
        )
        return n_iter > 0 and self.task.is_over()  # one round at least: a model to predict by


def done_of(n_values: float, n_expected: float) -> float:
    """The share of a solve that is done, below 1 however many kernel values it has taken.

    Examples
    --------
    >>> from aesvm.machines.training import done_of
    >>> done_of(50, 100), done_of(150, 100)
    (0.5, 0.875)
    """
    share = n_values / n_expected
    return share if share <= _NEARLY else 1.0 - (1.0 - _NEARLY) * _NEARLY / share


def constant_machine(offsets: Offsets) -> Machine:
    """The machine of rows that leave nothing to learn: a constant, which needs no row."""
    empty = np.empty(0)
    none = TrainingSet(np.empty(0, dtype=np.intp), empty, empty, empty, Coverage(0))
    return Machine(none, empty, empty, offsets, None)


#: Trains the machine of a problem, known by its number.
TrainOne = Callable[[int, Problem, Progress], Trained]


def train_machines(
    problems: Iterable[Problem],
    squared_rows: tuple[float, float],
    kernel: TrainingKernel,
    train: TrainOne,
    trainer: Trainer,
    small: SmallPairs | None = None,
) -> TrainedMachines:
    """Train the machine of every problem: side by side where there are many, else in turn.

    Parameters
    ----------
    problems : iterable of Problem
        Those of small pairs left out.
    squared_rows : tuple of float
        The squared numbers of rows of all machines, added up, and that of the largest.
    kernel : TrainingKernel
    train : callable
        Trains one of them.
    trainer : Trainer
    small : SmallPairs, default=None
        Machines that are trained many at a time, where every row stands for itself.
    """
    started = time.perf_counter()
    total, largest = squared_rows
    results: list[Trained] = []
    numbers = np.arange(len(trainer.n_iter))
    steps = None if trainer.alone else len(numbers)
    if small is not None:
        numbers = np.delete(numbers, small.numbers)
        steps = len(numbers) + len(small.batches)
    with trainer.progress.task(
        "training", steps, quiet=not trainer.alone, share=1.0, bar=True
    ) as task:
        together = None if small is None else train_together(small, trainer, task)
        each = zip(numbers.tolist(), problems, strict=True)
        streams = None if trainer.alone else kernel.streams()
        n_even = min(len(numbers), total / max(largest, 1.0))
        if streams is not None:
            trainer.history.side_by_side = streams.n > 1
            results = streams.each(train, each, task)
        elif (threads := _side_by_side_on(trainer.run, n_even, kernel)) is not None:
            trainer.history.side_by_side = True

            def done(number: int, problem: Problem) -> None:
                with task.task("pair", None, share=share_of(problem, total)):
                    pass  # its share of the bar, all at once

            results = side_by_side(threads, threads.n_threads, train, each, task, done)
        else:
            for number, problem in each:
                of_pair = task.task("pair", None, share=share_of(problem, total))
                with nullcontext(task) if trainer.alone else of_pair as progress:
                    results.append(train(number, problem, progress))
    trained = TrainedMachines.of(results, trainer.formulation)
    if small is not None and together is not None:
        sums = together.records.total
        norms = 0.5 * sums("squared_norm")
        trainer.history.note(_TOGETHER, norms + sums("loss"), sums("dual_objective"))
        trained = together.put_together(small.numbers, trained, numbers)
    if trainer.aim_at_duality_gap:
        trained = trained._replace(converged=_as_proven(trained, trainer))
    trainer.say_trained(trained, started)
    trainer.note_cut(int(np.count_nonzero(~trained.converged)))
    return trained


def share_of(problem: Problem, squared_rows: float) -> float:
    """What a machine takes of the time of all: its squared rows, of theirs."""
    return len(problem.rows) ** 2 / max(squared_rows, 1.0)


def _as_proven(trained: TrainedMachines, trainer: Trainer) -> NDArray[np.bool_]:
    """Which exact machines have converged, by the gaps that were proven of them."""
    records = trained.records
    gaps = records.relative_gaps()
    tol = tol_of(trainer.formulation, trainer.options.tol, records["total_cost"], records["n_rows"])
    reached = (trained.kkt_violation <= tol) & (gaps <= DUALITY_TOL)
    return np.where(np.isnan(gaps) | records.negligible, trained.converged, reached)


def _side_by_side_on(run: Callable, n_even: float, kernel: TrainingKernel) -> Threads | None:
    """The threads that machines are trained on side by side; None: one after another.

    Machines must be enough to keep the threads busy: ``n_even`` is how many there would be, if all
    were as large as the largest. And where solves keep kernel rows, each may take as much memory as
    is allowed.
    """
    if not isinstance(run, Threads) or run.n_threads == 1:
        return None
    if n_even < _MACHINES_A_THREAD * run.n_threads:
        return None
    every = np.arange(kernel.X.shape[0])
    precisions = (kernel.matrix(dtype, kernel.sum_tol / 10) for dtype in (np.float32, np.float64))
    return None if any(matrix.keeps(every) for matrix in precisions) else run


def train_together(small: SmallPairs, trainer: Trainer, task: Progress) -> TrainedMachines:
    """Train small pairs; ``task`` has a step for each of their batches."""
    options = trainer.options
    n_done = 0

    def done() -> None:
        nonlocal n_done
        n_done += 1
        task.step("pairs")
        trainer.progress.say_now_and_then(
            f"solve: {n_done:,} of {len(small.batches):,} batches of small pairs"
        )

    return small.train(
        options.tol,
        _AIMED_GAP if trainer.aim_at_duality_gap else inf,
        options.max_iter,
        trainer.run,
        task.is_over,
        done,
    )
