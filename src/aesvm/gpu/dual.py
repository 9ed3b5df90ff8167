"""The dual's loop on a device: the operations of ``solver.smo``.

Everything stays on the device: coefficients, scores, the working set and its kernel values, and the
rows, unless there is no room for them (``vectors``).
The host asks for the steps of an iteration, one after another, and for the working set of the next;
then it reads what came of all that, a dozen numbers.

``FreeVariables`` is a Newton step as that of ``solver.free_variables``, which says what it is for:
there in the variables of a working set, here in all that are in play and strictly between their
bounds. A device factorises a matrix of some thousands of them in the time of some thousand pair
updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from aesvm.gpu.cuda import DeviceVariables, Summary, Work
from aesvm.gpu.devices import Device
from aesvm.gpu.matrix import DeviceColumns, add
from aesvm.gpu.vectors import HostVectors
from aesvm.solver import smo
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.stagnation import Stagnation
from aesvm.solver.state import DualState, check_finite
from aesvm.solver.working_set import (
    FALL,
    REST,
    RISE,
    Edge,
    possible_moves,
    violators,
)

#: A working set is solved to this fraction of the violation that it was chosen at.
_INNER = 0.2

#: Pair updates of a working set, per variable: then the next one, or a Newton step, gains more.
#: And pair updates where the working set is all variables in play: some 0.2 s on an H200.
_UPDATES_OF_SET, _UPDATES_OF_ALL = 4, 200_000

#: The fraction of variables in play that is worth the copying, once it rests.
SHRINK = 0.3

#: To leave out variables takes the host some 2 ms. It does so when scores of variables at rest have
#: taken as many products of two features: about as long, on a large GPU.
_SHRINK_PRODUCTS = 3e10

#: A Newton step in n free variables takes a large GPU about as long as this many pair updates, and
#: ``n^3 / _CUBE``. (In 10,000 it takes an H200 0.1 s, and an update 1.2 us.) It is made when
#: ``_PATIENCE`` times as many were made since the last one; when as many were made, if that one
#: lowered the objective more than the pair updates before it, for the time that it took.
_UPDATES, _CUBE, _PATIENCE = 10_000, 5e6, 4

#: Free variables of a Newton step, at most: their matrix takes 2 GiB, three times over.
_MOST_FREE = 16_384


class _Everything:
    """All variables, and the rows that they belong to, on the device."""

    def __init__(self, problem: DualState, device: Device) -> None:
        self.problem = problem
        self.device = device
        xp = device.xp
        columns = problem.columns
        assert isinstance(columns, DeviceColumns)
        self.vectors = columns.vectors
        self.scores = device.array(problem.scores)
        self.coefs = device.array(problem.coefs)
        self.linear = device.array(problem.linear)
        self.lower = device.array(problem.lower)
        self.upper = device.array(problem.upper)
        self.lengths = device.array(problem.lengths)
        self.at = device.array(problem.at, dtype=np.int32)
        self.is_one_to_one = len(self.vectors) == len(problem.coefs)  # rows and variables
        # numbered from 0, those without variables left out
        groups = np.searchsorted(problem.group_numbers, problem.groups)
        self.groups = device.array(groups, dtype=np.int8)
        self.n_groups = len(problem.group_numbers)
        self.spans = problem.spans(np.arange(len(problem.coefs)))
        self.every = xp.arange(len(problem.coefs))
        self.moved_before = problem.total_moved  # before the first iteration

    def by_row(self) -> Any:
        """The coefficients of each row, summed up."""
        xp = self.device.xp
        if self.is_one_to_one:
            total = xp.empty(len(self.vectors))
            total[self.at] = self.coefs
            return total
        return xp.bincount(self.at, self.coefs, len(self.vectors))

    def add(self, vectors: Any, scores: Any, changes: Any) -> None:
        """Add ``K changes`` to the scores of some rows; changes are given by row."""
        xp = self.device.xp
        changed = xp.flatnonzero(changes).astype(np.int32)
        self.problem.n_evaluations += len(changed) * len(vectors)
        add(vectors, self.vectors, changed, changes[changed][None], scores[None])

    def to_problem(self) -> None:
        """Bring the problem of the host up to date."""
        self.problem.coefs = self.device.to_host(self.coefs)
        self.problem.scores = self.device.to_host(self.scores)
        # also those that edges do not show: of variables at bounds
        check_finite(self.problem.scores)


class DeviceDual:
    """The variables in play, and their rows."""

    def __init__(self, problem: DualState, stagnation: Stagnation, cache_bytes: int = 0) -> None:
        """No kernel rows are kept, whatever ``cache_bytes``: computing them anew is faster."""
        self.n_updates = 0
        self.all = _Everything(problem, problem.kernel.device)
        self.stagnation = stagnation
        self.device = self.all.device
        self.operations = self.device.operations
        self.size = self.operations.WORKING_SET
        self.left_out: list[tuple[Any, Any]] = []
        self.vectors: Any = None
        self.n_moved = 0  # variables that moved so far, each in every iteration
        self.n_columns = 0  # rows in play, in the last iteration
        self.at_rest = self.in_vain = 0.0  # products of features, for scores of variables at rest
        self.since = 0.0, 0.0  # pair updates until the last Newton step, and what these lowered
        self.patience = _PATIENCE
        n = len(problem.coefs)
        dtype = self.all.vectors.form.dtype
        subset = self.operations.subset_size(dtype)
        self.work = Work.of(n, self.size, subset, dtype, self.device.xp)
        self.enter(self.all.every)

    def enter(self, variables: Any) -> None:
        """Take up the given variables, ascending, as they are among all."""
        everything, xp = self.all, self.device.xp
        self.variables = variables
        self.vectors = None  # the next ones may need the memory of these
        at = everything.at[variables]
        if len(variables) == len(everything.coefs):
            rows, own = xp.arange(len(everything.vectors)), at
            self.vectors = everything.vectors
        elif everything.is_one_to_one:
            rows, own = at, xp.arange(len(at))
            self.vectors = everything.vectors.take(rows)
        else:
            rows, own = xp.unique(at, return_inverse=True)
            self.vectors = everything.vectors.take(rows)
        self.rows = rows
        groups = everything.groups[variables]
        self.now = DeviceVariables(
            everything.scores[rows],
            own.astype(np.int32),
            everything.coefs[variables],
            everything.linear[variables],
            everything.lower[variables],
            everything.upper[variables],
            groups,
        )
        ends = [int((groups <= g).sum()) for g in range(everything.n_groups)]
        self.spans = [slice(a, b) for a, b in pairwise([0, *ends])]
        n = len(variables)
        self.work = self.work._replace(marks=self.work.marks[:n], rest=self.work.rest[:n])
        if len(self.work.marks) < n:
            none = xp.zeros(n, dtype=np.int32)
            self.work = self.work._replace(marks=none, rest=xp.zeros(n, dtype=np.int8))
        self.work.marks.fill(0)
        self.work.rest.fill(0)
        self.work.n_chosen.fill(0)
        self.n_chosen, self.mark = 0, 1
        self.stagnation.follow(*self.state()[:2])

    def state(self) -> tuple[Any, Any, Any]:
        slopes = self.now.scores[self.now.at] + self.now.linear
        return self.now.coefs, slopes, self.all.lengths[self.variables]

    def leave(self) -> None:
        """Write down coefficients and scores among all."""
        self.stagnation.count(*self.state())
        self.all.coefs[self.variables] = self.now.coefs
        self.all.scores[self.rows] = self.now.scores

    def measure(self) -> float:
        work, now = self.work, self.now
        self.operations.choose(work, now, self.spans, self.n_chosen, self.mark)
        self.operations.count_rest(work, now, REST)
        self.mark += 1
        summary = self.device.to_host(work.summary)
        check_finite(summary[Summary.VIOLATION : Summary.N_CHOSEN])
        self.n_chosen, self.n_stay = int(summary[Summary.N_CHOSEN]), int(summary[Summary.N_STAY])
        self.n_updates, self.moved = int(summary[Summary.N_UPDATES]), float(summary[Summary.MOVED])
        self.n_free, self.fell = int(summary[Summary.N_FREE]), float(summary[Summary.FELL])
        n_moved = int(summary[Summary.N_MOVED])
        self.all.problem.n_evaluations += (n_moved - self.n_moved) * self.n_columns
        self.in_vain += (n_moved - self.n_moved) * self.at_rest
        self.n_moved = n_moved
        return float(summary[Summary.VIOLATION])

    def improve(self, aim: float, limit: int, shrinking: bool, is_over: Callable[[], bool]) -> None:
        if self._leap():
            return
        work, now, operations = self.work, self.now, self.operations
        inner, most, n_solved = _INNER, _UPDATES_OF_SET * self.size, self.n_chosen
        if now.n <= self.size:  # all of them
            work.chosen[: now.n] = self.device.xp.arange(now.n, dtype=np.int32)
            work.n_chosen.fill(now.n)
            inner, most, n_solved = 0.0, _UPDATES_OF_ALL, now.n
        operations.find_rows(work, now)
        self.vectors.write_square(work.numbers, work.n_chosen, work.block)
        operations.solve_working_set(
            work, now, self.all.n_groups, 0.5 * aim, inner, min(limit, most)
        )
        moved = work.moved_rows, work.moves, work.n_moved
        self.vectors.sum_lines(self.vectors, *moved, now.scores[None])
        self.n_columns = len(self.vectors)
        self.all.problem.n_evaluations += n_solved**2
        self.at_rest = float(now.n - self.n_stay) * self.vectors.n_products
        if shrinking:
            self._shrink()

    def _leap(self) -> bool:
        """Make a Newton step in the free variables, where that is due: whether it did."""
        n = self.n_free
        cost = _UPDATES + n**3 / _CUBE
        n_updates, fell = self.n_updates - self.since[0], self.fell - self.since[1]
        if not 2 <= n <= _MOST_FREE or n_updates < self.patience * cost:
            return False
        too_large = 4 * 8 * n * n > self.device.free_bytes()
        if too_large or isinstance(self.vectors, HostVectors):
            return False
        self.since = self.n_updates, self.fell
        now, xp = self.now, self.device.xp
        free = xp.flatnonzero((now.lower < now.coefs) & (now.coefs < now.upper))
        numbers, groups = now.at[free], now.groups[free]
        own = self.vectors.take(numbers)
        of_groups = [(groups == g).astype(np.float64) for g in range(self.all.n_groups)]
        low, high, coefs = now.lower[free], now.upper[free], now.coefs[free]
        change, fall = FreeVariables(
            xp,
            self.operations.solve_definite,
            own.values(own).astype(np.float64),
            now.scores[numbers] + now.linear[free],
            low - coefs,
            high - coefs,
            [of_group for of_group in of_groups if bool(of_group.any())],
            self.all.problem.unit,
        ).best_change()
        is_worth_it = fall * n_updates > fell * cost
        self.patience = 1 if is_worth_it else _PATIENCE
        if change is None:
            return False
        after = coefs + change
        # a variable that reaches a bound is at it to the last digit
        near = float(np.finfo(np.float64).eps) * (high - low)
        after = xp.where(after - low <= near, low, xp.where(high - after <= near, high, after))
        now.coefs[free] = after
        add(self.vectors, self.vectors, numbers, (after - coefs)[None], now.scores[None])
        self.work.summary[Summary.MOVED] += abs(after - coefs).sum()
        self.all.problem.n_evaluations += n * (n + len(self.vectors))
        return True

    def _shrink(self) -> None:
        """Leave out variables that rest at a bound, once they are many and have taken long."""
        on_host = isinstance(self.vectors, HostVectors)  # all go over in every iteration
        if self.n_stay > (1.0 - SHRINK) * self.now.n:
            return
        if self.in_vain < _SHRINK_PRODUCTS and not on_host:
            return
        self.in_vain = 0.0
        xp = self.device.xp
        self.leave()
        stay = self.work.rest < REST
        kept = xp.flatnonzero(stay)
        before, rest = self.rows, self.work.rest[kept].copy()
        place = xp.where(stay, xp.cumsum(stay) - 1, -1)[self.work.chosen[: self.n_chosen]]
        self.enter(self.variables[kept])
        out = xp.ones(len(self.all.vectors), dtype=bool)
        out[self.rows] = False
        self.left_out.append((before[out[before]], self.all.by_row()))
        self.work.rest[...] = rest
        recent = place[place >= 0].astype(np.int32)
        self.n_chosen = len(recent)
        self.work.chosen[: len(recent)] = recent
        self.work.n_chosen.fill(len(recent))
        self.work.marks[recent[: self.size // 2]] = self.mark

    def rejoin(self, aim: float) -> bool:
        self.leave()
        everything, xp = self.all, self.device.xp
        if len(self.variables) == len(everything.coefs):
            return False
        now = everything.by_row()
        for rows, then in self.left_out:
            scores = everything.scores[rows]
            everything.add(everything.vectors.take(rows), scores, now - then)
            everything.scores[rows] = scores
        self.left_out = [(rows, now) for rows, _ in self.left_out]
        slopes = everything.scores[everything.at] + everything.linear
        moves = possible_moves(everything.coefs, everything.lower, everything.upper)
        every = _edges(xp, slopes, moves, everything.spans)
        if max(edge.violation for edge in every) <= aim:
            return False
        in_play = _edges(xp, slopes[self.variables], moves[self.variables], self.spans)
        violates = violators(in_play, every, slopes, moves, xp)
        violates[self.variables] = True
        if int(violates.sum()) == len(self.variables):
            return False
        self.enter(xp.flatnonzero(violates))
        out = xp.ones(len(everything.vectors), dtype=bool)
        out[self.rows] = False
        self.left_out = [(xp.flatnonzero(out), now)]
        return True

    def refresh(self, aim: float) -> bool:
        everything = self.all
        everything.to_problem()
        everything.problem.total_moved = everything.moved_before + self.moved
        if not everything.problem.has_drifted(aim):
            return False
        changes = everything.by_row()
        everything.scores = self.device.xp.zeros(len(everything.vectors))
        everything.add(everything.vectors, everything.scores, changes)
        everything.moved_before = float(abs(changes).sum()) - self.moved
        everything.to_problem()
        self.enter(self.variables)
        return True


def _edges(xp: Any, slopes: Any, moves: Any, spans: list[slice]) -> list[Edge]:
    """See ``Edge.of``, of each group."""
    rises = xp.where((moves & RISE) != 0, slopes, HUGE)
    falls = xp.where((moves & FALL) != 0, slopes, -HUGE)
    return [
        Edge(part, float(rises[part].min()), float(falls[part].max()))
        if part.stop > part.start
        else Edge(part, HUGE, -HUGE)
        for part in spans
    ]


#: ``solver.smo.minimize`` of a ``DeviceKernel``.
minimize = partial(smo.minimize, operations=DeviceDual)


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
    >>> from aesvm.gpu.dual import FreeVariables
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
