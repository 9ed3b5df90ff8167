"""Many small duals of two classes each, solved side by side.

    minimise    1/2 b'Kb + p sum_i |b_i|,   0 <= b_i <= c_i in the first class,
                                           -c_i <= b_i <= 0 in the second

with the sum of all b held at zero, or the sum of each class at a share of the costs (the nu form).
It is the problem of ``smo``. With each solution comes what a certificate says of it: the primal is

    1/2 |w|^2 + sum_g d b_g + sum_i c_i max(0, +-(k_i - b_g)),     k_i = kink - sign <w, z_i>

over one offset b_g, or one for each class (``machines.formulation`` has the words for all of it).

The variables of all duals lie one after another in arrays, and what is asked of each dual after a
round is computed for all of them at once. ``small_rounds`` has the rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.expansion import rounding_of_sum
from aesvm.solver.pair_updates import HUGE

Array = NDArray[np.float64]

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

#: Sums that differ by less, as a share of them, are the same.
SAME_SUM = 1e-13

#: As in ``smo``: pair updates of a round for each variable; how much smaller a gap is aimed at
#: where the duality gap is too large, and the smallest share; rounds without a smaller gap, the
#: share that the objective must still fall by in them, and how many are enough whatever it says.
_UPDATES, _TIGHTER, _TIGHTEST = 50, 0.25, 1e-4
_PATIENCE, _PROGRESS, _LONGEST_PATIENCE = 200, 1e-12, 5000

#: Sums of costs that differ by less, as a share of them, are the same.
_FLAT = 1e-10

#: Kernel values are taken to be right to this share, where a squared norm came out negative.
_NINE_DIGITS = 1e-9


class TwoClasses(NamedTuple):
    """The loss of two classes, as numbers."""

    apart: bool  #: whether each class has an offset, and a sum that is held, of its own
    linear: float  #: the dual's p
    slope: float  #: of the primal in each offset, for a total cost of one; the sums held
    kinks: Array  #: of each class, where the loss begins, of a score of zero
    signs: Array  #: by how much that falls where the score rises by one
    ways: Array  #: 1 where the loss falls as the offset rises, and -1 where it rises


class Accuracy(NamedTuple):
    """How well is to be solved, and how well kernel values are known."""

    tol: float
    duality_tol: float  #: relative; infinite where no duality gap is aimed at
    at_bound: float  #: a share of a bound
    limit: int  #: of pair updates of a dual, in all
    one_round: bool  #: whether to leave it at a round
    rounding: float  #: of a kernel value
    unit: float  #: the same, of an addition
    n_terms: int = 0  #: that a bound is a sum of, at most


class PairVariables(NamedTuple):
    """Those of several duals, one after another, in each the first class before the second."""

    sizes: NDArray[np.intp]  #: (n_duals, 2), variables of each class
    classes: NDArray[np.intp]  #: where each class begins
    side: NDArray[np.intp]  #: 0 in the first class and 1 in the second
    held: Array  #: of each dual, the sum of the magnitudes in a class; zero where it is not held
    bounds: Array
    diag: Array
    linear: Array
    lower: Array
    upper: Array
    coefs: Array
    slopes: Array  #: ``K coefs + linear``

    @classmethod
    def at_start(
        cls, sizes: NDArray[np.intp], bounds: Array, diag: Array, loss: TwoClasses
    ) -> PairVariables:
        """The first variables of each class at their bounds, until what is held is reached."""
        classes = np.cumsum(sizes) - sizes.ravel()
        side = np.repeat(np.tile([0, 1], len(sizes)), sizes.ravel())
        held = loss.slope * np.add.reduceat(bounds, classes[::2])
        sign = 1.0 - 2.0 * side
        coefs = np.zeros(len(bounds))
        if loss.slope > 0.0:
            before = np.cumsum(bounds) - bounds
            before -= np.repeat(before[classes], sizes.ravel())
            left = np.repeat(held, sizes.sum(axis=1)) - before
            coefs = sign * np.clip(left, 0.0, bounds)
        lower, upper = np.where(side == 0, 0.0, -bounds), np.where(side == 0, bounds, 0.0)
        linear = loss.linear * sign
        return cls(
            sizes, classes, side, held, bounds, diag, linear, lower, upper, coefs, linear.copy()
        )  # fmt: skip

    def groups(self, apart: bool) -> NDArray[np.intp]:
        """Where those begin whose sum is held: a dual, or a class."""
        return self.classes if apart else self.classes[::2]

    def gaps(self, apart: bool) -> Array:
        """How much slopes differ the wrong way, of each dual."""
        groups = self.groups(apart)
        rise = np.where(self.coefs < self.upper, self.slopes, HUGE)
        fall = np.where(self.coefs > self.lower, self.slopes, -HUGE)
        gaps = np.maximum.reduceat(fall, groups) - np.minimum.reduceat(rise, groups)
        return np.maximum(gaps.reshape(len(self.sizes), -1).max(axis=1), 0.0)


#: A round takes the variables, the numbers of some duals, and for each the gap to come to and the
#: most pair updates. It brings coefficients and slopes up to date, and returns for each dual the
#: updates made and what its objective fell by.
Round = Callable[[PairVariables, NDArray[np.intp], Array, NDArray[np.intp]], tuple[Array, Array]]


def solve_small(
    variables: PairVariables, loss: TwoClasses, accuracy: Accuracy, make_round: Round
) -> Array:
    """Solve several duals; returns what is told of each, shape (n_duals, len(COLUMNS)).

    Parameters
    ----------
    variables : PairVariables
        As they start; the coefficients of the solutions are left in them.
    loss : TwoClasses
    accuracy : Accuracy
    make_round : callable
    """
    tol = accuracy.tol
    n, n_rows = len(variables.sizes), variables.sizes.sum(axis=1)
    told = np.zeros((n, len(COLUMNS)))
    n_iter, waited = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    limit = np.full(n, accuracy.limit)
    aim, least, fallen, then = np.full(n, tol), np.full(n, HUGE), np.zeros(n), np.zeros(n)
    active = np.arange(n)
    while len(active):
        most = np.minimum(limit - n_iter, _UPDATES * n_rows)[active]
        updates, decrease = make_round(variables, active, aim[active], most)
        n_iter[active] += updates.astype(np.intp)
        fallen[active] += decrease
        limit[active[updates == 0]] = 0  # no pair can move
        gap = variables.gaps(loss.apart)
        waited[active] += 1
        smaller = gap < least
        least, then = np.where(smaller, gap, least), np.where(smaller, fallen, then)
        waited[smaller] = 0
        over = (n_iter >= limit) | accuracy.one_round | (waited >= _LONGEST_PATIENCE)
        over |= (waited >= _PATIENCE) & (fallen - then <= _PROGRESS * fallen)
        found = active[(gap <= aim)[active] | over[active]]
        if len(found) == 0:
            continue
        told[found] = account(variables, loss, accuracy)[found]
        primal, dual = 0.5 * told[:, 4] + told[:, 6], -told[:, 1]
        # a dual of zero is no multiple of an infinite tolerance
        short = primal - dual > accuracy.duality_tol * np.maximum(np.abs(dual), 1.0 / HUGE)
        aim[found] *= _TIGHTER
        while (reached := (gap[found] <= aim[found]) & (aim[found] >= _TIGHTEST * tol)).any():
            aim[found[reached]] *= _TIGHTER
        least[found], waited[found] = HUGE, 0
        told[found, 0], told[found, 2] = n_iter[found], gap[found]
        told[found, 3] = ((gap <= tol) & ~short)[found]
        ended = np.zeros(n, dtype=bool)
        ended[found] = (over | ~short | (aim < _TIGHTEST * tol))[found]
        active = active[~ended[active]]
    return told


def account(variables: PairVariables, loss: TwoClasses, accuracy: Accuracy) -> Array:
    """All that solutions are told by, but how they were found."""
    sizes, side, bounds, coefs = variables.sizes, variables.side, variables.bounds, variables.coefs
    duals, n_rows = variables.classes[::2], sizes.sum(axis=1)
    groups = variables.groups(loss.apart)
    n_groups = len(groups) // len(sizes)
    scores, alphas = variables.slopes - variables.linear, np.abs(coefs)
    norm = np.add.reduceat(coefs * scores, duals)
    size = np.add.reduceat(alphas, duals)
    gain = -np.add.reduceat(coefs * variables.linear, duals)
    largest = np.maximum.reduceat(np.abs(variables.diag), duals)
    own, ways = loss.kinks[side] - loss.signs[side] * scores, loss.ways[side]
    off = size * (accuracy.rounding + n_rows * accuracy.unit)
    held = np.repeat(variables.held, n_groups)
    offsets = best_offsets(own, ways * bounds, held, groups)
    in_group = np.diff(groups, append=len(coefs))
    inside = (own - np.repeat(offsets, in_group)) * ways
    losses = np.maximum(inside, 0.0)
    paid = np.add.reduceat(bounds * losses, duals)
    by_offsets = (held * offsets).reshape(len(sizes), n_groups)
    sums = paid + np.abs(by_offsets).sum(axis=1)
    paid += by_offsets.sum(axis=1)
    gains = abs(loss.linear)
    # what each loss is the difference of, and its own size
    parts = gains + np.abs(scores) + np.abs(np.repeat(offsets, in_group)) + 2.0 * np.abs(inside)
    moved = np.repeat(off, n_rows) + rounding_of_sum(0, parts)
    can_pay = np.where(inside > -moved, bounds, 0.0)
    may_pay = np.add.reduceat(can_pay, duals)
    products, units = np.add.reduceat(np.abs(coefs * scores), duals), np.add.reduceat(losses, duals)
    violates = (alphas < (1.0 - accuracy.at_bound) * bounds) & (inside > accuracy.tol)
    violates |= (alphas > accuracy.at_bound * bounds) & (inside < -accuracy.tol)
    n_terms = n_rows + accuracy.n_terms
    # a norm that is larger makes the dual smaller: it stays a bound
    longest = norm + off * size + rounding_of_sum(n_terms, products)
    farthest = np.sqrt(np.maximum(longest, 0.0) * largest)  # no score is larger
    # the sums that the dual holds are right to this: had they been moved, it would be less
    moved = SAME_SUM * size + rounding_of_sum(n_terms, size)
    below = rounding_of_sum(n_terms, gains * size + longest) + moved * (gains + farthest)
    # divided only where the quotient is less than one: a norm may be next to nothing
    share = np.ones(len(sizes))
    np.divide(gain, longest, out=share, where=(variables.held == 0.0) & (longest > gain))
    told = np.zeros((len(sizes), len(COLUMNS)))
    told[:, 1] = 0.5 * norm - gain
    told[:, 4] = norm
    told[:, 5] = np.where(norm >= 0.0, 0.0, _NINE_DIGITS * size * size * largest)
    told[:, 6] = paid
    told[:, 7] = share * (gain - 0.5 * share * longest) - below
    told[:, 8] = np.add.reduceat(violates.astype(np.intp), duals)
    told[:, 9] = off * (may_pay + 0.5 * size) + rounding_of_sum(n_terms, products + sums, units)
    told[:, 9] += rounding_of_sum(0, np.add.reduceat(can_pay * parts, duals))
    told[:, 10 : 10 + n_groups] = offsets.reshape(len(sizes), n_groups)
    return told


def best_offsets(kinks: Array, costs: Array, linear: Array, groups: NDArray[np.intp]) -> Array:
    """The b that minimise ``sum_i c_i max(0, k_i - b)`` and ``linear * b``, one for each group.

    A negative cost is that of a ramp that rises, ``|c_i| max(0, b - k_i)``. The middle where there
    are several such b; slopes of F that are zero to within rounding are zero. Groups are given by
    where they begin.

    It lies between the first kink right of which F does not fall, and the first right of which it
    rises; where there is none, it is the last kink.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.small import best_offsets
    >>> kinks, costs = np.array([1.0, -1.0, 4.0, 2.0]), np.array([1.0, -1.0, 1.0, -3.0])
    >>> best_offsets(kinks, costs, np.zeros(2), np.array([0, 2]))
    array([0., 2.])
    """
    sizes = np.diff(groups, append=len(kinks))
    of = np.repeat(np.arange(len(groups)), sizes)
    order = np.argsort(kinks)
    # small whole numbers are put in order by their digits, which takes less time than lexsort does
    order = order[np.argsort(of[order].astype(np.min_scalar_type(len(groups))), kind="stable")]
    kinks, costs = kinks[order], costs[order]
    # of each group one in all: sums over all groups are then right to as many digits for each
    total = np.add.reduceat(np.abs(costs), groups) + linear
    unit = np.repeat(np.where(total > 0.0, total, 1.0), sizes)
    rising, falling = np.maximum(-costs, 0.0) / unit, np.maximum(costs, 0.0) / unit
    before = np.cumsum(rising) - rising
    below = before - np.repeat(before[groups], sizes) + rising + np.repeat(linear, sizes) / unit
    passed = np.cumsum(falling)
    last = groups + sizes - 1
    above = np.repeat(passed[last], sizes) - passed
    hair = _FLAT * (below + above)
    at = np.arange(len(kinks))
    middle = np.zeros(len(groups))
    for does in (below - above >= -hair, below - above > hair):
        first = np.minimum.reduceat(np.where(does, at, len(kinks)), groups)
        middle += 0.5 * kinks[np.minimum(first, last)]
    return middle
