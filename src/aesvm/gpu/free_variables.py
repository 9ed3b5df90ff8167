"""A Newton step of the dual in all free variables, on a device.

It is that of ``solver.free_variables``, which says what it is for: there in the variables of a
working set, here in all that are in play and strictly between their bounds. A device factorises a
matrix of some thousands of them in the time of some thousand pair updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

#: How often variables are pinned, at most.
_PINNINGS = 10

#: The diagonal is raised by as much as rounding of n x n values may lower eigenvalues, then tenfold
#: each time, until the matrix can be factorised: so often at most.
_RAISE, _RAISES = 10.0, 5


@dataclass
class FreeVariables:
    """The problem in free variables alone: ``1/2 d'Kd + f'd``, the sum of d over each group zero.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.gpu.free_variables import FreeVariables
    >>> far = np.full(2, 9.0)
    >>> free = FreeVariables(np, np.linalg.solve, np.eye(2), np.array([1.5, -0.5]), -far, far,
    ...                      [np.ones(2)], 1e-16)
    >>> free.best_change()
    (array([-1.,  1.]), 1.0)
    """

    xp: Any  #: the namespace of the arrays
    solve: Any  #: a positive definite matrix and right-hand sides to solutions, or a LinAlgError
    K: Any  #: float64, of shape (n, n)
    slopes: Any  #: the f
    low: Any  #: by how much each may change: these are negative
    high: Any  #: and these positive
    groups: list[Any]  #: for each group of variables, 1 where one is of it and 0 elsewhere
    unit: float  #: relative rounding of K

    def best_change(self) -> tuple[Any, float]:
        """A change that lowers the objective, within bounds, and by how much; None and 0: none."""
        xp = self.xp
        first = self._minimum(xp.zeros_like(self.slopes), xp.ones(len(self.slopes), dtype=bool))
        if first is None:
            return None, 0.0
        for change in (self._within(first), first):
            step, fall = (0.0, 0.0) if change is None else self._step(change)
            if fall > 0.0:
                return xp.minimum(xp.maximum(step * change, self.low), self.high), fall
        return None, 0.0

    def _step(self, change: Any) -> tuple[float, float]:
        """The best step along a change, up to the first bound, and what it lowers."""
        xp = self.xp
        linear, curvature = float(change @ self.slopes), float(change @ (self.K @ change))
        if not linear < 0.0:
            return 0.0, 0.0
        room = xp.where(change < 0.0, self.low, self.high) / xp.where(change == 0.0, 1.0, change)
        step = min(1.0, float(xp.where(change == 0.0, xp.inf, room).min()))
        if curvature > 0.0:
            step = min(step, -linear / curvature)
        return step, -step * (linear + 0.5 * step * curvature)

    def _within(self, change: Any) -> Any:
        """A change within bounds, variables pinned to them; None where none was found."""
        xp = self.xp
        moves = xp.ones(len(change), dtype=bool)
        for _ in range(_PINNINGS):
            leaves = moves & ((change < self.low) | (change > self.high))
            if not bool(leaves.any()):
                return change
            moves = moves & ~leaves
            ends = xp.minimum(xp.maximum(change, self.low), self.high)
            pins = xp.where(leaves, ends, xp.where(moves, 0.0, change))
            change = self._minimum(pins, moves)
            if change is None:
                return None
        return None

    def _minimum(self, pins: Any, moves: Any) -> Any:
        """The change of least objective in those that move; the others change as pinned."""
        xp = self.xp
        at = xp.flatnonzero(moves)
        own = [group[at] for group in self.groups]
        sizes = [float(group.sum()) for group in own]
        if not all(sizes):  # a group has none left to make up for those that are pinned
            return None
        right = (self.slopes + self.K @ pins)[at]
        solved = self._solved(self.K[at][:, at], xp.stack([-right, *own], axis=1))
        if solved is None:
            return None
        sums = np.array([[float(group @ column) for column in solved.T] for group in own])
        pinned = [float(group @ pins) for group in self.groups]
        try:
            multipliers = np.linalg.solve(sums[:, 1:], sums[:, 0] + pinned).tolist()
        except np.linalg.LinAlgError:
            return None
        found = solved[:, 0]
        for multiplier, column in zip(multipliers, solved.T[1:], strict=True):
            found = found - multiplier * column
        # sums stay as they are, whatever is left of them where the matrix is ill-conditioned
        for group, size, held in zip(own, sizes, pinned, strict=True):
            found = found - ((float(group @ found) + held) / size) * group
        change = pins.copy()
        change[at] = found
        return change if bool(xp.isfinite(change).all()) else None

    def _solved(self, matrix: Any, right: Any) -> Any:
        """The solutions of a system, its diagonal raised; None where no raise is enough.

        The matrix is written to.
        """
        n = len(matrix)
        every = self.xp.arange(n)
        diagonal = matrix.diagonal().copy()
        raised = self.unit * sqrt(n)
        for _ in range(_RAISES):
            matrix[every, every] = diagonal * (1.0 + raised)
            try:
                return self.solve(matrix, right)
            except np.linalg.LinAlgError:
                raised *= _RAISE
        return None
