"""Nu-support vector classification of two classes: the margin is fitted too.

    F(w, b, rho) = 1/2 |w|^2 - nu c rho + sum_i c_i max(0, rho - s_i (<w, z_i> + b)),  c = sum_i c_i

nu is an upper bound on the fraction of rows inside the margin, and a lower bound on that of support
vectors. In place of b and rho there are two offsets, one for each class, ``b - rho`` and
``-b - rho``: with them the rows of one class have nothing to do with those of the other but by w,
and the position of a row, ``s_i <w, z_i>`` plus the offset of its class, has its kink at zero. The
dual has one variable for each row, and holds the sum of each class at ``nu c / 2``.

As in LIBSVM the model is divided by rho: its margin is at 1 and -1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.hinge import Hinge
from aesvm.formulations.protocol import Array, Decision, Offsets, Ramps, Variables

#: A model is not divided by a margin below this: its coefficients would overflow.
_LEAST_MARGIN = 1e-300


@dataclass(frozen=True)
class NuHinge(Hinge):
    """The hinge loss with a margin that is fitted, a ``Formulation``."""

    nu: float
    kink = 0.0
    is_homogeneous = True

    def width(self, offsets: Offsets) -> float:
        return self.decision(offsets).scale

    def positions(self, scores: Array, targets: Array, offsets: Offsets) -> Array:
        return targets * scores + np.where(targets < 0, offsets[-1], offsets[0])

    def ramps(self, scores: Array, targets: Array, costs: Array) -> Ramps:
        falling = np.zeros_like(scores, dtype=bool)
        return Ramps(-targets * scores, costs, falling, class_numbers(targets), targets)

    def slopes(self, total_cost: float) -> Offsets:
        half = 0.5 * self.nu * total_cost
        return half, half

    def variables(self, targets: Array, bounds: Array) -> Variables:
        """They start as in LIBSVM, the first rows of each class at their bounds."""
        n = len(targets)
        start = self._by_class(targets, bounds, lambda own, total: filled(bounds[own], total))
        return Variables(np.arange(n), targets, np.zeros(n), bounds, class_numbers(targets), start)

    def feasible(self, coefs: Array, targets: Array, bounds: Array) -> Array:
        alpha = np.clip(targets * coefs, 0.0, bounds)
        return targets * self._by_class(
            targets, bounds, lambda own, total: with_sum(alpha[own], bounds[own], total)
        )

    def agreeing(self, positions: Array, targets: Array, bounds: Array) -> Array:
        """In each class at their bounds from the lowest position up, as many as its sum allows."""

        def fill(own: NDArray[np.intp], total: float) -> Array:
            order = np.argsort(positions[own], kind="stable")
            alpha = np.empty(len(own))
            alpha[order] = filled(bounds[own][order], total)
            return alpha

        return targets * self._by_class(targets, bounds, fill)

    def decision(self, offsets: Offsets) -> Decision:
        first, second = offsets
        margin = -0.5 * (first + second)
        has_margin = margin > _LEAST_MARGIN
        scale = has_margin * margin + (1 - has_margin)  # of numbers, and of arrays
        return Decision(0.5 * (first - second) / scale, scale, (1.0, -1.0))

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        """A row is on the boundary where its position is minus rho, the mean of the offsets."""
        return np.sign(before - 0.5 * sum(then)) != np.sign(now - 0.5 * sum(offsets))

    def gain(self, coefs: Array, targets: Array) -> Array:
        return np.zeros_like(coefs)

    def largest_gain(self, targets: Array) -> Array:
        return np.zeros(len(targets))

    def dual_value(self, gain: float, squared_norm: float) -> float:
        """Without a multiple: the sums of the coefficients are held."""
        return -0.5 * squared_norm

    def squared_norm_bound(self, total_cost: float, worst_optimum: float) -> None:
        return None

    def constant(self, targets: Array) -> Offsets | None:
        """Those that decide 1 or -1 where there is one class, 0 where there is no row."""
        if len(targets) and (targets != targets[0]).any():
            return None
        value = float(targets[0]) if len(targets) else 0.0
        return value - 1.0, -value - 1.0

    def _by_class(self, targets: Array, bounds: Array, fill) -> Array:
        """What ``fill`` makes of the rows of each class, and of the sum of their variables."""
        numbers = class_numbers(targets)
        found = np.empty_like(bounds)
        for number, total in enumerate(self.slopes(float(bounds.sum()))):
            own = np.flatnonzero(numbers == number)
            found[own] = fill(own, total)
        return found


@dataclass(frozen=True)
class OneClass(NuHinge):
    """One class, and a threshold that is fitted: the loss of rows beyond it, a ``Formulation``.

        F(w, b) = 1/2 |w|^2 + nu c b + sum_i c_i max(0, -(<w, z_i> + b)),    c = sum_i c_i

    Targets are 1. There is one offset, LIBSVM's ``-rho``. The dual holds the sum of all variables
    at ``nu c``.
    """

    def width(self, offsets: Offsets) -> float:
        threshold = abs(offsets[0])
        return threshold + (threshold == 0.0)

    def slopes(self, total_cost: float) -> Offsets:
        return (self.nu * total_cost,)

    decision, changed = Hinge.decision, Hinge.changed

    def constant(self, targets: Array) -> Offsets | None:
        return None if len(targets) else (0.0,)


def class_numbers(targets: Array) -> NDArray[np.intp]:
    """0 of the positive class, 1 of the other."""
    return (targets < 0).astype(np.intp)


def filled(bounds: Array, total: float) -> Array:
    """Variables at their bounds, one after the other, until they add up to ``total``.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.nu_hinge import filled
    >>> filled(np.ones(3), 1.5)
    array([1. , 0.5, 0. ])
    """
    before = np.append(0.0, np.cumsum(bounds)[:-1])
    return np.clip(total - before, 0.0, bounds)


def with_sum(alpha: Array, bounds: Array, total: float) -> Array:
    """Variables moved towards zero, or towards their bounds, until they add up to ``total``.

    Those that are zero stay so where the others have room enough.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.nu_hinge import with_sum
    >>> with_sum(np.array([1.0, 0.0]), np.ones(2), 0.5), with_sum(np.zeros(2), np.ones(2), 1.0)
    (array([0.5, 0. ]), array([0.5, 0.5]))
    """
    reached = float(alpha.sum())
    if reached >= total:
        return alpha * (total / reached) if reached > 0.0 else alpha
    room = np.where(alpha > 0.0, bounds - alpha, 0.0)
    if float(room.sum()) < total - reached:
        room = bounds - alpha
    if not room.any():
        return alpha
    return np.minimum(alpha + room * ((total - reached) / float(room.sum())), bounds)
