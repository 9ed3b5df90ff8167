"""Losses with their kinks rounded off: the smooth functions that Newton's method is for.

``max(0, t)`` becomes ``(t + h)^2 / 4h`` within h of its kink, and stays as it is elsewhere. It is
then at most ``h / 4`` too large, its slope grows from 0 to 1 across the kink, and that slope times
the cost of a row is a multiplier that its position implies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.machines.formulation import Array, Formulation, Offsets
from aesvm.runtime.jit import jit


class Ramps(NamedTuple):
    """The losses of rows as ``cost * max(0, t)``; t falls or rises with score and offset."""

    heights: Array  #: t
    costs: Array
    by_score: Array  #: what t changes by where the score rises by one, 1 or -1
    by_offset: Array  #: the same of the offset
    which: NDArray[np.intp]  #: of the offsets, by number


class Implied(NamedTuple):
    """What smoothed losses come to, and how they change with scores and offsets."""

    loss: float
    coefs: Array  #: of rows: the multipliers implied, with their signs
    curvatures: Array  #: of rows, in the score
    by_offset: Array  #: slopes in the offsets
    crossed: Array  #: (n_offsets, n_rows): curvatures in offset and score


def ramps_of(
    formulation: Formulation, scores: Array, targets: Array, bounds: Array, offsets: Offsets
) -> Ramps:
    """The losses of rows with scores ``<w, phi(x_i)>``."""
    kinks, costs, rising, which, signs = formulation.ramps(scores, targets, bounds)
    sides = np.where(rising, 1.0, -1.0)
    heights = sides * (np.array(offsets)[which] - kinks)
    return Ramps(heights, costs, sides * signs, sides, which)


def implied(ramps: Ramps, width: float, n_rows: int, n_offsets: int) -> Implied:
    """Losses smoothed with a half-width, and what follows from them."""
    heights, costs, by_score, by_offset, which = ramps
    slopes = costs * np.clip((heights + width) / (2.0 * width), 0.0, 1.0)
    curved = np.where(np.abs(heights) < width, costs / (2.0 * width), 0.0)
    tops = np.minimum(np.maximum(heights, -width), width)
    loss = float(costs @ (np.square(tops + width) / (4.0 * width) + np.maximum(heights - width, 0)))
    both = by_score * by_offset * curved
    crossed = np.zeros((n_offsets, n_rows))
    for number in range(n_offsets):
        crossed[number] = np.where(which == number, both, 0.0).reshape(-1, n_rows).sum(axis=0)
    return Implied(
        loss,
        -(by_score * slopes).reshape(-1, n_rows).sum(axis=0),
        curved.reshape(-1, n_rows).sum(axis=0),
        np.bincount(which, by_offset * slopes, n_offsets),
        crossed,
    )


def best_step(
    ramps: Ramps, changes: Array, width: float, slope: float, curvature: float
) -> tuple[float, float]:
    """The step that minimises ``slope t + curvature t^2 / 2`` and the losses along changes.

    Also the slope of all that at the beginning, which is negative where there is something to gain.
    """

    def at(step: float) -> tuple[float, float]:
        own, bend = _line(ramps.heights, changes, ramps.costs, step, width)
        return slope + curvature * step + own, curvature + bend

    begin, _ = at(0.0)
    if begin >= 0.0:
        return 0.0, begin
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(_STEPS):
        here, bend = at(step)
        if abs(here) <= _NEAR * abs(begin):
            break
        if here < 0.0:
            low = step
        else:
            high = step
        guess = step - here / bend if bend > 0 else np.inf
        inside = low < guess < high
        step = guess if inside and guess < 4 * step else 2 * step if high == np.inf else 0.5 * (
            low + high
        )
    return step, begin


#: Evaluations of a line, and how small the slope is to become along it.
_STEPS, _NEAR = 30, 1e-2


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
