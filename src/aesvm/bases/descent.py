"""The SVM of all rows with w in the span of a basis: a descent, wherever the rows are.

    F(a, b) = 1/2 a' K a + sum_k d_k b_k + sum_i c_i loss(p_i),    w = sum_j a_j phi(b_j)

The losses have their kinks rounded off (``smoothing``), less and less. Each half-width of the
rounded kinks is a smooth problem, solved by L-BFGS: it starts from a Cholesky factor of the
Hessian, and learns the rest from the steps.

One descent serves rows in memory and rows elsewhere. It chooses directions, half-widths and when to
stop. A ``SmoothProblem`` searches the lines, and has the Hessian:

rows in memory (``solve_in_memory``)
    Scores are kept, so that the best point on a line is found exactly. A Hessian costs as much as
    dozens of steps, so one factor serves as many.
rows elsewhere (``solve_in_passes``)
    A pass over all rows compares a few points on the line. It adds up the Hessian as well, so that
    every step has a new factor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf
from typing import NamedTuple, Protocol

from aesvm.bases.factor import Factor, solve
from aesvm.formulations.protocol import Array, Offsets

#: Each further half-width is this fraction of the one before. None is smaller than the second
#: number, in the formulation's unit.
NARROWER, NARROWEST = 0.3, 1e-4

#: Steps that L-BFGS remembers.
_MEMORY = 20


class Point(NamedTuple):
    """A machine in the span of a basis."""

    coefs: Array  #: of the basis
    offsets: Offsets


class Here(NamedTuple):
    """F with rounded kinks, where the descent is."""

    objective: float
    gradient: Array  #: in the coefficients and the offsets
    moved: Array | None = None  #: the last step; None where no point on the line was better


class Line(NamedTuple):
    """A line to search, from where the descent is."""

    direction: Array | None  #: of coefficients and offsets; None: F is wanted where it is
    width: float  #: the half-width of the rounded kinks, in the formulation's unit
    narrower: float  #: the half-width that will follow


class Goal(NamedTuple):
    """When a smooth problem is solved; gains are fractions of the objective."""

    gain: float  #: another step would gain less than this
    lacking: float = inf  #: the most that further steps could take off the duality gap
    n_least: int = 0  #: steps that are made in any case
    n_slow: float = inf  #: slow steps in a row after which a width is given up


class SmoothProblem(Protocol):
    """The SVM of one machine in the span of a basis, with rounded kinks, as a descent sees it."""

    @property
    def here(self) -> Here:
        """F where the last line search ended."""

    @property
    def factor(self) -> Factor:
        """The Cholesky factor of the Hessian, as far as that is known."""

    @property
    def patience(self) -> int:
        """Steps that one factor serves."""

    @property
    def n_factors(self) -> int:
        """The most factors for one width."""

    def renew_factor(self, worn: bool) -> None:
        """Have a factor for the present width; ``worn``: the last one has served its steps."""

    def lacks(self) -> float:
        """What further steps could take off the duality gap."""

    def narrows(self) -> bool:
        """Whether rounding off still matters, so that a narrower width is to follow."""


class Descent:
    """A descent: an iterator over the lines that it wants searched.

    Each line must be searched before the next one is drawn. With rows in memory that is done at
    once, with rows elsewhere in a pass that serves several machines.

    Parameters
    ----------
    problem : SmoothProblem
    widths : tuple of float
        Half-widths of the rounded kinks, in the formulation's unit. Narrower ones follow where the
        problem asks for them.
    goal, last : Goal
        Of all widths but the last of these, and of that one and all that follow.
    """

    def __init__(
        self, problem: SmoothProblem, widths: tuple[float, ...], goal: Goal, last: Goal
    ) -> None:
        self.problem = problem
        self.widths = widths
        self.goal = goal
        self.last = last
        self.gain = inf  #: expected of the next step, as a fraction of the objective
        self.solved = False  #: whether the problem of the present width is

    def __iter__(self) -> Iterator[Line]:
        for width, narrower in zip(self.widths[:-1], self.widths[1:], strict=True):
            yield from self._minimise(width, narrower, self.goal)
        width = self.widths[-1]
        yield from self._minimise(width, NARROWER * width, self.last)
        while width > NARROWEST and self.problem.narrows():
            width *= NARROWER
            yield from self._minimise(width, NARROWER * width, self.last)

    def _minimise(self, width: float, narrower: float, goal: Goal) -> Iterator[Line]:
        """Solve the problem of one width."""
        problem, self.solved = self.problem, False
        n_steps = n_slow = 0
        yield Line(None, width, narrower)
        for attempt in range(problem.n_factors):
            problem.renew_factor(worn=attempt > 0)
            history: History = deque(maxlen=_MEMORY)
            for _ in range(problem.patience):
                before = problem.here
                size = abs(before.objective)
                direction = -two_loops(before.gradient, history, problem.factor)
                gain = -0.5 * float(before.gradient @ direction)
                self.gain = gain / max(size, 1e-300)
                if n_steps >= goal.n_least and gain <= goal.gain * size:
                    self.solved = goal.lacking == inf or problem.lacks() <= goal.lacking * size
                    if self.solved:
                        return
                yield Line(direction, width, narrower)
                here = problem.here
                if here.moved is None:
                    self.solved = True
                    return
                n_steps += 1
                slow = before.objective - here.objective <= goal.gain * size
                n_slow = n_slow + 1 if slow else 0
                if n_slow >= goal.n_slow:
                    return
                change = here.gradient - before.gradient
                if (inner := float(change @ here.moved)) > 0:
                    history.append((here.moved, change, inner))


#: Steps, what the gradient changed by, and the product of both.
History = deque[tuple[Array, Array, float]]


def two_loops(gradient: Array, history: History, factor: Factor) -> Array:
    """The inverse Hessian times the gradient (L-BFGS).

    The Hessian is what a factor says, corrected by what the steps have shown since.
    """
    left = gradient.copy()
    taken = []
    for moved, change, inner in reversed(history):
        length = (moved @ left) / inner  # of a device, without waiting for it
        left -= length * change
        taken.append(length)
    result = solve(factor, left)
    for (moved, change, inner), length in zip(history, reversed(taken), strict=True):
        result += (length - (change @ result) / inner) * moved
    return result
