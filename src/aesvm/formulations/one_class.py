"""The support of a distribution: one class, and a threshold that is fitted.

    F(w, b) = 1/2 |w|^2 + nu c b + sum_i c_i max(0, -(<w, z_i> + b)),    c = sum_i c_i

It is nu-classification (``nu_hinge``) with rows of the positive class alone: one offset, LIBSVM's
``-rho``. The dual holds the sum of all variables at ``nu c``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.nu_hinge import NuHinge
from aesvm.formulations.protocol import Array, Decision, Offsets


@dataclass(frozen=True)
class OneClass(NuHinge):
    """The loss of rows beyond a threshold, a ``Formulation``. Targets are 1."""

    def width(self, offsets: Offsets) -> float:
        threshold = abs(offsets[0])
        return threshold + (threshold == 0.0)

    def slopes(self, total_cost: float) -> Offsets:
        return (self.nu * total_cost,)

    def decision(self, offsets: Offsets) -> Decision:
        return Decision(offsets[0])

    def changed(
        self, before: Array, now: Array, then: Offsets, offsets: Offsets
    ) -> NDArray[np.bool_]:
        return np.sign(before) != np.sign(now)

    def constant(self, targets: Array) -> Offsets | None:
        return None if len(targets) else (0.0,)
