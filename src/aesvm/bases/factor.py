"""Linear algebra of machines in a span: products, Cholesky factors, Gram matrices, Hessians.

The Hessian of F in the coefficients of the basis and the offsets is the kernel matrix of the basis
and what the smoothed losses add (``Curvature``). Digits do not depend on the number of threads.

NumPy's functions take arrays of the host and of a device. What they lack is written twice here, for
arrays of the host (``on_host``) and of a device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from aesvm.formulations.protocol import Array
from aesvm.gpu import linear_algebra
from aesvm.kernels.matrix import HOST, Arrays
from aesvm.runtime.cached import cached_property

#: Columns that are factored together, and rows that a thread brings up to date at a time.
_COLUMNS, _ROWS = 256, 512

#: How often a diagonal is made larger.
_TRIES = 16

#: Columns of a Gram matrix that are computed together, and values that a device copies in double
#: precision at a time for one.
_PANEL, _COPIED_THERE = 256, 1 << 27

#: Rows whose kernel values are converted to double precision at a time.
_CONVERTED = 1024

#: Added to the Hessian's diagonal, as a fraction of its values, in units of rounding.
_JITTER = 16

#: The least curvature in an offset, as a fraction of what it would be with all rows near a kink.
_HELD = 1e-6


def on_host(values: Any) -> bool:
    """Whether an array is of the host, and not of a device."""
    return isinstance(values, np.ndarray)


def to_host(values: Any) -> NDArray:
    """An array as one of the host."""
    return values if on_host(values) else values.get()


def times(matrix: Any, vector: Any) -> Any:
    """A matrix times a vector, both of one precision."""
    return matrix @ vector if on_host(matrix) else linear_algebra.product(matrix, vector)


class FactorThere:
    """The lower Cholesky factor of a matrix on a device.

    On a device, a triangular system with one right-hand side takes as long as hundreds of products
    with the inverse. So the inverse is computed as soon as systems are solved.
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


def factor_of_lower(lower: Any) -> Any:
    """A lower Cholesky factor that is known."""
    return lower if on_host(lower) else FactorThere(lower)


