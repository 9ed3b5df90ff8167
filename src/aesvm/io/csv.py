"""Comma-separated values: one row a line, one number a field, and classes of any kind.

pyarrow parses blocks of whole rows. It neither reports the line of an error nor skips a bad row. So
Python reads a block again if pyarrow refuses it, or may have misread it: errors are found in one
place.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.io import files
from aesvm.io.base import (
    CHUNK_ROWS,
    BadHeader,
    BadLineError,
    BadRow,
    Chunk,
    ReadProgress,
    TextReader,
    check_flag,
    finite_float,
    needs_pyarrow,
    rechunked,
)
from aesvm.io.columns import TOO_LARGE, Column, Columns, RequestedColumns, fault_of, too_large
from aesvm.runtime.jit import jit

_NEWLINE, _RETURN, _SPACE, _QUOTE = b'\n\r "'

#: Where ``_find_ends`` is: before a field, before one after blanks, within one, within quotes,
#: and after a quote that closes a field or is the first of two.
_START, _INDENTED, _PLAIN, _QUOTED, _CLOSED = range(5)

#: Tables of up to this many columns are read in blocks of ``BLOCK_BYTES``, wider ones in larger.
_COLUMNS_PER_BLOCK = 256

CLASSES = ("auto", "numbers", "strings")

#: Features, class and weight.
Row = tuple[list[float], Any, float | None]


class CSVReader(TextReader):
    r"""Chunks of a file of comma-separated values, as dense arrays.

    The file may be plain or compressed by gzip, bzip2 or xz, whatever its name; it is read a
    block at a time. Fields may be quoted, and then hold delimiters and line ends. Blanks around
    fields are dropped. Columns that are not asked for may hold anything. Features and weights
    must be finite numbers in every row; they agree with Python's ``float`` to the bit. Classes
    that are numbers must be below 2^53 (above, doubles do not tell all integers apart). Classes
    that are strings are never missing values: "NA" is a class. They have at most 1000 characters.

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
        header is an error, as is a quote that is opened and never closed: where the next rows
        begin is then unknown.
    classes : {"auto", "numbers", "strings"}, default="auto"
        What the target holds. "auto" goes by the first row: where its class is a number, so
        must all others be.

    Attributes
    ----------
    feature_names : list of str or None
        The columns of X; None without a header. Asking for them reads the header.
    n_bytes, position, n_skipped : int
        See :class:`ChunkReader`.

    Raises
    ------
    ImportError
        Where pyarrow is not installed.
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
        needs_pyarrow("CSVReader")
        check_flag("header", header)
        if not isinstance(classes, str) or classes not in CLASSES:
            raise ValueError(f"classes={classes!r}: one of {', '.join(CLASSES)} is needed.")
        super().__init__(path, chunk_rows, on_bad)
        self.wanted = RequestedColumns(target, features, weight)
        self.header = header
        self.delimiter = delimiter
        self.classes = classes

    @property
    def feature_names(self) -> list[str] | None:
        if not self.header:
            return None
        table = _Table(self, ReadProgress())
        try:
            next(table.parts(), None)
        except ValueError:  # the first row is none of our business
            if table.columns is None:
                raise
        if table.columns is None:
            raise ValueError(f"{self.path}: there are no rows in the file.")
        return table.columns.feature_names

    def _rows(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        return rechunked(_Table(self, progress).parts(), self.chunk_rows)


class _Unusual(Exception):  # noqa: N818 (no error: Python reads the block)
    """Why Python must read a block: it may be at fault."""


class _Table:
    """One pass over a file. The first line says what columns there are, the first row what classes.

    Attributes
    ----------
    columns : Columns or None
        None until the first line is read.
    strings : bool or None
        Whether classes are strings; None until the first row is read.
    """

    def __init__(self, reader: CSVReader, progress: ReadProgress) -> None:
        self.reader = reader
        self.progress = progress
        self.columns: Columns | None = None
        self.strings = {"auto": None, "numbers": False, "strings": True}[reader.classes]
        if reader.wanted.target is None:
            self.strings = False

    def parts(self) -> Generator[Chunk, None, None]:
        """The rows, those of a block at a time."""
        for line, block, ends, plain in self._blocks():
            begin = 0
            while (self.columns is None or self.strings is None) and len(ends):
                yield from self._in_python(line, block, begin, ends[:1])
                line += block.count(b"\n", begin, ends[0])
                begin, ends = int(ends[0]), ends[1:]
            if not len(ends):
                continue
            try:
                if not plain:
                    raise _Unusual
                yield self._read(block[begin:])
            except _Unusual:
                yield from self._in_python(line, block, begin, ends)

    def _blocks(self) -> Generator[tuple[int, bytes, NDArray[np.int64], bool], None, None]:
        """Whole rows: the number of their first line, their bytes, their ends, and if plain."""
        line = 1
        rest = b""
        try:
            for whole_lines in self._whole_lines():
                block = rest + whole_lines
                ends, plain = _record_ends(block, self.reader.delimiter)
                end = int(ends[-1]) if len(ends) else 0
                if end:
                    yield line, block[:end], ends, plain
                line += block.count(b"\n", 0, end) if b'"' in block else len(ends)
                rest = block[end:]
                if len(rest) > files.LONGEST_LINE:
                    break
        except BadRow as bad:
            raise BadLineError(self.reader.path, line, str(bad)) from None
        if rest:
            reason = "a quote is opened in it, and not closed in what follows"
            raise BadLineError(self.reader.path, line, reason)

    def _whole_lines(self) -> Generator[bytes, None, None]:
        """Blocks of lines, larger ones where rows are wide: pyarrow handles columns one by one."""
        held: list[bytes] = []
        n_bytes = 0
        error = None
        try:
            for block in files.line_blocks(self.reader.path, self.progress):
                held.append(block)
                if self.columns is not None:
                    n_bytes = files.BLOCK_BYTES * len(self.columns.names) // _COLUMNS_PER_BLOCK
                if sum(map(len, held)) >= n_bytes:
                    yield b"".join(held)
                    held = []
        except BadRow as bad:  # the lines before it come first
            error = bad
        if held:
            yield b"".join(held)
        if error is not None:
            raise error

    def _read(self, block: bytes) -> Chunk:
        """The rows of a block, by pyarrow."""
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        assert self.columns is not None
        columns = self.columns
        number = pa.float64()
        types = {str(position): number for position in columns.features}
        if columns.target is not None:
            text = pa.dictionary(pa.int32(), pa.string())
            types[str(columns.target)] = text if self.strings else number
        if columns.weight is not None:
            types[str(columns.weight)] = number
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(block),
                pa_csv.ReadOptions(
                    column_names=[str(position) for position in range(len(columns.names))],
                    block_size=len(block),
                    use_threads=False,
                ),
                pa_csv.ParseOptions(delimiter=self.reader.delimiter, newlines_in_values=True),
                pa_csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise _Unusual from error

        def numbers(position: int) -> NDArray[np.float64]:
            values = table.column(str(position)).to_numpy()
            if not np.isfinite(values).all():
                raise _Unusual
            return values

        X = np.empty((len(table), len(columns.features)))
        for place, position in enumerate(columns.features):
            X[:, place] = numbers(position)
        y: NDArray | None = None
        if self.strings:
            y = _labels(table.column(str(columns.target)).combine_chunks())
        elif columns.target is not None:
            y = numbers(columns.target).copy()
            if (np.abs(y) >= TOO_LARGE).any():
                raise _Unusual
        weights = None if columns.weight is None else numbers(columns.weight).copy()
        return Chunk(X, y, weights)

    def _in_python(
        self, line: int, block: bytes, begin: int, ends: NDArray[np.int64]
    ) -> Generator[Chunk, None, None]:
        """The rows of a part of a block, one by one."""
        records = (block[a:b] for a, b in pairwise([begin, *ends.tolist()]))
        return self.reader._one_by_one(line, records, self._rows_of, _chunk_of, self.progress)

    def _rows_of(self, record: bytes) -> list[Row]:
        """The row of a record, or none where it is blank or the header."""
        if not record.strip(b" \t\r\n".replace(self.reader.delimiter.encode(), b"")):
            return []
        if self.columns is not None:
            return [self._row(self._fields(record))]
        if not self.reader.header:
            fields = self._fields(record)
            self.columns = self._named([str(number) for number in range(len(fields))])
            return [self._row(fields)]
        try:
            self.columns = self._named(self._fields(record))
        except BadRow as reason:
            raise BadHeader(str(reason)) from None
        return []

    def _fields(self, record: bytes) -> list[str]:
        text = record.decode("utf-8", errors="surrogateescape")
        if len(text) > csv.field_size_limit():
            csv.field_size_limit(len(text))
        delimiter = self.reader.delimiter
        indented = delimiter != " "
        try:
            (fields,) = csv.reader(
                [text], delimiter=delimiter, skipinitialspace=indented, strict=True
            )
        except (csv.Error, ValueError) as error:
            if b"\r" in record.rstrip():
                raise BadRow("it has a carriage return that ends no line") from None
            raise BadRow(f"it is not {delimiter!r}-separated: {error}") from None
        return [field.strip(" \t") for field in fields]

    def _named(self, names: list[str]) -> Columns:
        reader = self.reader
        columns = reader.wanted.found(names, reader.path)
        if reader.wanted.features is None and "" in columns.feature_names:
            raise ValueError(
                f"{reader.path}: a column has no name in {names[:50]}, as an index that pandas "
                "wrote has none: leave it out (index=False), or list the columns of X in features."
            )
        return columns

    def _row(self, fields: list[str]) -> Row:
        assert self.columns is not None
        columns = self.columns
        if len(fields) != len(columns.names):
            raise BadRow(f"it has {len(fields)} fields, and not {len(columns.names)}")

        def number(position: int) -> float:
            what = f"column {columns.names[position]!r}"
            if not fields[position]:
                raise BadRow(f"{what} is empty")
            return finite_float(fields[position], f"{what}:")

        values = [number(position) for position in columns.features]
        weight = None if columns.weight is None else number(columns.weight)
        target: Any = None
        if columns.target is not None:
            target = label = fields[columns.target]
            strings = not _is_number(label) if self.strings is None else self.strings
            if strings:
                _check_label(label, columns.names[columns.target])
            else:
                try:
                    target = number(columns.target)
                except BadRow as bad:
                    hint = ', which classes="strings" need not be' if label else ""
                    raise BadRow(f"{bad}{hint}") from None
                if abs(target) >= TOO_LARGE:
                    raise BadRow(f'{too_large(label)}, and classes="strings" does')
            self.strings = strings
        return values, target, weight


def _chunk_of(rows: list[Row]) -> Chunk:
    X, y, weights = zip(*rows, strict=True)
    return Chunk(
        np.array(X),
        None if y[0] is None else np.array(y),
        None if weights[0] is None else np.array(weights),
    )


def _labels(column: Any) -> NDArray[np.str_]:
    """Classes of a dictionary of strings."""
    labels = [label.strip(" \t") for label in column.dictionary.to_pylist()]
    if any(not label or fault_of(label) for label in labels):
        raise _Unusual
    return np.array(labels, dtype=str)[column.indices.to_numpy()]


def _check_label(label: str, name: str) -> None:
    if not label:
        raise BadRow(f"column {name!r} is empty")
    if any("\udc80" <= character <= "\udcff" for character in label):
        raise BadRow(f"column {name!r} is not UTF-8")
    if fault := fault_of(label):
        raise BadRow(f"column {name!r}: {fault}")


def _is_number(label: str) -> bool:
    try:
        finite_float(label, "")
    except BadRow:
        return False
    return True


def _record_ends(block: bytes, delimiter: str) -> tuple[NDArray[np.int64], bool]:
    """Where records end, and whether pyarrow reads them as they are meant.

    It takes any carriage return for a line end, drops a mark at the beginning, and reads quotes
    after blanks, and text after a closing quote, as parts of a field.
    """
    codes = np.frombuffer(block, dtype=np.uint8)
    plain = not block.startswith(files.BOM)
    if b"\r" in block:
        plain &= block.count(b"\r") == block.count(b"\r\n")
    if b'"' not in block:
        return np.flatnonzero(codes == _NEWLINE) + 1, plain
    ends = np.empty(block.count(b"\n"), dtype=np.int64)
    n_records, quotes_plain = _find_ends(codes, ord(delimiter), ends)
    return ends[:n_records], plain and quotes_plain


@jit
def _find_ends(text, delimiter, ends):
    """Fill in where records end; how many do, and whether quotes enclose whole fields."""
    n_records = 0
    plain = True
    state = _START
    for at in range(len(text)):
        code = text[at]
        if state == _QUOTED:
            if code == _QUOTE:
                state = _CLOSED
        elif code == _NEWLINE:
            ends[n_records] = at + 1
            n_records += 1
            state = _START
        elif code == delimiter:
            state = _START
        elif state == _CLOSED:
            plain &= code in (_QUOTE, _RETURN)
            state = _QUOTED if code == _QUOTE else _PLAIN
        elif state != _PLAIN:
            if code == _QUOTE:
                plain &= state == _START
                state = _QUOTED
            else:
                state = _INDENTED if code == _SPACE else _PLAIN
    return n_records, plain
