"""Kernel space in which functions differ by how they do at some rows, the points.

Its kernel is

    k(x, z) + sum_p c_p(x) c_p(z) / unit,    c_p(x) = k(p, x) - mean_q k(q, x),

so that the squared norm of a function g is ``|g|^2 + sum_p (g(p) - mean_q g(q))^2 / unit``: a
constant is left to the offset. The unit is such that both parts count the same over the rows.

Where vectors are far apart, the function in kernel space that is nearest to another may differ from
it nearly everywhere; vectors that are chosen here are those that matter at the points as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.values import Array
from aesvm.kernels import Columns, KernelMatrix

#: Rows whose values at the points are computed at a time.
_ROWS = 2048


class SeenKernel(KernelMatrix):
    """The kernel matrix of some rows in this space.

    Parameters
    ----------
    kernel : KernelMatrix
        In double precision.
    rows : ndarray
        Rows of the kernel matrix, ascending: others have no values here.
    points : ndarray
        Rows of the kernel matrix at which functions are compared.
    run : callable, default=map
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.seen import SeenKernel
    >>> from aesvm.kernels import kernel_matrix
    >>> kernel = kernel_matrix(np.array([[-1.0], [1.0]]), kernel="linear")
    >>> SeenKernel(kernel, np.arange(2), np.arange(2)).square(np.arange(2))
    array([[ 2., -2.],
           [-2.,  2.]])
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        points: NDArray[np.intp],
        run: Callable = map,
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self.n_rows = kernel.n_rows
        self.dtype = kernel.dtype
        self.point_rows = points
        self.at_points = np.empty((len(rows), len(points)))

        def piece(first: int) -> None:
            part = rows[first : first + _ROWS]
            self.at_points[first : first + _ROWS] = _centred(kernel.block(part, points))

        list(run(piece, range(0, len(rows), _ROWS)))
        total = float(np.square(self.at_points).sum())
        self.unit = total / float(np.sum(kernel.diag(rows))) if total > 0 else 1.0
        self.at_points /= np.sqrt(self.unit)

    def values(self, scores: Array, at_points: Array) -> Array:
        """Of functions, their inner products here with the rows.

        ``scores`` are those in kernel space, and ``at_points`` their values at the points.
        """
        seen = (at_points - at_points.mean(axis=0)) / np.sqrt(self.unit)
        return scores + self.at_points @ seen

    def squared_norms(self, squared: Array, at_points: Array) -> Array:
        """Of functions, whose squared norms in kernel space and values at the points are given."""
        return squared + np.square(at_points - at_points.mean(axis=0)).sum(axis=0) / self.unit

    def square(self, rows, out=None):
        values = self.kernel.square(rows, out=out)
        own = self.seen(rows)
        values += own @ own.T
        return values

    def columns(self, rows):
        return _SeenColumns(self, self.kernel.columns(rows), self.seen(rows))

    def diag(self, rows):
        return self.kernel.diag(rows) + np.square(self.seen(rows)).sum(axis=1)

    def bound(self, rows):
        return float(self.diag(rows).max(initial=0.0))

    def seen(self, rows: NDArray[np.intp]) -> Array:
        """The part of rows that the points see."""
        return self.at_points[np.searchsorted(self.rows, rows)]


class _SeenColumns(Columns):
    def __init__(self, kernel: SeenKernel, own: Columns, seen: Array) -> None:
        self.kernel = kernel
        self.own = own
        self.seen = seen
        self.dtype = kernel.dtype

    def __len__(self):
        return len(self.own)

    def take(self, positions):
        return _SeenColumns(self.kernel, self.own.take(positions), self.seen[positions])

    def lines(self, rows):
        return self.own.lines(rows), self.kernel.seen(rows)

    def new_lines(self, X_new):
        seen = _centred(self.kernel.kernel.cross(X_new, self.kernel.point_rows))
        return self.own.new_lines(X_new), seen / np.sqrt(self.kernel.unit)

    def write(self, lines, start, stop, out):
        own, seen = lines
        self.own.write(own, start, stop, out)
        out += seen @ self.seen[start:stop].T


def _centred(values: NDArray) -> Array:
    """Values at the points, less their mean."""
    return values.astype(np.float64) - values.mean(axis=1, keepdims=True, dtype=np.float64)
