"""What every kernel matrix offers, whatever fills it, and the arrays that values are held in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from aesvm.kernels import blocks, expansion
from aesvm.kernels.crew import Crew, KeptRows, add_rows, store_rows
from aesvm.kernels.distances import KernelDistances, RowDistances

if TYPE_CHECKING:
    from aesvm.kernels.tiles import RowsByClass


class Arrays:
    """The arrays that hold kernel values, and how they are computed with.

    NumPy's functions hand arrays of a device on to its own, so that most code is the same for all
    arrays; here is how new ones are made.
    """

    def put(self, values: NDArray) -> Any:
        """An array of the host as one of these."""
        return values

    def zeros(self, shape: int | tuple[int, ...]) -> Any:
        """Zeros in double precision."""
        return np.zeros(shape)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """An array that is not initialised."""
        return np.empty(shape, dtype=dtype)

    def threads(self, run: Callable) -> Callable:
        """How calls that compute are made: by ``run``, a parallel map, or one after another."""
        return run

    def either(self, of_host: Any, of_device: Any) -> Any:
        """The one of two constants that is for these arrays."""
        return of_host

    def free_bytes(self) -> float | None:
        """Bytes that a device has left for more of them; None of the host."""
        return None


#: Those of the host.
HOST = Arrays()


def dense(rows: Any) -> NDArray[np.float64]:
    """Rows as an array in double precision.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from aesvm.kernels.matrix import dense
    >>> dense(sp.csr_array([[0, 1]]))
    array([[0., 1.]])
    """
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


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
    arrays: Arrays = HOST  #: what values are computed as, by ``square_there`` and others

    @abstractmethod
    def square(self, rows: NDArray[np.intp], out: NDArray | None = None) -> NDArray:
        """Kernel values of the given rows against themselves, symmetric.

        ``out`` is an array of the block's shape to write to, where the caller has one.
        """

    def square_by(self, rows: NDArray[np.intp], columns: Columns, crew: Crew) -> NDArray:
        """The same by the threads of a crew, where they compute it; ``columns``: of these rows."""
        return self.square(rows)

    def square_there(self, rows: NDArray[np.intp]) -> Any:
        """The same, as an array of the kind that ``arrays`` has."""
        return self.square(rows)

    @abstractmethod
    def columns(self, rows: NDArray[np.intp]) -> Columns:
        """The given rows, made ready to be the columns of many blocks."""

    def columns_by(self, rows: NDArray[np.intp], run: Callable = map) -> Columns:
        """The same, made ready by ``run``: ``map``, or a parallel one."""
        return self.columns(rows)

    def prepare(self, run: Callable) -> None:  # noqa: B027
        """Compute by ``run`` what many calls need, where there is something."""

    def take_over(self, other: KernelMatrix) -> None:  # noqa: B027
        """Take over what the same kernel matrix in another precision has computed already."""

    def keeps(self, rows: NDArray[np.intp]) -> bool:
        """Whether solves for the given rows keep values: see ``Columns.worth_keeping``."""
        return True

    @abstractmethod
    def diag(self, rows: NDArray[np.intp]) -> NDArray:
        """Kernel value of each of the given rows with itself."""

    @abstractmethod
    def bound(self, rows: NDArray[np.intp]) -> float:
        """An upper bound on the magnitude of kernel values of the given rows."""

    def rounding(self, rows: NDArray[np.intp]) -> float:
        """What no kernel value of the given rows is off by, through rounding.

        A matrix or a function that is given is right to the last digit.
        """
        return float(np.finfo(self.dtype).eps) * self.bound(rows)

    def squared_sizes(self, rows: NDArray[np.intp]) -> NDArray:
        """Squared distances from the origin, in the input space where there is one."""
        return self.diag(rows)

    def distances(self, rows: NDArray[np.intp]) -> RowDistances:
        """Distances of the given rows from each other, for ``sets.partition``."""
        return KernelDistances(self, rows)

    def scores(
        self,
        support: NDArray[np.intp],
        coefs: NDArray[np.float64],
        rows: NDArray[np.intp],
        run: Callable = map,
    ) -> NDArray[np.float64]:
        """The expansion ``sum_j c_j K_ij`` over the rows ``support``, of other rows i.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.kernels import kernel_matrix
        >>> K = kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear")
        >>> K.scores(np.array([0, 2]), np.array([1.0, -1.0]), np.array([1]))
        array([-4.])
        """
        if not len(support):
            return np.zeros(len(rows))
        columns, edges = self.columns(support), np.array([0, len(support)])
        return columns.sums(
            lambda part: columns.lines(rows[part]), len(rows), edges, coefs[None], run
        )[:, 0, 0]

    def squared_norm(
        self, rows: NDArray[np.intp], coefs: NDArray[np.float64], run: Callable = map
    ) -> float:
        """``sum_ij c_i c_j K_ij`` over the given rows.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.kernels import kernel_matrix
        >>> K = kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear")
        >>> K.squared_norm(np.arange(3), np.array([1.0, 1.0, -1.0]))
        0.0
        """
        return expansion.squared_norm(self.columns(rows), rows, coefs, run)

    def block(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> NDArray:
        """Kernel values of the given rows against the given columns."""
        columns = self.columns(cols)
        return columns.values(columns.lines(rows), len(rows))

    def cross(self, X_new, cols: NDArray[np.intp]) -> NDArray:
        """Kernel values of new rows against the given training rows."""
        columns = self.columns(cols)
        return columns.values(columns.new_lines(X_new), X_new.shape[0])


def bounded(kernel: KernelMatrix, name: Any, rows: NDArray[np.intp]) -> float:
    """The upper bound on kernel values of the rows, refused where it is too large."""
    largest = kernel.bound(rows)
    if not largest <= LARGEST:
        others = {
            "poly": ", or lower gamma, degree or coef0",
            "sigmoid": ", or lower gamma or coef0",
        }
        raise ValueError(
            f"kernel={name!r} has values as large as {largest:.3g} on this data, more "
            f"than {LARGEST:g}: scale the data{others.get(name, '')}."
        )
    return largest


class Columns(ABC):
    """Some training rows as columns of the kernel matrix, for blocks of any lines."""

    dtype: np.dtype

    #: Whether values take longer to compute than to read from memory.
    worth_keeping: bool = True

    #: Whether several threads may add values up at the same time.
    sums_on_threads: bool = True

    @abstractmethod
    def __len__(self) -> int:
        """How many columns there are."""

    @abstractmethod
    def take(self, positions: NDArray[np.intp]) -> Columns:
        """Some of these columns, in the given order."""

    def take_by(self, positions: NDArray[np.intp], run: Callable = map) -> Columns:
        """The same by ``run``: ``map``, or a parallel one."""
        return self.take(positions)

    @abstractmethod
    def lines(self, rows: NDArray[np.intp]) -> Any:
        """Training rows made ready to be the lines of a block: for ``write``."""

    def own_lines(self, positions: NDArray[np.intp], rows: NDArray[np.intp]) -> Any:
        """The same of columns at the given positions, which are these training rows."""
        return self.lines(rows)

    @abstractmethod
    def new_lines(self, X_new) -> Any:
        """The same for rows that are not training rows."""

    @abstractmethod
    def write(self, lines: Any, start: int, stop: int, out: NDArray) -> None:
        """Kernel values of the lines against columns ``start`` to ``stop``, into ``out``.

        ``out`` is contiguous, of this object's ``dtype``. Safe to call from several threads.
        """

    def accumulate(
        self,
        lines: Any,
        coefs: NDArray[np.float64],
        scores: NDArray[np.float64],
        kept: KeptRows,
        crew: Crew,
    ) -> None:
        """Add ``coefs @ (lines of the kernel matrix)`` to scores, tile by tile.

        Parameters
        ----------
        lines : object
            As ``lines`` gives them.
        coefs : ndarray of shape (n_lines,)
        scores : ndarray of shape (n_columns,)
            Changed in place.
        kept : KeptRows
            Rows to add as well, and room for some of the lines.
        crew : Crew
        """
        n_lines, n = len(coefs), len(self)
        narrow, wide = blocks.UPDATE_COLUMNS
        step = min(wide, max(narrow, blocks.UPDATE_VALUES // max(1, n_lines)))
        every = np.arange(n_lines)

        def tile(first: int) -> None:
            last = min(first + step, n)
            part = scores[first:last]
            if n_lines:
                block = crew.scratch.block(n_lines, last - first, self.dtype)
                self.write(lines, first, last, block)
                add_rows(block, every, coefs, 0, part)
                store_rows(block, kept.free, kept.start + first, kept.rows)
            add_rows(kept.rows, kept.slots, kept.coefs, kept.start + first, part)

        for _ in crew.run(tile, range(0, n, step)):
            pass

    def write_square(self, rows: NDArray[np.intp], out: NDArray, crew: Crew) -> int:
        """Kernel values of the columns, which are the given training rows, with each other.

        Symmetric up to rounding: one half is computed and mirrored, blocks on the diagonal whole.
        Returns about how many values were computed.
        """

        def some(first: int) -> None:
            last = min(first + blocks.SQUARE_LINES, len(self))
            lines = self.own_lines(np.arange(first, last), rows[first:last])
            block = crew.scratch.block(last - first, last, self.dtype)
            self.write(lines, 0, last, block)
            out[first:last, :last] = block
            out[:first, first:last] = block[:, :first].T

        for _ in crew.run(some, range(0, len(self), blocks.SQUARE_LINES)):
            pass
        return len(self) ** 2 // 2

    def rows_by_class(self, ends: NDArray[np.intp], run: Callable = map) -> RowsByClass | None:
        """The columns, class by class, for compiled code; None where that has not the kernel.

        ``ends``: where each class ends; ``run``: ``map``, or a parallel one.
        """
        return None

    def sums(
        self,
        lines: Callable[[slice], Any],
        n_lines: int,
        edges: NDArray[np.intp],
        coefs: NDArray[np.float64],
        run: Callable = map,
    ) -> NDArray[np.float64]:
        """Expansions of lines over segments of the columns, shape (n_lines, n_segments, n_outputs).

        Parameters
        ----------
        lines : callable
            Takes a slice of the lines to these lines, as ``lines`` or ``new_lines`` gives them.
        n_lines : int
        edges : ndarray of shape (n_segments + 1,)
            Segment s consists of columns ``edges[s]`` to ``edges[s + 1]``.
        coefs : ndarray of shape (n_outputs, n_columns)
        run : callable, default=map
            ``map`` or a parallel one.
        """
        return expansion.sums(self, lines, n_lines, edges, coefs, run)

    def values(self, lines: Any, n_lines: int) -> NDArray:
        """The lines against all columns."""
        out = np.empty((n_lines, len(self)), dtype=self.dtype)
        self.write(lines, 0, len(self), out)
        return out

    def values_there(self, lines: Any, n_lines: int) -> Any:
        """The same, as an array of the kind that the kernel matrix's ``arrays`` has."""
        return self.values(lines, n_lines)


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
