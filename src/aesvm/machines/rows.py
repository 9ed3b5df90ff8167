"""Valid rows in memory, and which machines they are to train."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array
from aesvm.machines.one_vs_one import pairs_of_classes, squared_sizes
from aesvm.machines.problem import Problem
from aesvm.machines.small_pairs import ClassMembers


class Rows(Protocol):
    """Rows of one or several machines."""

    @property
    def X(self) -> Any:  # noqa: N802
        """The rows."""

    @property
    def weights(self) -> Array:
        """Of each row."""

    @property
    def groups(self) -> NDArray[np.intp]:
        """Rows of different groups never stand for each other."""

    @property
    def n_machines(self) -> int:
        """How many machines there are."""

    def problems(
        self, rows: NDArray[np.intp], weights: Array, only: NDArray[np.intp] | None = None
    ) -> Iterator[Problem]:
        """The problem of each machine, or only of those of some numbers.

        They are of some rows, ascending, with weights of all.
        """

    def effort(self, rows: NDArray[np.intp]) -> float:
        """The squared numbers of rows of all machines, of some rows."""


@dataclass(frozen=True)
class ClassRows:
    """Rows of several classes: a machine for every pair of them."""

    X: Any
    groups: NDArray[np.intp]  #: class of each row, by number
    weights: Array
    costs: Array  #: by class: C times the class weight

    @property
    def n_machines(self) -> int:
        return len(self.costs) * (len(self.costs) - 1) // 2

    def problems(
        self, rows: NDArray[np.intp], weights: Array, only: NDArray[np.intp] | None = None
    ) -> Iterator[Problem]:
        return pairs_of_classes(rows, self.groups[rows], weights[rows], self.costs, only)

    def by_class(self, rows: NDArray[np.intp], weights: Array) -> ClassMembers:
        """Some rows, with weights of all, as ``SmallPairs`` wants them."""
        own = rows[np.argsort(self.groups[rows], kind="stable")]
        labels = self.groups[own]
        ends = np.cumsum(np.bincount(labels, minlength=len(self.costs)))
        return ClassMembers(own, ends, self.costs[labels] * weights[own])

    def effort(self, rows: NDArray[np.intp]) -> float:
        return squared_sizes(self.groups[rows], len(self.costs))


@dataclass(frozen=True)
class TargetRows:
    """Rows with targets: one machine."""

    X: Any
    targets: Array
    weights: Array
    cost: float  #: C
    n_machines = 1

    @property
    def groups(self) -> NDArray[np.intp]:
        return np.zeros(len(self.targets), dtype=np.intp)

    def problems(
        self, rows: NDArray[np.intp], weights: Array, only: NDArray[np.intp] | None = None
    ) -> Iterator[Problem]:
        groups = np.zeros(len(rows), dtype=np.intp)
        costs = np.full(len(rows), self.cost)
        yield Problem(rows, self.targets[rows], groups, weights[rows], costs)

    def effort(self, rows: NDArray[np.intp]) -> float:
        return float(len(rows)) ** 2


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
