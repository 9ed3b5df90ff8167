"""Equal rows of a class, found in one pass.

Rows are hashed (a sum over the non-zero entries, so dense and sparse rows agree), sorted by
hash, and compared where hashes agree: the hash decides the speed, never the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_CHUNK_BYTES = 1 << 20


def distinct_rows(
    X, labels: NDArray[np.intp], run: Callable = map
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First occurrence of every distinct (row, label) pair, and where each row went.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
    labels : ndarray of shape (n,)
        Rows with different labels are never equal.
    run : callable, default=map
        ``map`` or a parallel one.

    Returns
    -------
    first : ndarray of shape (n_distinct,)
        Row indices, ascending.
    inverse : ndarray of shape (n,)
        ``X[first[inverse]]`` equals ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.distinct import distinct_rows
    >>> X = np.array([[0.0], [1.0], [0.0], [0.0]])
    >>> distinct_rows(X, np.array([0, 0, 0, 1]))
    (array([0, 1, 3]), array([0, 1, 0, 2]))
    """
    hashes = _hashes(X, run) + labels.astype(np.uint64) * _keys(1)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    # head[i]: the first row equal to row i; in the beginning, the first with its hash
    head = np.empty(len(hashes), dtype=np.intp)
    head[order] = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
    pending = np.flatnonzero(head != np.arange(len(head)))
    while pending.size:
        differs = (labels[pending] != labels[head[pending]]) | _differ(X, pending, head[pending])
        pending = pending[differs]
        # the first that differs from its head heads the others of its hash in turn
        _, at, group = np.unique(head[pending], return_index=True, return_inverse=True)
        head[pending] = pending[at[group]]
        pending = pending[head[pending] != pending]
    first = np.flatnonzero(head == np.arange(len(head)))
    number = np.empty(len(head), dtype=np.intp)
    number[first] = np.arange(len(first))
    return first, number[head]


def _keys(size: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(1, 2**63, size, dtype=np.uint64) * 2 + 1


def _mix(values: NDArray, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # adding zero turns -0.0 into 0.0, whose bits are zero and stay zero
    bits = (values.astype(np.float64, copy=False) + 0.0).view(np.uint64)
    bits ^= bits >> np.uint64(32)
    bits *= keys
    bits ^= bits >> np.uint64(29)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    return bits


def _hashes(X, run: Callable) -> NDArray[np.uint64]:
    keys = _keys(X.shape[1])
    if sp.issparse(X):
        sums = np.zeros(X.data.size + 1, dtype=np.uint64)
        np.cumsum(_mix(X.data, keys[X.indices]), out=sums[1:])
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    hashes = np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, _CHUNK_BYTES // (8 * X.shape[1]))

    def hash_from(start: int) -> None:
        part = slice(start, min(start + 16 * step, X.shape[0]))
        for at in range(part.start, part.stop, step):
            rows = slice(at, min(at + step, part.stop))
            hashes[rows] = _mix(X[rows], keys).sum(axis=1, dtype=np.uint64)

    for _ in run(hash_from, range(0, X.shape[0], 16 * step)):
        pass
    return hashes


def _differ(X, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.bool_]:
    differs = np.empty(len(rows), dtype=bool)
    step = max(1, _CHUNK_BYTES // X.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        if sp.issparse(X):
            differs[part] = np.diff((X[rows[part]] != X[others[part]]).tocsr().indptr) > 0
        else:
            differs[part] = (X[rows[part]] != X[others[part]]).any(axis=1)
    return differs
