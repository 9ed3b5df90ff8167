"""One SVM to be trained: its rows, and the weighted set that stands for them in a solve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.sets.derive import Combinations
from aesvm.solver.state import Solution


class RowSelection(Protocol):
    """Which rows belong to a machine, and what it learns of them; see ``rows.Selections``.

    ``given``: the classes or targets of rows.
    """

    @property
    def n_rows(self) -> int:
        """The number of rows that belong to it, wherever they are."""

    def members(self, given: NDArray) -> NDArray[np.intp]:
        """Positions of the rows that belong to it."""

    def targets_of(self, given: NDArray) -> Array:
        """What the machine is to learn of rows that belong to it."""

    def costs_of(self, given: NDArray) -> Array:
        """The cost of each of these, at a weight of one."""


#: A larger sum of all costs is refused: sums of losses must stay finite.
_LARGEST_COST = 1e300


def total_of_costs(costs: Array) -> float:
    """The sum of some costs; an error where it is too large."""
    with np.errstate(over="ignore"):
        total = float(costs.sum())
    if not total < _LARGEST_COST:
        raise ValueError(
            f"C, class_weight and sample_weight add up to costs of {total:.3g}: they must be less "
            f"than {_LARGEST_COST:g}, lower them."
        )
    return total


class Problem(NamedTuple):
    """All distinct rows of one SVM, ascending."""

    rows: NDArray[np.intp]  #: of the kernel matrix
    targets: Array
    groups: NDArray[np.intp]  #: rows of different groups never stand for each other
    weights: Array
    costs: Array  #: of a row of weight one: C times the class weight

    @property
    def bounds(self) -> Array:
        return self.costs * self.weights

    def take(self, at: NDArray[np.intp]) -> Problem:
        """Some of the rows, in another order."""
        return Problem(
            self.rows[at], self.targets[at], self.groups[at], self.weights[at], self.costs[at]
        )

    def members_of_groups(self, among: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """The rows at some positions, group by group."""
        groups = self.groups[among]
        return [self.rows[among[groups == group]] for group in np.unique(groups)]


@dataclass(frozen=True)
class Coverage:
    """How well a training set stands for all rows of its problem."""

    n_rows: int
    max_residual: float = 0.0
    total_residual: float | None = 0.0  #: None where only a bound on the largest is known
    weighted_distances: float = 0.0  #: sum_i c_i |tau_i|, or what it is at most
    total_cost: float = 0.0  #: sum_i c_i
    worst_optimum: float = 0.0  #: F at w = 0
    squared_norm_bound: float | None = 0.0  #: what |w|^2 is at most, of an optimum
    exact: bool = True  #: every row stands for itself


@dataclass(frozen=True)
class TrainingSet:
    """The weighted rows that a solve is over."""

    rows: NDArray[np.intp]  #: of the kernel matrix
    targets: Array
    weights: Array  #: how much of the rows' weight each stands for (the paper's beta)
    costs: Array  #: of a row of weight one
    coverage: Coverage
    combinations: Combinations | None = None  #: of all rows, where these are in memory
    start: Array | None = None  #: feasible coefficients to begin with
    positions_before: Array | None = None  #: on the axis of the loss, by the SVM before

    @property
    def bounds(self) -> Array:
        return self.costs * self.weights

    @property
    def n_rows(self) -> int:
        """Rows that it stands for."""
        return self.coverage.n_rows


@dataclass(frozen=True)
class TrainingSets:
    """A training set for each of several machines, over one kernel matrix."""

    kernel: TrainingKernel
    sets: list[TrainingSet]

    @property
    def exact(self) -> bool:
        return all(own.coverage.exact for own in self.sets)


class Expansion(NamedTuple):
    """A trained machine in its shortest form, ``f(x) = sum_i coefs_i k(x_i, x) + offset``.

    Where the rows leave nothing to learn, f is constant: there are none.
    """

    rows: NDArray[np.intp]  #: training rows
    coefs: Array
    offset: float


@dataclass(frozen=True)
class Machine:
    """A trained SVM: ``w = sum_t coefs_t phi(x_t)`` over its training set, and its offsets.

    Where the solve was cut short, w is the best multiple of the dual solution.
    """

    set: TrainingSet
    coefs: Array
    scores: Array  #: <w, z_t> of every row of the set
    offsets: Offsets
    solution: Solution | None  #: None where there was nothing to learn
    dual_coefs: Array | None = None  #: of the dual solution, where these are not the same

    @property
    def multipliers(self) -> Array:
        """Coefficients that are feasible for the dual."""
        return self.coefs if self.dual_coefs is None else self.dual_coefs

    @property
    def support(self) -> NDArray[np.intp]:
        """Positions of the support vectors in the set."""
        return np.flatnonzero(self.coefs)

    def expansion(self, formulation: Formulation) -> Expansion:
        """What it decides by, over its support vectors."""
        decision = formulation.decision(self.offsets)
        coefs = self.coefs[self.support] / decision.scale
        return Expansion(self.set.rows[self.support], coefs, decision.intercept)

    @property
    def terms(self) -> tuple[NDArray[np.intp], Array]:
        """The rows of the kernel matrix that have multipliers, and these."""
        held = np.flatnonzero(self.multipliers)
        return self.set.rows[held], self.multipliers[held]

    @property
    def n_support(self) -> int:
        return int(np.count_nonzero(self.coefs))

    @property
    def squared_norm(self) -> float:
        return float(self.coefs @ self.scores)

    @property
    def n_evaluations(self) -> int:
        return 0 if self.solution is None else self.solution.n_evaluations


def different(rows: Iterable[NDArray[np.intp]]) -> NDArray[np.intp]:
    """Rows of several machines, each of them once, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.problem import different
    >>> different([np.array([0, 1]), np.array([1, 2])])
    array([0, 1, 2])
    """
    every = np.concatenate([np.empty(0, dtype=np.intp), *rows])
    if np.all(every[1:] > every[:-1]):  # as the rows of one machine usually are
        return every
    every = np.sort(every)
    return every[np.r_[True, every[1:] > every[:-1]]]
