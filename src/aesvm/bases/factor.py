"""Cholesky factors of large matrices, on threads; their digits do not depend on how many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from aesvm.bases.values import Array

#: Columns that are factored together, and rows that a thread brings up to date at a time.
_COLUMNS, _ROWS = 256, 512


def cholesky(matrix: Array, run: Callable = map) -> Array:
    """The lower Cholesky factor; numpy's LinAlgError where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import cholesky
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    n = len(matrix)
    factor = np.tril(matrix)
    for first in range(0, n, _COLUMNS):
        last = min(first + _COLUMNS, n)
        corner = scipy.linalg.cholesky(
            factor[first:last, first:last], lower=True, check_finite=False
        )
        factor[first:last, first:last] = corner
        inverse, _ = lapack.dtrtri(corner, lower=1)

        def below(top: int, first: int = first, last: int = last, inverse: Array = inverse) -> None:
            part = factor[top : top + _ROWS, first:last]
            part[...] = part @ inverse.T

        def rest(top: int, first: int = first, last: int = last) -> None:
            bottom = min(top + _ROWS, n)
            factor[top:bottom, last:bottom] -= (
                factor[top:bottom, first:last] @ factor[last:bottom, first:last].T
            )

        list(run(below, range(last, n, _ROWS)))
        list(run(rest, range(last, n, _ROWS)))
    return np.tril(factor)


def solve(factor: Array, values: Array) -> Array:
    """The solution of the linear system whose matrix has a Cholesky factor.

    Two triangular systems by BLAS 2: LAPACK takes several times as long for one right-hand side.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import cholesky, solve
    >>> solve(cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    if not len(values):
        return np.empty(0)
    # in Fortran's order the factor is the transpose, an upper triangle
    half = blas.dtrsv(factor.T, values, lower=0, trans=1)
    return blas.dtrsv(factor.T, half, lower=0, trans=0)


def product(matrix: Array, vector: Array, run: Callable = map) -> Array:
    """A symmetric matrix times a vector.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import product
    >>> product(np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([1.0, 1.0]))
    array([6., 7.])
    """
    pieces = run(lambda top: matrix[top : top + _ROWS] @ vector, range(0, len(matrix), _ROWS))
    return np.concatenate([np.empty(0), *pieces])
