"""One machine of rows in memory, with w in the span of a basis, and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.descent import Point
from aesvm.bases.factor import Factor, kernel_factor, solve, times, to_host
from aesvm.bases.solve_in_memory import BasisValues, ProblemInMemory, SpanSolution
from aesvm.certificate.proof import prove_machine
from aesvm.certificate.records import Record
from aesvm.formulations.objective import (
    Objective,
    best_offsets,
    dual_value,
    total_loss,
    worst_optimum,
)
from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.kernels import KernelMatrix
from aesvm.machines.problem import Coverage, Machine, Problem, TrainingSet
from aesvm.machines.results import Trained
from aesvm.machines.rounds import FREE
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress, Watched
from aesvm.solver.state import Solution

#: The error that is stated of an estimate, in standard errors.
_ERRORS = 2.0

#: Rows that are solved for while vectors are chosen, at least. Kernel values that do not fit into
#: memory are computed again.
_LEAST_FIT = 100_000

#: Kernel values that are computed between two checks of the time.
_AT_ONCE = 1e8


class SpanContext(NamedTuple):
    """What all machines of a fit share."""

    kernel: TrainingKernel
    double: KernelMatrix  #: the same in double precision
    formulation: Formulation
    tol: float
    run: Callable  #: ``map`` or a parallel one
    watched: Watched  #: the same; raises ``OutOfTimeError`` where the fit is to end


class SpanMachine:
    """A machine in the span of a growing basis.

    Where rows are on a device, so are targets, bounds, scores, multipliers, and the coefficients
    and kernel values of the basis.

    The rows of the ``problem`` are in random order: the first of them are a sample. Kernel values
    that are held take ``most_bytes`` at most.
    """

    def __init__(self, problem: Problem, most_bytes: float, context: SpanContext) -> None:
        self.problem = problem
        self.context = context
        self.arrays = context.double.arrays
        self.targets = self.arrays.put(problem.targets)
        self.bounds = self.arrays.put(problem.bounds)
        self.groups = np.unique(problem.groups)
        self.order = np.argsort(problem.rows)
        values = context.kernel.for_sums(problem.rows, np.empty(0))
        self.values = BasisValues(values, problem.rows, most_bytes, context.watched)
        nothing = self.arrays.zeros(len(problem.rows))
        offsets = best_offsets(context.formulation, nothing, self.targets, self.bounds)
        self.point = Point(self.arrays.zeros(0), offsets)
        self.within = self.arrays.zeros((0, 0))
        self.solved: SpanSolution | None = None
        self.n_steps = 0
        self.known: Machine | None = None  # the exact one, where that was trained
        self.squared_norm: tuple[float, float] | None = None  # of g, and its standard error
        self.best_dual: tuple[float, float] | None = None  # of all rows, and its standard error

    @property
    def basis(self) -> NDArray[np.intp]:
        """Rows of the kernel matrix."""
        return self.values.basis

    def add(self, rows: NDArray[np.intp], n_kept: int) -> None:
        """Add vectors to the basis; values of the first ``n_kept`` rows may be held."""
        self.values.n_kept = n_kept
        self.values.add(rows)
        within = self.context.double.square_there(self.basis)
        self.within = within.astype(np.float64, copy=False)
        coefs = np.append(self.point.coefs, self.arrays.zeros(len(rows)))
        self.point = Point(coefs, self.point.offsets)

    def start_from(self, machine: Machine) -> None:
        """Begin with the projection of another machine onto the span."""
        if machine.solution is not None:
            own = machine.support
            rows, coefs = machine.set.rows[own], machine.coefs[own]
            values = self.context.double.scores(rows, coefs, self.basis, self.context.run)
            self.point = Point(self.projected(self.arrays.put(values)), machine.offsets)
            self._is_precise()

    def _is_precise(self) -> bool:
        """Whether kernel values are precise enough for the coefficients; if not, make them so.

        Vectors near to each other's span have large coefficients that nearly cancel.
        """
        if self.values.kernel.dtype == np.float64 or not len(self.basis):
            return True
        enough = self.context.kernel.in_sums(self.basis, to_host(self.point.coefs))
        if enough.dtype == self.values.kernel.dtype:
            return True
        self.values.compute_by(enough)
        return False

    def factor(self) -> Factor:
        """The lower Cholesky factor of the basis's kernel values."""
        return kernel_factor(self.within, self.context.run)

    def projected(self, values: Array) -> Array:
        """The coefficients of a function's projection, from its values at the basis."""
        return solve(self.factor(), values)

    def n_fit(self, n_vectors: int) -> int:
        """The first rows whose kernel values with ``n_vectors`` vectors can all be held.

        All rows where values cost little: those of a given matrix, or on a device.
        """
        n_rows = len(self.problem.rows)
        given = self.context.kernel.spec.kernel == "precomputed"
        if self.arrays.either(given, True):
            return n_rows
        fit = self.values.most_bytes / (self.values.kernel.dtype.itemsize * max(1, n_vectors))
        return min(n_rows, max(int(fit), _LEAST_FIT))

    def solve(
        self, widths: tuple[float, ...], progress: Progress, n_rows: int, to_the_end: bool
    ) -> None:
        """Minimise F over the first rows; see ``ProblemInMemory``."""
        n = min(n_rows, len(self.problem.rows))
        self.values.n_rows = n
        self._solve(n, widths, progress, to_the_end)
        if not self._is_precise():
            self._solve(n, widths[-1:], progress, to_the_end)

    def _solve(
        self, n: int, widths: tuple[float, ...], progress: Progress, to_the_end: bool
    ) -> None:
        self.solved = ProblemInMemory(
            self.values,
            self.within,
            self.targets[:n],
            self.bounds[:n],
            self.context.formulation,
            self.point,
            self.context.watched,
            to_the_end,
        ).solve(widths, progress)
        self.point = self.solved.point
        self.squared_norm = None
        self.n_steps += self.solved.n_steps

    # --- after a solve, over the rows that were solved for

    @property
    def targets_in_use(self) -> Array:
        return self.targets[: len(self.last_solve.scores)]

    @property
    def bounds_in_use(self) -> Array:
        """The bounds of the multipliers."""
        return self.bounds[: len(self.last_solve.scores)]

    @property
    def last_solve(self) -> SpanSolution:
        assert self.solved is not None
        return self.solved

    def best_offsets(self) -> Offsets:
        """The offsets that minimise F with kinks as they are."""
        scores = self.last_solve.scores
        return best_offsets(
            self.context.formulation, scores, self.targets_in_use, self.bounds_in_use
        )

    def loss(self) -> float:
        """F without ``1/2 |w|^2``."""
        formulation, offsets = self.context.formulation, self.best_offsets()
        positions = formulation.positions(self.last_solve.scores, self.targets_in_use, offsets)
        return total_loss(formulation, positions, self.bounds_in_use, offsets)

    def objective(self) -> float:
        """F."""
        coefs = self.point.coefs
        return float(0.5 * coefs @ self.within @ coefs) + self.loss()

    def feasible(self) -> Array:
        """The multipliers that positions imply, moved to satisfy the dual's constraints."""
        return self.context.formulation.feasible(
            self.last_solve.multipliers, self.targets_in_use, self.bounds_in_use
        )

    @property
    def is_of_all_rows(self) -> bool:
        """Whether the last solve was for all rows."""
        return len(self.last_solve.scores) == len(self.problem.rows)

    def in_use(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of some rows the last solve was for."""
        used = self.problem.rows[: len(self.last_solve.scores)]
        return np.isin(rows, used)

    def active(self) -> NDArray[np.intp]:
        """The rows with a multiplier."""
        return self.problem.rows[to_host(np.flatnonzero(self.feasible()))]

    def gradient_outside(self, rows: NDArray[np.intp]) -> Array:
        """The part of ``g = sum_i coef_i phi(x_i)`` outside of the span, at some rows.

        ``|g|^2`` is estimated from those of them that have a multiplier. They must be a fair sample
        of all rows that have one.
        """
        self.squared_norm = None
        context, multipliers = self.context, self.feasible()
        active = np.flatnonzero(multipliers)
        support, coefs = self.problem.rows[to_host(active)], to_host(multipliers[active])
        kernel = context.kernel.for_sums(support, coefs)
        values = np.empty(len(rows))
        step = max(1, int(_AT_ONCE / max(1, len(support))))
        for first in range(0, len(rows), step):
            context.watched.progress.check()
            part = slice(first, first + step)
            values[part] = kernel.scores(support, coefs, rows[part], context.run)
        at_basis = self.values.sums(multipliers)
        inside = self.projected(at_basis)
        left = values - context.double.scores(self.basis, to_host(inside), rows, context.run)
        found = np.searchsorted(self.problem.rows, rows, sorter=self.order)
        own = to_host(multipliers[self.arrays.put(self.order[found])])
        terms = own[own != 0] * left[own != 0]
        outside, error = float(terms.sum()), 0.0
        if 1 < len(terms) < len(active):
            outside = float(terms.mean()) * len(active)
            error = float(terms.std(ddof=1)) / np.sqrt(len(terms)) * len(active)
        self.squared_norm = float(inside @ at_basis) + max(0.0, outside), error
        dual = self.dual()
        if self.is_of_all_rows and dual is not None:
            self.best_dual = dual if self.best_dual is None else max(self.best_dual, dual)
        return left

    def choose_multipliers(self, n_most: int) -> None:
        """Keep the best of the multipliers that rounded kinks of several widths imply.

        Those of narrow kinks are nearer to the SVM, but uneven: those of wide ones leave less
        outside of the span. The dual of each is estimated from at most ``n_most`` rows with a
        multiplier. Where the exact machine is known, its multipliers are better than all of these.
        """
        if self.known is not None:
            return
        found = []
        for multipliers in (self.last_solve.multipliers, *self.last_solve.wider):
            self.solved = self.last_solve._replace(multipliers=multipliers)
            active = self.active()
            if len(active) > n_most:
                active = np.random.default_rng(0).choice(active, n_most, replace=False)
            self.gradient_outside(np.sort(active))
            found.append((self.dual() or (-inf, 0.0), multipliers, self.squared_norm))
        _, multipliers, self.squared_norm = max(found, key=lambda one: one[0])
        self.solved = self.last_solve._replace(multipliers=multipliers, wider=())

    def multipliers(self) -> Array:
        """Feasible for the dual: those of the exact machine if it is known, else implied ones."""
        return self.feasible() if self.known is None else self.arrays.put(self.known.multipliers)

    def dual(self) -> tuple[float, float] | None:
        """The dual at these multipliers, and its standard error; None where it is not known."""
        if self.known is not None and self.known.solution is not None:
            return -self.known.solution.objective, 0.0
        if self.squared_norm is None:
            return None
        norm, error = self.squared_norm
        coefs, targets = self.multipliers(), self.targets_in_use
        value = dual_value(self.context.formulation, coefs, targets, norm)
        other = dual_value(self.context.formulation, coefs, targets, norm + error)
        return value, abs(value - other)

    def trained(self, n_iter: int, n_machines: int) -> Trained:
        """The machine, one of ``n_machines``, with the numbers for a certificate."""
        coefs, offsets, loss = to_host(self.point.coefs), self.best_offsets(), self.loss()
        scores = to_host(times(self.within, self.point.coefs))
        dual, error = self.dual() or self.best_dual or (None, 0.0)
        n_iter += self.n_steps
        solution = Solution(
            np.abs(coefs),
            scores,
            np.array(offsets),
            nan if dual is None else -dual,
            nan,
            nan,
            n_iter,
            self.values.n_values,
            float(np.abs(coefs).sum()),
            self.last_solve.converged,
        )
        machine = Machine(self._set(), coefs, scores, offsets, solution)
        covered = machine.set.coverage
        record = Record(
            exact=False,
            n_rows=covered.n_rows,
            squared_norm=machine.squared_norm,
            loss_reduced=loss,
            total_cost=covered.total_cost,
            worst_optimum=covered.worst_optimum,
            squared_norm_bound=covered.squared_norm_bound,
            target_reach=self.context.formulation.target_reach,
            offsets=offsets,
            loss=loss,
            n_vectors=len(coefs),
            estimated_dual=dual,
            estimated_error=_ERRORS * error,
        )
        if not self.is_of_all_rows:  # the fit was to end
            record = replace(record, loss=None, loss_reduced=None, estimated_dual=None)
        multipliers = self._multipliers_of_all()
        held = np.flatnonzero(multipliers)
        cost = len(held) ** 2 / 2 + covered.n_rows * len(coefs)
        if self.is_of_all_rows and cost <= FREE / n_machines:
            record = self._proven(record, machine, multipliers)
        kept = self.problem.rows[held].astype(np.int32), multipliers[held]
        return Trained(machine, n_iter, record, kept)

    def _multipliers_of_all(self) -> Array:
        """Multipliers of all rows, also of those that the last solve was not for."""
        if self.known is not None or self.is_of_all_rows:
            return to_host(self.multipliers())
        problem = self.problem
        whole = np.zeros(len(problem.rows))
        whole[: len(self.last_solve.scores)] = to_host(self.multipliers())
        return self.context.formulation.feasible(whole, problem.targets, problem.bounds)

    def _set(self) -> TrainingSet:
        """The basis as a training set that stands for all rows."""
        problem, formulation = self.problem, self.context.formulation
        at = self.order[np.searchsorted(problem.rows, self.basis, sorter=self.order)]
        own = problem.take(at)
        worst = worst_optimum(formulation, problem.targets, problem.bounds)
        coverage = Coverage(
            n_rows=len(problem.rows),
            total_cost=float(problem.bounds.sum()),
            worst_optimum=worst,
            squared_norm_bound=formulation.squared_norm_bound(float(problem.bounds.sum()), worst),
            exact=False,
        )
        return TrainingSet(own.rows, own.targets, own.weights, own.costs, coverage)

    def _proven(self, record: Record, machine: Machine, multipliers: Array) -> Record:
        context, problem = self.context, self.problem.take(self.order)
        proof = prove_machine(
            context.kernel.in_double(),
            context.kernel.spec.is_definite,
            problem.rows,
            Objective(context.formulation, problem.targets, problem.bounds),
            self.basis,
            machine.coefs,
            machine.offsets,
            multipliers[self.order],
            context.tol,
            context.run,
        )
        return record.proven_by(proof)
