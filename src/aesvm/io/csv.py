"""Comma-separated values: one row a line, one number a field, and classes of any kind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aesvm.io.base import CHUNK_ROWS, BadHeader, BadRow, Chunk, Progress, check_flag
from aesvm.io.classes import LONGEST, TOO_LARGE, TOO_LARGE_BITS, fault_of, too_large
from aesvm.io.columns import Column, Columns, Wanted
from aesvm.io.decimals import POWERS_OF_FIVE, finite_float, number
from aesvm.io.records import read_record
from aesvm.io.text import (
    END,
    FIRST_ROWS,
    FULL,
    GROW,
    LINES,
    POSITION,
    ROWS,
    UNUSUAL,
    Table,
    TextReader,
    enlarged,
)
from aesvm.runtime.jit import jit

_NEWLINE, _SPACE, _TAB, _RETURN, _QUOTE = b'\n \t\r"'

#: What a column is, where it is not a feature with its place in a row of X.
_IGNORED, _TARGET, _WEIGHT = -1, -2, -3

CLASSES = ("auto", "numbers", "strings")


class CSVReader(TextReader):
    r"""Chunks of a file of comma-separated values, as dense arrays.

    The file may be plain or compressed by gzip, bzip2 or xz, whatever its name; it is read a
    block at a time. Fields may be quoted, and then hold delimiters and line ends; around others
    blanks are dropped. Columns that are not asked for may hold anything; features and weights
    must be finite numbers in every row. Classes that are numbers must be below 2^53 (above,
    doubles do not tell all integers apart), and strings have at most 1000 characters.

    Parameters
    ----------
    path : str or path
        The file.
    target : str, int or None
        The column of classes, by name (with a header) or position; None where there is none.
    features : list of str or int, default=None
        The columns of X, in this order. None takes all that are neither target nor weight:
        ``feature_names`` tells. They must then have names, if any has: an index that pandas
        wrote has none.
    weight : str or int, default=None
        The column of weights.
    header : bool, default=True
        Whether the first line names the columns.
    delimiter : str, default=","
        The character between fields.
    chunk_rows : int, default=65_536
        Rows of a chunk; the last may have fewer.
    on_bad : {"raise", "skip"}, default="raise"
        What is done about a malformed line: raise ``BadLineError``, or skip and count it, and
        warn at the end of the file. A row of several lines is skipped whole. A malformed
        header is an error, as is a quote that is opened and never closed: no row after it
        could be told.
    classes : {"auto", "numbers", "strings"}, default="auto"
        What the target holds. "auto" goes by the first row: where its class is a number, so
        must all others be.

    Attributes
    ----------
    feature_names : list of str or None
        The columns of X; None without a header. Asking for them reads the header.
    n_bytes : int
        Size of the file.
    position : int
        Bytes of the file, compressed as it is, that the iterator begun last has read. Every
        iterator has its own ``position`` and ``n_skipped``.
    n_skipped : int
        Malformed lines that it has skipped.

    Raises
    ------
    ValueError
        While iterating: a column that is not in the file.
    BadLineError
        While iterating: a malformed line, with its number and what is wrong with it.
    EOFError
        While iterating: a compressed file that is cut short.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.io import CSVReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("a,b,kind\n1,2.5,cat\n3,4,dog\n5,6,cat\n")
    ...     for X, y, _ in CSVReader(path, target="kind", chunk_rows=2):
    ...         print(y, X.tolist())
    ['cat' 'dog'] [[1.0, 2.5], [3.0, 4.0]]
    ['cat'] [[5.0, 6.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        target: Column | None,
        features: Sequence[Column] | None = None,
        weight: Column | None = None,
        header: bool = True,
        delimiter: str = ",",
        chunk_rows: int = CHUNK_ROWS,
        on_bad: str = "raise",
        classes: str = "auto",
    ) -> None:
        if (
            not isinstance(delimiter, str)
            or len(delimiter) != 1
            or not delimiter.isascii()
            or delimiter in '\r\n"+-.0123456789eE'
        ):
            raise ValueError(
                f"delimiter={delimiter!r}: one ASCII character is needed that is no "
                "part of a number, quote or line end."
            )
        check_flag("header", header)
        if not isinstance(classes, str) or classes not in CLASSES:
            raise ValueError(f"classes={classes!r}: one of {', '.join(CLASSES)} is needed.")
        super().__init__(path, chunk_rows, on_bad)
        self.wanted = Wanted(target, features, weight)
        self.header = header
        self.delimiter = delimiter
        self.classes = classes

    @property
    def feature_names(self) -> list[str] | None:
        if not self.header:
            return None
        reader = copy(self)
        reader.chunk_rows = 1
        table = reader._table()
        try:
            next(reader._rows(table, Progress()))
        except ValueError:  # the first row is none of our business
            if table.columns is None:
                raise
        assert table.columns is not None
        return table.columns.feature_names

    def _table(self) -> _Rows:
        return _Rows(self)


class _Rows(Table):
    """Dense rows. The first line says what columns there are, the first row what classes."""

    def __init__(self, reader: CSVReader) -> None:
        super().__init__()
        self.path: Path = reader.path
        self.wanted = reader.wanted
        self.header = reader.header
        self.delimiter = reader.delimiter
        self.chunk_rows = reader.chunk_rows
        self.strings = {"auto": None, "numbers": False, "strings": True}[reader.classes]
        if self.wanted.target is None:
            self.strings = False
        self.columns: Columns | None = None
        self.labels: list[NDArray] = []

    def _begin(self, names: list[str]) -> None:
        columns = self.wanted.found(names, self.path)
        if self.wanted.features is None and "" in columns.feature_names:
            raise ValueError(
                f"{self.path}: a column has no name in {names[:50]}, as an index that pandas wrote "
                "has none: leave it out (index=False), or list the columns of X in features."
            )
        self.columns = columns
        self.roles = np.full(len(names), _IGNORED)
        self.roles[columns.features] = np.arange(len(columns.features))
        if columns.target is not None:
            self.roles[columns.target] = _TARGET
        if columns.weight is not None:
            self.roles[columns.weight] = _WEIGHT
        rows = min(FIRST_ROWS, self.chunk_rows)
        # numbers are the bits of doubles
        self.values = np.empty((rows, len(columns.features)), dtype=np.uint64)
        self.targets = np.empty(rows, dtype=np.uint64)
        self.weights = np.empty(rows, dtype=np.uint64)
        self.spans = np.empty((rows, 2), dtype=np.int64)  # classes' bytes in the block

    def parse(self, block: bytes, codes: NDArray[np.uint8]) -> int:
        if self.columns is None or self.strings is None:
            return END if self.state[POSITION] == len(block) else UNUSUAL
        before = int(self.state[ROWS])
        stopped = _parse(
            codes,
            self.state,
            self.roles,
            ord(self.delimiter),
            self.strings,
            self.values,
            self.targets,
            self.weights,
            self.spans,
            POWERS_OF_FIVE,
            self.chunk_rows,
        )
        if self.strings:
            self._add_labels(codes, self.spans[before : int(self.state[ROWS])])
        return stopped

    def _add_labels(self, codes: NDArray[np.uint8], spans: NDArray[np.int64]) -> None:
        if len(spans):
            width = int((spans[:, 1] - spans[:, 0]).max())
            letters = np.zeros((len(spans), width), dtype=np.uint8)
            _copy(codes, spans, letters)
            self.labels.append(letters.view(f"S{width}")[:, 0].astype(f"U{width}"))

    def end_of_row(self, block: bytes, begin: int) -> int:
        end = super().end_of_row(block, begin)
        if block.find(b'"', begin, end) < 0:
            return end
        record = read_record(block, begin, self.delimiter)
        return -1 if record is None else record.end

    def add(self, line: bytes) -> None:
        record = read_record(line, 0, self.delimiter)
        assert record is not None
        if record.blank:
            return
        if record.fault is not None:
            unnamed = self.columns is None and self.header
            raise (BadHeader if unnamed else BadRow)(record.fault)
        fields = [field.decode("utf-8", errors="surrogateescape") for field in record.fields]
        if self.columns is None:
            self._begin(fields if self.header else [str(i) for i in range(len(fields))])
            if self.header:
                return
        self._add_row(fields)

    def _add_row(self, fields: list[str]) -> None:
        assert self.columns is not None
        columns = self.columns
        if len(fields) != len(columns.names):
            raise BadRow(f"it has {len(fields)} fields, and not {len(columns.names)}")
        values = [self._number(fields, position) for position in columns.features]
        weight = 0.0 if columns.weight is None else self._number(fields, columns.weight)
        target = 0.0
        strings = self.strings
        if columns.target is not None:
            label = fields[columns.target]
            if strings is None:
                strings = not _is_number(label)
            if strings:
                self._check_label(label, columns.names[columns.target])
            else:
                target = self._target(fields, columns.target)
                if abs(target) >= TOO_LARGE:
                    raise BadRow(f'{too_large(label)}, and classes="strings" does')
        row = int(self.state[ROWS])
        if row == len(self.values):
            self.grow()
        self.values.view(np.float64)[row] = values
        self.targets.view(np.float64)[row] = target
        self.weights.view(np.float64)[row] = weight
        if strings:
            self.labels.append(np.array([label]))
        self.strings = bool(strings)
        self.state[ROWS] = row + 1

    @staticmethod
    def _check_label(label: str, name: str) -> None:
        if not label:
            raise BadRow(f"column {name!r} is empty")
        if any("\udc80" <= character <= "\udcff" for character in label):
            raise BadRow(f"column {name!r} is not UTF-8")
        if fault := fault_of(label):
            raise BadRow(f"column {name!r}: {fault}")

    def _target(self, fields: list[str], position: int) -> float:
        try:
            return self._number(fields, position)
        except BadRow as bad:
            if not fields[position]:
                raise
            raise BadRow(f'{bad}, which classes="strings" need not be') from None

    def _number(self, fields: list[str], position: int) -> float:
        assert self.columns is not None
        what = f"column {self.columns.names[position]!r}"
        if not fields[position]:
            raise BadRow(f"{what} is empty")
        return finite_float(fields[position], f"{what}:")

    def grow(self) -> None:
        rows = min(2 * len(self.values), self.chunk_rows)
        self.values = enlarged(self.values, rows)
        self.targets = enlarged(self.targets, rows)
        self.weights = enlarged(self.weights, rows)
        self.spans = enlarged(self.spans, rows)

    def take(self) -> Chunk:
        assert self.columns is not None
        rows = int(self.state[ROWS])
        y: NDArray | None = None
        if self.strings:
            y = np.concatenate(self.labels)
        elif self.columns.target is not None:
            y = self.targets[:rows].view(np.float64).copy()
        weights = None
        if self.columns.weight is not None:
            weights = self.weights[:rows].view(np.float64).copy()
        self.labels = []
        self.state[ROWS] = 0
        return Chunk(self.values[:rows].view(np.float64).copy(), y, weights)


def _is_number(label: str) -> bool:
    try:
        finite_float(label, "")
    except BadRow:
        return False
    return True


@jit
def _parse(
    text, state, roles, delimiter, strings, values, targets, weights, spans, powers, chunk_rows
):
    """Ordinary lines into rows. Every line ends with a newline, at which every loop stops."""
    position, row, line = state[POSITION], state[ROWS], state[LINES]
    stopped = END
    while position < len(text):
        at = _after_blanks(text, position, delimiter)
        end = _line_end(text, at)
        if text[end] == _NEWLINE:
            position = end + 1
            line += 1
            continue
        if row == chunk_rows:
            stopped = FULL
            break
        if row == len(values):
            stopped = GROW
            break
        column = 0
        while column < len(roles):
            at = _after_blanks(text, at, delimiter)
            role = roles[column]
            if role == _IGNORED or (role == _TARGET and strings):
                begin, end, at = _span(text, at, delimiter, role == _IGNORED)
                if at < 0:
                    break
                if role == _TARGET:
                    if end == begin or end - begin > LONGEST:
                        at = -1
                        break
                    spans[row, 0] = begin
                    spans[row, 1] = end
            else:
                begin = at
                value, at = number(text, begin, powers)
                if at < 0:
                    value, at = _quoted_number(text, begin, powers)
                    if at < 0:
                        break
                else:
                    at = _after_blanks(text, at, delimiter)
                if role == _TARGET:
                    if (value << np.uint64(1)) >= TOO_LARGE_BITS:
                        at = -1
                        break
                    targets[row] = value
                elif role == _WEIGHT:
                    weights[row] = value
                else:
                    values[row, role] = value
            if text[at] != delimiter:
                break
            column += 1
            at += 1
        # the last column is not followed by a delimiter
        if at >= 0:
            at = _line_end(text, at)
        if column != len(roles) - 1 or at < 0 or text[at] != _NEWLINE:
            stopped = UNUSUAL
            break
        position = at + 1
        row += 1
        line += 1
    state[POSITION], state[ROWS], state[LINES] = position, row, line
    return stopped


@jit
def _span(text, at, delimiter, ignored):
    """Where a string begins and ends, and what follows it; -1 where Python must be asked."""
    quoted = text[at] == _QUOTE
    if quoted:
        at += 1
    begin = at
    while text[at] != _NEWLINE and text[at] != _QUOTE:
        if not quoted and (text[at] == delimiter or text[at] == _RETURN):
            break
        if not ignored and (text[at] >= 128 or text[at] == 0):
            return begin, begin, -1
        at += 1
    end = at
    if quoted != (text[at] == _QUOTE):
        return begin, begin, -1
    if quoted:
        return begin, end, at + 1
    while end > begin and _is_blank(text[end - 1], delimiter):
        end -= 1
    return begin, end, at


@jit
def _quoted_number(text, at, powers):
    """A number in quotes, and what follows; -1 where Python must be asked."""
    if text[at] != _QUOTE:
        return np.uint64(0), -1
    value, at = number(text, at + 1, powers)
    return value, at + 1 if at >= 0 and text[at] == _QUOTE else -1


@jit
def _copy(text, spans, letters):
    for row in range(len(spans)):
        begin = spans[row, 0]
        for place in range(spans[row, 1] - begin):
            letters[row, place] = text[begin + place]


@jit
def _is_blank(code, delimiter):
    return code in (_SPACE, _TAB) and code != delimiter


@jit
def _after_blanks(text, at, delimiter):
    while _is_blank(text[at], delimiter):
        at += 1
    return at


@jit
def _line_end(text, at):
    """Past a carriage return that is followed by a newline."""
    return at + 1 if text[at] == _RETURN and text[at + 1] == _NEWLINE else at
