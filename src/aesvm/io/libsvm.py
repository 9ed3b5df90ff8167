"""LIBSVM's text format (svmlight): a class, then the features that are not zero.

<class> [qid:<number>] <index>:<value> <index>:<value> ... [# comment]
"""

from __future__ import annotations

import os
from collections.abc import Generator

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from aesvm.io.base import (
    CHUNK_ROWS,
    BadLineError,
    BadRow,
    Chunk,
    Progress,
    TextReader,
    check_flag,
    is_whole,
)
from aesvm.io.columns import TOO_LARGE, TOO_LARGE_BITS, too_large
from aesvm.io.decimals import POWERS_OF_FIVE, finite_float, number
from aesvm.io.files import line_blocks
from aesvm.runtime.jit import jit

_NEWLINE, _COLON, _HASH, _SPACE, _ZERO, _NINE, _Q, _I, _D = b"\n:# 09qid"
_TAB, _RETURN = b"\t\r"

#: Why ``_parse`` stopped: the block's end, a full chunk, arrays to enlarge, a line for Python.
END, FULL, GROW, UNUSUAL = range(4)

#: Where ``_Rows.state`` holds what: the next byte of the block, rows and entries of the chunk,
#: and lines of the file that are done with.
POSITION, ROWS, ENTRIES, LINES = range(4)

#: Rows that arrays have room for to begin with.
_FIRST_ROWS = 4096

#: Indices of more digits than this are not read by compiled code.
_MOST_DIGITS = 18


