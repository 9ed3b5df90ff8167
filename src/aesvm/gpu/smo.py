"""The dual of a weighted SVM, solved on a device: the problem and method of ``solver.smo``.

Everything stays on the device: coefficients, scores, the working set and its kernel values, and the
rows, unless there is no room for them (``host_vectors``).
The host asks for the steps of a round, one after another, and then reads what came of it, a dozen
numbers. Where no slopes differ by more than is aimed at, the steps change nothing, so that the host
need not look before it asks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from sys import maxsize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.host_vectors import HostVectors
from aesvm.gpu.matrix import DeviceColumns, DeviceKernel, add
from aesvm.gpu.steps import Account, DeviceVariables, Work
from aesvm.solver import smo
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.stagnation import Stagnation
from aesvm.solver.state import DualState, Known, PreparedVariables, Solution

#: Pair updates of a working set, per variable, where it is all variables that are in play.
_UPDATES_OF_ALL = 200

#: To leave out variables takes the host some 2 ms. It does so when scores of variables at rest have
#: taken as many products of two features: about as long, on a large GPU.
_SHRINK_PRODUCTS = 3e10


def minimize(
    kernel: DeviceKernel,
    rows: NDArray[np.intp],
    signs: NDArray,
    linear: NDArray,
    bounds: NDArray,
    *,
    groups: NDArray | None = None,
    start: NDArray | None = None,
    known: Known | None = None,
    prepared: PreparedVariables | None = None,
    tol: float = 1e-3,
    duality_tol: float | None = None,
    finest: float = 0.0,
    max_iter: int = -1,
    cache_bytes: int = 0,
    shrinking: bool = True,
    run: Callable = map,
    watch: Callable[[float, int, int], bool | None] | None = None,
) -> Solution:
    """Minimise ``1/2 a'Qa + p'a`` between bounds, group sums held.

    Parameters are those of ``aesvm.solver.smo.minimize``. No kernel rows are kept: computing them
    anew is faster.
    """
    if prepared is None:
        prepared = PreparedVariables.of(kernel, rows, groups)
    problem = DualState(kernel, prepared, signs, linear, bounds, start, known, run)
    if not len(rows):
        return problem.solution(0, tol, duality_tol)
    everything = _Everything(problem, kernel.device)
    limit = maxsize if max_iter == -1 else max_iter
    stagnation = Stagnation(len(rows), problem.unit)
    active = _Active(everything, stagnation)
    n_iter = 0
    aim = tol
    while True:
        done = active.improve(aim, limit - n_iter, shrinking)
        n_iter += done.n_updates
        if watch is not None and watch(max(done.gap, 0.0), n_iter, problem.n_evaluations):
            limit = n_iter
        ended, stalled = n_iter >= limit, stagnation.count_iteration(active.state, n_iter)
        if done.gap <= aim or ended or stalled:
            rejoined = active.rejoin(aim)
            if rejoined and not ended:
                shrinking = shrinking and not stalled
                continue
            if everything.refresh(active, aim) and not ended and stagnation.n_windows < 2:
                continue
            everything.to_problem()
            next_aim = smo.TIGHTER * aim
            is_too_fine = next_aim < max(finest, smo.TIGHTEST * tol)
            if ended or stalled or is_too_fine or not problem.is_short_of(duality_tol):
                break
            if aim == tol:
                limit = min(limit, n_iter + smo.EXTRA * max(n_iter, stagnation.most_updates))
            aim = next_aim
            continue
        if shrinking:
            active.shrink(done)
    return problem.solution(n_iter, tol, duality_tol)


class _Everything:
    """All variables and points, on the device."""

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
        self.is_one_to_one = len(self.vectors) == len(problem.coefs)  # points and variables
        # numbered from 0, those without variables left out
        groups = np.searchsorted(problem.group_numbers, problem.groups)
        self.groups = device.array(groups, dtype=np.int8)
        self.n_groups = len(problem.group_numbers)
        self.spans = problem.spans(np.arange(len(problem.coefs)))
        self.every = xp.arange(len(problem.coefs))
        self.moved = problem.total_moved  # before the first round

    def by_point(self) -> Any:
        """The coefficients of each point, summed up."""
        xp = self.device.xp
        if self.is_one_to_one:
            total = xp.empty(len(self.vectors))
            total[self.at] = self.coefs
            return total
        return xp.bincount(self.at, self.coefs, len(self.vectors))

    def add(self, vectors: Any, scores: Any, changes: Any) -> None:
        """Add ``K changes`` to the scores of some points; changes are given by point."""
        xp = self.device.xp
        changed = xp.flatnonzero(changes).astype(np.int32)
        self.problem.n_evaluations += len(changed) * len(vectors)
        add(vectors, self.vectors, changed, changes[changed][None], scores[None])

    def refresh(self, active: _Active, tol: float) -> bool:
        """Compute all scores anew where rounding may have added up to much: whether it did."""
        problem = self.problem
        self.to_problem()
        problem.total_moved = self.moved + active.moved()
        if not problem.has_drifted(tol):
            return False
        changes = self.by_point()
        self.scores = self.device.xp.zeros(len(self.vectors))
        self.add(self.vectors, self.scores, changes)
        self.moved = float(abs(changes).sum()) - active.moved()
        active.enter(active.variables)
        return True

    def to_problem(self) -> None:
        """Bring the problem of the host up to date."""
        self.problem.coefs = self.device.to_host(self.coefs)
        self.problem.scores = self.device.to_host(self.scores)
        # also those that edges do not show: of variables at bounds, or after the last round
        _check_finite(self.problem.scores)


class _Round:
    """What the host reads of a round."""

    def __init__(self, account: NDArray[np.float64]) -> None:
        self.gap = float(account[Account.GAP])
        self.n_updates = int(account[Account.N_UPDATES])
        self.n_moved = int(account[Account.N_MOVED])
        self.n_chosen = int(account[Account.N_CHOSEN])
        self.n_stay = int(account[Account.N_STAY])
        edges = account[Account.LOWEST : Account.N_CHOSEN]
        _check_finite(np.array([*edges, self.gap]))


def _check_finite(values: NDArray[np.float64]) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            "Sums of kernel values, or what C and sample_weight make of them, are not finite "
            "numbers: scale the data, or lower these."
        )


class _Active:
    """The variables in play, and their points."""

    def __init__(self, everything: _Everything, stagnation: Stagnation) -> None:
        self.all = everything
        self.stagnation = stagnation
        self.device = everything.device
        self.operations = everything.device.operations
        self.size = self.operations.WORKING_SET
        self.left_out: list[tuple[Any, Any]] = []
        self.vectors: Any = None
        self.in_vain = 0.0  # products of features, for scores of variables at rest
        n = len(everything.coefs)
        self.work = Work.of(n, self.size, everything.vectors.form.dtype, self.device.xp)
        self.enter(everything.every)

    def moved(self) -> float:
        """All that coefficients have moved in the rounds so far."""
        return float(self.work.account[Account.MOVED])

    def enter(self, variables: Any) -> None:
        """Take up the given variables, ascending, as they are among all."""
        everything, xp = self.all, self.device.xp
        self.variables = variables
        self.vectors = None  # the next ones may need the memory of these
        at = everything.at[variables]
        if len(variables) == len(everything.coefs):
            points, own = xp.arange(len(everything.vectors)), at
            self.vectors = everything.vectors
        elif everything.is_one_to_one:
            points, own = at, xp.arange(len(at))
            self.vectors = everything.vectors.take(points)
        else:
            points, own = xp.unique(at, return_inverse=True)
            self.vectors = everything.vectors.take(points)
        self.points = points
        groups = everything.groups[variables]
        self.now = DeviceVariables(
            everything.scores[points],
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
        """What ``stagnation`` follows: coefficients, slopes and the lengths of rows."""
        slopes = self.now.scores[self.now.at] + self.now.linear
        return self.now.coefs, slopes, self.all.lengths[self.variables]

    def leave(self) -> None:
        """Write down coefficients and scores among all."""
        self.stagnation.count(*self.state())
        self.all.coefs[self.variables] = self.now.coefs
        self.all.scores[self.points] = self.now.scores

    def improve(self, aim: float, limit: int, count_rest: bool) -> _Round:
        """Solve for a working set, and bring all scores up to date."""
        work, now, operations = self.work, self.now, self.operations
        n_groups = self.all.n_groups
        operations.choose(work, now, self.spans, self.n_chosen, self.mark)
        if count_rest:
            operations.count_rest(work, now, smo.REST)
        tol, inner, most = 0.5 * aim, smo.INNER, smo.UPDATES * self.size
        if now.n <= self.size:  # all of them
            work.chosen[: now.n] = self.device.xp.arange(now.n, dtype=np.int32)
            work.n_chosen.fill(now.n)
            inner, most = 0.0, _UPDATES_OF_ALL * self.size
        operations.find_rows(work, now)
        self.vectors.write_square(work.numbers, work.n_chosen, work.block)
        limit = max(0, min(limit, most))
        operations.update_pairs(work, now, n_groups, aim, tol, inner, limit)
        moved = work.moved_rows, work.moves, work.n_moved
        self.vectors.sum_lines(self.vectors, *moved, now.scores[None])
        found = _Round(self.device.to_host(work.account))
        self.n_chosen = found.n_chosen
        self.mark += 1
        n_solved = now.n if now.n <= self.size else found.n_chosen
        self.all.problem.n_evaluations += found.n_moved * len(self.vectors) + n_solved**2
        return found

    def shrink(self, done: _Round) -> None:
        """Leave out variables that rest at a bound, once they are many and have taken long."""
        self.in_vain += float(self.now.n - done.n_stay) * done.n_moved * self.vectors.n_products
        on_host = isinstance(self.vectors, HostVectors)  # all go over in every round
        if done.n_stay > (1.0 - smo.SHRINK) * self.now.n:
            return
        if self.in_vain < _SHRINK_PRODUCTS and not on_host:
            return
        self.in_vain = 0.0
        xp = self.device.xp
        self.leave()
        stay = self.work.rest < smo.REST
        kept = xp.flatnonzero(stay)
        before, rest = self.points, self.work.rest[kept].copy()
        place = xp.where(stay, xp.cumsum(stay) - 1, -1)[self.work.chosen[: self.n_chosen]]
        self.enter(self.variables[kept])
        out = xp.ones(len(self.all.vectors), dtype=bool)
        out[self.points] = False
        self.left_out.append((before[out[before]], self.all.by_point()))
        self.work.rest[...] = rest
        recent = place[place >= 0].astype(np.int32)
        self.n_chosen = len(recent)
        self.work.chosen[: len(recent)] = recent
        self.work.n_chosen.fill(len(recent))
        self.work.marks[recent[: self.size // 2]] = self.mark

    def rejoin(self, tol: float) -> bool:
        """Bring all scores up to date, and take up again what violates: whether anything does."""
        self.leave()
        everything, xp = self.all, self.device.xp
        if len(self.variables) == len(everything.coefs):
            return False
        now = everything.by_point()
        for points, then in self.left_out:
            scores = everything.scores[points]
            everything.add(everything.vectors.take(points), scores, now - then)
            everything.scores[points] = scores
        self.left_out = [(points, now) for points, _ in self.left_out]
        coefs, lower, upper = everything.coefs, everything.lower, everything.upper
        slopes = everything.scores[everything.at] + everything.linear
        outer = _edges(xp, slopes, coefs, lower, upper, everything.spans)
        if max(highest - lowest for lowest, highest in outer) <= tol:
            return False
        mine = slopes[self.variables], self.now.coefs, self.now.lower, self.now.upper
        inner = _edges(xp, *mine, self.spans)
        violates = xp.zeros(len(coefs), dtype=bool)
        for span, own, whole in zip(everything.spans, inner, outer, strict=True):
            # where those in play can move in one direction alone they have no such edges
            lowest, highest = own if own[0] < HUGE and own[1] > -HUGE else whole
            rises = (coefs[span] < upper[span]) & (slopes[span] < highest)
            falls = (coefs[span] > lower[span]) & (slopes[span] > lowest)
            violates[span] = rises | falls
        violates[self.variables] = True
        if int(violates.sum()) == len(self.variables):
            return False
        self.enter(xp.flatnonzero(violates))
        out = xp.ones(len(everything.vectors), dtype=bool)
        out[self.points] = False
        self.left_out = [(xp.flatnonzero(out), now)]
        return True


def _edges(
    xp: Any, slopes: Any, coefs: Any, lower: Any, upper: Any, spans: list[slice]
) -> list[tuple[float, float]]:
    """Of each group, the smallest slope that can rise and the largest that can fall.

    ``HUGE`` and ``-HUGE`` where none can.
    """
    rises = xp.where(coefs < upper, slopes, HUGE)
    falls = xp.where(coefs > lower, slopes, -HUGE)
    return [
        (float(rises[span].min()), float(falls[span].max()))
        if span.stop > span.start
        else (HUGE, -HUGE)
        for span in spans
    ]
