"""What every kernel matrix offers, whatever fills it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Kernel values beyond this are refused: their squares and sums must stay finite.
LARGEST = 1e15


class KernelMatrix(ABC):
    """The kernel matrix of ``n_rows`` training rows.

    Attributes
    ----------
    n_rows : int
    dtype : numpy.dtype
        Of the values computed.
    """

    n_rows: int
    dtype: np.dtype

    @abstractmethod
    def square(self, rows: NDArray[np.intp], out: NDArray | None = None) -> NDArray:
        """Kernel values of the given rows against themselves, symmetric.

        ``out`` is an array of the block's shape to write to, where the caller has one.
        """

    @abstractmethod
    def columns(self, rows: NDArray[np.intp]) -> Columns:
        """The given rows, made ready to be the columns of many blocks."""

    @abstractmethod
    def diag(self, rows: NDArray[np.intp]) -> NDArray:
        """Kernel value of each of the given rows with itself."""

    @abstractmethod
    def bound(self, rows: NDArray[np.intp]) -> float:
        """What no kernel value of the given rows exceeds in magnitude."""

    def block(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> NDArray:
        """Kernel values of the given rows against the given columns."""
        columns = self.columns(cols)
        return columns.values(columns.lines(rows), len(rows))

    def cross(self, X_new, cols: NDArray[np.intp]) -> NDArray:
        """Kernel values of new rows against the given training rows."""
        columns = self.columns(cols)
        return columns.values(columns.new_lines(X_new), X_new.shape[0])


def bounded(kernel: KernelMatrix, name: Any, rows: NDArray[np.intp]) -> float:
    """What no kernel value of the rows exceeds, refused where it is too large."""
    largest = kernel.bound(rows)
    if not largest <= LARGEST:
        raise ValueError(
            f"kernel={name!r} has values as large as {largest:.3g} on this data, more "
            f"than {LARGEST:g}: scale the data, or lower gamma or degree."
        )
    return largest


class Columns(ABC):
    """Some training rows as columns of the kernel matrix, for blocks of any lines."""

    dtype: np.dtype

    @abstractmethod
    def __len__(self) -> int:
        """How many columns there are."""

    @abstractmethod
    def take(self, positions: NDArray[np.intp]) -> Columns:
        """Some of these columns, in the given order."""

    @abstractmethod
    def lines(self, rows: NDArray[np.intp]) -> Any:
        """Training rows made ready to be the lines of a block: for ``write``."""

    @abstractmethod
    def new_lines(self, X_new) -> Any:
        """The same for rows that are not training rows."""

    @abstractmethod
    def write(self, lines: Any, start: int, stop: int, out: NDArray) -> None:
        """Kernel values of the lines against columns ``start`` to ``stop``, into ``out``.

        ``out`` is contiguous, of this object's ``dtype``. Safe to call from several threads.
        """

    def values(self, lines: Any, n_lines: int) -> NDArray:
        """The lines against all columns."""
        out = np.empty((n_lines, len(self)), dtype=self.dtype)
        self.write(lines, 0, len(self), out)
        return out


class PlainColumns(Columns):
    """Rows as they are, for a function that takes lines, columns and where to write."""

    def __init__(
        self, X: Any, vectors: Any, fill: Callable[[Any, Any, NDArray], None], dtype: np.dtype
    ) -> None:
        self.X = X
        self.vectors = vectors
        self.fill = fill
        self.dtype = dtype

    def __len__(self):
        return self.vectors.shape[0]

    def take(self, positions):
        return PlainColumns(self.X, self.vectors[positions], self.fill, self.dtype)

    def lines(self, rows):
        return self.X[rows]

    def new_lines(self, X_new):
        return X_new

    def write(self, lines, start, stop, out):
        self.fill(lines, self.vectors[start:stop], out)
