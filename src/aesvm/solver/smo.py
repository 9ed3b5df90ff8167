"""The dual of a weighted SVM, solved by decomposition.

    minimise    1/2 a'Qa + p'a,     Q_ij = s_i s_j K_ij,  s_i = +1 or -1
    subject to  0 <= a_i <= c_i,    sum of s_i a_i over each group of variables stays as it is

One group is classification and regression, two are their nu forms. A variable belongs to a
training row, and rows may have several (regression has two), which share its kernel values.

In ``b_i = s_i a_i`` the signs vanish: ``1/2 b'Kb + q'b`` with ``q_i = s_i p_i``, each ``b_i``
between two bounds, one of them zero. With the slopes ``f = Kb + q``, a feasible point is optimal
where in no group a variable that can fall has a larger slope than one that can rise. The largest
such difference is the violation, and ``tol`` bounds it, as in LIBSVM.

Each iteration takes a ``working_set`` of variables, solves the problem in these alone
(``pair_updates``), and brings the scores ``Kb`` of all others up to date. Variables that have
rested at a bound for some iterations are left out (shrinking); before the end all are looked at
again. ``DualOperations`` says what a device must offer for that: ``host`` has the processor's, and
``aesvm.gpu.dual`` those of a GPU.

Scores are brought up to date, not computed anew, so what rounding leaves of coefficients that were
once large stays in them. Where all that was ever added may have left more than a tenth of ``tol``,
they are computed anew before the end.

A solve ends when it has reached ``tol``, at ``max_iter``, when ``watch`` says so, or when it
stagnates (``stagnation``) with all variables in play and all scores as good as new. Beyond ``tol``,
for a smaller duality gap, it takes up to ``EXTRA`` times the pair updates so far. Where a larger
gap is enough, it aims at coarser violations first, and looks at the gap at each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import maxsize
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelMatrix
from aesvm.solver.host import HostDual
from aesvm.solver.row_cache import usual_bytes
from aesvm.solver.stagnation import Stagnation
from aesvm.solver.state import DualState, Known, PreparedVariables, Solution

#: How much smaller a violation is aimed at where the duality gap is too large, and the smallest
#: share of ``tol``: where the optimum is zero, no duality gap is small beside it.
TIGHTER, TIGHTEST = 0.25, 1e-6

#: Pair updates for that: this multiple of those up to ``tol``, or of those of a window of
#: ``stagnation`` where these are more.
EXTRA = 4

#: The first violation that is aimed at where a duality gap may be enough, in multiples of ``tol``.
COARSEST = TIGHTER**-5


class DualOperations(Protocol):
    """The variables in play on a device, and what the loop does with them."""

    n_updates: int  #: pair updates so far, as of the last ``measure``

    def measure(self) -> float:
        """The violation of the variables in play."""

    def improve(self, aim: float, limit: int, shrinking: bool, is_over: Callable[[], bool]) -> None:
        """Solve for the working set of the last ``measure``, and bring all scores up to date.

        Parameters
        ----------
        aim : float
            The violation to come to; the last one is larger.
        limit : int
            Most pair updates.
        shrinking : bool
            Whether variables that rest at a bound may be left out, before or after.
        is_over : callable
            Asked during long work: whether to leave it at that.
        """

    def rejoin(self, aim: float) -> bool:
        """Bring all scores up to date, and take up again variables that violate: whether any do.

        Where the violation of all variables is no more than ``aim``, none are taken up.
        """

    def refresh(self, aim: float) -> bool:
        """Compute all scores anew where rounding matters beside ``aim``: whether it did.

        Called with scores as ``rejoin`` leaves them; leaves them, and coefficients, in the
        ``DualState``.
        """

    def state(self) -> tuple[Any, Any, Any]:
        """Coefficients, slopes and lengths of rows of the variables in play."""


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
    enough: float | None = None,
    finest: float = 0.0,
    max_iter: int = -1,
    cache_bytes: int | None = None,
    shrinking: bool = True,
    run: Callable = map,
    watch: Callable[[float, int, int], bool | None] | None = None,
    operations: Callable[[DualState, Stagnation, int], DualOperations] = HostDual,
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
        Largest violation, in LIBSVM's meaning.
    duality_tol : float, default=None
        Largest duality gap, relative to the objective; where that is not reached at ``tol``, a
        smaller violation is aimed at. The kernel must be positive semidefinite.
    enough : float, default=None
        A duality gap, relative to the objective, that ends the solve whatever the violation is. The
        kernel must be positive semidefinite.
    finest : float, default=0.0
        The smallest violation to aim at for that: kernel values are precise enough for no less.
    max_iter : int, default=-1
        Most pair updates, LIBSVM's iterations; -1 for no limit.
    cache_bytes : int, default=None
        For rows of the kernel matrix; ``row_cache.usual_bytes`` where None. Of dense rows with few
        features they are kept only where free variables are many.
    shrinking : bool, default=True
    run : callable, default=map
        ``map`` or a parallel one.
    watch : callable, default=None
        Called with the violation, and the numbers of pair updates and of kernel values so far,
        before every iteration; where it returns True, the solve ends there.
    operations : callable, default=HostDual
        Takes the problem, its stagnation and ``cache_bytes`` to the ``DualOperations`` of a device.

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
        prepared = PreparedVariables.of(kernel, rows, groups, run)
    problem = DualState(kernel, prepared, signs, linear, bounds, start, known, run)
    if not len(rows):
        return problem.solution(0, tol, duality_tol)
    if cache_bytes is None:
        cache_bytes = usual_bytes(len(prepared.rows), prepared.columns.worth_keeping)
    stagnation = Stagnation(len(rows), problem.unit)
    dual = operations(problem, stagnation, cache_bytes)
    limit = maxsize if max_iter == -1 else max_iter
    aim = tol if enough is None else COARSEST * tol

    def is_over() -> bool:
        seen = max(violation, 0.0), dual.n_updates, problem.n_evaluations
        return watch is not None and bool(watch(*seen))

    while True:
        violation = dual.measure()
        if is_over():
            limit = dual.n_updates
        ended = dual.n_updates >= limit
        stalled = stagnation.count_iteration(dual.state, dual.n_updates)
        if violation > aim and not ended and not stalled:
            dual.improve(aim, limit - dual.n_updates, shrinking, is_over)
            continue
        if dual.rejoin(aim) and not ended:
            shrinking = shrinking and not stalled
            continue
        if dual.refresh(aim) and not ended and stagnation.n_windows < 2:
            continue
        next_aim = TIGHTER * aim
        is_too_fine = next_aim < max(finest, TIGHTEST * tol)
        solution = problem.solution(dual.n_updates, tol, duality_tol)
        if enough is not None and not solution.is_short_of(enough):
            return solution._replace(converged=True)
        if aim > tol and not ended and not stalled:
            aim = max(next_aim, tol)
            continue
        if ended or stalled or is_too_fine or not solution.is_short_of(duality_tol):
            return solution
        if aim == tol:
            limit = min(
                limit, dual.n_updates + EXTRA * max(dual.n_updates, stagnation.most_updates)
            )
        aim = next_aim
