"""Kernel values of many rows and a growing basis: held in memory where there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.factor import sum_rows, times, to_host
from aesvm.formulations.protocol import Array
from aesvm.kernels import Columns, KernelMatrix

#: Rows of a block, whose values are computed, held and multiplied together: on the host, and on a
#: device. There every product is a call that takes as long as reading some millions of values.
BLOCK_ROWS, _ROWS_THERE = 2048, 1 << 17


class BasisValues:
    """The values ``k(x_i, b_j)`` of rows and a basis.

    Sums are over blocks of rows, in the precision of the kernel within a block and in double
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
        self.batches: list[Columns] = []  # of vectors that were added together
        self.held: dict[tuple[int, int], Any] = {}  # by number of batch and of block
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
        batch = len(self.batches)
        self.basis = np.append(self.basis, rows)
        self.batches.append(self.kernel.columns(rows))
        # which blocks there is room for is settled here, and not by the thread that comes first
        for number, first in enumerate(range(0, self.n_kept, self._step)):
            n_lines = min(self._step, len(self.rows) - first)
            size = n_lines * len(rows) * self.kernel.dtype.itemsize
            if self.n_bytes + size <= self.most_bytes:
                self.n_bytes += size
                self.to_hold.add((batch, number))

    def products(self, coefs: Array) -> Array:
        """``sum_j k(x_i, b_j) c_j`` of every row in use."""
        out = self.kernel.arrays.zeros(self.n_rows)

        def block(number: int) -> None:
            here = self._rows_of(number)
            for batch, part in self._parts(coefs):
                out[here] += times(self._values(batch, number), part)

        self._each(block)
        return out

    @singledispatchmethod
    def sums(self, weights: Any) -> Any:
        """``sum_i w_i k(x_i, b_j)`` of every vector of the basis, over the rows in use."""
        # on a device, in double precision: only rows with a weight are read
        at = np.flatnonzero(weights)
        used = weights[at]
        starts = np.arange(self._n_blocks + 1) * self._step
        edges = to_host(np.searchsorted(at, self.kernel.arrays.put(starts)))
        total = self.kernel.arrays.zeros(len(self.basis))
        for number in range(self._n_blocks):
            first, last = (int(edge) for edge in edges[number : number + 2])
            here = self._rows_of(number)
            if first == last:
                continue
            few = last - first < 0.5 * (here.stop - here.start)
            own, positions = used[first:last], at[first:last] - here.start
            for batch, part in self._batches():
                if few and (batch, number) not in self.held:
                    lines = self._lines(batch, number, to_host(positions))
                    total[part] += sum_rows(lines, None, own)
                else:
                    total[part] += sum_rows(self._values(batch, number), positions, own)
        return total

    @sums.register(np.ndarray)
    def _(self, weights: Array) -> Array:
        wide = weights.astype(self.kernel.dtype)

        def block(number: int) -> list[NDArray] | None:
            own = wide[self._rows_of(number)]
            at = np.flatnonzero(own)
            if not len(at):
                return None
            few = len(at) < 0.5 * len(own)
            return [
                own[at] @ self._lines(batch, number, at)
                if few
                else own @ self._values(batch, number)
                for batch in range(len(self.batches))
            ]

        total = np.zeros(len(self.basis))
        for found in self.run(block, range(self._n_blocks)):
            if found:
                total += np.concatenate(found)
        return total

    def lines(self, at: NDArray[np.intp]) -> Any:
        """The values of some rows in use, ascending; these are given by an array of the host."""
        out = self.kernel.arrays.empty((len(at), len(self.basis)), self.kernel.dtype)
        numbers = at // self._step
        edges = np.searchsorted(numbers, np.arange(self._n_blocks + 1))

        def block(number: int) -> None:
            first, last = edges[number : number + 2]
            if first == last:
                return
            for batch, part in self._batches():
                out[first:last, part] = self._lines(
                    batch, number, at[first:last] - number * self._step
                )

        self._each(block)
        return out

    def _each(self, function: Callable[[int], None]) -> None:
        list(self.run(function, range(self._n_blocks)))

    @property
    def _step(self) -> int:
        return self.kernel.arrays.either(BLOCK_ROWS, _ROWS_THERE)

    @property
    def _n_blocks(self) -> int:
        return -(-self.n_rows // self._step)

    def _rows_of(self, number: int) -> slice:
        return slice(number * self._step, min((number + 1) * self._step, self.n_rows))

    def _batches(self) -> Iterator[tuple[int, slice]]:
        """Vectors that were added together, by number, and where they are in the basis."""
        start = 0
        for batch, columns in enumerate(self.batches):
            yield batch, slice(start, start + len(columns))
            start += len(columns)

    def _parts(self, coefs: Array) -> list[tuple[int, Any]]:
        own = coefs.astype(self.kernel.dtype)
        return [(batch, own[part]) for batch, part in self._batches()]

    def _values(self, batch: int, number: int) -> Any:
        """The values of a block of rows and a batch of vectors."""
        here = self._rows_of(number)
        held = self.held.get((batch, number))
        if held is not None:
            return held[: here.stop - here.start]
        columns = self.batches[batch]
        room = (batch, number) in self.to_hold
        # where they are held, of rows to be used later as well
        rows = self.rows[here.start : here.start + self._step] if room else self.rows[here]
        values = columns.values_there(columns.lines(rows), len(rows))
        self.n_values += values.size
        if room:
            self.held[batch, number] = values
        return values[: here.stop - here.start]

    def _lines(self, batch: int, number: int, at: NDArray[np.intp]) -> Any:
        """The values of some rows of a block and a batch of vectors."""
        if (batch, number) in self.held:
            return self.held[batch, number][self.kernel.arrays.put(at)]
        columns = self.batches[batch]
        rows = self.rows[number * self._step + at]
        self.n_values += len(rows) * len(columns)
        return columns.values_there(columns.lines(rows), len(rows))
