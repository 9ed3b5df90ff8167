"""Approximate extreme points of a batch of subsets, on the device.

The mathematics is that of ``sets.hull``, the bound of every residual included. A thread block
reduces each subset (``hull.cu``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu import cuda
from aesvm.gpu.devices import Device
from aesvm.sets.hull import ABSORB_MOVES, ABSORB_PATIENCE, CHECK_MOVES, CHECK_PATIENCE

#: Threads of a block, a multiple of 32 and at most 256: two members to a thread where a subset of
#: 1,000 rows keeps a quarter of them.
THREADS = 128

#: Entries of the ledger per row; a subset that needs more is reduced once more. The last is enough
#: for any: a combination has at most one entry more than moves made since the row was first seen,
#: and is written down at most once in each of three phases.
_ENTRIES = 16, 64, 3 * (ABSORB_MOVES + 2 * CHECK_MOVES + 1)

#: What becomes of a subset, as ``hull.cu`` numbers it: anything else must be done again.
_DONE = 0

#: Shared memory that a block has without being asked, less what ``hull.cu`` declares.
_SHARED_BYTES = 49_152 - 4_096


class Hulls(NamedTuple):
    """Reduced subsets, rows by position in them; arrays of the host.

    Rows beyond the size of a subset are not selected, and lean on nothing.
    """

    selected: NDArray[np.bool_]  #: of shape (n_subsets, n)
    weights: NDArray[np.float64]  #: what each representative stands for, of shape (n_subsets, n)
    residuals: NDArray[np.float64]  #: of shape (n_subsets, n)
    combinations: Combinations | None


class Combinations(NamedTuple):
    """What each row leans on: itself alone, where it is selected. Subset after subset."""

    lengths: NDArray[np.intp]  #: entries of each row, of shape (n_subsets, n)
    indices: NDArray[np.intp]  #: positions in its subset
    coefs: NDArray[np.float64]


def most_rows(dtype: np.dtype) -> int:
    """Rows of the largest subset that a thread block can reduce."""
    return _SHARED_BYTES // _shared_bytes_per_row(np.dtype(dtype))


def subset_bytes(n: int) -> int:
    """Bytes on the device that a subset of n rows takes, its Gram block aside."""
    return n * (_ENTRIES[0] * 12 + 64)


def reduce_batch(
    device: Device,
    gram: Any,
    sizes: NDArray,
    weights: Any,
    tol: float,
    keep_combinations: bool,
    threads: int = THREADS,
) -> Hulls:
    """Select rows of each subset whose hull in kernel space is within ``tol`` of every row.

    Parameters
    ----------
    device : Device
    gram : array of shape (n_subsets, n, n)
        Kernel matrices of the subsets, float32 or float64, C-contiguous; n is even.
    sizes : ndarray of shape (n_subsets,)
        How many of the n rows each subset has, at least one.
    weights : array of shape (n_subsets, n)
        Of rows: representatives are given those of the rows that lean on them.
    tol : float
        Largest squared distance allowed between a row and its convex combination.
    keep_combinations : bool
    threads : int, default=THREADS
        Of a thread block.
    """
    xp = device.xp
    n_subsets, n, _ = gram.shape
    sizes = device.array(sizes, dtype=np.int32)
    weights = device.array(weights, dtype=np.float64)
    selected = xp.zeros((n_subsets, n), dtype=np.int32)
    residuals, sums = xp.zeros((2, n_subsets, n))
    parts = []
    left = np.arange(n_subsets)
    for entries in _ENTRIES:
        # as many subsets at a time as need no more memory than all of them with the first ledgers
        most = max(1, n_subsets * _ENTRIES[0] // entries)
        unfinished = []
        for first in range(0, len(left), most):
            batch = left[first : first + most]
            at = slice(None) if len(batch) == n_subsets else device.array(batch)
            work = _Work.of(xp, len(batch), n, entries * n)
            answers = _launch(device, gram[at], sizes[at], weights[at], tol, work, threads)
            selected[at], residuals[at], sums[at] = work.selected, work.residuals, work.sums
            if keep_combinations:
                parts.append((batch[answers == _DONE], _combinations(device, work, answers)))
            del work  # before that of the next batch is made
            unfinished.append(batch[answers != _DONE])
        left = np.concatenate(unfinished)
        if not len(left):
            break
    assert not len(left)
    combinations = _joined(parts) if keep_combinations else None
    chosen = device.to_host(selected.astype(bool))
    return Hulls(chosen, device.to_host(sums), device.to_host(residuals), combinations)


def _shared_bytes_per_row(dtype: np.dtype) -> int:
    """Shared memory per row: a position and a place, and two kernel values or two doubles."""
    return 8 + max(8, 2 * dtype.itemsize)


class _Work(NamedTuple):
    """What a launch writes; see ``find_extreme_points`` of ``hull.cu``."""

    ledger_rows: Any
    ledger_coefs: Any
    start: Any
    length: Any
    order: Any
    selected: Any
    residuals: Any
    sums: Any
    answers: Any

    @classmethod
    def of(cls, xp: Any, n_subsets: int, n: int, n_entries: int) -> _Work:
        return cls(
            ledger_rows=xp.empty((n_subsets, n_entries), dtype=np.int32),
            ledger_coefs=xp.empty((n_subsets, n_entries)),
            start=xp.zeros((n_subsets, n), dtype=np.int32),
            length=xp.zeros((n_subsets, n), dtype=np.int32),
            order=xp.zeros((n_subsets, n), dtype=np.int32),
            selected=xp.zeros((n_subsets, n), dtype=np.int32),
            residuals=xp.zeros((n_subsets, n)),
            sums=xp.zeros((n_subsets, n)),
            answers=xp.zeros(n_subsets, dtype=np.int32),
        )


def _launch(
    device: Device,
    gram: Any,
    sizes: Any,
    weights: Any,
    tol: float,
    work: _Work,
    threads: int,
) -> NDArray:
    """What became of each subset."""
    n_subsets, n, _ = gram.shape
    definitions = f"REAL={cuda.real_name(gram.dtype)}", f"THREADS={threads}"
    cuda.compiled("hull.cu", *definitions).get_function("find_extreme_points")(
        (n_subsets,),
        (threads,),
        (
            gram,
            sizes,
            weights,
            np.int32(n),
            np.int32(work.ledger_rows.shape[1]),
            np.float64(tol),
            np.int32(ABSORB_MOVES),
            np.float64(ABSORB_PATIENCE),
            np.int32(CHECK_MOVES),
            np.float64(CHECK_PATIENCE),
            *work,
        ),
        shared_mem=n * _shared_bytes_per_row(gram.dtype),
    )
    return device.to_host(work.answers)


def _combinations(device: Device, work: _Work, answers: NDArray) -> Combinations:
    """Those of the subsets that are done."""
    xp = device.xp
    n = work.length.shape[1]
    done = answers == _DONE
    lengths = (work.length + work.selected) * device.array(done)[:, None]
    counts = lengths.ravel().astype(np.int64)
    ends = xp.cumsum(counts)
    every = xp.arange(int(ends[-1]))
    owner = xp.searchsorted(ends, every, side="right")
    subset = owner // n
    places = work.start.ravel()[owner] + every - (ends - counts)[owner]
    places += subset * work.ledger_rows.shape[1]
    itself = work.selected.ravel()[owner] != 0  # and nothing of it is in the ledger
    places = xp.where(itself, 0, places)
    indices = xp.where(itself, owner - subset * n, work.ledger_rows.ravel()[places])
    coefs = xp.where(itself, 1.0, work.ledger_coefs.ravel()[places])
    found = device.to_host(lengths.astype(np.intp))[done]
    return Combinations(found, device.to_host(indices), device.to_host(coefs))


def _joined(parts: list[tuple[NDArray, Combinations]]) -> Combinations:
    """All subsets' entries, of some subsets each, whose numbers are given."""
    if len(parts) == 1:
        return parts[0][1]
    own = {}
    for numbers, (lengths, indices, coefs) in parts:
        ends = np.cumsum(lengths.sum(axis=1))
        for number, line, end in zip(numbers, lengths, ends, strict=True):
            part = slice(end - line.sum(), end)
            own[number] = Combinations(line, indices[part], coefs[part])
    every = [own[number] for number in sorted(own)]
    return Combinations(
        np.stack([one.lengths for one in every]),
        np.concatenate([one.indices for one in every]),
        np.concatenate([one.coefs for one in every]),
    )
