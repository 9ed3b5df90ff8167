"""The SVM of all rows in the span of a basis, where rows are elsewhere: by passes over them.

It is that of ``newton``, solved by Newton's method: a pass adds up (``sums``) what the next step
is made of. Along the last step several points are seen at once, and the best of them is where the
next one begins; the kinks are rounded off less and less, and as the full step is seen with the
next width as well, that takes no pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from aesvm.bases.hessian import factor_of, solve
from aesvm.bases.newton import DIFFERENCE, NARROWER, NARROWEST, Point
from aesvm.bases.sums import Answer, Look, Question, Sums
from aesvm.bases.values import Array
from aesvm.machines.formulation import Formulation
from aesvm.runtime.progress import OutOfTimeError, Progress

#: Half-widths of the rounded kinks, in the formulation's unit; others follow, until rounding off
#: makes no difference.
_WIDTHS = (0.1, 0.03, 0.01)

#: A smooth problem is solved where the next step would gain less than this share of the objective:
#: with a width that others follow, and with the last.
_GAIN = {False: 3e-4, True: 3e-5}

#: Points that are seen along a step; where none is better, it is made shorter.
_STEPS, _SHORTER = (0.25, 0.5, 1.0, 2.0), 0.1

#: The most passes, and the most steps in a row that lead nowhere.
_PASSES, _IDLE = 30, 2


class Start(NamedTuple):
    """Where a machine begins."""

    within: Array  #: kernel values of its vectors, in double precision
    point: Point


class Seen(NamedTuple):
    """A machine, by all rows."""

    point: Point
    loss: float  #: F without ``1/2 |w|^2``
    objective: float  #: F


class SolvedInPasses(NamedTuple):
    """The best that was seen of a machine."""

    seen: Seen
    scores: Array  #: of its vectors
    n_steps: int
    converged: bool


def solve_in_passes(
    starts: dict[int, Start],
    ask: Callable[[dict[int, Question]], Answer],
    formulation: Formulation,
    progress: Progress,
) -> dict[int, SolvedInPasses]:
    """Minimise F over all rows, of several machines at once.

    Parameters
    ----------
    starts : dict
        By number of the machine.
    ask : callable
        Answers questions by a pass over all rows.
    formulation : Formulation
    progress : Progress

    Returns
    -------
    solved : dict
        Empty where the fit was to end before the first pass had.
    """
    machines = {number: _Descent(*start, formulation) for number, start in starts.items()}
    n_passes = 0
    try:
        while n_passes < _PASSES:
            open_ = {number: one for number, one in machines.items() if not one.converged}
            if not open_:
                break
            progress.check()
            answer = ask({number: one.question() for number, one in open_.items()})
            n_passes += 1
            for number, one in open_.items():
                one.take(answer[number])
            left = sum(not one.converged for one in open_.values())
            progress.say(
                f"pass {n_passes}: F1 {sum(one.best.objective for one in machines.values()):.6g}, "
                f"{left:,} of {len(machines):,} SVM{'' if len(machines) == 1 else 's'} go on"
            )
    except OutOfTimeError:
        progress.cut_short(f"the SVM of all rows ended after {n_passes} passes")
    if not n_passes:
        return {}
    return {
        number: SolvedInPasses(
            one.best, one.within @ one.best.point.coefs, one.n_steps, one.converged
        )
        for number, one in machines.items()
    }


class _Descent:
    """A machine on its way: what it asks next, and what it makes of the answer."""

    def __init__(self, within: Array, start: Point, formulation: Formulation) -> None:
        self.within = within
        self.formulation = formulation
        self.coefs, self.offsets = start.coefs.copy(), np.array(start.offsets)
        self.along, self.shift = np.zeros(len(self.coefs)), np.zeros(len(self.offsets))
        self.moves = False  # whether there is a direction
        self.share = _WIDTHS[0]
        self.width = self._width(self.share)
        self.objective: float | None = None  # with this width, at the present point
        self.best = Seen(start, inf, inf)
        self.n_steps = self.n_idle = 0
        self.converged = False

    def _width(self, share: float) -> float:
        return share * self.formulation.width(tuple(self.offsets.tolist()))

    def _next_share(self) -> float:
        after = [share for share in _WIDTHS if share < self.share]
        return after[0] if after else NARROWER * self.share

    def question(self) -> Question:
        steps = _STEPS if self.moves else ()
        if self.objective is None:
            steps = (0.0, *steps)
        self.full = steps.index(1.0) if self.moves else 0
        self.narrower = self._width(self._next_share())
        looks = [Look(step, self.width) for step in steps]
        looks.append(Look(steps[self.full], self.narrower))
        self.looks = tuple(looks)
        return Question(
            self.coefs, self.offsets, self.along, self.shift, self.looks, self.full
        )

    def take(self, sums: Sums) -> None:
        """Go to the best point that was seen, and choose the next direction."""
        self.slopes, self.total_cost = sums.slopes, sums.total_cost
        steps = np.array([look.step for look in self.looks])
        pulled, drawn = self.within @ self.coefs, self.within @ self.along
        halves = 0.5 * (
            self.coefs @ pulled + 2.0 * steps * (self.coefs @ drawn) + steps**2 * (self.along @ drawn)
        )
        linear = self.slopes @ self.offsets + steps * (self.slopes @ self.shift)
        objectives, exact = halves + linear + sums.losses, halves + linear + sums.exact
        for number in range(len(steps)):
            if exact[number] < self.best.objective:
                point = self._at(steps[number])
                self.best = Seen(point, float((linear + sums.exact)[number]), float(exact[number]))
        gradients = np.concatenate(
            [pulled + steps[:, None] * drawn - sums.pulls, self.slopes + sums.by_offset], axis=1
        )
        at = int(np.argmin(objectives[:-1]))
        if self.objective is not None and objectives[at] >= self.objective:
            self._shorten()
            return
        self.n_idle = 0
        if self.moves:
            self.n_steps += 1
        step = float(steps[at])
        self.coefs, offsets = self._at(step)
        self.offsets = np.array(offsets)
        self.objective, rounded = float(objectives[at]), float(objectives[at] - exact[at])
        self.factor = factor_of(self.within, sums.curvature, self.total_cost / self.width)
        gain = self._aim(gradients[at])
        if not self._is_solved(gain, rounded):
            return
        if self.converged:
            return
        self._narrow()
        if at == self.full:  # which was seen with the narrower width as well
            self.objective = float(objectives[-1])
            self._aim(gradients[-1])

    def _at(self, step: float) -> Point:
        offsets = self.offsets + step * self.shift
        return Point(self.coefs + step * self.along, tuple(offsets.tolist()))

    def _aim(self, gradient: Array) -> float:
        """Choose Newton's direction; what it is expected to gain."""
        direction = -solve(self.factor, gradient)
        n = len(self.coefs)
        self.along, self.shift = direction[:n], direction[n:]
        self.moves = True
        return float(-0.5 * (gradient @ direction))

    def _is_solved(self, gain: float, rounded: float) -> bool:
        """Whether this width is done with; and, if none is to follow, all."""
        size = abs(self.best.objective)
        last = self.share <= _WIDTHS[-1] and (
            rounded <= DIFFERENCE * size or self.share <= NARROWEST
        )
        solved = gain <= _GAIN[last] * size
        self.converged = solved and last
        return solved

    def _shorten(self) -> None:
        """What follows a step that led nowhere."""
        self.n_idle += 1
        self.along, self.shift = _SHORTER * self.along, _SHORTER * self.shift
        if self.n_idle <= _IDLE:
            return
        self.n_idle = 0  # rounding is in the way: on with the next width
        if self.share <= NARROWEST:
            self.converged = True
            return
        self._narrow()
        self.along, self.shift, self.moves = 0.0 * self.along, 0.0 * self.shift, False

    def _narrow(self) -> None:
        self.share = self._next_share()
        self.width = self.narrower
        self.objective = None
