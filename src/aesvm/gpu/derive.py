"""DeriveRS on the device: subsets cut (``partition``) and reduced (``hull``) there.

What it is made of, in which order, and when it is given up is that of ``sets.derive``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.hull import most_rows, reduce_batch, subset_bytes
from aesvm.gpu.partition import subsets_on_device
from aesvm.gpu.subset_blocks import SubsetBlocks
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
