"""What a formulation of the SVM is: its loss, its dual variables, and how the two agree.

Training minimises, over a w in kernel space and offsets b,

    F(w, b) = 1/2 |w|^2 + sum_k d_k b_k + sum_i c_i loss(p_i),
    p_i = position(<w, phi(x_i)>, target_i, b)

with a loss that is convex and piecewise linear in the position, with kinks at known places and
slopes between -1 and 1 (doubts and certificates rest on that; a steeper loss is a larger cost). The
offsets b are the numbers that a machine has beside w: one, or two where a threshold is fitted too;
``d`` are the slopes that F has in them. Training, rounds, streams and clusters ask it through this
interface; sets and solver see numbers alone. ``hinge`` is C-support vector classification, ``tube``
regression, ``one_class`` the support of a distribution; ``nu_hinge`` and ``nu_tube`` are the forms
with a parameter nu.

Signed coefficients stand for multipliers: ``w = sum_i coef_i phi(x_i)``, ``|coef_i| <= c_i``.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.solver.scaling import best_multiples
from aesvm.solver.small import SAME_SUM, UNBIASED, UNCHANGED, TwoClasses

Array = NDArray[np.float64]

#: The numbers of a machine beside w.
Offsets = tuple[float, ...]

#: A multiplier this close to a bound, as a share of it, is at the bound.
AT_BOUND = 1e-9

#: Sums of costs that differ by this share of them are taken as equal.
_FLAT = 1e-10


class Variables(NamedTuple):
    """The dual's variables: what ``solver.smo.minimize`` is given."""

    rows: NDArray[np.intp]  #: the training row of each, by position
    signs: Array
    linear: Array
    bounds: Array
    constraints: NDArray[np.intp] | None = None  #: variables whose signed sum is held together
    start: Array | None = None  #: a feasible point, whose sums are held; zeros where None


class Ramps(NamedTuple):
    """The losses of rows as functions of an offset b, ``cost * max(0, kink - b)`` or, rising, \
    ``cost * max(0, b - kink)``; where rows have several, these are listed one time after the other.
    """

    kinks: Array
    costs: Array
    rising: NDArray[np.bool_]
    which: NDArray[np.intp]  #: the offset that each is a function of, by number
    signs: Array  #: by how much the kink falls where the score rises by one, 1 or -1


class Decision(NamedTuple):
    """What a model decides by: ``f(x) = <w, phi(x)> / scale + intercept``."""

    intercept: float
    scale: float = 1.0
    signs: Offsets = (1.0,)  #: by which the offsets move, at the same scale, with the intercept


class Formulation(Protocol):
    """The mathematics of one formulation. Arrays are over rows where nothing else is said.

    Positions, losses, ramps, slopes, feasible coefficients and the dual's value are also those of
    arrays on a device: NumPy's functions hand these on to the device's own.
    """

    @property
    def flat_pieces(self) -> tuple[bool, ...]:
        """Of the linear pieces of the loss, from the lowest positions up: which are zero."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether w and the offsets scale with the costs (nu forms): then ``tol`` must, too."""

    @property
    def target_reach(self) -> float:
        """How far targets are apart, at most, for each unit of distance in the space of the hull.

        Zero where rows of different targets never stand for each other.
        """

    def width(self, offsets: Offsets) -> float:
        """The unit of scores: 1 of the hinge, whose margins are measured in it."""

    def positions(self, scores: Array, targets: Array, offsets: Offsets) -> Array:
        """Where on the axis of the loss rows with scores ``<w, phi(x_i)>`` lie."""

    def losses(self, positions: Array) -> Array:
        """The loss at each position."""

    def pieces(self, positions: Array, doubt: float) -> NDArray[np.int8]:
        """The linear piece that each position is on, -1 within ``doubt`` of a kink."""

    def cautious_scores(self, scores: Array, targets: Array, errors: Array) -> Array:
        """Scores known up to an error, moved by it to where the loss is largest.

        As they are where ``far_away`` never holds.
        """

    def far_away(self, positions: Array, distance: Array | float) -> NDArray[np.bool_]:
        """Positions on a flat piece, at least ``distance`` from its kinks.

        Those of cautious scores, at any offsets: where that is not enough to tell, none.
        """

    def ramps(self, scores: Array, targets: Array, costs: Array) -> Ramps:
        """The losses as functions of the offsets, given ``<w, phi(x_i)>``."""

    def slopes(self, bounds: Array) -> Offsets:
        """The slope of F in each offset, beside the losses, of rows with these bounds."""

    def variables(self, targets: Array, bounds: Array) -> Variables:
        """The dual's variables."""

    def coefs(self, targets: Array, alpha: Array) -> Array:
        """Signed coefficients of rows, from the values of the variables."""

    def alpha(self, targets: Array, coefs: Array, bounds: Array) -> Array:
        """The values of the variables, from feasible signed coefficients."""

    def feasible(self, coefs: Array, targets: Array, bounds: Array) -> Array:
        """Coefficients that rounding moved out of the dual's constraints, moved back."""

    def agreeing(self, positions: Array, targets: Array, bounds: Array) -> Array:
        """Feasible coefficients that agree with the positions: a start for the solver."""

    def decision(self, offsets: Offsets) -> Decision:
        """What a model with these offsets decides by; of several models where they are arrays."""

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        """Rows whose prediction differs between two positions, at the offsets ``then`` and now."""

    def n_violators(self, positions: Array, coefs: Array, bounds: Array, tol: float) -> int:
        """Rows whose coefficient and position contradict each other by more than ``tol``."""

    def dual_value(self, coefs: Array, targets: Array, squared_norm: float) -> float:
        """The dual objective, at the best multiple of feasible coefficients."""

    def gains(self, targets: Array) -> Array:
        """What the dual's linear term has of a coefficient of each row, at most, in magnitude."""

    def squared_norm_bound(self, bounds: Array, worst_optimum: float) -> float | None:
        """What ``|w|^2`` is at most, of an optimum; None where that takes kernel values."""

    def constant(self, targets: Array) -> Offsets | None:
        """The offsets where the rows leave nothing to learn and w is zero, otherwise None."""


