"""How well a model predicts rows on a cluster: sums over partitions, added up here."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import dask
import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from aesvm.dask.partitions import Partition, partitions
from aesvm.dask.prediction import BlockModel, check_names
from aesvm.dask.worker import NO_ROWS
from aesvm.estimators.validation import check_labels, valid_values, valid_weights
from aesvm.kernels.moments import Moments
from aesvm.machines.prediction import PairwiseModel


def accuracy(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """The share of rows whose class is predicted right."""
    right, total = np.sum(_of_partitions(_right, estimator, X, y, sample_weight), axis=0)
    if not total:
        raise ValueError(NO_ROWS)
    return float(right / total)


def r_squared(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """The share of the variance of y that is predicted, as ``sklearn.metrics.r2_score`` has it."""
    found = _of_partitions(_errors, estimator, X, y, sample_weight)
    errors, targets = functools.reduce(operator.or_, found)
    if not targets.weight:
        raise ValueError(NO_ROWS)
    if not targets.squares:
        return 0.0 if errors else 1.0
    return 1.0 - errors / targets.squares


class _Errors(NamedTuple):
    """Summed squared errors of predictions, and moments of what was to be predicted."""

    squares: float = 0.0
    targets: Moments = Moments()

    def __or__(self, other: Self) -> _Errors:
        return _Errors(self.squares + other.squares, self.targets | other.targets)


def _of_partitions(
    work: Callable, estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[Any, ...]:
    check_is_fitted(estimator)
    check_names(estimator, X)
    model = dask.delayed(BlockModel.of(estimator), traverse=False)
    found = [dask.delayed(work)(model, own) for own in partitions(X, y, sample_weight)]
    return dask.compute(*found, scheduler=estimator.client)


def _right(model: BlockModel, partition: Partition) -> tuple[float, float]:
    """The weight of the rows whose class is predicted right, and that of all."""
    X, y, weights = partition
    if not X.shape[0]:
        return 0.0, 0.0
    y = column_or_1d(y)
    check_labels(y, "y")
    assert isinstance(model.model, PairwiseModel)
    right = model.model.predict(model.features.rows(X)) == y
    weights = valid_weights(weights, X, all_may_be_zero=True)
    return float(weights @ right), float(weights.sum())


def _errors(model: BlockModel, partition: Partition) -> _Errors:
    X, y, weights = partition
    if not X.shape[0]:
        return _Errors()
    y = valid_values(y, X, model.features.estimator)
    weights = valid_weights(weights, X, all_may_be_zero=True)
    apart = model.model.decision_function(model.features.rows(X)) - y
    return _Errors(float(weights @ np.square(apart)), Moments.of(y, weights))
