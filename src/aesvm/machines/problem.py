"""What is trained: which rows belong to a machine, and the weighted set that stands for them in a
solve; and a trained machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.cached import cached_property
from aesvm.sets.derive import Combinations
from aesvm.solver.state import Solution

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


class EveryRow(NamedTuple):
    """All rows that there are."""

    n_rows: int
    cost: float

    def members(self, given: NDArray) -> NDArray[np.intp]:
        return np.arange(len(given))

    def targets_of(self, given: NDArray) -> Array:
        return np.asarray(given, dtype=np.float64)

    def costs_of(self, given: NDArray) -> Array:
        return np.full(len(given), self.cost)


class ClassPair(NamedTuple):
    """The rows of two classes."""

    classes: tuple[Any, Any]  #: the first is the positive one
    costs: tuple[float, float]  #: C times the weight of each
    n_rows: int

    def members(self, given: NDArray) -> NDArray[np.intp]:
        return np.flatnonzero((given == self.classes[0]) | (given == self.classes[1]))

    def targets_of(self, given: NDArray) -> NDArray[np.float64]:
        return np.where(given == self.classes[0], 1.0, -1.0)

    def costs_of(self, given: NDArray) -> NDArray[np.float64]:
        return np.where(given == self.classes[0], *self.costs)


#: Which rows belong to a machine, and what it learns of them, given the classes or targets of rows:
#: ``members`` are the positions of the rows that belong to it, ``targets_of`` and ``costs_of`` what
#: it is to learn of these, and the cost of each at a weight of one. ``n_rows`` counts the rows that
#: belong to it, wherever they are.
RowSelection = ClassPair | EveryRow


@dataclass(frozen=True)
class ClassPairs(Sequence[RowSelection]):
    """The rows of every pair of classes, each made when it is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.problem import ClassPairs
    >>> pairs = ClassPairs(np.array(["a", "b", "c"]), np.array([5, 6, 7]), np.ones(3))
    >>> len(pairs), pairs[1].n_rows
    (3, 12)
    """

    classes: NDArray  #: ascending
    counts: NDArray[np.intp]  #: rows of each
    costs: NDArray[np.float64]  #: C times the weight of each

    def __len__(self) -> int:
        return len(self.classes) * (len(self.classes) - 1) // 2

    def __getitem__(self, number: Any) -> Any:
        i, j = (int(own[number]) for own in self.places)
        return ClassPair(
            (self.classes[i], self.classes[j]),
            (float(self.costs[i]), float(self.costs[j])),
            int(self.counts[i] + self.counts[j]),
        )

    @cached_property
    def places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first and the second class of every pair, by number."""
        return pair_classes(len(self.classes))

    def labels(self, given: NDArray) -> NDArray[np.intp]:
        """Classes by number."""
        return np.searchsorted(self.classes, given)

    def members(self, given: NDArray, numbers: Iterable[int]) -> Iterator[NDArray[np.intp]]:
        """Positions of the rows of some pairs, ascending; ``given``: the classes of all rows."""
        labels = self.labels(given)
        order = np.argsort(labels, kind="stable")  # once: comparing for every pair takes far longer
        ends = np.cumsum(np.bincount(labels, minlength=len(self.classes)))
        of_class = np.split(order, ends[:-1])
        first, second = self.places
        for number in numbers:
            yield np.sort(np.concatenate([of_class[first[number]], of_class[second[number]]]))

    def squared_sizes(self, given: NDArray) -> float:
        """The squared numbers of rows of all pairs, added up."""
        sizes = np.bincount(self.labels(given), minlength=len(self.classes)).astype(float)
        sizes = sizes[sizes > 0]
        squares = float(sizes @ sizes)
        return (len(sizes) - 2) * squares + float(sizes.sum()) ** 2 if len(sizes) > 1 else 0.0


def pair_classes(n_classes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the second class of every pair.

    Examples
    --------
    >>> from aesvm.machines.problem import pair_classes
    >>> pair_classes(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    first = np.repeat(np.arange(n_classes - 1), np.arange(n_classes - 1, 0, -1))
    return first, np.arange(1, len(first) + 1) - first * (2 * n_classes - 3 - first) // 2


@dataclass(frozen=True)
class OneMachine(Sequence[RowSelection]):
    """The only machine of an estimator, which has every row."""

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
