"""The dual of a weighted SVM, solved by decomposition.

    minimise    1/2 a'Qa + p'a,     Q_ij = s_i s_j K_ij,  s_i = +1 or -1
    subject to  0 <= a_i <= c_i,    sum of s_i a_i over each group of variables stays as it is

One group is classification and regression, two are their nu forms. A variable belongs to a
training row, and rows may have several (regression has two), which share its kernel values.

In ``b_i = s_i a_i`` the signs vanish: ``1/2 b'Kb + q'b`` with ``q_i = s_i p_i``, each ``b_i``
between two bounds, one of them zero. With the slopes ``f = Kb + q``, a feasible point is optimal
where in no group a variable that can fall has a larger slope than one that can rise. The largest
such difference is the gap, and ``tol`` bounds it, as in LIBSVM.

Each round takes the variables that violate this most, half of them the newest of the last
round; solves the problem in these alone, on their kernel block (``pair_updates``); and then brings
the scores ``Kb`` of all others up to date, by blocks of kernel rows which are used as soon as they
are computed, and kept as long as the cache has room (where computing them anew is no faster).
Variables that have rested at a bound for some rounds are left out (shrinking); before the end all
are looked at again. Where few are left, or were few from the start, the working set is all of them.

Scores are brought up to date, not computed anew, so what rounding leaves of coefficients that were
once large stays in them. Where all that was ever added may have left more than a tenth of ``tol``,
they are computed anew before the end.

A solve ends when it has reached ``tol``, at ``max_iter``, when ``watch`` says so, or when it
stagnates (``stagnation``) with all variables in play and all scores as good as new. Beyond ``tol``,
for a smaller duality gap, it takes up to ``EXTRA`` times the pair updates so far.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from sys import maxsize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelMatrix
from aesvm.kernels.accumulate import KeptRows, add_rows
from aesvm.solver.choosing import (
    FALL,
    RISE,
    count_rest,
    find_slopes,
    most_violating,
    possible_moves,
)
from aesvm.solver.free_variables import newton_step
from aesvm.solver.interior_point import solve_interior
from aesvm.solver.pair_updates import update_pairs
from aesvm.solver.row_cache import RowCache
from aesvm.solver.stagnation import Stagnation, fall
from aesvm.solver.state import DualState, Edge, Known, PreparedVariables, Solution

#: Variables solved for together.
WORKING_SET = 1024

#: A working set is solved to this share of the gap it was chosen at.
INNER = 0.1

#: Working sets of variables in play of which all kernel values are held, where the cache has room
#: for these; and of rows in play of which they always are. (With 4 in place of 2, solves with many
#: free variables were some 1.5 times faster on ijcnn1 and covtype, and no faster with 6.)
_HELD, _ALWAYS_HELD = 4, 2

#: Pair updates of a working set, per variable: what bounds the time between two rounds.
UPDATES = 50

#: Newton steps after pair updates that were slow.
_NEWTON_STEPS = 3

#: An interior-point method is tried once n variables have had this share of n^2 slow pair updates,
#: which take about as long; again after four times as many. Its matrices take some 100 MB at most.
_INTERIOR_AFTER, _MOST_INTERIOR = 0.25, 2048

#: Rounds that a variable rests before it is left out, and the share of them worth the copying.
REST, SHRINK = 4, 0.3

#: How much smaller a violation is aimed at where the duality gap is too large, and the smallest
#: share of ``tol``: where the optimum is zero, no duality gap is small beside it.
TIGHTER, TIGHTEST = 0.25, 1e-6

#: Pair updates for that: this multiple of those up to ``tol``, or of those of a window of
#: ``stagnation`` where these are more.
EXTRA = 4


def minimize(
    kernel: KernelMatrix,
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
    cache_bytes: int = 200_000_000,
    shrinking: bool = True,
    run: Callable = map,
    watch: Callable[[float, int, int], bool | None] | None = None,
) -> Solution:
    """Minimise ``1/2 a'Qa + p'a`` between bounds, group sums held.

    Parameters
    ----------
    kernel : KernelMatrix
    rows : ndarray of shape (n,)
        The training row of each variable.
    signs, linear, bounds : ndarray of shape (n,)
        The problem's s (+1 or -1), p and c.
    groups : ndarray of shape (n,), default=None
        Group of each variable, 0 or 1; one group where None.
    start : ndarray of shape (n,), default=None
        A feasible a, whose group sums are kept; zeros where None.
    known : Known, default=None
        The scores of the start, where they are known: as of these very kernel values.
    prepared : PreparedVariables, default=None
        ``PreparedVariables.of(kernel, rows, groups)``, where it was made for another solve.
    tol : float, default=1e-3
        Largest gap, in LIBSVM's meaning.
    duality_tol : float, default=None
        Largest duality gap, relative to the objective; where that is not reached at ``tol``, a
        smaller one is aimed at. The kernel must be positive semidefinite.
    finest : float, default=0.0
        The smallest violation to aim at for that: kernel values are precise enough for no less.
    max_iter : int, default=-1
        Most pair updates, LIBSVM's iterations; -1 for no limit.
    cache_bytes : int, default=200_000_000
        For rows of the kernel matrix; none are kept of dense rows with few features.
    shrinking : bool, default=True
    run : callable, default=map
        ``map`` or a parallel one.
    watch : callable, default=None
        Called with the gap, and the numbers of pair updates and of kernel values so far, before
        every round; where it returns True, the solve ends there.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import kernel_matrix
    >>> from aesvm.solver.smo import minimize
    >>> K = kernel_matrix(np.array([[-1.0], [1.0], [3.0]]), kernel="linear")
    >>> solution = minimize(
    ...     K, np.arange(3), np.array([-1, 1, 1]), -np.ones(3), np.full(3, 10.0), tol=1e-6
    ... )
    >>> solution.alpha.round(6)
    array([0.5, 0.5, 0. ])
    """
    if prepared is None:
        prepared = PreparedVariables.of(kernel, rows, groups)
    problem = DualState(kernel, prepared, signs, linear, bounds, start, known, run)
    limit = maxsize if max_iter == -1 else max_iter
    stagnation = Stagnation(len(rows), problem.unit)
    active = _Active(problem, np.arange(len(rows)), cache_bytes, stagnation)
    n_iter = 0
    aim = tol

    def is_over() -> bool:
        return watch is not None and bool(watch(max(gap, 0.0), n_iter, problem.n_evaluations))

    while True:
        edges = active.edges()
        gap = max((edge.gap for edge in edges), default=0.0)
        if is_over():
            limit = n_iter
        ended, stalled = n_iter >= limit, stagnation.count_iteration(active.state, n_iter)
        if gap <= aim or ended or stalled:
            rejoined = active.rejoin()
            if rejoined and not ended:
                shrinking = shrinking and not stalled
                continue
            if active.refresh(aim) and not ended and stagnation.n_windows < 2:
                continue
            next_aim = TIGHTER * aim
            is_too_fine = next_aim < max(finest, TIGHTEST * tol)
            if ended or stalled or is_too_fine or not problem.is_short_of(duality_tol):
                break
            if aim == tol:
                limit = min(limit, n_iter + EXTRA * max(n_iter, stagnation.most_updates))
            aim = next_aim
            continue
        if shrinking:
            edges = active.shrink(edges)
        n_iter += active.improve(edges, aim, limit - n_iter, is_over)
    return problem.solution(n_iter, tol, duality_tol)


class _Active:
    """The variables in play and their training rows, as columns of the kernel matrix.

    Of these either all kernel values are held, where they are few, or the rows that the cache has
    room for.
    """

    def __init__(
        self,
        problem: DualState,
        variables: NDArray[np.intp],
        cache_bytes: int,
        stagnation: Stagnation,
    ) -> None:
        self.problem = problem
        self.stagnation = stagnation
        self.interior_after = _INTERIOR_AFTER
        self.left_out: list[tuple[NDArray[np.intp], NDArray[np.float64]]] = []
        n = len(variables) + 1
        self.workspace = np.empty(n), np.empty(n, dtype=np.intp)  # for choosing
        self._enter(variables)
        room = cache_bytes if self.columns.worth_keeping else 0
        fit = isqrt(cache_bytes // self.columns.dtype.itemsize)
        self.most_held = min(_HELD * WORKING_SET, fit)
        self.cache = RowCache(len(self.points), room, self.columns.dtype)
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
        self.columns = problem.columns if everything else problem.columns.take(self.points)
        self.scores = problem.scores[self.points]
        self.coefs = problem.coefs[variables]
        self.linear = problem.linear[variables]
        self.lower, self.upper = problem.lower[variables], problem.upper[variables]
        self.lengths = problem.lengths[variables]
        self.moves = possible_moves(self.coefs, self.lower, self.upper)
        self.slopes = np.empty(len(variables))  # written by ``edges``
        self.spans = problem.spans(variables)
        self.rest = np.zeros(len(variables), dtype=np.int8)
        self.recent = np.empty(0, dtype=np.intp)
        self.stagnation.follow(*self.state()[:2])

    def state(self) -> tuple[Any, Any, Any]:
        """What ``stagnation`` follows: coefficients, slopes and the lengths of rows."""
        scores = self.scores if self.by_row else self.scores[self.at]
        return self.coefs, scores + self.linear, self.lengths

    def _hold(self, gram: NDArray | None = None) -> None:
        """Hold all kernel values, where they are few."""
        self.gram = gram
        self.n_slow_updates = 0
        if gram is None and self._are_few():
            self.gram = self.problem.kernel.square(self.problem.rows[self.points])
            self.problem.n_evaluations += self.gram.size // 2
        if self.gram is None:
            self.cache.clear(len(self.points))

    def _are_few(self) -> bool:
        always = len(self.points) <= _ALWAYS_HELD * WORKING_SET
        return always or len(self.variables) <= self.most_held

    def _leave(self) -> None:
        self.stagnation.count(*self.state())
        self.problem.coefs[self.variables] = self.coefs
        self.problem.scores[self.points] = self.scores

    def refresh(self, tol: float) -> bool:
        """Compute all scores anew where rounding may have added up to much: whether it did."""
        if not self.problem.has_drifted(tol):
            return False
        self._leave()
        self.problem.refresh()
        self.scores = self.problem.scores[self.points]
        self.stagnation.follow(*self.state()[:2])
        return True

    def edges(self) -> list[Edge]:
        scores = self.scores if self.by_row else self.scores[self.at]
        edges = []
        for part in self.spans:
            of = scores[part], self.linear[part], self.moves[part], self.slopes[part]
            lowest, highest, total = find_slopes(*of)
            if not np.isfinite(total):
                raise ValueError(
                    "Sums of kernel values, or what C and sample_weight make of them, are not "
                    "finite numbers: scale the data, or lower these."
                )
            edges.append(Edge(part, lowest, highest))
        return edges

    def improve(
        self, edges: list[Edge], tol: float, limit: int, is_over: Callable[[], bool]
    ) -> int:
        """Solve for a working set, and bring all scores up to date.

        Returns the number of pair updates.
        """
        tol = 0.5 * tol
        if self.gram is None:
            chosen = self._working_set(edges)
            block = self._block(chosen)
            tol = max(tol, INNER * max(edge.gap for edge in edges))
        else:
            chosen = np.arange(len(self.coefs))
            block = self.gram
            if not np.array_equal(self.at, chosen):
                block = block[np.ix_(self.at, self.at)]
        coefs, slopes = self.coefs[chosen], self.slopes[chosen]
        ends = np.array([np.searchsorted(chosen, edge.part.stop) for edge in edges])
        # a bound on the time between two looks at the clock
        many = UPDATES * min(len(chosen), _ALWAYS_HELD * WORKING_SET)
        lower, upper = self.lower[chosen], self.upper[chosen]
        diag = block.diagonal().astype(np.float64)
        limits = ends, tol, min(limit, many)
        n_updates = update_pairs(block, diag, coefs, slopes, lower, upper, *limits)
        if n_updates == many:  # pair updates are slow here
            self._leap(block, coefs, slopes, lower, upper, ends, n_updates, is_over)
        changes = coefs - self.coefs[chosen]
        self.coefs[chosen] = coefs
        self.moves[chosen] = possible_moves(coefs, lower, upper)
        moved = np.flatnonzero(changes)
        points, which = np.unique(self.at[chosen[moved]], return_inverse=True)
        total = np.bincount(which, changes[moved], len(points)).astype(np.float64, copy=False)
        self.problem.total_moved += float(np.abs(total).sum())
        if self.gram is None:
            self._update(points, total)
        else:
            add_rows(self.gram, points, total, 0, self.scores)
        return n_updates

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

    def _working_set(self, edges: list[Edge]) -> NDArray[np.intp]:
        stay = self.recent[: WORKING_SET // 2]
        taken = np.zeros(len(self.coefs), dtype=bool)
        taken[stay] = True
        room = (WORKING_SET - len(stay)) // (2 * len(edges))
        new = []
        for part, lowest, highest in edges:
            own = self.slopes[part], self.moves[part], taken[part]
            for move in (RISE, FALL):
                found = (
                    most_violating(move, *own, lowest, highest, room, self.workspace) + part.start
                )
                taken[found] = True
                new.append(found)
        self.recent = np.concatenate([*new, stay])
        return np.sort(self.recent)

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
        slots = self.cache.find(points)
        here = slots >= 0
        missing = points[~here]
        free = self.cache.admit(missing) if len(missing) else np.empty(0, dtype=np.intp)
        rows = self.cache.rows
        self.problem.add_lines(
            self.columns,
            self.columns.own_lines(missing, self.problem.rows[self.points[missing]]),
            changes[~here],
            self.scores,
            KeptRows(rows, slots[here], changes[here], free),
        )

    def shrink(self, edges: list[Edge]) -> list[Edge]:
        """Leave out variables that rest at a bound, once they are many.

        Returns the edges, which are the same, with the places of those that stay.
        """
        for part, lowest, highest in edges:
            count_rest(self.slopes[part], self.moves[part], lowest, highest, self.rest[part])
        stay = self.rest < REST
        n_stay = np.count_nonzero(stay)
        if n_stay > (1.0 - SHRINK) * len(stay):
            return edges
        self._leave()
        before, recent, slopes, rest = self.points, self.recent, self.slopes, self.rest
        self._enter(self.variables[stay])
        place = np.where(stay, np.cumsum(stay) - 1, -1)[recent]
        self.recent, self.slopes, self.rest = place[place >= 0], slopes[stay], rest[stay]
        out = np.setdiff1d(before, self.points, assume_unique=True)
        self.left_out.append((out, self.problem.by_point()))
        kept = np.searchsorted(before, self.points)
        if self.gram is not None:
            self._hold(self.gram[np.ix_(kept, kept)])
        elif self._are_few():
            self._hold()
        else:
            self.cache.keep(kept, self.problem.run)
        return [e._replace(part=part) for e, part in zip(edges, self.spans, strict=True)]

    def rejoin(self) -> bool:
        """Bring all scores up to date, and take up again what violates: whether anything does."""
        self._leave()
        if len(self.variables) == len(self.problem.coefs):
            return False
        edges = self.edges()
        problem = self.problem
        now = problem.by_point()
        for points, then in self.left_out:
            scores = problem.scores[points]
            problem.add(problem.columns.take(points), scores, now - then)
            problem.scores[points] = scores
        self.left_out = [(points, now) for points, _ in self.left_out]
        violates = np.zeros(len(problem.coefs), dtype=bool)
        slopes = problem.scores[problem.at] + problem.linear
        spans = problem.spans(np.arange(len(problem.coefs)))
        for part, edge in zip(spans, edges, strict=True):
            violates[part] = edge._replace(part=part).violated(
                slopes, problem.coefs, problem.lower, problem.upper
            )
        violates[self.variables] = True
        if np.count_nonzero(violates) == len(self.variables):
            return False
        self._enter(np.flatnonzero(violates))
        self._hold()
        out = np.setdiff1d(np.arange(len(problem.rows)), self.points, assume_unique=True)
        self.left_out = [(out, now)]
        return True