class PairFormulation(Formulation, Protocol):
    """One that tells two classes apart."""

    def two_classes(self) -> TwoClasses:
        """The loss as numbers, which solve many small pairs at once."""


def best_offsets(formulation: Formulation, scores: Array, targets: Array, bounds: Array) -> Offsets:
    """The offsets that minimise F for a given w; the middle where several do.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.protocol import best_offsets
    >>> from aesvm.formulations.hinge import Hinge
    >>> best_offsets(Hinge(), np.array([2.0, -1.0]), np.array([1.0, -1.0]), np.ones(2))
    (-0.5,)
    """
    ramps = formulation.ramps(scores, targets, bounds)
    found = []
    for number, slope in enumerate(formulation.slopes(bounds)):
        own = ramps.which == number
        found.append(_best_offset(ramps.kinks[own], ramps.costs[own], ramps.rising[own], slope))
    return tuple(found)


def unbiased_offsets(
    formulation: Formulation,
    scores: Array,
    targets: Array,
    bounds: Array,
    squared_norm: float,
    violation: float,
) -> Offsets:
    """The best offsets; those of an intercept of zero where these are as good.

    An intercept is known up to the ``violation`` that a solve ended at, and up to rounding. Far
    from all support vectors it alone decides, and the last digits of a solution must not.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.protocol import unbiased_offsets
    >>> from aesvm.formulations.hinge import Hinge
    >>> scores, targets = np.array([1.0, -1.0625]), np.array([1.0, -1.0])
    >>> best = Hinge(), scores, targets, np.ones(2), 4.0
    >>> unbiased_offsets(*best, 0.1), unbiased_offsets(*best, 0.0)
    ((0.0,), (0.03125,))
    """
    offsets = best_offsets(formulation, scores, targets, bounds)
    if not hasattr(formulation, "two_classes"):
        return offsets
    decision = formulation.decision(offsets)
    intercept = decision.intercept * decision.scale
    size = max(formulation.width(offsets), float(np.abs(scores).max(initial=0.0)))
    if abs(intercept) > max(violation, UNBIASED * size):
        return offsets
    zero = tuple(b - sign * intercept for b, sign in zip(offsets, decision.signs, strict=True))
    best, other = (
        total_loss(formulation, formulation.positions(scores, targets, own), bounds, own)
        for own in (offsets, zero)
    )
    return zero if other - best <= UNCHANGED * abs(0.5 * squared_norm + best) else offsets


def _best_offset(kinks: Array, costs: Array, rising: NDArray[np.bool_], linear: float) -> float:
    """The b that minimises summed ramps, and ``linear * b``.

    The sum is piecewise linear in b. Its slope right of a kink is the cost of rising ramps up to
    there, less that of falling ramps beyond.
    """
    if not len(kinks):
        return 0.0
    order = np.argsort(kinks, kind="stable")
    costs = costs[order]
    falling = np.where(rising[order], 0.0, costs)
    # two sums that only grow towards the ends: huge costs far away leave small ones their digits
    below = np.cumsum(costs - falling) + linear
    above = np.append(np.cumsum(falling[::-1])[::-1][1:], 0.0)
    slope, hair = below - above, _FLAT * (below + above)
    first, last = int(np.argmax(slope >= -hair)), int(np.argmax(slope > hair))
    if slope[-1] <= hair[-1]:  # no ramp rises
        last = len(order) - 1
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))


