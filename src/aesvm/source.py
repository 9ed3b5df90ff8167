"""Sources of rows: iterables of chunks (X, y, sample_weight), read with progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.base import Progress
from aesvm.distinct import fingerprint

#: Steps of progress while a source is read.
_PARTS = 100


def readable_again(source: Iterable) -> bool:
    """Whether iterating over it does not use it up."""
    return not isinstance(source, Iterator)


def digest(X: Any, y: NDArray, weights: NDArray[np.float64]) -> int:
    """A number that another chunk hardly ever has."""
    classes, codes = np.unique(y, return_inverse=True)
    names = crc32(repr((classes.tolist(), X.shape, sp.issparse(X))).encode())
    return fingerprint(X, codes + names, weights, map)


def check_source(source: Any) -> None:
    if isinstance(source, str | PathLike):
        raise ValueError(
            f"source={str(source)!r} is a name: pass a reader of the file, from aesvm.io."
        )
    if not isinstance(source, Iterable):
        raise ValueError(
            f"source={source!r} is no iterable: pass a reader from aesvm.io, or an iterable of "
            "(X, y, sample_weight)."
        )


def read(source: Iterable, name: str, progress: Progress) -> Iterator[tuple[Any, Any, Any]]:
    """The chunks of a source; progress is by bytes where the source knows them."""
    chunks = iter(source)
    n_bytes = getattr(source, "n_bytes", 0)
    told = 0
    with progress.task(name, _PARTS if n_bytes else None) as task:
        for chunk in chunks:
            if not isinstance(chunk, tuple | list) or len(chunk) != 3:
                raise ValueError(
                    f"source gave {type(chunk).__name__} for a chunk: it must give triples "
                    "(X, y, sample_weight), of which the last two may be None."
                )
            yield chunk[0], chunk[1], chunk[2]
            position = getattr(chunks, "position", 0)
            done = int(_PARTS * position / n_bytes) if n_bytes else told + 1
            for _ in range(told, done):
                task.step("bytes" if n_bytes else "chunk")
            told = max(told, done)
