"""Chunks of rows that are changed, checked or joined on their way from a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from aesvm.command.outcome import CommandError
from aesvm.io import BadLineError, Chunk


class Mapped:
    """The chunks of a reader, each changed by a function of it and the number of its first row."""

    def __init__(self, reader: Any, function: Callable[[Chunk, int], Chunk]) -> None:
        self.reader = reader
        self.function = function

    @property
    def n_bytes(self) -> int:
        return self.reader.n_bytes

    def __iter__(self) -> Iterator[Chunk]:
        return _MappedChunks(self)

    def check_number(self, n_rows: int) -> None:
        """Called with the number of rows once all were read."""


class _MappedChunks(Iterator[Chunk]):
    """One pass over them; ``position`` is the reader's, by which progress is told."""

    def __init__(self, mapped: Mapped) -> None:
        self.mapped = mapped
        self.chunks = iter(mapped.reader)
        self.n_rows = 0

    @property
    def position(self) -> int:
        return getattr(self.chunks, "position", 0)

    def __next__(self) -> Chunk:
        try:
            chunk = next(self.chunks)
        except StopIteration:
            self.mapped.check_number(self.n_rows)
            raise
        first, self.n_rows = self.n_rows, self.n_rows + chunk.X.shape[0]
        return self.mapped.function(chunk, first)

    def close(self) -> None:
        """Close the files of a pass that is given up."""
        if hasattr(self.chunks, "close"):
            self.chunks.close()


class Weighted(Mapped):
    """The chunks of a reader with weights from a file, which has one a line."""

    def __init__(self, reader: Any, path: str) -> None:
        super().__init__(reader, self._weighted)
        self.path = path
        weights: list[float] = []
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                try:
                    weights.append(float(line))
                except ValueError as error:
                    reason = f"{line.strip()[:40]!r} is no number"
                    raise BadLineError(path, number, reason) from error
        self.weights = np.array(weights)

    def check_number(self, n_rows: int) -> None:
        if n_rows < len(self.weights):
            raise CommandError(
                f"{self.path}: there are {len(self.weights)} weights, and {n_rows} rows."
            )

    def _weighted(self, chunk: Chunk, first: int) -> Chunk:
        here = self.weights[first : first + chunk.X.shape[0]]
        if len(here) != chunk.X.shape[0]:
            raise CommandError(
                f"{self.path}: there are {len(self.weights)} weights, and more rows."
            )
        return Chunk(chunk.X, chunk.y, here)


def checked_values(about: str, names: list[str] | None, chunk: Chunk, first: int) -> Chunk:
    """Refuse values that no SVM can learn from, with their place."""
    if chunk.weights is not None and (chunk.weights < 0).any():
        raise CommandError(f"{about}: a weight is negative.")
    if sp.issparse(chunk.X):  # text has no other values
        return chunk
    wrong = ~np.isfinite(chunk.X)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        where = f"column {names[column] if names else str(column)!r}"
        raise CommandError(
            f"{about}: row {first + row + 1}, {where}: {chunk.X[row, column]} is not a finite "
            "number: remove such rows, or fill them in."
        )
    return chunk


def joined(parts: Iterable[Any]) -> Any:
    """Chunks of one column, one after the other; None where there are none."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
