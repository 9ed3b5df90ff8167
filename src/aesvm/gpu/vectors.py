"""Rows on a device, ready to be lines and columns of kernel values.

Values of dense rows are summed up as they are computed. Those of sparse rows, and of a given kernel
matrix, are written down for a few lines at a time.

Dense rows that are too many for the device stay on the host, and go over in panels. The host has
them in the form that the device computes with, in page-locked memory. While the device computes
with one panel, the next one is copied beside it:

    copies     panel 0 | panel 1 | panel 2 | panel 3 ...
    computing         | panel 0 | panel 1 | panel 2 ...

Of some of the rows only (``take``), panels are gathered from where these are. Rows that fit are put
on the device, so that a solver whose variables in play become few has them there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.forms import Form
from aesvm.gpu.rows import has_room_for, padded, panel_rows

#: Lines whose kernel values are summed up by one call: a tenth of a second's work with a million
#: columns, and sums of few enough terms, one after another, for what certificates say of rounding.
LINES = 4096

#: Bytes of sparse lines that are made dense, and kernel values of them that are held, at a time.
_DENSE_BYTES, _HELD_VALUES = 1 << 28, 1 << 26

#: Kernel values of sparse lines that are added up by themselves, at least, and half of the most.
_TERMS = 256


@dataclass(frozen=True)
class DenseVectors:
    """Dense rows, padded, and their squared lengths as the kernel's form scales them.

    Both are as the device's operations store them (``cuda.prepared``).
    """

    device: Device
    form: Form
    rows: Any
    norms: Any

    @classmethod
    def of(cls, device: Device, form: Form, X: Any, center: Any) -> DenseVectors:
        """Rows of an array of the device, seen from a center."""
        n, width = X.shape
        step = max(1, _HELD_VALUES // max(1, width))
        if n <= step:
            return cls._of_few(device, form, X, center)
        rows, norms = cls.room(device, form, X, n, device.xp.empty)
        for first in range(0, n, step):
            here = slice(first, first + step)
            own = cls._of_few(device, form, X[here], center)
            rows[here], norms[here] = own.rows, own.norms
        return cls(device, form, rows, norms)

    @classmethod
    def room(cls, device: Device, form: Form, X: Any, n: int, make: Callable) -> tuple[Any, Any]:
        """Arrays for n rows such as those of X, made by ``make``, and for their norms."""
        few = cls._of_few(device, form, device.array(X[:1]), None)
        norms = device.xp.empty((n, *few.norms.shape[1:]), dtype=few.norms.dtype)
        return make((n, few.rows.shape[1]), dtype=few.rows.dtype), norms

    @classmethod
    def _of_few(cls, device: Device, form: Form, X: Any, center: Any) -> DenseVectors:
        xp = device.xp
        n, width = X.shape
        rows = xp.zeros((n, padded(width, form.dtype.itemsize)), dtype=form.dtype)
        rows[:, :width] = X if center is None else xp.subtract(X, center, dtype=np.float64)
        return cls(device, form, *device.operations.prepared(form, rows, xp))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_products(self) -> int:
        """Products of features that a kernel value takes."""
        return self.rows.shape[1] * self.rows.itemsize // self.form.dtype.itemsize

    def take(self, numbers: Any) -> DenseVectors:
        return DenseVectors(self.device, self.form, self.rows[numbers], self.norms[numbers])

    def lines(self, numbers: Any, count: Any) -> tuple[DenseVectors, Any]:
        """A few of the vectors, as lines of a sum: vectors on the device, and which of them."""
        return self, numbers

    def each_panel(self, function: Callable[[slice, DenseVectors], None]) -> None:
        """Call a function with every panel of the vectors, and where it is: all are one."""
        function(slice(0, len(self)), self)

    def sum_lines(self, lines: Any, numbers: Any, coefs: Any, count: Any, sums: Any) -> None:
        """Add ``coefs @ K`` to sums, K the values of lines against these columns."""
        lines, numbers = lines.lines(numbers, count)
        self.device.operations.sum_lines(self.form, self, lines, numbers, coefs, count, sums)

    def write_square(self, numbers: Any, count: Any, out: Any) -> None:
        """Kernel values of some of these rows with each other."""
        write = self.device.operations.write_values
        write(self.form, self, numbers, self, numbers, count, out)

    def values(self, lines: Any) -> Any:
        """Kernel values of lines against these columns."""
        out = self.device.xp.empty((len(lines), len(self)), dtype=self.form.dtype)

        def write(part: slice, own: DenseVectors) -> None:
            self.device.operations.write_values(self.form, self, None, own, None, None, out[part])

        lines.each_panel(write)
        return out


#: Products of features that a kernel value takes as long as where it is written down: it is written
#: and read a dozen times, some 100 bytes, and a large GPU multiplies ten times while it moves a
#: byte.
_WRITTEN_PRODUCTS = 1000


class WrittenVectors(ABC):
    """Rows whose kernel values are written down, those of a few lines at a time."""

    device: Device
    form: Form
    n_products = _WRITTEN_PRODUCTS

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def take(self, numbers: Any) -> WrittenVectors:
        """Some of the vectors."""

    @abstractmethod
    def _values(self, lines: Any, numbers: Any) -> Any:
        """Kernel values of some lines against these columns; few lines at a time."""

    @property
    def _line_bytes(self) -> int:
        """Bytes that a line takes beside its values."""
        return 0

    def sum_lines(self, lines: Any, numbers: Any, coefs: Any, count: Any, sums: Any) -> None:
        """Add ``coefs @ K`` to sums, K the values of lines against these columns."""
        n_lines = coefs.shape[1] if count is None else int(count[0])
        # as few terms one after another as certificates count (``expansion.n_additions``)
        step = n_lines if n_lines <= 2 * _TERMS else _TERMS
        total, n_terms = self.device.xp.zeros(sums.shape), 0
        for part in self._parts(n_lines):
            own = self._values(lines, self._numbers(part) if numbers is None else numbers[part])
            own, mine = own.astype(np.float64, copy=False), coefs[:, part]
            for first in range(0, len(own), step):
                here = slice(first, first + step)
                total += mine[:, here] @ own[here]
                n_terms += len(own[here])
                if n_terms >= _TERMS:
                    sums += total
                    total.fill(0.0)
                    n_terms = 0
        sums += total

    def write_square(self, numbers: Any, count: Any, out: Any) -> None:
        """Kernel values of some of these rows with each other."""
        n = int(count[0])
        own = self.take(numbers[:n])
        out[:n, :n] = own.values(own)

    def values(self, lines: Any) -> Any:
        """Kernel values of lines against these columns."""
        out = self.device.xp.empty((len(lines), len(self)), dtype=self.form.dtype)
        for part in self._parts(len(lines)):
            out[part] = self._values(lines, self._numbers(part))
        return out

    def _numbers(self, part: slice) -> Any:
        return self.device.xp.arange(part.start, part.stop, dtype=np.int32)

    def _parts(self, n_lines: int) -> list[slice]:
        by_bytes = _DENSE_BYTES // max(1, self._line_bytes)
        step = max(1, min(by_bytes, _HELD_VALUES // max(1, len(self))))
        return [slice(at, min(at + step, n_lines)) for at in range(0, n_lines, step)]


@dataclass(frozen=True)
class SparseVectors(WrittenVectors):
    """Sparse rows (CSR): only some lines at a time are made dense."""

    device: Device
    form: Form
    rows: Any  #: CSR matrix of the device
    norms: Any

    @classmethod
    def of(cls, device: Device, form: Form, X: Any) -> SparseVectors:
        """Rows of a CSR matrix of the device."""
        rows = X.astype(form.dtype)
        squares = rows.astype(np.float64)
        squares.data = squares.data**2
        norms = form.norm_scale * squares.sum(axis=1)
        norms = device.xp.asarray(norms).reshape(-1).astype(form.dtype)
        return cls(device, form, rows, norms)

    def __len__(self) -> int:
        return self.rows.shape[0]

    def take(self, numbers: Any) -> SparseVectors:
        return SparseVectors(self.device, self.form, self.rows[numbers], self.norms[numbers])

    def dense(self, numbers: Any) -> DenseVectors:
        """Some of the vectors made dense: differences have no other way."""
        columns = self.device.operations.dense_columns(self.rows, numbers)
        return DenseVectors.of(self.device, self.form, columns.T, None)

    @property
    def _line_bytes(self) -> int:
        return self.rows.dtype.itemsize * self.rows.shape[1]

    def _values(self, lines: Any, numbers: Any) -> Any:
        xp = self.device.xp
        if self.form.differences:
            own = lines.dense(numbers)
            out = xp.empty((len(numbers), len(self)), dtype=self.form.dtype)
            for part in self._parts(len(self)):
                out[:, part] = self.dense(self._numbers(part)).values(own)
            return out
        products = (self.rows @ self.device.operations.dense_columns(lines.rows, numbers)).T
        norms = lines.norms[numbers][:, None] + self.norms[None]
        return self.form.mapped(xp.ascontiguousarray(products), norms, xp)


@dataclass(frozen=True)
class GivenVectors(WrittenVectors):
    """Rows whose kernel values are given.

    Attributes
    ----------
    device : Device
    form : Form
    matrix : array
        Of the device: kernel values against every training row, of the training rows, or of new
        ones.
    numbers : array, or None
        Which of the training rows these vectors are; None: they are the new rows, in order.
    """

    device: Device
    form: Form
    matrix: Any
    numbers: Any

    def __len__(self) -> int:
        return len(self.matrix if self.numbers is None else self.numbers)

    def take(self, numbers: Any) -> GivenVectors:
        return GivenVectors(self.device, self.form, self.matrix, self.numbers[numbers])

    def _values(self, lines: Any, numbers: Any) -> Any:
        if self.numbers is None:  # then the lines are training rows
            return self.matrix[:, lines.numbers[numbers]].T
        of_lines = numbers if lines.numbers is None else lines.numbers[numbers]
        return lines.matrix[of_lines[:, None], self.numbers]


@dataclass(frozen=True)
class HostVectors:
    """Dense rows of the host, padded, and their scaled squared lengths on the device.

    Attributes
    ----------
    device : Device
    form : Form
    rows : ndarray
        Page-locked where the device is a GPU.
    numbers : ndarray, or None
        Which of the rows these vectors are; None: all, in order.
    norms : array
        Of the device; one for each vector.
    """

    device: Device
    form: Form
    rows: NDArray
    numbers: NDArray[np.intp] | None
    norms: Any

    def __len__(self) -> int:
        return len(self.rows) if self.numbers is None else len(self.numbers)

    @property
    def n_products(self) -> int:
        """Products of features that a kernel value takes."""
        return self._row_bytes // self.form.dtype.itemsize

    def take(self, numbers: Any) -> DenseVectors | HostVectors:
        """Some of the vectors: on the device where they fit."""
        at = numbers if isinstance(numbers, slice) else self.device.to_host(numbers)
        rows, own = self.rows, None
        if self.numbers is not None:
            own = self.numbers[at]
        elif isinstance(at, slice):
            rows = rows[at]
        else:
            own = at
        taken = HostVectors(self.device, self.form, rows, own, self.norms[numbers])
        fits = has_room_for(self.device, len(taken), self._row_bytes)
        return taken.on_device() if fits else taken

    def on_device(self) -> DenseVectors:
        """All of them on the device, whether they fit or not."""
        rows = self.device.xp.empty((len(self), self.rows.shape[1]), dtype=self.rows.dtype)

        def write(part: slice, panel: DenseVectors) -> None:
            rows[part] = panel.rows

        self.each_panel(write)
        return DenseVectors(self.device, self.form, rows, self.norms)

    def lines(self, numbers: Any, count: Any) -> tuple[DenseVectors, None]:
        """A few of the vectors, as lines of a sum: on the device, all of them in order."""
        numbers = self.device.xp.arange(len(self)) if numbers is None else numbers
        numbers = numbers if count is None else numbers[: int(count[0])]
        at = self.device.to_host(numbers)
        rows = np.take(self.rows, at if self.numbers is None else self.numbers[at], axis=0)
        there = self.device.array(rows)
        return DenseVectors(self.device, self.form, there, self.norms[numbers]), None

    def sum_lines(self, lines: Any, numbers: Any, coefs: Any, count: Any, sums: Any) -> None:
        """Add ``coefs @ K`` to sums, K the values of lines against these columns."""
        lines, numbers = lines.lines(numbers, count)
        if not len(lines):
            return
        self.add_panels(sums, lambda panel, own: panel.sum_lines(lines, numbers, coefs, count, own))

    def add_panels(self, sums: Any, function: Callable[[DenseVectors, Any], None]) -> None:
        """Call a function with every panel, and the sums of its columns, to which it adds."""

        def add(part: slice, panel: DenseVectors) -> None:
            own = sums[:, part].copy()  # operations want them one after another
            function(panel, own)
            sums[:, part] = own

        self.each_panel(add)

    def write_square(self, numbers: Any, count: Any, out: Any) -> None:
        """Kernel values of some of these rows with each other."""
        own, _ = self.lines(numbers, count)
        if len(own):
            own.write_square(None, count, out)

    def values(self, lines: Any) -> Any:
        """Kernel values of lines against these columns."""
        out = self.device.xp.empty((len(lines), len(self)), dtype=self.form.dtype)

        def write(part: slice, panel: DenseVectors) -> None:
            out[:, part] = panel.values(lines)

        self.each_panel(write)
        return out

    def each_panel(self, function: Callable[[slice, DenseVectors], None]) -> None:
        """Call a function with every panel of the vectors on the device, and where it is.

        What it asks the device for may go on when it returns; what it keeps must be a copy.
        """
        step = min(len(self), panel_rows(self._row_bytes))
        parts = [slice(at, min(at + step, len(self))) for at in range(0, len(self), step or 1)]
        shape = step, self.rows.shape[1]
        gathers = self.numbers is not None  # such panels need memory of their own
        with self.device.panel_copies(shape, self.rows.dtype, gathers) as over:
            for part in parts:
                there = over.next(partial(self._panel, part))
                function(part, DenseVectors(self.device, self.form, there, self.norms[part]))
                over.done()

    def _panel(self, part: slice, out: NDArray | None) -> NDArray:
        """A panel on the host; gathered, it is written to ``out``."""
        if self.numbers is None:
            return self.rows[part]
        assert out is not None
        found = out[: part.stop - part.start]
        # of numbers that are right: in this mode nothing is copied twice
        np.take(self.rows, self.numbers[part], axis=0, out=found, mode="clip")
        return found

    @property
    def _row_bytes(self) -> int:
        return self.rows.shape[1] * self.rows.itemsize


def vectors_of_host(
    device: Device, form: Form, X: NDArray, rows: NDArray[np.intp], center: Any
) -> DenseVectors | HostVectors:
    """Rows of the host in a form: on the device where they fit, and else on the host.

    They are brought into that form by the device, some at a time.

    Parameters
    ----------
    device : Device
    form : Form
    X : ndarray
    rows : ndarray
        Which of its rows.
    center : array, or None
        What they are seen from, on the device.
    """
    n, width = len(rows), padded(X.shape[1], form.dtype.itemsize)
    fits = has_room_for(device, n, width * form.dtype.itemsize)
    make: Callable = device.xp.empty if fits else device.page_locked
    found, norms = DenseVectors.room(device, form, X, n, make)
    step = panel_rows(8 * width)
    for first in range(0, n, step):
        here = slice(first, min(first + step, n))
        own = DenseVectors.of(device, form, device.array(_gathered(X, rows[here])), center)
        norms[here] = own.norms
        if fits:
            found[here] = own.rows
        else:
            device.to_host(own.rows, out=found[here])
    if fits:
        return DenseVectors(device, form, found, norms)
    return HostVectors(device, form, found, None, norms)


def _gathered(X: NDArray, rows: NDArray[np.intp]) -> NDArray:
    """Some rows; those that follow each other are not copied."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1 and (np.diff(rows) == 1).all():
        return X[first : last + 1]
    return X[rows]
