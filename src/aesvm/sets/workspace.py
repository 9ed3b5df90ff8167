"""The memory in which a subset's representatives are found, and what is done with it.

The members are the rows that represent so far, with their own Gram block, in the precision
of the search. The ledger has, for every row checked, the combination that was reached.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit

#: Vectors over the members are padded to a multiple of this.
LANE = 32


class Members(NamedTuple):
    """The rows that represent, and their Gram block."""

    packed: NDArray  # Gram block of the members; its last row is zero
    diag: NDArray  # its diagonal
    rows: NDArray[np.intp]  # the members, in its order
    place: NDArray[np.intp]  # of every row among them, -1 for those that are not
    size: NDArray[np.intp]  # how many there are, in an array of one
    work: NDArray  # two vectors over the members


class Ledger(NamedTuple):
    """For every row checked, the combination reached."""

    start: NDArray[np.intp]  # row i: entries start[i] to start[i] + length[i]
    length: NDArray[np.intp]
    rows: NDArray[np.intp]
    coefs: NDArray[np.float64]
    residuals: NDArray[np.float64]  # squared distance of every row to its combination
    used: NDArray[np.intp]  # entries, in an array of one


class Scratch(NamedTuple):
    """The combination being worked on: members ``support``, their weights in ``mu``."""

    mu: NDArray[np.float64]
    support: NDArray[np.intp]


class Workspace:
    """Memory for one subset after another, grown as they need it. One thread's, not shared.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.sets.hull import approximate_extreme_points
    >>> from aesvm.sets.workspace import Workspace
    >>> workspace = Workspace()
    >>> [len(approximate_extreme_points(np.eye(n), 0.1, workspace).selected) for n in (3, 5)]
    [3, 5]
    """

    members: Members
    ledger: Ledger
    scratch: Scratch

    def __init__(self) -> None:
        self.rows = 0

    def fit(self, n: int, dtype: np.dtype) -> None:
        """Have room for a subset of n rows, searched in the given precision."""
        if n > self.rows or dtype != self.members.packed.dtype:
            self.rows = n
            padded = -(-n // LANE) * LANE
            self.members = Members(
                packed=empty_block(min(padded, 10 * LANE), dtype),
                diag=np.ones(padded, dtype=dtype),
                rows=np.empty(n, dtype=np.intp),
                place=np.empty(n, dtype=np.intp),
                size=np.zeros(1, dtype=np.intp),
                work=np.empty((2, padded), dtype=dtype),
            )
            self.ledger = Ledger(
                start=np.empty(n, dtype=np.intp),
                length=np.empty(n, dtype=np.intp),
                rows=np.empty(16 * n, dtype=np.intp),
                coefs=np.empty(16 * n),
                residuals=np.empty(n),
                used=np.zeros(1, dtype=np.intp),
            )
            self.scratch = Scratch(np.empty(n), np.empty(n, dtype=np.intp))

    def enlarge_block(self) -> None:
        old = self.members.packed
        size = self.members.size[0]
        packed = empty_block(-(-3 * size // (2 * LANE)) * LANE, old.dtype)
        packed[:size, :size] = old[:size, :size]
        self.members = self.members._replace(packed=packed)

    def lengthen_ledger(self) -> None:
        ledger = self.ledger
        self.ledger = ledger._replace(
            rows=np.concatenate([ledger.rows, np.empty_like(ledger.rows)]),
            coefs=np.concatenate([ledger.coefs, np.empty_like(ledger.coefs)]),
        )


def empty_block(side: int, dtype: np.dtype) -> NDArray:
    """Room for the Gram block of ``side`` members: compact, it stays in cache.

    Eight more columns, since at a stride of a power of two rows would evict each other. One
    more row, of zeros: the place from which a combination is started.
    """
    return np.zeros((side + 1, side + 8), dtype=dtype)


@jit
def join(gram, packed, diag, rows, place, count, i):
    last = count[0]
    for t in range(last):
        k = gram[i, rows[t]]
        packed[last, t] = k
        packed[t, last] = k
    packed[last, last] = gram[i, i]
    diag[last] = gram[i, i]
    rows[last] = i
    place[i] = last
    count[0] = last + 1


@jit
def leave(packed, diag, rows, place, count, i):
    """The last member takes the place of the one that leaves."""
    last = count[0] - 1
    at = place[i]
    for t in range(last + 1):
        packed[at, t] = packed[last, t]
    for t in range(last + 1):
        packed[t, at] = packed[t, last]
    diag[at] = diag[last]
    rows[at] = rows[last]
    place[rows[at]] = at
    place[i] = -1
    count[0] = last


@jit
def record(rows, start, length, leans_on, coefs, used, mu, support, size, i):
    first = used[0]
    start[i] = first
    length[i] = size
    for a in range(size):
        leans_on[first + a] = rows[support[a]]
        coefs[first + a] = mu[support[a]]
    used[0] = first + size


@jit
def recall(place, start, length, leans_on, coefs, mu, support, i):
    """Row i's recorded combination, without the rows that have left: size, and if intact."""
    size = 0
    total = 0.0
    for e in range(start[i], start[i] + length[i]):
        t = place[leans_on[e]]
        if t >= 0:
            support[size] = t
            mu[t] = coefs[e]
            total += coefs[e]
            size += 1
    for a in range(size):
        mu[support[a]] /= total
    return size, size == length[i]
