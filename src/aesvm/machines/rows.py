"""Rows in memory, and which of them belong to which machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array
from aesvm.machines.class_bundles import ClassMembers
from aesvm.machines.one_vs_one import ClassPairs
from aesvm.machines.problem import Problem, RowSelection


class EveryRow(NamedTuple):
    """All rows that there are, a ``RowSelection``."""

    n_rows: int
    cost: float

    def members(self, given: NDArray) -> NDArray[np.intp]:
        return np.arange(len(given))

    def targets_of(self, given: NDArray) -> Array:
        return np.asarray(given, dtype=np.float64)

    def costs_of(self, given: NDArray) -> Array:
        return np.full(len(given), self.cost)


@dataclass(frozen=True)
class OneMachine(Sequence[RowSelection]):
    """The only machine of an estimator, which has every row: ``Selections``."""

    n_rows: int
    cost: float  #: C

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: Any) -> Any:
        return (EveryRow(self.n_rows, self.cost),)[number]

    def members(self, given: NDArray, numbers: Iterable[int]) -> Iterator[NDArray[np.intp]]:
        return (np.arange(len(given)) for _ in numbers)

    def squared_sizes(self, given: NDArray) -> float:
        return float(len(given)) ** 2


#: The rows of every machine of an estimator: a ``RowSelection`` for each.
Selections = ClassPairs | OneMachine


@dataclass(frozen=True)
class TrainingRows:
    """Valid rows, and the machines that they are to train."""

    X: Any
    given: NDArray  #: the class or the target of each row
    groups: NDArray[np.intp]  #: rows of different groups never stand for each other
    weights: Array
    selections: Selections

    @classmethod
    def of_classes(
        cls, X: Any, labels: NDArray[np.intp], weights: Array, costs: NDArray[np.float64]
    ) -> TrainingRows:
        """Rows of several classes: a machine for every pair of them.

        ``labels``: the class of each row, by number; ``costs``: C times the weight of each class.
        """
        counts = np.bincount(labels, minlength=len(costs))
        return cls(X, labels, labels, weights, ClassPairs(np.arange(len(costs)), counts, costs))

    @classmethod
    def of_targets(cls, X: Any, targets: Array, weights: Array, cost: float) -> TrainingRows:
        """Rows with targets: one machine; ``cost``: C."""
        groups = np.zeros(len(targets), dtype=np.intp)
        return cls(X, targets, groups, weights, OneMachine(len(targets), cost))

    @property
    def n_machines(self) -> int:
        return len(self.selections)

    def problems(
        self, rows: NDArray[np.intp], weights: Array, only: NDArray[np.intp] | None = None
    ) -> Iterator[Problem]:
        """The problem of each machine, or only of those with some numbers.

        ``rows``: the rows that there are, ascending; ``weights``: of all rows.
        """
        numbers = range(self.n_machines) if only is None else only.tolist()
        for number, at in zip(
            numbers, self.selections.members(self.given[rows], numbers), strict=True
        ):
            selection, own = self.selections[number], rows[at]
            given = self.given[own]
            yield Problem(
                own,
                selection.targets_of(given),
                self.groups[own],
                weights[own],
                selection.costs_of(given),
            )

    def squared_sizes(self, rows: NDArray[np.intp]) -> float:
        """The squared numbers of rows of all machines, of some rows."""
        return self.selections.squared_sizes(self.given[rows])


def by_class(
    pairs: ClassPairs, rows: NDArray[np.intp], given: NDArray, weights: Array
) -> ClassMembers:
    """Rows class by class, as ``SmallPairs`` needs them; ``given``: the class of each."""
    labels = pairs.labels(given)
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=len(pairs.classes)))
    with np.errstate(over="ignore"):
        bounds = pairs.costs[labels] * weights
    return ClassMembers(rows[order], ends, bounds[order])
