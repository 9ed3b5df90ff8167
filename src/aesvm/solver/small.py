"""Many small duals of two classes each, solved one after another in compiled code.

    minimise    1/2 b'Kb + p sum_i |b_i|,   0 <= b_i <= c_i in the first class,
                                           -c_i <= b_i <= 0 in the second

with the sum of all b held at zero, or the sum of each class at a share of the costs (the nu form).
It is the problem of ``smo``, where the working set is all variables. With each solution comes what
a certificate says of it: the primal is

    1/2 |w|^2 + sum_g d b_g + sum_i c_i max(0, +-(k_i - b_g)),     k_i = kink - sign <w, z_i>

over one offset b_g, or one for each class (``machines.formulation`` has the words for all of it).
Scores are computed anew from the coefficients whenever the variables have been solved for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit
from aesvm.solver.pair_updates import HUGE, update_pairs
from aesvm.solver.state import find_edges

#: What is told of each solution, by column.
COLUMNS = (
    "n_iter",
    "objective",  # of the dual, as it is minimised
    "gap",  # the largest violation of optimality
    "converged",
    "squared_norm",
    "norm_rounding",  # of that, in kernel values that are right to nine digits
    "loss",  # the primal, without the norm
    "dual",  # a lower bound on the primal
    "violators",
    "rounding",  # what the primal is off by, at most
    "first_offset",
    "second_offset",  # zero where there is one
)

_OFFSETS = len(COLUMNS) - 2

#: As in ``smo``: pair updates of a round for each variable; how much smaller a gap is aimed at
#: where the duality gap is too large, and the smallest share; rounds without a smaller gap, the
#: share that the objective must still fall by in them, and how many are enough whatever it says.
_UPDATES, _TIGHTER, _TIGHTEST = 50, 0.25, 1e-4
_PATIENCE, _PROGRESS, _LONGEST_PATIENCE = 200, 1e-12, 5000

#: Sums that differ by less, as a share of them, are the same; also of costs beside offsets.
_ROUNDING, _FLAT = 1e-13, 1e-10

#: Kernel values are taken to be right to this share, where a squared norm came out negative.
_NINE_DIGITS = 1e-9


class TwoClasses(NamedTuple):
    """The loss of two classes, as numbers."""

    apart: bool  #: whether each class has an offset, and a sum that is held, of its own
    linear: float  #: the dual's p
    slope: float  #: of the primal in each offset, for a total cost of one; the sums held
    kinks: NDArray[np.float64]  #: of each class, where the loss begins, of a score of zero
    signs: NDArray[np.float64]  #: by how much that falls where the score rises by one
    ways: NDArray[np.float64]  #: 1 where the loss falls as the offset rises, and -1 where it rises


class Blocks(NamedTuple):
    """Kernel values of two groups of classes, and where each class ends in its group."""

    first: NDArray[np.float64]
    cross: NDArray[np.float64]
    second: NDArray[np.float64]
    first_ends: NDArray[np.intp]
    second_ends: NDArray[np.intp]
    first_bounds: NDArray[np.float64]  #: costs times weights, of the rows
    second_bounds: NDArray[np.float64]


class Accuracy(NamedTuple):
    """How well is to be solved, and how well kernel values are known."""

    tol: float
    duality_tol: float  #: relative; infinite where no duality gap is aimed at
    at_bound: float  #: a share of a bound
    limit: int  #: of pair updates, in all
    one_round: bool  #: whether to leave it at a round
    rounding: float  #: of a kernel value
    unit: float  #: the same, of an addition


def solve_small(
    blocks: Blocks,
    pairs: NDArray[np.intp],
    loss: TwoClasses,
    accuracy: Accuracy,
    values: NDArray[np.float64],
    coefs: NDArray[np.float64],
    numbers: NDArray[np.float64],
) -> None:
    """Solve for several pairs of classes.

    Parameters
    ----------
    blocks : Blocks
    pairs : ndarray of shape (n_pairs, 2)
        A class of the first group and one of the second, by their numbers there.
    loss : TwoClasses
    accuracy : Accuracy
    values : ndarray
        Room for the largest matrix of a pair.
    coefs : ndarray
        Receives the coefficients of the rows of each pair, first and second class, one pair after
        another.
    numbers : ndarray of shape (n_pairs, len(COLUMNS))
        Receives what is told of each solution.
    """
    numbers[:, _OFFSETS:] = 0.0
    # numbers one by one: to take tuples apart would take longer to compile
    _solve_small(*blocks, pairs, *loss, *accuracy, values, coefs, numbers)


@jit
def _solve_small(
    first,
    cross,
    second,
    first_ends,
    second_ends,
    first_bounds,
    second_bounds,
    pairs,
    apart,
    linear,
    slope,
    kinks,
    signs,
    ways,
    tol,
    duality_tol,
    at_bound,
    limit,
    one_round,
    rounding,
    unit,
    values,
    coefs,
    numbers,
):
    done = 0
    for number in range(pairs.shape[0]):
        a, b = pairs[number, 0], pairs[number, 1]
        begin = first_ends[a - 1] if a else 0
        other = second_ends[b - 1] if b else 0
        n_first = first_ends[a] - begin
        n = n_first + second_ends[b] - other
        K, own = values[: n * n].reshape(n, n), coefs[done : done + n]
        done = done + n
        written = np.zeros(n, dtype=np.bool_)
        bounds, lower, upper = np.empty(n), np.empty(n), np.empty(n)
        linears, diag = np.empty(n), np.empty(n)
        total = 0.0
        for i in range(n):
            if i < n_first:
                bounds[i] = upper[i] = first_bounds[begin + i]
                lower[i], linears[i] = 0.0, linear
                diag[i] = first[begin + i, begin + i]
            else:
                at = other + i - n_first
                bounds[i] = second_bounds[at]
                lower[i], upper[i], linears[i] = -bounds[i], 0.0, -linear
                diag[i] = second[at, at]
            total += bounds[i]
        held = slope * total
        _begin(bounds, n_first, held, own)
        ends = np.empty(2 if apart else 1, dtype=np.intp)
        ends[0], ends[-1] = n_first, n
        slopes, account = np.empty(n), np.empty(3)
        tell = numbers[number]
        n_iter, n_round, aim = 0, 0, tol
        least, waited, fallen, then = HUGE, 0, 0.0, 0.0
        anew, ended = True, False
        while not ended:
            if anew:
                _balance(own, bounds, n_first, held)
                for i in range(n):
                    if own[i] != 0.0 and not written[i]:
                        _write_row(first, cross, second, begin, other, n_first, i, K[i])
                        written[i] = True
                _add_up(K, own, linears, slopes)
                n_round = 0
                gap, start = 0.0, 0
                for end in ends:
                    lowest, highest = find_edges(
                        slopes[start:end], own[start:end], lower[start:end], upper[start:end]
                    )
                    gap, start = max(gap, highest - lowest), int(end)
                if gap < least:
                    least, waited, then = gap, 0, fallen
                over = n_iter >= limit or (one_round and n_iter > 0) or waited >= _LONGEST_PATIENCE
                over |= waited >= _PATIENCE and fallen - then <= _PROGRESS * fallen
                if gap <= aim or over:
                    _account(
                        diag, n_first, bounds, linears, held, ends, kinks, signs, ways,
                        tol, at_bound, rounding, unit, own, slopes, tell,
                    )  # fmt: skip
                    primal = 0.5 * tell[4] + tell[6]
                    short = primal + tell[1] > duality_tol * abs(tell[1])
                    aim *= _TIGHTER
                    ended = over or not short or aim < _TIGHTEST * tol
                    tell[0], tell[2] = n_iter, gap
                    tell[3] = 1.0 if gap <= tol and not short else 0.0
                    least, waited = HUGE, 0
                    continue
            most = min(limit - n_iter, _UPDATES * n - n_round)
            update_pairs(
                K, diag, written, own, slopes, lower, upper, ends, 0.5 * aim, most, account
            )
            n_iter += int(account[0])
            n_round += int(account[0])
            fallen += account[1]
            anew = account[2] < 0
            if anew:
                waited += 1
                if n_round == 0:  # no pair can move
                    limit = n_iter
            else:
                i = int(account[2])
                _write_row(first, cross, second, begin, other, n_first, i, K[i])
                written[i] = True


@jit
def _begin(bounds, n_first, held, coefs):
    """The first rows of each class at their bounds, until what is held is reached."""
    left = held
    for i in range(bounds.size):
        if i == n_first:
            left = held
        here = min(left, bounds[i])
        coefs[i] = here if i < n_first else -here
        left -= here


@jit
def _balance(coefs, bounds, n_first, held):
    """Move the sums of classes, which rounding has moved, back to what is held."""
    above = below = 0.0
    for i in range(coefs.size):
        if i < n_first:
            above += coefs[i]
        else:
            below -= coefs[i]
    wanted = held if held > 0.0 else min(above, below)
    for i in range(coefs.size):
        reached = above if i < n_first else below
        if abs(reached - wanted) > _ROUNDING * reached and reached > 0.0:
            coefs[i] = min(max(coefs[i] * (wanted / reached), -bounds[i]), bounds[i])


@jit
def _write_row(first, cross, second, begin, other, n_first, i, row):
    """A row of the matrix of a pair, from the blocks of its groups."""
    n_second = row.size - n_first
    left, right = row[:n_first], row[n_first:]
    if i < n_first:
        own, across = first[begin + i][begin:], cross[begin + i][other:]
        for k in range(n_first):
            left[k] = own[k]
        for k in range(n_second):
            right[k] = across[k]
    else:
        at = other + i - n_first
        own = second[at][other:]
        for k in range(n_first):
            left[k] = cross[begin + k, at]
        for k in range(n_second):
            right[k] = own[k]


@jit
def _add_up(K, coefs, linear, slopes):
    """``slopes = K coefs + linear``, of rows that are written where coefficients are not zero."""
    for k in range(slopes.size):
        slopes[k] = linear[k]
    for i in range(coefs.size):
        if coefs[i] != 0.0:
            row, coef = K[i], coefs[i]
            for k in range(slopes.size):
                slopes[k] += coef * row[k]


@jit
def _account(
    diag,
    n_first,
    bounds,
    linear,
    held,
    ends,
    kinks,
    signs,
    ways,
    tol,
    at_bound,
    rounding,
    unit,
    coefs,
    slopes,
    numbers,
):
    """All that a solution is told by, but how it was found."""
    n = bounds.size
    norm = size = largest = gain = 0.0
    own, costs = np.empty(n), np.empty(n)
    for i in range(n):
        side = 0 if i < n_first else 1
        score = slopes[i] - linear[i]
        norm += coefs[i] * score
        size += abs(coefs[i])
        gain -= coefs[i] * linear[i]
        own[i] = kinks[side] - signs[side] * score
        costs[i] = ways[side] * bounds[i]
        largest = max(largest, abs(diag[i]))
    off = size * (rounding + n * unit)
    paid = may_pay = 0.0
    violators = start = number = 0
    for end in ends:
        offset = best_offset(own[start:end], costs[start:end], held)
        numbers[_OFFSETS + number] = offset
        paid += held * offset
        for i in range(start, end):
            bound, alpha = bounds[i], abs(coefs[i])
            inside = (own[i] - offset) * ways[0 if i < n_first else 1]
            paid += bound * max(inside, 0.0)
            may_pay += bound if inside > -off else 0.0
            can_rise = alpha < (1.0 - at_bound) * bound and inside > tol
            if can_rise or (alpha > at_bound * bound and inside < -tol):
                violators += 1
        start, number = end, number + 1
    longest = norm + off * size  # a norm that is larger makes the dual smaller: it stays a bound
    share = min(1.0, gain / longest) if held == 0.0 and longest > 0.0 else 1.0
    numbers[1] = 0.5 * norm - gain
    numbers[4] = norm
    numbers[5] = 0.0 if norm >= 0.0 else _NINE_DIGITS * size * size * largest
    numbers[6] = paid
    numbers[7] = share * (gain - 0.5 * share * longest)
    numbers[8] = violators
    numbers[9] = off * (may_pay + 0.5 * size)


@jit
def best_offset(kinks, costs, linear):
    """The b that minimises ``sum_i c_i max(0, k_i - b)`` and ``linear * b``.

    A negative cost is that of a ramp that rises, ``|c_i| max(0, b - k_i)``. The middle where there
    are several such b; slopes of F that are zero to within rounding are zero.

    The first kink right of which F does not fall is looked for, and the first right of which it
    rises: of the kinks between two, one that is among them is tried, until there is none.
    """
    middle = 0.0
    last = -HUGE
    for k in range(kinks.size):
        last = max(last, kinks[k])
    for rises in range(2):
        low, high = -HUGE, HUGE
        while True:
            pivot, seen = 0.0, 0
            for k in range(kinks.size):
                if low < kinks[k] < high:
                    seen += 1
                    if seen & (seen - 1) == 0:  # neither end of kinks that are in order
                        pivot = kinks[k]
            if seen == 0:
                break
            below, above = linear, 0.0
            for k in range(kinks.size):
                if costs[k] < 0.0:
                    below -= costs[k] if kinks[k] <= pivot else 0.0
                else:
                    above += costs[k] if kinks[k] > pivot else 0.0
            hair = _FLAT * (below + above)
            if below - above > hair or (rises == 0 and below - above >= -hair):
                high = pivot
            else:
                low = pivot
        middle += 0.5 * (high if high < HUGE else last)
    return middle
