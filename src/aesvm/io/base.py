"""What every reader is: a re-iterable of chunks of rows, with its progress in bytes.

Data too large for memory is read a few rows at a time, and more than once. A reader holds names and
options and no open file; each iterator over it opens the files anew, and has its own position. Code
that trains on chunks relies on nothing but that they can be iterated over again.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.runtime.scikit_learn import safe_indexing
from aesvm.runtime.warn import warn

#: The largest number of rows that compiled code can count: more means all.
_MOST_ROWS = 2**60

#: Rows of a chunk, by default.
CHUNK_ROWS = 65_536

#: What readers of text do about a malformed line.
ON_BAD = ("raise", "skip")


class Chunk(NamedTuple):
    """Consecutive rows: an array or a CSR array, their classes, and their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.io import Chunk
    >>> chunk = Chunk(np.zeros((3, 2)), np.array([0, 1, 1]), None)
    >>> chunk.X.shape, chunk.weights is None
    ((3, 2), True)
    """

    X: Any
    y: NDArray | None
    weights: NDArray | None

    def rows(self, which: Any) -> Chunk:
        """Some of the rows, by a slice or by their numbers."""
        return Chunk(*(None if part is None else safe_indexing(part, which) for part in self))


class BadLineError(ValueError):
    """A line of a file that cannot be read as a row.

    Attributes
    ----------
    path : str
        The file.
    line : int
        The line's number; the first is 1.
    reason : str
        What is wrong with it.

    Examples
    --------
    >>> from aesvm.io import BadLineError
    >>> error = BadLineError("rows.csv", 7, "3 values where there are 4 columns")
    >>> error.line, str(error)
    (7, 'rows.csv, line 7: 3 values where there are 4 columns.')
    """

    def __init__(self, path: str | os.PathLike, line: int, reason: str) -> None:
        super().__init__(f"{os.fspath(path)}, line {line}: {reason}.")
        self.path = os.fspath(path)
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple:
        return type(self), (self.path, self.line, self.reason)


class BadRow(Exception):  # noqa: N818 (a reason, which becomes a BadLineError)
    """Why a line is no row; the caller knows the line's number."""


class BadHeader(BadRow):
    """Why a line does not name columns: it cannot be skipped."""


@dataclass
class ReadProgress:
    """How far an iterator has come."""

    position: int = 0
    n_skipped: int = 0


class ChunkIterator(Iterator[Chunk]):
    """One pass over a reader's files.

    Attributes
    ----------
    position : int
        Bytes of the files read so far, which may be a block ahead of the rows handed out.
    n_skipped : int
        Malformed lines skipped so far.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from aesvm.io import NpyReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npy")
    ...     np.save(path, np.zeros((10, 2)))
    ...     chunks = iter(NpyReader(path, chunk_rows=4))
    ...     print([len(chunk.X) for chunk in chunks], chunks.n_skipped)
    [4, 4, 2] 0
    """

    def __init__(self, chunks: Generator[Chunk, None, None], progress: ReadProgress) -> None:
        self._chunks = chunks
        self._progress = progress

    @property
    def position(self) -> int:
        return self._progress.position

    @property
    def n_skipped(self) -> int:
        return self._progress.n_skipped

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def close(self) -> None:
        """Close the files of a pass that is given up."""
        self._chunks.close()


