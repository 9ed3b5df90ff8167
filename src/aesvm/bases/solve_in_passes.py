"""The SVM of all rows in the span of a basis, where rows are elsewhere: by passes over them.

A pass adds up F, its gradient and its Hessian over all rows, for several machines at once. Each
machine makes the descent of ``descent``; a line is searched by comparing a few points that one pass
evaluates. They are evaluated with the next half-width of the rounded kinks as well, so that making
them narrower takes no pass.

A query is about points ``p + step * direction`` of a machine. It asks for the smoothed losses
there, their gradient in coefficients and offsets and, at one of the points, their curvature. All of
these are sums over rows. Each holder of rows computes its sums (``add_up``), from the kernel values
of one block at a time. The sums of all holders are then added up (``merged_sums``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.descent import Descent, Goal, Here, Line, Point, ramps_of, smoothed_losses
from aesvm.bases.factor import Curvature, Factor, hessian_factor
from aesvm.formulations.protocol import Array, Formulation
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import RowSelection
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import OutOfTimeError, Progress

#: Half-widths of the rounded kinks, in the formulation's unit. Narrower ones follow while rounding
#: off adds more than a fraction of the objective.
_WIDTHS, _DIFFERENCE = (0.1, 0.03, 0.01), 1e-4

#: The first is one of these: the widest with which rounding off adds no more than a fraction of the
#: objective. Where losses are small, it must be small as well.
_FIRST, _ADDED = (0.1, 0.03, 0.01, 0.003, 0.001), 0.05

#: Goals of all widths but the last of these, and of that one and all that follow.
_GOAL, _LAST_GOAL = Goal(3e-4, n_least=1, n_slow=3), Goal(1e-4, n_least=1, n_slow=3)

#: Curvature is evaluated with this half-width, or ``_TIMES`` the present one where that is less.
#: Rows so near to a kink will be curved sooner or later. Those within a small width are too few.
_BENT, _TIMES = 0.1, 3.0

#: The most that a full step may change scores of vectors and offsets, in the formulation's unit:
#: where few rows are near a kink, little holds them.
_REACH = 2.0

#: Points that are compared along a line. Where none is better than the present one, shorter lines
#: are tried: how much shorter each is, and how many lines in all.
_STEPS, _SHORTER, _TRIES = (0.25, 0.5, 1.0, 2.0), 0.1, 3

#: The most passes. A solve has converged where another step would gain at most this fraction of
#: the objective.
_PASSES, _NEAR = 24, 1e-3

#: Rows for each vector that curvature is summed over, where there are more (with four it takes half
#: as many passes again); and the fraction of all rows that are curved, before that is known.
_SAMPLED, _CURVED = 16, 0.1


class Evaluated(NamedTuple):
    """A point, with F over all rows."""

    point: Point
    loss: float  #: F without ``1/2 |w|^2``
    objective: float  #: F


def solve_in_passes(
    machines: dict[int, ProblemElsewhere],
    ask: Callable[[dict[int, Query]], SumsByMachine],
    progress: Progress,
) -> dict[int, ProblemElsewhere]:
    """Minimise F over all rows, of several machines at once.

    ``ask`` answers queries by a pass over all rows. Machines are known by number; none is solved
    where the fit was to end before the first pass had.
    """
    queries = {number: one.first_query() for number, one in machines.items()}
    n_passes = 0
    try:
        while queries and n_passes < _PASSES:
            progress.check()
            answer = ask(queries)
            n_passes += 1
            following = {at: machines[at].following(answer[at]) for at in queries}
            queries = {at: query for at, query in following.items() if query is not None}
            progress.say(
                f"pass {n_passes}: objective "
                f"{sum(one.best.objective for one in machines.values()):.6g}, "
                f"{len(queries):,} of {len(machines):,} SVM{'s'[: len(machines) > 1]} left"
            )
    except OutOfTimeError:
        progress.cut_short(f"the SVM of all rows ended after {n_passes} passes")
    return machines if n_passes else {}


class _Asked(NamedTuple):
    """What a machine asks: points on a line, each with several half-widths of the rounded kinks."""

    direction: Array
    steps: tuple[float, ...]
    widths: tuple[float, ...]  #: half-widths in the formulation's unit; the present one is first
    half_widths: tuple[float, ...]  #: the same as they are
    bent: float  #: the half-width that curvature is evaluated with

    @property
    def full(self) -> float:
        """The step where curvature is evaluated."""
        return 1.0 if 1.0 in self.steps else 0.0

    @property
    def points(self) -> tuple[PointOnLine, ...]:
        compared = (PointOnLine(step, width) for width in self.half_widths for step in self.steps)
        return *compared, PointOnLine(self.full, self.bent)


class _Known(NamedTuple):
    """F where the descent is, with one half-width."""

    half_width: float
    rounded_off: float  #: what rounding off adds to F
    here: Here


class ProblemElsewhere:
    """A ``SmoothProblem`` known by sums over its rows, and the descent that solves it.

    ``within``: kernel values of its vectors, in double precision; ``n_rows``: those that belong to
    the machine.
    """

    patience, n_factors = _PASSES, 1

    def __init__(self, within: Array, start: Point, n_rows: int, formulation: Formulation) -> None:
        self.within = within
        self.formulation = formulation
        self.coefs, self.offsets = start.coefs.copy(), np.array(start.offsets)
        self.best = Evaluated(start, inf, inf)
        self.known: dict[float, _Known] = {}  # by width, in the formulation's unit
        self.n_steps = self.n_tries = 0
        self.descent: Descent | None = None
        self.lines: Iterator[Line] = iter(())
        self.asked: _Asked
        self.now: _Known  # with the present half-width
        self._factor: Factor | None = None
        self._sample_from(_CURVED * n_rows)

    def first_query(self) -> Query:
        """About the start, with all half-widths that the descent may begin with."""
        return self._ask(None, _FIRST)

    def following(self, sums: Sums) -> Query | None:
        """The next query, after the answer to the last; None where the descent has ended."""
        if not self._take(sums):
            self.n_tries += 1
            if self.n_tries < _TRIES:
                return self._ask(_SHORTER * self.asked.direction, self.asked.widths)
            self.now = self.now._replace(here=self.here._replace(moved=None))
        if self.descent is None:
            self.descent = Descent(self, self._first_widths(), _GOAL, _LAST_GOAL)
            self.lines = iter(self.descent)
        for line in self.lines:
            if line.direction is not None or line.width not in self.known:
                self.n_tries = 0
                return self._ask(line.direction, (line.width, line.narrower))
            self.now = self.known[line.width]
        return None

    def _ask(self, direction: Array | None, widths: tuple[float, ...]) -> Query:
        """A query about points along a direction, or where the descent is."""
        n, moves = len(self.coefs), direction is not None
        if direction is None:
            direction = np.zeros(n + len(self.offsets))
        change = np.append(self.within @ direction[:n], direction[n:])
        reach = float(np.abs(change).max(initial=0.0))
        direction = direction * min(1.0, self._length(_REACH) / max(reach, 1e-300))
        half_widths = tuple(map(self._length, widths))
        if moves:  # objectives are compared: that of the present point has this one
            half_widths = self.now.half_width, *half_widths[1:]
        steps = _STEPS if moves else (0.0,)
        bent = self._length(min(_BENT, _TIMES * widths[0]))
        self.asked = _Asked(direction, steps, widths, half_widths, bent)
        points = self.asked.points
        return Query(
            self.coefs,
            self.offsets,
            direction[:n],
            direction[n:],
            points,
            len(points) - 1,
            self.one_in,
        )

    def _sample_from(self, n_curved: float) -> None:
        """Choose the fraction of the ``n_curved`` rows that curvature is summed over."""
        self.one_in = max(1, int(n_curved) // (_SAMPLED * max(1, len(self.coefs))))

    def _length(self, width: float) -> float:
        """A length that is given in the formulation's unit."""
        return width * self.formulation.width(tuple(self.offsets.tolist()))

    def _take(self, sums: Sums) -> bool:
        """Go to the best point of an answer; False where it is no better than the present one."""
        asked, found = self.asked, sums.losses
        self._sample_from(float(found.n_curved[0]))
        self.curvature, self.steepest = sums.curvature, float(found.total_cost[0]) / asked.bent
        self._factor = None
        n = len(self.coefs)
        along, shift = asked.direction[:n], asked.direction[n:]
        steps = np.array([point.step for point in asked.points])
        w_at_basis, change = self.within @ self.coefs, self.within @ along
        linear = found.slopes @ self.offsets + steps * (found.slopes @ shift)
        halves = 0.5 * self.coefs @ w_at_basis + steps * (self.coefs @ change)
        halves += 0.5 * steps**2 * (along @ change)
        objectives, exact = halves + linear + found.rounded, halves + linear + found.exact
        self._keep_best(steps, exact, linear + found.exact)
        n_steps = len(asked.steps)
        at = int(np.argmin(objectives[:n_steps]))
        moves = n_steps > 1
        if moves and objectives[at] >= self.here.objective:
            return False
        self.known = {}
        for k, width, half_width in zip(
            range(at, len(steps), n_steps), asked.widths, asked.half_widths, strict=False
        ):
            by_coefs = w_at_basis + steps[k] * change - found.g_at_basis[k]
            gradient = np.append(by_coefs, found.slopes + found.by_offset[k])
            here = Here(float(objectives[k]), gradient, steps[k] * asked.direction)
            self.known[width] = _Known(half_width, float(objectives[k] - exact[k]), here)
        self.now = self.known[asked.widths[0]]
        self.coefs, offsets = self._point(steps[at])
        self.offsets = np.array(offsets)
        self.n_steps += moves
        return True

    def _keep_best(self, steps: Array, objectives: Array, losses: Array) -> None:
        """Remember the best of all points, with kinks as they are."""
        at = int(np.argmin(objectives))
        if objectives[at] < self.best.objective:
            self.best = Evaluated(self._point(steps[at]), float(losses[at]), float(objectives[at]))

    def _point(self, step: float) -> Point:
        n = len(self.coefs)
        offsets = self.offsets + step * self.asked.direction[n:]
        return Point(self.coefs + step * self.asked.direction[:n], tuple(offsets.tolist()))

    def _first_widths(self) -> tuple[float, ...]:
        size = abs(self.best.objective)
        small = [width for width in _FIRST if self.known[width].rounded_off <= _ADDED * size]
        first = small[0] if small else _FIRST[-1]
        return first, *(width for width in _WIDTHS if width < first)

    # --- what the descent asks

    @property
    def here(self) -> Here:
        return self.now.here

    @property
    def factor(self) -> Factor:
        """That of the last pass."""
        if self._factor is None:
            self._factor = hessian_factor(self.within, self.curvature, self.steepest)
        return self._factor

    def renew_factor(self, worn: bool) -> None:
        """Every pass brings a new one."""

    def lacks(self) -> float:
        """Not known, as multipliers are not kept; no goal asks for it."""
        return 0.0

    def narrows(self) -> bool:
        return self.now.rounded_off > _DIFFERENCE * abs(self.best.objective)

    @property
    def scores(self) -> Array:
        """Of the vectors, at the best point."""
        return self.within @ self.best.point.coefs

    @property
    def converged(self) -> bool:
        """Whether another step would gain little."""
        return self.descent is not None and self.descent.gain <= _NEAR


