"""The SVM with squared hinge loss as a ball: what the core and ball vector machines solve.

    minimise  |w|^2 + b^2 - 2 rho + C sum_i xi_i^2   over  y_i (w.phi(x_i) + b) >= rho - xi_i

has the dual ``minimise a'Qa`` over ``a >= 0, sum(a) = 1`` with ``Q_ij = y_i y_j (k_ij + 1) +
d_ij / C``. Q is itself a kernel matrix. Where ``k_ii = kappa`` is the same for all rows, so is
``Q_ii = kappa + 1 + 1/C``, and the dual is that of the smallest ball that encloses the images of
the rows under Q: its centre ``sum_i a_i phi_Q(x_i)`` holds ``w = sum_i a_i y_i phi(x_i)`` and
``b = sum_i a_i y_i`` (Tsang, Kwok and Cheung 2005).

Neither rho nor the length of w matters to the classes predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from aesvm.kernels import Columns, KernelMatrix
from experiments.rivals.base import CACHE_CONSTRAINTS, Expansion, Pair, PairwiseSVM

#: Of a coefficient, relative to the mean of all: smaller ones are dropped, as libCVM does.
_NEGLIGIBLE = 1e-5

#: libCVM's choice of epsilon: the error of a decision, and the rows of a fold that it assumes.
_DECISION, _FOLD = 4e-6, 15_000

#: Rows drawn at a time, the furthest of which is taken: with 95 % probability it is among the
#: furthest 5 %; and how often none of them may lie outside before a ball is taken to enclose all.
SAMPLE, DRAWS = 59, 10

#: A ball is first found with this epsilon, then with half of it, and so on.
FIRST_EPSILON, FINER = 0.1, 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class BallSVM(PairwiseSVM):
    """A machine whose classifier is the centre of a ball."""

    epsilon: float | None = None
    max_iter: int = -1

    _parameter_constraints: ClassVar[dict] = {
        **PairwiseSVM._parameter_constraints,
        "epsilon": [Interval(Real, 1e-12, 1.0, closed="both"), None],
        "max_iter": CACHE_CONSTRAINTS["max_iter"],
    }

    def _precision(self) -> float:
        return 1e-4 if self.epsilon is None else min(self.epsilon, 1e-4)

    def _coefficient_norm(self, n_rows: int) -> float:
        return 1.0  # coefficients sum to one

    def _tolerances(self, ball: BallKernel) -> list[float]:
        """The epsilons to go through."""
        return finer_and_finer(
            default_epsilon(ball, self.C) if self.epsilon is None else self.epsilon
        )


class BallKernel(KernelMatrix):
    """Q, as a kernel matrix over the training rows of a pair of classes."""

    def __init__(self, pair: Pair, C: float) -> None:
        self.kernel = pair.kernel
        self.dtype = pair.kernel.dtype
        self.n_rows = len(pair.rows)
        self.rows = pair.rows
        self.signs = pair.signs.astype(self.dtype)
        self.ridge = self.dtype.type(1.0 / C)
        diag = pair.kernel.diag(pair.rows)
        if not (diag[0] > 0.0 and np.allclose(diag, diag[0], rtol=1e-5, atol=0.0)):
            raise ValueError(
                f"k(x, x) is between {diag.min():.3g} and {diag.max():.3g} on this data: a ball "
                "needs it to be positive and the same for all rows, as it is with "
                'kernel="rbf".'
            )
        self.kappa = float(diag[0])

    @property
    def diagonal(self) -> float:
        return self.kappa + 1.0 + float(self.ridge)

    def square(self, rows, out=None):
        values = self.kernel.square(self.rows[rows], out)
        self.apply(values, rows, rows)
        return values

    def columns(self, rows):
        return _BallColumns(self, self.kernel.columns(self.rows[rows]), rows)

    def diag(self, rows):
        return np.full(len(rows), self.diagonal, dtype=self.dtype)

    def bound(self, rows):
        return self.kernel.bound(self.rows[rows]) + 1.0 + float(self.ridge)

    def apply(self, values: NDArray, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> None:
        """Turn values of the kernel into those of Q."""
        values += self.dtype.type(1.0)
        values *= self.signs[rows][:, None]
        values *= self.signs[cols]
        values[rows[:, None] == cols] += self.ridge


class _BallColumns(Columns):
    def __init__(self, ball: BallKernel, inner: Columns, rows: NDArray[np.intp]) -> None:
        self.ball = ball
        self.inner = inner
        self.rows = rows
        self.dtype = inner.dtype

    def __len__(self):
        return len(self.inner)

    def take(self, positions):
        return _BallColumns(self.ball, self.inner.take(positions), self.rows[positions])

    def lines(self, rows):
        return self.inner.lines(self.ball.rows[rows]), rows

    def new_lines(self, X_new):
        raise NotImplementedError("rows to predict have no sign")

    def write(self, lines, start, stop, out):
        inner, rows = lines
        self.inner.write(inner, start, stop, out)
        self.ball.apply(out, rows, self.rows[start:stop])


def default_epsilon(ball: BallKernel, C: float) -> float:
    """libCVM's: so small that decisions of held-out rows hardly change."""
    epsilon = (_DECISION / ball.kappa + 2.0 / (C * _FOLD)) / (2.0 * ball.diagonal)
    if not epsilon < 1.0:
        raise ValueError(
            f"epsilon=None would be {epsilon:.3g} with k(x, x)={ball.kappa:.3g} and C={C:g}: "
            "scale the kernel, or say which epsilon is wanted, of at most 1."
        )
    return epsilon


def finer_and_finer(epsilon: float) -> list[float]:
    """The tolerances to go through, down to the one that is asked for."""
    steps = []
    current = max(FIRST_EPSILON, epsilon)
    while current > epsilon:
        steps.append(current)
        current *= FINER
    return [*steps, epsilon]


class Sampler:
    """Draws rows, as many of either class, some of them at a time."""

    def __init__(self, signs: NDArray, random: np.random.RandomState) -> None:
        self.classes = [np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)]
        self.random = random
        self.drawn = np.empty((0, SAMPLE), dtype=np.intp)

    def __call__(self) -> NDArray[np.intp]:
        if not len(self.drawn):
            half = (SAMPLE + 1) // 2
            self.drawn = np.hstack(
                [
                    rows[self.random.randint(len(rows), size=(256, size))]
                    for rows, size in zip(self.classes, (half, SAMPLE - half), strict=True)
                ]
            )
        drawn, self.drawn = self.drawn[0], self.drawn[1:]
        return drawn

    def first(self, size: int) -> NDArray[np.intp]:
        """Different rows, as evenly as possible of both classes."""
        halves = [self.random.permutation(rows)[:size] for rows in self.classes]
        short = min(len(halves[0]), len(halves[1]), size // 2)
        sizes = [short, short]
        sizes[int(len(halves[1]) > len(halves[0]))] = size - short
        return np.concatenate([half[:n] for half, n in zip(halves, sizes, strict=True)])


def expansion(alpha: NDArray, signs: NDArray, n_iter: int, converged: bool) -> Expansion:
    """The classifier at the centre of a ball, scaled so that coefficients sum to one."""
    alpha = np.where(alpha > _NEGLIGIBLE / np.count_nonzero(alpha), alpha, 0.0)
    coefs = alpha * signs / alpha.sum()
    return Expansion(coefs, float(coefs.sum()), n_iter, converged)
