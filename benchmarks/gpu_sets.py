"""DeriveRS on a GPU: seconds of each phase, on all of covtype.

    AESVM_DATA=... python -m benchmarks.gpu_sets [--gamma 1] [--repeats 3]

The first fit, which compiles, is not counted.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from aesvm.gpu.derive import DeviceSetKernel
from aesvm.gpu.devices import Device, cuda_device
from aesvm.gpu.hull import most_rows, reduce_batch
from aesvm.gpu.rows import DeviceRows
from aesvm.gpu.subset_blocks import subset_blocks
from aesvm.kernels import kernel_matrix
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from aesvm.sets.derive import ReductionSettings, prepare, reduce, union
from benchmarks.datasets import load

#: Threads of a block that are tried.
_THREADS = (32, 64, 128, 256)


class Clock:
    """Seconds of phases, with all work of the device done at their ends."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.wait()
        self.seconds[name] = time.perf_counter() - started

    def wait(self) -> None:
        self.device.xp.cuda.Device().synchronize()


def one_fit(device: Device, X: Any, y: Any, gamma: float, keep: bool) -> tuple[Clock, str]:
    """Seconds of each phase, and what came of it."""
    settings = ReductionSettings(1e-3, 1000, 100_000, "distance")
    kernel = kernel_matrix(X, gamma=gamma)
    weights = np.ones(len(X))
    clock = Clock(device)
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    with clock.phase("X to the device"):
        sets = DeviceSetKernel(subset_blocks(DeviceRows(device, X), kernel))
    with clock.phase("partition"):
        subsets = sets.cut(groups, settings, map, Silence())
    with clock.phase("hulls"):
        reducer = sets.reducer(settings.hull_tol, weights, keep)
        reduced, given_up = reduce(reducer, subsets, settings, map, Silence())
    if given_up is not None:
        return clock, given_up.message(len(X))
    with clock.phase("union"):
        found = union(reduced, len(X), keep)
    return clock, (
        f"{len(subsets):,} subsets, {len(found.selected) / len(X):.2%} of the rows kept, "
        f"largest residual {found.residuals.max():.6f}, weights {found.weights.sum():,.3f}"
    )


def parts(device: Device, X: Any, y: Any, gamma: float) -> None:
    """Gram blocks and the kernel alone, by numbers of threads."""
    settings = ReductionSettings(1e-3, 1000, 100_000, "distance")
    blocks = subset_blocks(DeviceRows(device, X), kernel_matrix(X, gamma=gamma))
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    subsets = DeviceSetKernel(blocks).cut(groups, settings, map, Silence())
    rows = np.stack([own for own in subsets if len(own) == 1000][:584])
    sizes, weights = np.full(len(rows), 1000), np.ones(rows.shape)
    assert most_rows(blocks.dtype) >= 1000
    clock = Clock(device)
    with clock.phase(f"Gram blocks of {len(rows)} subsets"):
        gram = blocks.squares(rows)
    for threads in _THREADS:
        for keep in (False, True):
            for turn in ("first", "again"):
                name = f"kernel, {threads} threads{', combinations' * keep}, {turn}"
                with clock.phase(name):
                    reduce_batch(device, gram, sizes, weights, 1e-3, keep, threads)
    show(clock)


def show(clock: Clock) -> None:
    for name, seconds in clock.seconds.items():
        print(f"  {name:45s} {seconds:8.4f} s")
    print(f"  {'all':45s} {sum(clock.seconds.values()):8.4f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=None, help="the first rows alone")
    parser.add_argument("--double", action="store_true", help="rows in double precision")
    parser.add_argument("--combinations", action="store_true", help="keep them")
    given = parser.parse_args()
    data = load("covtype", given.data_dir)
    X = data.X[: given.rows].astype(np.float64 if given.double else np.float32)
    y = data.y[: given.rows]
    device = cuda_device(0)
    started = time.perf_counter()
    with Threads(os.cpu_count() or 1) as run:
        prepare(X, y.astype(np.intp), np.ones(len(X)), run)
    print(
        f"equal rows merged, on the host: {time.perf_counter() - started:.3f} s, not counted below"
    )
    for turn in range(given.repeats + 1):
        clock, outcome = one_fit(device, X, y, given.gamma, given.combinations)
        print(f"fit {turn}{' (compiles)' if turn == 0 else ''}: {outcome}")
        show(clock)
    parts(device, X, y, given.gamma)


if __name__ == "__main__":
    main()