def cholesky(matrix: Any, run: Callable = map) -> Any:
    """The lower Cholesky factor; numpy's LinAlgError where there is none."""
    if not on_host(matrix):
        return FactorThere(linear_algebra.cholesky(matrix))
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
    """The lower Cholesky factor of a matrix; where there is none, its diagonal is raised.

    ``matrix``: positive definite, or nearly; its diagonal is changed in place. ``jitter``: what is
    added to the diagonal; ten times as much whenever that was not enough.

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
    """The lower Cholesky factor of the kernel values of some vectors."""
    jitter = float(np.finfo(np.float64).eps) * np.diag(within)
    return cholesky_with_jitter(within.copy(), jitter, run)


def solve(factor: Factor, values: Array) -> Array:
    """The solution of the linear system whose matrix has a Cholesky factor.

    Two triangular systems by BLAS 2: LAPACK takes several times as long for one right-hand side.
    """
    if not len(values):
        return np.zeros_like(values)
    if isinstance(factor, FactorThere):
        return times(factor.inverse.T, times(factor.inverse, values))
    # in Fortran's order the factor is the transpose, an upper triangle
    half = blas.dtrsv(factor.T, values, lower=0, trans=1)
    return blas.dtrsv(factor.T, half, lower=0, trans=0)


def half_solved(factor: Factor, values: Array) -> Array:
    """The solution of the triangular system of a lower factor, for each column of values."""
    if isinstance(factor, FactorThere):
        return linear_algebra.solve_triangular(factor.lower, values)
    return scipy.linalg.solve_triangular(
        factor, values, lower=True, overwrite_b=True, check_finite=False
    )


def product(matrix: Any, vector: Any, run: Callable = map) -> Any:
    """A symmetric matrix times a vector."""
    if not on_host(matrix):
        return times(matrix, vector)
    pieces = run(lambda top: matrix[top : top + _ROWS] @ vector, range(0, len(matrix), _ROWS))
    return np.concatenate([np.empty(0), *pieces])


def gram(lines: Any, weights: Any, run: Callable = map) -> Any:
    """``sum_i w_i k_i k_i^T`` of lines k_i, for weights that are not negative."""
    if not on_host(lines):
        return _gram_there(lines, weights)
    n_lines, n = lines.shape
    scaled, roots = np.empty(lines.shape), np.sqrt(weights)
    out = np.empty((n, n))

    def scale(first: int) -> None:
        here = slice(first, first + _PANEL)  # in double precision: tiny parts of it matter
        np.multiply(lines[here], roots[here, None], out=scaled[here])

    def block(corner: tuple[int, int]) -> None:
        one, other = (slice(first, first + _PANEL) for first in corner)
        out[one, other] = scaled[:, one].T @ scaled[:, other]
        if one != other:
            out[other, one] = out[one, other].T

    list(run(scale, range(0, n_lines, _PANEL)))
    corners = range(0, n, _PANEL)
    list(run(block, [(one, other) for one in corners for other in corners if one <= other]))
    return out


def _gram_there(lines: Any, weights: Any) -> Any:
    """The same on a device."""
    n_lines, n = lines.shape
    roots = np.sqrt(weights)
    out = np.zeros_like(roots, shape=(n, n))
    step = max(1, _COPIED_THERE // max(1, n))
    for first in range(0, n_lines, step):
        here = slice(first, first + step)
        scaled = lines[here] * roots[here, None]
        out += scaled.T @ scaled
    return out


class Curvature(NamedTuple):
    """The part of the Hessian that comes from smoothed losses, summed over rows."""

    within: Array  #: ``sum_i curvature_i k_i k_i^T``, k_i the kernel values of a row and the basis
    crossed: Array  #: (n_offsets, n_vectors): of offsets and coefficients
    corner: Array  #: (n_offsets,): of offsets

    @classmethod
    def of_nothing(cls, n_vectors: int, n_offsets: int, arrays: Arrays = HOST) -> Curvature:
        shapes = (n_vectors, n_vectors), (n_offsets, n_vectors), (n_offsets,)
        return cls(*(arrays.zeros(shape) for shape in shapes))

    @classmethod
    def of_rows(
        cls, lines: NDArray, curvatures: Array, crossed: Array, run: Callable = map
    ) -> Curvature:
        """Of some rows: their kernel values with the basis, and their ``SmoothedLosses``."""
        across = _across(lines, crossed, run)
        return cls(gram(lines, curvatures, run), across, np.abs(crossed).sum(axis=1))

    def plus(self, other: Curvature) -> Curvature:
        return Curvature(*(one + more for one, more in zip(self, other, strict=True)))


def _across(lines: Any, crossed: Any, run: Callable) -> Any:
    """``crossed @ lines`` in double precision."""
    if not on_host(lines):
        return np.stack([linear_algebra.sum_rows(lines, None, own) for own in crossed])

    def some(first: int) -> Array:
        here = slice(first, first + _CONVERTED)
        return crossed[:, here] @ lines[here].astype(np.float64)

    across = np.zeros((len(crossed), lines.shape[1]))
    for part in run(some, range(0, len(lines), _CONVERTED)):
        across += part
    return across


def hessian_factor(
    within: Array, curvature: Curvature, steepest: float, run: Callable = map
) -> Any:
    """The lower Cholesky factor of the Hessian.

    ``within``: kernel values of the basis; ``steepest``: what the corner would be if every row were
    near a kink.
    """
    n, n_offsets = curvature.crossed.shape[::-1]
    hessian = np.zeros_like(curvature.within, shape=(n + n_offsets, n + n_offsets), order="C")
    hessian[:n, :n] = within + curvature.within
    hessian[n:, :n], hessian[:n, n:] = curvature.crossed, curvature.crossed.T
    low = _HELD * max(steepest, 1e-300)
    hessian.reshape(-1)[:: n + n_offsets + 1][n:] = np.maximum(curvature.corner, low)
    jitter = _JITTER * float(np.finfo(np.float64).eps) * np.diag(hessian)
    return cholesky_with_jitter(hessian, jitter, run)
