"""The exponential, for jitted code: loops over it are vectorised."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from aesvm.runtime.jit import OPTIONS, jit

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


@jit
def take_exponential(values):
    """The exponential of contiguous floats, in place."""
    exponential(values)