class ChunkReader(ABC):
    r"""A re-iterable of chunks from files; a format says how in ``_chunks``.

    Attributes
    ----------
    n_bytes : int
        Size of the files on disk.
    position : int
        Bytes of them, compressed as they are, that the iterator begun last has read; of NumPy's
        files and Parquet in proportion to the rows. Every iterator has its own ``position`` and
        ``n_skipped``.
    n_skipped : int
        Malformed lines that it has skipped; 0 for files that are no text.

    Examples
    --------
    Whatever the format, a reader can be iterated over again:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.io import ChunkReader, CSVReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("a,b,label\n1,2,0\n3,4,1\n")
    ...     reader = CSVReader(path, target="label")
    ...     print([len(chunk.X) for chunk in reader], [len(chunk.X) for chunk in reader])
    [2] [2]
    >>> isinstance(reader, ChunkReader)
    True
    """

    def __init__(self, paths: list[Path], chunk_rows: int) -> None:
        if not is_whole(chunk_rows) or chunk_rows < 1:
            raise ValueError(f"chunk_rows={chunk_rows!r}: an integer of at least 1 is needed.")
        for path in paths:
            _check_file(path)
        self.paths = paths
        self.chunk_rows = min(int(chunk_rows), _MOST_ROWS)
        self._latest = ReadProgress()

    @property
    def n_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    @property
    def position(self) -> int:
        return self._latest.position

    @property
    def n_skipped(self) -> int:
        return self._latest.n_skipped

    def __iter__(self) -> ChunkIterator:
        self._latest = progress = ReadProgress()
        return ChunkIterator(self._some_chunks(progress), progress)

    def _some_chunks(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        empty = True
        for chunk in self._chunks(progress):
            empty = False
            yield chunk
        if empty:
            why = f": all of its {progress.n_skipped} lines were malformed"
            raise ValueError(
                f"{self.paths[0]}: there are no rows in the file{why * bool(progress.n_skipped)}."
            )

    def __repr__(self) -> str:
        names = ", ".join(repr(str(path)) for path in self.paths[:3])
        more = ", ..." if len(self.paths) > 3 else ""
        return f"{type(self).__name__}({names}{more})"

    @abstractmethod
    def _chunks(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        """Open the files, and yield their rows while keeping ``progress``."""


def is_whole(number: Any) -> bool:
    """Whether it is an integer, of Python or NumPy."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}: True or False is needed.")


def finite_float(text: str, what: str) -> float:
    """A number as Python reads it; infinite ones, NaN and underscores are refused."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        value = float(text)
    except ValueError:
        raise BadRow(f"{what} {shown!r} is not a number") from None
    if not math.isfinite(value):
        raise BadRow(f"{what} {shown!r} is not a finite number")
    return value


def _check_file(path: Path) -> None:
    """Refuse what cannot be read, or not more than once."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: the name of a file is needed.")
    if not path.is_file():
        raise ValueError(
            f"{path}: this is a pipe or a device, and not a file that can be read again: write "
            "what comes from it to a file, or make chunks (X, y, weights) of it yourself."
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty.")


def rechunked(parts: Iterable[Chunk], chunk_rows: int) -> Generator[Chunk, None, None]:
    """The rows of parts of any size in chunks of ``chunk_rows``; the last may have fewer."""
    held: list[Chunk] = []
    n_held = 0
    for part in parts:
        rest = part
        while n_held + rest.X.shape[0] >= chunk_rows:
            n_missing = chunk_rows - n_held
            yield joined([*held, rest.rows(slice(n_missing))])
            held, n_held = [], 0
            rest = rest.rows(slice(n_missing, None))
        if rest.X.shape[0]:
            held.append(rest)
            n_held += rest.X.shape[0]
    if held:
        yield joined(held)


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


def needs_pyarrow(reader: str) -> None:
    """Say what to install where pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{reader} needs pyarrow, which is not installed: pip install "aesvm[io]"'
        ) from error


class TextReader(ChunkReader):
    """A reader of a text file; a format says in ``_rows`` what a line is."""

    def __init__(self, path: str | os.PathLike, chunk_rows: int, on_bad: str) -> None:
        if not isinstance(on_bad, str) or on_bad not in ON_BAD:
            raise ValueError(f"on_bad={on_bad!r}: one of {', '.join(ON_BAD)} is needed.")
        super().__init__([Path(path)], chunk_rows)
        self.path = self.paths[0]
        self.on_bad = on_bad

    @abstractmethod
    def _rows(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        """Yield the file's rows in chunks."""

    def _chunks(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        yield from self._rows(progress)
        if progress.n_skipped:
            lines = "line was" if progress.n_skipped == 1 else "lines were"
            warn(f"{self.path}: {progress.n_skipped} malformed {lines} skipped.")

    def _one_by_one(
        self,
        line: int,
        records: Iterable[bytes],
        read: Callable[[bytes], list],
        chunk_of: Callable[[list], Chunk],
        progress: ReadProgress,
    ) -> Generator[Chunk, None, None]:
        """Rows that are read record by record, from a line on; malformed ones are skipped."""
        rows: list = []
        for record in records:
            n_lines = record.count(b"\n")
            try:
                rows += read(record)
            except BadRow as reason:
                if rows:  # those before it come first
                    yield chunk_of(rows)
                    rows = []
                if self.on_bad == "raise" or isinstance(reason, BadHeader):
                    raise BadLineError(self.path, line, str(reason)) from None
                progress.n_skipped += n_lines
            line += n_lines
        if rows:
            yield chunk_of(rows)
