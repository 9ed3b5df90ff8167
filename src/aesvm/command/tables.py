"""Rows written to data files, in the format that a name asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from aesvm.command.data import DataFile
from aesvm.command.formats import SUFFIXES
from aesvm.command.outcome import UsageError
from aesvm.command.writing import (
    dense_blocks,
    header_line,
    label_text,
    libsvm_lines,
    table_lines,
    written_to,
)
from aesvm.io.base import Chunk

#: The column of weights that is added to tables, and what LIBSVM's weights are in a file of.
WEIGHT, WEIGHTS_FILE = "weight", ".weights"


def write_rows(chunks: Iterable[Chunk], path: str | None, file: DataFile) -> tuple[int, list[str]]:
    """Write rows to a file; how many there were, and the files that were written.

    LIBSVM's text and tables between commas are written as rows come; Parquet from memory. Weights
    of LIBSVM's rows go to a file of their own.
    """
    kind = _kind(path, file)
    if kind == "parquet":
        return _write_parquet(list(chunks), str(path), file)
    counted = _Counted(chunks)
    with written_to(path) as target:
        if kind == "csv":
            for line in _csv(counted, file):
                target.write(line.encode())
        else:
            for X, y, _ in dense_blocks(counted):
                numbers = np.arange(1, X.shape[1] + 1)
                labels = ["0"] * len(X) if y is None else list(map(label_text, y.tolist()))
                target.write("".join(libsvm_lines(X, labels, numbers, ".17g")).encode())
    written = [] if path is None else [path]
    if kind == "libsvm" and counted.weights and path is not None:
        with written_to(f"{path}{WEIGHTS_FILE}") as target:
            for weights in counted.weights:
                target.write("".join(f"{one:.17g}\n" for one in weights.tolist()).encode())
        written.append(f"{path}{WEIGHTS_FILE}")
    return counted.n_rows, written


class _Counted:
    """Chunks that are counted as they are read, and whose weights are kept."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.chunks = chunks
        self.n_rows = 0
        self.weights: list[Any] = []

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self.chunks:
            self.n_rows += chunk[0].shape[0]
            if chunk[2] is not None:
                self.weights.append(chunk[2])
            yield chunk


def _kind(path: str | None, file: DataFile) -> str:
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix in SUFFIXES and SUFFIXES[suffix] != "npy":
        return SUFFIXES[suffix]
    if suffix == ".npy":
        raise UsageError(f"{path}: .csv, .parquet and LIBSVM's text can be written.")
    return "libsvm" if file.format.kind == "libsvm" else "csv"


def _csv(chunks: Iterable[Chunk], file: DataFile) -> Iterator[str]:
    first = True
    for X, y, weights in dense_blocks(chunks):
        if first:
            yield header_line(_header(file, X.shape[1], y is not None, weights is not None))
            first = False
        labels = [] if y is None else list(map(label_text, y.tolist()))
        numbers = [] if weights is None else list(map(label_text, weights.tolist()))
        yield "".join(table_lines(X, labels, numbers))


def _header(file: DataFile, n_features: int, targets: bool, weights: bool) -> list[str]:
    names = file.feature_names or [f"x{at}" for at in range(1, n_features + 1)]
    return [*names, *([file.target or "target"] if targets else []), *([WEIGHT] if weights else [])]


def _write_parquet(chunks: list[Chunk], path: str, file: DataFile) -> tuple[int, list[str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    blocks = list(dense_blocks(chunks))
    X = np.concatenate([one.X for one in blocks])
    columns = list(X.T)
    for at in (1, 2):
        if blocks[0][at] is not None:
            columns.append(np.concatenate([one[at] for one in blocks]))
    names = _header(file, X.shape[1], blocks[0].y is not None, blocks[0].weights is not None)
    with written_to(path) as target:
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), target)
    return len(X), [path]
