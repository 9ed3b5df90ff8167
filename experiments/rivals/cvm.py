"""The core vector machine: the smallest enclosing ball from a few rows, its core set.

The ball (``ball_kernel``) of a core set is found by a quadratic program. As long as a row lies
outside ``(1 + epsilon)`` times its radius, the furthest of a few random rows joins the set, and
the program is solved again from where it was. How large the core set can become depends on
epsilon, not on the number of rows (Tsang, Kwok and Cheung, "Core Vector Machines", JMLR 6, 2005).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aesvm.solver.pair_updates import update_pairs
from experiments.rivals.ball_kernel import (
    DRAWS,
    BallKernel,
    BallSVM,
    Sampler,
    expansion,
)
from experiments.rivals.base import Expansion, Pair
from experiments.rivals.growing_gram import GrowingGram

#: Members to begin with.
_FIRST = 20

#: The program is solved to this share of what epsilon allows.
_INNER = 0.5

#: Share of the objective that updates must still gain: less is rounding.
_NOTHING = 1e-14

#: Slopes that are moved before an interrupt is heard: a fraction of a second.
_MOVED = 100_000_000

#: Rows that join between two steps of progress.
_STEP = 100


class CVM(BallSVM):
    """Core vector machine: the squared-hinge SVM by a core set.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared losses.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        It must give every row the same ``k(x, x)``, as "rbf" does; others are refused where
        they do not.
    degree, gamma, coef0 : int, {"scale", "auto"} or float, float
        Parameters of the kernel, as in SVC.
    epsilon : float, default=None
        How far beyond the ball rows may lie, relative to its radius: 1e-12 to 1. None takes
        libCVM's
        ``(4e-6 / k + 2 / (15000 C)) / (2 (k + 1 + 1/C))`` with ``k = k(x, x)``.
    max_iter : int, default=-1
        Most rows that join the core set; -1 is no limit.
    random_state : int, RandomState instance or None, default=None
        For the rows drawn.
    n_jobs : int, default=None
        Threads of prediction.
    verbose : int, default=0

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_
        As SVC's; coefficients sum to one.
    fit_status_ : int
        0 where the search ended by itself, 1 where ``max_iter`` ended it.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Rows that joined the core set.

    Notes
    -----
    Faithful to the paper in the problem solved, the probabilistic choice of the furthest row
    (of 59, half of them of either class), the stopping rule, the core set that only grows, and
    the warm start. Epsilon is approached from 0.1 by halves, 20 rows begin, and coefficients
    under 1e-5 of the mean are dropped, as in the authors' program libCVM; ten draws without a
    row outside end the search. It differs in its inner solver, pairs chosen by second order,
    and in that it keeps the kernel matrix of the core set: four or eight bytes for each pair of
    members.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import CVM
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = CVM(gamma=2.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    def _train(self, pair: Pair) -> Expansion:
        ball = BallKernel(pair, self.C)
        sampler = Sampler(pair.signs, pair.random)
        core = _CoreSet(ball, sampler.first(min(_FIRST, len(pair.rows))))
        limit = np.inf if self.max_iter == -1 else core.size + self.max_iter
        first = core.size
        for tolerance in self._tolerances(ball):
            core.solve(tolerance)
            while (row := core.furthest(sampler, tolerance)) >= 0 and core.size < limit:
                core.join(row)
                core.solve(tolerance)
                if core.size % _STEP == 0:
                    pair.progress.step("rows")
            pair.progress.say(f"epsilon {tolerance:.2g}: {core.size} rows in the core set")
        return expansion(core.coefficients(), pair.signs, core.size - first, row < 0)


class _CoreSet:
    """Rows, and the smallest ball that encloses them."""

    def __init__(self, ball: BallKernel, rows: NDArray[np.intp]) -> None:
        self.ball = ball
        self.inside = np.zeros(ball.n_rows, dtype=bool)
        self.gram = GrowingGram(ball)
        self.gram.extend(rows)
        self.inside[rows] = True
        self.alpha = np.full(len(rows), 1.0 / len(rows))
        self.slopes = self.gram.values[: len(rows), : len(rows)] @ self.alpha

    @property
    def size(self) -> int:
        return self.gram.n

    def join(self, row: int) -> None:
        self.gram.append(row)
        self.inside[row] = True
        n = self.gram.n
        line = self.gram.values[n - 1, : n - 1]
        self._make_room()
        self.alpha[n - 1] = 0.0
        self.slopes[n - 1] = line @ self.alpha[: n - 1]

    def _make_room(self) -> None:
        """As much as the kernel matrix has: what is not used yet has bounds of zero."""
        capacity = len(self.gram.rows)
        if len(self.alpha) < capacity:
            more = capacity - len(self.alpha)
            self.alpha = np.append(self.alpha, np.zeros(more))
            self.slopes = np.append(self.slopes, np.zeros(more))

    def solve(self, epsilon: float) -> None:
        """Minimise a'Qa over the members."""
        self._make_room()
        capacity = len(self.alpha)
        upper = np.zeros(capacity)
        upper[: self.size] = 1.0
        limit = max(1, _MOVED // capacity)
        tol = _INNER * epsilon * (self.ball.diagonal - self.norm())
        while True:
            before = self.norm()
            n_updates = update_pairs(
                self.gram.values,
                self.gram.values.diagonal().astype(np.float64),
                self.alpha,
                self.slopes,
                np.zeros(capacity),
                upper,
                np.array([capacity]),
                tol,
                limit,
            )
            if n_updates < limit or before - self.norm() <= _NOTHING * before:
                return

    def norm(self) -> float:
        """Squared length of the centre."""
        return float(self.alpha @ self.slopes)

    def furthest(self, sampler: Sampler, epsilon: float) -> int:
        """The furthest of some random rows, where one lies outside; otherwise -1."""
        norm = self.norm()
        radius = self.ball.diagonal - norm
        outside = (1.0 + epsilon) ** 2 * radius
        for _ in range(DRAWS):
            rows = sampler()
            rows = rows[~self.inside[rows]]
            if not len(rows):
                continue
            products = self.gram.against(rows) @ self.alpha[: self.size]
            distances = norm + self.ball.diagonal - 2.0 * products
            at = int(distances.argmax())
            if distances[at] > outside:
                return int(rows[at])
        return -1

    def coefficients(self) -> NDArray[np.float64]:
        alpha = np.zeros(self.ball.n_rows)
        alpha[self.gram.rows[: self.size]] = self.alpha[: self.size]
        return alpha
