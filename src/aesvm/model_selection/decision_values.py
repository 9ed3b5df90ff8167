"""Decision values of many models at the same rows, computed together, and kept to be scored.

The models of a path have one kernel, and most of their support vectors in common: kernel values
of the rows with all of these are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.machines import one_vs_one
from aesvm.machines.prediction import MachineModel, PairwiseModel, expand

#: Methods of estimators that are made of predictions.
_OF_PREDICTIONS = ("predict", "decision_function", "score_samples", "score")

#: The most bytes that the values of all models may take; beyond, each predicts by itself.
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class EvaluatedPairs(PairwiseModel):
    """A classifier that holds its decision values at some rows, and predicts these alone."""

    values: NDArray[np.float64] | None = None  #: of every pair of classes

    def _decide(
        self, X: Any, decide: Callable[[NDArray[np.float64]], NDArray], n_jobs: int | None
    ) -> NDArray:
        assert self.values is not None
        return decide(self.values)


@dataclass(frozen=True)
class EvaluatedMachine(MachineModel):
    """A machine that holds its decision values at some rows, and predicts these alone."""

    values: NDArray[np.float64] | None = None

    def decision_function(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        assert self.values is not None
        return self.values.copy()  # a scorer may change what it is given


class EvaluatedSVM:
    """Takes the place of a fitted SVM while it is scored: it knows decision values at some rows.

    Its predictions there are made of these; all else is that of the SVM.
    """

    def __init__(self, svm: Any) -> None:
        self.svm = svm
        #: The very rows that predictions will be asked for, with models that know their values.
        self.evaluated: list[tuple[Any, EvaluatedPairs | EvaluatedMachine]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.svm, name)
        method: Any = getattr(found, "__func__", None)
        if name in _OF_PREDICTIONS and getattr(method, "__module__", "").startswith("aesvm."):
            return MethodType(method, self)
        return found  # also a method of a subclass, which may call ours by ``super``

    def _ask(self, method: str, X: Any) -> Any:
        """What all methods of predictions call."""
        for rows, model in self.evaluated:
            if rows is X:
                return getattr(model, method)(X, self.svm.n_jobs)
        return self.svm._ask(method, X)


def with_decision_values(
    models: Sequence[PairwiseModel | MachineModel], rows: Any, X: Any, n_jobs: int | None
) -> list[EvaluatedPairs | EvaluatedMachine] | None:
    """The models with their decision values at X; None where these would be too many to hold.

    All have the same kernel, and were trained on ``rows``, which are not used where that is
    precomputed.
    """
    first = models[0]
    n_outputs = len(first.intercept)
    if X.shape[0] * len(models) * n_outputs * 8 > _MOST_BYTES:
        return None
    classes = np.zeros(rows.shape[0], dtype=np.intp)
    used = np.zeros(rows.shape[0], dtype=bool)
    for model in models:
        classes[model.support] = model.groups
        used[model.support] = True
    union = np.flatnonzero(used)
    union = union[np.argsort(classes[union], kind="stable")]
    place = np.zeros(len(used), dtype=np.intp)
    place[union] = np.arange(len(union))
    coefs = []
    for model in models:
        dual = one_vs_one.as_array(model.dual_coef)
        own = np.zeros((len(union), len(dual)))
        own[place[model.support]] = dual.T
        coefs.append(own)
    width = coefs[0].shape[1]
    n_classes = first.shares.shape[1]
    edges = np.r_[0, np.cumsum(np.bincount(classes[union], minlength=n_classes))]
    vectors = rows if first.spec.kernel == "precomputed" else rows[union]

    def combine(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        each = [
            _values(model, sums[:, :, at * width : (at + 1) * width])
            for at, model in enumerate(models)
        ]
        return np.concatenate(each, axis=1)

    together = replace(first, support=union, vectors=vectors)
    values = expand(together, X, edges, np.ascontiguousarray(np.hstack(coefs)), combine, n_jobs)
    return [
        _evaluated(model, values[:, at * n_outputs : (at + 1) * n_outputs])
        for at, model in enumerate(models)
    ]


def _values(model: PairwiseModel | MachineModel, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(model, PairwiseModel):
        return one_vs_one.pair_values(sums, model.intercept)
    return sums[:, 0, :] + model.intercept[0]


def _evaluated(
    model: PairwiseModel | MachineModel, values: NDArray[np.float64]
) -> EvaluatedPairs | EvaluatedMachine:
    fields = {name: getattr(model, name) for name in model.__dataclass_fields__}
    if isinstance(model, PairwiseModel):
        return EvaluatedPairs(**fields, values=np.ascontiguousarray(values))
    return EvaluatedMachine(**fields, values=np.ascontiguousarray(values[:, 0]))