class LibsvmReader(TextReader):
    r"""Chunks of a file in LIBSVM's (svmlight's) text format, as CSR arrays.

    The file may be plain or compressed by gzip, bzip2 or xz, whatever its name; it is read a
    block at a time. Comments and ``qid`` are ignored, as are blank lines. Values agree with
    Python's ``float`` to the bit; infinite ones and NaN are refused, zeros are not stored.
    Classes must be below 2^53: above, doubles do not tell all integers apart.

    Parameters
    ----------
    path : str or path
        The file.
    n_features : int or None
        Columns of the chunks; an index beyond is an error. With None the file is read once
        more, before the first chunk, to find its largest index: that costs as much as
        iterating over it.
    chunk_rows : int, default=65_536
        Rows of a chunk; the last may have fewer.
    zero_based : bool, default=False
        Whether the first feature has index 0, and not 1.
    on_bad : {"raise", "skip"}, default="raise"
        What is done about a malformed line: raise ``BadLineError``, or skip and count it, and
        warn at the end of the file.

    Attributes
    ----------
    n_features : int
        Columns of the chunks. Where they were not given, asking for them reads the file.
    n_bytes : int
        Size of the file.
    position : int
        Bytes of the file, compressed as it is, that the iterator begun last has read. Every
        iterator has its own ``position`` and ``n_skipped``.
    n_skipped : int
        Malformed lines that it has skipped.

    Raises
    ------
    BadLineError
        While iterating: a malformed line, with its number and what is wrong with it.
    EOFError
        While iterating: a compressed file that is cut short.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.io import LibsvmReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.libsvm")
    ...     _ = path.write_text("+1 1:0.5 3:2 # a comment\n-1 2:1e-3\n+1 3:4\n")
    ...     for X, y, _ in LibsvmReader(path, n_features=3, chunk_rows=2):
    ...         print(y, X.toarray().tolist())
    [ 1. -1.] [[0.5, 0.0, 2.0], [0.0, 0.001, 0.0]]
    [1.] [[0.0, 0.0, 4.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        n_features: int | None,
        chunk_rows: int = CHUNK_ROWS,
        zero_based: bool = False,
        on_bad: str = "raise",
    ) -> None:
        if n_features is not None and not (is_whole(n_features) and 1 <= n_features < 2**62):
            raise ValueError(
                f"n_features={n_features!r}: an integer of at least 1, or None, is needed."
            )
        check_flag("zero_based", zero_based)
        super().__init__(path, chunk_rows, on_bad)
        self.zero_based = zero_based
        self._n_features = n_features

    @property
    def n_features(self) -> int:
        if self._n_features is None:
            widths = [chunk.X.shape[1] for chunk in self._rows_of_width(None, Progress())]
            self._n_features = max([1, *widths])  # rows may all be empty
        return self._n_features

    def _rows(self, progress: Progress) -> Generator[Chunk, None, None]:
        return self._rows_of_width(self.n_features, progress)

    def _rows_of_width(
        self, n_features: int | None, progress: Progress
    ) -> Generator[Chunk, None, None]:
        rows = _Rows(self.chunk_rows, n_features, self.zero_based)
        state = rows.state
        try:
            for block in line_blocks(self.path, progress):
                codes = np.frombuffer(block, dtype=np.uint8)
                state[POSITION] = 0
                while (stopped := rows.parse(codes)) != END:
                    if stopped == FULL:
                        yield rows.take()
                    elif stopped == GROW:
                        rows.grow()
                    else:
                        self._read_in_python(rows, block, progress)
        except BadRow as reason:
            raise BadLineError(self.path, int(state[LINES]) + 1, str(reason)) from None
        if state[ROWS]:
            yield rows.take()

    def _read_in_python(self, rows: _Rows, block: bytes, progress: Progress) -> None:
        """Read one line that compiled code does not, or skip it."""
        begin = int(rows.state[POSITION])
        end = block.index(b"\n", begin) + 1
        try:
            rows.add(block[begin:end])
        except BadRow:
            if self.on_bad == "raise":
                raise
            progress.n_skipped += 1
        rows.state[POSITION] = end
        rows.state[LINES] += 1


class _Rows:
    """The rows of the chunk being read in CSR, in arrays that grow and are used again.

    Compiled code reads ordinary lines and stops before any other, which Python reads by ``add``:
    errors are found in one place. Without a number of features, chunks are as wide as their rows
    need.
    """

    def __init__(self, chunk_rows: int, n_features: int | None, zero_based: bool) -> None:
        self.state = np.zeros(4, dtype=np.int64)
        self.chunk_rows = chunk_rows
        self.n_features = n_features
        self.first = 0 if zero_based else 1
        self.last = (2**62 if n_features is None else n_features) - 1 + self.first
        dtype: DTypeLike = np.int32 if self.last < 2**31 else np.int64
        rows = min(_FIRST_ROWS, chunk_rows)
        self.labels = np.empty(rows, dtype=np.uint64)  # the bits of doubles, as are values
        self.ends = np.empty(rows, dtype=np.int64)
        self.columns = np.empty(16 * rows, dtype=dtype)
        self.values = np.empty(16 * rows, dtype=np.uint64)
        self.keep_zeros = n_features is None  # their indices count as well

    def parse(self, codes: NDArray[np.uint8]) -> int:
        """Read ordinary lines of a block from where it was left; why it stopped."""
        return _parse(
            codes,
            self.state,
            self.labels,
            self.ends,
            self.columns,
            self.values,
            POWERS_OF_FIVE,
            self.first,
            self.last,
            self.keep_zeros,
            self.chunk_rows,
        )

    def add(self, line: bytes) -> None:
        """Read any one line, or raise BadRow with what is wrong with it."""
        tokens = [token.decode(errors="replace") for token in line.split(b"#", 1)[0].split()]
        if not tokens:
            return
        name = tokens.pop(0)
        label = finite_float(name, "the class")
        if abs(label) >= TOO_LARGE:
            raise BadRow(f"{too_large(name)}: use small class labels")
        if tokens and tokens[0].startswith("qid:"):
            _check_query(tokens.pop(0))
        pairs: dict[int, float] = {}
        for token in tokens:
            index, value = self._pair(token)
            if index in pairs:
                raise BadRow(f"index {index} occurs twice")
            pairs[index] = value
        row, entry = int(self.state[ROWS]), int(self.state[ENTRIES])
        while row >= len(self.labels) or entry + len(pairs) > len(self.columns):
            self.grow()
        for index in sorted(pairs):
            if pairs[index] or self.keep_zeros:
                self.columns[entry] = index - self.first
                self.values.view(np.float64)[entry] = pairs[index]
                entry += 1
        self.labels.view(np.float64)[row] = label
        self.ends[row] = entry
        self.state[ROWS], self.state[ENTRIES] = row + 1, entry

    def _pair(self, token: str) -> tuple[int, float]:
        name, colon, value = token.partition(":")
        if not (colon and name.isascii() and name.isdigit()):
            raise BadRow(f"{token[:40]!r} is not index:value")
        index = int(name) if len(name) < 100 else 2**62
        if index < self.first:
            raise BadRow("index 0: the first is 1, but in kernel matrices (zero_based=True, -t 4)")
        if index > self.last:
            raise BadRow(f"index {name[:40]} is above {self.last}, the last of n_features")
        return index, finite_float(value, f"the value of index {index}")

    def grow(self) -> None:
        """Make room, as ``parse`` needs it."""
        rows = min(2 * len(self.labels), self.chunk_rows)
        if self.state[ROWS] == len(self.labels) and rows > len(self.labels):
            self.labels = _enlarged(self.labels, rows)
            self.ends = _enlarged(self.ends, rows)
        else:
            self.columns = _enlarged(self.columns, 2 * len(self.columns))
            self.values = _enlarged(self.values, 2 * len(self.values))

    def take(self) -> Chunk:
        """Hand the rows over, in arrays of their own, and begin anew."""
        rows, entries = int(self.state[ROWS]), int(self.state[ENTRIES])
        columns = self.columns[:entries].copy()
        width = self.n_features
        if width is None:
            width = int(columns.max(initial=-1)) + 1
        starts = np.zeros(rows + 1, dtype=columns.dtype if entries < 2**31 else np.int64)
        starts[1:] = self.ends[:rows]
        values = self.values[:entries].view(np.float64).copy()
        X = sp.csr_array((values, columns, starts), shape=(rows, width))
        self.state[ROWS] = self.state[ENTRIES] = 0
        return Chunk(X, self.labels[:rows].view(np.float64).copy(), None)


def _enlarged(array: NDArray, rows: int) -> NDArray:
    """The array with room for more rows, those that are there kept."""
    larger = np.empty(rows, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _check_query(token: str) -> None:
    query = token.removeprefix("qid:")
    if not (query.isascii() and query.isdigit()):
        raise BadRow(f"{token[:40]!r} is not qid:number")


@jit
def _parse(text, state, labels, ends, columns, values, powers, first, last, keep, chunk_rows):
    """Ordinary lines into CSR. Every line ends with a newline, at which every loop stops."""
    position, row, entry, line = state[POSITION], state[ROWS], state[ENTRIES], state[LINES]
    stopped = END
    while position < len(text):
        at = _after_blanks(text, position)
        if text[at] == _NEWLINE or text[at] == _HASH:
            position = _next_line(text, at)
            line += 1
            continue
        if row == chunk_rows:
            stopped = FULL
            break
        if row == len(labels):
            stopped = GROW
            break
        label, at = number(text, at, powers)
        if at < 0 or not _is_end(text[at]) or (label << np.uint64(1)) >= TOO_LARGE_BITS:
            stopped = UNUSUAL
            break
        at = _after_blanks(text, at)
        if text[at] == _Q:
            at = _after_query(text, at)
        stopped, at, end = _entries(text, at, columns, values, entry, powers, first, last, keep)
        if stopped != END:
            break
        labels[row] = label
        ends[row] = end
        entry = end
        row += 1
        line += 1
        position = at
    state[POSITION], state[ROWS], state[ENTRIES], state[LINES] = position, row, entry, line
    return stopped


@jit
def _entries(text, at, columns, values, entry, powers, first, last, keep):
    """The rest of a line: why it stopped, the next line, the end of the row's entries."""
    least = first
    while text[at] != _NEWLINE:
        if text[at] == _HASH:
            return END, _next_line(text, at), entry
        begin = at
        index = 0
        while _ZERO <= text[at] <= _NINE:
            index = index * 10 + (text[at] - _ZERO)
            at += 1
        if at == begin or at - begin > _MOST_DIGITS or text[at] != _COLON:
            return UNUSUAL, at, entry
        if index < least or index > last:
            return UNUSUAL, at, entry
        least = index + 1
        value, at = number(text, at + 1, powers)
        if at < 0 or not _is_end(text[at]):
            return UNUSUAL, at, entry
        if entry == len(columns):
            return GROW, at, entry
        columns[entry] = index - first
        values[entry] = value
        if keep or (value << np.uint64(1)) != np.uint64(0):  # neither 0 nor -0
            entry += 1
        at = _after_blanks(text, at)
    return END, at + 1, entry


@jit
def _is_end(code):
    return code in (_SPACE, _NEWLINE, _TAB, _RETURN)


@jit
def _after_blanks(text, at):
    while text[at] in (_SPACE, _TAB, _RETURN):
        at += 1
    return at


@jit
def _next_line(text, at):
    while text[at] != _NEWLINE:
        at += 1
    return at + 1


@jit
def _after_query(text, at):
    """Past ``qid:number``, where it is that."""
    if text[at + 1] != _I or text[at + 2] != _D or text[at + 3] != _COLON:
        return at
    begin = at
    at += 4
    while _ZERO <= text[at] <= _NINE:
        at += 1
    return _after_blanks(text, at) if _is_end(text[at]) and at > begin + 4 else begin
