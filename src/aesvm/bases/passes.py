"""The SVM of all rows in the span of a basis, where rows are elsewhere: by passes over them.

It is that of ``newton``, solved in the same way with steps that are fewer and better: a pass adds
up (``sums``) the gradient and the Hessian over all rows. Along a step several points are seen at
once, and the best of them is where the next step begins. As the full step is seen with the next
width of the rounded kinks as well, making them narrower takes no pass of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from aesvm.bases.hessian import History, factor_of, two_loops
from aesvm.bases.newton import DIFFERENCE, NARROWER, NARROWEST, Point
from aesvm.bases.sums import Answer, PointOnLine, Question, Sums
from aesvm.bases.values import Array
from aesvm.formulations.protocol import Formulation
from aesvm.runtime.progress import OutOfTimeError, Progress

#: Half-widths of the rounded kinks, in the formulation's unit; others follow, until rounding off
#: makes no difference.
_WIDTHS = (0.1, 0.03, 0.01)

#: The first is one of these, the widest with which rounding off adds no more than a share of the
#: objective: where losses are small, it must be small as well.
_FIRST, _ADDED = (0.1, 0.03, 0.01, 0.003, 0.001), 0.05

#: A smooth problem is solved where the next step would gain less than this share of the objective:
#: with a width that others follow, and with the last.
_GAIN = {False: 3e-4, True: 1e-4}

#: Curvature is seen with this half-width, or ``_TIMES`` the first width where that is less: rows so
#: near to a kink will be curved sooner or later, and those that are within a small width now are
#: too few to tell.
_BENT, _TIMES = 0.1, 3.0

#: What a full step may change scores of vectors and offsets by, in the formulation's unit: where
#: few rows are near a kink, little holds them.
_REACH = 2.0

#: Points that are seen along a step; where none is better, it is made shorter.
_STEPS, _SHORTER = (0.25, 0.5, 1.0, 2.0), 0.1

#: The most passes, what steps may still gain after these, and how many in a row gain too little
#: where a width is done with.
_PASSES, _NEAR, _SLOW = 24, 1e-3, 3

#: Steps that are remembered.
_MEMORY = 12

#: Rows for each vector that curvature is seen from, where there are more (of four it takes half as
#: many passes again); and the share of all rows that are curved, before that is known.
_SAMPLED, _CURVED = 16, 0.1


class Start(NamedTuple):
    """Where a machine begins."""

    within: Array  #: kernel values of its vectors, in double precision
    point: Point
    n_rows: int  #: that belong to it


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

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.newton import Point
    >>> from aesvm.bases.passes import Start, solve_in_passes
    >>> from aesvm.bases.sums import SpanMachines, add_up
    >>> from aesvm.kernels import KernelSpec
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.machines.rows import EveryRow
    >>> from aesvm.runtime.progress import Silence
    >>> X, signs = np.array([[1.0], [3.0]]), np.array([-1.0, 1.0])
    >>> rows, every = {0: EveryRow(2, 9.0)}, {0: np.array([0])}
    >>> spec, double = KernelSpec("linear"), np.dtype(np.float64)
    >>> sent = SpanMachines(X[:1], every, rows, spec, Hinge(), double, 1e-5)
    >>> start = {0: Start(np.ones((1, 1)), Point(np.zeros(1), (0.0,)), 2)}
    >>> def ask(questions):
    ...     return add_up(X, signs, np.ones(2), sent, questions)
    >>> coefs, offsets = solve_in_passes(start, ask, Hinge(), Silence())[0].seen.point
    >>> np.allclose([*coefs, *offsets], [1.0, -2.0], atol=0.02)  # x - 2
    True
    """
    machines = {number: _Descent(*start, formulation) for number, start in starts.items()}
    n_passes = 0
    try:
        while n_passes < _PASSES:
            open_ = {number: one for number, one in machines.items() if not one.done}
            if not open_:
                break
            progress.check()
            answer = ask({number: one.question() for number, one in open_.items()})
            n_passes += 1
            for number, one in open_.items():
                one.take(answer[number])
            left = sum(not one.done for one in open_.values())
            progress.say(
                f"pass {n_passes}: objective "
                f"{sum(one.best.objective for one in machines.values()):.6g}, "
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

    def __init__(self, within: Array, start: Point, n_rows: int, formulation: Formulation) -> None:
        self.within = within
        self.formulation = formulation
        self.coefs, self.offsets = start.coefs.copy(), np.array(start.offsets)
        self._stay()
        self._begin_with(_FIRST[0])
        self.objective: float | None = None  # with this width, at the present point
        self.gradient = np.empty(0)
        self.history: History = deque(maxlen=_MEMORY)
        self.best = Seen(start, inf, inf)
        self.gain = inf
        self.rounded_off = inf
        self.n_steps = self.n_slow = 0
        self._sample_from(_CURVED * n_rows)
        self.done = False

    def _stay(self) -> None:
        """Have no direction."""
        self.moves = False
        self.along, self.shift = np.zeros(len(self.coefs)), np.zeros(len(self.offsets))

    def _sample_from(self, n_curved: float) -> None:
        """Choose the share of the ``n_curved`` rows that curvature is seen from."""
        self.one_in = max(1, int(n_curved) // (_SAMPLED * max(1, len(self.coefs))))

    def _begin_with(self, share: float) -> None:
        """Begin with a half-width."""
        self.share, self.width = share, self._width(share)
        self.bent = self._width(min(_BENT, _TIMES * share))

    def _width(self, share: float) -> float:
        return share * self.formulation.width(tuple(self.offsets.tolist()))

    def _next_share(self) -> float:
        after = [share for share in _WIDTHS if share < self.share]
        return after[0] if after else NARROWER * self.share

    def question(self) -> Question:
        """Points with this width, and of the full step what the next one and curvature are."""
        steps = _STEPS if self.moves else ()
        if self.objective is None:
            steps = (0.0, *steps)
        self.full = steps.index(1.0) if self.moves else 0
        self.narrower = self._width(self._next_share())
        self.n_points = len(steps)
        widths = [self.narrower, self.bent]
        if self.best.objective == inf:
            widths += map(self._width, _FIRST)
        self.looks = (
            *(PointOnLine(step, self.width) for step in steps),
            *(PointOnLine(steps[self.full], width) for width in widths),
        )
        curved = self.n_points + 1
        return Question(
            self.coefs, self.offsets, self.along, self.shift, self.looks, curved, self.one_in
        )

    def take(self, sums: Sums) -> None:
        """Go to the best point that was seen, and choose the next direction."""
        found = sums.losses
        self._sample_from(float(found.n_curved[0]))
        steps = np.array([look.step for look in self.looks])
        pulled, drawn = self.within @ self.coefs, self.within @ self.along
        linear = found.slopes @ self.offsets + steps * (found.slopes @ self.shift)
        halves = 0.5 * self.coefs @ pulled + steps * (self.coefs @ drawn)
        halves += 0.5 * steps**2 * (self.along @ drawn)
        objectives, exact = halves + linear + found.rounded, halves + linear + found.exact
        gradients = np.concatenate(
            [pulled + steps[:, None] * drawn - found.pulls, found.slopes + found.by_offset], axis=1
        )
        is_first, n_points = self.best.objective == inf, self.n_points
        least = int(np.argmin(exact))
        if exact[least] < self.best.objective:
            loss = float(linear[least] + found.exact[least])
            self.best = Seen(self._at(steps[least]), loss, float(exact[least]))
        if is_first:
            added = (objectives - exact)[n_points + 2 :] <= _ADDED * abs(exact[0])
            share = _FIRST[int(np.argmax(added))] if added.any() else _FIRST[-1]
            if share < self.share:
                self._begin_with(share)
                return
        at = int(np.argmin(objectives[:n_points]))
        before = self.objective
        if before is not None and objectives[at] >= before:
            self._shorten()
            return
        self._go(float(steps[at]), gradients[at])
        self.objective, self.rounded_off = float(objectives[at]), float(objectives[at] - exact[at])
        slow = before is not None and before - self.objective <= self._least_gain()
        self.n_slow = self.n_slow + 1 if slow else 0
        factor = factor_of(self.within, sums.curvature, float(found.total_cost[0]) / self.bent)
        self._aim(gradients[at], factor)
        if self.gain <= self._least_gain() or self.n_slow == _SLOW:
            self._narrow()
            if at == self.full:  # which was seen with the narrower width as well
                self.objective = float(objectives[n_points])
                self._aim(gradients[n_points], factor)

    def _at(self, step: float) -> Point:
        offsets = self.offsets + step * self.shift
        return Point(self.coefs + step * self.along, tuple(offsets.tolist()))

    def _go(self, step: float, gradient: Array) -> None:
        """Go some way along the direction, and remember what the gradient changed by."""
        self.n_steps += self.moves
        if self.objective is not None:
            moved, change = step * np.append(self.along, self.shift), gradient - self.gradient
            if (inner := float(change @ moved)) > 0:
                self.history.append((moved, change, inner))
        self.coefs, offsets = self._at(step)
        self.offsets = np.array(offsets)

    def _aim(self, gradient: Array, factor: Array) -> None:
        """Choose the next direction; what it gains if losses are as curved as they are here."""
        direction = -two_loops(gradient, self.history, factor)
        self.gradient, self.gain = gradient, float(-0.5 * (gradient @ direction))
        n = len(self.coefs)
        change = np.append(self.within @ direction[:n], direction[n:])
        reach = float(np.abs(change).max())
        direction *= min(1.0, self._width(_REACH) / max(reach, 1e-300))
        self.along, self.shift, self.moves = direction[:n], direction[n:], True

    @property
    def _is_last(self) -> bool:
        """Whether no narrower width is to follow this one."""
        size = abs(self.best.objective)
        enough = self.rounded_off <= DIFFERENCE * size or self.share <= NARROWEST
        return self.share <= _WIDTHS[-1] and enough

    def _least_gain(self) -> float:
        """What a step is to gain."""
        return _GAIN[self._is_last] * abs(self.best.objective)

    def _shorten(self) -> None:
        """What follows a step that led nowhere."""
        self.along, self.shift = _SHORTER * self.along, _SHORTER * self.shift
        self.n_slow += 1
        if self.n_slow == _SLOW:
            self._stay()
            self._narrow()

    def _narrow(self) -> None:
        """Go on with the next width; where there is none, all is done."""
        self.done = self._is_last
        self.share, self.width = self._next_share(), self.narrower
        self.objective, self.n_slow = None, 0
        self.history.clear()

    @property
    def converged(self) -> bool:
        """Whether there is little to be gained where passes end."""
        return self.gain <= _NEAR * abs(self.best.objective)
