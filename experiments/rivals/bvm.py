"""The ball vector machine: any ball of a given radius that encloses the rows.

The smallest ball (``ball_kernel``) has about the radius ``r = sqrt(Q_ii)``. With that radius
fixed there is no program to solve: as long as a row lies further than ``(1 + epsilon) r`` from
the centre, the centre moves straight towards it until the row lies on the ball, ``c <- b c +
(1 - b) x`` with ``b = r / |c - x|``. The centre is a combination of the rows it was moved to. (An
extra coordinate, in which only the centre differs from zero and which falls with every move,
makes sure that a ball of this radius exists; Tsang, Kocsor and Kwok, "Simpler Core Vector
Machines with Enclosing Balls", ICML 2007.)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit
from aesvm.solver.row_cache import RowCache
from experiments.rivals.ball_kernel import (
    DRAWS,
    SAMPLE,
    BallKernel,
    BallSVM,
    Sampler,
    expansion,
)
from experiments.rivals.base import CACHE_CONSTRAINTS, Expansion, Pair

#: The number of rows moved to from which on these come first, and the most moves that go to them
#: before any other row.
_MANY, _INSIDE = 400, 20

#: Moves between two steps of progress.
_STEP = 1000


@dataclass(kw_only=True, eq=False, repr=False)
class BVM(BallSVM):
    """Ball vector machine: the squared-hinge SVM by a ball of fixed radius.

    Parameters and attributes are those of :class:`CVM`, but for these.

    Parameters
    ----------
    max_iter : int, default=-1
        Most moves of the centre; -1 is no limit.
    cache_size : float, default=200
        Megabytes for rows of the kernel matrix.

    Attributes
    ----------
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Moves of the centre.

    Notes
    -----
    Faithful to the paper in the problem solved, the moves, the choice of the furthest of 59
    random rows, half of them of either class, and the tolerance that is approached from 0.1 by
    halves. As in the authors' program libCVM, once 400 rows have been moved to, up to 20 moves
    to one of these precede a look at any other; ten draws without a row outside end the search;
    coefficients under 1e-5 of the mean are dropped. It differs in that the distances of all
    rows are kept up to date, where libCVM computes those of the rows drawn: a row of the
    kernel matrix for every move. libCVM's rule that a row nearly equal to one moved to before is
    passed over is left out.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import BVM
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = BVM(gamma=2.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    cache_size: float = 200

    _parameter_constraints: ClassVar[dict] = {
        **BallSVM._parameter_constraints,
        "cache_size": CACHE_CONSTRAINTS["cache_size"],
    }

    def _train(self, pair: Pair) -> Expansion:
        ball = BallKernel(pair, self.C)
        sampler = Sampler(pair.signs, pair.random)
        centre = _Centre(ball, int(sampler()[0]), int(1e6 * self.cache_size))
        limit = sys.maxsize if self.max_iter == -1 else self.max_iter
        reported = 0
        for tolerance in self._tolerances(ball):
            found = True
            while found and centre.moves < limit:
                if centre.size > _MANY:
                    for _ in range(min(_INSIDE, limit - centre.moves)):
                        members = centre.members[pair.random.randint(centre.size, size=SAMPLE)]
                        centre.move_to_furthest(members, tolerance)
                draws = range(DRAWS if centre.moves < limit else 0)
                found = any(centre.move_to_furthest(sampler(), tolerance) for _ in draws)
                if centre.moves >= reported + _STEP:
                    reported = centre.moves
                    pair.progress.step("moves")
            pair.progress.say(f"epsilon {tolerance:.2g}: {centre.size} rows, {centre.moves} moves")
        return expansion(centre.alpha, pair.signs, centre.moves, centre.moves < limit)


class _Centre:
    """The centre of a ball, and how far every row is from it."""

    def __init__(self, ball: BallKernel, row: int, cache_bytes: int) -> None:
        self.radius2 = ball.diagonal
        self.columns = ball.columns(np.arange(ball.n_rows))
        self.cache = RowCache(ball.n_rows, cache_bytes, ball.dtype)
        self.members = np.empty(ball.n_rows, dtype=np.intp)
        self.size = self.moves = 0
        self.alpha = np.zeros(ball.n_rows)
        self.products = np.zeros(ball.n_rows)  # of every row with the centre
        self.norm = 0.0  # squared length of the centre
        self.extra = sqrt(ball.diagonal)  # its extra coordinate
        self._move(row, 0.0)

    def move_to_furthest(self, rows: NDArray[np.intp], epsilon: float) -> bool:
        """Move to the furthest of the rows; False where none of them lies outside."""
        row = _nearest_product(self.products, rows)
        distance = self.norm + self.radius2 - 2.0 * self.products[row] + self.extra**2
        if distance <= (1.0 + epsilon) ** 2 * self.radius2:
            return False
        self._move(row, sqrt(self.radius2 / distance))
        self.moves += 1
        return True

    def _move(self, row: int, keep: float) -> None:
        move = 1.0 - keep
        if self.alpha[row] == 0.0:
            self.members[self.size] = row
            self.size += 1
        self.norm = (
            keep**2 * self.norm + 2.0 * keep * move * self.products[row] + move**2 * self.radius2
        )
        self.extra *= keep if self.size > 1 else 1.0
        self.alpha *= keep
        self.alpha[row] += move
        _blend(self.products, keep, self._line(row), move)

    def _line(self, row: int) -> NDArray:
        """A row of the kernel matrix, from the cache where it is there."""
        at = np.array([row])
        slot = self.cache.find(at)[0]
        if slot >= 0:
            return self.cache.rows[slot]
        line = self.columns.values(self.columns.lines(at), 1)[0]
        free = self.cache.admit(at)
        if len(free):
            self.cache.rows[free[0]] = line
        return line


@jit
def _nearest_product(products, rows):
    """The row of the smallest product: with the centre, that is the furthest."""
    best = rows[0]
    for k in range(1, rows.size):
        if products[rows[k]] < products[best]:
            best = rows[k]
    return best


@jit
def _blend(products, keep, line, move):
    for k in range(products.size):
        products[k] = keep * products[k] + move * np.float64(line[k])
