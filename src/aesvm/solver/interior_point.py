"""The dual of an SVM of few variables, solved by an interior-point method.

Pair updates take ever longer as C grows. An interior-point method takes some thirty factorisations
of a matrix of all variables, whatever C is: for few variables that is less, once pair updates have
gone on for a while. With x = b - lower and w = upper - b, it solves

    Kb + q - A'y - z + v = 0,    Ab = r,    x z = mu,    w v = mu

for ever smaller mu, by Newton steps with Mehrotra's correction. A has a row for each group of
variables whose sum is held.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from aesvm.solver.free_variables import Array, factorize_in_place

#: Steps, at most; the complementarity that is enough, relative to the objective; and how much
#: smaller a step must make it.
_STEPS, _ENOUGH, _SMALLER = 80, 1e-14, 0.9

#: The fraction of the way to the boundary that a step goes.
_NEARLY = 0.995


def solve_interior(
    K: NDArray,
    linear: Array,
    coefs: Array,
    lower: Array,
    upper: Array,
    ends: NDArray[np.intp],
    is_over: Callable[[], bool] = lambda: False,
) -> Array | None:
    """Coefficients near the optimum, between their bounds.

    None where no two can move, or numbers are too large.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    linear, coefs : ndarray of shape (n,)
        The problem's q, and a feasible b, whose sums are held.
    lower, upper : ndarray of shape (n,)
        One of the bounds of each variable is zero.
    ends : ndarray of shape (n_groups,)
        Where each group ends; groups lie one after another.
    is_over : callable
        Asked before every step: whether to leave it at that.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.interior_point import solve_interior
    >>> K, q = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-1.0, 1.0])
    >>> lower, upper = np.array([0.0, -9.0]), np.array([9.0, 0.0])
    >>> solve_interior(K, q, np.zeros(2), lower, upper, np.array([2])).round(6)
    array([ 0.5, -0.5])
    """
    moves = np.flatnonzero(upper > lower)
    if len(moves) < 2:
        return None
    groups = np.searchsorted(ends, moves, side="right")
    A = (np.unique(groups)[:, None] == groups).astype(np.float64)
    with np.errstate(all="ignore"):  # numbers that overflow are found below
        found = _Iterate(
            K[np.ix_(moves, moves)].astype(np.float64),
            linear[moves],
            A,
            A @ coefs[moves],
            lower[moves],
            upper[moves],
        )
        for _ in range(_STEPS):
            before = found.complementarity
            if is_over() or found.is_enough() or not found.step():
                break
            if found.complementarity > _SMALLER * before and found.is_feasible():
                break  # rounding decides
        result = coefs.copy()
        result[moves] = found.rounded()
    return result if np.isfinite(result).all() else None


class _Iterate:
    """A point inside the bounds, and its multipliers."""

    def __init__(self, K: Array, q: Array, A: Array, r: Array, lower: Array, upper: Array) -> None:
        self.K, self.q, self.A, self.r = K, q, A, r
        self.lower, self.upper, self.room = lower, upper, upper - lower
        # as far between their bounds as their sums ask for
        fraction = (r - A @ lower) / (A @ self.room)
        self.x = (A.T @ fraction).clip(0.05, 0.95) * self.room
        self.w = self.room - self.x
        slopes = self._slopes()
        size = max(float(np.abs(slopes - np.median(slopes)).mean()), 1e-8)
        self.z, self.v = np.full(len(self.x), size), np.full(len(self.x), size)
        self.y = np.full(len(A), float(np.median(slopes)))

    @property
    def b(self) -> Array:
        """The coefficients, each seen from the bound that is zero: it may be very near to that."""
        return np.where(self.lower == 0.0, self.x, -self.w)

    def _slopes(self) -> Array:
        return self.K @ self.b + self.q

    @property
    def complementarity(self) -> float:
        return float(self.x @ self.z + self.w @ self.v)

    def _dual_residual(self) -> Array:
        return self._slopes() - self.A.T @ self.y - self.z + self.v

    def is_feasible(self) -> bool:
        off = np.abs(self._dual_residual()).max()
        return bool(off <= 1e-9 * (1.0 + np.abs(self._slopes()).max()))

    def is_enough(self) -> bool:
        objective = 0.5 * float(self.b @ (self._slopes() + self.q))
        return self.complementarity <= _ENOUGH * abs(objective) and self.is_feasible()

    def step(self) -> bool:
        """Move on; False where the matrix cannot be factorised."""
        x, w, z, v, A = self.x, self.w, self.z, self.v, self.A
        n = len(x)
        dual = self._dual_residual()
        primal = self.r - A @ self.b
        matrix = self.K.copy()
        matrix[np.diag_indices(n)] += z / x + v / w
        factor = factorize_in_place(matrix)
        if factor is None:
            return False
        by_group = cho_solve(factor, A.T, check_finite=False)

        def direction(at_lower: Array, at_upper: Array) -> tuple[Array, Array, Array, Array]:
            """Towards ``x z + z dx + x dz = at_lower``, and the same at the upper bounds."""
            right = -dual + (at_lower - x * z) / x - (at_upper - w * v) / w
            towards = cho_solve(factor, right, check_finite=False)
            dy = np.linalg.lstsq(A @ by_group, primal - A @ towards, rcond=None)[0]
            dx = towards + by_group @ dy
            return dx, dy, (at_lower - x * z - z * dx) / x, (at_upper - w * v + v * dx) / w

        mu = float(x @ z + w @ v) / (2 * n)
        nothing = np.zeros(n)
        dx, _, dz, dv = direction(nothing, nothing)
        a, b = _longest((x, dx), (w, -dx)), _longest((z, dz), (v, dv))
        after = float((x + a * dx) @ (z + b * dz) + (w - a * dx) @ (v + b * dv)) / (2 * n)
        target = mu * (after / mu) ** 3
        dx, dy, dz, dv = direction(target - dx * dz, target + dx * dv)
        if not (np.isfinite(dx).all() and np.isfinite(dz).all() and np.isfinite(dv).all()):
            return False
        a = min(1.0, _NEARLY * _longest((x, dx), (w, -dx), (z, dz), (v, dv)))
        self.x, self.w = x + a * dx, w - a * dx
        self.y, self.z, self.v = self.y + a * dy, z + a * dz, v + a * dv
        return True

    def rounded(self) -> Array:
        """Variables at the bounds that multipliers hold them at; sums as they are to be."""
        # one of x and z goes to zero, the other does not: seen in the units of each
        unit = float(np.abs(self.K @ self.b).max() + np.abs(self.q).max()) + 1e-300
        at_lower = self.x / self.room < self.z / unit
        at_upper = self.w / self.room < self.v / unit
        b = np.where(at_lower, self.lower, np.where(at_upper, self.upper, self.b))
        for row, total in zip(self.A, self.r, strict=True):
            missing = total - float(row @ b)
            space = row * (self.upper - b if missing > 0.0 else b - self.lower)
            free = np.where(at_lower | at_upper, 0.0, space)
            space = free if float(free.sum()) >= abs(missing) else space
            b = b + missing * space / max(float(space.sum()), 1e-300)
        return np.clip(b, self.lower, self.upper)


def _longest(*pairs: tuple[Array, Array]) -> float:
    """The longest step, at most ``1 / _NEARLY``, that keeps all numbers positive."""
    longest = 1.0 / _NEARLY
    for values, changes in pairs:
        falls = changes < 0.0
        if falls.any():
            longest = min(longest, float((-values[falls] / changes[falls]).min()))
    return longest
