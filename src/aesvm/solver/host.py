"""The dual's loop on the processor.

Kernel rows of variables that moved are used as soon as they are computed. They are kept as long as
the cache has room, where computing them anew is no faster: also their values with variables that
are left out, until these are back. They are kept as well where free variables outnumber the working
set and the cache has room for half of their rows. Where few variables are left in play, or were few
from the start, all their kernel values are held, and the working set is all of them.

A working set has room for half as many new variables. Where free variables outnumber these, the
same ones move in many iterations, and to bring the scores of all others up to date every time takes
most of the work. So a pool is chosen: the free variables, and as many that violate optimality or
are next to. Iterations go on in the pool alone until its violation is a fraction of what it was;
then the scores of all others follow at once, and the next pool is chosen. Variables that rest after
a pool are left out, unless the others violate as much as before. A pool's kernel rows are short and
used often, so they are always kept.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.crew import KeptRows, add_rows
from aesvm.solver.free_variables import newton_step
from aesvm.solver.interior_point import solve_interior
from aesvm.solver.pair_updates import update_pairs
from aesvm.solver.row_cache import RowCache
from aesvm.solver.stagnation import Stagnation, fall
from aesvm.solver.state import DualState, check_finite
from aesvm.solver.working_set import (
    FALL,
    REST,
    RISE,
    UPDATES,
    Edge,
    choose,
    count_rest,
    find_slopes,
    possible_moves,
    violators,
    write_back,
)

#: Variables solved for together.
WORKING_SET = 1024

#: The fraction of its violation that a working set is solved to, and that where kernel values take
#: long to compute: what is solved more precisely moves more variables, and fewer of them are
#: support vectors in the end. (With 0.1 in place of 0.2, heart2020, flights, covtype and ijcnn1
#: took 2 to 9 % more kernel values and 10 % more pair updates; with 0.3 a fifth more iterations.
#: With 0.1 in place of 0.3 mnist took 1.2 times the kernel values, and w8a 1.1 times.)
_INNER, _KEPT_INNER = 0.2, 0.3

#: Working sets of variables in play of which all kernel values are held, where the cache has room
#: for these; and of rows in play of which they always are. (With 4 in place of 2, solves with many
#: free variables were some 1.5 times faster on ijcnn1 and covtype, and no faster with 6.)
_HELD, _ALWAYS_HELD = 4, 2

#: Variables of a pool at first, in multiples of those that are free, and the fraction of the
#: violation that a pool is solved to. (With 0.1 in place of 0.2, heart2020 took as many kernel
#: values, and 1.2 times as long on 16 threads: 100,000 rows, three fits of each by turns.)
_POOL, _POOL_INNER = 2, 0.2

#: The fractions of the free variables and of those in play that a pool has at least and at most.
#: (With 2 and 1/2, heart2020 and generated noise took up to a tenth more kernel values; and with
#: 255,836 rows and 200 MB 13 times the floor, most of it once no pool was chosen any more.)
_LEAST_POOL, _MOST_OF_PLAY = 1.25, 2.0 / 3.0

#: Pools become ``_LARGER`` times as large once one has left more than ``_TOO_SMALL`` of the
#: violation: others then violate as much. They are at most as large as lets the cache hold the
#: kernel rows of their free variables. (Kernel values fell by 7 to 13 % on covtype (16, 4) and
#: heart2020, and by as much again on 255,836 rows of heart2020.)
_LARGER, _TOO_SMALL = 2, 0.5

#: The fraction of variables in play that is worth the copying, once it rests. (With 0.3 in place of
#: 0.15, kin40k and heart2020 took 2 to 8 % more kernel values.)
SHRINK = 0.15

#: Rows of free variables are kept where these are at most this multiple of what the cache has room
#: for.
_KEPT_ROWS = 2

#: Newton steps after pair updates that were slow.
_NEWTON_STEPS = 3

#: An interior-point method is tried once n variables have had this many n^2 slow pair updates,
#: which take about as long; again after four times as many. Its matrices take some 100 MB at most.
_INTERIOR_AFTER, _MOST_INTERIOR = 0.25, 2048


class LeftOut(NamedTuple):
    """Rows that are out of play, and what brings their scores up to date."""

    points: NDArray[np.intp]  #: these rows, ascending
    then: NDArray[np.float64]  #: coefficients of all rows, as these scores have them
    slots: NDArray[np.intp]  #: of all rows: where the cache has their values with these; or -1
    start: int = 0  #: where in the cache's rows these columns begin


class HostDual:
    """The variables in play and their training rows, as columns of the kernel matrix.

    Of these either all kernel values are held, where they are few, or the rows that the cache has
    room for.
    """

    def __init__(self, problem: DualState, stagnation: Stagnation, cache_bytes: int) -> None:
        self.n_updates = 0
        self.problem = problem
        self.stagnation = stagnation
        self.interior_after = _INTERIOR_AFTER
        self.left_out: list[LeftOut] = []
        self.pool_aim = 0.0  # the violation that a pool is solved to; 0 where there is none
        self.pool_multiple = _POOL
        self.after_pool = False  # whether the last iteration left a pool
        n = len(problem.coefs)
        self.workspace = np.empty(n + 1), np.empty(n + 1, dtype=np.intp)  # of ``choose``
        self._enter(np.arange(n))
        fit = isqrt(cache_bytes // self.columns.dtype.itemsize)
        self.most_held = min(_HELD * WORKING_SET, fit)
        self.cache = RowCache(len(self.points), cache_bytes, self.columns.dtype)
        self.square = np.empty(WORKING_SET**2, dtype=self.columns.dtype)
        self._hold()

    def _enter(self, variables: NDArray[np.intp]) -> None:
        """Take up the given variables, ascending, as the problem has them."""
        problem = self.problem
        self.variables = variables
        self.by_row = len(problem.rows) == len(problem.coefs)  # each has its own, in this order
        if self.by_row:
            self.points, self.at = variables, np.arange(len(variables))
        else:
            self.points, self.at = np.unique(problem.at[variables], return_inverse=True)
        everything = len(self.points) == len(problem.rows)
        columns = problem.columns
        self.columns = columns if everything else columns.take_by(self.points, problem.run)
        self.scores = problem.scores[self.points]
        self.coefs = problem.coefs[variables]
        self.linear = problem.linear[variables]
        self.lower, self.upper = problem.lower[variables], problem.upper[variables]
        self.lengths = problem.lengths[variables]
        self.moves = possible_moves(self.coefs, self.lower, self.upper)
        self.slopes = np.empty(len(variables))  # written by ``measure``
        self.spans = problem.spans(variables)
        self.rest = np.zeros(len(variables), dtype=np.int8)
        self.recent = np.empty(0, dtype=np.intp)
        self.stagnation.follow(*self.state()[:2])

    def state(self) -> tuple[Any, Any, Any]:
        """See ``smo.DualOperations``, as for the other methods without a docstring."""
        scores = self.scores if self.by_row else self.scores[self.at]
        return self.coefs, scores + self.linear, self.lengths

    def _hold(self, gram: NDArray | None = None) -> None:
        """Hold all kernel values, where they are few."""
        self.gram = gram
        self.n_slow_updates = 0
        if gram is None and self._are_few():
            problem = self.problem
            rows = problem.rows[self.points]
            self.gram = problem.kernel.square_by(rows, self.columns, problem.crew)
            problem.n_evaluations += self.gram.size // 2
        if self.gram is None:
            self.cache.clear(len(self.points))

    def _are_few(self) -> bool:
        always = len(self.points) <= _ALWAYS_HELD * WORKING_SET
        return always or len(self.variables) <= self.most_held

    def _leave(self) -> None:
        self.stagnation.count(*self.state())
        self.problem.coefs[self.variables] = self.coefs
        self.problem.scores[self.points] = self.scores

    def refresh(self, aim: float) -> bool:
        if not self.problem.has_drifted(aim):
            return False
        self._leave()
        self.problem.refresh()
        self.scores = self.problem.scores[self.points]
        self.stagnation.follow(*self.state()[:2])
        return True

    def measure(self) -> float:
        scores = self.scores if self.by_row else self.scores[self.at]
        self.edges = []
        for part in self.spans:
            of = scores[part], self.linear[part], self.moves[part], self.slopes[part]
            lowest, highest, total = find_slopes(*of)
            check_finite(total)
            self.edges.append(Edge(part, lowest, highest))
        return self._violation()

    def _violation(self) -> float:
        return max(edge.violation for edge in self.edges)

    def improve(self, aim: float, limit: int, shrinking: bool, is_over: Callable[[], bool]) -> None:
        if self.pool_aim >= self._violation():
            self._leave_pool()
            if self._violation() <= aim:
                return
        if shrinking and not self.pool_aim:
            self._shrink()
            self._enter_pool(aim)
        tol = 0.5 * max(aim, self.pool_aim)
        if self.gram is None:
            given = self.slopes, self.moves, self.edges, self.recent, WORKING_SET, self.workspace
            self.recent = choose(*given)
            chosen = np.sort(self.recent)
            block = self._block(chosen)
            inner = _KEPT_INNER if self.columns.worth_keeping else _INNER
            tol = max(tol, inner * self._violation())
        else:
            chosen = np.arange(len(self.coefs))
            block = self.gram
            if not np.array_equal(self.at, chosen):
                # four times as fast as np.ix_
                block = block.take(self.at, axis=1).take(self.at, axis=0)
        coefs, slopes = self.coefs[chosen], self.slopes[chosen]
        ends = np.searchsorted(chosen, [edge.part.stop for edge in self.edges])
        # a bound on the time between two looks at the clock
        many = UPDATES * min(len(chosen), _ALWAYS_HELD * WORKING_SET)
        lower, upper = self.lower[chosen], self.upper[chosen]
        diag = block.diagonal().astype(np.float64)
        limits = ends, tol, min(limit, many)
        n_updates = update_pairs(block, diag, coefs, slopes, lower, upper, *limits)
        if n_updates == many:  # pair updates are slow here
            self._leap(block, coefs, slopes, lower, upper, ends, n_updates, is_over)
        moved, total = np.empty(len(chosen), dtype=np.intp), np.empty(len(chosen))
        n_moved = write_back(chosen, coefs, lower, upper, self.coefs, self.moves, moved, total)
        points, total = self.at[moved[:n_moved]], total[:n_moved]
        if not self.by_row:
            points, which = np.unique(points, return_inverse=True)
            total = np.bincount(which, total, len(points)).astype(np.float64, copy=False)
        self.problem.total_moved += float(np.abs(total).sum())
        if self.gram is None:
            self._update(points, total)
        else:
            add_rows(self.gram, points, total, 0, self.scores)
        self.n_updates += n_updates

    def _leap(
        self,
        block: NDArray,
        coefs: NDArray[np.float64],
        slopes: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        ends: NDArray[np.intp],
        n_updates: int,
        is_over: Callable[[], bool],
    ) -> None:
        """Move many variables at once, where pair updates are slow.

        Once they have taken about as long as an interior-point method would, that is tried, where
        the working set is all variables in play.
        """
        n = len(coefs)
        self.n_slow_updates += n_updates
        is_due = self.n_slow_updates >= self.interior_after * n * n
        if self.gram is not None and n <= _MOST_INTERIOR and is_due:
            self.n_slow_updates, self.interior_after = 0, 4.0 * self.interior_after
            # with what variables that are left out add to the slopes
            linear = slopes - block @ coefs if self.left_out else self.linear
            found = solve_interior(block, linear, coefs, lower, upper, ends, is_over)
            if found is not None:
                after = block @ found + linear
                seen = (coefs, found), (slopes, after)
                fell, _ = fall(*seen, self.lengths, self.problem.unit)
                if fell > 0.0:
                    coefs[:], slopes[:] = found, after
        for _ in range(_NEWTON_STEPS):
            if is_over() or not newton_step(block, coefs, slopes, lower, upper, ends):
                break

    def _block(self, chosen: NDArray[np.intp]) -> NDArray:
        """The kernel values of a working set against itself."""
        at = self.at[chosen]
        problem = self.problem
        block = self.square[: len(at) ** 2].reshape(len(at), len(at))
        rows = problem.rows[self.points[at]]
        columns = self.columns.take(at)
        problem.n_evaluations += columns.write_square(rows, block, problem.crew)
        return block

    def _update(self, points: NDArray[np.intp], changes: NDArray[np.float64]) -> None:
        here, kept = np.zeros(len(points), dtype=bool), None
        if self._keeps_rows():
            slots = self.cache.find(points)
            here = slots >= 0
            free = self.cache.admit(points[~here])
            kept = KeptRows(self.cache.rows, slots[here], changes[here], free)
        missing = points[~here]
        lines = self.columns.own_lines(missing, self.problem.rows[self.points[missing]])
        self.problem.add_lines(self.columns, lines, changes[~here], self.scores, kept)

    def _keeps_rows(self) -> bool:
        """Whether kernel rows are kept: computing them takes long, or they are used often."""
        if self.columns.worth_keeping or self.pool_aim:
            return True
        n_free = np.count_nonzero(self.moves == RISE + FALL)
        most = _KEPT_ROWS * self.cache.values.size
        return bool(n_free > WORKING_SET and n_free * len(self.columns) <= most)

    def _shrink(self) -> None:
        """Leave out variables that rest at a bound, once they are many."""
        for part, lowest, highest in self.edges:
            count_rest(self.slopes[part], self.moves[part], lowest, highest, self.rest[part])
        # a pool takes some thirty iterations: those at rest after it have rested long enough
        stay = self.rest < (1 if self.after_pool else REST)
        self.after_pool = False
        n_stay = np.count_nonzero(stay)
        if n_stay > (1.0 - SHRINK) * len(stay):
            return
        before, slopes, rest = self.points, self.slopes, self.rest
        self._keep(stay)
        self.slopes, self.rest = slopes[stay], rest[stay]
        kept = np.searchsorted(before, self.points)
        if self.gram is not None:
            self._hold(self.gram[np.ix_(kept, kept)])
        else:
            if self.columns.worth_keeping:
                out = self.left_out[-1]
                positions = np.searchsorted(before, out.points)
                out.slots[before] = self.cache.leave_out(positions, self.problem.run)
                self.left_out[-1] = out._replace(start=len(kept))
            if not self.columns.worth_keeping or self._are_few():
                self._hold()  # rows are short now: room for more of them
        # those that rest are at no edge
        self.edges = [
            edge._replace(part=part) for edge, part in zip(self.edges, self.spans, strict=True)
        ]

    def _keep(self, stay: NDArray[np.bool_]) -> None:
        """Leave out all variables in play but some."""
        self._leave()
        before, recent = self.points, self.recent
        self._enter(self.variables[stay])
        place = np.where(stay, np.cumsum(stay) - 1, -1)[recent]
        self.recent = place[place >= 0]
        out = np.setdiff1d(before, self.points, assume_unique=True)
        self._leave_out(out)

    def _leave_out(self, points: NDArray[np.intp]) -> None:
        slots = np.full(len(self.problem.rows), -1)
        self.left_out.append(LeftOut(points, self.problem.by_point(), slots))

    def _enter_pool(self, aim: float) -> None:
        """Go on with a pool of variables alone, where many are free."""
        if self.columns.worth_keeping or self.gram is not None:
            return
        free = self.moves == RISE + FALL
        n_free = int(np.count_nonzero(free))
        least, most = _POOL * n_free, int(_MOST_OF_PLAY * len(free))
        fit = self.cache.values.size // max(n_free, 1)
        size = min(max(least, min(self.pool_multiple * n_free, fit)), most)
        if 2 * n_free <= WORKING_SET or size < _LEAST_POOL * n_free:
            return
        stay, room = free, (size - n_free) // (2 * len(self.edges))
        for part, lowest, highest in self.edges:
            slopes, moves = self.slopes[part], self.moves[part]
            for move, behind in ((RISE, slopes - lowest), (FALL, highest - slopes)):
                at_bound = np.flatnonzero(moves == move)
                if len(at_bound) > room:
                    at_bound = at_bound[np.argpartition(behind[at_bound], room)[:room]]
                stay[part][at_bound] = True
        self.pool_aim = max(aim, _POOL_INNER * self._violation())
        self.before_pool = self.variables, self.rest, self._violation()
        self._keep(stay)
        self._hold()
        self.measure()

    def _leave_pool(self) -> None:
        """Take up again the variables that were in play before, their scores up to date."""
        self._leave()
        self.pool_aim = 0.0
        self._catch_up(self.left_out.pop(), self.problem.by_point())
        variables, rest, violation = self.before_pool
        self._enter(variables)
        self.rest = rest
        self._hold()
        self.measure()
        # where others violate as much as before, a pool says little of those that rest
        self.after_pool = self._violation() <= _TOO_SMALL * violation
        if not self.after_pool and self.pool_multiple < len(variables):
            self.pool_multiple *= _LARGER

    def _catch_up(self, out: LeftOut, now: NDArray[np.float64]) -> None:
        """Bring the scores of some rows up to date."""
        problem, changes = self.problem, now - out.then
        columns = problem.columns.take_by(out.points, problem.run)
        scores = problem.scores[out.points]
        here = np.flatnonzero((changes != 0.0) & (out.slots >= 0))
        if len(here):
            nowhere = np.empty(0, dtype=np.intp)
            kept = KeptRows(self.cache.rows, out.slots[here], changes[here], nowhere, out.start)
            lines = problem.columns.own_lines(nowhere, nowhere)
            problem.add_lines(columns, lines, np.empty(0), scores, kept)
            changes[here] = 0.0
        problem.add(columns, scores, changes)
        problem.scores[out.points] = scores

    def rejoin(self, aim: float) -> bool:
        left_pool = self.pool_aim > 0.0
        if left_pool:
            self._leave_pool()
        self._leave()
        if len(self.variables) == len(self.problem.coefs):
            return left_pool and self._violation() > aim
        problem = self.problem
        now = problem.by_point()
        for out in self.left_out:
            self._catch_up(out, now)
        self.left_out = [out._replace(then=now) for out in self.left_out]
        slopes = problem.scores[problem.at] + problem.linear
        moves = possible_moves(problem.coefs, problem.lower, problem.upper)
        spans = problem.spans(np.arange(len(slopes)))
        every = [Edge.of(part, slopes, moves) for part in spans]
        if max(edge.violation for edge in every) <= aim:
            return False
        violates = violators(self.edges, every, slopes, moves)
        violates[self.variables] = True
        if np.count_nonzero(violates) == len(self.variables):
            return left_pool and self._violation() > aim
        self._enter(np.flatnonzero(violates))
        self._hold()
        self.left_out = []
        self._leave_out(np.setdiff1d(np.arange(len(problem.rows)), self.points, assume_unique=True))
        return True
