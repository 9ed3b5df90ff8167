"""Training sets of rows that were gathered from elsewhere: a stream, a source, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec, TrainingKernel
from aesvm.machines.formulation import Array, Formulation
from aesvm.machines.problem import Coverage, TrainingSet, TrainingSets
from aesvm.machines.rounds import OverBudgetError
from aesvm.out_of_core.part import ClassPair, Strata
from aesvm.out_of_core.tally import ClassCounts
from aesvm.out_of_core.weighted_rows import WeightedRows, stacked

#: Coefficients to begin with, of the rows of a machine, known by its number.
StartOf = Callable[[int, NDArray[np.int64]], Array | None]


@dataclass(frozen=True)
class GatheredSets(TrainingSets):
    """Training sets of all pairs of classes, and where their rows come from."""

    labels: NDArray[np.intp]  #: classes by number, of the rows of the kernel matrix
    indices: NDArray[np.int64]  #: of these rows in the stream
    hull_tol: float  #: the tolerance that they were gathered at


@dataclass(frozen=True)
class Gatherer:
    """Makes training sets of gathered rows, one for each pair of classes.

    Parameters
    ----------
    counts : ClassCounts
        Of all rows, wherever they are.
    costs : ndarray of shape (n_classes,)
        C times the class weight.
    spec : KernelSpec
    formulation : Formulation
    sum_tol : float
        As ``TrainingKernel`` has it.
    """

    counts: ClassCounts
    costs: Array
    spec: KernelSpec
    formulation: Formulation
    sum_tol: float

    @cached_property
    def numbers(self) -> list[tuple[int, int]]:
        """The classes of every pair, by number."""
        return list(combinations(range(len(self.costs)), 2))

    @cached_property
    def pairs(self) -> list[ClassPair]:
        classes, costs = self.counts.classes, self.costs.tolist()
        return [ClassPair((classes[i], classes[j]), (costs[i], costs[j])) for i, j in self.numbers]

    def of_one_set(
        self, rows: WeightedRows, hull_tol: float, start_of: StartOf | None = None
    ) -> GatheredSets:
        """One set for all pairs."""
        labels = np.searchsorted(self.counts.classes, rows.targets)
        kernel = TrainingKernel(self.spec, rows.X, self.sum_tol)
        sets = []
        for number, (i, j) in enumerate(self.numbers):
            at = np.flatnonzero((labels == i) | (labels == j))
            reach = np.full(len(at), rows.reach)
            start = None if start_of is None else start_of(number, rows.indices[at])
            sets.append(self._set(number, at, labels[at], rows.weights[at], reach, start))
        return GatheredSets(kernel, sets, labels, rows.indices, hull_tol)

    def of_strata(self, strata: dict[int, Strata], hull_tol: float) -> GatheredSets:
        """A set for each pair, of its own strata."""
        gathered = [rows for own in strata.values() for rows in own]
        indices, first = np.unique(
            np.concatenate([rows.indices for rows in gathered]), return_index=True
        )
        targets = np.concatenate([rows.targets for rows in gathered])[first]
        labels = np.searchsorted(self.counts.classes, targets)
        X = stacked([rows.X for rows in gathered])[first]
        kernel = TrainingKernel(self.spec, X, self.sum_tol)
        sets = [
            self._of_strata(number, strata.get(number, []), indices, labels)
            for number in range(len(self.numbers))
        ]
        return GatheredSets(kernel, sets, labels, indices, hull_tol)

    def _of_strata(
        self,
        number: int,
        strata: Sequence[WeightedRows],
        indices: NDArray[np.int64],
        labels: NDArray[np.intp],
    ) -> TrainingSet:
        own = [rows for rows in strata if len(rows)]
        if not own:  # the pair has one class at most: its rows tell which
            at = np.flatnonzero(np.isin(labels, self.numbers[number]))
            return self._set(number, at, labels[at], np.ones(len(at)), np.zeros(len(at)))
        at = np.concatenate([np.searchsorted(indices, rows.indices) for rows in own])
        order = np.argsort(at)
        weights = np.concatenate([rows.weights for rows in own])[order]
        reach = np.concatenate([np.full(len(rows), rows.reach) for rows in own])[order]
        positions = np.concatenate([r.positions for r in own if r.positions is not None])[order]
        at = at[order]
        return self._set(number, at, labels[at], weights, reach, positions=positions)

    def _set(
        self,
        number: int,
        at: NDArray[np.intp],
        labels: NDArray[np.intp],
        weights: Array,
        reach: Array,
        start: Array | None = None,
        positions: Array | None = None,
    ) -> TrainingSet:
        """The training set of a pair: ``reach`` is how far what a row stands for may be from it."""
        i, j = self.numbers[number]
        targets = np.where(labels == i, 1.0, -1.0)
        costs = self.costs[labels]
        bounds = costs * weights
        if positions is not None and self.formulation.constant(targets) is None:
            start = self.formulation.agreeing(positions, targets, bounds)
        if start is not None:
            start = self.formulation.feasible(start, targets, bounds)
        n_rows = int(self.counts.counts[i] + self.counts.counts[j])
        furthest = float(reach.max(initial=0.0)) ** 2
        return TrainingSet(
            at,
            targets,
            weights,
            costs,
            Coverage(
                n_rows=n_rows,
                max_residual=furthest,
                total_residual=n_rows * furthest,
                weighted_distances=float(bounds @ reach),
                total_cost=float(bounds.sum()),
                worst_optimum=self.formulation.worst_optimum(targets, bounds),
                exact=furthest == 0.0,
            ),
            start=start,
            positions_before=positions,
        )


def check_budget(strata: dict[int, Strata], budget: float, hull_tol: float) -> None:
    """Refuse what a round would gather where it is more than the budget."""
    n_bytes = sum(rows.n_bytes for own in strata.values() for rows in own)
    if n_bytes > budget:
        raise OverBudgetError(
            f"memory_budget={budget:,.0f} bytes cannot hold the {n_bytes:,} bytes that a round "
            f"gathers at hull_tol={hull_tol:g}: raise either, or use refine=0."
        )
