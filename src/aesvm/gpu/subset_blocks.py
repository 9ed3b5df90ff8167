"""Gram blocks of many subsets at once, on the device.

Of dense vectors, a batched matrix product and the kernel's map; of rows that the host alone has
(sparse ones, or a given matrix), the host's blocks. The precision of products is chosen as
``kernels.vectors`` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.matrix import DeviceKernel
from aesvm.gpu.partition import DeviceDistances
from aesvm.gpu.room import has_room_for
from aesvm.gpu.rows import DeviceRows
from aesvm.kernels.dense import DenseKernel
from aesvm.kernels.joint import HullKernel, JointKernel


class SubsetBlocks(ABC):
    """Kernel values within subsets, as arrays of the device."""

    def __init__(self, device: Device, kernel: HullKernel) -> None:
        self.device = device
        self.kernel = kernel
        self.dtype = kernel.dtype

    @abstractmethod
    def squares(self, rows: NDArray[np.intp]) -> Any:
        """Values of each line of ``rows`` against itself, of shape (n_subsets, n, n)."""

    def n_bytes(self, n: int) -> float:
        """Bytes on the device that it takes to compute the values of a subset of n rows."""
        return 3.0 * n * n * self.dtype.itemsize  # as they are, and in double precision

    def distances(self) -> DeviceDistances | None:
        """Distances of the rows, for the partition; None: the host computes them."""
        return None


class HostBlocks(SubsetBlocks):
    """Blocks that the host computes."""

    def squares(self, rows: NDArray[np.intp]) -> Any:
        n = rows.shape[1]
        values = self.device.xp.empty((len(rows), n, n), dtype=self.dtype)
        for number, own in enumerate(rows):  # the host need not have room for all
            values[number] = self.device.array(self.kernel.square(own))
        return values


class DenseBlocks(SubsetBlocks):
    """Blocks of dense vectors.

    Parameters
    ----------
    device : Device
    kernel : DenseKernel
    vectors : array of shape (n_rows, n_features), or None
        Of the device; ``kernel.X`` there. None: it has no room for them, and subsets are gathered
        on the host.
    """

    kernel: DenseKernel

    def __init__(self, device: Device, kernel: DenseKernel, vectors: Any) -> None:
        super().__init__(device, kernel)
        self.vectors = vectors

    def squares(self, rows: NDArray[np.intp]) -> Any:
        kernel, xp = self.kernel, self.device.xp
        if self.vectors is None:
            x = self.device.large_array(kernel.X[rows])
        else:
            x = self.vectors[self.device.array(rows)]
        if not kernel.kernel.of_distances:
            x = x.astype(self.dtype, copy=False)
            values = xp.matmul(x * x.dtype.type(kernel.parameters.gamma), x.transpose(0, 2, 1))
            return self._mapped(values)
        # seen from the first row of each subset
        x = x.astype(np.float64)
        x -= x[:, :1].copy()
        norms = kernel.parameters.gamma * xp.square(x).sum(axis=2, keepdims=True)
        dtype = kernel.precision(float(norms.max()))
        if dtype is None:
            return self._mapped(self._differences(x))
        ones = xp.ones_like(norms)
        left = xp.concatenate([2.0 * kernel.parameters.gamma * x, -norms, ones], axis=2)
        right = xp.concatenate([x, ones, -norms], axis=2)
        left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
        return self._mapped(xp.matmul(left, right.transpose(0, 2, 1)))

    def n_bytes(self, n: int) -> float:
        # the rows as they are, in double precision, and as the two factors of a product
        return super().n_bytes(n) + 8.0 * 5 * n * (self.kernel.X.shape[1] + 2)

    def distances(
        self, targets: NDArray[np.float64] | None = None, distance_scale: float = 1.0
    ) -> DeviceDistances | None:
        """Distances of the rows, with their targets where these are given."""
        X = self.kernel.X
        has_room = has_room_for(self.device, len(X), 4 * (X.shape[1] + 1))
        if not self.kernel.kernel.euclidean or not has_room:
            return None
        vectors = X if self.vectors is None else self.vectors
        return DeviceDistances(self.device, vectors, self.kernel.center, targets, distance_scale)

    def _differences(self, x: Any) -> Any:
        """Distances that do not cancel, however far apart: a feature at a time."""
        values = self.device.xp.zeros((*x.shape[:2], x.shape[1]))
        for feature in range(x.shape[2]):
            own = x[:, :, feature]
            values += self.device.xp.square(own[:, :, None] - own[:, None, :])
        values *= -self.kernel.parameters.gamma
        return values

    def _mapped(self, values: Any) -> Any:
        self.kernel.kernel.map(values, self.kernel.parameters)  # NumPy's functions dispatch
        return self.device.xp.ascontiguousarray(values, dtype=self.dtype)


class JointBlocks(SubsetBlocks):
    """Blocks of rows together with their targets."""

    kernel: JointKernel

    def __init__(self, kernel: JointKernel, own: SubsetBlocks) -> None:
        super().__init__(own.device, kernel)
        self.own = own
        self.targets = own.device.array(kernel.targets, dtype=np.float64)

    def squares(self, rows: NDArray[np.intp]) -> Any:
        values = self.own.squares(rows)
        own = self.targets[self.device.array(rows)]
        values += (own[:, :, None] * own[:, None, :]).astype(values.dtype)
        return values

    def n_bytes(self, n: int) -> float:
        return self.own.n_bytes(n)

    def distances(self) -> DeviceDistances | None:
        if not isinstance(self.own, DenseBlocks):
            return None
        return self.own.distances(self.kernel.targets, self.kernel.distance_scale)


def subset_blocks(rows: DeviceRows, kernel: HullKernel) -> SubsetBlocks:
    """Blocks of a kernel matrix of the host, whose rows the device computes with."""
    if isinstance(kernel, JointKernel):
        return JointBlocks(kernel, subset_blocks(rows, kernel.kernel))
    if isinstance(kernel, DenseKernel):
        return DenseBlocks(rows.device, kernel, rows.there())
    return HostBlocks(rows.device, kernel)


def blocks_of(kernel: HullKernel) -> SubsetBlocks:
    """Blocks of a kernel matrix that is on a device."""
    joint = kernel if isinstance(kernel, JointKernel) else None
    own = kernel if joint is None else joint.kernel
    assert isinstance(own, DeviceKernel)
    host: HullKernel = own.host
    if joint is not None:
        host = JointKernel(own.host, joint.targets, joint.distance_scale)
    return subset_blocks(own.rows, host)
