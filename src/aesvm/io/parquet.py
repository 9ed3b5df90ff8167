"""Parquet files, streamed in batches by pyarrow (which is imported when it is needed)."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aesvm.io.base import CHUNK_ROWS, Chunk, ChunkReader, Progress, no_rows
from aesvm.io.columns import Column, Wanted

#: Bytes of a column that are read from a file at once.
_BUFFER_BYTES = 1 << 18


class ParquetReader(ChunkReader):
    """Chunks of one or more Parquet files, as dense arrays.

    Columns are streamed: neither files nor row groups are held in memory. Values are not
    looked at, except that missing ones (nulls) are refused.

    Parameters
    ----------
    path : str or path, or list of them
        A file, or several, which are read in this order, or a folder, whose ``.parquet`` files
        are read in the order of their names, those of its folders included. Names that begin
        with a dot or an underscore are passed over. Columns made of folders' names
        (``year=2024``) are not.
    target : str, int or None
        The column of classes, by name or position: numbers or strings. None where there is
        none.
    features : list of str or int, default=None
        The columns of X, in this order. None takes all that are neither target nor weight.
    weight : str or int, default=None
        The column of weights.
    chunk_rows : int, default=65_536
        Rows of a chunk, which may come from several files; the last may have fewer.
    dtype : numpy dtype, default=numpy.float64
        The type of X.

    Attributes
    ----------
    n_bytes : int
        Size of the files.
    position : int
        Bytes of the files that the iterator begun last has read, by its share of each file's
        rows. Every iterator has its own ``position``.
    n_skipped : int
        Always 0.

    Raises
    ------
    ImportError
        Where pyarrow is not installed.
    ValueError
        While iterating: a column that is not there, is not of numbers, or has nulls.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa  # doctest: +SKIP
    >>> import pyarrow.parquet as pq  # doctest: +SKIP
    >>> from aesvm.io import ParquetReader
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
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
        if np.dtype(dtype).kind != "f":
            raise ValueError(f"dtype={dtype!r}: a type of floating point numbers is needed.")
        super().__init__(_files(path), chunk_rows)
        self.wanted = Wanted(target, features, weight)
        self.dtype = np.dtype(dtype)

    def _chunks(self, progress: Progress) -> Generator[Chunk, None, None]:
        held: list[Chunk] = []
        n_held = 0
        before = 0
        empty = True
        named, text = self._by_name(self.paths[0])
        for path in self.paths:
            size = path.stat().st_size
            for part, share in self._parts(path, named, text):
                progress.position = before + int(size * share)
                held.append(part)
                n_held += len(part.X)
                while n_held >= self.chunk_rows:
                    over = n_held - self.chunk_rows
                    last = held[-1]
                    held[-1] = _rows(last, slice(len(last.X) - over))
                    yield _joined(held)
                    empty = False
                    held = [_rows(last, slice(len(last.X) - over, None))] if over else []
                    n_held = over
            before += size
            progress.position = before
        if held:
            yield _joined(held)
        elif empty:
            raise no_rows(self.paths[0])

    def _by_name(self, path: Path) -> tuple[Wanted, bool]:
        """The columns by the names they have in the first file, and whether classes are text."""
        pa, pq = _pyarrow()
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{path}: this is not a Parquet file, or it is damaged or cut short ({error})."
            ) from error
        columns = self.wanted.found(schema.names, path)
        target, weight = (
            None if position is None else schema.names[position]
            for position in (columns.target, columns.weight)
        )
        named = Wanted(target, [schema.names[position] for position in columns.features], weight)
        return named, target is not None and _is_text(pa, schema.field(target).type)

    def _parts(
        self, path: Path, wanted: Wanted, text: bool
    ) -> Generator[tuple[Chunk, float], None, None]:
        """The rows of a file in batches, each with the share of the file read by then."""
        pa, pq = _pyarrow()
        try:
            with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
                schema = file.schema_arrow
                columns = wanted.found(schema.names, path)
                if len(set(schema.names)) < len(schema.names):
                    raise ValueError(f"{path}: columns share names: {schema.names}.")
                features = [schema.names[position] for position in columns.features]
                target, weight = (
                    None if position is None else schema.names[position]
                    for position in (columns.target, columns.weight)
                )
                for name in [*features, *([weight] if weight else [])]:
                    _check_numbers(pa, schema.field(name), path)
                if target is not None:
                    _check_classes(pa, schema.field(target), path)
                    if _is_text(pa, schema.field(target).type) != text:
                        raise ValueError(
                            f"{path}: column {target!r} is of type {schema.field(target).type}, "
                            f"and holds {'strings' if text else 'numbers'} in the first file."
                        )
                asked = [name for name in (*features, target, weight) if name is not None]
                read = 0
                batches = file.iter_batches(
                    min(self.chunk_rows, CHUNK_ROWS), columns=asked, use_threads=False
                )
                for batch in batches:
                    if not len(batch):
                        continue
                    X = np.empty((len(batch), len(features)), dtype=self.dtype)
                    for place, name in enumerate(features):
                        X[:, place] = _values(pa, batch, name, path)
                    y = None if target is None else _values(pa, batch, target, path).copy()
                    weights = None
                    if weight is not None:
                        weights = _values(pa, batch, weight, path).astype(np.float64)
                    read += len(batch)
                    yield Chunk(X, y, weights), read / file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{path}: this is not a Parquet file, or it is damaged or cut short ({error})."
            ) from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "ParquetReader needs pyarrow, which is not installed: pip install pyarrow"
        ) from error
    return pyarrow, pyarrow.parquet


def _files(path: str | os.PathLike | Iterable[str | os.PathLike]) -> list[Path]:
    if not isinstance(path, str | os.PathLike):
        files = [Path(each) for each in path]
        if not files:
            raise ValueError("path=[]: at least one file is needed.")
        return files
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    files = sorted(
        file
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    )
    if not files:
        raise FileNotFoundError(f"There is no .parquet file in {str(folder)!r}.")
    return files


def _check_numbers(pa: Any, field: Any, path: Path) -> None:
    is_a = pa.types
    kinds = (is_a.is_integer, is_a.is_floating, is_a.is_boolean, is_a.is_decimal)
    if not any(kind(field.type) for kind in kinds):
        raise ValueError(
            f"{path}: column {field.name!r} is of type {field.type}, where numbers are needed. "
            "Name the columns to read in features."
        )


def _is_text(pa: Any, kind: Any) -> bool:
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(held) or pa.types.is_large_string(held)


def _check_classes(pa: Any, field: Any, path: Path) -> None:
    is_a = pa.types
    held = field.type.value_type if is_a.is_dictionary(field.type) else field.type
    kinds = (is_a.is_integer, is_a.is_floating, is_a.is_boolean, is_a.is_string)
    if not any(kind(held) for kind in (*kinds, is_a.is_large_string)):
        raise ValueError(
            f"{path}: column {field.name!r} is of type {field.type}, where classes are needed: "
            "numbers or strings."
        )


def _values(pa: Any, batch: Any, name: str, path: Path) -> NDArray:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"{path}: column {name!r} has missing values (nulls).")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values = column.to_numpy(zero_copy_only=False)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return values.astype(str) if text else values


def _rows(chunk: Chunk, rows: slice) -> Chunk:
    return Chunk(*(None if part is None else part[rows] for part in chunk))


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        *(
            None if parts[0] is None else np.concatenate(parts)
            for parts in zip(*chunks, strict=True)
        )
    )
