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
from aesvm.solver.pair_updates import HUGE, Gram, row_of, update_pairs
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
    "total_cost",
    "worst_optimum",  # the primal at w = 0
    "first_offset",
    "second_offset",  # zero where there is one
)

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
    rising: NDArray[np.bool_]  #: whether the loss rises with the offset


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


@jit
def solve_small(blocks, pairs, loss, accuracy, values, coefs, numbers):
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
    """
    begin = 0
    for number in range(pairs.shape[0]):
        a, b = pairs[number]
        first = blocks.first_ends[a - 1] if a else 0
        second = blocks.second_ends[b - 1] if b else 0
        n_first, n_second = blocks.first_ends[a] - first, blocks.second_ends[b] - second
        n = n_first + n_second
        K = Gram(
            values[: n * n].reshape(n, n),
            np.zeros(n, dtype=np.bool_),
            blocks.first,
            blocks.cross,
            blocks.second,
            n_first,
            (first, second),
        )
        bounds = np.empty(n)
        bounds[:n_first] = blocks.first_bounds[first : first + n_first]
        bounds[n_first:] = blocks.second_bounds[second : second + n_second]
        _solve(K, bounds, loss, accuracy, coefs[begin : begin + n], numbers[number])
        begin += n


@jit
def _solve(K, bounds, loss, accuracy, coefs, numbers):
    n, n_first = bounds.size, K.n_first
    lower, upper, linear = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        of_first = i < n_first
        lower[i] = 0.0 if of_first else -bounds[i]
        upper[i] = bounds[i] if of_first else 0.0
        linear[i] = loss.linear if of_first else -loss.linear
    total = bounds.sum()
    held = loss.slope * total
    _start(bounds, n_first, held, coefs)
    ends = np.array([n_first, n]) if loss.apart else np.array([n])
    slopes, account = np.empty(n), np.empty(2)
    n_iter, aim = 0, accuracy.tol
    least, waited, fallen, then = HUGE, 0, 0.0, 0.0
    stalled = over = False
    while True:
        _balance(coefs, bounds, n_first, held)
        _add_up(K, coefs, linear, slopes)
        gap, begin = -HUGE, 0
        for end in ends:
            lowest, highest = find_edges(
                slopes[begin:end], coefs[begin:end], lower[begin:end], upper[begin:end]
            )
            gap, begin = max(gap, highest - lowest), end
        if gap < least:
            least, waited, then = gap, 0, fallen
        patient = waited < _LONGEST_PATIENCE and (
            waited < _PATIENCE or fallen - then > _PROGRESS * fallen
        )
        over = n_iter >= accuracy.limit or (accuracy.one_round and n_iter > 0)
        if gap <= aim or over or stalled or not patient:
            _account(K, bounds, linear, loss, accuracy, coefs, slopes, ends, held, numbers)
            short = _duality_gap(numbers) > accuracy.duality_tol * abs(numbers[1])
            aim *= _TIGHTER
            if over or stalled or not patient or not short or aim < _TIGHTEST * accuracy.tol:
                numbers[0], numbers[2] = n_iter, max(gap, 0.0)
                numbers[3] = 1.0 if gap <= accuracy.tol and not short else 0.0
                return
            least, waited = HUGE, 0
            continue
        limit = min(accuracy.limit - n_iter, _UPDATES * n)
        update_pairs(K, coefs, slopes, lower, upper, ends, 0.5 * aim, limit, account)
        n_iter += int(account[0])
        fallen += account[1]
        waited += 1
        stalled = account[0] == 0


@jit
def _duality_gap(numbers):
    return 0.5 * numbers[4] + numbers[6] + numbers[1]


@jit
def _start(bounds, n_first, held, coefs):
    """The first rows of each class at their bounds, until what is held is reached."""
    for side in range(2):
        begin, end = (0, n_first) if side == 0 else (n_first, bounds.size)
        left, sign = held, 1.0 if side == 0 else -1.0
        for i in range(begin, end):
            here = min(left, bounds[i])
            coefs[i] = sign * here
            left -= here


@jit
def _balance(coefs, bounds, n_first, held):
    """Move sums, which rounding has moved, back to what is held."""
    above, below = coefs[:n_first].sum(), -coefs[n_first:].sum()
    for side in range(2):
        begin, end = (0, n_first) if side == 0 else (n_first, coefs.size)
        reached = above if side == 0 else below
        wanted = held if held > 0.0 else min(above, below)
        if abs(reached - wanted) > _ROUNDING * reached and reached > 0.0:
            for i in range(begin, end):
                bound = bounds[i]
                coefs[i] = min(max(coefs[i] * (wanted / reached), -bound), bound)


@jit
def _add_up(K, coefs, linear, slopes):
    """``slopes = K coefs + linear``."""
    for k in range(slopes.size):
        slopes[k] = linear[k]
    for i in range(coefs.size):
        if coefs[i] != 0.0:
            row, coef = row_of(K, i), coefs[i]
            for k in range(slopes.size):
                slopes[k] += coef * row[k]


@jit
def _account(K, bounds, linear, loss, accuracy, coefs, slopes, ends, held, numbers):
    """All that a solution is told by, but how it was found."""
    n, n_first = bounds.size, K.n_first
    begin, other = K.at
    norm = size = largest = 0.0
    kinks, costs = np.empty(n), np.empty(n)
    for i in range(n):
        side = 0 if i < n_first else 1
        score = slopes[i] - linear[i]
        norm += coefs[i] * score
        size += abs(coefs[i])
        kinks[i] = loss.kinks[side] - loss.signs[side] * score
        costs[i] = -bounds[i] if loss.rising[side] else bounds[i]
        at = begin + i if side == 0 else other + i - n_first
        corner = K.first[at, at] if side == 0 else K.second[at, at]
        largest = max(largest, abs(corner))
    off = size * (accuracy.rounding + n * accuracy.unit)
    paid = may_pay = worst = 0.0
    violators = 0
    start, number = 0, 0
    zeros, sums = loss.kinks.copy(), np.empty(2)
    sums[0], sums[1] = bounds[:n_first].sum(), bounds[n_first:].sum()
    total = sums[0] + sums[1]
    for side in range(2):
        sums[side] = -sums[side] if loss.rising[side] else sums[side]
    numbers[13] = 0.0
    for end in ends:
        offset = best_offset(kinks[start:end], costs[start:end], held)
        numbers[12 + number] = offset
        paid += held * offset
        for i in range(start, end):
            bound, alpha = bounds[i], abs(coefs[i])
            inside = kinks[i] - offset if costs[i] >= 0.0 else offset - kinks[i]
            paid += bound * max(inside, 0.0)
            may_pay += bound if inside > -off else 0.0
            can_rise = alpha < (1.0 - accuracy.at_bound) * bound
            can_fall = alpha > accuracy.at_bound * bound
            if (can_rise and inside > accuracy.tol) or (can_fall and inside < -accuracy.tol):
                violators += 1
        here = slice(number, number + 1) if loss.apart else slice(0, 2)
        offset = best_offset(zeros[here], sums[here], held)
        worst += held * offset
        for side in range(2):
            if side == number or not loss.apart:
                inside = zeros[side] - offset if sums[side] >= 0.0 else offset - zeros[side]
                worst += abs(sums[side]) * max(inside, 0.0)
        start, number = end, number + 1
    gain = -loss.linear * size
    longest = norm + off * size  # a norm that is larger makes the dual smaller: it stays a bound
    share = 1.0
    if held == 0.0 and longest > 0.0:
        share = min(1.0, gain / longest)
    numbers[1] = 0.5 * norm - gain
    numbers[4] = norm
    numbers[5] = 0.0 if norm >= 0.0 else _NINE_DIGITS * size * size * largest
    numbers[6] = paid
    numbers[7] = share * (gain - 0.5 * share * longest)
    numbers[8] = violators
    numbers[9] = off * (may_pay + 0.5 * size)
    numbers[10] = total
    numbers[11] = worst


@jit
def best_offset(kinks, costs, linear):
    """The b that minimises ``sum_i c_i max(0, k_i - b)`` and ``linear * b``.

    A negative cost is that of a ramp that rises, ``|c_i| max(0, b - k_i)``. The middle where there
    are several such b; slopes of F that are zero to within rounding are zero.
    """
    low = _first_kink(kinks, costs, linear, -_FLAT)
    return 0.5 * (low + _first_kink(kinks, costs, linear, _FLAT))


@jit
def _first_kink(kinks, costs, linear, hair):
    """The first kink right of which F rises, by more than ``hair`` of the sums; else the last.

    Of those between two kinks, one is tried that is among them, until there is none.
    """
    low, high = -HUGE, HUGE
    last = -HUGE
    for k in range(kinks.size):
        last = max(last, kinks[k])
    while True:
        pivot, seen = 0.0, 0
        for k in range(kinks.size):
            if low < kinks[k] < high:
                seen += 1
                if seen & (seen - 1) == 0:  # neither end of kinks that are in order
                    pivot = kinks[k]
        if seen == 0:
            return high if high < HUGE else last
        below, above = linear, 0.0
        for k in range(kinks.size):
            cost = costs[k]
            if cost < 0.0:
                below -= cost if kinks[k] <= pivot else 0.0
            else:
                above += cost if kinks[k] > pivot else 0.0
        slope, sums = below - above, below + above
        if slope > hair * sums or (hair < 0.0 and slope >= hair * sums):
            high = pivot
        else:
            low = pivot
