"""Chunks of rows that are changed, checked or joined on their way from a reader."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from aesvm.command.outcome import CommandError
from aesvm.io import BadLineError, Chunk, ChunkIterator

#: Chunks made of chunks.
Change = Callable[[Iterator[Chunk]], Generator[Chunk, None, None]]


class Changed:
    """The chunks of a reader, changed in each pass by a generator; progress is the reader's."""

    def __init__(self, reader: Any, change: Change) -> None:
        self.reader = reader
        self.change = change

    @property
    def n_bytes(self) -> int:
        return self.reader.n_bytes

    def __iter__(self) -> ChunkIterator:
        chunks = iter(self.reader)
        return ChunkIterator(self.change(chunks), chunks)


def weights_of(path: str) -> Change:
    """The change that adds weights from a file, which has one a line."""
    values = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                values.append(float(line))
            except ValueError as error:
                reason = f"{line.strip()[:40]!r} is no number"
                raise BadLineError(path, number, reason) from error

    weights = np.array(values)

    def weighted(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
        n_rows = 0
        for X, y, _ in chunks:
            here = weights[n_rows : n_rows + X.shape[0]]
            if len(here) < X.shape[0]:
                raise CommandError(f"{path}: there are {len(weights)} weights, and more rows.")
            n_rows += X.shape[0]
            yield Chunk(X, y, here)
        if n_rows < len(weights):
            raise CommandError(f"{path}: there are {len(weights)} weights, and {n_rows} rows.")

    return weighted


def checked(about: str, names: list[str] | None) -> Change:
    """The change that refuses values no SVM can learn from, with their place."""

    def values(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
        n_rows = 0
        for chunk in chunks:
            if chunk.weights is not None and (chunk.weights < 0).any():
                raise CommandError(f"{about}: a weight is negative.")
            if not sp.issparse(chunk.X) and not np.isfinite(chunk.X).all():  # text has no others
                row, column = np.argwhere(~np.isfinite(chunk.X))[0]
                where = f"column {names[column] if names else str(column)!r}"
                raise CommandError(
                    f"{about}: row {n_rows + row + 1}, {where}: {chunk.X[row, column]} is not a "
                    "finite number: remove such rows, or fill them in."
                )
            n_rows += chunk.X.shape[0]
            yield chunk

    return values


def joined(chunks: Iterable[Chunk]) -> Chunk:
    """Chunks one after the other."""
    return Chunk(*map(_joined, zip(*chunks, strict=True)))


def _joined(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
