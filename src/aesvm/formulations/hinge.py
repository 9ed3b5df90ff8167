"""C-support vector classification of two classes: the hinge loss.

    F(w, b) = 1/2 |w|^2 + sum_i c_i max(0, 1 - s_i (<w, z_i> + b)),    s_i = +1 or -1

The target of a row is its sign ``s_i``, its position the margin ``s_i f(x_i)``, and the loss has
one kink, at a margin of 1: below it a row pays, above it does not. The dual has one variable for
each row, ``0 <= alpha_i <= c_i``, and holds ``sum_i s_i alpha_i = 0``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import (
    AT_BOUND,
    Array,
    Decision,
    Offsets,
    Ramps,
    Variables,
    balanced,
    best_multiple,
)


class Hinge:
    """The hinge loss, a ``Formulation``."""

    kink = 1.0  #: where it is, on the axis of positions
    flat_pieces = (False, True)
    is_homogeneous = False
    predicts_sign = True
    target_reach = 0.0

    def width(self, offsets: Offsets) -> float:
        return 1.0

    def positions(self, scores: Array, targets: Array, offsets: Offsets) -> Array:
        return targets * (scores + offsets[0])

    def losses(self, positions: Array) -> Array:
        return np.maximum(0.0, self.kink - positions)

    def pieces(self, positions: Array, doubt: float) -> NDArray[np.int8]:
        outside = np.where(positions > self.kink + doubt, 1, -1)
        return np.where(positions < self.kink - doubt, 0, outside).astype(np.int8)

    def cautious_scores(self, scores: Array, targets: Array, errors: Array) -> Array:
        return scores - targets * errors

    def far_away(self, positions: Array, distance: Array | float) -> NDArray[np.bool_]:
        return positions >= self.kink + distance

    def ramps(self, scores: Array, targets: Array, costs: Array) -> Ramps:
        first = np.zeros_like(scores, dtype=np.intp)
        return Ramps(targets - scores, costs, targets < 0, first, np.ones_like(scores))

    def slopes(self, total_cost: float) -> Offsets:
        return (0.0,)

    def variables(self, targets: Array, bounds: Array) -> Variables:
        n = len(targets)
        return Variables(np.arange(n), targets, -np.ones(n), bounds)

    def coefs(self, targets: Array, alpha: Array) -> Array:
        return targets * alpha

    def alpha(self, targets: Array, coefs: Array, bounds: Array) -> Array:
        return targets * coefs

    def feasible(self, coefs: Array, targets: Array, bounds: Array) -> Array:
        return balanced(targets * np.clip(targets * coefs, 0.0, bounds))

    def agreeing(self, positions: Array, targets: Array, bounds: Array) -> Array:
        """At its bound where the margin is below 1, zero where it is above.

        That the sum be zero, those with margins nearest to 1 on the heavier side change over.
        """
        alpha = np.where(positions < 1.0, bounds, 0.0)
        excess = float(targets @ alpha)
        heavier = 1.0 if excess > 0 else -1.0
        excess = abs(excess)
        able = np.flatnonzero(np.where(targets == heavier, alpha > 0, alpha == 0))
        order = able[np.argsort(np.abs(positions[able] - 1.0), kind="stable")]
        reached = np.cumsum(bounds[order])
        n_over = int(np.searchsorted(reached, excess, side="right"))
        over = order[:n_over]
        alpha[over] = bounds[over] - alpha[over]
        if n_over < len(order):
            rest = excess - (reached[n_over - 1] if n_over else 0.0)
            at = order[n_over]
            alpha[at] += rest if alpha[at] == 0 else -rest
        return targets * np.clip(alpha, 0.0, bounds)

    def decision(self, offsets: Offsets) -> Decision:
        return Decision(offsets[0])

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        return np.sign(before) != np.sign(now)

    def violates(
        self, positions: Array, coefs: Array, bounds: Array, tol: Array | float
    ) -> NDArray[np.bool_]:
        """Rows that could rise though they are below the kink, or fall though they are above."""
        alpha = np.abs(coefs)
        violates = (alpha < (1.0 - AT_BOUND) * bounds) & (positions < self.kink - tol)
        violates |= (alpha > AT_BOUND * bounds) & (positions > self.kink + tol)
        return violates

    def gain(self, coefs: Array, targets: Array) -> Array:
        return np.abs(coefs)

    def largest_gain(self, targets: Array) -> Array:
        return np.ones(len(targets))

    def dual_value(self, gain: float, squared_norm: float) -> float:
        return best_multiple(gain, squared_norm)

    def squared_norm_bound(self, total_cost: float, worst_optimum: float) -> float | None:
        """The sum of all costs: ``|w|^2`` is that of the multipliers, less the losses."""
        return total_cost

    def constant(self, targets: Array) -> Offsets | None:
        """1 or -1 where there is one class, 0 where there is no row."""
        if not len(targets):
            return (0.0,)
        return (float(targets[0]),) if (targets == targets[0]).all() else None
