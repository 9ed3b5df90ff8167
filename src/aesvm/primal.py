"""The SVM's primal: hinge losses of rows whose scores ``<w, z_i>`` are known.

F(w, b) = 1/2 |w|^2 + sum_i c_i max(0, 1 - s_i (<w, z_i> + b))
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Sums of bounds that differ by this share of them are taken as equal.
_FLAT = 1e-10

#: A multiplier this close to a bound, as a share of it, is at the bound.
_AT_BOUND = 1e-9

#: Sums that differ by less are the same.
_ROUNDING = 1e-13


def best_offset(
    scores: NDArray[np.float64], signs: NDArray[np.float64], bounds: NDArray[np.float64]
) -> float:
    """The b that minimises F for a given w; the middle where several do.

    F is piecewise linear in b, with a kink where a row's margin is 1. Its slope right of a kink is
    the bounds of negative rows up to there, less those of positive rows beyond.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.primal import best_offset
    >>> best_offset(np.array([-2.0, 3.0]), np.array([-1.0, 1.0]), np.ones(2))
    -0.5
    """
    kinks = signs - scores
    order = np.argsort(kinks, kind="stable")
    positive = np.where(signs > 0, bounds, 0.0)[order]
    # two sums that only grow towards the ends: huge bounds far away leave small ones their digits
    below = np.cumsum(bounds[order] - positive)
    above = np.append(np.cumsum(positive[::-1])[::-1][1:], 0.0)
    slope, hair = below - above, _FLAT * (below + above)
    first, last = int(np.argmax(slope >= -hair)), int(np.argmax(slope > hair))
    if slope[-1] <= hair[-1]:  # there are no negative rows
        last = len(order) - 1
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))


def hinge_losses(margins: NDArray[np.float64], bounds: NDArray[np.float64]) -> float:
    """``sum_i c_i max(0, 1 - m_i)``."""
    return float(bounds @ np.maximum(0.0, 1.0 - margins))


def count_violators(
    margins: NDArray[np.float64],
    alpha: NDArray[np.float64],
    bounds: NDArray[np.float64],
    tol: float,
) -> int:
    """Rows that could rise though the margin is below 1, or fall though it is above."""
    violates = (alpha < (1.0 - _AT_BOUND) * bounds) & (margins < 1.0 - tol)
    violates |= (alpha > _AT_BOUND * bounds) & (margins > 1.0 + tol)
    return int(np.count_nonzero(violates))


def feasible(
    alpha: NDArray[np.float64], signs: NDArray[np.float64], bounds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Multipliers that rounding moved out of the dual's constraints, moved back.

    What is beyond a bound is cut off; then the side that weighs more is scaled down to the other,
    unless they differ by rounding alone: scaled, what is at its bound would be so no more.
    """
    alpha = np.clip(alpha, 0.0, bounds)
    totals = {sign: float(alpha[signs == sign].sum()) for sign in (1.0, -1.0)}
    heavier = max(totals, key=lambda sign: totals[sign])
    if totals[heavier] - totals[-heavier] > _ROUNDING * totals[heavier]:
        alpha[signs == heavier] *= totals[-heavier] / totals[heavier]
    return alpha


def balanced_multipliers(
    margins: NDArray[np.float64], signs: NDArray[np.float64], bounds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Multipliers that agree with the margins, feasible for the dual.

    Each is at its bound where the margin is below 1 and zero where it is above; that their
    signed sum be zero, those with margins nearest to 1 on the heavier side change over.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.primal import balanced_multipliers
    >>> balanced_multipliers(np.array([0.2, 0.8, 0.5]), np.array([1.0, 1.0, -1.0]), np.ones(3))
    array([1., 0., 1.])
    """
    alpha = np.where(margins < 1.0, bounds, 0.0)
    excess = float(signs @ alpha)
    heavier = 1.0 if excess > 0 else -1.0
    excess = abs(excess)
    able = np.flatnonzero(np.where(signs == heavier, alpha > 0, alpha == 0))
    order = able[np.argsort(np.abs(margins[able] - 1.0), kind="stable")]
    reached = np.cumsum(bounds[order])
    n_over = int(np.searchsorted(reached, excess, side="right"))
    over = order[:n_over]
    alpha[over] = bounds[over] - alpha[over]
    if n_over < len(order):
        rest = excess - (reached[n_over - 1] if n_over else 0.0)
        at = order[n_over]
        alpha[at] += rest if alpha[at] == 0 else -rest
    return np.clip(alpha, 0.0, bounds)
