"""Rows written to data files, in the format that a name asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from aesvm.command.data import TARGET, DataFile
from aesvm.command.formats import COMPRESSED, MODEL_SUFFIXES, SUFFIXES, suffix_of
from aesvm.command.labels import is_numeric, label_text
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.writing import (
    dense_blocks,
    header_line,
    libsvm_row_lines,
    table_row_lines,
    written_to,
)
from aesvm.io.base import Chunk
from aesvm.runtime.warn import warn

#: The column of weights that is added to tables, and what the name of a file of LIBSVM's weights
#: adds to that of its rows.
WEIGHT, WEIGHTS_FILE = "weight", ".weights"


def outputs_of(output: str | None, weighted: bool) -> list[str | None]:
    """The files that rows may be written to."""
    return [output, f"{output}{WEIGHTS_FILE}"] if output is not None and weighted else [output]


def write_rows(
    chunks: Iterable[Chunk],
    path: str | None,
    file: DataFile,
    features: NDArray[np.intp] | None = None,
    libsvm_digits: str = ".17g",
) -> tuple[int, list[str]]:
    """Write rows as they come; how many there were, and the files that were written.

    Weights of LIBSVM's rows go to a file of their own. ``features``: of the data file, those that
    the chunks have; None: all.
    """
    kind = output_format(path, file)
    counted, unlabelled = _Counted(chunks), False
    with written_to(path) as file_out:
        if kind == "parquet":
            _write_parquet(counted, file_out, file, features)
        elif kind == "csv":
            for line in _csv(counted, file, features):
                file_out.write(line.encode())
        else:
            numbers = None if features is None else features + 1
            for X, y, _ in counted:
                if y is None and not unlabelled:
                    unlabelled = True
                    warn("there is no --target: every label is 0, and all columns are features.")
                labels = ["0"] * X.shape[0] if y is None else _numbers(y, file)
                for line in libsvm_row_lines(X, labels, numbers, libsvm_digits):
                    file_out.write(line.encode())
            file_out.flush()  # a full disk is noticed before weights are written
            if counted.weights and path is not None:
                _write_weights(counted.weights, f"{path}{WEIGHTS_FILE}")
    weighted = kind == "libsvm" and bool(counted.weights)
    return counted.n_rows, [one for one in outputs_of(path, weighted) if one is not None]


def _write_weights(parts: Iterable[NDArray], path: str) -> None:
    with written_to(path) as file_out:
        for weights in parts:
            file_out.write("".join(f"{one:.17g}\n" for one in weights.tolist()).encode())


def _numbers(y: NDArray, file: DataFile) -> list[str]:
    """Targets of LIBSVM's text."""
    if not is_numeric(y):
        raise CommandError(
            f"{file.name}: the target is {y[0]!s:.40}, and LIBSVM's text has numbers: .csv and "
            ".parquet can have text."
        )
    return list(map(label_text, y.tolist()))


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


def output_format(path: str | None, file: DataFile, weighted: bool = False) -> str:
    """The format that the name of an output asks for, or else that goes with the data file."""
    suffix = "" if path is None else suffix_of(path)
    if suffix in (".npy", *COMPRESSED, *MODEL_SUFFIXES):
        raise UsageError(
            f"{path}: rows are written as .csv, .parquet or LIBSVM's text (.svm), not {suffix}."
        )
    found = SUFFIXES.get(suffix, "libsvm" if file.format.kind == "libsvm" else "csv")
    if weighted and path is None and found == "libsvm":
        raise UsageError(
            "weights of LIBSVM's rows are written to a file beside them, and not to standard "
            "output: the name of a file is needed."
        )
    return found


def _csv(
    chunks: Iterable[Chunk], file: DataFile, features: NDArray[np.intp] | None
) -> Iterator[str]:
    first = True
    for block in dense_blocks(chunks):
        X, y, weights = block
        if first and (file.feature_names or file.format.kind != "csv" or weights is not None):
            yield header_line(_header(file, features, block))
        first = False
        labels = [] if y is None else list(map(label_text, y.tolist()))
        numbers = [] if weights is None else list(map(label_text, weights.tolist()))
        yield "".join(table_row_lines(X, labels, numbers))


def _header(file: DataFile, features: NDArray[np.intp] | None, block: Chunk) -> list[str]:
    """Names of columns, as a data file has them or else numbered, and those that are free."""
    known = file.feature_names
    features = np.arange(file.n_features) if features is None else features
    names = [known[at] if known else f"x{at + 1}" for at in features.tolist()]
    if block.y is not None:
        names.append(file.target or _free(TARGET, names))
    if block.weights is not None:
        names.append(file.weight or _free(WEIGHT, names))
    return names


def _free(name: str, names: list[str]) -> str:
    while name in names:
        name += "_"
    return name


def _write_parquet(
    chunks: Iterable[Chunk],
    file_out: IO[bytes],
    file: DataFile,
    features: NDArray[np.intp] | None,
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as stack:
        writer = None
        for block in dense_blocks(chunks):
            columns = [*block.X.T, *(one for one in block[1:] if one is not None)]
            table = pa.table(columns, names=_header(file, features, block))
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(file_out, table.schema))
            writer.write_table(table)
