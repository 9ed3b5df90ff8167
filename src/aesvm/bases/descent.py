"""The SVM of all rows with w in the span of a basis: a descent, wherever the rows are.

    F(a, b) = 1/2 a' K a + sum_k d_k b_k + sum_i c_i loss(p_i),    w = sum_j a_j phi(b_j)

The losses have their kinks rounded off, less and less. ``max(0, t)`` becomes ``(t + h)^2 / 4h``
within the half-width h of its kink, and stays as it is elsewhere. It is then at most ``h / 4`` too
large, and its slope grows from 0 to 1 across the kink. That slope times the cost of a row is the
multiplier that the row's position implies. Each half-width is a smooth problem, solved by L-BFGS:
it starts from a Cholesky factor of the Hessian, and learns the rest from the steps.

One descent serves rows in memory and rows elsewhere. It chooses directions, half-widths and when to
stop. A ``SmoothProblem`` searches the lines, and has the Hessian:

rows in memory (``solve_in_memory``)
    Scores are kept, so that the best point on a line is found exactly. A Hessian costs as much as
    dozens of steps, so one factor serves as many.
rows elsewhere (``solve_in_passes``)
    A pass over all rows compares a few points on the line. It adds up the Hessian as well, so that
    every step has a new factor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.factor import Factor, on_host, solve
from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.runtime.jit import jit

#: Each further half-width is this fraction of the one before. None is smaller than the second
#: number, in the formulation's unit.
NARROWER, NARROWEST = 0.3, 1e-4

#: Steps that L-BFGS remembers.
_MEMORY = 20


class Point(NamedTuple):
    """A machine in the span of a basis."""

    coefs: Array  #: of the basis
    offsets: Offsets


class Here(NamedTuple):
    """F with rounded kinks, where the descent is."""

    objective: float
    gradient: Array  #: in the coefficients and the offsets
    moved: Array | None = None  #: the last step; None where no point on the line was better


class Line(NamedTuple):
    """A line to search, from where the descent is."""

    direction: Array | None  #: of coefficients and offsets; None: F is wanted where it is
    width: float  #: the half-width of the rounded kinks, in the formulation's unit
    narrower: float  #: the half-width that will follow


class Goal(NamedTuple):
    """When a smooth problem is solved; gains are fractions of the objective."""

    gain: float  #: another step would gain less than this
    lacking: float = inf  #: the most that further steps could take off the duality gap
    n_least: int = 0  #: steps that are made in any case
    n_slow: float = inf  #: slow steps in a row after which a width is given up


class SmoothProblem(Protocol):
    """The SVM of one machine in the span of a basis, with rounded kinks, as a descent sees it."""

    @property
    def here(self) -> Here:
        """F where the last line search ended."""

    @property
    def factor(self) -> Factor:
        """The Cholesky factor of the Hessian, as far as that is known."""

    @property
    def patience(self) -> int:
        """Steps that one factor serves."""

    @property
    def n_factors(self) -> int:
        """The most factors for one width."""

    def renew_factor(self, worn: bool) -> None:
        """Have a factor for the present width; ``worn``: the last one has served its steps."""

    def lacks(self) -> float:
        """What further steps could take off the duality gap."""

    def narrows(self) -> bool:
        """Whether rounding off still matters, so that a narrower width is to follow."""


@dataclass(eq=False)
class Descent:
    """A descent: an iterator over the lines that it wants searched.

    Each line must be searched before the next one is drawn. With rows in memory that is done at
    once, with rows elsewhere in a pass that serves several machines.
    """

    problem: SmoothProblem
    #: Half-widths of the rounded kinks, in the formulation's unit. Narrower ones follow where the
    #: problem asks for them.
    widths: tuple[float, ...]
    goal: Goal  #: of all widths but the last of these
    last: Goal  #: of that one, and of all that follow
    gain: float = inf  #: expected of the next step, as a fraction of the objective
    solved: bool = False  #: whether the problem of the present width is

    def __iter__(self) -> Iterator[Line]:
        for width, narrower in zip(self.widths[:-1], self.widths[1:], strict=True):
            yield from self._minimise(width, narrower, self.goal)
        width = self.widths[-1]
        yield from self._minimise(width, NARROWER * width, self.last)
        while width > NARROWEST and self.problem.narrows():
            width *= NARROWER
            yield from self._minimise(width, NARROWER * width, self.last)

    def _minimise(self, width: float, narrower: float, goal: Goal) -> Iterator[Line]:
        """Solve the problem of one width."""
        problem, self.solved = self.problem, False
        n_steps = n_slow = 0
        yield Line(None, width, narrower)
        for attempt in range(problem.n_factors):
            problem.renew_factor(worn=attempt > 0)
            history: History = deque(maxlen=_MEMORY)
            for _ in range(problem.patience):
                before = problem.here
                size = abs(before.objective)
                direction = -two_loops(before.gradient, history, problem.factor)
                gain = -0.5 * float(before.gradient @ direction)
                self.gain = gain / max(size, 1e-300)
                if n_steps >= goal.n_least and gain <= goal.gain * size:
                    self.solved = goal.lacking == inf or problem.lacks() <= goal.lacking * size
                    if self.solved:
                        return
                yield Line(direction, width, narrower)
                here = problem.here
                if here.moved is None:
                    self.solved = True
                    return
                n_steps += 1
                slow = before.objective - here.objective <= goal.gain * size
                n_slow = n_slow + 1 if slow else 0
                if n_slow >= goal.n_slow:
                    return
                change = here.gradient - before.gradient
                if (inner := float(change @ here.moved)) > 0:
                    history.append((here.moved, change, inner))


#: Steps, what the gradient changed by, and the product of both.
History = deque[tuple[Array, Array, float]]


def two_loops(gradient: Array, history: History, factor: Factor) -> Array:
    """The inverse Hessian times the gradient (L-BFGS).

    The Hessian is what a factor says, corrected by what the steps have shown since.
    """
    left = gradient.copy()
    taken = []
    for moved, change, inner in reversed(history):
        length = (moved @ left) / inner  # of a device, without waiting for it
        left -= length * change
        taken.append(length)
    result = solve(factor, left)
    for (moved, change, inner), length in zip(history, reversed(taken), strict=True):
        result += (length - (change @ result) / inner) * moved
    return result


#: Rows that a thread computes with at a time.
_ROWS = 1 << 14

#: A line search ends after this many points, or once the slope is this fraction of the first.
_TRIED, _FLAT = 30, 1e-2


class ScoreRamps(NamedTuple):
    """The losses of rows as ``cost * max(0, t)``, ``t = rest + by_score score + by_offset b``.

    Where rows have several losses, the first of all rows come first, then the second, and so on.
    """

    rest: Array
    costs: Array
    by_score: Array  #: 1 or -1
    by_offset: Array  #: 1 or -1
    which: NDArray[np.intp]  #: the offset b, by number

    def heights(self, scores: Array, offsets: Array, run: Callable = map) -> Array:
        """The t of all ramps."""
        heights, n_rows = np.empty_like(self.rest), len(scores)

        def some(here: slice) -> None:
            rest, by_score, by_offset, which, found = (
                values.reshape(-1, n_rows)[:, here]
                for values in (self.rest, self.by_score, self.by_offset, self.which, heights)
            )
            found[...] = rest + by_score * scores[here] + by_offset * offsets[which]

        list(run(some, _pieces(scores)))
        return heights

    def changes(self, scores: Array, offsets: Array, run: Callable = map) -> Array:
        """The change of t, for a change of scores and offsets."""
        return self._replace(rest=np.zeros_like(self.rest)).heights(scores, offsets, run)


class SmoothedLosses(NamedTuple):
    """Smoothed losses, and their derivatives in scores and offsets."""

    loss: float
    coefs: Array  #: of rows: the multipliers implied, with their signs
    curvatures: Array  #: of rows, in the score
    by_offset: Array  #: slopes in the offsets
    crossed: Array  #: (n_offsets, n_rows): curvatures in offset and score


def ramps_of(formulation: Formulation, targets: Array, bounds: Array) -> ScoreRamps:
    """The losses of rows, whatever their scores."""
    nothing = np.zeros_like(targets, dtype=np.float64)
    kinks, costs, rising, which, signs = formulation.ramps(nothing, targets, bounds)
    sides = np.where(rising, 1.0, -1.0)
    return ScoreRamps(-sides * kinks, costs, sides * signs, sides, which)


def smoothed_losses(
    ramps: ScoreRamps,
    heights: Array,
    width: float,
    n_rows: int,
    n_offsets: int,
    run: Callable = map,
) -> SmoothedLosses:
    """Losses smoothed with a half-width, and their derivatives."""
    coefs, curvatures = np.zeros_like(heights, shape=(2, n_rows))
    crossed = np.zeros_like(heights, shape=(n_offsets, n_rows))

    def some(here: slice) -> tuple[Array, Array]:
        t, costs, by_score, by_offset, which = (
            values.reshape(-1, n_rows)[:, here]
            for values in (heights, ramps.costs, ramps.by_score, ramps.by_offset, ramps.which)
        )
        slopes = costs * np.clip((t + width) / (2.0 * width), 0.0, 1.0)
        losses = np.where(t >= width, costs * t, slopes * (t + width) / 2.0)
        bends = np.where(np.abs(t) < width, costs / (2.0 * width), 0.0)
        coefs[here] = -(by_score * slopes).sum(axis=0)
        curvatures[here] = bends.sum(axis=0)
        pulls, bends = by_offset * slopes, by_score * by_offset * bends
        total = []
        for number in range(n_offsets):
            mine = 1.0 if n_offsets == 1 else which == number
            crossed[number, here] = (mine * bends).sum(axis=0)
            total.append((mine * pulls).sum())
        return losses.sum(), np.stack(total)

    each = list(run(some, _pieces(coefs)))
    loss, by_offset = each[0]
    for own, slopes in each[1:]:
        loss, by_offset = loss + own, by_offset + slopes
    return SmoothedLosses(float(loss), coefs, curvatures, by_offset, crossed)


def _pieces(rows: Array) -> list[slice]:
    """Rows that are computed with at a time: by a thread some of them, on a device all."""
    step = _ROWS if on_host(rows) else max(1, len(rows))
    return [slice(first, first + step) for first in range(0, len(rows), step)]


def best_step(
    heights: Array,
    changes: Array,
    costs: Array,
    width: float,
    slope: float,
    curvature: float,
    run: Callable = map,
) -> float:
    """The step s that minimises ``slope s + curvature s^2 / 2`` and the losses along changes.

    Zero where nothing is to be gained.
    """

    def at(step: float) -> tuple[float, float]:
        own, bend = _along(heights, changes, costs, step, width, run)
        return slope + curvature * step + own, curvature + bend

    begin, _ = at(0.0)
    if begin >= 0.0:
        return 0.0
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(_TRIED):
        here, bend = at(step)
        if abs(here) <= _FLAT * abs(begin):
            break
        if here < 0.0:
            low = step
        else:
            high = step
        guess = step - here / bend if bend > 0 else np.inf
        inside = low < guess < high
        step = (
            guess
            if inside and guess < 4 * step
            else 2 * step
            if high == np.inf
            else 0.5 * (low + high)
        )
    return step


def _along(
    heights: Any, changes: Any, costs: Any, step: float, width: float, run: Callable
) -> tuple[float, float]:
    """Slope and curvature of smoothed losses along a line."""
    if not on_host(heights):
        t, weighted = heights + step * changes, costs * changes
        slope = (weighted * np.clip((t + width) / (2.0 * width), 0.0, 1.0)).sum()
        bend = np.where(np.abs(t) < width, weighted * changes, 0.0).sum() / (2.0 * width)
        return float(slope), float(bend)

    def some(first: int) -> tuple[float, float]:
        part = slice(first, first + _ROWS)
        return _line(heights[part], changes[part], costs[part], step, width)

    slope, bend = 0.0, 0.0
    for one, other in run(some, range(0, len(heights), _ROWS)):
        slope, bend = slope + one, bend + other
    return slope, bend


@jit
def _line(heights, changes, costs, step, width):
    """Slope and curvature of smoothed losses along a line."""
    slope, bend = 0.0, 0.0
    for i in range(heights.size):
        t = heights[i] + step * changes[i]
        rising = min(max((t + width) / (2.0 * width), 0.0), 1.0)
        slope += costs[i] * changes[i] * rising
        if abs(t) < width:
            bend += costs[i] * changes[i] * changes[i] / (2.0 * width)
    return slope, bend
