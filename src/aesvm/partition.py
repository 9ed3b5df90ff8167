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

Halving down to V rows would need fewer passes, but its subsets reduce worse (covertype at
gamma = 1: 30.5 % of the rows kept instead of 22.8 %), and it takes no less time.
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
        wide = [rows for rows, done in pieces if not done]
        halves = run(_halves, list(zip(wide, _from_first_row(kernel, wide, run), strict=True)))
        following = []
        for rows, done in pieces:
            if done:
                following.append((rows, True))
            else:
                following += [(half, len(rows) <= 2 * size) for half in next(halves)]
        pieces = following
    return [rows for rows, _ in pieces if len(rows)]


def _halves(piece: tuple[Rows, NDArray]) -> tuple[Rows, Rows]:
    """The half of the rows with the least distances, and the others."""
    rows, distances = piece
    near = np.zeros(len(rows), dtype=bool)
    near[_nearest(distances, rows, len(rows) // 2)[0]] = True
    return rows[near], rows[~near]


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
        distances = points.distances(anchor, left)
        names = points.rows[:left]
        taken, following = _nearest(distances, names, size)
        subsets.append(np.sort(names[taken]))
        anchor = points.take_off(taken, left, following)
    subsets.append(np.sort(points.rows[: left - size]))
    return subsets


def _nearest(distances: NDArray, names: Rows, count: int) -> tuple[Rows, int]:
    """Positions of the ``count`` least (distance, name) pairs, ascending, and of the next."""
    bound = np.partition(distances, count)[count]
    below, ties = _survey(distances, bound)
    taken, tied = np.empty(count, dtype=np.intp), np.empty(ties, dtype=np.intp)
    return taken, _up_to(distances, bound, names, count - below, taken, tied)


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
        fillers = np.empty(len(taken), dtype=np.intp)
        count, following = _moves(taken, left, following, fillers)
        for array in self.parallel:
            array[taken[:count]] = array[fillers[:count]]
        return following

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
        return _finite(result)


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
        return _finite(result)


class _DensePoints(_Points):
    def __init__(self, kernel: DenseKernel, rows: Rows) -> None:
        super().__init__(kernel, rows)
        self.copy = np.empty((len(rows), kernel.X.shape[1]), dtype=np.float32)
        self.parallel.append(self.copy)
        self.result = np.empty(len(rows), dtype=np.float32)
        norms = np.empty(len(rows))
        center = kernel.center
        peak = 0.0
        step = max(1, _CHUNK_BYTES // (8 * kernel.X.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            vectors = kernel.X[rows[part]]
            peak = max(peak, _copy_points(vectors, center, self.copy[part], norms[part]))
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

    def distances(self, anchor, left):
        result = self.result[:left]
        _dense_distances(self.copy, self.copy[anchor].copy(), result)
        if self.scale == 1.0:
            return result
        with np.errstate(over="ignore"):
            return _finite(result.astype(float) / self.scale / self.scale)


def _finite(distances: NDArray) -> NDArray:
    """Distances that overflowed, made comparable: they come last."""
    return np.nan_to_num(distances, copy=False, nan=1e308, posinf=1e308, neginf=-1e308)


@jit
def _copy_points(vectors, center, copy, norms):
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


# Jitted functions called from Python fill arrays and return numbers: to return an array, Numba
# runs Python code, and an interrupt that falls there is lost.


@jit
def _survey(distances, bound):
    """How many are below the bound, and how many at it."""
    below = 0
    ties = 0
    for i in range(distances.size):
        below += distances[i] < bound
        ties += distances[i] == bound
    return below, ties


@jit
def _up_to(distances, bound, names, rank, taken, tied):
    """Positions below the bound, and of those at it the first ``rank`` by name.

    Returns the position of the next one at it; ``tied`` has room for their names.
    """
    at = 0
    for i in range(distances.size):
        if distances[i] == bound:
            tied[at] = names[i]
            at += 1
    tied.sort()
    next_name = tied[rank]
    following = -1
    at = 0
    for i in range(distances.size):
        if distances[i] < bound or (distances[i] == bound and names[i] < next_name):
            taken[at] = i
            at += 1
        elif distances[i] == bound and names[i] == next_name:
            following = i
    return following


@jit
def _moves(taken, left, following, fillers):
    """Which positions at the end fill those taken below it: how many, and where the following
    point comes to.
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
