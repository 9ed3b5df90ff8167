"""Training sets of rows that were gathered from elsewhere: a stream, a source, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.objective import worst_optimum
from aesvm.formulations.protocol import Array, Formulation
from aesvm.kernels import KernelSpec
from aesvm.machines.one_vs_one import Fitted
from aesvm.machines.problem import (
    Coverage,
    RowSelection,
    Selections,
    TrainingSet,
    TrainingSets,
    total_of_costs,
)
from aesvm.machines.results import TrainedMachines
from aesvm.machines.rounds import OverBudgetError
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.part import Strata
from aesvm.out_of_core.weighted_rows import GatheredRows, WeightedRows, stacked

#: Coefficients to begin with, of the rows of a machine, known by its number.
StartOf = Callable[[int, NDArray[np.int64]], Array | None]


@dataclass(frozen=True)
class GatheredSets(TrainingSets):
    """Training sets of several machines, and where their rows come from."""

    given: NDArray  #: the targets that the rows of the kernel matrix were given with
    indices: NDArray[np.int64]  #: of these rows in the stream
    hull_tol: float  #: the tolerance that they were gathered at


@dataclass(frozen=True)
class GatheredLearner:
    """The machines of a fit to rows elsewhere, and the training sets of gathered rows."""

    selections: Selections  #: the rows of each machine
    spec: KernelSpec
    formulation: Formulation
    tol: float
    #: Makes fitted attributes of rows, the targets they were given with, and trained machines.
    assemble: Callable[[Any, NDArray, TrainedMachines], Fitted]

    def kernel(self, rows: WeightedRows) -> TrainingKernel:
        """The kernel matrix of one set, its values checked."""
        kernel = TrainingKernel(self.spec, rows.X, self.tol)
        kernel.check_bounded(np.arange(len(rows)))
        return kernel

    def of_one_set(
        self,
        gathered: GatheredRows,
        start_of: StartOf | None = None,
        kernel: TrainingKernel | None = None,
        only: NDArray[np.intp] | None = None,
    ) -> GatheredSets:
        """The training sets of all machines, from one set of weighted rows.

        ``kernel``: of these rows, where it is there already; ``only``: the numbers of the machines
        that are wanted.
        """
        rows, hull_tol = gathered
        sets = []
        for number in range(len(self.selections)) if only is None else only.tolist():
            selection = self.selections[number]
            at = selection.members(rows.targets)
            reach = rows.reach if len(at) else 0.0, np.full(len(at), rows.reach + rows.slack)
            start = None if start_of is None else start_of(number, rows.indices[at])
            given = rows.targets[at]
            weights = rows.weights[at]
            sets.append(self._set(selection, at, given, weights, reach, rows.whole, start))
        kernel = self.kernel(rows) if kernel is None else kernel
        return GatheredSets(kernel, sets, rows.targets, rows.indices, hull_tol)

    def of_strata(self, strata: dict[int, Strata], hull_tol: float) -> GatheredSets:
        """The training set of each machine from its own strata."""
        gathered = [rows for own in strata.values() for rows in own]
        indices, first = np.unique(
            np.concatenate([rows.indices for rows in gathered]), return_index=True
        )
        given = np.concatenate([rows.targets for rows in gathered])[first]
        X = stacked([rows.X for rows in gathered])[first]
        sets = [
            self._of_strata(selection, strata.get(number, []), indices, given)
            for number, selection in enumerate(self.selections)
        ]
        kernel = TrainingKernel(self.spec, X, self.tol)
        return GatheredSets(kernel, sets, given, indices, hull_tol)

    def _of_strata(
        self,
        selection: RowSelection,
        strata: Sequence[WeightedRows],
        indices: NDArray[np.int64],
        given: NDArray,
    ) -> TrainingSet:
        own = [rows for rows in strata if len(rows)]
        if not own:  # a machine without anything to learn: its rows tell its constant
            at = selection.members(given)
            none = 0.0, np.zeros(len(at))
            return self._set(selection, at, given[at], np.ones(len(at)), none, whole=True)
        at = np.concatenate([np.searchsorted(indices, rows.indices) for rows in own])
        order = np.argsort(at)
        weights = np.concatenate([rows.weights for rows in own])[order]
        each = np.concatenate([np.full(len(rows), rows.reach + rows.slack) for rows in own])[order]
        reach = max(rows.reach for rows in own), each
        positions = np.concatenate([r.positions for r in own if r.positions is not None])[order]
        at = at[order]
        whole = all(rows.whole for rows in own)
        return self._set(selection, at, given[at], weights, reach, whole, positions=positions)

    def _set(
        self,
        selection: RowSelection,
        at: NDArray[np.intp],
        given: NDArray,
        weights: Array,
        reach: tuple[float, Array],
        whole: bool,
        start: Array | None = None,
        positions: Array | None = None,
    ) -> TrainingSet:
        """A training set.

        ``reach``: how far what a row stands for may be, in kernel space, and that of each row with
        rounding counted in; ``whole``: whether each stands for itself.
        """
        targets, costs = selection.targets_of(given), selection.costs_of(given)
        with np.errstate(over="ignore"):
            bounds = costs * weights
        total_cost = total_of_costs(bounds)
        worst = worst_optimum(self.formulation, targets, bounds) if len(targets) else 0.0
        if positions is not None and self.formulation.constant(targets) is None:
            start = self.formulation.agreeing(positions, targets, bounds)
        if start is not None:
            start = self.formulation.feasible(start, targets, bounds)
        furthest, distances = reach
        return TrainingSet(
            at,
            targets,
            weights,
            costs,
            Coverage(
                n_rows=selection.n_rows,
                max_residual=furthest**2,
                total_residual=0.0 if whole else None,
                weighted_distances=float(bounds @ distances),
                total_cost=total_cost,
                worst_optimum=worst,
                squared_norm_bound=self.formulation.squared_norm_bound(total_cost, worst),
                exact=whole,
            ),
            start=start,
            positions_before=positions,
        )


def strata_bytes(strata: dict[int, Strata]) -> int:
    return sum(rows.n_bytes for own in strata.values() for rows in own)


def check_budget(n_bytes: int, budget: float, hull_tol: float) -> None:
    """Refuse what a round would gather where it is more than the budget."""
    if n_bytes > budget:
        raise over_budget(budget, hull_tol)


def over_budget(budget: float, hull_tol: float, enough: int | None = None) -> OverBudgetError:
    """The error of a budget that does not hold what a round gathers.

    ``enough``: bytes of a budget with which all rows would be gathered and no round be made; None
    where rounds are made with any.
    """
    helps = "raise either"
    if enough is not None:
        helps = f"raise it to {enough:,} bytes, which hold all rows"
    return OverBudgetError(
        f"memory_budget={budget:,.0f} bytes cannot hold what a round gathers at "
        f"hull_tol={hull_tol:g}: {helps}, or use refine=0."
    )
