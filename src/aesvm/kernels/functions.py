"""Kernels of input vectors: a matrix product, then an elementwise map in place.

========  ==============================  ==========================
kernel    product p                       map
========  ==============================  ==========================
rbf       ``-gamma |x - y|^2``            ``exp(p)``
poly      ``gamma x.y``                   ``(p + coef0) ** degree``
sigmoid   ``gamma x.y``                   ``tanh(p + coef0)``
linear    ``x.y``                         ``p``
========  ==============================  ==========================

To add a kernel of this kind, add a row to ``KERNELS``. Where compiled code has the map as well, it
computes kernel values several times as fast on many threads: ``tiles`` has those of the RBF and the
linear kernel, ``rows_by_class`` all four.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Maps of compiled code.
IDENTITY, EXPONENTIAL, POWER, TANH = range(4)


class Parameters(NamedTuple):
    gamma: float
    degree: int
    coef0: float


class Kernel(NamedTuple):
    """What a block's products are, and the map that turns them into kernel values."""

    of_distances: bool  #: products are -gamma |x - y|^2, not gamma x.y
    euclidean: bool  #: distances in kernel space rank as those between the input vectors
    map: Callable[[NDArray, Parameters], None]  #: in place
    compiled_map: int | None = None  #: the same map in compiled code; None: it is not there
    has_gamma: bool = True
    definite: bool = True  #: whether it is positive semidefinite: every certificate rests on it


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
    "rbf": Kernel(of_distances=True, euclidean=True, map=_exp, compiled_map=EXPONENTIAL),
    "poly": Kernel(of_distances=False, euclidean=False, map=_polynomial, compiled_map=POWER),
    "sigmoid": Kernel(
        of_distances=False, euclidean=False, map=_tanh, compiled_map=TANH, definite=False
    ),
    "linear": Kernel(
        of_distances=False, euclidean=True, map=_identity, compiled_map=IDENTITY, has_gamma=False
    ),
}
