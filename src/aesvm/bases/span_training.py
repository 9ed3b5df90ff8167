"""SVMs of all rows, with w in the span of few vectors that are chosen during training.

pilot    trains the exact SVM of a sample of the rows;
choose   chooses a first basis, by pursuit on the w of the pilot;
solve    trains the SVM of all rows with w in the span (``descent``), at first on some of the rows;
enrich   adds vectors. The margins imply multipliers, and these a ``g = sum_i coef_i phi(x_i)``. Its
         projection onto the span is w. The rest of it is the gradient outside of the span, and a
         pursuit on that rest chooses the next vectors, among a sample of the rows with a
         multiplier.

The same multipliers are feasible for the dual, so that with ``|g|^2`` they bound the optimum from
below. ``|g|^2`` takes the kernel matrix of all rows with a multiplier. It is estimated from the
sample, with a standard error, and enriching ends by that estimate.

With several machines, one for each pair of classes, all share the vectors. Each uses the vectors of
its two classes that were not in its span already.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf, isnan, nan

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.pursuit import BLOCK, Functions, Pursuit
from aesvm.bases.solve_in_memory import BLOCK_ROWS
from aesvm.bases.span_machine import SpanContext, SpanMachine
from aesvm.certificate.records import Record
from aesvm.formulations.protocol import Array
from aesvm.machines.fit import FitContext, every_row
from aesvm.machines.pilots import Pilots
from aesvm.machines.plan import TABLE, Expected, Span
from aesvm.machines.problem import Machine, Problem, TrainingRows
from aesvm.machines.represent import Represented
from aesvm.machines.results import Trained, TrainedMachines
from aesvm.machines.trainer import Trainer, constant_machine
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.cached import cached_property
from aesvm.runtime.memory import free_memory, in_bytes, machine_memory
from aesvm.runtime.progress import OutOfTimeError, Progress, Watched
from aesvm.runtime.warn import warn
from aesvm.sets.derive import PreparedRows

#: Vectors that a pilot chooses before what they leave is computed again.
_STEP = 250

#: Rows that a first solve is over: at least, and for each vector.
_FIRST_ROWS, _FIRST_ROWS_PER_VECTOR = 40_000, 8

#: Candidates of a pursuit for each vector that is to be chosen, and at least; of the pilot's
#: support vectors twice as many.
_CANDIDATES, _LEAST_CANDIDATES = 5, 3000

#: Half-widths of the rounded kinks, in the formulation's unit: of the first solve, of those
#: between, and of the last.
_FIRST, _BETWEEN, _LAST = (0.3, 0.1, 0.03), (0.1, 0.03), (0.03, 0.01)

#: The fraction of the vectors that the pilot chooses, and the most that are added at a time.
_PILOTS_FRACTION, _MOST_ADDED = 0.5, 1000

#: A larger sum of costs is refused: squares of sums must stay finite.
_LARGEST_COST = 1e140

#: The fraction of the machine's memory that kernel values are held in, where no budget is given.
_MEMORY_FRACTION = 0.25

#: What a budget is to have room for beside kernel values that are held. In the solve with all
#: vectors: matrices of these, and arrays of the rows of a machine. While vectors are chosen: times
#: the values of candidates and vectors. All the time: arrays of the rows of all machines.
_MATRICES, _ROW_ARRAYS, _PURSUIT, _KEPT_ARRAYS = 8, 30, 3, 20

#: The fraction of a device's free memory that they are held in: the rest is for rows, candidates of
#: pursuits and Hessians.
_DEVICE_FRACTION = 0.6


def train_in_span(
    context: FitContext, prepared: PreparedRows, plan: Span, training: SpanTraining
) -> tuple[Represented, TrainedMachines]:
    """Train every machine of rows in memory in the span of few vectors.

    ``training``: what a survey of these rows was made with.
    """
    with context.shared.timed("solve"):
        found = training.train(plan)
    trained = TrainedMachines.of(found, context.formulation)
    context.shared.count("kernel_values", None)
    context.shared.count("rows_solved", len(trained.solved))
    history = training.trainer.history.steps()
    return every_row(context, prepared), trained._replace(history=history)


class SpanTraining:
    """Machines that share a basis: a survey of whether it pays, and their training.

    ``prepared``: the distinct rows; ``trainer``: of the pilots.
    """

    def __init__(
        self, data: TrainingRows, kernel: TrainingKernel, prepared: PreparedRows, trainer: Trainer
    ) -> None:
        self.data = data
        self.prepared = prepared
        self.groups = data.groups
        self.trainer = trainer
        self.kernel = kernel
        self.samples = Pilots(data, kernel, prepared, trainer, trainer.progress)
        self.sampled = self.samples.share  # the fraction of the rows that pilots are trained on
        self.pursuit: Pursuit | None = None  # on the pilots, where a survey has made one
        self.n_chosen = 0  # vectors that it has chosen
        self.basis = np.empty(0, dtype=np.intp)
        self.machines: list[SpanMachine] = []

    @cached_property
    def context(self) -> SpanContext:
        """What all machines have in common; rows in double precision are made here."""
        double, trainer = self.kernel.in_double(), self.trainer
        threads = double.arrays.threads(trainer.run)
        return SpanContext(
            self.kernel,
            double,
            trainer.formulation,
            trainer.options.tol,
            threads,
            Watched(threads, trainer.progress),
        )

    @property
    def threads(self) -> Callable:
        return self.context.run

    # --- what a plan asks

    def expected(self) -> Expected:
        """What the exact SVMs take, by the pilots."""
        # of a tenth of the rows, an exact SVM takes a hundredth of the time
        with self.trainer.progress.share(min(self.sampled**2, 0.2)) as progress:
            self.samples.progress = progress
            return self.samples.expected()

    def norm_share(self) -> float:
        """``1/2 |w|^2`` as a fraction of the objective, of the pilots."""
        formulation, norms, losses = self.trainer.formulation, 0.0, 0.0
        for pilot in self.pilots:
            own = pilot.set
            positions = formulation.positions(pilot.scores, own.targets, pilot.offsets)
            losses += float(own.bounds @ formulation.losses(positions))
            norms += 0.5 * max(pilot.squared_norm, 0.0)
        return norms / (norms + losses) if norms > 0.0 else 0.0

    def carried(self, most_vectors: int, most_left: float) -> tuple[int, float]:
        """Choose vectors that carry the pilots, until it is clear that too much would be left."""
        self.pursuit = self._pursuit_of_pilots(most_vectors)
        self.n_chosen, left = self._carrying(self.pursuit, most_vectors, most_left)
        return self.n_chosen, left

    # --- training

    def train(self, span: Span) -> list[Trained]:
        """Train every machine in the span of few vectors, which all of them share."""
        formulation, found = self.trainer.formulation, {}
        for number, problem in enumerate(self.problems):
            offsets = formulation.constant(problem.targets)
            if offsets is not None:
                machine = constant_machine(offsets)
                found[number] = Trained(machine, 0, Record.of_nothing(), None)
        if self.numbers:
            self._train(span)
            for number, trained in zip(self.numbers, self.machines, strict=True):
                n_iter = self.trainer.n_iter[number]
                found[number] = trained.trained(n_iter, len(self.numbers))
        return [found[number] for number in range(len(self.problems))]

    @cached_property
    def problems(self) -> list[Problem]:
        """Of every machine."""
        return list(self.data.problems(self.prepared.rows, self.prepared.weights))

    @cached_property
    def numbers(self) -> list[int]:
        """The machines that have anything to learn."""
        constant = self.trainer.formulation.constant
        return [at for at, one in enumerate(self.problems) if constant(one.targets) is None]

    @cached_property
    def shuffled(self) -> list[Problem]:
        """The problems of these, their rows in random order."""
        return [self.samples.shuffled(self.problems[number]) for number in self.numbers]

    @cached_property
    def pilots(self) -> list[Machine]:
        """The exact SVMs of a sample of their rows."""
        each = zip(self.numbers, self.shuffled, strict=True)
        return [self.samples.machine(number, problem) for number, problem in each]

    def _make_machines(self, span: Span) -> None:
        problems, kernel, double = self.shuffled, self.context.kernel, self.context.double
        largest = max((float(problem.bounds.sum()) for problem in problems), default=0.0)
        if largest > _LARGEST_COST:
            raise ValueError(
                f"C, class_weight and sample_weight add up to {largest:.3g}, more than "
                f"{_LARGEST_COST:g}, which max_vectors={span.max_vectors} cannot compute with: "
                "lower them."
            )
        self.most = min(span.max_vectors, kernel.X.shape[0])
        total = sum(len(problem.rows) for problem in problems)
        held, needed = machine_memory() * _MEMORY_FRACTION, self._working_bytes(problems)
        on_host, free_here = double.arrays.free_bytes() is None, free_memory()
        if on_host and needed > free_here:
            raise MemoryError(
                f"The SVM on {self.most:,} vectors takes {in_bytes(needed)} beside the rows, and "
                f"{in_bytes(free_here)} are free: lower max_vectors, or use fewer rows."
            )
        held = min(held, free_here - needed) if on_host else held
        if span.most_bytes is not None:
            held = max(0.0, span.most_bytes - needed)
            if held == 0.0 and not span.settles:
                warn(
                    f"memory_budget is {span.most_bytes / 1e6:.3g} MB, and max_vectors="
                    f"{self.most} takes some {needed / 1e6:.3g} MB beside the rows: raise "
                    "memory_budget, or lower max_vectors."
                )
        if (free := double.arrays.free_bytes()) is not None:
            room = _DEVICE_FRACTION * free
            held = room if span.most_bytes is None else min(room, held)
        if on_host:
            values = float(np.dtype(np.float32).itemsize * total * self.most)
            self.trainer.progress.say(
                f"memory: some {in_bytes(needed + min(held, values))} beside the rows, "
                f"{in_bytes(min(held, values))} of them for kernel values (see memory_budget)"
            )
        self.machines = [
            SpanMachine(problem, held * len(problem.rows) / total, self.context)
            for problem in problems
        ]

    def _working_bytes(self, problems: list[Problem]) -> float:
        """What training takes beside the rows and the kernel values that are held."""
        n_threads = getattr(self.threads, "n_threads", 1)
        n_candidates = max(_LEAST_CANDIDATES, _CANDIDATES * min(self.most, _MOST_ADDED))
        chosen_from = _PURSUIT * 8.0 * n_candidates * self.most
        solved = _MATRICES * 8.0 * self.most**2
        blocks = n_threads * 4.0 * BLOCK_ROWS * min(self.most, _MOST_ADDED)
        of_rows = _ROW_ARRAYS * 8.0 * max(len(problem.rows) for problem in problems)
        of_all = _KEPT_ARRAYS * 8.0 * sum(len(problem.rows) for problem in problems)
        return max(chosen_from, solved) + blocks + of_rows + of_all

    def _train(self, span: Span) -> None:
        """All of it; where the fit is to end, no more than that there are machines to use."""
        self._make_machines(span)
        self.span = span
        with self.trainer.progress.share(self._pilots_fraction()) as progress:
            self.samples.progress = progress
            self._add(self._first_vectors())
        with self.trainer.progress.task("few vectors", None, share=1.0, bar=True) as progress:
            self._train_on_all_rows(progress)

    def _pilots_fraction(self) -> float:
        """What pilots are expected to take of the whole, in kernel values."""
        sizes = [len(problem.rows) for problem in self.shuffled]
        each = TABLE.exact_values * TABLE.support_share
        pilots = each * sum((self.sampled * size) ** 2 for size in sizes)
        return pilots / (pilots + sum(sizes) * self._expected(round(_PILOTS_FRACTION * self.most)))

    def _expected(self, n_vectors: int) -> float:
        """Kernel values that all solves are expected to take of a row, after the first of them."""
        between = len(_BETWEEN) * sum(range(n_vectors, self.most, _MOST_ADDED))
        return between + len(_LAST) * self.most

    def _first_vectors(self) -> Pursuit:
        """A pursuit that has chosen the first vectors."""
        n_first = self.most if self.sampled == 1.0 else max(1, round(_PILOTS_FRACTION * self.most))
        pursuit, progress = self.pursuit, self.trainer.progress
        if pursuit is None:
            pursuit = self._pursuit_of_pilots(n_first)
            if self.sampled == 1.0:
                self.n_chosen = len(pursuit.choose(n_first))
            else:
                self.n_chosen, _ = self._carrying(pursuit, n_first)
        if not self.n_chosen and progress.is_over():
            pursuit.run = self.threads
            # there is no model without vectors
            self.n_chosen = len(pursuit.choose(min(n_first, BLOCK)))
        progress.say(f"few vectors: {self.n_chosen:,} of the SVM of a sample")
        return pursuit

    def _train_on_all_rows(self, progress: Progress) -> None:
        """The SVMs of all rows, with vectors of the pilots and more."""
        for machine, pilot in zip(self.machines, self.pilots, strict=True):
            machine.start_from(pilot)
            machine.known = pilot if self.sampled == 1.0 else None
        some = max(_FIRST_ROWS, _FIRST_ROWS_PER_VECTOR * len(self.basis))
        with suppress(OutOfTimeError):
            self._grow(some, progress)
        if len(self.basis) < self.most and progress.is_over():
            progress.cut_short(f"choosing vectors ended at {len(self.basis):,} of them")
        watched = self.context.watched
        watched.progress = watched.progress.to_the_end()  # what follows takes little
        for machine in self.machines:
            if machine.solved is None:
                machine.solve(_LAST, progress, some, to_the_end=False)
        converged = all(machine.last_solve.converged for machine in self.machines)
        if not converged and progress.is_over():
            progress.cut_short(
                f"a solve in the span of {len(self.basis):,} vectors ended before it had converged"
            )
        elif progress.is_over() and any(machine.dual() is None for machine in self.machines):
            progress.cut_short("the duality gap was not estimated")

    def _grow(self, some: int, progress: Progress) -> None:
        """Solve, first for some rows, and add vectors until there are enough."""
        most = self.most
        expected = self._expected(len(self.basis))
        most_rows = max(len(machine.problem.rows) for machine in self.machines)
        if most_rows > 2 * some:
            expected_part = some / most_rows * len(_FIRST) * len(self.basis) / expected
            self._solve(_FIRST, progress, min(expected_part, 0.5), some)
        before, exhausted, auto = inf, False, self.span.settles
        least_added = TABLE.least_added if auto else 0.0
        while most - len(self.basis) > least_added * most:
            self._solve(_BETWEEN, progress, len(_BETWEEN) * len(self.basis) / expected)
            objective = sum(machine.objective() for machine in self.machines)
            gained, before = before - objective, objective
            least = TABLE.settled * self.span.gap_tol * abs(objective)
            if gained <= least and (auto or exhausted):
                break
            n_most, n_before = min(most - len(self.basis), _MOST_ADDED), len(self.basis)
            if not self._enriched(n_most):
                break
            exhausted = len(self.basis) - n_before < TABLE.exhausted * n_most
            if auto and exhausted:
                break
        self._solve(_LAST, progress, 1.0, to_the_end=True)
        for machine in self.machines:
            machine.choose_multipliers(_LEAST_CANDIDATES)
        self._gap()

    def _solve(
        self,
        widths: tuple[float, ...],
        progress: Progress,
        fraction: float,
        n_rows: float = inf,
        to_the_end: bool = False,
    ) -> None:
        """Solve for all machines; ``fraction``: of all work, as progress expects it."""
        progress.check()
        with progress.share(fraction) as task:
            for machine in self.machines:
                with task.share(1.0 / len(self.machines)) as own:
                    fit, every = self._n_fit(machine, len(machine.basis)), len(machine.problem.rows)
                    machine.solve(widths, own, int(min(n_rows, fit)), to_the_end and fit == every)
                    own.check()
                    if to_the_end and fit < every:
                        machine.solve(widths, own, every, to_the_end)
                        own.check()

    def _n_fit(self, machine: SpanMachine, n_vectors: int) -> int:
        """The rows that a machine is solved for at once: all, or those that will always fit."""
        now = machine.n_fit(n_vectors)
        return now if now == len(machine.problem.rows) else machine.n_fit(self.most)

    # --- the pilots

    def _carrying(self, pursuit: Pursuit, n_most: int, too_much: float = inf) -> tuple[int, float]:
        """Choose vectors that carry the pilots: how many, and the fraction of norms left.

        It ends early where they leave little; also where ``n_most`` would leave over ``too_much``,
        if each step took off as large a fraction as the last.
        """
        whole = sum(max(pilot.squared_norm, 0.0) for pilot in self.pilots)
        n_chosen, left = 0, 1.0
        while n_chosen < n_most and left > TABLE.carries:
            before, n_wanted = left, min(_STEP, n_most - n_chosen)
            n_new = len(pursuit.choose(n_wanted))
            n_chosen += n_new
            taken = float(pursuit.taken.sum())
            left = max(0.0, 1.0 - taken / whole) if whole > 0 else 0.0
            n_more = (n_most - n_chosen) / _STEP
            hopeless = left * (left / before) ** n_more > too_much
            if n_new < n_wanted or (hopeless and n_chosen > _STEP):
                break
        return n_chosen, left

    def _pursuit_of_pilots(self, n_most: int) -> Pursuit:
        """A pursuit on the pilots, among their support vectors or a sample of these."""
        pilots = self.pilots
        candidates = np.unique(np.concatenate([one.set.rows[one.support] for one in pilots]))
        most = 2 * max(_LEAST_CANDIDATES, _CANDIDATES * n_most)
        if len(candidates) > most:
            candidates = np.sort(np.random.default_rng(1).choice(candidates, most, replace=False))
        values = np.zeros((len(candidates), len(pilots)))
        for column, (problem, pilot) in enumerate(zip(self.shuffled, pilots, strict=True)):
            at = np.flatnonzero(np.isin(self.groups[candidates], np.unique(problem.groups)))
            rows, coefs = pilot.set.rows[pilot.support], pilot.coefs[pilot.support]
            kernel = self.context.kernel.for_sums(rows, coefs)
            values[at, column] = kernel.scores(rows, coefs, candidates[at], self.threads)
        return self._pursuit(candidates, values)

    # --- the basis

    def _pursuit(self, candidates: NDArray[np.intp], values: Array) -> Pursuit:
        """A pursuit on what is left of a function of each machine."""
        numbers, groups = np.unique(self.groups[candidates], return_inverse=True)
        uses = (np.unique(problem.groups) for problem in self.shuffled)
        may_use = np.array([np.isin(numbers, own) for own in uses])
        targets = Functions(values, groups, may_use)
        return Pursuit(self.context.double, candidates, targets, run=self.context.watched)

    def _add(self, pursuit: Pursuit) -> None:
        """More vectors of the basis, for the machines that use them."""
        for machine, rows in zip(self.machines, pursuit.bases, strict=True):
            machine.add(rows[len(machine.basis) :], self._n_fit(machine, len(rows)))
        self.basis = np.unique(np.concatenate([machine.basis for machine in self.machines]))

    def _enriched(self, n_most: int) -> bool:
        """Add the next vectors; False where there are none, or the gap is small by an estimate."""
        candidates = self._candidates(n_most)
        left = self._gradients_outside(candidates)
        gap, error, objective = self._gap()
        if gap + error <= self.span.gap_tol * abs(objective):
            return False
        pursuit = self._pursuit(candidates, left)
        bases = [machine.basis for machine in self.machines]
        pursuit.begin_with(bases, [machine.factor() for machine in self.machines])
        n_new = len(pursuit.choose(n_most))
        self._add(pursuit)
        return n_new > 0

    def _candidates(self, n_most: int) -> NDArray[np.intp]:
        """A sample of the rows with a multiplier."""
        active = np.unique(np.concatenate([machine.active() for machine in self.machines]))
        most = max(_LEAST_CANDIDATES, _CANDIDATES * n_most)
        if len(active) <= most:
            return active
        rng = np.random.default_rng(len(self.basis))
        return np.sort(rng.choice(active, most, replace=False))

    def _gradients_outside(self, candidates: NDArray[np.intp]) -> Array:
        """What is left of g outside of the span, at the candidates of each machine."""
        left = np.zeros((len(candidates), len(self.machines)))
        for column, machine in enumerate(self.machines):
            at = np.flatnonzero(machine.in_use(candidates))
            left[at, column] = machine.gradient_outside(candidates[at])
        return left

    def _gap(self) -> tuple[float, float, float]:
        """The estimated gap, its standard error, and the objective, all machines together."""
        gap = variance = objective = 0.0
        for machine in self.machines:
            own, (dual, error) = machine.objective(), machine.dual() or (nan, nan)
            gap, variance, objective = gap + own - dual, variance + error**2, objective + own
        relative = gap / abs(objective) if objective else 0.0
        known = None if isnan(gap) else objective - gap
        self.trainer.history.note(0, objective, known, n_vectors=len(self.basis))
        estimate = f"estimated as {relative:.2g}" if relative <= 1.0 else "too wide to be estimated"
        self.trainer.progress.say(
            f"few vectors: {len(self.basis):,}, objective {objective:.6g}, relative duality gap "
            f"{estimate}"
        )
        return gap, float(np.sqrt(variance)), objective
