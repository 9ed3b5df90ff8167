"""Rows from lines of text: ordinary lines in compiled code, all others in Python.

A format gives a ``Table``, which holds the rows of the chunk being read. Its compiled
``parse`` goes through a block of lines and stops where the chunk is full, where it needs room,
and before any line that is not as such lines usually are. That line is then read by ``add``,
slowly and in Python, which either makes a row of it or says what is wrong with it. So there is
one place where errors are found, and the fast path may refuse whatever it likes.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aesvm.io import lines
from aesvm.io.base import (
    BadHeader,
    BadLineError,
    BadRow,
    Chunk,
    ChunkReader,
    Progress,
    no_rows,
)
from aesvm.runtime.warn import warn

#: Why ``parse`` stopped.
END, FULL, GROW, UNUSUAL = range(4)

#: Where ``Table.state`` holds what: the next byte of the block, rows and entries of the chunk,
#: and lines of the file that are done with.
POSITION, ROWS, ENTRIES, LINES = range(4)

#: Rows that a table has room for to begin with.
FIRST_ROWS = 4096


class Table(ABC):
    """The rows of the chunk being read, in arrays that grow and are used again."""

    def __init__(self) -> None:
        self.state = np.zeros(4, dtype=np.int64)

    @abstractmethod
    def parse(self, block: bytes, codes: NDArray[np.uint8]) -> int:
        """Read lines of a block (as bytes, and as an array) from where it was left."""

    def end_of_row(self, block: bytes, begin: int) -> int:
        """Where the row that begins at a byte ends; -1 where it goes on after the block."""
        return block.index(b"\n", begin) + 1

    @abstractmethod
    def add(self, line: bytes) -> None:
        """Read any one row, its line end included, or raise BadRow with what is wrong with it."""

    @abstractmethod
    def grow(self) -> None:
        """Make room, as ``parse`` needs it."""

    @abstractmethod
    def take(self) -> Chunk:
        """Hand the rows over, in arrays of their own, and begin anew."""


class TextReader(ChunkReader):
    """A reader of a file of lines; a format says in ``_table`` what a line is."""

    _on_bad: ClassVar[tuple[str, ...]] = ("raise", "skip")

    def __init__(self, path: str | os.PathLike, chunk_rows: int, on_bad: str) -> None:
        if not isinstance(on_bad, str) or on_bad not in self._on_bad:
            raise ValueError(f"on_bad={on_bad!r}: one of {', '.join(self._on_bad)} is needed.")
        super().__init__([Path(path)], chunk_rows)
        self.path = self.paths[0]
        self.on_bad = on_bad

    @abstractmethod
    def _table(self) -> Any:
        """An empty table for one pass."""

    def _chunks(self, progress: Progress) -> Generator[Chunk, None, None]:
        yield from self._rows(self._table(), progress)
        if progress.n_skipped:
            lines = "line was" if progress.n_skipped == 1 else "lines were"
            warn(f"{self.path}: {progress.n_skipped} malformed {lines} skipped.")

    def _rows(self, table: Table, progress: Progress) -> Generator[Chunk, None, None]:
        state = table.state
        empty = True
        rest = b""  # of a block: a row that has not ended
        for whole_lines in self._blocks(table, progress):
            block = rest + whole_lines
            codes = np.frombuffer(block, dtype=np.uint8)
            state[POSITION] = 0
            while True:
                if state[ROWS] == self.chunk_rows:
                    yield table.take()
                    empty = False
                stopped = table.parse(block, codes)
                if stopped == GROW:
                    table.grow()
                elif stopped == END or (
                    stopped == UNUSUAL and not self._read_slowly(table, block, progress)
                ):
                    break
            rest = block[int(state[POSITION]) :]
            if len(rest) > lines.LONGEST_LINE:
                raise self._unclosed(table)
        if rest:
            raise self._unclosed(table)
        if state[ROWS]:
            yield table.take()
        elif empty:
            raise no_rows(self.path, progress.n_skipped)

    def _blocks(self, table: Table, progress: Progress) -> Generator[bytes, None, None]:
        try:
            yield from lines.line_blocks(self.path, progress)
        except BadRow as reason:  # no line end in sight: there is nothing to skip to
            raise self._bad_line(table, str(reason)) from None

    def _bad_line(self, table: Table, reason: str) -> BadLineError:
        return BadLineError(self.path, int(table.state[LINES]) + 1, reason)

    def _unclosed(self, table: Table) -> BadLineError:
        """The error of a row that takes all that follows with it: that is not skipped."""
        return self._bad_line(table, "a quote is opened in it, and not closed in what follows")

    def _read_slowly(self, table: Table, block: bytes, progress: Progress) -> bool:
        """Read one row in Python, or skip it; False where it goes on after the block."""
        state = table.state
        begin = int(state[POSITION])
        end = table.end_of_row(block, begin)
        if end < 0:
            return False
        n_lines = block.count(b"\n", begin, end)
        try:
            table.add(block[begin:end])
        except BadRow as reason:
            if self.on_bad == "raise" or isinstance(reason, BadHeader):
                raise self._bad_line(table, str(reason)) from None
            progress.n_skipped += n_lines
        state[POSITION] = end
        state[LINES] += n_lines
        return True


def enlarged(array: NDArray, rows: int) -> NDArray:
    """The array with room for more rows, those that are there kept."""
    larger = np.empty((rows, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
