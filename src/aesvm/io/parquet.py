"""Parquet files, streamed in batches by pyarrow (which is imported when it is needed)."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aesvm.io.base import CHUNK_ROWS, Chunk, ChunkReader, ReadProgress, needs_pyarrow, rechunked
from aesvm.io.columns import Column, Columns, RequestedColumns, fault_of

#: Bytes of a column that are read from a file at once.
_BUFFER_BYTES = 1 << 18

#: What pandas names an index that has no name.
_INDEX_LEVEL = re.compile("__index_level_[0-9]+__|__null_dask_index__")


class ParquetReader(ChunkReader):
    """Chunks of one or more Parquet files, as dense arrays.

    Columns are streamed: neither files nor row groups are held in memory. Values are not
    looked at, except that missing ones (nulls) are refused.

    Parameters
    ----------
    path : str or path, or list of them
        A file, or several, which are read in this order, or a folder, whose ``.parquet`` files
        are read in the order of their names, those of its folders included. Links are
        followed; a file or folder that has several names in it is read once. Names that begin
        with a dot or an underscore are passed over. Columns are not made of folders' names
        (``year=2024``).
    target : str, int or None
        The column of classes, by name or position: numbers or strings. None where there is
        none.
    features : list of str or int, default=None
        The columns of X, in this order. None takes all that are neither target nor weight, nor
        the index of a pandas or Dask dataframe: it is no column there, so positions do not
        count it either, and it is read only where it is named. ``feature_names`` tells.
    weight : str or int, default=None
        The column of weights.
    chunk_rows : int, default=65_536
        Rows of a chunk, which may come from several files; the last may have fewer.
    dtype : numpy dtype, default=numpy.float64
        The type of X.

    Attributes
    ----------
    feature_names : list of str
        The columns of X. Asking for them reads the end of the first file.
    n_bytes, position, n_skipped : int
        See :class:`ChunkReader`.

    Raises
    ------
    ImportError
        Where pyarrow is not installed.
    ValueError
        While iterating: a column that is not there, is not of numbers, or has nulls; classes
        of more than 1000 characters, or that the type they have in the first file cannot hold.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from aesvm.io import ParquetReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.parquet")
    ...     pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "kind": ["x", "y", "x"]}), path)
    ...     for X, y, _ in ParquetReader(path, target="kind", chunk_rows=2):
    ...         print(y, X.tolist())
    ['x' 'y'] [[1.0], [2.0]]
    ['x'] [[3.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike | Iterable[str | os.PathLike],
        *,
        target: Column | None,
        features: Sequence[Column] | None = None,
        weight: Column | None = None,
        chunk_rows: int = CHUNK_ROWS,
        dtype: DTypeLike = np.float64,
    ) -> None:
        _pyarrow()
        self.dtype = _floating(dtype)
        super().__init__(_files(path), chunk_rows)
        self.wanted = RequestedColumns(target, features, weight)

    def _chunks(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        return rechunked(self._all_parts(progress), self.chunk_rows)

    def _all_parts(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        before = 0
        first, classes = self._first()
        for path in self.paths:
            size = path.stat().st_size
            for part, share in self._parts(path, first.by_name, classes):
                progress.position = before + int(size * share)
                yield part
            before += size
            progress.position = before

    @property
    def feature_names(self) -> list[str]:
        return self._first()[0].feature_names

    def _first(self) -> tuple[Columns, Any]:
        """The columns of the first file, and the type that classes have there."""
        pa, pq = _pyarrow()
        path = self.paths[0]
        with _damage_named(pa, path):
            schema = pq.read_schema(path)
        columns = _found(self.wanted, schema, path)
        if columns.target is None:
            return columns, None
        field = schema.field(columns.target)
        return columns, _type_of_classes(pa, field, path)

    def _parts(
        self, path: Path, wanted: RequestedColumns, classes: Any
    ) -> Generator[tuple[Chunk, float], None, None]:
        """The rows of a file in batches, each with the fraction of the file read by then."""
        pa, pq = _pyarrow()
        with (
            _damage_named(pa, path),
            pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            schema = file.schema_arrow
            asked = _found(wanted, schema, path)
            for position in (*asked.features, asked.weight):
                if position is not None:
                    _check_numbers(pa, schema.field(position), path)
            if asked.target is not None:
                field = schema.field(asked.target)
                _check_same_kind(pa, _type_of_classes(pa, field, path), classes, field, path)
            read = 0
            batches = file.iter_batches(
                min(self.chunk_rows, CHUNK_ROWS), columns=asked.used_names, use_threads=False
            )
            for batch in batches:
                if not len(batch):
                    continue
                read += len(batch)
                yield self._chunk(pa, batch, asked, classes, path), read / file.metadata.num_rows

    def _chunk(self, pa: Any, batch: Any, asked: Columns, classes: Any, path: Path) -> Chunk:
        names = asked.names
        X = np.empty((len(batch), len(asked.features)), dtype=self.dtype)
        for place, name in enumerate(asked.feature_names):
            X[:, place] = _numbers(_whole(pa, batch, name, path))
        y = weights = None
        if asked.target is not None:
            name = names[asked.target]
            y = _classes(pa, _whole(pa, batch, name, path), classes, name, path)
        if asked.weight is not None:
            column = _whole(pa, batch, names[asked.weight], path)
            weights = _numbers(column).astype(np.float64)
        return Chunk(X, y, weights)


def _pyarrow() -> tuple[Any, Any]:
    needs_pyarrow("ParquetReader")
    import pyarrow
    import pyarrow.parquet

    return pyarrow, pyarrow.parquet


@contextmanager
def _damage_named(pa: Any, path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: this is not a Parquet file, or it is damaged or cut short ({error})."
        ) from error


def _floating(dtype: Any) -> np.dtype:
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        found = np.dtype(object)
    if found.kind != "f":
        raise ValueError(f"dtype={dtype!r}: a type of floating point numbers is needed.")
    return found


def _files(path: str | os.PathLike | Iterable[str | os.PathLike]) -> list[Path]:
    if not isinstance(path, Iterable | os.PathLike):
        raise TypeError(f"path={path!r}: the name of a file or folder is needed, or several.")
    if not isinstance(path, str | os.PathLike):
        files = [Path(each) for each in path]
        if not files:
            raise ValueError("path=[]: at least one file is needed.")
        return files
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    seen, files = {folder.resolve()}, []
    for place, folders, names in os.walk(folder, followlinks=True):
        shown = [one for one in sorted(folders) if one[0] not in "._"]
        below = {Path(place, one).resolve(): one for one in shown}
        folders[:] = sorted(below[one] for one in below.keys() - seen)
        seen |= below.keys()
        found = (Path(place, one) for one in names if one[0] not in "._")
        files += [file for file in found if file.suffix.lower() == ".parquet"]
    files.sort()
    if not files:
        raise FileNotFoundError(f"There is no .parquet file in {str(folder)!r}.")
    # one that has several names is read by the first of them
    return list({file.resolve(): file for file in reversed(files)}.values())[::-1]


def _found(wanted: RequestedColumns, schema: Any, path: Path) -> Columns:
    if len(set(schema.names)) < len(schema.names):
        raise ValueError(f"{path}: columns share names: {schema.names}.")
    return wanted.found(schema.names, path, _index(schema, path))


def _index(schema: Any, path: Path) -> set[str]:
    """The columns that hold the index of a dataframe, as pandas says or names them."""
    unnamed = {name for name in schema.names if _INDEX_LEVEL.fullmatch(name)}
    try:
        levels = (schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: pandas' metadata on the columns is damaged ({error})."
        ) from error
    # a range is described by a dict, and no column
    return unnamed | {level for level in levels if isinstance(level, str)}


def _check_numbers(pa: Any, field: Any, path: Path) -> None:
    is_a = pa.types
    kinds = (is_a.is_integer, is_a.is_floating, is_a.is_boolean, is_a.is_decimal)
    if not any(kind(field.type) for kind in kinds):
        raise ValueError(
            f"{path}: column {field.name!r} is of type {field.type}, where numbers are needed. "
            "Name the columns to read in features."
        )


def _is_text(pa: Any, kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _type_of_classes(pa: Any, field: Any, path: Path) -> Any:
    """The type of y; wide enough for the classes of further files."""
    is_a = pa.types
    held = field.type.value_type if is_a.is_dictionary(field.type) else field.type
    if _is_text(pa, held):
        return pa.large_string()
    if is_a.is_boolean(held) or is_a.is_uint64(held):
        return held
    if is_a.is_integer(held):
        return pa.int64()
    if is_a.is_floating(held):
        return pa.float64()
    raise ValueError(
        f"{path}: column {field.name!r} is of type {field.type}, where classes are needed: "
        "numbers or strings."
    )


def _check_same_kind(pa: Any, kind: Any, first: Any, field: Any, path: Path) -> None:
    for is_a, name in ((_is_text, "strings"), (_is_boolean, "booleans")):
        if is_a(pa, kind) != is_a(pa, first):
            there = name if is_a(pa, first) else "numbers"
            raise ValueError(
                f"{path}: column {field.name!r} is of type {field.type}, and holds {there} in "
                "the first file."
            )


def _is_boolean(pa: Any, kind: Any) -> bool:
    return pa.types.is_boolean(kind)


def _whole(pa: Any, batch: Any, name: str, path: Path) -> Any:
    """A column without nulls, and without a dictionary."""
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise ValueError(f"{path}: column {name!r} has missing values (nulls).")
    return column


def _numbers(column: Any) -> NDArray:
    return column.to_numpy(zero_copy_only=False)


def _classes(pa: Any, column: Any, kind: Any, name: str, path: Path) -> NDArray:
    try:
        values = column.cast(kind).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"{path}: column {name!r} has classes that {kind}, the type they have in the first "
            f"file, cannot hold ({error}): write all files with one type."
        ) from error
    if not _is_text(pa, kind):
        return values.copy()
    for value in set(values):
        if fault := fault_of(value):
            raise ValueError(f"{path}: column {name!r}: {fault}.")
    return values.astype(str)
