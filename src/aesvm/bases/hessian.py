"""The Hessian of the SVM in a span, in the coefficients of the basis and the offsets, factored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.arrays import sum_rows
from aesvm.bases.factor import Factor, cholesky_with_jitter, solve
from aesvm.bases.values import Array, gram
from aesvm.kernels.arrays import HOST, Arrays

#: Added to the Hessian's diagonal, as a share of its values, in units of rounding.
_JITTER = 16

#: An offset that no row near a kink holds is held by this share of what all rows could.
_HELD = 1e-6

#: Rows whose kernel values are copied at a time.
_ROWS = 1024

#: Steps, what the gradient changed by, and the product of both.
History = deque[tuple[Array, Array, float]]


class Curvature(NamedTuple):
    """What smoothed losses add to the Hessian; sums over rows."""

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
        """Of some rows: their kernel values with the basis, and what ``Implied`` has of them."""
        across = _across(lines, crossed, run)
        return cls(gram(lines, curvatures, run), across, np.abs(crossed).sum(axis=1))

    def plus(self, other: Curvature) -> Curvature:
        return Curvature(*(one + more for one, more in zip(self, other, strict=True)))


@singledispatch
def _across(lines: Any, crossed: Any, run: Callable) -> Any:
    """``crossed @ lines`` in double precision, on a device."""
    return np.stack([sum_rows(lines, None, own) for own in crossed])


@_across.register(np.ndarray)
def _(lines: NDArray, crossed: Array, run: Callable) -> Array:
    def some(first: int) -> Array:
        here = slice(first, first + _ROWS)
        return crossed[:, here] @ lines[here].astype(np.float64)

    across = np.zeros((len(crossed), lines.shape[1]))
    for part in run(some, range(0, len(lines), _ROWS)):
        across += part
    return across


def factor_of(within: Array, curvature: Curvature, steepest: float, run: Callable = map) -> Any:
    """The lower Cholesky factor of the Hessian.

    Parameters
    ----------
    within : ndarray
        Kernel values of the basis.
    curvature : Curvature
        Of the losses.
    steepest : float
        What the corner would be if every row were near a kink.
    run : callable, default=map
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.hessian import Curvature, factor_of
    >>> bent = Curvature(np.array([[3.0]]), np.array([[0.0]]), np.array([9.0]))
    >>> factor_of(np.array([[1.0]]), bent, 9.0).round(6)
    array([[2., 0.],
           [0., 3.]])
    """
    n, n_offsets = curvature.crossed.shape[::-1]
    hessian = np.zeros_like(curvature.within, shape=(n + n_offsets, n + n_offsets), order="C")
    hessian[:n, :n] = within + curvature.within
    hessian[n:, :n], hessian[:n, n:] = curvature.crossed, curvature.crossed.T
    low = _HELD * max(steepest, 1e-300)
    hessian.reshape(-1)[:: n + n_offsets + 1][n:] = np.maximum(curvature.corner, low)
    jitter = _JITTER * float(np.finfo(np.float64).eps) * np.diag(hessian)
    return cholesky_with_jitter(hessian, jitter, run)


def two_loops(gradient: Array, history: History, factor: Factor) -> Array:
    """The inverse Hessian times the gradient (L-BFGS).

    The Hessian is what a factor says, but for what steps have shown since.
    """
    left = gradient.copy()
    shares = []
    for moved, change, inner in reversed(history):
        share = (moved @ left) / inner  # of a device, without waiting for it
        left -= share * change
        shares.append(share)
    result = solve(factor, left)
    for (moved, change, inner), share in zip(history, reversed(shares), strict=True):
        result += (share - (change @ result) / inner) * moved
    return result
