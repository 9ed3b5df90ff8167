"""A trained model asked block by block, where the rows are.

Arrays give arrays, of the chunks of the rows; dataframes give series and dataframes, of their index
and divisions.
"""

from __future__ import annotations

import itertools
import uuid
from typing import Any, NamedTuple

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _check_feature_names

from aesvm.dask.partitions import Partition, one_block_of_columns
from aesvm.dask.rows import Features
from aesvm.estimators.prediction import model_of
from aesvm.estimators.validation import check_labels, valid_weights
from aesvm.machines.prediction import PairwiseModel


class BlockModel(NamedTuple):
    """A trained model, as it is sent to the blocks of rows that it is asked for."""

    model: PairwiseModel
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


def predicted(estimator: Any, X: Any) -> Any:
    """The class of each row, lazily."""
    return _asked(estimator, X, _Question("predict", estimator.classes_[:0], None))


def decision_values(estimator: Any, X: Any) -> Any:
    """The decision values of each row, lazily."""
    classes = estimator.classes_.tolist()
    columns: list | None = None
    if len(classes) > 2:
        pairs = itertools.combinations(classes, 2)
        by_class = estimator.decision_function_shape == "ovr"
        columns = classes if by_class else [f"{one} or {other}" for one, other in pairs]
    empty = np.empty((0,) if columns is None else (0, len(columns)))
    return _asked(estimator, X, _Question("decision_function", empty, columns))


def check_names(estimator: Any, X: Any) -> None:
    """Refuse a dataframe whose columns are not those of the fit."""
    if isinstance(X, dd.DataFrame):
        _check_feature_names(estimator, X._meta, reset=False)


def correct_weight(model: BlockModel, partition: Partition) -> tuple[float, float]:
    """The weight of the rows whose class is predicted right, and that of all."""
    X, y, weights = partition
    if not X.shape[0]:
        return 0.0, 0.0
    y = column_or_1d(y)
    check_labels(y, "y")
    right = model.model.predict(model.features.rows(X)) == y
    weights = valid_weights(weights, X, all_may_be_zero=True)
    return float(weights @ right), float(weights.sum())


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
