"""The SVM with w restricted to the span of a basis, on all rows.

    F(a, b) = 1/2 a' K a + sum_k d_k b_k + sum_i c_i loss(p_i),    w = sum_j a_j phi(b_j)

Losses have their kinks rounded off (``smoothing``), less and less. Each of these smooth problems is
solved by steps that a quasi-Newton method proposes: it starts from the Hessian over a sample of the
rows near a kink, factored once, and learns the rest from the steps (L-BFGS). Along every step
the best point is found exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from aesvm.bases.arrays import to_host
from aesvm.bases.factor import Factor, kernel_factor, product, solve
from aesvm.bases.hessian import Curvature, History, factor_of, two_loops
from aesvm.bases.smoothing import Implied, best_step, implied, ramps_of
from aesvm.bases.values import Array, BasisValues
from aesvm.formulations.protocol import Formulation, Offsets, best_offsets, total_loss
from aesvm.runtime.progress import OutOfTimeError, Progress

#: The relative duality gap to come to in the end, but for what of g is outside of the span.
GAP = 3e-4

#: What rounding off may add to the objective in the end, as a share of it; how much narrower each
#: further width is, and where that ends, in the formulation's unit.
DIFFERENCE, NARROWER, NARROWEST = 1e-4, 0.3, 1e-4

#: A smooth problem is solved where another step would gain less than this share of the objective.
_GAIN = {False: 3e-4, True: 3e-6}

#: With its last width, a solve that others follow, and the last one, must leave the duality gap
#: lacking no more than this share of the objective by steps that could still be made: multipliers
#: settle later than the objective does.
_LACKING = {False: 1e-3, True: 1e-4}

#: Rows of the Hessian's sample for each vector of the basis.
_SAMPLED = 3

#: Steps that are remembered, steps with one factor at least and at most, and the most factors.
#: Where the least are worth a factor, every width has one of its own.
_MEMORY, _STEPS, _FACTORS = 20, (12, 60), 6

#: Steps after which a solve is expected to be half way: for progress alone.
_HALF_WAY = 15

#: What an operation of a Gram matrix or a factor, in double precision, takes in those of a step: of
#: the host, and of a device. There steps wait for memory, and factors do not (an H200 reads 1.2e12
#: values in the time of 5e13 operations, each value being multiplied twice).
_DOUBLE = 2.0, 0.1

#: Values of the Hessian's sample that a device copies at a time.
_COPIED_THERE = 1 << 28


class Point(NamedTuple):
    """A machine in the span of a basis."""

    coefs: Array  #: of the basis
    offsets: Offsets


class Solved(NamedTuple):
    """The solution of a smooth problem."""

    point: Point
    scores: Array  #: of the rows
    multipliers: Array  #: of the rows, as their positions imply
    n_steps: int
    converged: bool
    wider: tuple[Array, ...] = ()  #: multipliers as wider rounded kinks implied them


def solve_in_span(
    values: BasisValues,
    within: Array,
    targets: Array,
    bounds: Array,
    formulation: Formulation,
    start: Point,
    widths: tuple[float, ...],
    run: Callable,
    progress: Progress,
    to_the_end: bool = False,
) -> Solved:
    """Minimise F over the rows in use.

    Parameters
    ----------
    values : BasisValues
        Of the rows and the basis.
    within : ndarray
        Kernel values of the basis, in double precision.
    targets, bounds : ndarray
        Of the rows. Where values are on a device, so are these, ``within`` and the coefficients.
    formulation : Formulation
    start : Point
    widths : tuple of float
        Half-widths of the rounded kinks, one after the other.
    run : callable
        ``map`` or a parallel one; ``OutOfTimeError`` of a call ends the solve where it is.
    progress : Progress
    to_the_end : bool, default=False
        Whether further, smaller widths follow until the duality gap is small.
    """
    solver = _Solver(values, within, targets, bounds, formulation, run)
    solver.begin(start)
    converged, wider = True, []
    try:
        for width in widths:
            last = to_the_end and width == widths[-1]
            lacking = _LACKING[to_the_end] if width == widths[-1] else inf
            converged = solver.minimise(width, last, lacking, progress)
        width = widths[-1]
        while to_the_end and width > NARROWEST and solver.gap() > GAP:
            wider.append(solver.multipliers)
            width *= NARROWER
            converged = solver.minimise(width, True, _LACKING[True], progress)
    except OutOfTimeError:
        converged = False
    return solver.solved(converged)._replace(wider=tuple(wider))


class _Solver:
    def __init__(
        self,
        values: BasisValues,
        within: Array,
        targets: Array,
        bounds: Array,
        formulation: Formulation,
        run: Callable,
    ) -> None:
        self.values = values
        self.arrays = values.kernel.arrays
        self.within = within
        self.targets = targets
        self.bounds = bounds
        self.formulation = formulation
        self.run = run
        self.ramps = ramps_of(formulation, targets, bounds)
        self.slopes = self.arrays.put(np.array(formulation.slopes(bounds)))
        self.n_steps = 0
        self.factor: Factor | None = None
        self.inside: Factor | None = None

    def begin(self, start: Point) -> None:
        self.coefs = start.coefs.copy()
        self.offsets = self.arrays.put(np.array(start.offsets))
        self.scores = self.values.products(self.coefs)
        self.pulled = product(self.within, self.coefs, self.run)
        self.multipliers = self.arrays.zeros(len(self.scores))
        self.sums = self.arrays.zeros(len(self.coefs))

    def solved(self, converged: bool) -> Solved:
        return Solved(
            Point(self.coefs, self._offsets()),
            self.scores,
            self.multipliers,
            self.n_steps,
            converged,
        )

    def _offsets(self) -> Offsets:
        return tuple(to_host(self.offsets).tolist())

    def gap(self) -> float:
        """The relative duality gap, but for what of g is outside of the span."""
        offsets = best_offsets(self.formulation, self.scores, self.targets, self.bounds)
        positions = self.formulation.positions(self.scores, self.targets, offsets)
        loss = total_loss(self.formulation, positions, self.bounds, offsets)
        exact = float(0.5 * self.coefs @ self.pulled) + loss
        coefs = self.formulation.feasible(self.multipliers, self.targets, self.bounds)
        norm = float(self.sums @ solve(self._inside(), self.sums))
        dual = self.formulation.dual_value(coefs, self.targets, norm)
        return (exact - dual) / max(abs(exact), 1e-300)

    def _lacks(self, gradient: Array) -> float:
        """What a duality gap has beside the part of g outside of the span: ``|P g - w|^2 / 2``."""
        own = gradient[: len(self.coefs)]
        return 0.5 * float(own @ solve(self._inside(), own))

    def _inside(self) -> Factor:
        """The factor of the basis's kernel values."""
        if self.inside is None:
            self.inside = kernel_factor(self.within, self.run)
        return self.inside

    def minimise(self, share: float, last: bool, lacking: float, progress: Progress) -> bool:
        """Solve for one width, given as a share of the formulation's unit.

        ``last``: to a small gain; ``lacking``: what the duality gap may lack, see ``_LACKING``.
        """
        gain = _GAIN[last]
        self.width = share * self.formulation.width(self._offsets())
        seen = self._look()
        progress.check()
        for attempt in range(_FACTORS):
            if attempt or self.factor is None or self._patience == _STEPS[0]:
                self.factor = None  # there need not be room for two
                self.factor = self._factor(seen)
            history: History = deque(maxlen=_MEMORY)
            for _ in range(self._patience):
                gradient = self._gradient(seen)
                direction = -two_loops(gradient, history, self.factor)
                small = -float(gradient @ direction) <= 2.0 * gain * abs(self.objective)
                if small and self._lacks(gradient) <= lacking * abs(self.objective):
                    return True
                if not self._step(direction):
                    return True
                seen = self._look()
                self.n_steps += 1
                progress.reach(1.0 - 0.5 ** (self.n_steps / _HALF_WAY))
                change = self._gradient(seen) - gradient
                if (inner := float(change @ self.moved)) > 0:
                    history.append((self.moved, change, inner))
                progress.check()
        return False

    @property
    def _patience(self) -> int:
        """Steps with one factor: those that take half as long as another one, by their flops."""
        n = len(self.coefs)
        factor = (_SAMPLED + 1 / 3) * n**3
        step = 4.0 * len(self.scores) * max(n, 1)
        return int(np.clip(self._double * factor / (2.0 * step), *_STEPS))

    @property
    def _double(self) -> float:
        return self.arrays.either(*_DOUBLE)

    def _look(self) -> Implied:
        """The losses at the present point, and the multipliers they imply."""
        self.heights = self.ramps.heights(self.scores, self.offsets, self.run)
        n, n_offsets = len(self.scores), len(self.offsets)
        seen = implied(self.ramps, self.heights, self.width, n, n_offsets, self.run)
        self.sums = self.sums + self.values.sums(seen.coefs - self.multipliers)
        self.multipliers = seen.coefs
        self.objective = float(
            0.5 * self.coefs @ self.pulled + self.slopes @ self.offsets + seen.loss
        )
        return seen

    def _gradient(self, seen: Implied) -> Array:
        return np.append(self.pulled - self.sums, self.slopes + seen.by_offset)

    def _step(self, direction: Array) -> bool:
        """Go to the best point along a direction; False where that is here."""
        n = len(self.coefs)
        along, shift = direction[:n], direction[n:]
        change = self.values.products(along)
        changes = self.ramps.changes(change, shift, self.run)
        pulled = product(self.within, along, self.run)
        slope = float(self.coefs @ pulled + self.slopes @ shift)
        step = best_step(
            self.heights,
            changes,
            self.ramps.costs,
            self.width,
            slope,
            float(along @ pulled),
            self.run,
        )
        if step == 0.0:
            return False
        self.moved = step * direction
        self.coefs = self.coefs + self.moved[:n]
        self.offsets = self.offsets + self.moved[n:]
        self.pulled = self.pulled + step * pulled
        self.scores = self.scores + step * change
        return True

    def _factor(self, seen: Implied) -> Factor:
        """The Hessian's Cholesky factor, over a sample of the rows that are curved."""
        at = to_host(np.flatnonzero(seen.curvatures))
        # as many as take no longer than the steps that a factor serves at least
        worth = 4.0 * _STEPS[0] * len(self.scores) / (self._double * max(1, len(self.coefs)))
        most = max(_SAMPLED * max(len(self.coefs), 500), int(worth))
        scale = 1.0
        if len(at) > most:
            scale = len(at) / most
            at = np.sort(np.random.default_rng(0).choice(at, most, replace=False))
        n, n_offsets = len(self.coefs), len(self.offsets)
        step = self.arrays.either(max(n, 1024), max(1, _COPIED_THERE // max(1, n)))
        curvature: Curvature | None = None
        for first in range(0, len(at), step):
            here = at[first : first + step]
            own = self.arrays.put(here)
            more = Curvature.of_rows(
                self.values.lines(here),
                scale * seen.curvatures[own],
                scale * seen.crossed[:, own],
                self.run,
            )
            curvature = more if curvature is None else curvature.plus(more)
        if curvature is None:
            curvature = Curvature.of_nothing(n, n_offsets, self.arrays)
        return factor_of(self.within, curvature, float(self.bounds.sum()) / self.width, self.run)
