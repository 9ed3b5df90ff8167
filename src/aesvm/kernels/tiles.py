"""Kernel values of dense rows, computed and summed up by tiles in compiled code.

That does not need the interpreter's lock: products are BLAS's, which Numba calls without it, and
the kernel's map and the sums follow while a tile of values is in the core's cache. Threads take
strips of columns, one after another (``crew``), and go through all lines of one, tile by tile. What
they compute does not depend on which thread does.

``RowsByClass`` are dense rows for compiled code that computes kernel values of two classes. Each
class is a matrix with a column for each row, as products of few rows with all of a class want it:
BLAS would copy it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.kernels.blocks import MAPPED_LINES
from aesvm.kernels.crew import (
    DONE,
    HELP,
    HELPERS,
    LIMIT,
    SKIP,
    Crew,
    KeptRows,
    Work,
    add_rows,
    next_strip,
    store_rows,
)
from aesvm.kernels.functions import EXPONENTIAL, IDENTITY, POWER, TANH, take_exponential
from aesvm.kernels.vectors import NO_FAR, NO_LIMIT, mend
from aesvm.runtime import atomic
from aesvm.runtime.jit import inlined, jit

#: Maps of ``functions`` that tiles have.
MAPS = IDENTITY, EXPONENTIAL

#: Multiplications after which a call returns, so that an interrupt is seen: tenths of a second.
_MOST_PRODUCTS = 1e10

#: Lines and columns of the largest tiles.
_MOST_LINES, _MOST_COLUMNS = blocks.WIDE_TILE_LINES, blocks.WIDE_TILE_COLUMNS

#: Multiplications that are worth a thread.
_LEAST_PRODUCTS = 5e6


#: Where the job of a crew has what: the number of its first strip, the size of a tile, the kernel's
#: map, whether a block is symmetric; numbers of lines, features, columns, outputs, rows kept and
#: their width, rows to add and lines to keep; where columns begin in them; and the addresses of
#: arrays.
_FIRST, _WIDTH, _HEIGHT, _MAP, _SYMMETRIC = range(5)
_N_LINES, _N_FEATURES, _N_COLUMNS, _N_OUTPUTS, _N_ROWS, _ROW_WIDTH, _N_SLOTS, _N_FREE = range(5, 13)
_START, _LINES, _RIGHT, _COEFS, _SCORES, _ROWS, _SLOTS, _CHANGES, _FREE, _FAR = range(13, 23)


@jit
def _publish(
    numbers, job, n_strips, size, symmetric, lines, right, mapped, far, coefs, scores, kept
):
    """Write an ``Addition``, as ``_add_strip`` reads it."""
    job[_FIRST], job[_MAP], job[_SYMMETRIC] = numbers[LIMIT], mapped, symmetric
    job[_WIDTH], job[_HEIGHT] = size
    job[_N_LINES], job[_N_FEATURES] = lines.shape
    job[_N_COLUMNS], job[_N_OUTPUTS] = right.shape[0], scores.shape[0]
    job[_N_ROWS], job[_ROW_WIDTH] = kept.rows.shape
    job[_N_SLOTS], job[_N_FREE], job[_START] = kept.slots.size, kept.free.size, kept.start
    job[_LINES], job[_RIGHT] = lines.ctypes.data, right.ctypes.data
    job[_COEFS], job[_SCORES] = coefs.ctypes.data, scores.ctypes.data
    job[_ROWS], job[_SLOTS] = kept.rows.ctypes.data, kept.slots.ctypes.data
    job[_CHANGES], job[_FREE] = kept.coefs.ctypes.data, kept.free.ctypes.data
    job[_FAR] = far.ctypes.data
    atomic.add(numbers, LIMIT, n_strips)


@inlined
def _mirror(block, top, first, square):
    """Store a block at lines ``top``, columns ``first`` of a symmetric matrix a second time."""
    n, width = block.shape
    for k in range(width):
        line = square[first + k, top : top + n]
        for j in range(max(0, first + width - top), n):
            line[j] = block[j, k]


@jit
def _add_strips(numbers, job, mode, looks, calls, buffer):
    """Strips of whatever ``Addition`` there is: see ``Work``."""
    every, sums = np.arange(_MOST_LINES), np.empty(_MOST_COLUMNS)  # first: memory may be short
    n_calls = atomic.load(calls, 0)
    left = _MOST_PRODUCTS
    if mode == HELP:
        atomic.add(numbers, HELPERS, 1)
    while mode == HELP or left > 0.0:
        number = next_strip(numbers, mode, looks, calls, n_calls)
        if number < 0:
            break
        if mode != SKIP:
            left -= _add_strip(job, number, buffer, every, sums)
        atomic.add(numbers, DONE, 1)
    if mode == HELP:
        atomic.add(numbers, HELPERS, -1)


@jit
def _add_strip(job, number, buffer, every, sums):
    """One of them; returns how many multiplications that took."""
    real, n = buffer.dtype, job[_N_COLUMNS]
    width, height, n_lines, n_features = (
        job[_WIDTH],
        job[_HEIGHT],
        job[_N_LINES],
        job[_N_FEATURES],
    )
    lines = carray(atomic.pointer(job[_LINES]), (n_lines, n_features), real)
    right = carray(atomic.pointer(job[_RIGHT]), (n, n_features), real)
    coefs = carray(atomic.pointer(job[_COEFS]), (job[_N_OUTPUTS], n_lines), np.float64)
    scores = carray(atomic.pointer(job[_SCORES]), (job[_N_OUTPUTS], n), np.float64)
    rows = carray(atomic.pointer(job[_ROWS]), (job[_N_ROWS], job[_ROW_WIDTH]), real)
    slots = carray(atomic.pointer(job[_SLOTS]), (job[_N_SLOTS],), np.intp)
    changes = carray(atomic.pointer(job[_CHANGES]), (job[_N_SLOTS],), np.float64)
    free = carray(atomic.pointer(job[_FREE]), (job[_N_FREE],), np.intp)
    far = carray(atomic.pointer(job[_FAR]), (3,), np.float64)
    first = (number - job[_FIRST]) * width
    last = min(first + width, n)
    for top in range(first if job[_SYMMETRIC] else 0, n_lines, height):
        bottom = min(top + height, n_lines)
        values = buffer[: (bottom - top) * (last - first)]
        block = values.reshape(bottom - top, last - first)
        np.dot(lines[top:bottom], right[first:last].T, block)
        if job[_MAP] == EXPONENTIAL:
            take_exponential(values)
            if far[0] < NO_LIMIT:
                mend(lines[top:bottom], right[first:last], far, block)
        for o in range(scores.shape[0]):
            here, part = sums[: last - first], scores[o, first:last]
            for k in range(here.size):
                here[k] = 0.0
            add_rows(block, every[: bottom - top], coefs[o, top:bottom], 0, here)
            for k in range(here.size):  # sums of few terms: rounding grows with their number
                part[k] += here[k]
        store_rows(block, free[top:bottom], job[_START] + first, rows)
        if job[_SYMMETRIC]:
            _mirror(block, top, first, rows)
    if slots.size:
        add_rows(rows, slots, changes, job[_START] + first, scores[0, first:last])
    return float(n_lines) * (last - first) * n_features


class Addition(NamedTuple):
    """``scores += coefs @ K``, K the kernel values of lines and columns.

    They are a map of ``lines @ right.T``.
    """

    lines: NDArray
    right: NDArray
    compiled_map: int  #: one of ``MAPS``
    far: NDArray[np.float64] = NO_FAR.numbers(True)  #: see ``vectors.mend``

    def __call__(
        self,
        coefs: NDArray[np.float64],
        scores: NDArray[np.float64],
        kept: KeptRows,
        crew: Crew,
        width: int = blocks.TILE_COLUMNS,
        height: int = blocks.TILE_LINES,
        symmetric: bool = False,
    ) -> None:
        """Add up.

        Parameters
        ----------
        coefs : ndarray of shape (n_outputs, n_lines)
        scores : ndarray of shape (n_outputs, n_columns)
        kept : KeptRows
            Rows of kernel values, to be added to the first output, and room for some lines.
        crew : Crew
        width, height : int
            Columns and lines of a tile.
        symmetric : bool
            Whether lines and columns are the same rows, and all lines are kept and nothing else is
            done: then half of the values are computed, and kept twice.
        """
        arrays = self.lines, self.right, self.far, coefs, scores, *kept[:-1]
        values, sums = (
            {self.lines.dtype, self.right.dtype, kept.rows.dtype},
            {coefs.dtype, scores.dtype},
        )
        # compiled code reads memory by what it is told of it
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("Arrays of an addition must be contiguous.")
        if len(values) > 1 or sums != {np.dtype(np.float64)}:
            raise ValueError(
                "Kernel values must have one precision, coefficients and scores double."
            )
        if height > _MOST_LINES or width > _MOST_COLUMNS:
            raise ValueError(f"A tile has at most {_MOST_LINES} lines and {_MOST_COLUMNS} columns.")
        n_columns, n_features = self.right.shape
        n_strips = -(-n_columns // width)
        products = float(max(1, len(self.lines))) * n_columns * n_features

        def publish(numbers: NDArray, job: NDArray) -> None:
            size = width, height
            _publish(numbers, job, n_strips, size, symmetric, *self, coefs, scores, kept)

        work = Work(_add_strips, _MOST_LINES * _MOST_COLUMNS, self.right.dtype)
        crew.lead(work, publish, arrays, min(n_strips, int(products / _LEAST_PRODUCTS)))


class ProductMap(NamedTuple):
    """How kernel values come about from products of rows."""

    scale: float  #: of products
    of_distances: bool  #: whether rows carry their norms, as ``vectors`` has it
    compiled_map: int  #: of ``functions``
    coef0: float
    degree: int


class RowsByClass(NamedTuple):
    """The factors ``[y, 1, -g|y|^2]``, or y, of rows y class by class.

    The matrices of the classes, each of shape (width, n_rows), lie one after another.
    """

    factors: NDArray[np.float64]
    width: int
    ends: NDArray[np.intp]  #: where each class ends, in rows
    product_map: ProductMap

    @classmethod
    def of(
        cls,
        factors: NDArray[np.float64],
        ends: NDArray[np.intp],
        product_map: ProductMap,
        run: Callable = map,
    ) -> RowsByClass:
        """Those of rows that are given class by class; ``ends``: where each class ends."""
        width, found = factors.shape[1], np.empty(factors.size)

        def transpose(own: tuple[int, int]) -> None:
            a, b = own
            found[width * a : width * b].reshape(width, b - a)[...] = factors[a:b].T

        for _ in run(transpose, pairwise([0, *ends.tolist()])):
            pass
        return cls(found, width, ends, product_map)


@jit
def write_lines(first, second, at, product_map, lines):
    """Some rows of two classes, counted through both, made ready to be the lines of a block.

    They are ``[2g x, -g|x|^2, 1]``, or x times the scale.
    """
    width, n_first = first.shape
    for f in range(width):
        for k in range(at.size):
            x = first[f, at[k]] if at[k] < n_first else second[f, at[k] - n_first]
            lines[k, f] = product_map.scale * x
            if product_map.of_distances and f == width - 1:
                lines[k, f - 1], lines[k, f] = x, 1.0


@inlined
def write_columns(first, second, at, columns):
    """The same rows, as the columns of a block."""
    width, n_first = first.shape
    for f in range(width):
        for k in range(at.size):
            columns[f, k] = first[f, at[k]] if at[k] < n_first else second[f, at[k] - n_first]


@jit
def write_values(lines, columns, product_map, out):
    """The kernel values of lines and columns."""
    for top in range(0, lines.shape[0], MAPPED_LINES):
        some = out[top : top + MAPPED_LINES]
        np.dot(lines[top : top + MAPPED_LINES], columns, some)
        values = some.reshape(some.size)
        if product_map.compiled_map == EXPONENTIAL:
            take_exponential(values)
        elif product_map.compiled_map == POWER:
            _take_power(values, product_map.coef0, product_map.degree)
        elif product_map.compiled_map == TANH:
            for k in range(values.size):
                values[k] = np.tanh(values[k] + product_map.coef0)


@inlined
def _take_power(values, coef0, degree):
    """``(values + coef0) ** degree`` in place, by squaring as ``functions`` has it."""
    base = np.empty(values.size)
    for k in range(values.size):
        base[k] = values[k] + coef0
        values[k] = base[k] if degree > 0 else 1.0
    power = 1  # of two, the largest that is not above the degree
    while 2 * power <= degree:
        power *= 2
    while power > 1:
        power //= 2
        for k in range(values.size):
            values[k] *= values[k]
        if degree & power:
            for k in range(values.size):
                values[k] *= base[k]
