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
linear kernel, and for classes side by side all four. ``exponential`` is that of jitted code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from aesvm.runtime.jit import OPTIONS, inlined

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


_LOG2_E, _LN_2 = 1.4426950408889634, 0.6931471805599453

#: Below these the exponential is taken to be zero: it would be no normal number.
_LEAST_SINGLE, _LEAST_DOUBLE = -87.0, -708.0


def _power_of_two(typingctx, n):
    """2 to a whole number that is given as a float, by its bits."""
    size, mantissa, bias = (32, 23, 127) if n == types.float32 else (64, 52, 1023)

    def codegen(context, builder, signature, args):
        whole = ir.IntType(size)
        exponent = builder.add(builder.fptosi(args[0], whole), ir.Constant(whole, bias))
        bits = builder.shl(exponent, ir.Constant(whole, mantissa))
        return builder.bitcast(bits, args[0].type)

    return n(n), codegen


def _nearest(typingctx, x):
    """The nearest whole number, as a float."""

    def codegen(context, builder, signature, args):
        real = args[0].type
        rint = builder.module.declare_intrinsic("llvm.rint", [real], ir.FunctionType(real, [real]))
        return builder.call(rint, args)

    return x(x), codegen


power_of_two: Any = intrinsic(_power_of_two)
nearest: Any = intrinsic(_nearest)


def exponential(values):
    """For jitted code: the exponential of contiguous floats x, in place.

    It is off by a few roundings of the value and of x, which must be at most 88 (double: 709).

    ``exp(x) = 2^n exp(r)``, n whole and r within ln(2)/2 of zero, where Taylor's series is short.
    Loops over this are vectorised, unlike those over NumPy's function.
    """
    raise NotImplementedError("for jitted code")


# Horner's rule with the series' coefficients as constants: one operation for each
def _single(values):
    for k in range(values.size):
        x = values[k]
        n = nearest(max(x, np.float32(_LEAST_SINGLE)) * np.float32(_LOG2_E))
        r = x - n * np.float32(_LN_2)
        p = np.float32(1 / 5040) * r + np.float32(1 / 720)
        p = p * r + np.float32(1 / 120)
        p = p * r + np.float32(1 / 24)
        p = p * r + np.float32(1 / 6)
        p = p * r + np.float32(1 / 2)
        p = p * r + np.float32(1)
        p = p * r + np.float32(1)
        values[k] = power_of_two(n) * p if x > np.float32(_LEAST_SINGLE) else np.float32(0.0)


def _double(values):
    for k in range(values.size):
        x = values[k]
        n = nearest(max(x, _LEAST_DOUBLE) * _LOG2_E)
        r = x - n * _LN_2
        p = (1 / 6227020800) * r + 1 / 479001600
        p = p * r + 1 / 39916800
        p = p * r + 1 / 3628800
        p = p * r + 1 / 362880
        p = p * r + 1 / 40320
        p = p * r + 1 / 5040
        p = p * r + 1 / 720
        p = p * r + 1 / 120
        p = p * r + 1 / 24
        p = p * r + 1 / 6
        p = p * r + 1 / 2
        p = p * r + 1.0
        p = p * r + 1.0
        values[k] = power_of_two(n) * p if x > _LEAST_DOUBLE else 0.0


@overload(exponential, jit_options=OPTIONS)  # type: ignore[arg-type]
def _exponential(values):
    return _single if values.dtype == types.float32 else _double


@inlined
def take_exponential(values):
    """The exponential of contiguous floats, in place."""
    exponential(values)
