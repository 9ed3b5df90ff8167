"""All variables of an SVM's dual, their coefficients and scores; and how optimal they are.

The problem is that of ``smo``, in signed coefficients ``b``: ``scores`` are ``Kb``, one for each
training row, and ``slopes`` are ``Kb + q``, one for each variable.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import Columns, KernelMatrix
from aesvm.kernels.blocks import UPDATE_LINES
from aesvm.kernels.crew import Crew, KeptRows
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.working_set import Edge, possible_moves

#: Scores are computed anew only where coefficients have moved this many times what they are now.
_STALE = 10.0


class Solution(NamedTuple):
    """What ``minimize`` found."""

    alpha: NDArray[np.float64]
    scores: NDArray[np.float64]  #: sum_j s_j alpha_j K_ij, of each variable i
    offsets: NDArray[np.float64]  #: of each group, the slope of its free variables (LIBSVM's rho)
    objective: float
    violation: float  #: of optimality, the largest
    duality_gap: float  #: primal minus dual objective, where the kernel is positive semidefinite
    n_updates: int  #: of pairs
    n_evaluations: int  #: kernel values computed
    total_moved: float  #: all that coefficients have moved, which scores were rounded after
    converged: bool  #: whether violation <= tol, and the duality gap is as small as was asked for

    def is_short_of(self, duality_tol: float | None) -> bool:
        """Whether the duality gap is still larger than this fraction of the objective."""
        return duality_tol is not None and self.duality_gap > duality_tol * abs(self.objective)


class Known(NamedTuple):
    """Scores of a start that need not be computed."""

    scores: NDArray[np.float64]  #: sum_j s_j alpha_j K_ij, of each variable i
    total_moved: float  #: see ``Solution``


class PreparedVariables(NamedTuple):
    """Variables in the order in which they are solved for, and their rows as kernel columns.

    Group by group, in random order inside. The order breaks ties, of which the start is full: a
    working set should be a sample.
    """

    order: NDArray[np.intp]
    groups: NDArray[np.intp]  #: of the variables, in this order
    group_numbers: NDArray[np.intp]
    rows: NDArray[np.intp]  #: distinct training rows
    at: NDArray[np.intp]  #: where the row of each variable is among these
    columns: Columns

    @classmethod
    def of(
        cls,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        groups: NDArray[np.intp] | None,
        run: Callable = map,
    ) -> PreparedVariables:
        """Make some variables ready; solves for the same ones may share the result."""
        n = len(rows)
        groups = np.zeros(n, dtype=np.intp) if groups is None else groups
        order = np.random.default_rng(0).permutation(n)
        order = order[np.argsort(groups[order], kind="stable")]
        own, at = _by_appearance(rows[order])
        numbers = np.flatnonzero(np.bincount(groups))
        return cls(order, groups[order], numbers, own, at, kernel.columns_by(own, run))


class DualState:
    """All variables, in signed coefficients, in the order of ``PreparedVariables``."""

    def __init__(
        self,
        kernel,
        prepared: PreparedVariables,
        signs,
        linear,
        bounds,
        start,
        known: Known | None,
        run,
    ) -> None:
        self.kernel = kernel
        self.run = run
        self.order, self.groups, self.group_numbers, self.rows, self.at, columns = prepared
        self.columns: Columns = columns
        order, n = self.order, len(self.order)
        self.signs = signs[order].astype(np.float64)
        self.linear = self.signs * linear[order]
        ends = self.signs * bounds[order]
        self.lower, self.upper = np.minimum(ends, 0.0), np.maximum(ends, 0.0)
        self.coefs = np.zeros(n)
        self.scores = np.zeros(len(self.rows))
        #: Square roots of the diagonal of the kernel matrix, of each variable.
        self.lengths = np.sqrt(np.abs(kernel.diag(self.rows)).astype(np.float64))[self.at]
        self.n_evaluations = 0
        self.total_moved = 0.0  # all that coefficients have moved, which scores were rounded after
        self.crew = Crew(run)
        if start is not None:
            self._start(np.asarray(start, dtype=np.float64)[order], bounds[order], known)

    def _start(self, alpha: NDArray[np.float64], bounds: NDArray, known: Known | None) -> None:
        wrong = np.flatnonzero(~((alpha >= 0.0) & (alpha <= bounds)))
        if len(wrong):
            i = wrong[0]
            raise ValueError(
                f"start[{self.order[i]}]={alpha[i]} is not between 0 and its bound {bounds[i]}: "
                "a start must be feasible."
            )
        self.coefs = self.signs * alpha
        if known is None:
            self.refresh()
        else:
            self.scores[self.at] = known.scores[self.order]
            self.total_moved = known.total_moved

    def refresh(self) -> None:
        """Compute all scores anew."""
        changes = self.by_point()
        self.scores = np.zeros(len(self.rows))
        self.add(self.columns, self.scores, changes)
        self.total_moved = float(np.abs(changes).sum())

    def has_drifted(self, tol: float) -> bool:
        """Whether rounding may have moved scores by a tenth of ``tol``, and new ones are better.

        Each addition to a score is rounded by a unit of what is added, at most.
        """
        if self.total_moved <= _STALE * float(np.abs(self.coefs).sum()):
            return False
        unit = float(np.finfo(np.float64).eps) * self.kernel.bound(self.rows)
        return unit * self.total_moved > 0.1 * tol

    @property
    def unit(self) -> float:
        """Relative rounding of kernel values."""
        return float(np.finfo(self.kernel.dtype).eps)

    def by_point(self) -> NDArray[np.float64]:
        return np.bincount(self.at, self.coefs, len(self.rows)).astype(np.float64, copy=False)

    def spans(self, variables: NDArray[np.intp]) -> list[slice]:
        """Where each group lies among some variables, given ascending."""
        ends = np.searchsorted(self.groups[variables], self.group_numbers, side="right")
        return [slice(a, b) for a, b in pairwise([0, *ends.tolist()])]

    def add(self, columns: Columns, scores: NDArray, changes: NDArray) -> None:
        """Add ``K[columns] @ changes`` to scores, changes given by point; rows are used once."""
        changed = np.flatnonzero(changes)
        for first in range(0, len(changed), UPDATE_LINES):
            part = changed[first : first + UPDATE_LINES]
            lines = self.columns.own_lines(part, self.rows[part])
            self.add_lines(columns, lines, changes[part], scores)

    def add_lines(
        self,
        columns: Columns,
        lines: Any,
        changes: NDArray[np.float64],
        scores: NDArray[np.float64],
        kept: KeptRows | None = None,
    ) -> None:
        """Add ``changes @ (lines of the kernel matrix)`` to scores; see ``Columns.accumulate``."""
        kept = KeptRows.none(columns.dtype) if kept is None else kept
        columns.accumulate(lines, changes, scores, kept, self.crew)
        self.n_evaluations += len(changes) * len(columns)

    def solution(self, n_updates: int, tol: float, duality_tol: float | None = None) -> Solution:
        slopes = self.scores[self.at] + self.linear
        everything = np.arange(len(slopes))
        # of two bounds that add up to the same, rounding leaves one a hair short
        hair = 1e-10 * (self.upper - self.lower)
        moves = possible_moves(self.coefs, self.lower, self.upper)
        inside = (self.coefs > self.lower + hair) & (self.coefs < self.upper - hair)
        offsets, violation, duality_gap = [], 0.0, 0.0
        for part in self.spans(everything):
            edge = Edge.of(part, slopes, moves)
            violation = max(violation, edge.violation)
            free = slopes[part][inside[part]]
            if not len(free):
                far = possible_moves(self.coefs, self.lower + hair, self.upper - hair)
                edge = Edge.of(part, slopes, far)
                ends = [end for end in (edge.lowest, edge.highest) if abs(end) < HUGE]
                free = np.array(ends or [0.0])
            offsets.append(float(free.mean()))
            duality_gap += _duality_gap(
                slopes[part],
                self.coefs[part] - self.lower[part],
                self.upper[part] - self.coefs[part],
            )
        objective = float(self.coefs @ (0.5 * self.scores[self.at] + self.linear))
        back = np.empty(len(slopes), dtype=np.intp)
        back[self.order] = everything
        return Solution(
            alpha=np.abs(self.coefs)[back],
            scores=self.scores[self.at][back],
            offsets=np.array(offsets),
            objective=objective,
            violation=float(violation),
            duality_gap=duality_gap,
            n_updates=n_updates,
            n_evaluations=self.n_evaluations,
            total_moved=self.total_moved,
            converged=bool(violation <= tol)
            and (duality_tol is None or duality_gap <= duality_tol * abs(objective)),
        )


def check_finite(values: Any) -> None:
    """Refuse scores or slopes, or a sum of them, that are not finite numbers."""
    if not np.isfinite(values).all():
        raise ValueError(
            "Sums of kernel values, or what C and sample_weight make of them, are not finite "
            "numbers: scale the data, or lower these."
        )


def _best_multiplier(slopes: NDArray, can_fall: NDArray, can_rise: NDArray) -> float:
    """The multiplier of a group's sum that leaves the smallest duality gap.

    A weighted quantile of the slopes, ``can_fall`` and ``can_rise`` being how far each variable is
    from its bounds.
    """
    order = np.argsort(slopes)
    reached = np.cumsum((can_fall + can_rise)[order])
    at = min(int(np.searchsorted(reached, can_fall.sum())), len(order) - 1)
    return float(slopes[order[at]])


def _duality_gap(slopes: NDArray, can_fall: NDArray, can_rise: NDArray) -> float:
    """What the Lagrangian of a group would gain if all went to the bounds they prefer."""
    ahead = slopes - _best_multiplier(slopes, can_fall, can_rise)
    return float(np.maximum(ahead, 0.0) @ can_fall - np.minimum(ahead, 0.0) @ can_rise)


def _by_appearance(rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Distinct rows in order of their first appearance, and where each row is among them."""
    if len(rows) and np.bincount(rows).max() == 1:  # nearly always: a sort would take longer
        return rows, np.arange(len(rows))
    points, first, at = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(points), dtype=np.intp)
    place[order] = np.arange(len(points))
    return points[order], place[at]
