"""NumPy in place of CuPy: the drivers of a GPU run where there is none."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from aesvm.gpu.devices import MEMORY_FRACTION, Device
from aesvm.gpu.matrix import DeviceVectorKernel
from aesvm.gpu.rows import DeviceRows
from aesvm.sets.hull import approximate_extreme_points
from tests.gpu import plain


class PlainCopies:
    """Panels that are copied one after another."""

    def __init__(self, device, shape, dtype, gathers):
        self.device = device
        self.own = np.empty(shape, dtype=dtype) if gathers else None

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def next(self, panel):
        return self.device.array(panel(self.own))

    def done(self):
        pass


class HostMemory(Device):
    """A device whose memory is the host's, and which has done what it is asked for."""

    @contextmanager
    def here(self):
        yield

    stream = here

    def wait(self):
        pass

    def give_back(self, most=0):
        pass

    def has(self, values):
        return True

    def csr(self, rows):
        return rows

    def large_array(self, values):
        return self.array(values)

    def page_locked(self, shape, dtype, pooled=False):
        return np.empty(shape, dtype=dtype)

    def panel_copies(self, shape, dtype, gathers):
        return PlainCopies(self, shape, dtype, gathers)

    def _free_bytes(self):
        return 2.0**30 / MEMORY_FRACTION


class NumpyDevice(HostMemory):
    """A device whose arrays are NumPy's."""

    def __init__(self, name="cuda:0", operations=plain):
        super().__init__(name, np, operations)

    def to_host(self, values, out=None):
        if hasattr(values, "get"):  # what a user has on a GPU
            return values.get()
        if out is None:
            return np.asarray(values)
        out[...] = values
        return out


def device_kernel(kernel, device):
    """The kernel matrix of the host on a device."""
    return DeviceVectorKernel(kernel, DeviceRows(device, kernel.X))


def launch_on_the_host(device, gram, sizes, weights, tol, work, threads):
    """What the kernel of ``hull`` does, in its place."""
    for b, size in enumerate(sizes):
        found = approximate_extreme_points(np.ascontiguousarray(gram[b, :size, :size]), tol)
        if len(found.indices) > work.ledger_rows.shape[1]:
            work.answers[b] = 1
            continue
        work.selected[b, found.selected] = 1
        work.start[b, :size] = found.indptr[:-1]
        work.length[b, :size] = np.diff(found.indptr)
        work.length[b, found.selected] = 0
        work.ledger_rows[b, : len(found.indices)] = found.indices
        work.ledger_coefs[b, : len(found.coefs)] = found.coefs
        work.residuals[b, :size] = found.residuals
        given = np.repeat(weights[b, :size], np.diff(found.indptr)) * found.coefs
        work.sums[b] = np.bincount(found.indices, given, gram.shape[1])
    return work.answers
