"""Work that fits to the same rows have in common, such as the fits of a search over parameters.

    for all of them            the distinct rows
    for one kernel             the kernel matrix; representative sets; variables made ready for
                               solves, and solutions to start from
    for every gamma of "rbf"   the subsets that rows are cut into

Each is kept under what it depends on. What depends on a kernel is kept until a fit has another one.

A solution is a start for the next: all its multipliers times one factor, so that those at a bound
stay at it. Sums over kernel values are then known too, times that factor. Variables at a bound are
likely to stay there: they are left out until the others are solved for.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Variables
from aesvm.kernels import KernelMatrix
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver.state import Known, PreparedVariables, Solution

Value = TypeVar("Value")

#: A multiplier this close to a bound, relative to the bound, is put on it.
_AT_BOUND = 1e-12


class SharedWork:
    """What fits to the same rows keep for each other.

    Parameters
    ----------
    in_search : bool, default=False
        Whether other fits follow: solutions are kept for them, and models do without the
        certificate that costs little.

    Attributes
    ----------
    spent : dict of str to float or None
        Seconds by what they were spent on ("partition", "sets", "solve"), ``"kernel_values"`` that
        were computed, and ``"rows_solved"``; None where they were not counted.

    Examples
    --------
    >>> from aesvm.machines.sharing import SharedWork
    >>> shared = SharedWork()
    >>> shared.of_rows("answer", lambda: 42), shared.of_rows("answer", lambda: 43)
    (42, 42)
    """

    def __init__(self, in_search: bool = False) -> None:
        self.in_search = in_search
        self.spent: dict[str, float | None] = defaultdict(float)
        self.forget()

    def forget(self) -> None:
        """Drop all that fits have kept, as after one that was cut short."""
        self._of_rows: dict[Hashable, Any] = {}
        self._kernel: Hashable = None
        self._of_kernel: dict[Hashable, Any] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not (self._of_rows or self._of_kernel)

    def of_rows(self, what: Hashable, compute: Callable[[], Value]) -> Value:
        """A value that depends on the rows and on its name; computed once."""
        if what not in self._of_rows:
            self._of_rows[what] = compute()
        return self._of_rows[what]

    def kernel(self, key: Hashable, make: Callable[[], TrainingKernel]) -> TrainingKernel:
        """The kernel matrix of a fit: the last one, if its ``key`` was the same."""
        if key != self._kernel:
            self._kernel, self._of_kernel = key, {}
        return self.of_kernel("kernel", make)

    def of_kernel(self, what: Hashable, compute: Callable[[], Value]) -> Value:
        """A value that depends on the kernel of the fit and on its name; computed once."""
        if what not in self._of_kernel:
            self._of_kernel[what] = compute()
        return self._of_kernel[what]

    @property
    def starts(self) -> Starts | None:
        """Solutions with the kernel of the fit, where they are kept."""
        return self.of_kernel("starts", Starts) if self.in_search else None

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count the seconds of some work."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.count(what, time.perf_counter() - started)

    def count(self, what: str, amount: float | None) -> None:
        """Add to what was spent; with an amount of None, the sum is not known either."""
        total = self.spent[what]
        self.spent[what] = None if amount is None or total is None else total + amount


class Start(NamedTuple):
    """Where a solve begins."""

    alpha: NDArray[np.float64]
    known: Known | None = None


class _KeptSolution(NamedTuple):
    """A solution, with the kernel matrix, rows and variables of its dual."""

    kernel: KernelMatrix
    rows: NDArray[np.intp]
    variables: Variables
    solution: Solution


class _Prepared(NamedTuple):
    """Variables made ready for solves, with their kernel matrix and rows."""

    kernel: KernelMatrix
    rows: NDArray[np.intp]
    variables: PreparedVariables

    def is_of(self, kernel: KernelMatrix, rows: NDArray[np.intp], variables: Variables) -> bool:
        constraints, own = variables.constraints, self.variables
        same = constraints is None or np.array_equal(constraints[own.order], own.groups)
        return self.kernel is kernel and same and np.array_equal(self.rows, rows)


class Starts:
    """The last solution of each machine with a kernel, as a start for the next."""

    def __init__(self) -> None:
        self._solutions: dict[int, _KeptSolution] = {}
        self._prepared: dict[int, _Prepared] = {}

    def has(self, number: int) -> bool:
        """Whether there is a solution of machine ``number``."""
        return number in self._solutions

    def keep(
        self,
        number: int,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        variables: Variables,
        solution: Solution,
    ) -> None:
        """Keep the solution of machine ``number``."""
        self._solutions[number] = _KeptSolution(kernel, rows, variables, solution)

    def prepared(
        self, number: int, kernel: KernelMatrix, rows: NDArray[np.intp], variables: Variables
    ) -> PreparedVariables:
        """The variables of machine ``number`` made ready for a solve, as for the last one."""
        last = self._prepared.get(number)
        if last is None or not last.is_of(kernel, rows, variables):
            made = PreparedVariables.of(kernel, rows, variables.constraints)
            last = self._prepared[number] = _Prepared(kernel, rows, made)
        return last.variables

    def find(
        self, number: int, kernel: KernelMatrix, rows: NDArray[np.intp], variables: Variables
    ) -> Start | None:
        """A start for machine ``number``; None where the last solution is of other variables.

        Also where sums of variables are to be held at other values than zero, as in the nu forms.
        """
        last = self._solutions.get(number)
        if last is None or variables.start is not None:
            return None
        if not np.array_equal(last.rows, rows):
            return None
        if not np.array_equal(last.variables.signs, variables.signs):
            return None
        # scores in double precision are right for values of either
        same_values = last.kernel is kernel or last.kernel.dtype == np.float64
        return scaled(last.solution, last.variables.bounds, variables, same_values)


def scaled(
    solution: Solution,
    bounds: NDArray[np.float64],
    variables: Variables,
    same_values: bool = True,
) -> Start:
    """A solution as a start at other bounds: the largest multiple that they allow.

    That keeps at their bounds the variables that are there: to move one takes a row of the kernel
    matrix. Where these are not most of the variables that are not zero, and the dual is lower
    without any change, it is the multiple that is best for the dual.

    ``bounds``: those of the solution. ``same_values``: whether the kernel values are those of the
    solution, so that scores are known.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import kernel_matrix
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.machines.sharing import scaled
    >>> from aesvm.solver.smo import minimize
    >>> K, y = kernel_matrix(np.array([[-1.0], [1.0]]), kernel="linear"), np.array([-1.0, 1.0])
    >>> bounds = np.full(2, 0.1)
    >>> solution = minimize(K, np.arange(2), y, -np.ones(2), bounds)
    >>> scaled(solution, bounds, Hinge().variables(y, 3.0 * bounds)).alpha
    array([0.3, 0.3])

    With larger bounds both multipliers are free, and no multiple is better than the solution.

    >>> bounds = np.full(2, 2.0)
    >>> solution = minimize(K, np.arange(2), y, -np.ones(2), bounds)
    >>> scaled(solution, bounds, Hinge().variables(y, 5.0 * bounds)).alpha
    array([0.5, 0.5])
    """
    alpha = solution.alpha
    held = alpha > 0
    if not held.any():
        return Start(np.zeros(len(alpha)))
    room = float((variables.bounds[held] / alpha[held]).min())
    at_bound = np.count_nonzero(alpha[held] >= (1.0 - _AT_BOUND) * bounds[held])
    curvature = float((variables.signs * alpha) @ solution.scores)
    best = -float(variables.linear @ alpha) / curvature if curvature > 0 else room
    are_most = 2 * at_bound > np.count_nonzero(held)
    keeps_bounds = are_most or room <= best or abs(room - best) < abs(1.0 - best)
    factor = max(0.0, room if keeps_bounds else best)
    moved = factor * alpha
    reached = moved >= (1.0 - _AT_BOUND) * variables.bounds
    moved = np.where(reached, variables.bounds, moved)
    known = Known(factor * solution.scores, factor * solution.total_moved)
    return Start(moved, known if same_values else None)
