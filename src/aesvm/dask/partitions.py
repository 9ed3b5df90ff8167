"""Dask collections as partitions of rows, each with its classes and weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import dask.dataframe as dd
import numpy as np


class Partition(NamedTuple):
    """Some rows of X, and what belongs to them; delayed, or None."""

    X: Any
    y: Any
    weights: Any


def is_lazy(X: Any) -> bool:
    """Whether these are rows that Dask has."""
    return isinstance(X, da.Array | dd.DataFrame)


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Partition]:
    """The partitions of X, in order, with those of y and sample_weight."""
    if not is_lazy(X):
        raise ValueError(
            f"X is a {type(X).__name__}: pass a dask array or a dask dataframe, or give rows in "
            "memory to the estimator of the same name without Dask."
        )
    if isinstance(X, da.Array):
        X = one_block_of_columns(X)
    blocks = [_delayed(X)]
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        blocks.append(np.full(X.npartitions, None) if values is None else _aligned(X, values, name))
    return [Partition(*block) for block in zip(*blocks, strict=True)]


def one_block_of_columns(X: da.Array) -> da.Array:
    """The array, cut by rows alone."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions: pass rows of features, in two.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _aligned(X: Any, values: Any, name: str) -> np.ndarray:
    """The partitions of what belongs to the rows."""
    if not isinstance(values, da.Array | dd.Series | dd.DataFrame):
        raise ValueError(
            f"{name} is a {type(values).__name__}: pass a dask array or a dask series, in as many "
            "partitions as X; dask.array.from_array makes one of an array."
        )
    if isinstance(values, da.Array) and isinstance(X, da.Array):
        known = [not any(np.isnan(array.chunks[0])) for array in (X, values)]
        if all(known):
            if X.shape[0] != values.shape[0]:
                raise ValueError(
                    f"X has {X.shape[0]:,} rows, and {name} {values.shape[0]:,}: they must have as "
                    "many."
                )
            values = values.rechunk({0: X.chunks[0]})
    if values.npartitions != X.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions, and {name} {values.npartitions}, and their sizes "
            "are not known: cut them at the same rows."
        )
    return _delayed(values)


def _delayed(values: Any) -> np.ndarray:
    """The partitions of a collection.

    Dask may read several files as one partition where few columns are asked for, fewer than it says
    there are, and other partitions for y than for X: then they are read as they were cut.
    """
    blocks = np.ravel(values.to_delayed())
    if len(blocks) != values.npartitions:
        blocks = np.ravel(values.to_delayed(optimize_graph=False))
    return blocks
