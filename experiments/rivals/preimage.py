"""The span of a few images, and the points by which it grows.

With the Cholesky factor L of the kernel matrix of the basis b, vectors of the span have the
coordinates ``L^-1 (v . phi(b_j))_j``, in which products are plain ones. The span grows by what it
lacks of a vector v: of the residual ``r = sum_i rho_i phi(x_i) - sum_j beta_j phi(b_j)``, where
the second sum is v's projection P v. Taking z into the basis shortens r by its gain
``(r . phi(z))^2 / |phi(z) - P phi(z)|^2``. Points are taken one by one, each for its gain after
the ones before it (matching pursuit), from a random sample of the rows with weights rho.

With the RBF kernel each is first moved to a maximum of ``|r(z)|``, ``r(z) = r . phi(z)``. There
the gradient ``2 gamma sum_i r_i k(x_i, z) (x_i - z)`` vanishes, and z is a fixed point of

    z  <-  sum_i r_i k(x_i, z) x_i / r(z),

sums over rows and basis vectors with their coefficients r (Schoelkopf et al., "Input space versus
feature space in kernel-based methods", 1999). That step is the gradient times a number of the
sign of r(z). Coefficients have both signs, so it may overshoot, and is then shortened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from aesvm.kernels import Columns, KernelMatrix

#: Rows of the pieces in which kernel values of all rows are kept.
_WIDTH = 8192

#: So few rows are kept in double precision.
_FEW = 2048

#: A point nearer to the span than this part of its squared norm adds nothing, by precision.
_LEAST = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}

#: Rows tried: the best of 59 is with 95 % among the best twentieth of all. So many draws without
#: a point to take show that there is none.
_TRIED, _TRIED_PER_POINT, _DRAWS = 59, 4, 10

#: Fixed-point steps; they end before where one raises ``|r(z)|`` by no more than this part.
_STEPS, _LEAST_RISE = 10, 1e-2

#: A step is given up when it has been shortened to this part.
_SHORTEST = 1e-2


class Subspace:
    """The span of the images of basis vectors.

    Parameters
    ----------
    kernel_of : callable
        The kernel matrix of some vectors, in a given precision.
    X : ndarray or CSR matrix of shape (n_rows, n_features)
    capacity : int
        Most basis vectors. Their kernel values with all rows are kept, in single precision
        where there are more than a few thousand rows.
    moving : bool
        Whether basis vectors are fixed points (dense vectors, of the RBF kernel), or rows.
    run : callable, default=map
        ``map`` or a parallel one.

    Attributes
    ----------
    size : int
    vectors : ndarray or CSR matrix of shape (size, n_features)
    factor : ndarray of shape (capacity, capacity)
        The first ``size`` rows and columns are the Cholesky factor of their kernel matrix.
    """

    def __init__(
        self,
        kernel_of: Callable[[Any, Any], KernelMatrix],
        X,
        capacity: int,
        moving: bool,
        run: Callable = map,
    ) -> None:
        n_rows = X.shape[0]
        dtype = np.dtype(np.float64 if n_rows <= _FEW else np.float32)
        self.kernel_of, self.run = kernel_of, run
        self.X, self.moving = X, moving
        self.columns = kernel_of(X, dtype).columns(np.arange(n_rows))
        self.parts = _batches(n_rows)
        self.values = [np.empty((capacity, p.stop - p.start), dtype=dtype) for p in self.parts]
        self.factor = np.zeros((capacity, capacity))
        self.vectors = X[:0].toarray() if moving and sp.issparse(X) else X[:0]
        self.size = 0

    def solved(self, vectors: NDArray[np.float64], transposed: bool = False) -> NDArray[np.float64]:
        """``L^-1`` or its transpose times one or more vectors."""
        if not self.size:
            return vectors
        factor = self.factor[: self.size, : self.size]
        how = "T" if transposed else "N"
        return solve_triangular(factor, vectors, lower=True, trans=how, check_finite=False)

    def coefs(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the basis vectors' images, in a vector of given coordinates."""
        return self.solved(w, transposed=True)

    def scores(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Products of a vector of given coordinates with the images of all rows."""
        coefs = self.coefs(w).astype(self.columns.dtype)
        pieces = list(self.run(lambda values: coefs @ values[: self.size], self.values))
        return np.concatenate(pieces).astype(np.float64)

    def products(self, weights: list[NDArray], first: int = 0) -> NDArray[np.float64]:
        """Combinations of all rows' images, times those of the basis vectors from the first on.

        Shape (basis vectors, combinations).
        """

        def piece(at: int) -> NDArray:
            values = self.values[at]
            block = np.array([one[self.parts[at]] for one in weights], dtype=values.dtype)
            return values[first : self.size] @ block.T

        pieces = list(self.run(piece, range(len(self.parts))))
        return np.sum(pieces, axis=0, dtype=np.float64)

    def grow(
        self,
        weights: NDArray[np.float64],
        w: NDArray[np.float64],
        n: int,
        random: np.random.RandomState,
        negligible: float = 0.0,
    ) -> bool:
        """Take in up to n points, for what the span lacks of a combination of rows.

        Parameters
        ----------
        weights : ndarray of shape (n_rows,)
            The combination's.
        w : ndarray of shape (size,)
            Coordinates of its projection.
        n : int
        random : RandomState
        negligible : float, default=0.0
            Do nothing if the squared residual is smaller, as estimated from every draw of rows.

        Returns
        -------
        grown : bool
        """
        rows = np.flatnonzero(weights)
        residual = Residual(
            Side(self.columns.take(rows), self.X[rows], weights[rows]),
            Side(self._basis(), self.vectors, -self.coefs(w)),
        )
        for _ in range(_DRAWS if len(rows) else 0):
            n_tried = min(len(rows), max(_TRIED, _TRIED_PER_POINT * n))
            tried = random.choice(rows, n_tried, replace=False)
            points = self.X[tried]
            if self.moving and sp.issparse(points):
                points = points.toarray()
            values = residual.at(points, self.run)
            chosen, factor = self._pursue(points, values, n)
            if not chosen:
                continue
            # |r|^2 = sum_i rho_i r(x_i), and no direction holds more of it than there is
            squared = len(rows) * float(np.mean(weights[tried] * values))
            if max(squared, (values[chosen[0]] / factor[0, self.size]) ** 2) <= negligible:
                continue
            points = points[chosen]
            if self.moving:
                points = np.vstack([points, fixed_points(residual, points, self.run)])
                chosen, factor = self._pursue(points, residual.at(points, self.run), n)
                points = points[chosen]
            self._append(points, factor)
            return True
        return False

    def _basis(self) -> Columns:
        return self.kernel_of(self.vectors, np.float64).columns(np.arange(self.size))

    def _pursue(self, points, values: NDArray, n: int) -> tuple[list[int], NDArray]:
        basis = self._basis()
        cross = basis.values(basis.new_lines(points), len(values)).T
        gram = self.kernel_of(points, np.float64).square(np.arange(len(values)))
        return pursue(values, self.solved(cross), gram, n, _LEAST[self.columns.dtype])

    def _append(self, points, factor: NDArray) -> None:
        first, last = self.size, self.size + points.shape[0]
        stacked = [self.vectors, points]
        self.vectors = (
            sp.csr_array(sp.vstack(stacked)) if sp.issparse(points) else np.vstack(stacked)
        )
        self.factor[first:last, :last] = factor
        self.size = last
        lines = self.columns.new_lines(_as_kind_of(self.X, points))

        def fill(at: int) -> None:
            part = self.parts[at]
            self.columns.write(lines, part.start, part.stop, self.values[at][first:last])

        list(self.run(fill, range(len(self.parts))))


class Side(NamedTuple):
    """A combination of images."""

    columns: Columns
    vectors: Any
    weights: NDArray[np.float64]


class Residual(NamedTuple):
    """A combination of rows, less its projection."""

    of_rows: Side
    of_basis: Side

    def at(self, points, run: Callable = map) -> NDArray[np.float64]:
        """``r(z)`` of each point z."""
        return np.sum([values for values, _ in self._parts(points, False, run)], axis=0)

    def pull(self, points, run: Callable = map) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``r(z)`` of each point z, and ``sum_i r_i k(x_i, z) x_i``."""
        values, pulls = zip(*self._parts(points, True, run), strict=True)
        return np.sum(values, axis=0), np.sum(pulls, axis=0)

    def _parts(self, points, pull: bool, run: Callable) -> list[tuple[NDArray, NDArray | None]]:
        lines = [side.columns.new_lines(_as_kind_of(side.vectors, points)) for side in self]

        def piece(task: tuple[int, slice]) -> tuple[NDArray, NDArray | None]:
            at, part = task
            columns, vectors, weights = self[at]
            values = np.empty((points.shape[0], part.stop - part.start), dtype=columns.dtype)
            with np.errstate(over="ignore"):  # of a distance: its kernel value is zero
                columns.write(lines[at], part.start, part.stop, values)
            values *= weights[part]
            pulls = values @ vectors[part] if pull else None
            return values.sum(axis=1, dtype=np.float64), pulls

        tasks = [(at, part) for at, side in enumerate(self) for part in _batches(len(side.weights))]
        return list(run(piece, tasks))


def fixed_points(residual: Residual, starts: NDArray, run: Callable = map) -> NDArray[np.float64]:
    """Points near the starts where ``|r(z)|`` is larger, with the RBF kernel.

    Parameters
    ----------
    residual : Residual
    starts : ndarray of shape (n, n_features)
    run : callable, default=map
        ``map`` or a parallel one.

    Returns
    -------
    points : ndarray of shape (n, n_features)
        ``|r|`` is nowhere smaller than at the start.
    """
    points = np.array(starts, dtype=np.float64)
    values, pulls = residual.pull(points, run)
    lengths = np.ones(len(points))
    moving = np.flatnonzero(values)
    for _ in range(_STEPS):
        if not len(moving):
            break
        steps = pulls[moving] / values[moving, None] - points[moving]
        trial = points[moving] + lengths[moving, None] * steps
        found, pulls_there = residual.pull(trial, run)
        rise = found / values[moving] - 1.0
        better = rise > 0.0
        at, not_at = moving[better], moving[~better]
        points[at], values[at], pulls[at] = trial[better], found[better], pulls_there[better]
        lengths[at] = np.minimum(1.0, 2.0 * lengths[at])
        lengths[not_at] *= 0.25
        moving = moving[np.where(better, rise > _LEAST_RISE, lengths[moving] > _SHORTEST)]
    return points


def pursue(
    values: NDArray[np.float64],
    coordinates: NDArray[np.float64],
    gram: NDArray[np.float64],
    n: int,
    least: float,
) -> tuple[list[int], NDArray[np.float64]]:
    """Choose up to n of some points, each for its gain after the ones before.

    Parameters
    ----------
    values : ndarray of shape (n_points,)
        ``r(z)`` of the points.
    coordinates : ndarray of shape (k, n_points)
        Of their projections onto the span.
    gram : ndarray of shape (n_points, n_points)
        Their kernel matrix.
    n : int
    least : float
        Points nearer to the span than this part of their squared norm are not chosen.

    Returns
    -------
    chosen : list of int
    factor : ndarray of shape (len(chosen), k + len(chosen))
        The rows that they add to the Cholesky factor of the basis's kernel matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.rivals.preimage import pursue
    >>> gram = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    >>> chosen, factor = pursue(np.array([1.0, 2.0, 1.0]), np.empty((0, 3)), gram, 3, 1e-6)
    >>> chosen
    [1, 0]
    """
    k, n_points = coordinates.shape
    full = np.zeros((k + n, n_points))
    full[:k] = coordinates
    values = values.copy()
    apart = gram.diagonal() - np.einsum("ij,ij->j", coordinates, coordinates)
    enough = least * np.abs(gram.diagonal())
    chosen: list[int] = []
    while len(chosen) < n:
        gains = np.divide(values**2, apart, out=np.zeros(n_points), where=apart > enough)
        best = int(gains.argmax())
        if not gains[best] > 0.0:
            break
        size = k + len(chosen)
        length = np.sqrt(apart[best])
        new = (gram[best] - full[:size, best] @ full[:size]) / length
        new[best] = length
        full[size] = new
        values -= (values[best] / length) * new
        apart -= new**2
        apart[best] = 0.0
        chosen.append(best)
    return chosen, np.tril(full[: k + len(chosen), chosen].T, k)


def _batches(n: int) -> list[slice]:
    return [slice(start, min(start + _WIDTH, n)) for start in range(0, n, _WIDTH)]


def _as_kind_of(vectors, points):
    """The points, sparse where the vectors are."""
    return sp.csr_array(points) if sp.issparse(vectors) and not sp.issparse(points) else points
