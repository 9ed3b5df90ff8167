"""Kernel values of dense rows, computed and summed up by tiles in compiled code.

That needs no lock of the interpreter's: products are BLAS's, which Numba calls without it, and the
kernel's map and the sums follow while a tile of values is in the core's cache. A thread makes one
call for many tiles, and takes each from a counter that all threads share. Tiles do not depend on
who computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.kernels.accumulate import KeptRows, Scratch, add_rows, store_rows
from aesvm.kernels.functions import EXPONENTIAL
from aesvm.runtime.jit import OPTIONS, jit
from aesvm.runtime.threads import together

#: Multiplications after which a call returns, so that an interrupt is seen: tenths of a second.
_MOST_PRODUCTS = 1e10

#: Multiplications that are worth waking a thread for.
_LEAST_PRODUCTS = 5e6

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


def _count(typingctx, counter):
    """The number in an array of one, which then is one more; threads may share the array."""

    def codegen(context, builder, signature, args):
        (array,) = signature.args
        data = context.make_array(array)(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), codegen


power_of_two: Any = intrinsic(_power_of_two)
nearest: Any = intrinsic(_nearest)
count: Any = intrinsic(_count)


def exponential(values):
    """For jitted code: the exponential of contiguous floats x, in place.

    It is off by a few roundings of the value and of x, which must be at most 88 (double: 709).

    ``exp(x) = 2^n exp(r)``, n whole and r within ln(2)/2 of zero, where Taylor's series is short.
    Loops over this are vectorised, unlike those over NumPy's function.
    """
    raise NotImplementedError("for jitted code")


def _single(values):
    one = np.float32(1.0)
    for k in range(values.size):
        x = values[k]
        n = nearest(max(x, np.float32(_LEAST_SINGLE)) * np.float32(_LOG2_E))
        r = x - n * np.float32(_LN_2)
        p = one + r * np.float32(1 / 7)
        p = one + r * np.float32(1 / 6) * p
        p = one + r * np.float32(1 / 5) * p
        p = one + r * np.float32(1 / 4) * p
        p = one + r * np.float32(1 / 3) * p
        p = one + r * np.float32(1 / 2) * p
        p = one + r * p
        values[k] = power_of_two(n) * p if x > np.float32(_LEAST_SINGLE) else np.float32(0.0)


def _double(values):
    for k in range(values.size):
        x = values[k]
        n = nearest(max(x, _LEAST_DOUBLE) * _LOG2_E)
        r = x - n * _LN_2
        p = 1.0 + r * (1 / 13)
        p = 1.0 + r * (1 / 12) * p
        p = 1.0 + r * (1 / 11) * p
        p = 1.0 + r * (1 / 10) * p
        p = 1.0 + r * (1 / 9) * p
        p = 1.0 + r * (1 / 8) * p
        p = 1.0 + r * (1 / 7) * p
        p = 1.0 + r * (1 / 6) * p
        p = 1.0 + r * (1 / 5) * p
        p = 1.0 + r * (1 / 4) * p
        p = 1.0 + r * (1 / 3) * p
        p = 1.0 + r * (1 / 2) * p
        p = 1.0 + r * p
        values[k] = power_of_two(n) * p if x > _LEAST_DOUBLE else 0.0


@overload(exponential, jit_options=OPTIONS)  # type: ignore[arg-type]
def _exponential(values):
    return _single if values.dtype == types.float32 else _double


@jit
def take_exponential(values):
    """The exponential of contiguous floats, in place."""
    exponential(values)


@jit
def _add_tiles(counter, most, width, height, lines, right, tile_map, coefs, scores, kept, buffer):
    """At most ``most`` tiles of an ``Addition``."""
    n_lines, n = lines.shape[0], right.shape[0]
    every, sums = np.arange(height), np.empty(width)
    for _ in range(most):
        first = count(counter) * width
        if first >= n:
            break
        last = min(first + width, n)
        for top in range(0, n_lines, height):
            bottom = min(top + height, n_lines)
            values = buffer[: (bottom - top) * (last - first)]
            block = values.reshape(bottom - top, last - first)
            np.dot(lines[top:bottom], right[first:last].T, block)
            if tile_map == EXPONENTIAL:
                take_exponential(values)
            for o in range(scores.shape[0]):
                here, part = sums[: last - first], scores[o, first:last]
                for k in range(here.size):
                    here[k] = 0.0
                add_rows(block, every[: bottom - top], coefs[o, top:bottom], 0, here)
                for k in range(here.size):  # sums of few terms: rounding grows with their number
                    part[k] += here[k]
            store_rows(block, kept.free[top:bottom], first, kept.rows)
        if kept.slots.size:
            add_rows(kept.rows, kept.slots, kept.coefs, first, scores[0, first:last])


class Addition(NamedTuple):
    """``scores += coefs @ K``, K the kernel values of lines and columns.

    They are a map of ``lines @ right.T``. Threads take some columns at a time, and go through all
    lines, some at once: a tile.
    """

    lines: NDArray
    right: NDArray
    tile_map: int  #: of ``functions``: IDENTITY or EXPONENTIAL

    def __call__(
        self,
        coefs: NDArray[np.float64],
        scores: NDArray[np.float64],
        kept: KeptRows,
        run: Callable,
        scratch: Scratch,
        width: int = blocks.TILE_COLUMNS,
        height: int = blocks.TILE_LINES,
    ) -> None:
        """Add up.

        Parameters
        ----------
        coefs : ndarray of shape (n_outputs, n_lines)
        scores : ndarray of shape (n_outputs, n_columns)
        kept : KeptRows
            Rows of kernel values, to be added to the first output, and room for some lines.
        run : callable
            ``map`` or a parallel one.
        scratch : Scratch
        width, height : int
            Columns and lines of a tile.
        """
        n_columns, n_features = self.right.shape
        n_tiles = -(-n_columns // width)
        products = float(max(1, len(self.lines))) * width * n_features
        most = max(1, int(_MOST_PRODUCTS / products))
        counter = np.zeros(1, dtype=np.int64)

        def some() -> None:
            buffer = scratch.buffer(height * width, self.right.dtype)
            while counter[0] < n_tiles:
                _add_tiles(counter, most, width, height, *self, coefs, scores, kept, buffer)

        try:
            together(run, some, min(n_tiles, int(n_tiles * products / _LEAST_PRODUCTS)))
        finally:
            counter[0] = n_tiles  # after an interrupt, those that still run end
