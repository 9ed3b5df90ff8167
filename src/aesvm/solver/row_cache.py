"""Rows of the kernel matrix, kept as long as a number of bytes allows.

A row is known by the position of its training row among the columns. Where all rows fit, all
are kept; where not, those used longest ago make room, and a row that finds none is simply
not kept.

Columns that are left out move behind the others in each row, and stay there: rows to come are
written before them. So what was computed of them is at hand when their scores are brought up to
date.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit

#: Bytes of a cache whose size is not given: the least, for each kernel value, and the most.
#: (100,000 rows of heart2020 and of flights took as long with 200 as with 800 MB. 255,836 rows of
#: heart2020 took 49, 42 and 40 s with 200, 800 and 2,000 MB.)
LEAST_BYTES, _BYTES_PER_VALUE, _MOST_BYTES = 200_000_000, 0.032, 2_000_000_000

#: Values that a thread moves at a time.
_MOVED = 1 << 19


def usual_bytes(n_rows: int, always_used: bool = False) -> int:
    """Bytes of a cache whose size is not given: of rows alone, not of the machine's memory.

    Pools of free variables gain from more of it the more rows there are. Where all fits use the
    cache, it stays as small as it may be.

    Examples
    --------
    >>> from aesvm.solver.row_cache import usual_bytes
    >>> usual_bytes(1000), usual_bytes(100_000), usual_bytes(10**7)
    (200000000, 320000000, 2000000000)
    """
    grown = min(int(_BYTES_PER_VALUE * n_rows**2), _MOST_BYTES)
    return LEAST_BYTES if always_used else max(LEAST_BYTES, grown)


class RowCache:
    """Rows over ``n_columns`` columns, in at most ``n_bytes``.

    Attributes
    ----------
    rows : ndarray of shape (n_slots, width)
        A row in each slot; which, ``find`` and ``admit`` tell. The first of its values are those of
        the columns, then come those of columns that were left out.
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
        self.n_begun = 0  # slots that rows have been written to, before all others

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
        wanted, begun = min(len(positions), n_slots), self.n_begun
        self.n_begun = min(begun + wanted, n_slots)
        if begun + wanted <= n_slots:
            slots = np.arange(begun, self.n_begun)
        else:
            oldest = np.argpartition(self.used, wanted - 1)[:wanted] if wanted < n_slots else None
            slots = np.arange(n_slots) if oldest is None else np.sort(oldest)
            slots = slots[self.used[slots] < self.iteration]
        owners = self.owner[slots]
        self.slot[owners[owners >= 0]] = -1
        self.slot[positions[: len(slots)]] = slots
        self.owner[slots] = positions[: len(slots)]
        self.used[slots] = self.iteration
        return slots

    def leave_out(self, positions: NDArray[np.intp], run: Callable = map) -> NDArray[np.intp]:
        """Leave out the given columns, and the rows that are among them.

        In ``rows`` they come right behind the columns that remain, in the given order. Returns the
        slot that has the values of each row with them, -1 where none has: until ``clear``.
        """
        n_columns = len(self.slot)
        stays = np.ones(n_columns, dtype=bool)
        stays[positions] = False
        remain = np.flatnonzero(stays)
        order = np.concatenate([remain, positions])
        slots = np.flatnonzero(self.owner >= 0)
        step = max(1, _MOVED // n_columns)

        def some(first: int) -> None:
            _put_in_order(self.rows, slots[first : first + step], order)

        for _ in run(some, range(0, len(slots), step)):
            pass
        slot_before, self.slot = self.slot, self.slot[remain]
        gone = slots[~stays[self.owner[slots]]]
        self.owner[slots], self.used[gone] = -1, -1
        here = np.flatnonzero(self.slot >= 0)
        self.owner[self.slot[here]] = here
        return slot_before


@jit
def _put_in_order(rows, slots, order):
    """Put the first columns of some rows into another order."""
    line = np.empty(order.size, dtype=rows.dtype)
    for slot in slots:
        row = rows[slot, : order.size]
        for k in range(order.size):
            line[k] = row[order[k]]
        for k in range(order.size):
            row[k] = line[k]
