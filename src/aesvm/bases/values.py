"""Kernel values of many rows and a growing basis: held in memory where there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.arrays import sum_rows, times, to_host
from aesvm.kernels import Columns, KernelMatrix

Array = NDArray[np.float64]

#: Rows whose values are computed, held and multiplied together, on the host and on a device. There
#: every product is a call that takes as long as reading some millions of values.
TILE, _TILE_THERE = 2048, 1 << 17


class BasisValues:
    """The values ``k(x_i, b_j)`` of rows and a basis.

    Sums are over tiles of rows, in the precision of the kernel within a tile and in double
    precision beyond; they do not depend on what is held, nor on the number of threads. Where the
    kernel's rows are on a device, so are the values, and coefficients, weights and sums.

    Parameters
    ----------
    kernel : KernelMatrix
    rows : ndarray
        Rows of the kernel matrix, of which the first ``n_rows`` are in use.
    most_bytes : float
        Of values that are held; all others are computed again whenever they are needed.
    run : callable
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.values import BasisValues
    >>> from aesvm.kernels import kernel_matrix
    >>> kernel = kernel_matrix(np.array([[1.0], [2.0], [3.0]]), kernel="linear")
    >>> values = BasisValues(kernel, np.arange(3), 1e6)
    >>> values.add(np.array([2]))
    >>> values.products(np.array([2.0]))
    array([ 6., 12., 18.])
    >>> values.sums(np.array([1.0, 0.0, 1.0]))
    array([12.])
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        most_bytes: float,
        run: Callable = map,
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self.n_rows = len(rows)
        self.n_kept = len(rows)  # the first rows, whose values may be held
        self.most_bytes = most_bytes
        self.run = kernel.arrays.threads(run)
        self.basis = np.empty(0, dtype=np.intp)
        self.batches: list[Columns] = []  # vectors that were added together
        self.held: dict[tuple[int, int], Any] = {}  # by number of group and of tile
        self.to_hold: set[tuple[int, int]] = set()  # those that are held, or will be
        self.n_bytes = 0  # that these take
        self.n_values = 0  # kernel values computed so far

    def compute_by(self, kernel: KernelMatrix) -> None:
        """Compute values in another precision from now on."""
        self.kernel = kernel
        sizes = [len(columns) for columns in self.batches]
        parts = np.split(self.basis, np.cumsum(sizes)[:-1]) if sizes else []
        self.basis, self.batches = self.basis[:0], []
        self.held, self.to_hold, self.n_bytes = {}, set(), 0
        for part in parts:
            self.add(part)

    def add(self, rows: NDArray[np.intp]) -> None:
        """More vectors of the basis."""
        if not len(rows):
            return
        group = len(self.batches)
        self.basis = np.append(self.basis, rows)
        self.batches.append(self.kernel.columns(rows))
        # which tiles there is room for is settled here, and not by the thread that comes first
        for number, first in enumerate(range(0, self.n_kept, self._tile)):
            n_lines = min(self._tile, len(self.rows) - first)
            size = n_lines * len(rows) * self.kernel.dtype.itemsize
            if self.n_bytes + size <= self.most_bytes:
                self.n_bytes += size
                self.to_hold.add((group, number))

    def products(self, coefs: Array) -> Array:
        """``sum_j k(x_i, b_j) c_j`` of every row in use."""
        out = self.kernel.arrays.zeros(self.n_rows)

        def tile(number: int) -> None:
            here = self._rows_of(number)
            for group, part in self._parts(coefs):
                out[here] += times(self._block(group, number), part)

        self._each(tile)
        return out

    @singledispatchmethod
    def sums(self, weights: Any) -> Any:
        """``sum_i w_i k(x_i, b_j)`` of every vector of the basis, over the rows in use."""
        # on a device, in double precision: only rows with a weight are read
        at = np.flatnonzero(weights)
        used = weights[at]
        starts = np.arange(self._n_tiles + 1) * self._tile
        edges = to_host(np.searchsorted(at, self.kernel.arrays.put(starts)))
        total = self.kernel.arrays.zeros(len(self.basis))
        for number in range(self._n_tiles):
            first, last = (int(edge) for edge in edges[number : number + 2])
            here = self._rows_of(number)
            if first == last:
                continue
            few = last - first < 0.5 * (here.stop - here.start)
            own, positions = used[first:last], at[first:last] - here.start
            for group, part in self._groups():
                if few and (group, number) not in self.held:
                    lines = self._lines(group, number, to_host(positions))
                    total[part] += sum_rows(lines, None, own)
                else:
                    total[part] += sum_rows(self._block(group, number), positions, own)
        return total

    @sums.register(np.ndarray)
    def _(self, weights: Array) -> Array:
        wide = weights.astype(self.kernel.dtype)

        def tile(number: int) -> list[NDArray] | None:
            own = wide[self._rows_of(number)]
            at = np.flatnonzero(own)
            if not len(at):
                return None
            few = len(at) < 0.5 * len(own)
            return [
                own[at] @ self._lines(group, number, at)
                if few
                else own @ self._block(group, number)
                for group in range(len(self.batches))
            ]

        total = np.zeros(len(self.basis))
        for found in self.run(tile, range(self._n_tiles)):
            if found:
                total += np.concatenate(found)
        return total

    def lines(self, at: NDArray[np.intp]) -> Any:
        """The values of some rows in use, ascending; these are given by an array of the host."""
        out = self.kernel.arrays.empty((len(at), len(self.basis)), self.kernel.dtype)
        numbers = at // self._tile
        edges = np.searchsorted(numbers, np.arange(self._n_tiles + 1))

        def tile(number: int) -> None:
            first, last = edges[number : number + 2]
            if first == last:
                return
            for group, part in self._groups():
                out[first:last, part] = self._lines(
                    group, number, at[first:last] - number * self._tile
                )

        self._each(tile)
        return out

    def _each(self, function: Callable[[int], None]) -> None:
        list(self.run(function, range(self._n_tiles)))

    @property
    def _tile(self) -> int:
        return self.kernel.arrays.either(TILE, _TILE_THERE)

    @property
    def _n_tiles(self) -> int:
        return -(-self.n_rows // self._tile)

    def _rows_of(self, number: int) -> slice:
        return slice(number * self._tile, min((number + 1) * self._tile, self.n_rows))

    def _groups(self) -> Iterator[tuple[int, slice]]:
        """Vectors that were added together, by number, and where they are in the basis."""
        start = 0
        for group, columns in enumerate(self.batches):
            yield group, slice(start, start + len(columns))
            start += len(columns)

    def _parts(self, coefs: Array) -> list[tuple[int, Any]]:
        own = coefs.astype(self.kernel.dtype)
        return [(group, own[part]) for group, part in self._groups()]

    def _block(self, group: int, number: int) -> Any:
        """A tile of rows against a group of vectors."""
        here = self._rows_of(number)
        held = self.held.get((group, number))
        if held is not None:
            return held[: here.stop - here.start]
        columns = self.batches[group]
        room = (group, number) in self.to_hold
        # where they are held, of rows to be used later as well
        rows = self.rows[here.start : here.start + self._tile] if room else self.rows[here]
        block = columns.values_there(columns.lines(rows), len(rows))
        self.n_values += block.size
        if room:
            self.held[group, number] = block
        return block[: here.stop - here.start]

    def _lines(self, group: int, number: int, at: NDArray[np.intp]) -> Any:
        """Some rows of a tile against a group of vectors."""
        if (group, number) in self.held:
            return self.held[group, number][self.kernel.arrays.put(at)]
        columns = self.batches[group]
        rows = self.rows[number * self._tile + at]
        self.n_values += len(rows) * len(columns)
        return columns.values_there(columns.lines(rows), len(rows))
