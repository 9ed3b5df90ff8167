"""Equal rows of a class, found in one pass.

Rows are hashed (a sum over the non-zero entries, so dense and sparse rows agree), sorted by
hash, and compared where hashes agree: the hash decides the speed, never the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels.blocks import cached_rows
from aesvm.runtime.jit import inlined, jit

#: Rows that are sorted at once, and not in parts on several threads.
_FEW = 1 << 16


def distinct_rows(
    X, labels: NDArray[np.intp], run: Callable = map, hashes: NDArray[np.uint64] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First occurrence of every distinct (row, label) pair, and where each row went.

    Rows with different labels are never equal. ``hashes``: of the rows (``row_hashes``), where they
    are known. Returns ``first``, row numbers, ascending, and ``inverse``: ``X[first[inverse]]``
    equals ``X``.
    """
    of_rows = row_hashes(X, run) if hashes is None else hashes
    hashes = of_rows + labels.astype(np.uint64) * hash_keys(1)
    head = np.empty(len(hashes), dtype=np.intp)  # the first row equal to each row

    def find(bucket: int) -> None:
        rows = np.flatnonzero(hashes >> np.uint64(60) == bucket)
        head[rows] = _first_equal(X, labels, rows, hashes[rows], run)

    if len(hashes) <= _FEW:
        head[...] = _first_equal(X, labels, np.arange(len(hashes)), hashes, run)
    else:
        for _ in run(find, range(16)):
            pass
    first = np.flatnonzero(head == np.arange(len(head)))
    number = np.empty(len(head), dtype=np.intp)
    number[first] = np.arange(len(first))
    return first, number[head]


def _first_equal(
    X,
    labels: NDArray[np.intp],
    rows: NDArray[np.intp],
    hashes: NDArray[np.uint64],
    run: Callable,
) -> NDArray[np.intp]:
    """For each of the rows the first one equal to it."""
    order = np.argsort(hashes)  # which is several times as fast as a stable sort
    ordered = hashes[order]
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = np.concatenate([[0], changes, [len(rows)]])
    head = np.empty(len(rows), dtype=np.intp)  # in the beginning, the first of the same hash
    if len(rows):
        head[order] = np.repeat(np.minimum.reduceat(order, starts[:-1]), np.diff(starts))
    pending = np.flatnonzero(head != np.arange(len(head)))
    while pending.size:
        here, there = rows[pending], rows[head[pending]]
        pending = pending[(labels[here] != labels[there]) | _differ(X, here, there, run)]
        # the first that differs from its head heads the others of its hash in turn
        _, at, group = np.unique(head[pending], return_index=True, return_inverse=True)
        head[pending] = pending[at[group]]
        pending = pending[head[pending] != pending]
    return rows[head]


def hash_keys(size: int) -> NDArray[np.uint64]:
    """The keys of the first ``size`` numbers, which are odd."""
    return _FIRST_KEYS[:size].copy() if size <= len(_FIRST_KEYS) else _key_of(np.arange(size))


def row_hashes(X, run: Callable = map) -> NDArray[np.uint64]:
    """A number for each row, the same for equal rows."""
    hashes = np.empty(X.shape[0], dtype=np.uint64)
    if sp.issparse(X):
        _hash_sparse(bits_of(X.data), X.indices, X.indptr, hashes)
        return hashes
    keys = hash_keys(X.shape[1])
    step = cached_rows(8 * X.shape[1])

    def hash_from(start: int) -> None:
        part = slice(start, start + step)
        _hash_dense(bits_of(X[part]), keys, hashes[part])

    for _ in run(hash_from, range(0, X.shape[0], step)):
        pass
    return hashes


def bits_of(values: NDArray) -> NDArray[np.uint64]:
    # adding zero turns -0.0 into 0.0
    return np.add(values, 0.0, dtype=np.float64).view(np.uint64)


@jit
def _hash_dense(bits, keys, hashes):
    for i in range(hashes.size):
        total = np.uint64(0)
        for f in range(keys.size):
            total += _mix(bits[i, f], keys[f])
        hashes[i] = total


@jit
def _hash_sparse(bits, indices, indptr, hashes):
    for i in range(hashes.size):
        total = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += _mix(bits[e], _key(indices[e]))
        hashes[i] = total


def _key_of(feature):
    """An odd number that depends on all bits of another: of SplitMix64, which has no table."""
    key = np.uint64(feature + 1) * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (key ^ (key >> np.uint64(31))) | np.uint64(1)


_key = jit(_key_of)

#: Of few numbers: to compute these takes longer than to hash few rows.
_FIRST_KEYS = _key_of(np.arange(64))


@inlined
def _mix(bits, key):
    """A number that depends on all bits, 0 for those of 0.0."""
    bits = (bits ^ (bits >> np.uint64(32))) * key
    return (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


def _differ(
    X, rows: NDArray[np.intp], others: NDArray[np.intp], run: Callable
) -> NDArray[np.bool_]:
    differs = np.empty(len(rows), dtype=bool)
    if sp.issparse(X):
        _differ_sparse(X.data, X.indices, X.indptr, rows, others, differs)
        return differs
    step = cached_rows(2 * 8 * X.shape[1])

    def compare_from(start: int) -> None:
        part = slice(start, start + step)
        differs[part] = (X[rows[part]] != X[others[part]]).any(axis=1)

    for _ in run(compare_from, range(0, len(rows), step)):
        pass
    return differs


@jit
def _differ_sparse(data, indices, indptr, rows, others, differs):
    for i in range(differs.size):
        a, end = indptr[rows[i]], indptr[rows[i] + 1]
        b, other_end = indptr[others[i]], indptr[others[i] + 1]
        while True:
            while a < end and data[a] == 0.0:
                a += 1
            while b < other_end and data[b] == 0.0:
                b += 1
            if a == end or b == other_end or indices[a] != indices[b] or data[a] != data[b]:
                break
            a += 1
            b += 1
        differs[i] = a < end or b < other_end
