"""Many small duals of two classes each, solved side by side.

    minimise    1/2 b'Kb + p sum_i |b_i|,   0 <= b_i <= c_i in the first class,
                                           -c_i <= b_i <= 0 in the second

with the sum of all b held at zero, or the sum of each class at a share of the costs (the nu form).
It is the problem of ``smo``. With each solution comes what a certificate says of it: the primal is

    1/2 |w|^2 + sum_g d b_g + sum_i c_i max(0, +-(k_i - b_g)),     k_i = kink - sign <w, z_i>

over one offset b_g, or one for each class (``formulations.protocol`` has the words for all of it).

The variables of all duals lie one after another in arrays, and what is asked of each dual is
computed for all of them at once. ``small_improve`` and ``small_compiled`` improve them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.expansion import rounding_of_sum
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.scaling import best_multiples
from aesvm.solver.smo import TIGHTER, TIGHTEST
from aesvm.solver.stagnation import UPDATES_PER_VARIABLE, fall
from aesvm.solver.working_set import UPDATES

Array = NDArray[np.float64]

#: What is told of each solution, by column.
COLUMNS = (
    "n_updates",
    "objective",  # of the dual, as it is minimised
    "violation",  # of optimality, the largest
    "converged",
    "squared_norm",
    "norm_rounding",  # of that, in kernel values that are right to nine digits
    "loss",  # the primal, without the norm
    "dual",  # a lower bound on the primal
    "violators",
    "rounding",  # what the primal is off by, at most
    "multiple",  # w is this multiple of the dual solution: 1, unless that was cut short
    "first_offset",
    "second_offset",  # zero where there is one
)

#: Sums that differ by less, as a share of them, are the same.
SAME_SUM = 1e-13

_EPS = float(np.finfo(np.float64).eps)

#: Sums of costs that differ by less, as a share of them, are the same.
_FLAT = 1e-10

#: An intercept below this share of the scores is rounding; one of zero takes the place of one that
#: is not known better, where the objective rises by no more than the second share.
UNBIASED, UNCHANGED = 1e-10, 1e-5

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
    once: bool  #: whether to leave it at one iteration
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

    def violations(self, apart: bool) -> Array:
        """How much slopes differ the wrong way, of each dual."""
        groups = self.groups(apart)
        rise = np.where(self.coefs < self.upper, self.slopes, HUGE)
        fall = np.where(self.coefs > self.lower, self.slopes, -HUGE)
        own = np.maximum.reduceat(fall, groups) - np.minimum.reduceat(rise, groups)
        return np.maximum(own.reshape(len(self.sizes), -1).max(axis=1), 0.0)


#: An iteration. Takes the variables, the numbers of some duals, and for each the violation to come
#: to and the most pair updates. Brings coefficients and slopes up to date, and returns the updates
#: made for each dual.
Improve = Callable[[PairVariables, NDArray[np.intp], Array, NDArray[np.intp]], NDArray[np.intp]]


def solve_small(
    variables: PairVariables, loss: TwoClasses, accuracy: Accuracy, improve: Improve
) -> Array:
    """Solve several duals; returns what is told of each, shape (n_duals, len(COLUMNS)).

    Where a solve has not converged, w is the best multiple of its dual solution.

    Parameters
    ----------
    variables : PairVariables
        As they start; the coefficients of the solutions are left in them.
    loss : TwoClasses
    accuracy : Accuracy
    improve : callable
    """
    tol = tolerances(variables, loss, accuracy.tol)
    n, n_rows = len(variables.sizes), variables.sizes.sum(axis=1)
    told = np.zeros((n, len(COLUMNS)))
    n_updates, limit, aim = np.zeros(n, dtype=np.intp), np.full(n, accuracy.limit), tol.copy()
    active, stagnation = np.arange(n), _Stagnations(variables)
    while len(active):
        most = np.minimum(limit - n_updates, UPDATES * n_rows)[active]
        updates = improve(variables, active, aim[active], most)
        n_updates[active] += updates
        limit[active[updates == 0]] = 0  # no pair can move
        violation = variables.violations(loss.apart)
        over = (n_updates >= limit) | accuracy.once | stagnation.are_reached(variables, active)
        found = active[(violation <= aim)[active] | over[active]]
        if len(found) == 0:
            continue
        told[found] = account(variables, loss, accuracy)[found]
        objective = 0.5 * told[:, 4] + told[:, 6]
        proven_gap = objective + told[:, 9] - told[:, 7]
        # an objective of zero is no multiple of an infinite tolerance
        short = proven_gap > accuracy.duality_tol * np.maximum(np.abs(objective), 1.0 / HUGE)
        aim[found] *= TIGHTER
        while (reached := (violation <= aim)[found] & (aim >= TIGHTEST * tol)[found]).any():
            aim[found[reached]] *= TIGHTER
        told[found, 0], told[found, 2] = n_updates[found], violation[found]
        told[found, 3] = ((violation <= tol) & ~short)[found]
        ended = np.zeros(n, dtype=bool)
        ended[found] = (over | ~short | (aim < TIGHTEST * tol))[found]
        active = active[~ended[active]]
    cut = told[:, 3] == 0.0
    if cut.any():
        multiples = best_multiples(
            lambda t: _Primal.of(variables, loss, t).objective, n, len(variables.coefs)
        )
        told[cut, 4:] = account(variables, loss, accuracy, multiples)[cut, 4:]
    return told


def tolerances(variables: PairVariables, loss: TwoClasses, tol: float) -> Array:
    """The violation that each dual is solved to; see ``formulations.protocol.tol_of``."""
    n_rows = variables.sizes.sum(axis=1)
    if loss.slope == 0.0:
        return np.full(len(n_rows), tol)
    means = np.add.reduceat(variables.bounds, variables.classes[::2]) / n_rows
    return tol * np.minimum(1.0, means)


class _Primal(NamedTuple):
    """Primal solutions of several duals, whose w are multiples of the dual ones."""

    scores: Array
    squared_norm: Array  #: of each dual
    held: Array  #: of each group of variables whose sum is held
    offsets: Array  #: of each group
    inside: Array  #: how far each row is inside its margin; negative outside
    losses: Array
    paid: Array  #: of each dual, the losses times their costs
    by_offsets: Array  #: of each dual, what F has of each offset

    @property
    def objective(self) -> Array:
        return 0.5 * self.squared_norm + self.paid + self.by_offsets.sum(axis=1)

    @classmethod
    def of(cls, variables: PairVariables, loss: TwoClasses, multiples: Array) -> _Primal:
        sizes, side, bounds = variables.sizes, variables.side, variables.bounds
        duals, groups = variables.classes[::2], variables.groups(loss.apart)
        n_groups = len(groups) // len(sizes)
        times = np.repeat(multiples, sizes.sum(axis=1))
        scores = times * (variables.slopes - variables.linear)
        own, ways = loss.kinks[side] - loss.signs[side] * scores, loss.ways[side]
        held = np.repeat(variables.held, n_groups)
        in_group = np.diff(groups, append=len(bounds))
        norms = np.add.reduceat(times * variables.coefs * scores, duals)

        def at(offsets: Array) -> _Primal:
            inside = (own - np.repeat(offsets, in_group)) * ways
            losses = np.maximum(inside, 0.0)
            paid = np.add.reduceat(bounds * losses, duals)
            by_offsets = (held * offsets).reshape(len(sizes), n_groups)
            return cls(scores, norms, held, offsets, inside, losses, paid, by_offsets)

        best = at(best_offsets(own, ways * bounds, held, groups))
        largest = np.maximum.reduceat(np.abs(scores), duals)
        intercepts = _unknown_intercepts(best.offsets, variables, loss, largest)
        if not intercepts.any():
            return best
        signs = np.array([1.0, -1.0] if loss.apart else [1.0])
        zero = at(best.offsets - np.outer(intercepts, signs).ravel())
        same = zero.objective - best.objective <= UNCHANGED * np.abs(best.objective)
        return at(np.where(np.repeat(same, n_groups), zero.offsets, best.offsets))


def _unknown_intercepts(
    offsets: Array, variables: PairVariables, loss: TwoClasses, largest: Array
) -> Array:
    """The intercepts of duals that may as well be zero, and zero for others.

    See ``formulations.protocol.unbiased_offsets``; ``largest`` are the largest scores.
    """
    first, second = offsets.reshape(len(largest), -1)[:, [0, -1]].T
    intercepts = 0.5 * (first - second) if loss.apart else first
    width = -0.5 * (first + second) if loss.apart else 1.0
    known_to = np.maximum(variables.violations(loss.apart), UNBIASED * np.maximum(width, largest))
    return np.where(np.abs(intercepts) <= known_to, intercepts, 0.0)


class _Stagnations:
    """The rule of ``stagnation``, for each of several duals.

    Slopes are computed anew in every iteration, so the first one tells where the objective begins.
    """

    def __init__(self, variables: PairVariables) -> None:
        self.sizes, self.duals = variables.sizes.sum(axis=1), variables.classes[::2]
        self.window = UPDATES_PER_VARIABLE // UPDATES  # an iteration has up to UPDATES of each
        self.n_iterations = np.full(len(self.sizes), -1)
        self.coefs, self.slopes = variables.coefs.copy(), variables.slopes.copy()

    def are_reached(self, v: PairVariables, active: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Count an iteration of some duals: which fell too little in a window that it ends."""
        self.n_iterations[active] += 1
        begins, ends = self.n_iterations == 0, self.n_iterations >= self.window
        reached = np.zeros(len(self.sizes), dtype=bool)
        if ends.any():
            by_dual = partial(np.add.reduceat, indices=self.duals)
            lengths = np.sqrt(np.abs(v.diag))
            seen = (self.coefs, v.coefs), (self.slopes, v.slopes)
            fell, rounding = fall(*seen, lengths, _EPS, by_dual)
            reached = ends & ~(fell > rounding)
            self.n_iterations[ends] = 0
        if begins.any() or ends.any():
            here = np.repeat(begins | ends, self.sizes)
            self.coefs[here], self.slopes[here] = v.coefs[here], v.slopes[here]
        return reached


