"""The numerical value of ``gamma``, of rows in memory or in chunks.

"scale" is one over the variance of all values times the number of features, "auto" one over the
number of features, as in scikit-learn. ``Moments`` are mean and variance of numbers that
come in chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels.blocks import cached_rows
from aesvm.kernels.functions import KERNELS


def has_gamma(kernel: Any) -> bool:
    return isinstance(kernel, str) and kernel in KERNELS and KERNELS[kernel].has_gamma


def resolve_gamma(gamma: str | float, X: Any, kernel: Any = "rbf", run: Callable = map) -> float:
    """The numerical value of ``gamma``, by scikit-learn's rules; 1 if the kernel has none.

    ``run``: ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import resolve_gamma
    >>> resolve_gamma("scale", np.array([[0.0], [2.0]]))
    1.0
    """
    if not has_gamma(kernel):
        return 1.0
    if isinstance(gamma, str):
        moments = Variance(X.shape[1]) if gamma == "auto" else Variance.of(X, run)
        return moments.gamma(gamma)
    return float(gamma)


#: What a deviation from the mean is off by, relative to the mean.
_ROUNDING = 1e-13


class Moments(NamedTuple):
    """Weight, mean and variance of some numbers; ``|`` combines two sets of numbers."""

    weight: float = 0.0
    mean: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, values: NDArray, weights: NDArray[np.float64]) -> Moments:
        """Of numbers with weights.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.kernels.gamma import Moments
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


class Variance(NamedTuple):
    """Moments of the values of some rows; ``|`` combines two sets of rows."""

    n_features: int = 0
    values: Moments = Moments()

    @property
    def n_values(self) -> int:
        return int(self.values.weight)

    @classmethod
    def of(cls, X: Any, run: Callable = map) -> Variance:
        """Of all values of some rows; of sparse ones, zeros as well. Without a copy of them.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.kernels.gamma import Variance
        >>> Variance.of(np.array([[1.0, 3.0], [1.0, 3.0]])).gamma("scale")
        0.5
        """
        n_values = X.shape[0] * X.shape[1]
        if not n_values:
            return cls(X.shape[1])
        values = X.data if sp.issparse(X) else X
        step = cached_rows(2 * 8 * (1 if sp.issparse(X) else X.shape[1]))  # and their squares

        def total(start: int) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                return float(values[start : start + step].sum(dtype=np.float64))

        def squared(start: int) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                deviations = values[start : start + step] - mean
                return float(np.square(deviations).sum(dtype=np.float64))

        starts = range(0, len(values), step)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.float64(sum(run(total, starts))) / n_values
            squares = np.float64(sum(run(squared, starts)))
            squares += (n_values - values.size) * mean**2
        return cls(X.shape[1], Moments(n_values, float(mean), float(squares) / n_values))

    def __or__(self, other: Variance) -> Variance:
        """Of the values of both."""
        return Variance(max(self.n_features, other.n_features), self.values | other.values)

    def gamma(self, name: str) -> float:
        """The number that "scale" or "auto" stands for."""
        if name == "auto":
            return 1.0 / self.n_features
        variance = self.values.variance
        if not np.isfinite(variance):
            raise ValueError(
                "gamma='scale' is one over the variance of X, which is too large for a "
                "floating-point number: scale the data."
            )
        if self.values.all_equal:
            return 1.0
        with np.errstate(over="ignore", divide="ignore"):
            gamma = float(1.0 / (self.n_features * np.float64(variance)))
        if not np.isfinite(gamma):
            raise ValueError(
                f"gamma='scale' is one over the variance of X, {variance:.3g}, which is too small: "
                "scale the data, for instance with sklearn.preprocessing.StandardScaler."
            )
        return gamma
