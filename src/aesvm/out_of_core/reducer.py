"""Weighted rows reduced to representatives, within what the levels of a merge tree may add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec
from aesvm.kernels.joint import TargetScale
from aesvm.machines import plan
from aesvm.machines.represent import Represented, represent
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import Combinations, ReductionSettings

#: A level that would keep a larger fraction of its rows than this keeps all of them.
_MOST_KEPT = 0.5

#: A smaller fraction of the tolerance than this is not worth a reduction.
_WORTHLESS = 1e-4


def level_tolerance(hull_tol: float, level: int) -> float:
    """The epsilon of a level, as a squared distance."""
    return hull_tol * (6.0 / (pi * level) ** 2) ** 2


def tolerance_of(hull_tol: float, level: int | None, reach: float) -> float:
    """The squared distance that a set may still add at a level, as this and those below allow.

    A level of None is the last there will be.

    Examples
    --------
    >>> from aesvm.out_of_core.reducer import level_tolerance, tolerance_of
    >>> tolerance_of(1.0, 1, reach=0.0) == level_tolerance(1.0, 1)
    True
    >>> tolerance_of(1.0, None, reach=0.75)
    0.0625
    """
    levels = range(1, 1 + (level or 0))
    allowed = sum(sqrt(level_tolerance(hull_tol, at)) for at in levels) if level else sqrt(hull_tol)
    left = max(0.0, allowed - reach) ** 2
    return left if left > _WORTHLESS * hull_tol else 0.0


def most_kept_at(level: int | None) -> float | None:
    """The fraction of its rows above which a level keeps all; the last level has none."""
    return None if level is None else _MOST_KEPT


class Part(NamedTuple):
    """Distinct rows of non-zero weight, and which of them stand for the others."""

    rows: WeightedRows
    combinations: Combinations
    off: float = 0.0  #: what residuals are off by, at most, through rounding

    def representatives(self) -> WeightedRows:
        own = self.combinations
        residual = float(own.residuals.max(initial=0.0))
        weights = own.gather(self.rows.weights)
        return self.rows.represented_by(own.members, weights, residual, self.off, len(self.rows))


@dataclass(frozen=True)
class RowReducer:
    """How an estimator reduces weighted rows: a value, which can be sent to workers."""

    spec: KernelSpec
    settings: ReductionSettings
    scale: TargetScale | None = None  #: of targets that rows stand for each other with

    def at_levels(self, run: Callable, progress: Progress) -> LevelReducer:
        """What reduces rows on the threads of this process."""
        return LevelReducer(self, run, progress.quietly().to_the_end())


@dataclass(frozen=True)
class LevelReducer:
    """Reduces weighted rows at the levels of a merge tree."""

    how: RowReducer
    run: Callable
    progress: Progress

    def __call__(self, rows: WeightedRows, hull_tol: float, level: int | None) -> WeightedRows:
        """The representatives of some rows, at a level of a merge tree.

        Where a larger fraction would remain than a level is to keep, all distinct rows do.
        """
        most_kept = most_kept_at(level)
        tolerance = tolerance_of(hull_tol, level, rows.reach)
        kernel, represented = self._represented(rows, tolerance, most_kept, False)
        prepared, found = represented.prepared, represented.derived.found
        distinct = prepared.rows
        if most_kept is not None and len(found.selected) > most_kept * len(distinct):
            own = prepared.weights[distinct]
            return rows.represented_by(distinct, own, 0.0, 0.0, len(distinct))
        off = kernel.residual_rounding(distinct)
        residual = represented.max_residual
        return rows.represented_by(found.selected, found.weights, residual, off, len(distinct))

    def part(self, rows: WeightedRows, tolerance: float, most_kept: float | None = None) -> Part:
        """The distinct rows of non-zero weight, and representatives within a tolerance."""
        rows = rows.take(np.flatnonzero(rows.weights))
        if not len(rows):
            return Part(rows, Combinations.identity(0))
        kernel, represented = self._represented(rows, tolerance, most_kept, tolerance > 0)
        prepared, found = represented.prepared, represented.derived.found
        distinct = prepared.rows
        own = replace(rows.take(distinct), weights=prepared.weights[distinct])
        most = len(distinct) - 1 if most_kept is None else most_kept * len(distinct)
        if found.combinations is None or len(found.selected) > most:
            return Part(own, Combinations.identity(len(distinct)))
        members = np.searchsorted(distinct, found.selected)
        matrix, residuals = found.combinations[distinct], found.residuals[distinct]
        off = kernel.residual_rounding(distinct)
        return Part(own, Combinations(members, matrix, residuals), off)

    def squared_diameter(self, rows: WeightedRows) -> float:
        """An upper bound on the squared distance of any two of the rows, in kernel space."""
        spec, targets = self.how.spec, self._joint_targets(rows)
        between = 0.0 if targets is None else float(np.ptp(targets)) ** 2
        if spec.kernel == "rbf":
            return 2.0 + between
        kernel = spec.matrix(rows.X, dtype=np.float64)
        return 4.0 * kernel.bound(np.arange(len(rows))) + between

    def _joint_targets(self, rows: WeightedRows) -> NDArray[np.float64] | None:
        return None if self.how.scale is None else self.how.scale.scaled(rows.targets)

    def _represented(
        self, rows: WeightedRows, tolerance: float, most_kept: float | None, combinations: bool
    ) -> tuple[TrainingKernel, Represented]:
        most = plan.TABLE.most_kept if most_kept is None else most_kept
        kernel = TrainingKernel(self.how.spec, rows.X, joint_targets=self._joint_targets(rows))
        return kernel, represent(
            kernel,
            np.unique(rows.groups, return_inverse=True)[1],
            rows.weights,
            self.how.settings._replace(hull_tol=tolerance, most_kept=most),
            self.run,
            self.progress,
            keep_combinations=combinations,
        )
