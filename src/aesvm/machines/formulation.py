"""What a formulation of the SVM is: its loss, its dual variables, and how the two agree.

Training minimises, over a function ``f = <w, phi(x)> + b``,

    F(w, b) = 1/2 |w|^2 + sum_i c_i loss(p_i),    p_i = position(f(x_i), target_i)

with a loss that is piecewise linear in the position, with kinks at known places. Everything else
(sets, solver, rounds, streams, clusters) asks it through this interface. ``hinge`` is C-support
vector classification.

Signed coefficients stand for multipliers: ``w = sum_i coef_i phi(x_i)``, ``|coef_i| <= c_i``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.solver.state import Solution

Array = NDArray[np.float64]

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
    """The losses of rows as functions of the offset b, ``cost * max(0, kink - b)`` or, rising, \
    ``cost * max(0, b - kink)``; a row may have several.
    """

    kinks: Array
    costs: Array
    rising: NDArray[np.bool_]


class Formulation(Protocol):
    """The mathematics of one formulation. Arrays are over rows where nothing else is said."""

    @property
    def flat_pieces(self) -> tuple[bool, ...]:
        """Of the linear pieces of the loss, from the lowest positions up: which are zero."""

    @property
    def width(self) -> float:
        """The unit of decision values: 1 of the hinge, whose margins are measured in it."""

    def positions(self, values: Array, targets: Array) -> Array:
        """Where on the axis of the loss rows with decision values ``f(x_i)`` lie."""

    def losses(self, positions: Array) -> Array:
        """The loss at each position."""

    def pieces(self, positions: Array, doubt: float) -> NDArray[np.int8]:
        """The linear piece that each position is on, -1 within ``doubt`` of a kink."""

    def cautious_scores(self, scores: Array, targets: Array, offset: float, errors: Array) -> Array:
        """Scores known up to an error, moved by it to where the loss is largest."""

    def far_away(self, positions: Array, distance: float) -> NDArray[np.bool_]:
        """Positions on a flat piece, at least ``distance`` from its kinks."""

    def ramps(self, scores: Array, targets: Array, costs: Array) -> Ramps:
        """The losses as functions of the offset, given ``<w, phi(x_i)>``."""

    def variables(self, targets: Array, bounds: Array) -> Variables:
        """The dual's variables."""

    def coefs(self, targets: Array, alpha: Array) -> Array:
        """Signed coefficients of rows, from the values of the variables."""

    def alpha(self, targets: Array, coefs: Array) -> Array:
        """The values of the variables, from signed coefficients."""

    def feasible(self, coefs: Array, targets: Array, bounds: Array) -> Array:
        """Coefficients that rounding moved out of the dual's constraints, moved back."""

    def agreeing(self, positions: Array, targets: Array, bounds: Array) -> Array:
        """Feasible coefficients that agree with the positions: a start for the solver."""

    def offset(self, solution: Solution, scores: Array, targets: Array, bounds: Array) -> float:
        """The b of a solution, given the scores of its rows."""

    def changed(self, before: Array, now: Array) -> NDArray[np.bool_]:
        """Rows whose prediction differs between two positions."""

    def n_violators(self, positions: Array, coefs: Array, bounds: Array, tol: float) -> int:
        """Rows whose coefficient and position contradict each other by more than ``tol``."""

    def dual_value(self, coefs: Array, targets: Array, squared_norm: float) -> float:
        """The dual objective, at the best multiple of feasible coefficients."""

    def worst_optimum(self, targets: Array, bounds: Array) -> float:
        """An upper bound on the least F: its value at ``w = 0`` and the best b."""

    def constant(self, targets: Array) -> float | None:
        """The value of f where the rows leave nothing to learn, otherwise None."""


def best_offset(ramps: Ramps) -> float:
    """The b that minimises the summed losses; the middle where several do.

    The sum is piecewise linear in b. Its slope right of a kink is the cost of rising ramps up to
    there, less that of falling ramps beyond.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.formulation import Ramps, best_offset
    >>> best_offset(Ramps(np.array([1.0, -2.0]), np.ones(2), np.array([True, False])))
    -0.5
    """
    kinks = ramps.kinks
    order = np.argsort(kinks, kind="stable")
    costs = ramps.costs[order]
    falling = np.where(ramps.rising[order], 0.0, costs)
    # two sums that only grow towards the ends: huge costs far away leave small ones their digits
    below = np.cumsum(costs - falling)
    above = np.append(np.cumsum(falling[::-1])[::-1][1:], 0.0)
    slope, hair = below - above, _FLAT * (below + above)
    first, last = int(np.argmax(slope >= -hair)), int(np.argmax(slope > hair))
    if slope[-1] <= hair[-1]:  # no ramp rises
        last = len(order) - 1
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))


def n_support(formulation: Formulation, positions: Array) -> int:
    """Rows that would be support vectors: those that are not on a piece of zero loss."""
    flat = [piece for piece, is_flat in enumerate(formulation.flat_pieces) if is_flat]
    pieces = formulation.pieces(positions, 0.0)
    return int(np.count_nonzero(~np.isin(pieces, flat)))
