"""Losses with their kinks rounded off: the smooth functions that Newton's method is for.

``max(0, t)`` becomes ``(t + h)^2 / 4h`` within h of its kink, and stays as it is elsewhere. It is
then at most ``h / 4`` too large, its slope grows from 0 to 1 across the kink, and that slope times
the cost of a row is a multiplier that its position implies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.machines.formulation import Array, Formulation
from aesvm.runtime.jit import jit

#: Points of a line that are tried, and the slope to come to along it, as a share of the first.
_TRIED, _FLAT = 30, 1e-2


class ScoreRamps(NamedTuple):
    """The losses of rows as ``cost * max(0, t)``, ``t = rest + by_score score + by_offset b``.

    Where rows have several, these are listed one time after the other.
    """

    rest: Array
    costs: Array
    by_score: Array  #: 1 or -1
    by_offset: Array  #: 1 or -1
    which: NDArray[np.intp]  #: the offset b, by number

    def heights(self, scores: Array, offsets: Array) -> Array:
        """The t of all ramps."""
        heights = np.empty(len(self.rest))
        _write_heights(
            self.rest, self.by_score, self.by_offset, self.which, scores, offsets, heights
        )
        return heights

    def changes(self, scores: Array, offsets: Array) -> Array:
        """What t changes by, where scores and offsets change by these."""
        return self._replace(rest=np.zeros(len(self.rest))).heights(scores, offsets)


class Implied(NamedTuple):
    """What smoothed losses come to, and how they change with scores and offsets."""

    loss: float
    coefs: Array  #: of rows: the multipliers implied, with their signs
    curvatures: Array  #: of rows, in the score
    by_offset: Array  #: slopes in the offsets
    crossed: Array  #: (n_offsets, n_rows): curvatures in offset and score


def ramps_of(formulation: Formulation, targets: Array, bounds: Array) -> ScoreRamps:
    """The losses of rows, whatever their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.smoothing import ramps_of
    >>> from aesvm.machines.hinge import Hinge
    >>> ramps = ramps_of(Hinge(), np.array([1.0, -1.0]), np.ones(2))
    >>> ramps.heights(np.array([0.5, 0.5]), np.array([0.25]))  # 1 - margin
    array([0.25, 1.75])
    """
    nothing = np.zeros(len(targets))
    kinks, costs, rising, which, signs = formulation.ramps(nothing, targets, bounds)
    sides = np.where(rising, 1.0, -1.0)
    return ScoreRamps(-sides * kinks, costs, sides * signs, sides, which)


def implied(
    ramps: ScoreRamps, heights: Array, width: float, n_rows: int, n_offsets: int
) -> Implied:
    """Losses smoothed with a half-width, and what follows from them."""
    coefs, curvatures = np.zeros(n_rows), np.zeros(n_rows)
    by_offset, crossed = np.zeros(n_offsets), np.zeros((n_offsets, n_rows))
    loss = _implied(
        heights,
        ramps.costs,
        ramps.by_score,
        ramps.by_offset,
        ramps.which,
        width,
        coefs,
        curvatures,
        by_offset,
        crossed,
    )
    return Implied(loss, coefs, curvatures, by_offset, crossed)


@jit
def _write_heights(rest, by_score, by_offset, which, scores, offsets, heights):
    n_rows = scores.size
    for r in range(rest.size):
        heights[r] = rest[r] + by_score[r] * scores[r % n_rows] + by_offset[r] * offsets[which[r]]


@jit
def _implied(
    heights, costs, by_score, by_offset, which, width, coefs, curvatures, by_offsets, crossed
):
    n_rows = coefs.size
    loss = 0.0
    for r in range(heights.size):
        t = heights[r]
        if t <= -width:
            continue
        row = r % n_rows
        if t >= width:
            slope = costs[r]
            loss += costs[r] * t
        else:
            slope = costs[r] * (t + width) / (2.0 * width)
            loss += slope * (t + width) / 2.0
            curvature = costs[r] / (2.0 * width)
            curvatures[row] += curvature
            crossed[which[r], row] += by_score[r] * by_offset[r] * curvature
        coefs[row] -= by_score[r] * slope
        by_offsets[which[r]] += by_offset[r] * slope
    return loss


def best_step(
    heights: Array, changes: Array, costs: Array, width: float, slope: float, curvature: float
) -> float:
    """The step s that minimises ``slope s + curvature s^2 / 2`` and the losses along changes.

    Zero where nothing is to be gained.
    """

    def at(step: float) -> tuple[float, float]:
        own, bend = _line(heights, changes, costs, step, width)
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


@jit
def _line(heights, changes, costs, step, width):
    """Slope and curvature of smoothed losses along a line."""
    slope, bend = 0.0, 0.0
    for i in range(heights.size):
        t = heights[i] + step * changes[i]
        share = min(max((t + width) / (2.0 * width), 0.0), 1.0)
        slope += costs[i] * changes[i] * share
        if abs(t) < width:
            bend += costs[i] * changes[i] * changes[i] / (2.0 * width)
    return slope, bend
