"""Arrays in NumPy's own files, mapped into memory and copied a few rows at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aesvm.io.base import CHUNK_ROWS, Chunk, ChunkReader, ReadProgress

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
    n_bytes, position, n_skipped : int
        See :class:`ChunkReader`.

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

    def _chunks(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        X = _mapped(self.X_path, n_dims=2)
        y = None if self.y_path is None else _mapped(self.y_path, n_dims=1, strings=True)
        weights = None if self.weight_path is None else _mapped(self.weight_path, n_dims=1)
        for path, column in ((self.y_path, y), (self.weight_path, weights)):
            if column is not None and len(column) != len(X):
                raise ValueError(
                    f"{path}: {len(column)} values for the {len(X)} rows of {self.X_path}."
                )
        n_bytes = self.n_bytes
        for start in range(0, len(X), self.chunk_rows):
            stop = min(start + self.chunk_rows, len(X))
            progress.position = n_bytes * stop // len(X)
            yield Chunk(
                _rows(X, start, stop),
                None if y is None else _text(_rows(y, start, stop), self.y_path, start),
                None if weights is None else _rows(weights, start, stop),
            )


def _mapped(path: Path, n_dims: int, strings: bool = False) -> np.memmap:
    """The array of a file, mapped into memory."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path}: this is not a .npy file.")
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # of any kind: the header is read as Python's text
        if "object" in str(error).lower():
            raise ValueError(
                f"{path}: the array has Python objects, which are not read: save numbers, or "
                'strings by array.astype("U").'
            ) from error
        raise ValueError(
            f"{path}: the array cannot be mapped; is the file cut short? ({error})"
        ) from error
    if mapped.dtype.kind not in ("biufUS" if strings else "biuf"):
        needed = "numbers or strings are" if strings else "numbers are"
        raise ValueError(f"{path}: values of type {mapped.dtype}, where {needed} needed.")
    if mapped.ndim != n_dims:
        raise ValueError(f"{path}: an array of shape {mapped.shape}, where {n_dims}-D is needed.")
    return mapped


def _rows(mapped: np.memmap, start: int, stop: int) -> NDArray:
    """A copy of rows. To touch a map of a file that was cut short would end the process."""
    path = Path(str(mapped.filename))
    if path.stat().st_size < mapped.offset + mapped.nbytes:
        raise ValueError(f"{path}: the file was cut short while it was read.")
    return np.array(mapped[start:stop])


def _text(values: NDArray, path: Path | None, start: int) -> NDArray:
    """Classes, of which bytes are decoded and strings checked."""
    if values.dtype.kind == "U":
        codes = values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
        if (codes > sys.maxunicode).any():  # Python does not look, and goes wrong later
            raise ValueError(f"{path}: damaged strings, in rows from {start} on.")
    if values.dtype.kind != "S":
        return values
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: classes of type {values.dtype} that are not UTF-8, in rows from {start} on "
            f"({error}): decode them, and save an array of str."
        ) from error