#: Kernel values of a block, its rows at least, and the blocks that are computed together.
_VALUES, _LEAST, _BLOCKS = 2**20, 64, 16

#: Curved rows that are multiplied together, at least; and of larger bases, one for each vector.
_TOGETHER = 1024


class SpanMachines(NamedTuple):
    """The machines of a basis, by number, as they are sent to the places that hold rows."""

    vectors: Any  #: the basis
    own: dict[int, NDArray[np.intp]]  #: the vectors that a machine uses
    selections: dict[int, RowSelection]  #: the rows that belong to it
    spec: KernelSpec
    formulation: Formulation
    dtype: np.dtype  #: of kernel values
    accuracy: float  #: as ``kernel_matrix`` has it


class PointOnLine(NamedTuple):
    """A point on the line of a query, and the half-width of the rounded kinks there."""

    step: float
    width: float


class Query(NamedTuple):
    """A query about a machine at points on a line."""

    coefs: Array
    offsets: Array
    along: Array  #: the direction, of coefficients
    shift: Array  #: and of offsets
    points: tuple[PointOnLine, ...]
    curved: int  #: the point whose curvature is wanted, by number
    one_in: int = 1  #: curvature is summed over every ``one_in``-th of the curved rows


class Losses(NamedTuple):
    """Losses and their gradients, summed over rows; arrays are over points."""

    total_cost: Array  #: (1,)
    n_curved: Array  #: (1,): rows whose losses are curved
    slopes: Array  #: (n_offsets,): the d_k of F
    rounded: Array  #: losses with rounded kinks
    exact: Array  #: losses with kinks as they are
    g_at_basis: Array  #: (n_points, n_vectors): ``sum_i coef_i k(x_i, b)``, of multipliers implied
    by_offset: Array  #: (n_points, n_offsets): slopes of the losses in the offsets

    @classmethod
    def of_nothing(cls, query: Query) -> Losses:
        n_points, n, n_offsets = len(query.points), len(query.coefs), len(query.offsets)
        own = (n_offsets,), (n_points,), (n_points,), (n_points, n), (n_points, n_offsets)
        shapes = (1,), (1,), *own
        return cls(*(np.zeros(shape) for shape in shapes))

    def plus(self, other: Losses) -> Losses:
        return Losses(*(one + more for one, more in zip(self, other, strict=True)))


