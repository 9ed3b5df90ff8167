"""Predictions and scores of rows on a cluster, computed block by block where the rows are.

Predictions are lazy. Arrays give arrays, of the chunks of the rows; dataframes give series and
dataframes, of their index and divisions. Scores are sums over partitions, added up here.
"""

from __future__ import annotations

import functools
import itertools
import operator
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from aesvm.dask.cluster import Partition, is_lazy, one_block_of_columns, partitions
from aesvm.dask.worker import NO_ROWS, Features
from aesvm.estimators.prediction import model_of, score
from aesvm.estimators.validation import check_labels, valid_values, valid_weights
from aesvm.kernels.gamma import Moments
from aesvm.machines.prediction import MachineModel, PairwiseModel


class BlockModel(NamedTuple):
    """A trained model, as it is sent to the blocks of rows that it is asked for."""

    model: PairwiseModel | MachineModel
    features: Features

    @classmethod
    def of(cls, estimator: Any) -> BlockModel:
        features = Features(estimator.n_features_in_, type(estimator).__name__)
        return cls(model_of(estimator), features)


class _Question(NamedTuple):
    """A method of the model, and what it gives."""

    method: str
    empty: NDArray  #: what it gives for no rows
    columns: list | None  #: names of its columns; None where it gives one value a row


def predict_lazily(estimator: Any, method: str, X: Any) -> Any:
    """What a method of the model gives for rows that Dask has: classes, or decision values."""
    if method == "predict":
        return _asked(estimator, X, _Question(method, estimator.classes_[:0], None))
    columns = _columns(estimator)
    empty = np.empty((0,) if columns is None else (0, len(columns)))
    return _asked(estimator, X, _Question(method, empty, columns))


def _columns(estimator: Any) -> list | None:
    """Names of the columns of decision values; None where there is one value a row."""
    classes = estimator.classes_.tolist() if hasattr(estimator, "classes_") else []
    if len(classes) <= 2:
        return None
    if estimator.decision_function_shape == "ovr":
        return classes
    return [f"{one} or {other}" for one, other in itertools.combinations(classes, 2)]


def check_names(estimator: Any, X: Any) -> None:
    """Refuse a dataframe whose columns are not those of the fit."""
    if isinstance(X, dd.DataFrame):
        _check_feature_names(estimator, X._meta, reset=False)


def _asked(estimator: Any, X: Any, question: _Question) -> Any:
    check_names(estimator, X)
    model = BlockModel.of(estimator)
    shown = dask.delayed(model, name=f"aesvm-model-{uuid.uuid4().hex}", traverse=False)
    if isinstance(X, dd.DataFrame):
        model.features.check(X.shape[1])
        meta = _with_index(question.empty, X._meta.index, question)
        return X.map_partitions(_of_frame, shown, question, meta=meta)
    X = one_block_of_columns(X)
    model.features.check(X.shape[1])
    width = question.empty.shape[1:]
    return X.map_blocks(
        _of_block,
        model=shown,
        question=question,
        dtype=question.empty.dtype,
        chunks=(X.chunks[0], *((columns,) for columns in width)),
        drop_axis=[] if width else 1,
        meta=question.empty,
    )


def _of_block(block: Any, model: BlockModel, question: _Question) -> NDArray:
    if not block.shape[0]:
        return question.empty
    return getattr(model.model, question.method)(model.features.rows(block))


def _of_frame(frame: pd.DataFrame, model: BlockModel, question: _Question) -> Any:
    return _with_index(_of_block(frame, model, question), frame.index, question)


def _with_index(values: NDArray, index: pd.Index, question: _Question) -> Any:
    if question.columns is None:
        return pd.Series(values, index=index)
    return pd.DataFrame(values, index=index, columns=question.columns)


def score_lazily(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """How well the model predicts: the accuracy of a classifier, R^2 of a regression.

    Parameters
    ----------
    X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)
    y : of the kind of X, shape (n_samples,)
    sample_weight : of the kind of X, shape (n_samples,), default=None

    Returns
    -------
    score : float
    """
    if not is_lazy(X):
        return score(self, X, y, sample_weight)
    return (_accuracy if is_classifier(self) else _r_squared)(self, X, y, sample_weight)


def _accuracy(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """The fraction of rows whose class is predicted right."""
    right, total = np.sum(_of_partitions(_right, estimator, X, y, sample_weight), axis=0)
    if not total:
        raise ValueError(NO_ROWS)
    return float(right / total)


def _r_squared(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """R^2, as ``sklearn.metrics.r2_score`` has it."""
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
