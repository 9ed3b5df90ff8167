"""The SVM of all rows in the span of a basis, where rows are elsewhere: by passes over them.

A pass adds up (``sums``) F, its gradient and its Hessian over all rows, for several machines at
once. Each machine makes the descent of ``descent``; a line is searched by comparing a few points
that one pass evaluates. They are evaluated with the next half-width of the rounded kinks as well,
so that making them narrower takes no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np

from aesvm.bases.descent import Descent, Goal, Here, Line, Point
from aesvm.bases.factor import Factor, hessian_factor
from aesvm.bases.sums import PointOnLine, Query, Sums, SumsByMachine
from aesvm.formulations.protocol import Array, Formulation
from aesvm.runtime.progress import OutOfTimeError, Progress

#: Half-widths of the rounded kinks, in the formulation's unit. Narrower ones follow while rounding
#: off adds more than a fraction of the objective.
_WIDTHS, _DIFFERENCE = (0.1, 0.03, 0.01), 1e-4

#: The first is one of these: the widest with which rounding off adds no more than a fraction of the
#: objective. Where losses are small, it must be small as well.
_FIRST, _ADDED = (0.1, 0.03, 0.01, 0.003, 0.001), 0.05

#: Goals of all widths but the last of these, and of that one and all that follow.
_GOAL, _LAST_GOAL = Goal(3e-4, n_least=1, n_slow=3), Goal(1e-4, n_least=1, n_slow=3)

#: Curvature is evaluated with this half-width, or ``_TIMES`` the present one where that is less.
#: Rows so near to a kink will be curved sooner or later. Those within a small width are too few.
_BENT, _TIMES = 0.1, 3.0

#: The most that a full step may change scores of vectors and offsets, in the formulation's unit:
#: where few rows are near a kink, little holds them.
_REACH = 2.0

#: Points that are compared along a line. Where none is better than the present one, shorter lines
#: are tried: how much shorter each is, and how many lines in all.
_STEPS, _SHORTER, _TRIES = (0.25, 0.5, 1.0, 2.0), 0.1, 3

#: The most passes. A solve has converged where another step would gain at most this fraction of
#: the objective.
_PASSES, _NEAR = 24, 1e-3

#: Rows for each vector that curvature is summed over, where there are more (with four it takes half
#: as many passes again); and the fraction of all rows that are curved, before that is known.
_SAMPLED, _CURVED = 16, 0.1


class Start(NamedTuple):
    """Where a machine begins."""

    within: Array  #: kernel values of its vectors, in double precision
    point: Point
    n_rows: int  #: that belong to it


class Evaluated(NamedTuple):
    """A machine, with F over all rows."""

    point: Point
    loss: float  #: F without ``1/2 |w|^2``
    objective: float  #: F


class SolvedInPasses(NamedTuple):
    """The best point of a machine that a pass evaluated."""

    best: Evaluated
    scores: Array  #: of its vectors
    n_steps: int
    converged: bool


def solve_in_passes(
    starts: dict[int, Start],
    ask: Callable[[dict[int, Query]], SumsByMachine],
    formulation: Formulation,
    progress: Progress,
) -> dict[int, SolvedInPasses]:
    """Minimise F over all rows, of several machines at once.

    Parameters
    ----------
    starts : dict
        By number of the machine.
    ask : callable
        Answers queries by a pass over all rows.
    formulation : Formulation
    progress : Progress

    Returns
    -------
    solved : dict
        Empty where the fit was to end before the first pass had.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.descent import Point
    >>> from aesvm.bases.solve_in_passes import Start, solve_in_passes
    >>> from aesvm.bases.sums import SpanMachines, add_up
    >>> from aesvm.kernels import KernelSpec
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.machines.problem import EveryRow
    >>> from aesvm.runtime.progress import Silence
    >>> X, signs = np.array([[1.0], [3.0]]), np.array([-1.0, 1.0])
    >>> rows, every = {0: EveryRow(2, 9.0)}, {0: np.array([0])}
    >>> spec, double = KernelSpec("linear"), np.dtype(np.float64)
    >>> sent = SpanMachines(X[:1], every, rows, spec, Hinge(), double, 1e-5)
    >>> start = {0: Start(np.ones((1, 1)), Point(np.zeros(1), (0.0,)), 2)}
    >>> def ask(queries):
    ...     return add_up(X, signs, np.ones(2), sent, queries)
    >>> coefs, offsets = solve_in_passes(start, ask, Hinge(), Silence())[0].best.point
    >>> np.allclose([*coefs, *offsets], [1.0, -2.0], atol=0.02)  # x - 2
    True
    """
    machines = {number: _ProblemElsewhere(*start, formulation) for number, start in starts.items()}
    queries = {number: one.first_query() for number, one in machines.items()}
    n_passes = 0
    try:
        while queries and n_passes < _PASSES:
            progress.check()
            answer = ask(queries)
            n_passes += 1
            following = {at: machines[at].following(answer[at]) for at in queries}
            queries = {at: query for at, query in following.items() if query is not None}
            progress.say(
                f"pass {n_passes}: objective "
                f"{sum(one.best.objective for one in machines.values()):.6g}, "
                f"{len(queries):,} of {len(machines):,} SVM{'s'[: len(machines) > 1]} left"
            )
    except OutOfTimeError:
        progress.cut_short(f"the SVM of all rows ended after {n_passes} passes")
    if not n_passes:
        return {}
    return {
        number: SolvedInPasses(
            one.best, one.within @ one.best.point.coefs, one.n_steps, one.converged
        )
        for number, one in machines.items()
    }


class _Asked(NamedTuple):
    """What a machine asks: points on a line, each with several half-widths of the rounded kinks."""

    direction: Array
    steps: tuple[float, ...]
    widths: tuple[float, ...]  #: half-widths in the formulation's unit; the present one is first
    half_widths: tuple[float, ...]  #: the same as they are
    bent: float  #: the half-width that curvature is evaluated with

    @property
    def full(self) -> float:
        """The step where curvature is evaluated."""
        return 1.0 if 1.0 in self.steps else 0.0

    @property
    def points(self) -> tuple[PointOnLine, ...]:
        compared = (PointOnLine(step, width) for width in self.half_widths for step in self.steps)
        return *compared, PointOnLine(self.full, self.bent)


class _Known(NamedTuple):
    """F where the descent is, with one half-width."""

    half_width: float
    rounded_off: float  #: what rounding off adds to F
    here: Here


class _ProblemElsewhere:
    """A ``SmoothProblem`` known by sums over its rows, and the descent that solves it."""

    patience, n_factors = _PASSES, 1

    def __init__(self, within: Array, start: Point, n_rows: int, formulation: Formulation) -> None:
        self.within = within
        self.formulation = formulation
        self.coefs, self.offsets = start.coefs.copy(), np.array(start.offsets)
        self.best = Evaluated(start, inf, inf)
        self.known: dict[float, _Known] = {}  # by width, in the formulation's unit
        self.n_steps = self.n_tries = 0
        self.descent: Descent | None = None
        self.lines: Iterator[Line] = iter(())
        self.asked: _Asked
        self.now: _Known  # with the present half-width
        self._factor: Factor | None = None
        self._sample_from(_CURVED * n_rows)

    def first_query(self) -> Query:
        """About the start, with all half-widths that the descent may begin with."""
        return self._ask(None, _FIRST)

    def following(self, sums: Sums) -> Query | None:
        """The next query, after the answer to the last; None where the descent has ended."""
        if not self._take(sums):
            self.n_tries += 1
            if self.n_tries < _TRIES:
                return self._ask(_SHORTER * self.asked.direction, self.asked.widths)
            self.now = self.now._replace(here=self.here._replace(moved=None))
        if self.descent is None:
            self.descent = Descent(self, self._first_widths(), _GOAL, _LAST_GOAL)
            self.lines = iter(self.descent)
        for line in self.lines:
            if line.direction is not None or line.width not in self.known:
                self.n_tries = 0
                return self._ask(line.direction, (line.width, line.narrower))
            self.now = self.known[line.width]
        return None

    def _ask(self, direction: Array | None, widths: tuple[float, ...]) -> Query:
        """A query about points along a direction, or where the descent is."""
        n, moves = len(self.coefs), direction is not None
        if direction is None:
            direction = np.zeros(n + len(self.offsets))
        change = np.append(self.within @ direction[:n], direction[n:])
        reach = float(np.abs(change).max(initial=0.0))
        direction = direction * min(1.0, self._length(_REACH) / max(reach, 1e-300))
        half_widths = tuple(map(self._length, widths))
        if moves:  # objectives are compared: that of the present point has this one
            half_widths = self.now.half_width, *half_widths[1:]
        steps = _STEPS if moves else (0.0,)
        bent = self._length(min(_BENT, _TIMES * widths[0]))
        self.asked = _Asked(direction, steps, widths, half_widths, bent)
        points = self.asked.points
        return Query(
            self.coefs,
            self.offsets,
            direction[:n],
            direction[n:],
            points,
            len(points) - 1,
            self.one_in,
        )

    def _sample_from(self, n_curved: float) -> None:
        """Choose the fraction of the ``n_curved`` rows that curvature is summed over."""
        self.one_in = max(1, int(n_curved) // (_SAMPLED * max(1, len(self.coefs))))

    def _length(self, width: float) -> float:
        """A length that is given in the formulation's unit."""
        return width * self.formulation.width(tuple(self.offsets.tolist()))

    def _take(self, sums: Sums) -> bool:
        """Go to the best point of an answer; False where it is no better than the present one."""
        asked, found = self.asked, sums.losses
        self._sample_from(float(found.n_curved[0]))
        self.curvature, self.steepest = sums.curvature, float(found.total_cost[0]) / asked.bent
        self._factor = None
        n = len(self.coefs)
        along, shift = asked.direction[:n], asked.direction[n:]
        steps = np.array([point.step for point in asked.points])
        w_at_basis, change = self.within @ self.coefs, self.within @ along
        linear = found.slopes @ self.offsets + steps * (found.slopes @ shift)
        halves = 0.5 * self.coefs @ w_at_basis + steps * (self.coefs @ change)
        halves += 0.5 * steps**2 * (along @ change)
        objectives, exact = halves + linear + found.rounded, halves + linear + found.exact
        self._keep_best(steps, exact, linear + found.exact)
        n_steps = len(asked.steps)
        at = int(np.argmin(objectives[:n_steps]))
        moves = n_steps > 1
        if moves and objectives[at] >= self.here.objective:
            return False
        self.known = {}
        for k, width, half_width in zip(
            range(at, len(steps), n_steps), asked.widths, asked.half_widths, strict=False
        ):
            by_coefs = w_at_basis + steps[k] * change - found.g_at_basis[k]
            gradient = np.append(by_coefs, found.slopes + found.by_offset[k])
            here = Here(float(objectives[k]), gradient, steps[k] * asked.direction)
            self.known[width] = _Known(half_width, float(objectives[k] - exact[k]), here)
        self.now = self.known[asked.widths[0]]
        self.coefs, offsets = self._point(steps[at])
        self.offsets = np.array(offsets)
        self.n_steps += moves
        return True

    def _keep_best(self, steps: Array, objectives: Array, losses: Array) -> None:
        """Remember the best of all points, with kinks as they are."""
        at = int(np.argmin(objectives))
        if objectives[at] < self.best.objective:
            self.best = Evaluated(self._point(steps[at]), float(losses[at]), float(objectives[at]))

    def _point(self, step: float) -> Point:
        n = len(self.coefs)
        offsets = self.offsets + step * self.asked.direction[n:]
        return Point(self.coefs + step * self.asked.direction[:n], tuple(offsets.tolist()))

    def _first_widths(self) -> tuple[float, ...]:
        size = abs(self.best.objective)
        small = [width for width in _FIRST if self.known[width].rounded_off <= _ADDED * size]
        first = small[0] if small else _FIRST[-1]
        return first, *(width for width in _WIDTHS if width < first)

    # --- what the descent asks

    @property
    def here(self) -> Here:
        return self.now.here

    @property
    def factor(self) -> Factor:
        """That of the last pass."""
        if self._factor is None:
            self._factor = hessian_factor(self.within, self.curvature, self.steepest)
        return self._factor

    def renew_factor(self, worn: bool) -> None:
        """Every pass brings a new one."""

    def lacks(self) -> float:
        """Not known, as multipliers are not kept; no goal asks for it."""
        return 0.0

    def narrows(self) -> bool:
        return self.now.rounded_off > _DIFFERENCE * abs(self.best.objective)

    @property
    def converged(self) -> bool:
        """Whether another step would gain little."""
        return self.descent is not None and self.descent.gain <= _NEAR
