"""Distances of rows from one of them, by which rows are cut into subsets (``sets.partition``).

With the RBF kernel, distance in kernel space grows with Euclidean distance, whatever gamma is; with
the linear kernel both are the same. For these two the input vectors are compared in single
precision, by differences, which do not cancel (``dense`` and ``sparse`` do it). Other kernels are
compared in kernel space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.runtime.jit import jit

if TYPE_CHECKING:
    from aesvm.kernels.matrix import KernelMatrix

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


def finite(distances: NDArray) -> NDArray:
    """Distances that overflowed, made comparable: they come last."""
    return np.nan_to_num(distances, copy=False, nan=1e308, posinf=1e308, neginf=-1e308)


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
