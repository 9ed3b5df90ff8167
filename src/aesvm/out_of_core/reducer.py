"""Reduces weighted rows to representatives. A reducer is a value, which can be sent to workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec
from aesvm.kernels.joint import TargetScale
from aesvm.machines import plan
from aesvm.machines.represent import Represented, represent
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.merge_tree import Reduce, most_kept_at, tolerance_of
from aesvm.out_of_core.part import Part
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import Combinations, ReductionSettings


@dataclass(frozen=True)
class RowReducer:
    """Reduces weighted rows, as an estimator's parameters say."""

    spec: KernelSpec
    settings: ReductionSettings
    scale: TargetScale | None = None  #: of targets that rows stand for each other with

    def at_levels(self, run: Callable, progress: Progress) -> Reduce:
        """What reduces rows at the levels of a merge tree."""
        return _LevelReducer(self, run, progress.quietly().to_the_end())

    def squared_diameter(self, rows: WeightedRows) -> float:
        """An upper bound on the squared distance of any two of the rows, in kernel space."""
        targets = self._joint_targets(rows)
        between = 0.0 if targets is None else float(np.ptp(targets)) ** 2
        if self.spec.kernel == "rbf":
            return 2.0 + between
        kernel = self.spec.matrix(rows.X, dtype=np.float64)
        return 4.0 * kernel.bound(np.arange(len(rows))) + between

    def _joint_targets(self, rows: WeightedRows) -> NDArray[np.float64] | None:
        return None if self.scale is None else self.scale.scaled(rows.targets)

    def reduce(
        self,
        rows: WeightedRows,
        tolerance: float,
        most_kept: float | None,
        run: Callable,
        progress: Progress,
    ) -> WeightedRows:
        """The representatives of some rows, within a squared distance of all of them.

        Where a larger fraction than ``most_kept`` would remain, all distinct rows do.
        """
        settings = self._settings(tolerance, most_kept)
        kernel = self._kernel(rows)
        represented = self._represent(kernel, rows, settings, run, progress, False)
        prepared, found = represented.prepared, represented.derived.found
        if most_kept is not None and len(found.selected) > most_kept * len(prepared.rows):
            own = prepared.weights[prepared.rows]
            return rows.represented_by(prepared.rows, own, 0.0, 0.0, len(prepared.rows))
        return rows.represented_by(
            found.selected,
            found.weights,
            represented.max_residual,
            kernel.residual_rounding(prepared.rows),
            len(prepared.rows),
        )

    def part(
        self,
        rows: WeightedRows,
        tolerance: float,
        run: Callable,
        progress: Progress,
        most_kept: float | None = None,
    ) -> Part:
        """The distinct rows of non-zero weight, and their representatives, as in ``reduce``."""
        rows = rows.take(np.flatnonzero(rows.weights))
        if not len(rows):
            return Part(rows, Combinations.identity(0))
        settings = self._settings(tolerance, most_kept)
        kernel = self._kernel(rows)
        represented = self._represent(kernel, rows, settings, run, progress, tolerance > 0)
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

    def _settings(self, tolerance: float, most_kept: float | None) -> ReductionSettings:
        most = plan.TABLE.most_kept if most_kept is None else most_kept
        return self.settings._replace(hull_tol=tolerance, most_kept=most)

    def _kernel(self, rows: WeightedRows) -> TrainingKernel:
        return TrainingKernel(self.spec, rows.X, joint_targets=self._joint_targets(rows))

    def _represent(
        self,
        kernel: TrainingKernel,
        rows: WeightedRows,
        settings: ReductionSettings,
        run: Callable,
        progress: Progress,
        keep_combinations: bool,
    ) -> Represented:
        return represent(
            kernel,
            np.unique(rows.groups, return_inverse=True)[1],
            rows.weights,
            settings,
            run,
            progress,
            keep_combinations=keep_combinations,
        )


@dataclass(frozen=True)
class _LevelReducer:
    """Reduces rows at the levels of a merge tree, on threads."""

    reducer: RowReducer
    run: Callable
    progress: Progress

    def __call__(self, rows: WeightedRows, hull_tol: float, level: int | None) -> WeightedRows:
        tolerance = tolerance_of(hull_tol, level, rows.reach)
        return self.reducer.reduce(rows, tolerance, most_kept_at(level), self.run, self.progress)

    def squared_diameter(self, rows: WeightedRows) -> float:
        return self.reducer.squared_diameter(rows)
