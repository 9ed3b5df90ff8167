"""Distances of rows from one of them, by which rows are cut into subsets (``sets.partition``).

With the RBF kernel, distance in kernel space grows with Euclidean distance, whatever gamma is; with
the linear kernel both are the same. For these two the input vectors are compared in single
precision, by differences, which do not cancel. Other kernels are compared in kernel space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.kernels.csr import narrowed, squared_norms
from aesvm.runtime.jit import jit

if TYPE_CHECKING:
    from aesvm.kernels.dense import DenseKernel
    from aesvm.kernels.matrix import KernelMatrix
    from aesvm.kernels.sparse import SparseKernel

Rows = NDArray[np.intp]


class RowDistances(ABC):
    """Distances of some rows, which are taken off until none is left.

    Rows are known by their positions. What distances need of each row lies in arrays whose first
    entries are the rows left: those taken off are overwritten by rows from the end.

    Parameters
    ----------
    kernel : KernelMatrix
    rows : ndarray
    """

    def __init__(self, kernel: KernelMatrix, rows: Rows) -> None:
        self.kernel = kernel
        self.rows = rows.copy()
        self.parallel: list[NDArray] = [self.rows]

    def take_off(self, taken: Rows, left: int, following: int) -> int:
        """Overwrite the rows at the positions taken by rows from the end of those left.

        Returns the new position of the row at ``following``, the next anchor.
        """
        fillers = np.empty(len(taken), dtype=np.intp)
        count, following = _moves(taken, left, following, fillers)
        for array in self.parallel:
            array[taken[:count]] = array[fillers[:count]]
        return following

    @abstractmethod
    def from_row(self, anchor: int, left: int) -> NDArray:
        """Distances of the first ``left`` rows from the one at ``anchor``, up to a monotone map."""

    def farthest(self) -> int:
        """The position of the row farthest from the origin, in the input space if there is one."""
        return int(np.argmax(self.kernel.squared_sizes(self.rows)))


class KernelDistances(RowDistances):
    def __init__(self, kernel: KernelMatrix, rows: Rows) -> None:
        super().__init__(kernel, rows)
        self.diag = kernel.diag(rows).astype(np.float64)
        self.parallel.append(self.diag)

    def from_row(self, anchor, left):
        result = np.empty(left)
        line = self.rows[anchor : anchor + 1]
        for start in range(0, left, blocks.KERNEL_DISTANCE_ROWS):
            part = slice(start, min(start + blocks.KERNEL_DISTANCE_ROWS, left))
            result[part] = self.kernel.block(self.rows[part], line)[:, 0]
        result *= -2.0
        result += self.diag[:left]
        return finite(result)


class SparseDistances(RowDistances):
    def __init__(self, kernel: SparseKernel, rows: Rows) -> None:
        super().__init__(kernel, rows)
        _, self.X = narrowed(kernel.X[rows])
        self.places = np.arange(len(rows))  # in X
        self.norms = squared_norms(self.X)
        self.line = np.zeros(self.X.shape[1])
        self.parallel += [self.places, self.norms]

    def from_row(self, anchor, left):
        entries = slice(*self.X.indptr[self.places[anchor] :][:2])
        self.line[self.X.indices[entries]] = self.X.data[entries]
        result = np.empty(left)
        _sparse_distances(
            self.X.data, self.X.indices, self.X.indptr, self.places, self.norms, self.line, result
        )
        self.line[self.X.indices[entries]] = 0.0
        return finite(result)


class DenseDistances(RowDistances):
    def __init__(self, kernel: DenseKernel, rows: Rows) -> None:
        super().__init__(kernel, rows)
        self.copy = np.empty((len(rows), kernel.X.shape[1]), dtype=np.float32)
        self.parallel.append(self.copy)
        self.result = np.empty(len(rows), dtype=np.float32)
        norms = np.empty(len(rows))
        center = kernel.center
        peak = 0.0
        step = blocks.cached_rows(8 * kernel.X.shape[1])
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            vectors = kernel.X[rows[part]]
            peak = max(peak, _copy_vectors(vectors, center, self.copy[part], norms[part]))
        self.scale = 1.0
        if peak > 1e15 or 0.0 < peak < 1e-15:
            # squares would overflow or vanish: a power of two changes no digit
            exponent = -np.ceil(np.log2(peak)) if np.isfinite(peak) else -1025
            self.scale = 2.0**exponent
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                self.copy[part] = kernel.X[rows[part]] * self.scale - center * self.scale
        self.origin = int(np.argmax(norms))

    def farthest(self):
        return self.origin

    def from_row(self, anchor, left):
        result = self.result[:left]
        _dense_distances(self.copy, self.copy[anchor].copy(), result)
        if self.scale == 1.0:
            return result
        with np.errstate(over="ignore"):
            return finite(result.astype(float) / self.scale / self.scale)


def finite(distances: NDArray) -> NDArray:
    """Distances that overflowed, made comparable: they come last."""
    return np.nan_to_num(distances, copy=False, nan=1e308, posinf=1e308, neginf=-1e308)


@jit
def _copy_vectors(vectors, center, copy, norms):
    """Single-precision copy around the centre, and squared norms. Returns the largest entry."""
    peak = 0.0
    for i in range(norms.size):
        norm = 0.0
        for f in range(center.size):
            x = float(vectors[i, f])
            norm += x * x
            copy[i, f] = vectors[i, f] - center[f]
            peak = max(peak, abs(x - center[f]))
        norms[i] = norm
    return peak


@jit
def _dense_distances(vectors, anchor, out):
    for i in range(out.size):
        total = np.float32(0.0)
        for f in range(anchor.size):
            difference = vectors[i, f] - anchor[f]
            total += difference * difference
        out[i] = total


@jit
def _sparse_distances(data, indices, indptr, rows, norms, anchor, out):
    for i in range(out.size):
        total = 0.0
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            total += data[e] * anchor[indices[e]]
        out[i] = norms[i] - 2.0 * total


@jit
def _moves(taken, left, following, fillers):
    """Write the positions at the end whose rows overwrite those taken.

    Returns how many they are, and the new position of the following row.
    """
    end = left - taken.size
    holes = 0
    while holes < taken.size and taken[holes] < end:
        holes += 1
    above = holes
    filled = 0
    for i in range(end, left):
        if above < taken.size and taken[above] == i:
            above += 1
        else:
            if i == following:
                following = taken[filled]
            fillers[filled] = i
            filled += 1
    return holes, following
