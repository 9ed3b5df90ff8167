"""Many small duals of two classes each, solved side by side.

    minimise    1/2 b'Kb + p sum_i |b_i|,   0 <= b_i <= c_i in the first class,
                                           -c_i <= b_i <= 0 in the second

with the sum of all b held at zero, or the sum of each class at a fraction of its costs (the nu
form). It is the problem of ``smo``.

The variables of all duals lie one after another in arrays, and what is asked of each dual is
computed for all of them at once. Compiled code improves them, without the interpreter's lock:
``small_matrices`` where all kernel values are at hand, else ``small_working_sets``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import inlined
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.smo import TIGHTER, TIGHTEST
from aesvm.solver.stagnation import UPDATES_PER_VARIABLE, fall
from aesvm.solver.working_set import UPDATES

Array = NDArray[np.float64]

#: Sums whose relative difference is smaller are the same.
SAME_SUM = 1e-13

_EPS = float(np.finfo(np.float64).eps)


class TwoClasses(NamedTuple):
    """The dual of two classes, as numbers."""

    apart: bool  #: whether the sum of each class is held, or that of both
    linear: float  #: the dual's p
    slope: float  #: the sum of each class, for a total cost of one; zero where it is not held


class Solved(NamedTuple):
    """What is known of solved duals, beside the coefficients in their ``PairVariables``."""

    n_updates: NDArray[np.intp]
    objective: Array  #: as it is minimised
    violation: Array  #: the largest violation of optimality
    converged: NDArray[np.bool_]


class PairVariables(NamedTuple):
    """The variables of several duals, one dual after another, its first class before its second."""

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
        side = np.repeat(np.arange(sizes.size) % 2, sizes.ravel())
        held = loss.slope * np.add.reduceat(bounds, classes[::2])
        sign = np.where(side == 0, 1.0, -1.0)
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

    def part(self, begin: int, end: int) -> PairVariables:
        """Those of consecutive duals, as views."""
        if end - begin == len(self.sizes):
            return self
        ends = [*self.classes[::2].tolist(), len(self.coefs)]
        start, stop = ends[begin], ends[end]
        names = "side", "bounds", "diag", "linear", "lower", "upper", "coefs", "slopes"
        return self._replace(
            sizes=self.sizes[begin:end],
            classes=self.classes[2 * begin : 2 * end] - start,
            held=self.held[begin:end],
            **{name: getattr(self, name)[start:stop] for name in names},
        )

    @property
    def scores(self) -> Array:
        """``K coefs``."""
        return self.slopes - self.linear

    def violations(self, apart: bool) -> Array:
        """How much slopes differ the wrong way, of each dual."""
        starts = self.classes if apart else self.classes[::2]  # of variables whose sum is held
        rise = np.where(self.coefs < self.upper, self.slopes, HUGE)
        fall = np.where(self.coefs > self.lower, self.slopes, -HUGE)
        found = np.maximum.reduceat(fall, starts) - np.minimum.reduceat(rise, starts)
        return np.maximum(found.reshape(len(self.sizes), -1).max(axis=1), 0.0)


#: Makes an iteration. It takes the variables, the numbers of some duals, and for each the violation
#: to reach and the most pair updates. It updates coefficients and slopes, and returns the number of
#: pair updates of each dual.
Improve = Callable[[PairVariables, NDArray[np.intp], Array, NDArray[np.intp]], NDArray[np.intp]]


def solve_small(
    variables: PairVariables,
    apart: bool,
    tol: Array,
    limit: int,
    improve: Improve,
    is_close: Callable[[], NDArray[np.bool_]] | None = None,
    is_over: Callable[[], bool] | None = None,
) -> Solved:
    """Solve several duals.

    Parameters
    ----------
    variables : PairVariables
        As they start; the coefficients of the solutions are left in them.
    apart : bool
        Whether the sum of each class is held.
    tol : ndarray
        The violation of optimality that each dual is solved to.
    limit : int
        The most pair updates of a dual.
    improve : callable
    is_close : callable, default=None
        Tells which duals have a small duality gap, as the variables are. Others are solved further.
    is_over : callable, default=None
        Whether to end after the iteration.
    """
    n, n_rows = len(variables.sizes), variables.sizes.sum(axis=1)
    converged, violation = np.zeros(n, dtype=bool), np.zeros(n)
    n_updates, limits, aim = np.zeros(n, dtype=np.intp), np.full(n, limit), tol.copy()
    active, stagnation = np.arange(n), _Stagnations(variables)
    while len(active):
        most = np.minimum(limits - n_updates, UPDATES * n_rows)[active]
        updates = improve(variables, active, aim[active], most)
        n_updates[active] += updates
        limits[active[updates == 0]] = 0  # no pair can move
        violation = variables.violations(apart)
        ends_now = is_over is not None and is_over()
        over = (n_updates >= limits) | ends_now | stagnation.are_reached(variables, active)
        found = active[(violation <= aim)[active] | over[active]]
        if len(found) == 0:
            continue
        close = np.ones(n, dtype=bool) if is_close is None else is_close()
        converged[found] = ((violation <= tol) & close)[found]
        ended = np.zeros(n, dtype=bool)
        ended[found] = (over | close)[found]
        short = found[~ended[found]]
        aim[short] *= TIGHTER
        while (reached := (violation <= aim)[short] & (aim >= TIGHTEST * tol)[short]).any():
            aim[short[reached]] *= TIGHTER
        ended[short] = (aim < TIGHTEST * tol)[short]
        active = active[~ended[active]]
    duals, linear = variables.classes[::2], variables.linear
    objective = np.add.reduceat(0.5 * variables.coefs * (variables.slopes + linear), duals)
    return Solved(n_updates, objective, violation, converged)


@inlined
def balance(coefs, lower, upper, n_first, held):
    """Restore the sums of the classes of a dual, which rounding has moved."""
    above = below = 0.0
    for i in range(n_first):
        above += coefs[i]
    for i in range(n_first, coefs.size):
        below -= coefs[i]
    wanted = held if held > 0.0 else min(above, below)
    for i in range(coefs.size):
        reached = above if i < n_first else below
        if reached > 0.0 and abs(reached - wanted) > SAME_SUM * reached:
            coefs[i] = min(max(coefs[i] * (wanted / reached), lower[i]), upper[i])


class _Stagnations:
    """The rule of ``stagnation``, for each of several duals.

    The objective is first measured after one iteration: every iteration computes slopes anew.
    """

    def __init__(self, variables: PairVariables) -> None:
        self.sizes, self.duals = variables.sizes.sum(axis=1), variables.classes[::2]
        self.window = UPDATES_PER_VARIABLE // UPDATES  # an iteration has up to UPDATES of each
        self.n_iterations = np.full(len(self.sizes), -1)
        self.coefs, self.slopes = variables.coefs.copy(), variables.slopes.copy()

    def are_reached(self, v: PairVariables, active: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Count an iteration of some duals; return which of all fell too little in a window."""
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
