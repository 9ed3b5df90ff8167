"""What an estimator learns: how its targets are checked, and which machines they train.

A classifier learns ``Classes``, by a machine for every pair of them. A regression learns
``Values``. The one-class SVM learns the ``Support`` of a distribution. An estimator has one of the
three, in ``_learns``, and asks it whatever depends on targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.estimators.fit_warnings import warn_of_targets
from aesvm.estimators.validation import (
    check_two_classes,
    class_weights,
    valid_chunk,
    valid_classes,
    valid_values,
    with_classes,
    with_values,
    without_targets,
)
from aesvm.formulations.protocol import Array, Decision, Formulation, Offsets
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec
from aesvm.kernels.joint import TargetScale
from aesvm.machines.one_vs_one import Fitted, fitted_machine, fitted_pairs
from aesvm.machines.problem import ClassPairs, OneMachine, TrainingRows, total_of_costs
from aesvm.machines.results import TrainedMachines
from aesvm.out_of_core.source import ClassCounts, Tally
from aesvm.out_of_core.stream import StreamedModel
from aesvm.out_of_core.training_sets import GatheredLearner
from aesvm.out_of_core.weighted_rows import WeightedRows


@dataclass(frozen=True)
class Learner:
    """Valid rows in memory, and the loss that machines are trained with."""

    rows: TrainingRows
    formulation: Formulation
    scale: TargetScale | None = None  #: of targets, where rows stand for each other with them

    @property
    def joint_targets(self) -> Array | None:
        return None if self.scale is None else self.scale.scaled(self.rows.given)


class InfeasibleError(ValueError):
    """Parameters that are impossible with the rows so far; with more rows they may be possible."""

    parameter = "nu"


def _chunk(
    learning: Learning,
    estimator: Any,
    streamed: StreamedModel | None,
    X: Any,
    y: Any,
    sample_weight: Any,
    first: bool,
) -> WeightedRows:
    """Valid rows of a stream, of announced classes; ``first``: whether none came before."""
    chunk = valid_chunk(learning.chunk_of, estimator, X, y, sample_weight, first)
    if streamed is not None:
        streamed.check_classes(chunk.targets)
    return chunk


@dataclass(frozen=True)
class Classes:
    """Classes, with a machine for every pair of them."""

    formulation: Callable[[Any], Formulation]  #: of an estimator
    #: Refuses parameters of an estimator, given the costs of two classes.
    check_pair: Callable[[Any, float, float], None] | None = None
    least_groups = 2  #: groups of rows with which there is something to learn
    takes_targets = True  #: whether y is required; otherwise it is ignored
    joint = False  #: whether rows stand for each other together with their targets
    chunk_of = staticmethod(with_classes)  #: makes chunks of valid rows, wherever these are
    chunk = _chunk  #: makes those of a stream

    def valid_targets(self, estimator: Any, y: Any, X: Any) -> NDArray:
        """The targets of rows, checked."""
        return valid_classes(y, X, type(estimator).__name__)

    def learner(
        self, estimator: Any, X: Any, y: NDArray, weights: Array, fitted: bool = False
    ) -> Learner:
        """Rows and loss of a fit; ``fitted``: whether classes and their weights are known."""
        if fitted:
            labels = np.searchsorted(estimator.classes_, y)
            costs = cost_of(estimator) * estimator.class_weight_
        else:
            classes, labels = np.unique(y, return_inverse=True)
            check_two_classes(classes, labels, weights)
            counts = np.bincount(labels, minlength=len(classes))
            costs = set_classes(estimator, ClassCounts(classes, counts))
            _check_costs(costs[labels], weights)
            self._check_pairs(estimator, labels, costs[labels] * weights)
        rows = TrainingRows.of_classes(X, labels, weights, costs)
        return Learner(rows, self.formulation(estimator))

    def fitted(
        self, X: Any, learner: Learner, trained: TrainedMachines, spec: KernelSpec
    ) -> Fitted:
        """The fitted attributes of trained machines."""
        return fitted_pairs(X, learner.rows.groups, trained, spec)

    def decision(self, estimator: Any, offsets: Offsets) -> Decision:
        """The decision function of a machine with these offsets."""
        return self.formulation(estimator).decision(offsets)

    def check_enough(self, tally: Tally, what: str) -> None:
        """Refuse rows from which nothing can be learned; ``what``: their name in the message."""
        tally.check_two_classes(what)

    def check_weights(self, estimator: Any, targets: NDArray, weights: Array) -> None:
        """Refuse parameters that are impossible with such weights; called after ``gathered``.

        ``targets`` may be each class once, with its summed weight.
        """
        classes, labels = np.unique(targets, return_inverse=True)
        factors = estimator.class_weight_[np.searchsorted(estimator.classes_, classes)]
        self._check_pairs(estimator, labels, factors[labels] * weights)

    def gathered(
        self,
        estimator: Any,
        counts: ClassCounts,
        scale: TargetScale | None,
        spec: KernelSpec,
        fitted: bool = False,
    ) -> GatheredLearner:
        """Machines and loss of a fit to rows elsewhere; ``fitted`` as in ``learner``."""
        formulation = self.formulation(estimator)

        def assemble(X: Any, given: NDArray, trained: TrainedMachines) -> Fitted:
            labels = np.searchsorted(counts.classes, given)
            return fitted_pairs(X, labels, trained, spec)

        if fitted:
            costs = cost_of(estimator) * estimator.class_weight_
        else:
            costs = set_classes(estimator, counts)
        pairs = ClassPairs(counts.classes, counts.counts, costs)
        return GatheredLearner(pairs, spec, formulation, float(estimator.tol), assemble)

    def _check_pairs(self, estimator: Any, labels: NDArray[np.intp], costs: Array) -> None:
        """Refuse parameters that are impossible with some pair of classes."""
        if self.check_pair is not None:
            totals = np.bincount(labels, costs)
            for one, other in combinations(totals[totals > 0].tolist(), 2):
                self.check_pair(estimator, one, other)


@dataclass(frozen=True)
class Values:
    """Numbers, learned by one machine; rows stand for each other together with them.

    Methods and attributes are as in ``Classes``.
    """

    formulation: Callable[[Any, float], Formulation]  #: of an estimator and the targets' spread
    least_groups = 1
    takes_targets = True
    joint = True
    chunk_of = staticmethod(with_values)
    chunk = _chunk

    def valid_targets(self, estimator: Any, y: Any, X: Any) -> NDArray:
        return valid_values(y, X, type(estimator).__name__)

    def learner(
        self, estimator: Any, X: Any, y: NDArray, weights: Array, fitted: bool = False
    ) -> Learner:
        scale = TargetScale.of(y, weights) if self.joint else None
        _check_costs(cost_of(estimator), weights)
        rows = TrainingRows.of_targets(X, y, weights, cost_of(estimator))
        return Learner(rows, self._formulation(estimator, scale), scale)

    def fitted(
        self, X: Any, learner: Learner, trained: TrainedMachines, spec: KernelSpec
    ) -> Fitted:
        return _fitted_machine(X, trained, spec, learner.formulation)

    def decision(self, estimator: Any, offsets: Offsets) -> Decision:
        return self._formulation(estimator, None).decision(offsets)

    def check_enough(self, tally: Tally, what: str) -> None:
        if not tally.present:
            raise ValueError(
                f"{what} has no row of non-zero sample_weight: at least one is needed."
            )

    def check_weights(self, estimator: Any, targets: NDArray, weights: Array) -> None:
        _check_costs(cost_of(estimator), weights)

    def gathered(
        self,
        estimator: Any,
        counts: ClassCounts,
        scale: TargetScale | None,
        spec: KernelSpec,
        fitted: bool = False,
    ) -> GatheredLearner:
        formulation = self._formulation(estimator, scale)

        def assemble(X: Any, given: NDArray, trained: TrainedMachines) -> Fitted:
            return _fitted_machine(X, trained, spec, formulation)

        machine = OneMachine(int(counts.counts.sum()), cost_of(estimator))
        return GatheredLearner(machine, spec, formulation, float(estimator.tol), assemble)

    def _formulation(self, estimator: Any, scale: TargetScale | None) -> Formulation:
        return self.formulation(estimator, 1.0 if scale is None else scale.spread)


@dataclass(frozen=True)
class Support(Values):
    """The region that has most rows: as ``Values``, without targets."""

    takes_targets = False
    joint = False
    chunk_of = staticmethod(without_targets)

    def valid_targets(self, estimator: Any, y: Any, X: Any) -> NDArray:
        return np.ones(X.shape[0])


#: What an estimator learns.
Learning = Classes | Values


def _fitted_machine(
    X: Any, trained: TrainedMachines, spec: KernelSpec, formulation: Formulation
) -> Fitted:
    """The fitted attributes of one machine; warns where C is too small for a regression."""
    if isinstance(formulation, Tube) and trained.only is not None:
        warn_of_targets(trained.only, formulation)
    return fitted_machine(X, trained, spec)


def cost_of(estimator: Any) -> float:
    """C; or 1 with nu in its place, as the solution does not depend on the scale of costs."""
    return float(getattr(estimator, "C", 1.0))


def set_classes(estimator: Any, counts: ClassCounts) -> NDArray[np.float64]:
    """Set ``classes_`` and ``class_weight_``; return C times these weights."""
    estimator.classes_ = counts.classes
    estimator.class_weight_ = class_weights(estimator.class_weight, counts.classes, counts.counts)
    with np.errstate(over="ignore"):
        return cost_of(estimator) * estimator.class_weight_


def _check_costs(costs: Array | float, weights: Array) -> None:
    """Refuse costs whose sum overflows."""
    with np.errstate(over="ignore"):
        total_of_costs(costs * weights)
