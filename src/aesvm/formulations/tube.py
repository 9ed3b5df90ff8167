"""Support vector regression: the epsilon-insensitive loss.

    F(w, b) = 1/2 |w|^2 + sum_i c_i max(0, |<w, z_i> + b - y_i| - epsilon)

The position of a row is its residual ``<w, z_i> + b - y_i``, and the loss has a kink on either side
of the tube, at -epsilon and at epsilon: inside a row pays nothing. The dual has two variables for
each row, ``0 <= alpha_i, alpha*_i <= c_i``, which share its row of the kernel matrix; its
coefficient is their difference, and all coefficients add up to zero.

The loss is convex in (phi(x), y) together, so a row may stand for others in the space of both, with
squared distances ``|phi(x) - phi(x')|^2 + (y - y')^2 / spread^2``. See docs/formulations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

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

#: A prediction has changed where it moved by more than this fraction of the spread.
_CHANGED = 0.05


@dataclass(frozen=True)
class Tube:
    """The epsilon-insensitive loss, a ``Formulation``."""

    epsilon: float
    spread: float  #: the standard deviation of the targets, or another unit of them
    flat_pieces = (False, True, False)
    is_homogeneous = False
    predicts_sign = False

    @property
    def target_reach(self) -> float:
        return self.spread

    def width(self, offsets: Offsets) -> float:
        return self.spread

    def positions(self, scores: Array, targets: Array, offsets: Offsets) -> Array:
        return scores + offsets[0] - targets

    def losses(self, positions: Array) -> Array:
        return np.maximum(0.0, np.abs(positions) - self.epsilon)

    def pieces(self, positions: Array, doubt: float) -> NDArray[np.int8]:
        away = np.abs(positions)
        outside = np.where(positions < 0.0, 0, 2)
        inside = np.where(away < self.epsilon - doubt, 1, -1)
        return np.where(away > self.epsilon + doubt, outside, inside).astype(np.int8)

    def cautious_scores(self, scores: Array, targets: Array, errors: Array) -> Array:
        return scores

    def far_away(self, positions: Array, distance: Array | float) -> NDArray[np.bool_]:
        """None: a row is moved to one side of its score, and the tube has two."""
        return np.zeros(len(positions), dtype=bool)

    def ramps(self, scores: Array, targets: Array, costs: Array) -> Ramps:
        kinks = targets - scores
        both = np.append(kinks - self.epsilon, kinks + self.epsilon)
        falling = np.zeros_like(kinks, dtype=bool)
        return Ramps(
            both,
            np.append(costs, costs),
            np.append(falling, ~falling),
            np.zeros_like(both, dtype=np.intp),
            np.ones_like(both),
        )

    def slopes(self, total_cost: float) -> Offsets:
        return (0.0,)

    def variables(self, targets: Array, bounds: Array) -> Variables:
        n = len(targets)
        return Variables(
            np.tile(np.arange(n), 2),
            np.repeat([1.0, -1.0], n),
            np.append(self.epsilon - targets, self.epsilon + targets),
            np.append(bounds, bounds),
        )

    def coefs(self, targets: Array, alpha: Array) -> Array:
        above, below = np.split(alpha, 2)
        return above - below

    def alpha(self, targets: Array, coefs: Array, bounds: Array) -> Array:
        return np.append(np.maximum(coefs, 0.0), np.maximum(-coefs, 0.0))

    def feasible(self, coefs: Array, targets: Array, bounds: Array) -> Array:
        return balanced(np.clip(coefs, -bounds, bounds))

    def agreeing(self, positions: Array, targets: Array, bounds: Array) -> Array:
        """At the bound of its side where a row is outside the tube, zero inside.

        That the sum be zero, those nearest to a kink of the heavier side change over.
        """
        outside = np.abs(positions) > self.epsilon
        coefs = np.where(outside, -np.sign(positions) * bounds, 0.0)
        excess = float(coefs.sum())
        side = 1.0 if excess > 0 else -1.0  # the sign of the coefficients that are too many
        # those that pay on that side fall to zero, those inside fall to the other bound
        towards = side * positions
        kink = np.where(coefs * side > 0, -self.epsilon, self.epsilon)
        able = np.flatnonzero(coefs * side >= 0)
        order = able[np.argsort(np.abs(towards[able] - kink[able]), kind="stable")]
        reached = np.cumsum(bounds[order])
        excess = abs(excess)
        n_over = int(np.searchsorted(reached, excess, side="right"))
        coefs[order[:n_over]] -= side * bounds[order[:n_over]]
        if n_over < len(order):
            rest = excess - (reached[n_over - 1] if n_over else 0.0)
            coefs[order[n_over]] -= side * rest
        return coefs

    def decision(self, offsets: Offsets) -> Decision:
        return Decision(offsets[0])

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        return np.abs(now - before) > _CHANGED * self.spread

    def violates(
        self, positions: Array, coefs: Array, bounds: Array, tol: Array | float
    ) -> NDArray[np.bool_]:
        """Rows that could rise though they lie below the tube, and so on."""
        full, none = (1.0 - AT_BOUND) * bounds, AT_BOUND * bounds
        low, high = -self.epsilon, self.epsilon
        violates = (positions < low - tol) & (coefs < full)
        violates |= (positions > high + tol) & (coefs > -full)
        violates |= (positions > low + tol) & (coefs > none)
        violates |= (positions < high - tol) & (coefs < -none)
        return violates

    def gain(self, coefs: Array, targets: Array) -> Array:
        return targets * coefs - self.epsilon * np.abs(coefs)

    def largest_gain(self, targets: Array) -> Array:
        return np.abs(targets) + self.epsilon

    def dual_value(self, gain: float, squared_norm: float) -> float:
        return best_multiple(gain, squared_norm)

    def squared_norm_bound(self, total_cost: float, worst_optimum: float) -> float:
        """Twice the objective of ``w = 0``: no optimum has more."""
        return 2.0 * worst_optimum

    def constant(self, targets: Array) -> Offsets | None:
        """The middle, where a tube around it holds all targets."""
        if not len(targets):
            return (0.0,)
        low, high = float(targets.min()), float(targets.max())
        return (0.5 * (low + high),) if high - low <= 2.0 * self.epsilon else None
