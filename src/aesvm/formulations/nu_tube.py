"""Nu-support vector regression: the tube's width is fitted too.

    F(w, b, epsilon) = 1/2 |w|^2 + nu c epsilon + sum_i c_i max(0, |<w, z_i> + b - y_i| - epsilon),
    c = sum_i c_i

nu is an upper bound on the fraction of rows outside the tube, and a lower bound on that of support
vectors. In place of b and epsilon there are two offsets, one for each side of the tube,
``epsilon - b`` above and ``epsilon + b`` below: the losses above depend on the first alone, those
below on the second. The dual has two variables for each row, and holds the sum of each kind at
``nu c / 2``.

Positions are residuals, shifted so that the kinks lie at fixed places, ``spread`` on either side of
zero; distances from the nearer kink are as they were, up to that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.nu_hinge import filled
from aesvm.formulations.protocol import Array, Decision, Offsets, Ramps, Variables
from aesvm.formulations.tube import Tube


@dataclass(frozen=True)
class NuTube(Tube):
    """The loss of a tube whose width is fitted, a ``Formulation``."""

    epsilon: float = field(init=False)  #: where the kinks are, on the axis of positions
    nu: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", self.spread)

    def positions(self, scores: Array, targets: Array, offsets: Offsets) -> Array:
        above, below = offsets
        residuals = scores - targets + 0.5 * (below - above)
        shifted = np.abs(residuals) - 0.5 * (above + below) + self.spread
        return np.sign(residuals) * np.maximum(shifted, 0.0)

    def ramps(self, scores: Array, targets: Array, costs: Array) -> Ramps:
        residuals = scores - targets
        above, ones = np.zeros_like(residuals, dtype=np.intp), np.ones_like(residuals)
        both = np.append(residuals, -residuals)
        return Ramps(
            both,
            np.append(costs, costs),
            np.zeros_like(both, dtype=bool),
            np.append(above, above + 1),
            np.append(-ones, ones),
        )

    def slopes(self, total_cost: float) -> Offsets:
        half = 0.5 * self.nu * total_cost
        return half, half

    def variables(self, targets: Array, bounds: Array) -> Variables:
        """They start as in LIBSVM, both variables of the first rows at their bounds."""
        n = len(targets)
        start = filled(bounds, self.slopes(float(bounds.sum()))[0])
        return Variables(
            np.tile(np.arange(n), 2),
            np.repeat([1.0, -1.0], n),
            np.append(-targets, targets),
            np.append(bounds, bounds),
            np.repeat([0, 1], n),
            np.append(start, start),
        )

    def alpha(self, targets: Array, coefs: Array, bounds: Array) -> Array:
        """Both variables of a row may be raised alike, until each kind has its sum."""
        above, below = np.maximum(coefs, 0.0), np.maximum(-coefs, 0.0)
        missing = max(0.0, self.slopes(float(bounds.sum()))[0] - float(above.sum()))
        more = filled(bounds - np.abs(coefs), missing)
        return np.append(above + more, below + more)

    def feasible(self, coefs: Array, targets: Array, bounds: Array) -> Array:
        coefs = super().feasible(coefs, targets, bounds)
        total = float(np.maximum(coefs, 0.0).sum())
        most = self.slopes(float(bounds.sum()))[0]
        return coefs * (most / total) if total > most else coefs

    def agreeing(self, positions: Array, targets: Array, bounds: Array) -> Array:
        """At their bounds from the outermost position inwards, as many as the sums allow."""
        order = np.argsort(positions, kind="stable")
        coefs = np.zeros(len(order))
        total = self.slopes(float(bounds.sum()))[0]
        coefs[order] += filled(bounds[order], total)
        order = order[::-1]
        coefs[order] -= filled(bounds[order], total)
        return coefs

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        return super().changed(self._residuals(before, then), self._residuals(now, offsets), (), ())

    def _residuals(self, positions: Array, offsets: Offsets) -> Array:
        """What positions were made of; of rows deep inside a wide tube, zero."""
        return positions - np.sign(positions) * (self.spread - 0.5 * sum(offsets))

    def decision(self, offsets: Offsets) -> Decision:
        above, below = offsets
        return Decision(0.5 * (below - above), signs=(-1.0, 1.0))

    def gain(self, coefs: Array, targets: Array) -> Array:
        return targets * coefs

    def largest_gain(self, targets: Array) -> Array:
        return np.abs(targets)

    def constant(self, targets: Array) -> Offsets | None:
        """Where all targets are equal."""
        if len(targets) and (targets != targets[0]).any():
            return None
        value = float(targets[0]) if len(targets) else 0.0
        return -value, value
