"""Weighted sums of kernel rows, added to scores: the loops, and the memory they work in."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.runtime.jit import jit


class KeptRows(NamedTuple):
    """Rows of the kernel matrix that are kept, and the part that they have in an accumulation."""

    rows: NDArray
    slots: NDArray[np.intp]  #: of rows that are there already
    coefs: NDArray[np.float64]  #: of these
    free: NDArray[np.intp]  #: slots to keep the first of the new lines in

    @classmethod
    def none(cls, dtype: np.dtype) -> KeptRows:
        nowhere = np.empty(0, dtype=np.intp)
        return cls(np.empty((0, 0), dtype=dtype), nowhere, np.empty(0), nowhere)


class Scratch:
    """A block of kernel values for each thread that asks, used again and again.

    Fresh memory would be zeroed by the system for every block.
    """

    def __init__(self) -> None:
        self.thread = threading.local()

    def block(self, n_lines: int, width: int, dtype: np.dtype) -> NDArray:
        return self.buffer(n_lines * width, dtype)[: n_lines * width].reshape(n_lines, width)

    def buffer(self, size: int, dtype: np.dtype) -> NDArray:
        """The thread's own array, of at least ``size`` values."""
        buffer = getattr(self.thread, "buffer", None)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self.thread.buffer = np.empty(max(blocks.UPDATE_VALUES, size), dtype=dtype)
        return buffer


@jit
def add_rows(rows, slots, changes, start, scores):
    """scores[k] += sum_w changes[w] rows[slots[w], start + k]; four rows at a time."""
    n = scores.size
    stop = start + n
    w = 0
    while w + 4 <= slots.size:
        r0, r1 = rows[slots[w], start:stop], rows[slots[w + 1], start:stop]
        r2, r3 = rows[slots[w + 2], start:stop], rows[slots[w + 3], start:stop]
        c0, c1, c2, c3 = changes[w], changes[w + 1], changes[w + 2], changes[w + 3]
        for k in range(n):
            scores[k] += (
                c0 * np.float64(r0[k])
                + c1 * np.float64(r1[k])
                + c2 * np.float64(r2[k])
                + c3 * np.float64(r3[k])
            )
        w += 4
    while w < slots.size:
        row, change = rows[slots[w], start:stop], changes[w]
        for k in range(n):
            scores[k] += change * np.float64(row[k])
        w += 1


@jit
def store_rows(block, slots, start, rows):
    """The first lines of a block, into rows of the cache. (As slices Numba copies them slowly.)"""
    n = block.shape[1]
    for w in range(slots.size):
        row, line = rows[slots[w], start : start + n], block[w]
        for k in range(n):
            row[k] = line[k]
