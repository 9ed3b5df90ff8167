"""The kernel matrix of rows that a device computes with.

The host computes what is small, from the same rows: the values of a sample, bounds, distances of a
partition. The device computes sums over many rows, and solves (``aesvm.gpu.dual``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.forms import LINEAR, Form, check_kernel, form_of
from aesvm.gpu.rows import DeviceRows, copied, has_room_for, padded, panel_rows
from aesvm.gpu.vectors import (
    LINES,
    DenseVectors,
    GivenVectors,
    HostVectors,
    SparseVectors,
    WrittenVectors,
    vectors_of_host,
)
from aesvm.kernels.dense import DenseKernel
from aesvm.kernels.distances import RowDistances
from aesvm.kernels.given import PrecomputedKernel
from aesvm.kernels.matrix import Arrays, Columns, KernelMatrix
from aesvm.kernels.spec import KernelSpec
from aesvm.kernels.vectors import VectorKernel

Vectors = DenseVectors | HostVectors | WrittenVectors

#: Bytes on the device of new rows whose sums are computed together; the next ones come over
#: meanwhile, so that there are twice as many.
_NEW_BYTES = 1 << 28

#: Products of two features between two looks at whether an interrupt has come: a tenth of a second
#: of a large GPU.
_BETWEEN = 1.5e12


def matrix_on_device(
    spec: KernelSpec, rows: DeviceRows, dtype: DTypeLike | None, accuracy: float
) -> DeviceKernel:
    """The kernel matrix of rows that are on a device, are copied there, or go there in panels."""
    check_kernel(spec.kernel, spec.device)
    host = spec.matrix(rows.X, dtype=dtype, accuracy=accuracy)
    if isinstance(host, PrecomputedKernel):
        return DeviceGivenKernel(host, rows)
    assert isinstance(host, VectorKernel)
    if isinstance(host, DenseKernel) and host.kernel.of_distances:
        host.scaled_squared_norms = _scaled_squared_norms(rows, host)
    return DeviceVectorKernel(host, rows)


def _scaled_squared_norms(rows: DeviceRows, host: DenseKernel) -> NDArray[np.float64]:
    """Those of the host's kernel; rows have the same ones for all kernels."""
    with np.errstate(over="ignore"):
        norms = rows.squared_norms(lambda: _squared_norms(rows, host.center))
        return host.parameters.gamma * norms


def _squared_norms(rows: DeviceRows, center: NDArray) -> NDArray[np.float64]:
    """By the device: rows are copied there and computed with in less time."""
    device, there = rows.device, rows.there()
    X = rows.X if there is None else there
    norms, center = device.xp.empty(len(X)), device.array(center, dtype=np.float64)
    step = panel_rows(16 * X.shape[1])
    for first in range(0, len(X), step):
        own = device.array(X[first : first + step]) - center
        norms[first : first + step] = device.xp.einsum("ij,ij->i", own, own)
    return device.to_host(norms)


