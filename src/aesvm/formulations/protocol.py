"""What a formulation of the SVM is: its loss, its dual variables, and how the two agree.

Training minimises, over a w in kernel space and offsets b,

    F(w, b) = 1/2 |w|^2 + sum_k d_k b_k + sum_i c_i loss(p_i),
    p_i = position(<w, phi(x_i)>, target_i, b)

The loss is convex and piecewise linear in the position. Its kinks are at known places, and its
slopes between -1 and 1: certificates rest on that, and a steeper loss is a larger cost. The offsets
b are the numbers that a machine has beside w: one, or two where a threshold is fitted too. ``d``
are the slopes that F has in them. Signed coefficients stand for multipliers:
``w = sum_i coef_i phi(x_i)``, ``|coef_i| <= c_i``. The dual maximises

    sum_i gain(coef_i) - 1/2 |w|^2.

Training, rounds, streams and clusters use a formulation through this interface alone. Sets and
solver see numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.solver.small import SAME_SUM

Array = NDArray[np.float64]

#: The numbers of a machine beside w.
Offsets = tuple[float, ...]

#: A multiplier this close to a bound, as a fraction of it, is at the bound.
AT_BOUND = 1e-9


class Variables(NamedTuple):
    """The dual's variables: what ``solver.smo.minimize`` is given."""

    rows: NDArray[np.intp]  #: the training row of each, by position
    signs: Array
    linear: Array
    bounds: Array
    constraints: NDArray[np.intp] | None = None  #: variables whose signed sum is held together
    start: Array | None = None  #: a feasible point, whose sums are held; zeros where None


class Ramps(NamedTuple):
    """The losses of rows as functions of an offset b: ``cost * max(0, kink - b)``.

    A rising one is ``cost * max(0, b - kink)``. Where rows have two ramps each, the first of all
    rows come before the second of all rows.
    """

    kinks: Array
    costs: Array
    rising: NDArray[np.bool_]
    which: NDArray[np.intp]  #: the offset that each is a function of, by number
    signs: Array  #: by how much the kink falls where the score rises by one, 1 or -1


class Decision(NamedTuple):
    """What a model decides by: ``f(x) = <w, phi(x)> / scale + intercept``."""

    intercept: Any
    scale: Any = 1.0
    signs: Offsets = (1.0,)  #: by which the offsets move, at the same scale, with the intercept


class Formulation(Protocol):
    """The mathematics of one formulation. Arrays are over rows unless stated otherwise.

    The rows may be those of several machines, one after another. The offsets of ``positions`` are
    then arrays over rows; those of ``width`` and ``decision``, costs and norms are arrays over
    machines.

    ``positions``, ``losses``, ``ramps``, ``feasible`` and ``gain`` also take arrays on a device.
    """

    @property
    def flat_pieces(self) -> tuple[bool, ...]:
        """Of the linear pieces of the loss, from the lowest positions up: which are zero."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether w and the offsets scale with the costs (nu forms): then ``tol`` must, too."""

    @property
    def predicts_sign(self) -> bool:
        """Whether a prediction is the sign of the decision, so that an intercept may be zero."""

    @property
    def target_reach(self) -> float:
        """How far targets are apart, at most, for each unit of distance in the space of the hull.

        Zero where rows of different targets never stand for each other.
        """

    def width(self, offsets: Any) -> Any:
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

    def slopes(self, total_cost: Any) -> Any:
        """The slope of F in each offset, beside the losses."""

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

    def decision(self, offsets: Any) -> Decision:
        """What a model with these offsets decides by."""

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        """Rows whose prediction differs between two positions, at the offsets ``then`` and now."""

    def violates(
        self, positions: Array, coefs: Array, bounds: Array, tol: Array | float
    ) -> NDArray[np.bool_]:
        """Rows whose coefficient and position contradict each other by more than ``tol``."""

    def gain(self, coefs: Array, targets: Array) -> Array:
        """What the dual's linear term has of each coefficient."""

    def largest_gain(self, targets: Array) -> Array:
        """The largest magnitude of that, for a coefficient of one."""

    def dual_value(self, gain: Any, squared_norm: Any) -> Any:
        """The dual objective, at the best multiple of coefficients with this gain in all."""

    def squared_norm_bound(self, total_cost: Any, worst_optimum: Any) -> Any:
        """What ``|w|^2`` is at most, of an optimum; None where that takes kernel values."""

    def constant(self, targets: Array) -> Offsets | None:
        """The offsets where the rows leave nothing to learn and w is zero, otherwise None."""


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


def best_multiple(gain: Any, squared_norm: Any) -> Any:
    """The largest ``t * gain - t^2 / 2 * squared_norm`` for t from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.protocol import best_multiple
    >>> best_multiple(np.ones(3), np.array([0.5, 2.0, 1e-320]))
    array([0.75, 0.25, 1.  ])
    """
    # divided only where the quotient is less than one: a norm may be next to nothing
    one = np.ones_like(gain, dtype=np.float64)
    share = np.divide(gain, squared_norm, out=one, where=squared_norm > np.maximum(gain, 0.0))
    return np.where(gain > 0.0, share * (gain - 0.5 * np.minimum(gain, squared_norm)), 0.0)
