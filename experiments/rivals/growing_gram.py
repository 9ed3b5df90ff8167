"""The kernel matrix of a set of training rows that grows one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import Columns, KernelMatrix
from aesvm.runtime.jit import jit

#: Kernel values copied at a time: some tenth of a second.
_COPIED = 10_000_000

#: Rows that are made columns together; larger pieces are made of such.
_PIECE = 64


class GrowingGram:
    """Kernel values of the members of a set among each other, and of other rows with them.

    Attributes
    ----------
    n : int
        Members.
    rows : ndarray of shape (capacity,)
        Their training rows; the first ``n`` count.
    values : ndarray of shape (capacity, capacity)
        Their kernel matrix; the first ``n`` rows and columns count, all others are zero. It is
        replaced by a larger one when it is full.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.rivals.growing_gram import GrowingGram
    >>> from aesvm.kernels import kernel_matrix
    >>> gram = GrowingGram(kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear"))
    >>> gram.append(2)
    >>> gram.append(0)
    >>> gram.values[:2, :2]
    array([[9., 3.],
           [3., 1.]])
    >>> gram.against(np.array([1]))
    array([[6., 2.]])
    """

    def __init__(self, kernel: KernelMatrix) -> None:
        self.kernel = kernel
        self.n = 0
        self.rows = np.empty(_PIECE, dtype=np.intp)
        self.values = np.zeros((_PIECE, _PIECE), dtype=kernel.dtype)
        self.pieces: list[Columns] = []
        self.in_pieces = 0

    def append(self, row: int) -> None:
        """Take up a member."""
        self.extend(np.array([row]))

    def extend(self, rows: NDArray[np.intp]) -> None:
        """Take up some members."""
        first, last = self.n, self.n + len(rows)
        if last > len(self.rows):
            self._make_room(last)
        self.rows[first:last] = rows
        self.n = last
        self._merge()
        block = self.against(rows)
        self.values[first:last, :last] = block
        self.values[:last, first:last] = block.T

    def keep(self, positions: NDArray[np.intp]) -> None:
        """Only the members at the given positions, ascending, remain."""
        n, before = len(positions), self.n
        for first, last in _slices(n):
            _move_up(self.values, positions, first, last)
        self.values[n:before, :before] = 0.0
        self.values[:n, n:before] = 0.0
        self.rows[:n] = self.rows[positions]
        self.n, self.in_pieces, self.pieces = n, 0, []
        self._merge()

    def against(self, rows: NDArray[np.intp]) -> NDArray:
        """Kernel values of some training rows with all members."""
        out = np.empty((len(rows), self.n), dtype=self.values.dtype)
        start = 0
        pieces = self.pieces
        if self.in_pieces < self.n:
            pieces = [*pieces, self.kernel.columns(self.rows[self.in_pieces : self.n])]
        for columns in pieces:
            block = columns.values(columns.lines(rows), len(rows))
            out[:, start : start + len(columns)] = block
            start += len(columns)
        return out

    def _merge(self) -> None:
        """Make columns of the newest, and one piece of pieces that have become as large.

        There are a few pieces at a time, each more than twice as large as the next.
        """
        while self.n - self.in_pieces >= _PIECE:
            size = _PIECE
            while self.pieces and len(self.pieces[-1]) <= 2 * size:
                size += len(self.pieces.pop())
            last = self.in_pieces + _PIECE
            if not self.pieces:
                size, last = self.n, self.n
            self.pieces.append(self.kernel.columns(self.rows[last - size : last]))
            self.in_pieces = last

    def _make_room(self, n: int) -> None:
        capacity = max(n, len(self.rows) + len(self.rows) // 2)
        values = self.values
        self.rows = np.resize(self.rows, capacity)
        self.values = np.zeros((capacity, capacity), dtype=values.dtype)
        for first, last in _slices(self.n):
            self.values[first:last, : self.n] = values[first:last, : self.n]


def _slices(n: int) -> Iterator[tuple[int, int]]:
    """Some of n rows at a time: with many members they are gigabytes, and cannot be interrupted."""
    step = max(1, _COPIED // max(1, n))
    for first in range(0, n, step):
        yield first, min(first + step, n)


@jit
def _move_up(K, positions, first, last):
    """Rows and columns at ascending positions come first, in place: some of these rows."""
    for r in range(first, last):
        source, target = K[positions[r]], K[r]
        for c in range(positions.size):
            target[c] = source[positions[c]]
