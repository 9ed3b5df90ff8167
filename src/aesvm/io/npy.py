"""Arrays in NumPy's own files, mapped into memory and handed out in slices."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aesvm.io.base import CHUNK_ROWS, Chunk, ChunkReader, Progress, no_rows

_MAGIC = b"\x93NUMPY"


class NpyReader(ChunkReader):
    """Chunks of ``.npy`` files, as read-only slices of memory maps.

    Nothing is copied: a slice is read from disk when it is used. Values keep the type that
    they have in the file, and are not looked at. Files that hold Python objects are refused;
    nothing is ever unpickled.

    Parameters
    ----------
    X_path : str or path
        The rows: an array of shape (n_samples, n_features). Chunks of an array in Fortran's
        order are read from all over the file.
    y_path : str or path, default=None
        Their classes: an array of shape (n_samples,).
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
        X = _mapped(self.X_path, n_dims=2)
        if len(X) == 0:
            raise no_rows(self.X_path)
        y = None if self.y_path is None else _mapped(self.y_path, n_dims=1, strings=True)
        weights = None if self.weight_path is None else _mapped(self.weight_path, n_dims=1)
        for path, column in ((self.y_path, y), (self.weight_path, weights)):
            if column is not None and len(column) != len(X):
                raise ValueError(
                    f"{path}: {len(column)} values for the {len(X)} rows of {self.X_path}."
                )
        n_bytes = self.n_bytes
        for start in range(0, len(X), self.chunk_rows):
            rows = slice(start, min(start + self.chunk_rows, len(X)))
            progress.position = n_bytes * rows.stop // len(X)
            yield Chunk(
                X[rows],
                None if y is None else y[rows],
                None if weights is None else weights[rows],
            )


def _mapped(path: Path, n_dims: int, strings: bool = False) -> NDArray:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path}: this is not a .npy file.")
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"{path}: the array cannot be mapped; is the file cut short? ({error})"
        ) from error
    kinds = "biufUS" if strings else "biuf"
    if mapped.dtype.kind not in kinds:
        raise ValueError(f"{path}: values of type {mapped.dtype}, where numbers are needed.")
    if mapped.ndim != n_dims:
        raise ValueError(f"{path}: an array of shape {mapped.shape}, where {n_dims}-D is needed.")
    return np.asarray(mapped)
