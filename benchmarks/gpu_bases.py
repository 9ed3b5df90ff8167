"""SVMs in the span of few vectors on a GPU: seconds of each phase.

    AESVM_DATA=FOLDER python -m benchmarks.gpu_bases [--device cuda] [--data covtype flights]

Machines are trained by the functions that estimators call. Each is trained twice, and the second
time counts: the first one compiles.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from aesvm.bases.span_machine import SpanMachine
from aesvm.bases.span_training import SpanTraining
from aesvm.formulations.hinge import Hinge
from aesvm.gpu.devices import Device, cuda_device, number_of
from aesvm.kernels import KernelSpec
from aesvm.machines.plan import Span
from aesvm.machines.processor import processor
from aesvm.machines.rows import TrainingRows
from aesvm.machines.trainer import SolverOptions, Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from aesvm.sets.derive import prepare
from benchmarks import other_datasets
from benchmarks.bases import FLIGHTS, SEED, in_order
from benchmarks.datasets import Dataset, load

#: Phases, by the method of a training that each is.
PHASES = {
    "_first_vectors": "pilot and its pursuit",
    "_solve": "solve",
    "_enriched": "enrich",
    "_add": "add vectors",
}

ROWS, TEST, GAP_TOL = 464_000, 20_000, 1e-4


class Clock:
    """Seconds of phases; each ends when the device has done all that it was asked for."""

    def __init__(self, device: Device | None) -> None:
        self.device = device
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        if self.device is not None:
            self.device.wait()
        self.seconds[name] += time.perf_counter() - begin

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Have trainings in spans timed."""
        methods: list[tuple[Any, str, str]] = [
            (SpanTraining, method, name) for method, name in PHASES.items()
        ]
        methods.append((SpanMachine, "choose_multipliers", "gap"))
        before = [getattr(one, method) for one, method, _ in methods]
        for (one, method, name), function in zip(methods, before, strict=True):
            setattr(one, method, self._timed(name, function))
        try:
            yield
        finally:
            for (one, method, _), function in zip(methods, before, strict=True):
                setattr(one, method, function)

    def _timed(self, name: str, function: Callable) -> Callable:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return function(*args, **kwargs)

        return timed


def train(
    data: Dataset, C: float, gamma: float, max_vectors: int, device: Device | None
) -> list[str]:
    """One training: what it took, and what came of it."""
    clock = Clock(device)
    begin = time.perf_counter()
    name = "cpu" if device is None else device.name
    here = processor(name)
    with Threads(-1) as run, here.computing():
        classes, groups = np.unique(data.y, return_inverse=True)
        rows = TrainingRows.of_classes(
            data.X, groups, np.ones(len(groups)), np.full(len(classes), C)
        )
        with clock.phase("rows to the device"):
            there = here.rows(data.X)
            if device is not None:
                there.there()
        with clock.phase("distinct rows"):
            prepared = prepare(data.X, groups, rows.weights, run)
        kernel = TrainingKernel(KernelSpec("rbf", gamma, device=name), data.X, 1e-3, rows=there)
        options = SolverOptions(1e-3, -1, 10**9, True)
        trainer = Trainer(Hinge(), options, rows.n_machines, run, Silence())
        with clock.watching():
            span = Span("max_vectors", max_vectors, GAP_TOL)
            (trained,) = SpanTraining(rows, kernel, prepared, trainer).train(span)
        seconds = time.perf_counter() - begin
        machine, record = trained.machine, trained.record
        objective = 0.5 * machine.squared_norm + (record.loss or 0.0)
        columns = kernel.in_double().columns(machine.set.rows)
        edges = np.array([0, len(columns)])
        decisions = columns.expand(
            data.X_test, edges, machine.coefs[:, None], lambda sums: sums[:, 0, 0], run
        )
    labels = classes[np.where(decisions + machine.offsets[0] > 0, 0, 1)]
    phases = [f"{name} {own:.2f}" for name, own in clock.seconds.items()]
    rest = seconds - sum(clock.seconds.values())
    gap = "unknown"
    if record.estimated_dual is not None:
        share = (objective - record.estimated_dual) / objective
        gap = f"{share:.3%} +- {record.estimated_error / objective:.3%}"
    return [
        f"{data.name}, {len(data.y):,} rows, {len(columns):,} vectors: {seconds:.2f} s",
        "  seconds: " + ", ".join([*phases, f"rest {rest:.2f}"]),
        f"  objective {objective:.6g}, gap estimated {gap}, {trained.n_iter:,} iterations, "
        f"accuracy {np.mean(labels == data.y_test):.4f}",
    ]


def problems(
    names: list[str], folder: Path | None, n_rows: int
) -> Iterator[tuple[Dataset, float, float]]:
    if "covtype" in names:
        yield in_order(load("covtype", folder), SEED, n_rows, TEST), 1.0, 1.0
    if "flights" in names:
        flights = other_datasets.load("flights", folder)
        yield flights._replace(X=flights.X[:n_rows], y=flights.y[:n_rows]), *FLIGHTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data", nargs="+", default=["covtype", "flights"])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--max-vectors", type=int, default=4500)
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args()
    device = None if options.device == "cpu" else cuda_device(number_of(options.device))
    given = os.environ.get("AESVM_DATA")
    for data, C, gamma in problems(options.data, Path(given) if given else None, options.rows):
        for _ in range(options.times):
            lines = train(data, C, gamma, options.max_vectors, device)
            print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
