"""Valid rows, of a stream or of a partition, with what is to be learned of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.estimators.validation import valid_classes, valid_values, valid_weights
from aesvm.out_of_core.source import Chunk

#: Makes a chunk of valid rows, y and weights as they came, and the name of the estimator. A
#: function, which is sent to workers as its name.
ChunkOf = Callable[[Any, Any, Any, str], Chunk]


def with_classes(rows: Any, y: Any, sample_weight: Any, name: str) -> Chunk:
    """Rows that must have classes."""
    classes = valid_classes(y, rows, name)
    return Chunk(rows, classes, _weights(rows, sample_weight), groups=classes)


def with_or_without_classes(rows: Any, y: Any, sample_weight: Any, name: str) -> Chunk:
    """Rows that may have classes; without, all are of class zero."""
    classes = _one_group(rows) if y is None else valid_classes(y, rows, name)
    return Chunk(rows, classes, _weights(rows, sample_weight), groups=classes)


def with_values(rows: Any, y: Any, sample_weight: Any, name: str) -> Chunk:
    """Rows that must have numbers, and stand for each other together with them."""
    values, weights = valid_values(y, rows, name), _weights(rows, sample_weight)
    return Chunk(rows, values, weights, _one_group(rows), joint=True)


def without_targets(rows: Any, y: Any, sample_weight: Any, name: str) -> Chunk:
    """Rows alone; y is ignored."""
    return Chunk(rows, np.ones(rows.shape[0]), _weights(rows, sample_weight), _one_group(rows))


def _weights(rows: Any, sample_weight: Any) -> NDArray[np.float64]:
    return valid_weights(sample_weight, rows, all_may_be_zero=True)


def _one_group(rows: Any) -> NDArray[np.int8]:
    return np.zeros(rows.shape[0], dtype=np.int8)
