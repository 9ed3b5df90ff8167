"""Kernel expansions ``sum_t c_t k(x_t, x)`` of many rows: what prediction computes.

Rows are taken in pieces, one to a thread at a time, and each against a few hundred columns
at once, so that a block of kernel values never leaves the core's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.jit import jit
from aesvm.kernels import Columns, KernelMatrix

_LINES, _COLUMNS = 256, 512


def expand(
    columns: Columns,
    X_new,
    edges: NDArray[np.intp],
    coefs: NDArray[np.float64],
    combine: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    run: Callable = map,
) -> NDArray[np.float64]:
    """Expansions of the new rows, in each of several segments of the columns.

    Parameters
    ----------
    columns : Columns
        The expansion's rows.
    X_new : ndarray or CSR matrix with n rows
    edges : ndarray of shape (n_segments + 1,)
        Segment s consists of columns ``edges[s]`` to ``edges[s + 1]``.
    coefs : ndarray of shape (n_columns, n_outputs)
    combine : callable
        Takes the sums of some rows, shape (rows, n_segments, n_outputs), to their result, an
        array whose first axis is the rows.
    run : callable, default=map
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.expansion import expand
    >>> from aesvm.kernels import kernel_matrix
    >>> K = kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear")
    >>> expand(
    ...     K.columns(np.arange(3)),
    ...     np.array([[1.0], [10.0]]),
    ...     np.array([0, 2, 3]),
    ...     np.array([[1.0], [1.0], [-1.0]]),
    ...     lambda sums: sums.sum(axis=(1, 2)),
    ... )
    array([0., 0.])
    """
    n_segments, n_outputs = len(edges) - 1, coefs.shape[1]

    def piece(first: int) -> Any:
        lines = columns.new_lines(X_new[first : first + _LINES])
        n_lines = min(_LINES, X_new.shape[0] - first)
        sums = np.zeros((n_lines, n_segments, n_outputs))
        for segment in range(n_segments):
            for part, values in _blocks(columns, lines, n_lines, *edges[segment : segment + 2]):
                sums[:, segment] += values @ coefs[part]
        return combine(sums)

    if sp.issparse(X_new):
        X_new = sp.csr_array(X_new)
    return np.concatenate(list(run(piece, range(0, X_new.shape[0], _LINES))))


def scores(
    kernel: KernelMatrix,
    support: NDArray[np.intp],
    coefs: NDArray[np.float64],
    rows: NDArray[np.intp],
    run: Callable = map,
) -> NDArray[np.float64]:
    """The expansion over some training rows, of others.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.expansion import scores
    >>> from aesvm.kernels import kernel_matrix
    >>> K = kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear")
    >>> scores(K, np.array([0, 2]), np.array([1.0, -1.0]), np.array([1]))
    array([-4.])
    """
    columns = kernel.columns(support)

    def piece(first: int) -> NDArray[np.float64]:
        part = rows[first : first + _LINES]
        sums = np.zeros(len(part))
        for columns_here, values in _blocks(
            columns, columns.lines(part), len(part), 0, len(support)
        ):
            _add_products(values, coefs[columns_here], sums)
        return sums

    if not len(support):
        return np.zeros(len(rows))
    pieces = list(run(piece, range(0, len(rows), _LINES)))
    return np.concatenate(pieces) if pieces else np.empty(0)


def squared_norm(
    kernel: KernelMatrix, rows: NDArray[np.intp], coefs: NDArray[np.float64], run: Callable = map
) -> float:
    """``sum_ij c_i c_j K_ij``, from half of the kernel values.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.expansion import squared_norm
    >>> from aesvm.kernels import kernel_matrix
    >>> K = kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear")
    >>> squared_norm(K, np.arange(3), np.array([1.0, 1.0, -1.0]))
    0.0
    """
    columns = kernel.columns(rows)

    def piece(first: int) -> float:
        last = min(first + _LINES, len(rows))
        n_lines = last - first
        lines = columns.lines(rows[first:last])
        here, right = np.zeros(n_lines), np.zeros(n_lines)
        for part, values in _blocks(columns, lines, n_lines, first, last):
            _add_products(values, coefs[part], here)
        for part, values in _blocks(columns, lines, n_lines, last, len(rows)):
            _add_products(values, coefs[part], right)
        return float(coefs[first:last] @ (here + 2.0 * right))

    return float(sum(run(piece, range(0, len(rows), _LINES))))


def _blocks(
    columns: Columns, lines: Any, n_lines: int, first: int, last: int
) -> Iterator[tuple[slice, NDArray]]:
    """Kernel values of the lines against columns ``first`` to ``last``, a few at a time."""
    block = np.empty(n_lines * _COLUMNS, dtype=columns.dtype)
    for start in range(first, last, _COLUMNS):
        stop = min(start + _COLUMNS, last)
        values = block[: n_lines * (stop - start)].reshape(n_lines, stop - start)
        columns.write(lines, start, stop, values)
        yield slice(start, stop), values


@jit
def _add_products(values, coefs, sums):
    """Sums += values @ coefs, added up in double precision whatever the values are in."""
    for i in range(sums.size):
        line = values[i]
        total = 0.0
        for k in range(coefs.size):
            total += coefs[k] * np.float64(line[k])
        sums[i] += total
