"""Data files as chunks, or as rows in memory where they fit.

A data file is a reader, and what the command line says of its columns. Tables are read as numbers
(readers of ``aesvm.io``), or with all their types as pandas' frames. Standard input is
kept in a temporary file while it is used, for readers read more than once.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.formats import TARGET, Format, format_of
from aesvm.command.screen import CommandError, Screen, UsageError
from aesvm.io import (
    BadLineError,
    Chunk,
    ChunkIterator,
    CSVReader,
    LibsvmReader,
    NpyReader,
    ParquetReader,
)
from aesvm.io.base import ReadProgress, joined
from aesvm.io.columns import Columns, RequestedColumns
from aesvm.io.csv import CLASSES
from aesvm.io.files import naming
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.runtime.memory import machine_memory
from aesvm.runtime.warn import warn

if TYPE_CHECKING:
    import pandas as pd


#: The fraction of the machine's memory that rows may take where --memory says nothing.
_SHARE = 0.25

#: Bytes in memory for a byte of LIBSVM's text, and for one of any text that is compressed.
_TEXT, _COMPRESSED = 1.5, 9.0

#: What the command line can say of the columns of each format.
_OPTIONS = {
    "libsvm": (),
    "npy": ("target",),
    "parquet": ("target", "features", "drop", "weight"),
    "csv": ("target", "features", "drop", "weight", "header", "delimiter", "classes"),
}

#: Rows of LIBSVM's format are dense from this fraction of non-zero values on.
_DENSE = 1 / 3


class DataOptions(NamedTuple):
    """What the command line says of the columns of a data file, and of its format."""

    target: str | None = None  #: a column, or of .npy the file of targets
    features: list[str] | None = None
    drop: tuple[str, ...] = ()
    weight: str | None = None  #: a column
    weights_file: str | None = None  #: LIBSVM's: a weight a line
    header: bool | None = None
    delimiter: str | None = None
    classes: str | None = None  #: how a column of targets is read, as CSVReader has it
    format: str | None = None
    memory: str | None = None

    @classmethod
    def given(cls, options: dict[str, Any]) -> DataOptions:
        """Those among the options of a command."""
        known: dict[str, Any] = {name: options.get(name) for name in cls._fields}
        features, delimiter = known["features"], known["delimiter"]
        known["features"] = None if features is None else _listed(features)
        known["drop"] = tuple(name for one in known["drop"] or () for name in _listed(one))
        known["delimiter"] = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
        return cls(**known)

    @property
    def files(self) -> list[str]:
        """Further files that are read."""
        targets = [] if self.target is None or not self.target.endswith(".npy") else [self.target]
        return targets + ([] if self.weights_file is None else [self.weights_file])

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight is not None or self.weights_file is not None


def _listed(names: str) -> list[str]:
    return [one.strip() for one in names.split(",") if one.strip()]


class Wanted(NamedTuple):
    """What a command wants of a data file, or a model of its rows."""

    features: list[str] | None = None  #: columns that a model was trained on
    target: str | None = None  #: a column to learn, if it is there
    n_features: int | None = None
    classes: str = "auto"  #: how targets of a CSV are read where no option says
    needs_target: bool = True
    is_matrix: bool = False  #: rows are those of a kernel matrix
    text: list[str] | None = None  #: columns that frames have as text; None: no frames


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

    def rows(self) -> Chunk:
        """All rows in memory."""
        X, y, weights = joined(self.reader)
        if sp.issparse(X) and X.nnz >= _DENSE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        return Chunk(X, y, weights)

    def why_streamed(self) -> str:
        """The note that the rows are streamed, and why."""
        from rich.filesize import decimal

        return (
            f"{self.name} would take some {decimal(int(self.needed))} in memory, and may take "
            f"{decimal(int(self.limit))} (--memory): it is streamed"
        )


@contextmanager
def opened(name: str, columns: DataOptions, wanted: Wanted | None = None) -> Iterator[DataFile]:
    """A data file; "-" is standard input."""
    with as_file(name) as path:
        shown = "standard input" if name == "-" else name
        file = None
        try:
            file = _data_file(name, shown, path, columns, wanted or Wanted())
            yield file
        except BadLineError as error:
            if str(error.path) != str(path):
                raise
            reason = error.reason
            if file is not None and file.format.kind == "csv":
                reason += " (--drop leaves a column out; aesvm fit takes text and missing values)"
            raise BadLineError(shown, error.line, reason) from error
        except CommandError as error:
            raise type(error)(str(error).replace(str(path), shown)) from error
        except (ValueError, EOFError) as error:
            said = str(error).replace(str(path), shown)
            changed = CommandError(said if shown in said else f"{shown}: {said}")
            changed.parameter = getattr(error, "parameter", None)  # type: ignore[attr-defined]
            raise changed from error


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


def _data_file(name: str, shown: str, path: Path, columns: DataOptions, wanted: Wanted) -> DataFile:
    found = format_of(path, columns.format, columns.delimiter, columns.header)
    if wanted.is_matrix and found.kind != "libsvm":
        raise UsageError(f"-t 4: {name} is not in LIBSVM's format.")
    _check_options(columns, found.kind, name)
    names, target, weight, needed = None, wanted.target, None, float(os.path.getsize(path))
    if found.kind == "libsvm":
        reader, width = _libsvm_reader(path, wanted)
        needed *= _COMPRESSED if found.compressed else _TEXT
    elif found.kind == "npy":
        reader, width = _array_reader(path, columns.target, wanted.needs_target)
    else:
        reader, roles, named = _table_reader(path, shown, found, columns, wanted)
        needed *= _COMPRESSED if found.compressed else 1.0
        needed = needed if found.kind == "csv" else _bytes_of_parquet(path)
        width = len(roles.features)
        target = weight = None
        if named:
            names = roles.feature_names
            target = None if roles.target is None else roles.names[roles.target]
            weight = None if roles.weight is None else roles.names[roles.weight]
    if wanted.text is None or found.kind == "npy":  # frames may have gaps
        reader = Changed(reader, checked(shown, names))
    if columns.weights_file:
        reader = Changed(reader, weights_of(columns.weights_file))
    return DataFile(name, found, reader, width, names, target, weight, needed, _limit(columns))


def _check_options(columns: DataOptions, kind: str, name: str) -> None:
    """Refuse options about columns that a format does not have."""
    what = {"libsvm": "LIBSVM's format", "npy": "an array", "parquet": "Parquet", "csv": "a table"}
    for option in _OPTIONS["csv"]:
        if getattr(columns, option) not in (None, ()) and option not in _OPTIONS[kind]:
            takes = ", ".join(f"--{one}" for one in _OPTIONS[kind]) or "no options of columns"
            raise UsageError(f"--{option}: {name} is {what[kind]}, which takes {takes}.")
    if columns.classes not in (None, *CLASSES):
        raise UsageError(f"--classes {columns.classes}: one of {', '.join(CLASSES)} is needed.")
    if columns.features == []:
        raise UsageError("--features: names of columns are needed, as a,b,c.")
    if columns.features is not None and columns.drop:
        raise UsageError("--features and --drop: columns are named, or left out, and not both.")
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


def _libsvm_reader(path: Path, wanted: Wanted) -> tuple[Any, int]:
    """A reader of LIBSVM's text, and its number of features.

    Of a kernel matrix, index 0 has the number of a row. Where a model is to be trained, and the
    number of features is not known, rows come in their order.
    """
    matrix, expected = wanted.is_matrix, wanted.n_features
    width = LibsvmReader(path, n_features=None, zero_based=matrix).n_features
    width = max(width, (expected or 1) + 1 if matrix else expected or 0)
    reader = LibsvmReader(path, n_features=width, zero_based=matrix)
    if not matrix:
        return reader, width

    def values(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
        n_rows = 0
        for X, y, _ in chunks:
            dense = X.toarray()
            numbers = np.arange(n_rows + 1, n_rows + 1 + len(dense))
            wrong = numbers[dense[:, 0] != numbers]
            if expected is None and len(wrong):
                raise CommandError(
                    f"{path}: row {wrong[0]} of the kernel matrix does not begin with 0:{wrong[0]}."
                )
            n_rows += len(dense)
            yield Chunk(np.ascontiguousarray(dense[:, 1:]), y, None)

    return Changed(reader, values), width - 1


def _table_reader(
    path: Path, shown: str, found: Format, columns: DataOptions, wanted: Wanted
) -> tuple[Any, Columns, bool]:
    """A reader of a table, the columns that it reads, and whether they have names."""
    names = found.names
    if found.kind == "parquet":
        names = ParquetReader(path, target=None).feature_names
    named = names is not None or wanted.text is not None
    names = names or list(map(str, range(found.n_columns)))
    roles = _roles(names, named, columns, wanted, shown)
    twice = [one for one in roles.used_names if names.count(one) > 1]
    if twice:
        raise CommandError(f"{shown}: two columns have the name {twice[0]!r}: give them others.")
    if wanted.text is not None:
        return FrameReader(path, found._replace(names=names), roles, wanted.text), roles, named
    if "" in roles.feature_names:
        raise CommandError(
            f"{shown}: a column has no name, as an index that pandas wrote has none: --drop leaves "
            "it out, by its number from 0."
        )
    target, features, weight = roles.target, roles.features, roles.weight
    if found.kind == "parquet":
        parquet = ParquetReader(path, target=target, features=features, weight=weight)
        return parquet, roles, named
    reader = CSVReader(
        path,
        target=target,
        features=features,
        weight=weight,
        header=found.header,
        delimiter=found.delimiter,
        classes=columns.classes or wanted.classes,
    )
    return reader, roles, named


def _some(names: list[str]) -> str:
    """Names of columns, for a message."""
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return f"{', '.join(names[:20])}{more}"


def _roles(
    names: list[str], named: bool, columns: DataOptions, wanted: Wanted, about: str
) -> Columns:
    """The target, the features and the weights among the columns of a table."""

    def position(option: str, given: str) -> int:
        """Where a column is, by its name or else by its number."""
        number = len(names)
        if given in names:
            number = names.index(given)
        elif given.removeprefix("-").isdecimal():
            number = int(given)
        if not -len(names) <= number < len(names):
            has = f", which has {_some(names)}" if named else ""
            raise UsageError(f"--{option} {given}: there is no such column in {about}{has}.")
        return number % len(names)

    target = None if columns.target is None else position("target", columns.target)
    weight = None if columns.weight is None else position("weight", columns.weight)
    dropped = [position("drop", one) for one in columns.drop]
    features = None
    if columns.features is not None:
        features = [position("features", one) for one in columns.features]
    if wanted.features is not None and named:  # in the order of the model
        _check_model_columns(wanted.features, names, features, dropped, about)
        features = list(map(names.index, wanted.features))
    expected = wanted.target or TARGET
    if target is None and named and expected in names:
        at = names.index(expected)
        target = None if at in (*(features or ()), *dropped, weight) else at
    if target is None and wanted.needs_target:
        listed = f", of {_some(names)}" if named else " by its number, from 0"
        raise UsageError(f"{about} is a table: --target says which column to learn{listed}.")
    if features is None:
        features = [at for at in range(len(names)) if at not in (target, weight, *dropped)]
    try:
        return RequestedColumns(target, features, weight).found(names, Path(about))
    except ValueError as error:
        raise UsageError(f"--{error}") from error


def _check_model_columns(
    trained_on: list[str], names: list[str], named: Any, dropped: list[int], about: str
) -> None:
    if named is not None and sorted(names[at] for at in named) != sorted(trained_on):
        listed = ", ".join(trained_on[:20])
        raise UsageError(f"--features: the model was trained on the columns {listed}.")
    for at in dropped:
        if names[at] in trained_on:
            raise UsageError(f"--drop {names[at]}: the model was trained on that column.")
    missing = [one for one in trained_on if one not in names]
    if missing:
        listed, more = ", ".join(map(repr, missing[:5])), ", ..." * (len(missing) > 5)
        others = [one for one in names if one not in trained_on][:20]
        has = f" It has {', '.join(map(repr, others))} besides." if others else ""
        raise CommandError(
            f"{about} has no column {listed}{more}, which the model was trained on.{has}"
        )


def _bytes_of_parquet(path: Path) -> float:
    import pyarrow.dataset as ds

    whole = ds.dataset(path, format="parquet")
    return 8.0 * whole.count_rows() * len(whole.schema)


def _array_reader(path: Path, target: str | None, needs_target: bool) -> tuple[Any, int]:
    """A reader of an array, and its number of features."""
    is_file = target is not None and Path(target).suffix == ".npy"
    reader: Any = NpyReader(path, target if is_file else None)
    width = next(iter(NpyReader(path, chunk_rows=1))).X.shape[1]
    if target is None and needs_target:
        raise UsageError(f"{path} is an array: --target is the number of a column, or a .npy file.")
    if target is None or is_file:
        return reader, width
    try:
        at = range(width)[int(target)]
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"--target {target}: a column from 0 to {width - 1}, or a .npy file, is needed."
        ) from error

    def split(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
        for X, *_ in chunks:
            yield Chunk(np.delete(X, at, axis=1), X[:, at], None)

    return Changed(reader, split), width - 1


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


#: Rows of a frame, where a table is read piece by piece.
FRAME_ROWS = 65_536


class FrameReader:
    """A re-iterable of chunks whose rows are frames; rows without a target are left out.

    ``text``: columns that are read as text, whatever they look like.
    """

    def __init__(self, path: Path, found: Format, roles: Columns, text: list[str]) -> None:
        self.path, self.format, self.text = path, found, text
        self.columns, self.features = roles.used_names, roles.feature_names
        self.target, self.weight = roles.by_name.target, roles.by_name.weight

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size

    def __iter__(self) -> ChunkIterator:
        return ChunkIterator(self._chunks(), ReadProgress())

    def _chunks(self) -> Generator[Chunk, None, None]:
        for frame in self._frames(FRAME_ROWS):
            yield self._chunk(frame)

    def whole(self) -> Chunk:
        """All rows, with the types that whole columns have."""
        return self._chunk(next(self._frames(None)))

    def _frames(self, n_rows: int | None) -> Iterator[pd.DataFrame]:
        if self.format.kind == "parquet":
            import pyarrow.dataset as ds

            whole = ds.dataset(self.path, format="parquet")
            if n_rows is None:
                yield whole.to_table(columns=self.columns).to_pandas()
                return
            for batch in whole.to_batches(columns=self.columns, batch_size=n_rows):
                if batch.num_rows:
                    yield batch.to_pandas()
            return
        import pandas as pd

        options: dict[str, Any] = {
            "sep": self.format.delimiter,
            "names": self.format.names,
            "header": 0 if self.format.header else None,
            "usecols": self.columns,
            "dtype": dict.fromkeys(self.text, "str"),
            "compression": self.format.compressed,
            "skipinitialspace": True,
            "low_memory": False,
        }
        if n_rows is None:
            yield pd.read_csv(self.path, **options)
            return
        with pd.read_csv(self.path, chunksize=n_rows, **options) as frames:
            yield from frames

    def _chunk(self, frame: pd.DataFrame) -> Chunk:
        y = weights = None
        if self.target is not None:
            known = frame[self.target].notna()
            if not known.all():
                n_missing = int((~known).sum())
                warn(f"{n_missing:,} rows without a target (empty, NA, null, ...) are left out.")
                frame = frame[known]
            y = _targets(frame[self.target])
        if self.weight is not None:
            from aesvm.tabular import column_of_numbers

            weights = column_of_numbers(frame[self.weight]).to_numpy()
        return Chunk(frame[self.features], y, weights)


def _targets(values: pd.Series) -> NDArray:
    """Numbers as they are, all else as text."""
    if values.dtype.kind in "iuf":
        return values.to_numpy()
    return values.astype(str).to_numpy(dtype=str)
