"""The trainer of a fit: a solve for each machine, its progress, and what the solves have taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import FitHistory
from aesvm.certificate.text import duration
from aesvm.formulations.objective import Objective, only, tol_of
from aesvm.formulations.objective import n_support as count_support
from aesvm.formulations.protocol import Formulation, Offsets
from aesvm.machines.plan import TABLE
from aesvm.machines.problem import (
    Coverage,
    Machine,
    TrainingSet,
    TrainingSets,
    different,
)
from aesvm.machines.results import TrainedMachines
from aesvm.machines.rounds import State
from aesvm.machines.sharing import Starts
from aesvm.machines.small_pairs import SmallPairs
from aesvm.machines.training_kernel import Precision, TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.solver import smo
from aesvm.solver.row_cache import LEAST_BYTES
from aesvm.solver.state import Solution

#: Steps in which the progress of a single solve is reported.
_STEPS = 20

#: The least share of a solve that must be done before a line says how long it will go on: what is
#: left is then up to 49 times the time so far, and an error in that time counts as often.
_LEAST_DONE = 0.02

#: From this share on, the bar of a solve that takes more kernel values than expected slows down,
#: and no line says how long the solve will go on: it may take many more, or updates alone.
_NEARLY = 0.75

#: A solve with a start, or on a GPU, begins in single precision up to this many times the errors
#: that others may have: double precision follows. (At C=1000 on ijcnn1 that takes 0.6 to 0.8 of the
#: time.)
_NEARER = 100.0


class SolverOptions(NamedTuple):
    """Options of the solver, as in ``solver.smo.minimize``."""

    tol: float
    max_iter: int
    cache_bytes: int | None  #: for kernel rows; None leaves them to the solver
    shrinking: bool


@dataclass(eq=False)
class Trainer:
    """Trains machines, and reports how far they are."""

    formulation: Formulation
    options: SolverOptions
    n_machines: int
    run: Callable  #: ``map`` or a parallel one
    progress: Progress  #: where lines are printed
    #: The relative duality gap that a set of all rows is solved to, besides ``tol``.
    duality_tol: float | None = None
    #: The relative duality gap at which a solve for all rows ends, whatever ``tol`` is.
    enough: float | None = None
    #: The fraction of rows expected to be support vectors, for progress; None: what is usual.
    support_share: float | None = None
    #: Kernel values of a solve, expected, over the square of its rows; None: by ``support_share``.
    values_share: float | None = None
    starts: Starts | None = None  #: solutions of other fits to these rows, to begin with

    def __post_init__(self) -> None:
        if self.options.cache_bytes is None and not self.alone:
            # machines may be trained side by side, each with a cache
            self.options = self.options._replace(cache_bytes=LEAST_BYTES)
        self.n_iter = [0] * self.n_machines
        self.n_values = [0] * self.n_machines  # kernel values that their solves have taken
        self.history = FitHistory(self.progress.started)

    @property
    def alone(self) -> bool:
        """Whether there is a single machine: then the steps of its solve are reported."""
        return self.n_machines == 1

    def train_all(self, sets: TrainingSets, progress: Progress) -> list[Machine]:
        """Train a machine on each of the sets."""
        started = time.perf_counter()
        with progress.task("solve", None if self.alone else len(sets.sets)) as task:
            machines = self.train_each(sets, np.arange(len(sets.sets)), task)
        found = [machine for machine in machines if machine.solution is not None]
        n_exact = sum(machine.set.coverage.exact for machine in found)
        n_rows = len(different(machine.set.rows for machine in found))
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
            before = f"before tol={self.options.tol:g}"
            if self.alone:
                self.progress.cut_short(f"a solve ended {before}")
            else:
                self.progress.cut_short(
                    f"{n_cut:,} of {self.n_machines:,} pairs of classes were cut short, {before}"
                )

    def say_trained(self, trained: TrainedMachines, started: float) -> None:
        """Print a line about all machines of a fit."""
        if not self.progress.says:
            return
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
        """Train machine ``number`` on a set, in the precision that it needs (``Precision``)."""
        formulation, options = self.formulation, self.options
        constant = formulation.constant(own.targets)
        if constant is not None:
            return constant_machine(constant)
        variables = formulation.variables(own.targets, own.bounds)
        rows, tol = own.rows[variables.rows], self.tol_of(own)
        starts = self.starts if own.start is None else None
        is_near = starts is not None and starts.has(number)
        slack = _NEARER if is_near or kernel.processor.begins_in_single else 1.0
        precision = Precision(kernel, rows, variables, tol, self.run, slack)
        alpha, known, prepared = variables.start, None, None
        if own.start is not None:
            given = formulation.alpha(own.targets, own.start, own.bounds)
            alpha = np.clip(given, 0.0, variables.bounds)
        elif starts is not None:
            start = starts.find(number, precision.values, rows, variables)
            prepared = starts.prepared(number, precision.values, rows, variables)
            if start is not None:
                alpha, known = start
        n_expected = self._n_values_expected(own)
        n_iter, n_values, was_cut, started = 0, 0, False, time.perf_counter()
        enough = self.enough if own.coverage.exact else None

        def watch(violation: float, n_more: int, n_more_values: int) -> bool:
            """Report the solve; True ends it, after one iteration at least."""
            nonlocal was_cut
            done = done_of(n_values + n_more_values, n_expected)
            task.reach(done)
            left = ""
            is_told = self.alone and self.values_share is not None
            if is_told and _LEAST_DONE < done <= _NEARLY:
                left = duration((time.perf_counter() - started) * (1.0 - done) / done)
            self.progress.say_now_and_then(
                f"solve: SVM {number + 1:,} of {len(self.n_iter):,} at KKT violation "
                f"{violation:.3g} after {n_iter + n_more:,} iterations{left and f'; {left} left'}"
            )
            was_cut = n_iter + n_more > 0 and task.is_over()
            return was_cut

        with progress.task("steps", _STEPS if self.alone else 0, share=1.0) as task:
            while True:
                solution = smo.minimize(
                    precision.values,
                    rows,
                    variables.signs,
                    variables.linear,
                    variables.bounds,
                    groups=variables.constraints,
                    start=alpha,
                    known=known,
                    prepared=prepared,
                    tol=precision.aim,
                    duality_tol=self.duality_tol if own.coverage.exact else None,
                    enough=enough,
                    finest=precision.finest,
                    max_iter=-1 if options.max_iter == -1 else options.max_iter - n_iter,
                    cache_bytes=options.cache_bytes,
                    shrinking=options.shrinking,
                    run=self.run,
                    watch=watch,
                    operations=kernel.dual_operations,
                )
                n_iter += solution.n_updates
                n_values += solution.n_evaluations
                rounding = precision.rounding(solution)
                violation = solution.violation + rounding
                is_enough = enough is not None and not solution.is_short_of(enough)
                converged = solution.converged and (is_enough or violation <= tol)
                if converged or precision.is_finest or was_cut or n_iter == options.max_iter:
                    break
                alpha, known = solution.alpha, precision.go_finer(solution, rounding)
                prepared = None if precision.is_double else prepared
        n_values += precision.n_values
        solution = solution._replace(
            violation=violation, n_updates=n_iter, n_evaluations=n_values, converged=converged
        )
        self.n_iter[number] += n_iter
        self.n_values[number] += n_values
        if starts is not None:
            starts.keep(number, precision.values_of_scores, rows, variables, solution)
        return self._machine(own, variables.rows, solution)

    def _n_values_expected(self, own: TrainingSet) -> float:
        """Kernel values that a solve is expected to take.

        The bar counts these: a violation falls slowly at first, and fast at the end.
        """
        n_rows = len(own.rows)
        if own.positions_before is not None:
            n_support: float = count_support(self.formulation, own.positions_before)
        elif self.values_share is not None:
            return max(self.values_share * n_rows, 1.0) * n_rows
        else:
            share = TABLE.support_share if self.support_share is None else self.support_share
            n_support = share * n_rows
        return TABLE.exact_values * n_rows * max(n_support, 1)

    def _machine(self, own: TrainingSet, at: NDArray[np.intp], solution: Solution) -> Machine:
        """The SVM of a solution; ``at``: the row of the set that each variable is of."""
        formulation = self.formulation
        scores = np.empty(len(own.rows))
        scores[at] = solution.scores
        coefs, dual_coefs = formulation.coefs(own.targets, solution.alpha), None
        objective = Objective(formulation, own.targets, own.bounds)
        if not solution.converged:
            (t,) = objective.best_multiples_of_w(scores, float(coefs @ scores))
            if t == 0.0 and formulation.is_homogeneous:
                t = 1.0  # predictions do not depend on the length of w, but with 0 all are alike
            coefs, scores, dual_coefs = t * coefs, t * scores, coefs
        norm = float(coefs @ scores)
        offsets = only(objective.unbiased_offsets(scores, norm, solution.violation))
        return Machine(own, coefs, scores, offsets, solution, dual_coefs)

    def tol_of(self, own: TrainingSet) -> float:
        """The violation of optimality that a set is solved to."""
        n_rows = max(own.coverage.n_rows, len(own.rows))
        return tol_of(self.formulation, self.options.tol, float(own.bounds.sum()), n_rows)


def done_of(n_values: float, n_expected: float) -> float:
    """The fraction of a solve that is done, below 1 however many kernel values it has taken.

    Examples
    --------
    >>> from aesvm.machines.trainer import done_of
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
        inf if trainer.duality_tol is None else trainer.duality_tol,
        options.max_iter,
        trainer.run,
        task.is_over,
        done,
    )
