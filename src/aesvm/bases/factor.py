"""Cholesky factors of large matrices, on threads; their digits do not depend on how many."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from aesvm.bases.arrays import times
from aesvm.bases.values import Array
from aesvm.gpu import linear_algebra
from aesvm.runtime.cached import cached_property

#: Columns that are factored together, and rows that a thread brings up to date at a time.
_COLUMNS, _ROWS = 256, 512

#: How often a diagonal is made larger.
_TRIES = 16


class FactorThere:
    """The lower Cholesky factor of a matrix on a device.

    A triangular system with one right-hand side takes a device as long as hundreds of products with
    the inverse of the factor, which is therefore made where systems are to be solved.
    """

    def __init__(self, lower: Any) -> None:
        self.lower = lower

    @cached_property
    def inverse(self) -> Any:
        every = np.zeros_like(self.lower)
        np.fill_diagonal(every, 1.0)
        return linear_algebra.solve_triangular(self.lower, every)


#: A lower Cholesky factor, of a matrix on the host or on a device.
Factor = Array | FactorThere


@singledispatch
def factor_of_lower(lower: Any) -> Any:
    """A lower Cholesky factor that is known."""
    return FactorThere(lower)


@factor_of_lower.register(np.ndarray)
def _(lower: Array) -> Array:
    return lower


@singledispatch
def cholesky(matrix: Any, run: Callable = map) -> Any:
    """The lower Cholesky factor; numpy's LinAlgError where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import cholesky
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    return FactorThere(linear_algebra.cholesky(matrix))


@cholesky.register(np.ndarray)
def _(matrix: Array, run: Callable = map) -> Array:
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


def cholesky_with_jitter(matrix: Array, jitter: Array, run: Callable = map) -> Any:
    """The lower Cholesky factor of a matrix, and if need be of one with a larger diagonal.

    Parameters
    ----------
    matrix : ndarray
        Positive definite, or nearly; its diagonal is changed in place.
    jitter : ndarray
        What is added to the diagonal; ten times as much whenever that was not enough.
    run : callable, default=map
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import cholesky_with_jitter
    >>> cholesky_with_jitter(np.ones((2, 2)), np.full(2, 1e-8)).round(3)
    array([[1., 0.],
           [1., 0.]])
    """
    assert matrix.flags.c_contiguous
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    for _ in range(_TRIES):
        diagonal += jitter
        with suppress(np.linalg.LinAlgError):
            return cholesky(matrix, run)
        jitter = 10.0 * jitter
    raise ValueError(
        "kernel values of the vectors are not those of a positive semidefinite kernel: scale the "
        "data, or use another kernel."
    )


def kernel_factor(within: Array, run: Callable = map) -> Any:
    """The lower Cholesky factor of the kernel values of some vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import kernel_factor
    >>> kernel_factor(np.array([[4.0, 2.0], [2.0, 5.0]])).round(9)
    array([[2., 0.],
           [1., 2.]])
    """
    jitter = float(np.finfo(np.float64).eps) * np.diag(within)
    return cholesky_with_jitter(within.copy(), jitter, run)


def solve(factor: Factor, values: Array) -> Array:
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
        return np.zeros_like(values)
    if isinstance(factor, FactorThere):
        return times(factor.inverse.T, times(factor.inverse, values))
    # in Fortran's order the factor is the transpose, an upper triangle
    half = blas.dtrsv(factor.T, values, lower=0, trans=1)
    return blas.dtrsv(factor.T, half, lower=0, trans=0)


def half_solved(factor: Factor, values: Array) -> Array:
    """The solution of the triangular system of a lower factor, for each column of values.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import half_solved
    >>> half_solved(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[4.0], [6.0]]))
    array([[2.],
           [2.]])
    """
    if isinstance(factor, FactorThere):
        return linear_algebra.solve_triangular(factor.lower, values)
    return scipy.linalg.solve_triangular(
        factor, values, lower=True, overwrite_b=True, check_finite=False
    )


@singledispatch
def product(matrix: Any, vector: Any, run: Callable = map) -> Any:
    """A symmetric matrix times a vector.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.factor import product
    >>> product(np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([1.0, 1.0]))
    array([6., 7.])
    """
    return times(matrix, vector)


@product.register(np.ndarray)
def _(matrix: Array, vector: Array, run: Callable = map) -> Array:
    pieces = run(lambda top: matrix[top : top + _ROWS] @ vector, range(0, len(matrix), _ROWS))
    return np.concatenate([np.empty(0), *pieces])