class DeviceArrays(Arrays):
    """Arrays of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def put(self, values: NDArray) -> Any:
        return self.device.array(values)

    def zeros(self, shape: int | tuple[int, ...]) -> Any:
        return self.device.xp.zeros(shape)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        return self.device.xp.empty(shape, dtype=dtype)

    def threads(self, run: Callable) -> Callable:
        return map  # a device is asked by one thread

    def either(self, of_host: Any, of_device: Any) -> Any:
        return of_device

    def free_bytes(self) -> float | None:
        return self.device.free_bytes()


class DeviceKernel(KernelMatrix):
    """A kernel matrix that a device computes with; the host has the rows, too."""

    def __init__(self, host: KernelMatrix, rows: DeviceRows) -> None:
        self.host = host
        self.rows = rows
        self.device = rows.device
        self.arrays = DeviceArrays(rows.device)
        self.dtype = host.dtype
        self.n_rows = host.n_rows

    @abstractmethod
    def form(self, rows: NDArray[np.intp]) -> Form:
        """How kernel values of the given rows are computed."""

    @abstractmethod
    def in_form(self, rows: NDArray[np.intp], form: Form) -> Vectors:
        """Some of the rows, in a form."""

    @abstractmethod
    def as_vectors(self, there: Any, form: Form) -> Vectors:
        """New rows that are on the device, in a form."""

    def vectors(self, rows: NDArray[np.intp]) -> Vectors:
        """Some of the rows, as the device computes with them."""
        return self.in_form(rows, self.form(rows))

    def columns(self, rows: NDArray[np.intp]) -> DeviceColumns:
        return DeviceColumns(self, self.vectors(rows))

    def square(self, rows: NDArray[np.intp], out: NDArray | None = None) -> NDArray:
        own = self.vectors(rows)
        values = self.device.to_host(own.values(own)).astype(self.dtype, copy=False)
        if out is None:
            return values
        out[...] = values
        return out

    def square_there(self, rows: NDArray[np.intp]) -> Any:
        own: Any = self.vectors(rows)
        return own.values(own).astype(self.dtype, copy=False)

    def block(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> NDArray:
        return self.host.block(rows, cols)

    def diag(self, rows: NDArray[np.intp]) -> NDArray:
        return self.host.diag(rows)

    def bound(self, rows: NDArray[np.intp]) -> float:
        return self.host.bound(rows)

    def rounding(self, rows: NDArray[np.intp]) -> float:
        return self.host.rounding(rows)

    def squared_sizes(self, rows: NDArray[np.intp]) -> NDArray:
        return self.host.squared_sizes(rows)

    def distances(self, rows: NDArray[np.intp]) -> RowDistances:
        return self.host.distances(rows)

    def squared_norm(
        self, rows: NDArray[np.intp], coefs: NDArray[np.float64], run: Callable = map
    ) -> float:
        return float(coefs @ self.scores(rows, coefs, rows, run))


class DeviceVectorKernel(DeviceKernel):
    """The kernel matrix of rows that are on the host, and on the device if that has room."""

    host: VectorKernel

    def form(self, rows: NDArray[np.intp]) -> Form:
        return form_of(self.host, self._precision(rows))

    def in_form(self, rows: NDArray[np.intp], form: Form) -> Vectors:
        X = self.host.X
        whole = len(rows) == self.n_rows and bool((rows == np.arange(self.n_rows)).all())
        there = self.rows.there()
        if isinstance(self.host, DenseKernel):
            row_bytes = form.dtype.itemsize * padded(X.shape[1], form.dtype.itemsize)
            if not whole:  # they are gathered before
                row_bytes += X.dtype.itemsize * X.shape[1]
            if there is None or not has_room_for(self.device, len(rows), row_bytes):
                found = vectors_of_host(self.device, form, X, rows, self._center())
                if isinstance(found, HostVectors):
                    self.rows.keep_on_host()
                return found
        return self.as_vectors(there if whole else there[self.device.array(rows)], form)

    def _center(self) -> Any:
        """What dense rows are seen from, on the device; None: the origin."""
        if not (isinstance(self.host, DenseKernel) and self.host.kernel.of_distances):
            return None
        return self.device.array(self.host.center, dtype=np.float64)

    def _precision(self, rows: NDArray[np.intp]) -> np.dtype | None:
        if not self.host.kernel.of_distances:
            return self.dtype
        return self.host.precision(self.host.largest(rows))

    def as_vectors(self, there: Any, form: Form) -> Vectors:
        if isinstance(self.host, DenseKernel):
            return DenseVectors.of(self.device, form, there, self._center())
        return SparseVectors.of(self.device, form, there)


class DeviceGivenKernel(DeviceKernel):
    """A kernel matrix that is given, and whole on the device."""

    def form(self, rows: NDArray[np.intp]) -> Form:
        return Form(self.dtype, LINEAR, False, 1.0, 0.0, 0, 0.0)  # values are as they are

    def in_form(self, rows: NDArray[np.intp], form: Form) -> Vectors:
        return GivenVectors(self.device, form, self.rows.there(), self.device.array(rows))

    def as_vectors(self, there: Any, form: Form) -> Vectors:
        return GivenVectors(self.device, form, there, None)


class DeviceColumns(Columns):
    """Columns on a device. Lines are vectors of the device; sums come back to the host."""

    sums_on_threads = False

    def __init__(self, kernel: DeviceKernel, vectors: Vectors) -> None:
        self.kernel = kernel
        self.vectors = vectors
        self.dtype = kernel.dtype

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, positions: NDArray[np.intp]) -> DeviceColumns:
        return DeviceColumns(self.kernel, self.vectors.take(self._device.array(positions)))

    @property
    def _device(self) -> Device:
        return self.kernel.device

    def lines(self, rows: NDArray[np.intp]) -> Vectors:
        return self.kernel.in_form(rows, self.vectors.form)

    def own_lines(self, positions: NDArray[np.intp], rows: NDArray[np.intp]) -> Vectors:
        return self.vectors.take(self._device.array(positions))

    def new_lines(self, X_new: Any) -> Vectors:
        return self.kernel.as_vectors(copied(self._device, X_new), self.vectors.form)

    def write(self, lines: Vectors, start: int, stop: int, out: NDArray) -> None:
        columns = self.vectors.take(slice(start, stop))
        out[...] = self._device.to_host(columns.values(lines))

    def values_there(self, lines: Any, n_lines: int) -> Any:
        return self.vectors.values(lines).astype(self.dtype, copy=False)

    def accumulate(self, lines, coefs, scores, kept, crew):
        there = self._device.array(scores)[None]
        add(self.vectors, lines, None, self._device.array(coefs)[None], there)
        scores[...] = self._device.to_host(there[0])

    def sums(self, lines, n_lines, edges, coefs, run=map):
        xp = self._device.xp
        found = np.zeros((n_lines, len(edges) - 1, len(coefs)))
        there = self._device.array(coefs)
        width = max(1, self.kernel.rows.X.shape[1])
        step = max(1, _NEW_BYTES // (8 * (width + len(coefs) * len(edges))))
        asked: list[tuple[slice, int, Any]] = []

        def write_down() -> None:
            for some, segment, sums in asked:
                found[some, segment] = self._device.to_host(sums).T
            asked.clear()

        for first in range(0, n_lines, step):
            part = slice(first, min(first + step, n_lines))
            own = lines(part)
            write_down()  # what was computed of the lines before, while these came over
            for segment in range(len(edges) - 1):
                here = slice(int(edges[segment]), int(edges[segment + 1]))
                sums = xp.zeros((len(coefs), part.stop - first))
                # products are symmetric in both: here the lines are columns of the panels
                every = xp.arange(here.start, here.stop, dtype=np.int32)
                add(own, self.vectors, every, there[:, here], sums)
                asked.append((part, segment, sums))
        write_down()
        return found


def add(columns: Vectors, lines: Vectors, numbers: Any, coefs: Any, sums: Any) -> None:
    """``sums += coefs @ K``, some lines at a time; an interrupt is answered in between.

    Columns of the host go over once, and each panel of them meets all lines.
    """
    if isinstance(columns, HostVectors):
        if isinstance(lines, HostVectors) and numbers is not None:
            lines, numbers = lines.take(numbers), None
        columns.add_panels(sums, lambda panel, own: add(panel, lines, numbers, coefs, own))
        return
    xp = columns.device.xp
    n_lines = coefs.shape[1]
    since = 0.0
    for first in range(0, n_lines, LINES):
        part = slice(first, min(first + LINES, n_lines))
        own = xp.arange(part.start, part.stop, dtype=np.int32) if numbers is None else numbers[part]
        columns.sum_lines(lines, own, xp.ascontiguousarray(coefs[:, part]), None, sums)
        since += (part.stop - first) * float(len(columns)) * columns.n_products
        if since > _BETWEEN:
            columns.device.wait()
            since = 0.0
