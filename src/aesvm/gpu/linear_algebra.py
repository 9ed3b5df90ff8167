"""Linear algebra of device arrays by CuPy, where NumPy's functions do not dispatch to it.

Nothing here is for arrays of the host, and nothing waits for a result but a Cholesky factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aesvm.gpu import cuda

#: Threads of a block, columns of each (as in ``rows.cu``), and blocks that fill a large GPU.
_THREADS, _COLUMNS, _ENOUGH_BLOCKS = 128, 4, 2048

#: Rows that a block adds up, at least.
_LEAST_RUN = 32


def cholesky(matrix: Any) -> Any:
    """The lower Cholesky factor; numpy's LinAlgError where there is none."""
    import cupy
    import cupyx

    with cupyx.errstate(linalg="raise"):
        factor = cupy.linalg.cholesky(matrix)
    if not bool(cupy.isfinite(factor.diagonal()).all()):
        raise np.linalg.LinAlgError("the matrix is not positive definite.")
    return factor


def solve_triangular(factor: Any, values: Any) -> Any:
    """The solution of the system of a lower factor, of one right-hand side or several columns."""
    from cupyx.scipy.linalg import solve_triangular

    return solve_triangular(factor, values, lower=True)


def product(matrix: Any, vector: Any) -> Any:
    """A matrix times a vector, both of one precision."""
    import cupy
    from cupy import cublas

    if not matrix.size:
        return cupy.zeros(len(matrix), dtype=matrix.dtype)
    out = cupy.empty(len(matrix), dtype=matrix.dtype)
    cublas.gemv("N", 1.0, matrix, _contiguous(vector), 0.0, out)  # which looks at no strides
    return out


def sum_rows(matrix: Any, numbers: Any, weights: Any) -> Any:
    """``sum_m weights[m] matrix[numbers[m]]``, in double precision.

    Parameters
    ----------
    matrix : array of float32 or float64
        Its rows lie one after another.
    numbers : array of int64, or None
        Which rows; None: all, in order.
    weights : array of float64
    """
    n_rows, n_columns = len(weights), matrix.shape[1]
    if not n_rows or not n_columns:
        return np.zeros_like(weights, shape=n_columns)
    matrix, weights = _contiguous(matrix), _contiguous(weights)
    across = -(-n_columns // (_THREADS * _COLUMNS))
    run = max(_LEAST_RUN, -(-n_rows * across // _ENOUGH_BLOCKS))
    down = -(-n_rows // run)
    parts = np.empty_like(weights, shape=(down, n_columns))
    cuda.compiled("rows.cu", f"REAL={cuda.real_name(matrix.dtype)}").get_function("sum_rows")(
        (across, down),
        (_THREADS,),
        (
            matrix,
            np.int64(n_columns),
            np.uintp(0) if numbers is None else numbers,
            weights,
            np.int64(n_rows),
            np.int64(run),
            parts,
        ),
    )
    return parts.sum(axis=0)


def _contiguous(values: Any) -> Any:
    return values if values.flags.c_contiguous else values.copy()
