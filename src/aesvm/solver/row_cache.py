"""Rows of the kernel matrix, kept as long as a number of bytes allows.

A row is known by the position of its training row among the columns. Where all rows fit, all
are kept; where not, those used longest ago make room, and a row that finds none is simply
not kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit

#: Values that a thread moves at a time.
_MOVED = 1 << 19


class RowCache:
    """Rows over ``n_columns`` columns, in at most ``n_bytes``.

    Attributes
    ----------
    rows : ndarray of shape (n_slots, n_columns)
        A row in each slot; which, ``find`` and ``admit`` tell.
    """

    def __init__(self, n_columns: int, n_bytes: int, dtype: np.dtype) -> None:
        size = min(n_bytes // dtype.itemsize, n_columns**2)
        self.values = np.empty(size, dtype=dtype)  # takes no memory before it is written to
        self.iteration = 0
        self.clear(n_columns)

    def clear(self, n_columns: int) -> None:
        """Forget all rows; those to come have ``n_columns``."""
        n_slots = min(self.values.size // n_columns, n_columns)
        self.rows = self.values[: n_slots * n_columns].reshape(n_slots, n_columns)
        self.slot = np.full(n_columns, -1)  # of each row
        self.owner = np.full(n_slots, -1)  # of each slot
        self.used = np.full(n_slots, -1)  # in which iteration

    def find(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """The slot of each of the given rows, -1 where it is not here. An iteration begins."""
        self.iteration += 1
        slots = self.slot[positions]
        self.used[slots[slots >= 0]] = self.iteration
        return slots

    def admit(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Slots to write the first of the given rows to: as many as there is room for."""
        n_slots = len(self.used)
        if not len(positions):
            return positions
        wanted = min(len(positions), n_slots)
        oldest = np.argpartition(self.used, wanted - 1)[:wanted] if wanted < n_slots else None
        slots = np.arange(n_slots) if oldest is None else np.sort(oldest)
        slots = slots[self.used[slots] < self.iteration]
        owners = self.owner[slots]
        self.slot[owners[owners >= 0]] = -1
        self.slot[positions[: len(slots)]] = slots
        self.owner[slots] = positions[: len(slots)]
        self.used[slots] = self.iteration
        return slots

    def keep(self, positions: NDArray[np.intp], run: Callable = map) -> None:
        """Only the given columns, ascending, remain, and of the rows those that are among them.

        Rows are moved to the front, many at a time: those whose new places lie before all of
        their old ones.
        """
        place = np.full(self.rows.shape[1], -1)
        place[positions] = np.arange(len(positions))
        slots = np.flatnonzero((self.owner >= 0) & (place[self.owner] >= 0))
        owners, used = place[self.owner[slots]], self.used[slots]
        width, narrower = self.rows.shape[1], max(1, len(positions))
        first = 0
        while first < len(slots):
            last = max(first + 1, min(len(slots), slots[first] * width // narrower))
            step = max(1, _MOVED // width)

            def some(at: int, last: int = last, step: int = step) -> None:
                _compact(self.values, slots, width, positions, at, min(at + step, last))

            for _ in run(some, range(first, last, step)):
                pass
            first = last
        self.clear(len(positions))
        here = slice(len(slots))
        self.slot[owners] = np.arange(len(slots))
        self.owner[here], self.used[here] = owners, used


@jit
def _compact(values, slots, width, positions, first, last):
    """Some columns of some rows, moved to the front: never further back than they were."""
    to = first * positions.size
    for w in range(first, last):
        row = values[slots[w] * width : (slots[w] + 1) * width]
        for position in positions:
            values[to] = row[position]
            to += 1
