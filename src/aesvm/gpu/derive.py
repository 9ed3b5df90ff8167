"""DeriveRS on the device: subsets cut (``partition``) and reduced (``hull``) there.

The steps, their order and the rule for giving up are those of ``sets.derive``.

The Gram blocks of many subsets are made at once: of dense vectors, by a batched matrix product and
the kernel's map; of rows that the host alone has (sparse ones, or a given matrix), they are the
host's blocks. The precision of products is chosen as ``kernels.vectors`` does.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.hull import most_rows, reduce_batch, subset_bytes
from aesvm.gpu.matrix import DeviceKernel
from aesvm.gpu.partition import DeviceDistances, subsets_on_device
from aesvm.gpu.rows import DeviceRows, has_room_for
from aesvm.kernels.dense import DenseKernel
from aesvm.kernels.joint import HullKernel, JointKernel
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import Reduced, ReductionSettings, SetKernel, SubsetReducer
from aesvm.sets.partition import sequence_partitions

#: Subsets that are reduced together: several to each multiprocessor of a large GPU, and done in
#: a fraction of a second.
_MOST_SUBSETS = 1024

#: The fraction of the memory for a fit that a batch may take.
_BATCH_FRACTION = 0.5


class DeviceSetKernel(SetKernel):
    """Kernel values of a device, as DeriveRS uses them."""

    def __init__(self, blocks: SubsetBlocks) -> None:
        super().__init__(blocks.kernel)
        self.blocks = blocks

    def cut(
        self,
        groups: list[NDArray[np.intp]],
        settings: ReductionSettings,
        run: Callable,
        progress: Progress,
    ) -> list[NDArray[np.intp]]:
        started = time.perf_counter()
        by_distance, size = settings.partition != "sequence", settings.partition_size
        with self.blocks.device.here():
            distances = self.blocks.distances()
            if distances is None:  # the device has no room for the rows, or not their kernel
                return super().cut(groups, settings, run, progress)
            if not by_distance:
                groups = [part for rows in groups for part in sequence_partitions(rows, size)]
            subsets = subsets_on_device(distances, groups, size, settings.subset_size, by_distance)
        progress.say(f"partition: {len(subsets):,} subsets, {time.perf_counter() - started:.2f} s")
        return subsets

    def reducer(
        self, tol: float, weights: NDArray[np.float64], keep_combinations: bool
    ) -> SubsetReducer:
        return DeviceReducer(self.blocks, tol, weights, keep_combinations)


class DeviceReducer(SubsetReducer):
    """Reduces batches of many subsets, a thread block to each."""

    def __init__(
        self,
        blocks: SubsetBlocks,
        tol: float,
        weights: NDArray[np.float64],
        keep_combinations: bool,
    ) -> None:
        super().__init__(blocks.kernel, tol, weights, keep_combinations)
        self.blocks = blocks

    def batches(
        self, numbers: NDArray[np.intp], subsets: list[NDArray[np.intp]]
    ) -> list[NDArray[np.intp]]:
        """As many together as there is memory for."""
        if not len(numbers):
            return []
        n = max(len(subsets[at]) for at in numbers)
        one = self.blocks.n_bytes(n) + subset_bytes(n)
        room = int(_BATCH_FRACTION * self.blocks.device.free_bytes() / one)
        most = min(_MOST_SUBSETS, max(1, room))
        return np.array_split(numbers, -(-len(numbers) // most))

    def each(self, batches: Iterable[list[NDArray[np.intp]]], run: Callable) -> Iterator:
        return (self(batch) for batch in batches)  # a device is asked by one thread

    def __call__(self, batch: list[NDArray[np.intp]]) -> list[Reduced]:
        sizes = np.array([len(rows) for rows in batch])
        if sizes.max() > most_rows(self.blocks.dtype):
            return super().__call__(batch)  # more than a thread block has room for
        n = int(sizes.max() + 1) // 2 * 2
        rows = np.empty((len(batch), n), dtype=np.intp)
        for line, own in zip(rows, batch, strict=True):
            line[: len(own)] = own
            line[len(own) :] = own[0]  # rows that are not there: any will do
        there = np.arange(n) < sizes[:, None]
        weights = np.where(there, self.weights[rows], 0.0)
        with self.blocks.device.here():
            gram = self.blocks.squares(rows)
            hulls = reduce_batch(
                self.blocks.device, gram, sizes, weights, self.tol, self.keep_combinations
            )
        found = []
        ends = np.zeros(len(batch) + 1, dtype=np.intp)
        if hulls.combinations:
            ends[1:] = np.cumsum(hulls.combinations.lengths.sum(axis=1))
        for b, own in enumerate(batch):
            chosen = np.flatnonzero(hulls.selected[b])
            combinations = None
            if hulls.combinations:
                lengths, indices, coefs = hulls.combinations
                part = slice(ends[b], ends[b + 1])
                combinations = (lengths[b, : len(own)], own[indices[part]], coefs[part])
            residuals = hulls.residuals[b, : len(own)]
            found.append(
                Reduced(own, own[chosen], hulls.weights[b, chosen], residuals, combinations)
            )
        return found


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
