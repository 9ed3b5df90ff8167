"""Kernel expansions ``sum_t c_t k(x_t, x)`` of many new rows: what prediction computes.

New rows are taken in pieces, one to a thread at a time, and each against a few hundred columns
at once, so that a block of kernel values never leaves the core's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels import Columns

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
        block = np.empty(n_lines * _COLUMNS, dtype=columns.dtype)
        for segment in range(n_segments):
            for start in range(edges[segment], edges[segment + 1], _COLUMNS):
                stop = min(start + _COLUMNS, edges[segment + 1])
                values = block[: n_lines * (stop - start)].reshape(n_lines, stop - start)
                columns.write(lines, start, stop, values)
                sums[:, segment] += values @ coefs[start:stop]
        return combine(sums)

    if sp.issparse(X_new):
        X_new = sp.csr_array(X_new)
    return np.concatenate(list(run(piece, range(0, X_new.shape[0], _LINES))))
