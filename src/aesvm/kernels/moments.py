"""Mean and variance of numbers that come in chunks."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: What a deviation from the mean is off by, relative to the mean.
_ROUNDING = 1e-13


class Moments(NamedTuple):
    """Weight, mean and variance of some numbers; those of several add up."""

    weight: float = 0.0
    mean: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, values: NDArray, weights: NDArray[np.float64]) -> Moments:
        """Of numbers with weights.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.kernels.moments import Moments
        >>> one, other = (Moments.of(np.array([x]), np.ones(1)) for x in (1.0, 3.0))
        >>> one | other
        Moments(weight=2.0, mean=2.0, variance=1.0)
        """
        weight = float(weights.sum())
        if not weight:
            return cls()
        shares = weights / weight
        mean = float(shares @ values)
        return cls(weight, mean, float(shares @ np.square(values - mean)))

    def __or__(self, other: Moments) -> Moments:
        """Of the numbers of both."""
        if not self.weight or not other.weight:
            return other if other.weight else self
        weight = self.weight + other.weight
        apart = other.mean - self.mean
        fraction = other.weight / weight
        within = (1.0 - fraction) * self.variance + fraction * other.variance
        between = apart * apart * fraction * (1.0 - fraction)
        return Moments(weight, self.mean + apart * fraction, within + between)

    @property
    def squares(self) -> float:
        """The summed squared deviations from the mean."""
        return self.weight * self.variance

    @property
    def all_equal(self) -> bool:
        """Whether the numbers are the same, but for rounding of their mean."""
        return sqrt(self.variance) <= _ROUNDING * abs(self.mean)
