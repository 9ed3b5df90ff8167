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
from sklearn.utils.validation import _check_feature_names

from aesvm.dask.partitions import one_block_of_columns
from aesvm.dask.worker import Features
from aesvm.estimators.prediction import model_of
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


def ask_lazily(estimator: Any, method: str, X: Any) -> Any:
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
