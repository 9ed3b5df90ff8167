"""Rows on a device: dense or sparse, ready to be lines and columns of kernel values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aesvm.gpu.devices import Device
from aesvm.gpu.forms import Form
from aesvm.gpu.room import padded

#: Lines whose kernel values are summed up by one call: a tenth of a second's work with a million
#: columns, and sums of few enough terms, one after another, for what certificates say of rounding.
LINES = 4096

#: Bytes of sparse lines that are made dense, and kernel values of them that are held, at a time.
_DENSE_BYTES, _HELD_VALUES = 1 << 28, 1 << 26

#: Kernel values of sparse lines that are added up by themselves, at least, and half of the most.
_TERMS = 256


@dataclass(frozen=True)
class DenseVectors:
    """Dense rows, padded, and their squared lengths as the kernel's form scales them."""

    device: Device
    form: Form
    rows: Any
    norms: Any

    @classmethod
    def of(cls, device: Device, form: Form, X: Any, center: Any) -> DenseVectors:
        """Rows of an array of the device, seen from a center."""
        xp = device.xp
        n, width = X.shape
        rows = xp.zeros((n, padded(width)), dtype=form.dtype)
        step = max(1, _HELD_VALUES // max(1, width))
        norms = xp.zeros(n, dtype=form.dtype)
        for first in range(0, n, step):
            here = slice(first, first + step)
            own = X[here] if center is None else xp.subtract(X[here], center, dtype=np.float64)
            rows[here, :width] = own
            if form.norm_scale:
                own = rows[here].astype(np.float64, copy=False)
                norms[here] = form.norm_scale * xp.einsum("ij,ij->i", own, own)
        return cls(device, form, rows, norms)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_products(self) -> int:
        """Products of features that a kernel value takes."""
        return self.rows.shape[1]

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


#: Products of features that a kernel value of sparse rows takes as long as: it is written and read
#: a dozen times, some 100 bytes, and a large GPU multiplies ten times while it moves a byte.
_SPARSE_PRODUCTS = 1000


@dataclass(frozen=True)
class SparseVectors:
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

    @property
    def n_products(self) -> int:
        """Products of features that a kernel value takes as long as."""
        return _SPARSE_PRODUCTS

    def take(self, numbers: Any) -> SparseVectors:
        return SparseVectors(self.device, self.form, self.rows[numbers], self.norms[numbers])

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

    def dense(self, numbers: Any) -> DenseVectors:
        """Some of the vectors made dense: differences have no other way."""
        columns = self.device.operations.dense_columns(self.rows, numbers)
        return DenseVectors.of(self.device, self.form, columns.T, None)

    def _numbers(self, part: slice) -> Any:
        return self.device.xp.arange(part.start, part.stop, dtype=np.int32)

    def _values(self, lines: Any, numbers: Any) -> Any:
        """Kernel values of some lines against these columns; few lines at a time."""
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

    def _parts(self, n_lines: int) -> list[slice]:
        by_bytes = _DENSE_BYTES // (self.rows.dtype.itemsize * max(1, self.rows.shape[1]))
        step = max(1, min(by_bytes, _HELD_VALUES // max(1, len(self))))
        return [slice(at, min(at + step, n_lines)) for at in range(0, n_lines, step)]