def tol_of(formulation: Formulation, tol: float, total_cost: float, n_rows: int) -> float:
    """The violation of optimality that a solve ends at, in the unit of its scores.

    ``tol`` is meant for costs of about one. Where scores are proportional to the costs, it is
    lowered with these.

    Examples
    --------
    >>> from aesvm.formulations.protocol import tol_of
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.formulations.nu_hinge import NuHinge
    >>> tol_of(Hinge(), 1e-3, 0.5, 50), tol_of(NuHinge(0.5), 1e-3, 0.5, 50)
    (0.001, 1e-05)
    """
    if not formulation.is_homogeneous or not n_rows:
        return tol
    return tol * min(1.0, total_cost / n_rows)


def best_multiple_of_w(
    formulation: Formulation, scores: Array, targets: Array, bounds: Array, squared_norm: float
) -> float:
    """The t for which ``F(t w, b)`` is smallest, with the best offsets b.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.protocol import best_multiple_of_w
    >>> from aesvm.formulations.hinge import Hinge
    >>> scores, targets = np.array([4.0, -4.0]), np.array([1.0, -1.0])
    >>> round(best_multiple_of_w(Hinge(), scores, targets, np.ones(2), 4.0), 2)
    0.25
    """
    if not 0.0 < squared_norm < inf:  # of a kernel that is not positive semidefinite
        return 1.0

    def objective(multiples: Array) -> Array:
        t = float(multiples[0])
        offsets = best_offsets(formulation, t * scores, targets, bounds)
        positions = formulation.positions(t * scores, targets, offsets)
        loss = total_loss(formulation, positions, bounds, offsets)
        return np.array([0.5 * t * t * squared_norm + loss])

    return float(best_multiples(objective, 1, len(scores))[0])


def balanced(coefs: Array) -> Array:
    """Coefficients whose sum is zero: the side that weighs more is scaled down.

    Not where both differ by rounding alone: scaled, what is at its bound would be so no more.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.protocol import balanced
    >>> balanced(np.array([1.0, 1.0, -1.0]))
    array([ 0.5,  0.5, -1. ])
    """
    above, below = float(coefs[coefs > 0].sum()), -float(coefs[coefs < 0].sum())
    heavier, most, least = (1.0, above, below) if above > below else (-1.0, below, above)
    if most - least <= SAME_SUM * most:
        return coefs
    return np.where(coefs * heavier > 0, coefs * (least / most), coefs)


def best_multiple(linear: float, squared_norm: float) -> float:
    """The largest ``t * linear - t^2 / 2 * squared_norm`` for t from 0 to 1.

    Examples
    --------
    >>> from aesvm.formulations.protocol import best_multiple
    >>> best_multiple(1.0, 0.5), best_multiple(1.0, 2.0), best_multiple(1.0, 1e-320)
    (0.75, 0.25, 1.0)
    """
    if linear <= 0.0:
        return 0.0
    # divided only where the quotient is less than one: a norm may be next to nothing
    share = 1.0 if squared_norm <= linear else linear / squared_norm
    return share * (linear - 0.5 * min(linear, squared_norm))


def total_loss(
    formulation: Formulation, positions: Array, bounds: Array, offsets: Offsets
) -> float:
    """F without ``1/2 |w|^2``."""
    slopes = formulation.slopes(bounds)
    linear = sum(slope * offset for slope, offset in zip(slopes, offsets, strict=True))
    return float(bounds @ formulation.losses(positions)) + linear


def worst_optimum(formulation: Formulation, targets: Array, bounds: Array) -> float:
    """An upper bound on the least F: its value at ``w = 0`` and the best offsets."""
    scores = np.zeros(len(targets))
    offsets = best_offsets(formulation, scores, targets, bounds)
    return total_loss(formulation, formulation.positions(scores, targets, offsets), bounds, offsets)


def n_support(formulation: Formulation, positions: Array) -> int:
    """Rows that would be support vectors: those that are not on a piece of zero loss."""
    flat = [piece for piece, is_flat in enumerate(formulation.flat_pieces) if is_flat]
    pieces = formulation.pieces(positions, 0.0)
    return int(np.count_nonzero(~np.isin(pieces, flat)))
