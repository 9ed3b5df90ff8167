"""A Newton step of the dual in its free variables.

Pair updates are slow where the kernel matrix of the free variables is ill-conditioned, as with a
large C: each of them moves two variables, and the next moves them back. Here all variables that are
strictly between their bounds move at once, to where

    minimise    1/2 d'Kd + f'd,     sum of d over each group is zero

has its minimum. Variables that would leave their bounds by this are pinned there, and the others
solved for again, until none is left that would. The objective falls by the best step on the way to
that point, or on the way to the first bound if it would not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Array = NDArray[np.float64]

#: Free variables of a step, at most (a factorisation takes a tenth of a second).
MOST_FREE = 2048

#: How often variables are pinned, at most.
_PINNINGS = 10

#: The diagonal is raised by n roundings, then a hundredfold each time, up to five times, until the
#: matrix can be factorised.
_RAISE, _RAISES = 100.0, 5


def newton_step(
    K: NDArray,
    coefs: Array,
    slopes: Array,
    lower: Array,
    upper: Array,
    ends: NDArray[np.intp],
) -> bool:
    """Move the free variables to their minimum; whether the objective fell.

    Parameters are those of ``pair_updates.update_pairs``: coefficients and slopes are brought up to
    date.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.free_variables import newton_step
    >>> K, coefs, slopes = np.eye(2), np.full(2, 0.5), np.array([1.5, -0.5])
    >>> newton_step(K, coefs, slopes, np.full(2, -9.0), np.full(2, 9.0), np.array([2]))
    True
    >>> coefs, slopes
    (array([-0.5,  1.5]), array([0.5, 0.5]))
    """
    free = np.flatnonzero((coefs > lower) & (coefs < upper))
    if not 2 <= len(free) <= MOST_FREE:
        return False
    # of each group one indicator: what it has of the free variables
    which = np.searchsorted(ends, free, side="right")
    groups = (which[:, None] == np.unique(which)).astype(np.float64)
    block = K[np.ix_(free, free)].astype(np.float64)
    low, high = lower[free] - coefs[free], upper[free] - coefs[free]
    first = _minimum(block, slopes[free], groups, np.zeros(len(free)), np.ones(len(free), bool))
    if first is None:
        return False
    pinned = _within(block, slopes[free], groups, low, high, first)
    for change in (pinned, first):
        if change is not None and _move(K, free, change, lower, upper, coefs, slopes):
            return True
    return False


def _within(
    block: Array, slopes: Array, groups: Array, low: Array, high: Array, change: Array
) -> Array | None:
    """A change within bounds, variables pinned to them; None where none was found."""
    moves = np.ones(len(slopes), dtype=bool)
    for _ in range(_PINNINGS):
        leaves = moves & ((change < low) | (change > high))
        if not leaves.any():
            return change
        moves &= ~leaves
        pins = np.where(leaves, np.clip(change, low, high), np.where(moves, 0.0, change))
        found = _minimum(block, slopes, groups, pins, moves)
        if found is None:
            return None
        change = found
    return None


def _minimum(
    block: Array, slopes: Array, groups: Array, pins: Array, moves: NDArray[np.bool_]
) -> Array | None:
    """The change of least objective in the variables that move; the others change as pinned."""
    at = np.flatnonzero(moves)
    own = groups[at]
    if not own.any(axis=0).all():  # a group has none left to make up for those that are pinned
        return None
    matrix, right = block[np.ix_(at, at)], slopes[at] + block[at] @ pins
    factor = factorize_in_place(matrix)
    if factor is None:
        return None
    solved = cho_solve(factor, np.column_stack([-right, own]), check_finite=False)
    towards, by_group = solved[:, 0], solved[:, 1:]
    try:
        multipliers = np.linalg.solve(own.T @ by_group, own.T @ towards + groups.T @ pins)
    except np.linalg.LinAlgError:
        return None
    change = pins.copy()
    change[at] = towards - by_group @ multipliers
    # sums stay as they are, whatever is left of them where the matrix is ill-conditioned
    change[at] -= own @ (groups.T @ change / own.sum(axis=0))
    return change if np.isfinite(change).all() else None


def factorize_in_place(matrix: Array) -> tuple[Array, bool] | None:
    """A positive semidefinite matrix, factorised; None where it is not semidefinite.

    Rounding may leave it eigenvalues below zero: its diagonal is raised by some units of rounding.
    The matrix is written to.
    """
    diagonal = matrix.diagonal().copy()
    raised = float(np.finfo(np.float64).eps) * len(matrix)
    for _ in range(_RAISES):
        np.fill_diagonal(matrix, diagonal * (1.0 + raised))
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            raised *= _RAISE
    return None


def _move(
    K: NDArray,
    free: NDArray[np.intp],
    change: Array,
    lower: Array,
    upper: Array,
    coefs: Array,
    slopes: Array,
) -> bool:
    """Take the best step along a change, up to the first bound: whether the objective falls."""
    now, low, high = coefs[free], lower[free], upper[free]
    rows = K[free].astype(np.float64)
    moved = change @ rows
    linear, curvature = float(change @ slopes[free]), float(change @ moved[free])
    if not linear < 0.0:
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(change < 0.0, low - now, high - now)
        room /= np.where(change == 0.0, np.nan, change)
    step = min(1.0, float(np.nanmin(room)))
    if curvature > 0.0:
        step = min(step, -linear / curvature)
    if not step * linear + 0.5 * step * step * curvature < 0.0:
        return False
    moves = np.clip(now + step * change, low, high)
    # a variable that reaches a bound is at it to the last digit
    near = np.finfo(np.float64).eps * (high - low)
    moves = np.where(moves - low <= near, low, np.where(high - moves <= near, high, moves))
    slopes += (moves - now) @ rows
    coefs[free] = moves
    return True
