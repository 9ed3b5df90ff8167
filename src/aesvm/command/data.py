"""Data files as chunks, or as rows in memory where they fit.

A data file is a reader of ``aesvm.io``, and what the command line says of it. Standard input is
kept in a temporary file while it is used, for readers read more than once.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.chunks import Mapped, Weighted, checked_values, joined
from aesvm.command.formats import Format, format_of
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.io import CSVReader, LibsvmReader, NpyReader, ParquetReader
from aesvm.io.atomic import naming
from aesvm.io.base import BadLineError, Chunk
from aesvm.io.columns import Column
from aesvm.io.csv import CLASSES
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.runtime.machine import machine_memory

#: The column to learn where no option names one: ``aesvm convert`` calls LIBSVM's labels so.
TARGET = "target"

#: The share of the machine's memory that rows may take where --memory says nothing.
_SHARE = 0.25

#: Bytes in memory for a byte of LIBSVM's text, and for one of any text that is compressed.
_TEXT, _COMPRESSED = 1.5, 9.0

#: What the command line can say of the columns of each format.
_OPTIONS = {
    "libsvm": (),
    "npy": ("target",),
    "parquet": ("target", "features", "ignore", "weight"),
    "csv": ("target", "features", "ignore", "weight", "header", "delimiter", "classes"),
}

#: Rows of LIBSVM's format are dense from this share of non-zero values on.
_DENSE = 1 / 3


class DataOptions(NamedTuple):
    """What the command line says of the columns of a data file, and of its format."""

    target: str | None = None  #: a column, or of .npy the file of targets
    features: list[str] | None = None
    ignore: tuple[str, ...] = ()
    weight: str | None = None  #: a column
    weights_file: str | None = None  #: LIBSVM's: a weight a line
    header: bool | None = None
    delimiter: str | None = None
    classes: str | None = None  #: how a column of targets is read, as CSVReader has it
    format: str | None = None
    memory: str | None = None

    @property
    def files(self) -> list[str]:
        """Further files that are read."""
        targets = [] if self.target is None or not self.target.endswith(".npy") else [self.target]
        return targets + ([] if self.weights_file is None else [self.weights_file])

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight is not None or self.weights_file is not None


class Rows(NamedTuple):
    """All rows of a data file."""

    X: Any
    y: NDArray | None
    weights: NDArray | None


@dataclass(frozen=True)
class DataFile:
    """A data file that is open."""

    name: str  #: as it was given
    format: Format
    reader: Any  #: a re-iterable of chunks
    n_features: int
    feature_names: list[str] | None
    target: str | None  #: the name of the column of targets, where it has one
    weight: str | None  #: the name of the column of weights, where it has one
    needed: float  #: bytes that the rows would take in memory, as far as is known
    limit: float  #: bytes that they may take

    @property
    def is_large(self) -> bool:
        """Whether the rows are to be streamed."""
        return self.needed > self.limit

    def note_target(self, columns: DataOptions, screen: Screen) -> None:
        """Say which column is learned where the command line does not."""
        if self.target is not None and columns.target is None:
            screen.note(f"the target is the column {self.target!r}: --target names another")

    def rows(self) -> Rows:
        """All rows in memory."""
        X, y, weights = map(joined, zip(*self.reader, strict=True))
        if sp.issparse(X) and X.nnz >= _DENSE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        return Rows(X, y, weights)

    def why_streamed(self) -> str:
        """What is said where the rows are not held in memory."""
        return (
            f"{self.name} would take some {_size(self.needed)} in memory, and may take "
            f"{_size(self.limit)} (--memory): it is streamed"
        )


@contextmanager
def opened(
    name: str,
    columns: DataOptions,
    *,
    wanted: list[str] | None = None,
    target: str | None = None,
    n_features: int | None = None,
    classes: str = "auto",
    needs_target: bool = True,
    is_matrix: bool = False,
) -> Iterator[DataFile]:
    """A data file; "-" is standard input.

    ``wanted``, ``target`` and ``n_features``: the columns that a model was trained on, where it
    knows, and how many there were. A target of that name, or TARGET, need not be there.
    ``classes``: how targets of a CSV are read where the command line does not say. ``is_matrix``:
    rows are those of a kernel matrix.
    """
    with as_file(name) as path:
        try:
            if is_matrix:
                yield _kernel_matrix(name, path, columns, n_features)
            else:
                model = wanted, target, n_features, classes
                yield _data_file(name, path, columns, *model, needs_target)
        except BadLineError as error:
            about = _shown(name, path) if str(error.path) == str(path) else error.path
            raise BadLineError(about, error.line, error.reason) from error
        except CommandError as error:
            raise type(error)(_message(error, name, path)) from error
        except (ValueError, EOFError) as error:
            told = _message(error, name, path)
            about = "" if _shown(name, path) in told else f"{_shown(name, path)}: "
            raise CommandError(about + told) from error


def _message(error: Exception, name: str, path: Path) -> str:
    """What an error says, of the file as it was given."""
    return str(error).replace(str(path), _shown(name, path))


def _shown(name: str, path: Path) -> str:
    """What people know a file as, which may have been copied."""
    if name == "-":
        return "standard input"
    return str(path) if path == Path(name) else name


@contextmanager
def as_file(name: str) -> Iterator[Path]:
    """A file that can be read more than once."""
    if not name:
        raise UsageError("'': the name of a data file is needed.")
    if name != "-":
        path = Path(name)
        if not path.exists():
            raise CommandError(f"{name}: there is no such file.")
        if path.is_file() or path.is_dir():
            yield path
            return
    if name == "-" and sys.stdin is None:
        raise CommandError("standard input is closed.")
    with tempfile.TemporaryDirectory(prefix="aesvm-") as folder:
        path = Path(folder, "rows")
        given = open(name, "rb") if name != "-" else nullcontext(sys.stdin.buffer)  # noqa: SIM115
        with naming(folder), given as rows, path.open("wb") as file:
            shutil.copyfileobj(rows, file)
        yield path


def _data_file(
    name: str,
    path: Path,
    columns: DataOptions,
    wanted: list[str] | None,
    target: str | None,
    n_features: int | None,
    classes: str,
    needs_target: bool,
) -> DataFile:
    limit = _limit(columns)
    found = format_of(path, columns.format, columns.delimiter, columns.header)
    _check_options(columns, found.kind, name)
    feature_names, weight, needed = None, None, float(os.path.getsize(path))
    if found.kind == "libsvm":
        width = LibsvmReader(path, n_features=None).n_features
        width = max(width, n_features or 0)
        reader: Any = LibsvmReader(path, n_features=width)
        needed *= _COMPRESSED if found.compressed else _TEXT
    elif found.kind == "npy":
        reader, width, needed = _array_file(path, columns, n_features, needs_target)
    else:
        names = _names(path, found)
        n_columns = len(names) if names else found.n_columns
        about = _shown(name, path)
        roles = _Roles.of(names, n_columns, columns, wanted, target, about, needs_target)
        _check_distinct(names, roles, about)
        options: dict[str, Any] = {
            "target": roles.target,
            "features": roles.features,
            "weight": roles.weight,
        }
        if found.kind == "csv":
            options |= {"header": found.header, "delimiter": found.delimiter}
            reader = CSVReader(path, classes=columns.classes or classes, **options)
            needed *= _COMPRESSED if found.compressed else 1.0
        else:
            reader = ParquetReader(path, **options)
            needed = _bytes_of_parquet(reader)
        width = _width(reader, names, roles)
        feature_names = reader.feature_names if names else None
        target, weight = (
            one if isinstance(one, str) else None for one in (roles.target, roles.weight)
        )
    if found.kind in ("npy", "parquet"):  # text has no other values
        reader = Mapped(reader, partial(checked_values, _shown(name, path), feature_names))
    if columns.weights_file:
        reader = Weighted(reader, columns.weights_file)
    return DataFile(name, found, reader, width, feature_names, target, weight, needed, limit)


def _check_options(columns: DataOptions, kind: str, name: str) -> None:
    """Refuse what is said of columns that files of a kind do not have."""
    what = {"libsvm": "LIBSVM's format", "npy": "an array", "parquet": "Parquet", "csv": "a table"}
    for option in _OPTIONS["csv"]:
        if getattr(columns, option) not in (None, ()) and option not in _OPTIONS[kind]:
            takes = ", ".join(f"--{one}" for one in _OPTIONS[kind]) or "no options of columns"
            raise UsageError(f"--{option}: {name} is {what[kind]}, which takes {takes}.")
    if columns.classes not in (None, *CLASSES):
        raise UsageError(f"--classes {columns.classes}: one of {', '.join(CLASSES)} is needed.")
    if columns.features == []:
        raise UsageError("--features: names of columns are needed, as a,b,c.")
    if columns.features is not None and columns.ignore:
        raise UsageError("--features and --ignore: columns are named, or left out, and not both.")
    if columns.weight is not None and columns.weights_file is not None:
        raise UsageError("--weight and -W: weights are a column, or a file, and not both.")


def _limit(columns: DataOptions) -> float:
    """Bytes that rows may take."""
    if columns.memory is None:
        return _SHARE * machine_memory()
    try:
        limit = bytes_of(columns.memory)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise UsageError(f'--memory {columns.memory}: a size is needed, as "500 MB" or "2 GiB".')
    return limit


def _kernel_matrix(name: str, path: Path, columns: DataOptions, n_features: int | None) -> DataFile:
    """LIBSVM's file of a kernel matrix: index 0 has the number of a row, the others its values.

    Where the model is to be trained, and ``n_features`` is not known, rows come in their order.
    """
    found = format_of(path, columns.format)
    if found.kind != "libsvm":
        raise UsageError(f"-t 4: {name} is not in LIBSVM's format.")
    _check_options(columns, found.kind, name)
    width = LibsvmReader(path, n_features=None, zero_based=True).n_features
    width = max(width, (n_features or 1) + 1)

    def values(chunk: Chunk, first: int) -> Chunk:
        dense = chunk.X.toarray()
        expected = np.arange(first + 1, first + 1 + len(dense))
        wrong = np.flatnonzero(dense[:, 0] != expected)
        if n_features is None and len(wrong):
            at = int(expected[wrong[0]])
            raise CommandError(f"{path}: row {at} of the kernel matrix does not begin with 0:{at}.")
        return Chunk(np.ascontiguousarray(dense[:, 1:]), chunk.y, None)

    reader = Mapped(LibsvmReader(path, n_features=width, zero_based=True), values)
    if columns.weights_file:
        reader = Weighted(reader, columns.weights_file)
    needed = _TEXT * os.path.getsize(path)
    return DataFile(name, found, reader, width - 1, None, None, None, needed, _limit(columns))


class _Roles(NamedTuple):
    """Columns of a table as readers take them."""

    target: Column | None
    features: list[Column] | None
    weight: Column | None

    @classmethod
    def of(
        cls,
        names: list[str] | None,
        n_columns: int,
        columns: DataOptions,
        wanted: list[str] | None,
        known_target: str | None,
        name: str,
        needs_target: bool,
    ) -> _Roles:
        target = None if columns.target is None else _column(columns.target, names)
        weight = None if columns.weight is None else _column(columns.weight, names)
        expected = known_target or TARGET
        others = [_column(one, names) for one in (*(columns.features or ()), *columns.ignore)]
        if expected in (names or ()) and expected not in (*others, *(wanted or ()), weight):
            target = expected if target is None else target
        if target is None and needs_target:
            listed = " by its number, from 0"
            if names:
                more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
                listed = f", of {', '.join(names[:20])}{more}"
            raise UsageError(f"{name} is a table: --target says which column to learn{listed}.")
        features: list[Column] | None = None
        if columns.features is not None:
            features = [_column(one, names) for one in columns.features]
            if wanted is not None and names and sorted(map(str, features)) != sorted(wanted):
                raise UsageError(
                    f"--features: the model was trained on the columns {', '.join(wanted[:20])}."
                )
        every: list[Column] = list(names or range(n_columns))

        def counted(column: Column) -> Column:
            """A column without a name, counted from the first."""
            below = isinstance(column, int) and -n_columns <= column < 0
            return column + n_columns if below else column  # type: ignore[operator]

        apart = [counted(_column(one, names)) for one in columns.ignore]
        absent = [one for one in apart if one not in every]
        if absent:
            raise UsageError(f"--ignore {absent[0]}: there is no such column in {name}.")
        if wanted is not None and names:  # in the order of the model
            features = list(wanted)
            needed = [one for one in apart if one in features]
            if needed:
                raise UsageError(f"--ignore {needed[0]}: the model was trained on that column.")
        elif features is None and apart:
            apart += [counted(one) for one in (target, weight) if one is not None]
            features = [one for one in every if one not in apart]
        return cls(target, features, weight)


def _check_distinct(names: list[str] | None, roles: _Roles, about: str) -> None:
    """Refuse names that two columns have, where they are read."""
    if names is None:
        return
    used = [*(roles.features or names), roles.target, roles.weight]
    twice = [one for one, n in Counter(names).items() if n > 1 and one in used]
    if twice:
        raise CommandError(f"{about}: two columns have the name {twice[0]!r}: give them others.")


def _column(given: str, names: list[str] | None) -> Column:
    """A column by its name, or else by its number, of which the name is returned if it has one."""
    if names and given in names:
        return given
    try:
        number = int(given)
    except ValueError:
        return given
    return names[number] if names and -len(names) <= number < len(names) else number


def _names(path: Path, found: Format) -> list[str] | None:
    """All columns of a table that has names."""
    if found.kind == "csv":
        return found.names
    return ParquetReader(path, target=None).feature_names


def _width(reader: Any, names: list[str] | None, roles: _Roles) -> int:
    if names or roles.features is not None:
        return len(roles.features or reader.feature_names)
    for chunk in CSVReader(
        reader.path,
        target=roles.target,
        weight=roles.weight,
        header=False,
        delimiter=reader.delimiter,
        chunk_rows=1,
    ):
        return chunk.X.shape[1]
    raise CommandError(f"{reader.path}: there are no rows in the file.")


def _bytes_of_parquet(reader: ParquetReader) -> float:
    import pyarrow.parquet as pq

    n_rows = sum(pq.read_metadata(path).num_rows for path in reader.paths)
    return 8.0 * n_rows * len(reader.feature_names)


def _array_file(
    path: Path, columns: DataOptions, n_features: int | None, needs_target: bool
) -> tuple[Any, int, float]:
    """A reader of an array, its number of features and the bytes that it takes."""
    given = columns.target
    if given is not None and Path(given).suffix == ".npy":
        reader: Any = NpyReader(path, given)
        width = next(iter(NpyReader(path, chunk_rows=1))).X.shape[1]
        return reader, width, float(os.path.getsize(path))
    reader = NpyReader(path)
    width = next(iter(NpyReader(path, chunk_rows=1))).X.shape[1]
    if given is None:
        if needs_target:
            raise UsageError(
                f"{path} is an array: --target is the number of a column, or a .npy file."
            )
        return reader, width, float(os.path.getsize(path))
    try:
        at = range(width)[int(given)]
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"--target {given}: a column from 0 to {width - 1}, or a .npy file, is needed."
        ) from error

    def split(chunk: Chunk, _: int) -> Chunk:
        return Chunk(np.delete(chunk.X, at, axis=1), chunk.X[:, at], None)

    return Mapped(reader, split), width - 1, float(os.path.getsize(path))


def _size(n_bytes: float) -> str:
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while n_bytes >= 1024 and len(units) > 1:
        n_bytes, units = n_bytes / 1024, units[1:]
    return f"{n_bytes:.3g} {units[0]}"
