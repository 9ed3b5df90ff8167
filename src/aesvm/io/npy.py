"""Arrays in NumPy's own files, read a few rows at a time.

Files are read and not mapped into memory: to touch a map of a file that has been cut short since
ends the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aesvm.io.base import CHUNK_ROWS, Chunk, ChunkReader, Progress, no_rows

_MAGIC = b"\x93NUMPY"


class NpyReader(ChunkReader):
    """Chunks of ``.npy`` files.

    Values keep the type that they have in the file, and are not looked at; classes that are
    bytes are decoded as UTF-8. Files that hold Python objects are refused; nothing is ever
    unpickled.

    Parameters
    ----------
    X_path : str or path
        The rows: an array of shape (n_samples, n_features). Chunks of an array in Fortran's
        order are read from all over the file.
    y_path : str or path, default=None
        Their classes: an array of shape (n_samples,), of numbers or strings.
    weight_path : str or path, default=None
        Their weights: an array of shape (n_samples,).
    chunk_rows : int, default=65_536
        Rows of a chunk; the last may have fewer.

    Attributes
    ----------
    n_bytes : int
        Size of the files.
    position : int
        Bytes of the files that the iterator begun last has handed out, by its share of the
        rows. Every iterator has its own ``position``.
    n_skipped : int
        Always 0.

    Raises
    ------
    ValueError
        While iterating: a file that is no such array, or is cut short, even meanwhile.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from aesvm.io import NpyReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "X.npy"), np.arange(6.0).reshape(3, 2))
    ...     np.save(Path(folder, "y.npy"), np.array([0, 1, 1]))
    ...     reader = NpyReader(Path(folder, "X.npy"), Path(folder, "y.npy"), chunk_rows=2)
    ...     for X, y, _ in reader:
    ...         print(y, X.tolist())
    [0 1] [[0.0, 1.0], [2.0, 3.0]]
    [1] [[4.0, 5.0]]
    """

    def __init__(
        self,
        X_path: str | os.PathLike,
        y_path: str | os.PathLike | None = None,
        weight_path: str | os.PathLike | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self.X_path = Path(X_path)
        self.y_path = None if y_path is None else Path(y_path)
        self.weight_path = None if weight_path is None else Path(weight_path)
        paths = [path for path in (self.X_path, self.y_path, self.weight_path) if path]
        super().__init__(paths, chunk_rows)

    def _chunks(self, progress: Progress) -> Generator[Chunk, None, None]:
        with ExitStack() as files:
            X = files.enter_context(_Array(self.X_path, n_dims=2))
            if len(X) == 0:
                raise no_rows(self.X_path)
            y, weights = (
                None if path is None else files.enter_context(_Array(path, 1, strings))
                for path, strings in ((self.y_path, True), (self.weight_path, False))
            )
            for column in (y, weights):
                if column is not None and len(column) != len(X):
                    raise ValueError(
                        f"{column.path}: {len(column)} values for the {len(X)} rows of {X.path}."
                    )
            n_bytes = self.n_bytes
            for start in range(0, len(X), self.chunk_rows):
                stop = min(start + self.chunk_rows, len(X))
                progress.position = n_bytes * stop // len(X)
                yield Chunk(
                    X.rows(start, stop),
                    None if y is None else y.rows(start, stop),
                    None if weights is None else weights.rows(start, stop),
                )


class _Array:
    """An array in a file that is open while it is used in ``with``."""

    def __init__(self, path: Path, n_dims: int, strings: bool = False) -> None:
        self.path = path
        mapped = _mapped(path)
        if mapped.dtype.kind not in ("biufUS" if strings else "biuf"):
            needed = "numbers or strings are" if strings else "numbers are"
            raise ValueError(f"{path}: values of type {mapped.dtype}, where {needed} needed.")
        if mapped.ndim != n_dims:
            raise ValueError(
                f"{path}: an array of shape {mapped.shape}, where {n_dims}-D is needed."
            )
        self.shape = mapped.shape
        self.dtype = mapped.dtype
        self.by_columns = n_dims == 2 and not mapped.flags.c_contiguous
        self.offset = mapped.offset

    def __len__(self) -> int:
        return self.shape[0]

    def __enter__(self) -> _Array:
        self.file = FileIO(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def rows(self, start: int, stop: int) -> NDArray:
        if self.by_columns:
            values = np.empty((self.shape[1], stop - start), dtype=self.dtype)
            for column in range(self.shape[1]):
                self._read(values[column], column * len(self) + start)
            return values.T
        values = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        self._read(values, start * (values.size // len(values)))
        if self.dtype.kind == "U":
            self._check_text(values, start)
        return self._decoded(values, start) if self.dtype.kind == "S" else values

    def _read(self, values: NDArray, first: int) -> None:
        """Fill an array, contiguous in memory, with values of the file from the ``first``."""
        held = values.reshape(-1).view(np.uint8).data
        self.file.seek(self.offset + first * self.dtype.itemsize)
        while held:
            n_read = self.file.readinto(held)
            if not n_read:
                raise ValueError(f"{self.path}: the file was cut short while it was read.")
            held = held[n_read:]

    def _check_text(self, values: NDArray, start: int) -> None:
        """Refuse what is no character: Python does not look, and goes wrong later."""
        codes = values.view(np.dtype(np.uint32).newbyteorder(self.dtype.byteorder))
        if (codes > sys.maxunicode).any():
            raise ValueError(f"{self.path}: damaged strings, in rows from {start} on.")

    def _decoded(self, values: NDArray, start: int) -> NDArray:
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path}: classes of type {self.dtype} that are not UTF-8, in rows from "
                f"{start} on ({error}): decode them, and save an array of str."
            ) from error


def _mapped(path: Path) -> np.memmap:
    """The array as a map, whose values are not touched: what the file says of it is right."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path}: this is not a .npy file.")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # of any kind: the header is read as Python's text
        if "object" in str(error).lower():
            raise ValueError(
                f"{path}: the array has Python objects, which are not read: save numbers, or "
                'strings by array.astype("U").'
            ) from error
        raise ValueError(
            f"{path}: the array cannot be mapped; is the file cut short? ({error})"
        ) from error
