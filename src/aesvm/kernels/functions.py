"""Kernels of input vectors: a matrix product, then an elementwise map in place.

========  ==============================  ==========================
kernel    product p                       map
========  ==============================  ==========================
rbf       ``-gamma |x - y|^2``            ``exp(p)``
poly      ``gamma x.y``                   ``(p + coef0) ** degree``
sigmoid   ``gamma x.y``                   ``tanh(p + coef0)``
linear    ``x.y``                         ``p``
========  ==============================  ==========================

To add a kernel of this kind, add a row to ``KERNELS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class Parameters(NamedTuple):
    gamma: float
    degree: int
    coef0: float


class Kernel(NamedTuple):
    """What a block's products are, and the map that turns them into kernel values."""

    of_distances: bool  #: products are -gamma |x - y|^2, not gamma x.y
    euclidean: bool  #: distances in kernel space rank as those between the input vectors
    map: Callable[[NDArray, Parameters], None]  #: in place


def _exp(products: NDArray, parameters: Parameters) -> None:
    np.exp(products, out=products)


def _polynomial(products: NDArray, parameters: Parameters) -> None:
    products += parameters.coef0
    base = products.copy()
    degree = parameters.degree
    if degree == 0:
        products.fill(1.0)
        return
    # by squaring: the general power of floats is twenty times slower
    for bit in bin(degree)[3:]:
        np.square(products, out=products)
        if bit == "1":
            products *= base


def _tanh(products: NDArray, parameters: Parameters) -> None:
    products += parameters.coef0
    np.tanh(products, out=products)


def _identity(products: NDArray, parameters: Parameters) -> None:
    pass


KERNELS: dict[str, Kernel] = {
    "rbf": Kernel(of_distances=True, euclidean=True, map=_exp),
    "poly": Kernel(of_distances=False, euclidean=False, map=_polynomial),
    "sigmoid": Kernel(of_distances=False, euclidean=False, map=_tanh),
    "linear": Kernel(of_distances=False, euclidean=True, map=_identity),
}


#: Kernels that have a gamma.
WITH_GAMMA = ("rbf", "poly", "sigmoid")


def resolve_gamma(gamma: str | float, X, kernel: Any = "rbf") -> float:
    """The number that ``gamma`` stands for, by scikit-learn's rules; 1 where it has no part.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import resolve_gamma
    >>> resolve_gamma("scale", np.array([[0.0], [2.0]]))
    1.0
    """
    if kernel not in WITH_GAMMA:
        return 1.0
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        return scaled_gamma(_variance(X), X.shape[1])
    return float(gamma)


def scaled_gamma(variance: float, n_features: int) -> float:
    """What gamma="scale" stands for, given the variance of all values."""
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' is one over the variance of X, which is too large for a "
            "floating-point number: scale the data."
        )
    return 1.0 / (n_features * variance) if variance != 0 else 1.0


def _variance(X) -> float:
    """Variance of all entries, without a copy of them."""
    size = X.shape[0] * X.shape[1]
    if sp.issparse(X):
        mean = X.data.sum(dtype=np.float64) / size
        deviations = np.square(X.data.astype(np.float64) - mean).sum()
        return float((deviations + (size - X.data.size) * mean**2) / size)
    mean = X.sum(dtype=np.float64) / size
    total = 0.0
    step = max(1, (1 << 22) // X.shape[1])
    with np.errstate(over="ignore"):
        for start in range(0, X.shape[0], step):
            total += float(np.square(X[start : start + step] - mean).sum(dtype=np.float64))
    return total / size
