"""The number that ``gamma`` stands for, also of rows that come in pieces.

"scale" is one over the variance of all values times the number of features, "auto" one over the
number of features, as in scikit-learn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from aesvm.kernels.blocks import copied_rows

#: What a deviation from the mean is off by, as a share of the mean.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)

#: Kernels that have a gamma.
WITH_GAMMA = ("rbf", "poly", "sigmoid")


def has_gamma(kernel: Any) -> bool:
    return isinstance(kernel, str) and kernel in WITH_GAMMA


def resolve_gamma(gamma: str | float, X: Any, kernel: Any = "rbf") -> float:
    """The number that ``gamma`` stands for, by scikit-learn's rules; 1 where it has no part.

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
        return Variance(X.shape[1]).gamma(gamma) if gamma == "auto" else Variance.of(X).gamma(gamma)
    return float(gamma)


class Variance(NamedTuple):
    """Number, mean and summed squared deviations of the values of some rows; they add up."""

    n_features: int = 0
    n_values: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, X: Any) -> Variance:
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
        squares = 0.0
        step = copied_rows(2 * 8 * (1 if sp.issparse(X) else X.shape[1]))  # and their squares
        with np.errstate(over="ignore", invalid="ignore"):
            mean = values.sum(dtype=np.float64) / n_values
            for start in range(0, len(values), step):
                deviations = values[start : start + step] - mean
                squares += float(np.square(deviations).sum(dtype=np.float64))
            squares += (n_values - values.size) * mean**2
        return cls(X.shape[1], n_values, float(mean), float(squares))

    def __or__(self, other: Variance) -> Variance:
        """Of the values of both."""
        if not self.n_values or not other.n_values:
            return other if other.n_values else self
        n_values = self.n_values + other.n_values
        apart = other.mean - self.mean
        between = apart * apart * self.n_values * other.n_values / n_values
        return Variance(
            self.n_features,
            n_values,
            self.mean + apart * other.n_values / n_values,
            self.squares + other.squares + between,
        )

    def gamma(self, name: str) -> float:
        """The number that "scale" or "auto" stands for."""
        if name == "auto":
            return 1.0 / self.n_features
        variance = self.squares / self.n_values
        if not np.isfinite(variance):
            raise ValueError(
                "gamma='scale' is one over the variance of X, which is too large for a "
                "floating-point number: scale the data."
            )
        if variance <= (_ROUNDING * self.mean) ** 2:  # all values are the same
            return 1.0
        return 1.0 / (self.n_features * variance)
