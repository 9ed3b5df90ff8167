"""Subsets of similar rows: the paper's FLS1, FLS2 (coarse) and SLS (fine).

Index arrays in, index arrays out. ``rows`` are always ascending row indices.

sequence  (FLS1)  consecutive pieces of at most P rows.
distance  (FLS2)  a class larger than P is halved by distance in kernel space from its first
                  row, and so on, until the halves have at most P rows. A class of at most P
                  rows stays whole (the paper's pseudo-code would halve it once).
fine      (SLS)   from a piece, the V rows nearest to an anchor are taken off, again and again.
                  The first anchor is the row farthest from the origin, the next one the row
                  that would have been taken next.

Ranks, not thresholds: ties are split by row index, so equal distances cannot stall it.

Kernel distance grows with Euclidean distance for the RBF kernel, whatever gamma is, and is
the same thing for the linear one: for these the input vectors are compared, as differences
(which do not cancel) in single precision. A piece is copied once and kept contiguous: the
rows taken off are replaced by rows from its end, so a pass reads what is left and moves V
rows. The result is the same for every gamma of the RBF kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from aesvm.jit import jit
from aesvm.kernels import DenseKernel, KernelMatrix, SparseKernel, VectorKernel

Rows = NDArray[np.intp]

# Input vectors are copied in chunks of about this size, and halved in tasks of so many rows.
_CHUNK_BYTES = 1 << 21
_TASK_ROWS = 1 << 14


def sequence_pieces(rows: Rows, size: int) -> list[Rows]:
    """FLS1: consecutive pieces of at most ``size`` rows.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.partition import sequence_pieces
    >>> sequence_pieces(np.arange(5), 2)
    [array([0, 1]), array([2, 3]), array([4])]
    """
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def distance_pieces(
    kernel: KernelMatrix, classes: list[Rows], size: int, run: Callable = map
) -> list[Rows]:
    """FLS2 on every class, a level of the trees at a time; ``run`` is map or a parallel one.

    A piece of n rows whose halves have n / 2 <= size rows is halved and done.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import kernel_matrix
    >>> from aesvm.partition import distance_pieces
    >>> X = np.array([[0.0], [5.0], [1.0], [4.0]])
    >>> distance_pieces(kernel_matrix(X, kernel="linear"), [np.arange(4)], 2)
    [array([0, 2]), array([1, 3])]
    """
    pieces = [(rows, len(rows) <= size) for rows in classes]
    while not all(done for _, done in pieces):
        distances = _from_first_row(kernel, [rows for rows, done in pieces if not done], run)
        following = []
        for rows, done in pieces:
            if done:
                following.append((rows, True))
                continue
            near = np.zeros(len(rows), dtype=bool)
            near[_nearest(next(distances), rows, len(rows) // 2)[0]] = True
            following += [(half, len(rows) <= 2 * size) for half in (rows[near], rows[~near])]
        pieces = following
    return [rows for rows, _ in pieces if len(rows)]


def _from_first_row(kernel: KernelMatrix, pieces: list[Rows], run: Callable) -> Iterator[NDArray]:
    """For each piece, the distances of its rows from its first row."""
    starts = [range(0, len(rows), _TASK_ROWS) for rows in pieces]

    def distances(task: tuple[Rows, int]) -> NDArray:
        rows, start = task
        part = np.concatenate([rows[:1], rows[start : start + _TASK_ROWS]])
        return _points(kernel, part).distances(0, len(part))[1:]

    tasks = [(rows, at) for rows, own in zip(pieces, starts, strict=True) for at in own]
    results = run(distances, tasks)
    for own in starts:
        yield np.concatenate([next(results) for _ in own])


def fine_subsets(kernel: KernelMatrix, rows: Rows, size: int) -> list[Rows]:
    """SLS: subsets of ``size`` similar rows, and a last one of at most ``size``.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import kernel_matrix
    >>> from aesvm.partition import fine_subsets
    >>> X = np.array([[0.0], [5.0], [1.0], [4.0], [2.0]])
    >>> fine_subsets(kernel_matrix(X, kernel="linear"), np.arange(5), 2)
    [array([1, 3]), array([2, 4]), array([0])]
    """
    if len(rows) <= size:
        return [rows]
    points = _points(kernel, rows)
    anchor = points.farthest()
    subsets = []
    for left in range(len(rows), size, -size):
        names = points.rows[:left]
        taken, following = _nearest(points.distances(anchor, left), names, size)
        subsets.append(np.sort(names[taken]))
        anchor = points.take_off(taken, left, following)
    subsets.append(np.sort(points.rows[: left - size]))
    return subsets


def _nearest(distances: NDArray, names: Rows, count: int) -> tuple[Rows, int]:
    """Positions of the ``count`` least (distance, name) pairs, ascending, and of the next."""
    bound = np.partition(distances, count)[count]
    taken = np.empty(count, dtype=np.intp)
    ties = np.flatnonzero(distances == bound)
    ties = ties[np.argsort(names[ties])]
    below = _below(distances, bound, taken)
    taken[below:] = ties[: count - below]
    if below < count:
        taken.sort()
    return taken, int(ties[count - below])


def _points(kernel: KernelMatrix, rows: Rows) -> _Points:
    if isinstance(kernel, DenseKernel) and kernel.euclidean:
        return _DensePoints(kernel, rows)
    if isinstance(kernel, SparseKernel) and kernel.euclidean:
        return _SparsePoints(kernel, rows)
    return _KernelPoints(kernel, rows)


class _Points(ABC):
    """Points of a piece, by position: arrays parallel to ``rows``, the first of them."""

    def __init__(self, kernel: KernelMatrix, rows: Rows) -> None:
        self.kernel = kernel
        self.rows = rows.copy()
        self.parallel: list[NDArray] = [self.rows]

    def take_off(self, taken: Rows, left: int, following: int) -> int:
        """Fill the positions taken from the end; where the following point is then."""
        end = left - len(taken)
        holes = taken[taken < end]
        stays = np.ones(len(taken), dtype=bool)
        stays[taken[len(holes) :] - end] = False
        fillers = end + np.flatnonzero(stays)
        for array in self.parallel:
            array[holes] = array[fillers]
        return following if following < end else int(holes[np.searchsorted(fillers, following)])

    @abstractmethod
    def distances(self, anchor: int, left: int) -> NDArray:
        """Of the first ``left`` points from one of them, up to a monotone map."""

    def farthest(self) -> int:
        """The point farthest from the origin, in the input space where there is one."""
        if isinstance(self.kernel, VectorKernel):
            return int(np.argmax(self.kernel.squared_norms(self.rows)))
        return int(np.argmax(self.kernel.diag(self.rows)))


class _KernelPoints(_Points):
    def __init__(self, kernel: KernelMatrix, rows: Rows) -> None:
        super().__init__(kernel, rows)
        self.diag = kernel.diag(rows).astype(np.float64)
        self.parallel.append(self.diag)

    def distances(self, anchor, left):
        result = np.empty(left)
        line = self.rows[anchor : anchor + 1]
        for start in range(0, left, 4096):
            part = slice(start, min(start + 4096, left))
            result[part] = self.kernel.block(self.rows[part], line)[:, 0]
        result *= -2.0
        result += self.diag[:left]
        return result


class _SparsePoints(_Points):
    def __init__(self, kernel: SparseKernel, rows: Rows) -> None:
        super().__init__(kernel, rows)
        self.X = kernel.X
        self.norms = kernel.squared_norms(rows).astype(np.float64)
        self.parallel.append(self.norms)

    def distances(self, anchor, left):
        line = np.zeros(self.X.shape[1])
        entries = slice(*self.X.indptr[self.rows[anchor] :][:2])
        line[self.X.indices[entries]] = self.X.data[entries]
        result = np.empty(left)
        _sparse_distances(
            self.X.data, self.X.indices, self.X.indptr, self.rows, self.norms, line, result
        )
        return result


class _DensePoints(_Points):
    def __init__(self, kernel: DenseKernel, rows: Rows) -> None:
        super().__init__(kernel, rows)
        self.copy = np.empty((len(rows), kernel.X.shape[1]), dtype=np.float32)
        self.parallel.append(self.copy)
        self.result = np.empty(len(rows), dtype=np.float32)
        norms = np.empty(len(rows))
        peak = 0.0
        step = max(1, _CHUNK_BYTES // (8 * kernel.X.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            vectors = kernel.X[rows[part]]
            norms[part] = np.einsum("ij,ij->i", vectors, vectors)
            vectors -= kernel.center
            peak = max(peak, float(vectors.max()), -float(vectors.min()))
            with np.errstate(over="ignore"):
                self.copy[part] = vectors
        self.scale = 1.0
        if peak > 1e15:
            # squares would overflow: divide by a power of two, which changes no digit
            self.scale = 2.0 ** -np.ceil(np.log2(peak))
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                self.copy[part] = (kernel.X[rows[part]] - kernel.center) * self.scale
        self.origin = int(np.argmax(norms))

    def farthest(self):
        return self.origin

    def distances(self, anchor, left):
        result = self.result[:left]
        _dense_distances(self.copy, self.copy[anchor].copy(), result)
        return result if self.scale == 1.0 else result.astype(float) / self.scale**2


@jit
def _dense_distances(points, anchor, out):
    for i in range(out.size):
        total = np.float32(0.0)
        for f in range(anchor.size):
            difference = points[i, f] - anchor[f]
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
def _below(distances, bound, positions):
    count = 0
    for i in range(distances.size):
        if distances[i] < bound:
            positions[count] = i
            count += 1
    return count