class Sums(NamedTuple):
    """The answer: sums over rows."""

    losses: Losses
    curvature: Curvature

    def plus(self, other: Sums) -> Sums:
        """Those of the rows of both."""
        return Sums(self.losses.plus(other.losses), self.curvature.plus(other.curvature))


#: Answers of several machines, by number.
SumsByMachine = dict[int, Sums]


def merged_sums(answers: Sequence[SumsByMachine]) -> SumsByMachine:
    """The answers of several places as one, added up in their order."""
    whole: SumsByMachine = {}
    for answer in answers:
        for number, own in answer.items():
            whole[number] = whole[number].plus(own) if number in whole else own
    return whole


def add_up(
    X: Any,
    given: NDArray,
    weights: Array,
    sent: SpanMachines,
    queries: dict[int, Query],
    run: Callable = map,
) -> SumsByMachine:
    """The sums over some rows.

    They do not depend on the number of threads.

    ``given``: the targets that the rows were given with.
    """
    n_vectors = sent.vectors.shape[0]
    kernel = TrainingKernel(sent.spec, sent.vectors)
    columns = kernel.matrix(sent.dtype, sent.accuracy).columns(np.arange(n_vectors))
    size = max(_LEAST, _VALUES // max(1, n_vectors))
    members = {number: sent.selections[number].members(given) for number in queries}
    totals = {
        number: _Total(query, run) for number, query in queries.items() if len(members[number])
    }

    def of_block(first: int) -> dict[int, _BlockSums]:
        last = min(first + size, len(weights))
        block = columns.values(columns.new_lines(X[first:last]), last - first)
        found = {}
        for number in totals:
            start, stop = np.searchsorted(members[number], [first, last])
            if start < stop:
                at = members[number][start:stop]
                selection, own = sent.selections[number], sent.own[number]
                bounds = selection.costs_of(given[at]) * weights[at]
                found[number] = _block_sums(
                    _part(block, at - first, own),
                    selection.targets_of(given[at]),
                    bounds,
                    queries[number],
                    sent.formulation,
                )
        return found

    starts = range(0, len(weights), size)
    for start in range(0, len(starts), _BLOCKS):
        for found in run(of_block, starts[start : start + _BLOCKS]):
            for number, own in found.items():
                totals[number].add(own)
    return {number: total.sums() for number, total in totals.items()}


def _part(block: NDArray, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
    """Some rows and columns; the block itself where these are all there are, in order."""
    if not np.array_equal(columns, np.arange(block.shape[1])):
        return block[np.ix_(rows, columns)]
    return block[rows] if len(rows) < len(block) else block


class _BlockSums(NamedTuple):
    """The sums over a block of rows, and its rows that are curved."""

    losses: Losses
    lines: NDArray
    curvatures: Array
    crossed: Array


def _block_sums(
    block: NDArray, targets: Array, bounds: Array, query: Query, formulation: Formulation
) -> _BlockSums:
    n, n_offsets = len(targets), len(query.offsets)
    line = np.stack([query.coefs, query.along], axis=1).astype(block.dtype)
    scores, changes = np.ascontiguousarray((block @ line).T, dtype=np.float64)
    ramps = ramps_of(formulation, targets, bounds)
    heights, rises = ramps.heights(scores, query.offsets), ramps.changes(changes, query.shift)
    n_points = len(query.points)
    rounded, exact = np.empty((2, n_points))
    by_offset = np.empty((n_points, n_offsets))
    coefs = np.empty((n_points, n), dtype=block.dtype)
    for number, point in enumerate(query.points):
        here = heights + point.step * rises
        losses = smoothed_losses(ramps, here, point.width, n, n_offsets)
        rounded[number], by_offset[number] = losses.loss, losses.by_offset
        coefs[number] = losses.coefs
        exact[number] = ramps.costs @ np.maximum(here, 0.0)
        if number == query.curved:
            every = np.flatnonzero(losses.curvatures)
            at = every[:: query.one_in]
            scale = len(every) / max(1, len(at))
            curvatures, crossed = scale * losses.curvatures[at], scale * losses.crossed[:, at]
    sums = Losses(
        np.array([bounds.sum()]),
        np.array([float(len(every))]),
        np.array(formulation.slopes(float(bounds.sum()))),
        rounded,
        exact,
        (coefs @ block).astype(np.float64),
        by_offset,
    )
    return _BlockSums(sums, block[at], curvatures, crossed)


class _Total:
    """The sums of a machine; blocks are added one after the other."""

    def __init__(self, query: Query, run: Callable) -> None:
        self.losses = Losses.of_nothing(query)
        self.curvature = Curvature.of_nothing(len(query.coefs), len(query.offsets))
        self.enough = max(_TOGETHER, len(query.coefs))
        self.run = run
        self.waiting: list[_BlockSums] = []
        self.n_waiting = 0

    def add(self, block: _BlockSums) -> None:
        self.losses = self.losses.plus(block.losses)
        if len(block.lines):
            self.waiting.append(block)
            self.n_waiting += len(block.lines)
        if self.n_waiting >= self.enough:
            self._bend()

    def sums(self) -> Sums:
        if self.waiting:
            self._bend()
        return Sums(self.losses, self.curvature)

    def _bend(self) -> None:
        """Add the rows that wait to the curvature."""
        lines = np.concatenate([block.lines for block in self.waiting])
        curvatures = np.concatenate([block.curvatures for block in self.waiting])
        crossed = np.concatenate([block.crossed for block in self.waiting], axis=1)
        self.waiting, self.n_waiting = [], 0
        self.curvature = self.curvature.plus(
            Curvature.of_rows(lines, curvatures, crossed, self.run)
        )
