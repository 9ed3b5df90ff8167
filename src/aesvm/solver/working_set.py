"""The working set of an iteration: the variables that violate optimality most.

In each group half of them are to rise and half to fall, and half of the last working set stays.
Variables that rest at a bound for some iterations are counted here, too.

The loops over all variables in play run while other threads wait: so they read little (slopes,
and a byte for what a variable can do), and have no branch that depends on the data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import inlined, jit, minimum
from aesvm.solver.pair_updates import HUGE

#: Pair updates of a working set, per variable: what bounds the time between two iterations.
UPDATES = 50

#: Iterations that a variable rests before it is left out.
REST = 4

#: What a variable can do, added up: it is below its upper bound, or above its lower one.
RISE, FALL = 1, 2

#: Intervals that variables are sorted into by their slopes.
_N_INTERVALS = 1024

#: Violations below this have no finite inverse.
_LEAST_VIOLATION = 1e-300

#: Rest is counted up to this: it is an int8.
_LONGEST_REST = 100


class Edge(NamedTuple):
    """A group's variables, and the two slopes that differ most the wrong way.

    Where none can rise the lowest is ``HUGE``; where none can fall the highest is ``-HUGE``.
    """

    part: slice
    lowest: float  #: of those that can rise
    highest: float  #: of those that can fall

    @property
    def violation(self) -> float:
        return self.highest - self.lowest

    @classmethod
    def of(cls, part: slice, slopes: NDArray, moves: NDArray) -> Edge:
        return cls(part, *find_edges(slopes[part], moves[part]))


def violators(in_play: list[Edge], every: list[Edge], slopes: Any, moves: Any, xp: Any = np) -> Any:
    """Which of all variables, seen against the edges of those in play, want to move and can.

    Where those in play can move in one direction alone, they are seen against the edges of all.

    Parameters
    ----------
    in_play, every : list of Edge
        Of each group, among the variables in play and among all.
    slopes, moves : array of shape (n,)
        Of all variables.
    xp : module, default=numpy
        The namespace of these arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.working_set import FALL, RISE, Edge, violators
    >>> slopes, moves = np.array([0.0, 1.0, 3.0]), np.array([RISE, FALL, FALL])
    >>> violators([Edge(slice(0, 2), 0.0, 1.0)], [Edge(slice(0, 3), 0.0, 3.0)], slopes, moves)
    array([ True,  True,  True])
    """
    found = xp.zeros(len(slopes), dtype=bool)
    for own, whole in zip(in_play, every, strict=True):
        is_one_way = own.lowest >= HUGE or own.highest <= -HUGE
        _, lowest, highest = whole if is_one_way else own
        near, can = slopes[whole.part], moves[whole.part]
        rises = ((can & RISE) != 0) & (near < highest)
        found[whole.part] = rises | (((can & FALL) != 0) & (near > lowest))
    return found


def possible_moves(
    coefs: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.int8]:
    """What each variable can do: RISE, FALL, both added up, or neither.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.working_set import possible_moves
    >>> possible_moves(np.array([0.0, 0.5, 1.0]), np.zeros(3), np.ones(3))
    array([1, 3, 2], dtype=int8)
    """
    return RISE * (coefs < upper).view(np.int8) + FALL * (coefs > lower).view(np.int8)


def choose(
    slopes: NDArray[np.float64],
    moves: NDArray[np.int8],
    edges: list[Edge],
    recent: NDArray[np.intp],
    size: int,
    workspace: tuple[NDArray[np.float64], NDArray[np.intp]] | None = None,
) -> NDArray[np.intp]:
    """The next working set, its newest variables first.

    Parameters
    ----------
    slopes, moves : ndarray of shape (n,)
        Of all variables, with what ``possible_moves`` tells of them.
    edges : list of Edge
        Of each group.
    recent : ndarray
        The last working set, its newest variables first; the first of them stay.
    size : int
        Variables of a working set, at most.
    workspace : tuple of ndarray, default=None
        See ``most_violating``.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.working_set import Edge, choose, possible_moves
    >>> slopes = np.array([0.5, -1.0, 0.1, 2.0])
    >>> moves = possible_moves(np.array([0.0, 0.0, 0.0, 0.5]), np.zeros(4), np.ones(4))
    >>> choose(slopes, moves, [Edge.of(slice(0, 4), slopes, moves)], np.array([2]), 4)
    array([1, 3, 2])
    """
    stay = recent[: size // 2]
    taken = np.zeros(len(slopes), dtype=bool)
    taken[stay] = True
    room = (size - len(stay)) // (2 * len(edges))
    new = []
    for part, lowest, highest in edges:
        own = slopes[part], moves[part], taken[part]
        for move in (RISE, FALL):
            found = most_violating(move, *own, lowest, highest, room, workspace) + part.start
            taken[found] = True
            new.append(found)
    return np.concatenate([*new, stay])


@jit
def choose_compiled(slopes, moves, ends, recent, chosen, taken, behind, found, keys):
    """The rule of ``choose``, for compiled code.

    The working set is written to ``chosen``, ascending, and to ``recent``, its newest variables
    first, then -1. Returns how many they are, and the violation.

    Parameters
    ----------
    slopes, moves : ndarray of shape (n,)
    ends : ndarray of shape (n_groups,)
        Where each group ends; groups lie one after another.
    recent, chosen : ndarray of shape (size,)
    taken, behind, found, keys : ndarray of shape (n + 1,)
        Memory for booleans, floats, integers and floats.
    """
    n, most = slopes.size, chosen.size
    for k in range(n):
        taken[k] = False
    n_stay = n_new = 0
    while n_stay < most // 2 and recent[n_stay] >= 0:
        taken[recent[n_stay]] = True
        n_stay += 1
    room = (most - n_stay) // (2 * ends.size)
    violation, begin = 0.0, 0
    for g in range(ends.size):
        end = ends[g]
        own, can, out = slopes[begin:end], moves[begin:end], taken[begin:end]
        lowest, highest = find_edges(own, can)
        violation = max(violation, highest - lowest)
        for move in (RISE, FALL):
            size = _violating(move, own, can, out, lowest, highest, room, behind, found)
            last, n_equal = HUGE, room  # of those at the last place as many as there is room for
            if size > room:
                for m in range(size):
                    keys[m] = behind[found[m]]
                last = _nth_smallest(keys[:size], room)
                for m in range(size):
                    n_equal -= keys[m] < last
            for m in range(size):
                k = found[m]
                is_last = behind[k] == last and n_equal > 0
                if behind[k] < last or is_last:
                    n_equal -= is_last
                    out[k] = True
                    chosen[n_new] = begin + k
                    n_new += 1
        begin = end
    for k in range(n_stay):
        chosen[n_new + k] = recent[k]
    for k in range(most):
        recent[k] = chosen[k] if k < n_new + n_stay else -1
    size = 0
    for k in range(n):
        found[size] = k
        size += taken[k]
    for k in range(size):
        chosen[k] = found[k]
    return size, violation


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
    >>> from aesvm.solver.working_set import RISE, most_violating
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


@inlined
def _violating(move, slopes, moves, taken, lowest, highest, room, behind, found):
    """Write to ``found`` the variables that are least behind the edge, ``room`` or somewhat more.

    They are sorted into intervals by how far they are behind it, and taken from the first of these
    until they are enough. Returns their number.
    """
    violation = highest - lowest
    sign, edge = (1.0, lowest) if move == RISE else (-1.0, -highest)
    n = slopes.size
    for k in range(n):
        away = sign * slopes[k] - edge
        behind[k] = away if ((moves[k] & move) != 0) & (not taken[k]) else violation
    n_found = 0
    for k in range(n):
        found[n_found] = k
        n_found += behind[k] < violation
    if n_found <= room:
        return n_found
    last, scale = _N_INTERVALS - 1, _N_INTERVALS / max(violation, _LEAST_VIOLATION)
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


@inlined
def _nth_smallest(keys, n):
    """The n-th smallest of the keys, which are put into another order."""
    first, last, at = 0, keys.size - 1, n - 1
    while first < last:
        middle = keys[(first + last) // 2]
        i, j = first, last
        while i <= j:
            while keys[i] < middle:
                i += 1
            while keys[j] > middle:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if at <= j:
            last = j
        elif at >= i:
            first = i
        else:
            break
    return keys[at]


@jit
def write_back(chosen, now, lower, upper, coefs, moves, moved, changes):
    """Write the coefficients of a working set to those of all variables, and what these can do.

    ``chosen``: the numbers of its variables; ``lower``, ``upper``: their bounds. Writes to
    ``moved`` and ``changes`` those that are different now, and by how much. Returns how many these
    are.
    """
    n_moved = 0
    for c in range(chosen.size):
        k = chosen[c]
        moves[k] = RISE * (now[c] < upper[c]) + FALL * (now[c] > lower[c])
        moved[n_moved], changes[n_moved] = k, now[c] - coefs[k]
        n_moved += now[c] != coefs[k]
        coefs[k] = now[c]
    return n_moved


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


@inlined
def find_edges(slopes, moves):
    """The smallest slope of those that can rise, and the largest of those that can fall."""
    lowest = highest = HUGE
    for k in range(slopes.size):
        lowest = minimum(lowest, slopes[k] if (moves[k] & RISE) != 0 else HUGE)
        highest = minimum(highest, -slopes[k] if (moves[k] & FALL) != 0 else HUGE)
    return lowest, -highest


@jit
def count_rest(slopes, moves, lowest, highest, rest):
    """For how many iterations each variable has been at a bound that it does not want to leave."""
    for k in range(slopes.size):
        at_lower = ((moves[k] & FALL) == 0) & (slopes[k] > highest)
        at_upper = ((moves[k] & RISE) == 0) & (slopes[k] < lowest)
        longer = min(rest[k] + 1, _LONGEST_REST)
        rest[k] = longer if at_lower | at_upper else 0