def account(
    variables: PairVariables,
    loss: TwoClasses,
    accuracy: Accuracy,
    multiples: Array | float = 1.0,
) -> Array:
    """All that solutions are told by, but how they were found.

    ``multiples``: of the dual solutions, for w.
    """
    sizes, bounds, coefs = variables.sizes, variables.bounds, variables.coefs
    duals, n_rows = variables.classes[::2], sizes.sum(axis=1)
    n_groups = len(variables.groups(loss.apart)) // len(sizes)
    multiples = np.broadcast_to(multiples, len(sizes))
    dual_scores, alphas = variables.slopes - variables.linear, np.abs(coefs)
    norm = np.add.reduceat(coefs * dual_scores, duals)
    size = np.add.reduceat(alphas, duals)
    gain = -np.add.reduceat(coefs * variables.linear, duals)
    largest = np.maximum.reduceat(np.abs(variables.diag), duals)
    off = size * (accuracy.rounding + n_rows * accuracy.unit)
    primal = _Primal.of(variables, loss, multiples)
    inside, losses = primal.inside, primal.losses
    in_group = np.diff(variables.groups(loss.apart), append=len(coefs))
    sums = primal.paid + np.abs(primal.by_offsets).sum(axis=1)
    paid = primal.paid + primal.by_offsets.sum(axis=1)
    gains = abs(loss.linear)
    # what each loss is the difference of, and its own size
    parts = gains + np.abs(primal.scores) + np.abs(np.repeat(primal.offsets, in_group))
    parts += 2.0 * np.abs(inside)
    moved = np.repeat(multiples * off, n_rows) + rounding_of_sum(0, parts)
    can_pay = np.where(inside > -moved, bounds, 0.0)
    may_pay = np.add.reduceat(can_pay, duals)
    products = np.add.reduceat(np.abs(coefs * dual_scores), duals)
    units = np.add.reduceat(losses, duals)
    tol = np.repeat(tolerances(variables, loss, accuracy.tol), n_rows)
    violates = (alphas < (1.0 - accuracy.at_bound) * bounds) & (inside > tol)
    violates |= (alphas > accuracy.at_bound * bounds) & (inside < -tol)
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
    told[:, 4] = primal.squared_norm
    squared = np.square(multiples)
    told[:, 5] = np.where(norm >= 0.0, 0.0, squared * _NINE_DIGITS * size * size * largest)
    told[:, 6] = paid
    told[:, 7] = share * (gain - 0.5 * share * longest) - below
    told[:, 8] = np.add.reduceat(violates.astype(np.intp), duals)
    told[:, 9] = multiples * off * (may_pay + 0.5 * multiples * size)
    told[:, 9] += rounding_of_sum(n_terms, squared * products + sums, units)
    told[:, 9] += rounding_of_sum(0, np.add.reduceat(can_pay * parts, duals))
    told[:, 10] = multiples
    told[:, 11 : 11 + n_groups] = primal.offsets.reshape(len(sizes), n_groups)
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
