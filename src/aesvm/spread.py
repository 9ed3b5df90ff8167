"""The variance of values that come in pieces, which gamma="scale" is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from aesvm.kernels.functions import scaled_gamma


class Spread(NamedTuple):
    """How many values there were, their mean, and the sum of squared distances from it."""

    n_features: int = 0
    n_values: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, X: Any) -> Spread:
        """Of all values of some rows; of sparse ones, zeros as well.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.spread import Spread
        >>> Spread.of(np.array([[1.0, 3.0], [1.0, 3.0]])).gamma("scale")
        0.5
        """
        values = (X.data if sp.issparse(X) else np.ravel(X)).astype(np.float64)
        count = X.shape[0] * X.shape[1]
        mean = float(values.sum()) / count if count else 0.0
        values -= mean
        with np.errstate(over="ignore"):
            squares = float(values @ values) + (count - len(values)) * mean * mean
        return cls(X.shape[1], count, mean, squares)

    def __or__(self, other: Spread) -> Spread:
        """Of the values of both."""
        if not self.n_values or not other.n_values:
            return other if other.n_values else self
        count = self.n_values + other.n_values
        apart = other.mean - self.mean
        return Spread(
            self.n_features,
            count,
            self.mean + apart * other.n_values / count,
            self.squares + other.squares + apart * apart * self.n_values * other.n_values / count,
        )

    def gamma(self, name: str) -> float:
        """The number that "scale" or "auto" stands for, as in scikit-learn."""
        if name == "auto":
            return 1.0 / self.n_features
        return scaled_gamma(self.squares / self.n_values, self.n_features)
