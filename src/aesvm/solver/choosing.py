"""Which variables a round is for: those that violate optimality most; and which of them rest.

These loops go over all variables in play, while other threads wait: so they read little (slopes,
and a byte for what a variable can do), and have no branch that depends on the data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit, minimum
from aesvm.solver.pair_updates import HUGE

#: What a variable can do, added up: it is below its upper bound, or above its lower one.
RISE, FALL = 1, 2

#: Intervals that violations are sorted into.
_N_INTERVALS = 1024

#: Gaps below this have no finite inverse.
_LEAST_GAP = 1e-300

#: Rest is counted up to this: it is an int8.
_LONGEST_REST = 100


def possible_moves(
    coefs: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.int8]:
    """What each variable can do: RISE, FALL, both added up, or neither.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.choosing import possible_moves
    >>> possible_moves(np.array([0.0, 0.5, 1.0]), np.zeros(3), np.ones(3))
    array([1, 3, 2], dtype=int8)
    """
    return RISE * (coefs < upper).view(np.int8) + FALL * (coefs > lower).view(np.int8)


def most_violating(
    move: int,
    slopes: NDArray[np.float64],
    moves: NDArray[np.int8],
    taken: NDArray[np.bool_],
    lowest: float,
    highest: float,
    room: int,
    workspace: tuple[NDArray[np.float64], NDArray[np.intp]] | None = None,
) -> NDArray[np.intp]:
    """Of a group's variables those that gain most by a move.

    Parameters
    ----------
    move : int
        RISE: those of the smallest slopes, all below ``highest``. FALL: those of the largest, all
        above ``lowest``.
    slopes, moves : ndarray of shape (n,)
        Of the variables, with what ``possible_moves`` tells of them.
    taken : ndarray of shape (n,)
        Which of them are left out.
    lowest, highest : float
        The smallest slope of those that can rise, and the largest of those that can fall: which
        must be larger.
    room : int
        Most of them.
    workspace : tuple of ndarray, default=None
        Memory for more than n floats and more than n integers: fresh memory would be zeroed by the
        system every time. What is returned may be a part of it, until the next call.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.choosing import RISE, most_violating
    >>> slopes, moves = np.array([0.5, -1.0, 0.1, 2.0]), np.full(4, RISE, dtype=np.int8)
    >>> most_violating(RISE, slopes, moves, np.zeros(4, dtype=bool), -1.0, 1.0, 2)
    array([1, 2])
    """
    if workspace is None:
        workspace = np.empty(len(slopes) + 1), np.empty(len(slopes) + 1, dtype=np.intp)
    behind, found = workspace
    n_found = _violating(move, slopes, moves, taken, lowest, highest, room, behind, found)
    found = found[:n_found]
    if n_found > room:
        found = found[np.argpartition(behind[found], room)[:room]]
    return found


@jit
def _violating(move, slopes, moves, taken, lowest, highest, room, behind, found):
    """Write to ``found`` the variables that are least behind the edge, ``room`` or somewhat more.

    They are sorted into intervals by how far they are behind it, and taken from the first of these
    until they are enough. Returns their number.
    """
    gap = highest - lowest
    sign, edge = (1.0, lowest) if move == RISE else (-1.0, -highest)
    n = slopes.size
    for k in range(n):
        away = sign * slopes[k] - edge
        behind[k] = away if ((moves[k] & move) != 0) & (not taken[k]) else gap
    n_found = 0
    for k in range(n):
        found[n_found] = k
        n_found += behind[k] < gap
    if n_found <= room:
        return n_found
    last, scale = _N_INTERVALS - 1, _N_INTERVALS / max(gap, _LEAST_GAP)
    counts = np.zeros(_N_INTERVALS, dtype=np.intp)
    for w in range(n_found):
        counts[min(int(behind[found[w]] * scale), last)] += 1
    end, total = 0, 0
    while end < _N_INTERVALS and total < room:
        total += counts[end]
        end += 1
    n_near = 0
    for w in range(n_found):
        k = found[w]
        found[n_near] = k
        n_near += min(int(behind[k] * scale), last) < end
    return n_near


@jit
def find_slopes(scores, linear, moves, slopes):
    """Write slopes; returns the smallest of those that can rise, the largest of those that can
    fall, and the sum of all.
    """
    lowest = highest = HUGE
    total = 0.0
    for k in range(slopes.size):
        slope = scores[k] + linear[k]
        slopes[k] = slope
        total += slope
        lowest = minimum(lowest, slope if (moves[k] & RISE) != 0 else HUGE)
        highest = minimum(highest, -slope if (moves[k] & FALL) != 0 else HUGE)
    return lowest, -highest, total


@jit
def count_rest(slopes, moves, lowest, highest, rest):
    """For how many rounds each variable has been at a bound that it does not want to leave."""
    for k in range(slopes.size):
        at_lower = ((moves[k] & FALL) == 0) & (slopes[k] > highest)
        at_upper = ((moves[k] & RISE) == 0) & (slopes[k] < lowest)
        longer = min(rest[k] + 1, _LONGEST_REST)
        rest[k] = longer if at_lower | at_upper else 0
