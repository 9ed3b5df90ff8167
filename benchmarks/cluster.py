"""Rows on a cluster of this machine: all of covtype with one and two workers, beside one place."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec
from aesvm.out_of_core.merge_tree import merged
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.weighted_rows import WeightedRows, joined
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads, one_blas_thread
from aesvm.sets.derive import ReductionSettings
from benchmarks import processes, streams
from benchmarks.datasets import Dataset
from benchmarks.report import Report, installed

#: Rows of covtype that are trained with.
N_TRAIN = 464_810

#: Rows of a partition.
PARTITION = 50_000

#: Sets that are put together at a time: the default.
SPLIT_EVERY = 16

#: Workers (none: rows in memory), and rounds.
RUNS = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1))

CHILD = "import json, sys; from benchmarks import cluster as c; c.fit(*json.loads(sys.argv[1]))"

COLUMNS = [
    "workers",
    "refine",
    "seconds",
    "of which solving here",
    "rows solved for",
    "MB between workers",
    "accuracy",
    "objective on all rows, F1",
    "peak anonymous memory of all processes, GiB",
]


def run(report: Report, data: Dataset, n_jobs: int) -> None:
    part = data.split(N_TRAIN)
    assert part.X_test is not None
    assert part.y_test is not None
    rows: list[list] = []
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"X": part.X, "X_test": part.X_test, "y": part.y, "y_test": part.y_test}
        for key, values in arrays.items():
            kind = np.float32 if key.startswith("X") else values.dtype
            np.save(Path(folder, f"{key}.npy"), values.astype(kind))
        for n_workers, refine in RUNS:
            arguments = json.dumps([folder, n_workers, refine, n_jobs])
            found, peak = processes.measured(
                [sys.executable, "-W", "ignore", "-c", CHILD, arguments],
                cwd=Path(__file__).parent.parent,
            )
            assert found is not None
            rows.append(
                [
                    n_workers or "none: in memory",
                    refine,
                    found["seconds"],
                    found["solving"],
                    found["solved"],
                    found["sent"] / 1e6 if n_workers else "",
                    found["accuracy"],
                    found["objective"],
                    peak / 2**30,
                ]
            )
            report.table(
                f"{data.name} on a cluster of this machine: {N_TRAIN:,} rows in partitions of "
                f"{PARTITION:,}, C=1, gamma=1, {n_jobs} threads here, workers of one thread (dask "
                f"{installed('dask')})",
                COLUMNS,
                rows,
                "Workers and the process that solves share the cores. The objective is certified "
                "by a look at all rows, after the fit. Partitions are read from a file by the "
                "workers.",
                replace=True,
            )


def levels(report: Report, data_dir: Path | None, covtype: Dataset, n_jobs: int) -> None:
    """How many rows, and bytes, each level hands on: what a cluster's network has to carry."""
    rows: list[list] = []
    X, y = streams.kdd99(data_dir)
    for name, rows_of, labels in (
        ("KDD99, all rows", lambda part: X[part] / np.float32(255), y),
        (covtype.name, lambda part: covtype.X[part].astype(np.float32), covtype.y),
    ):
        order = np.random.default_rng(0).permutation(len(labels))
        for line in _levels(rows_of, labels, order, n_jobs):
            rows.append([name, *line])
        report.table(
            f"Levels: partitions of {PARTITION:,} rows, {SPLIT_EVERY} sets at a time, gamma=1, "
            "hull_tol=1e-3",
            ["data", "level", "sets", "rows", "share of all", "bytes", "bytes a row", "reach^2"],
            rows,
            "Level 0 is the data. Rows are in random order.",
            replace=True,
        )


def _levels(rows_of: Any, y: NDArray, order: Any, n_jobs: int) -> Iterator[list]:
    settings = ReductionSettings(1e-3, 1000, 100_000, "distance")
    hull_tol = settings.hull_tol
    with one_blas_thread(), Threads(n_jobs) as run:
        reduce = RowReducer(KernelSpec("rbf", gamma=1.0), settings).at_levels(run, Silence())
        sets = []
        for first in range(0, len(y), PARTITION):
            part = order[first : first + PARTITION]
            weights, labels = np.ones(len(part)), y[part]
            indices = part.astype(np.int64)
            sets.append(WeightedRows(rows_of(part), labels, labels, weights, indices, 0.0))
        yield _level(0, sets, len(y))
        sets = [reduce(one, hull_tol, 1) for one in sets]
        yield _level(1, sets, len(y))
        level = 1
        while len(sets) > 1:
            level += 1
            last = len(sets) <= SPLIT_EVERY
            groups = [sets[at : at + SPLIT_EVERY] for at in range(0, len(sets), SPLIT_EVERY)]
            if last:
                sets = [reduce(joined(sets), hull_tol, None)]
            else:
                sets = [merged(group, hull_tol, level, reduce) for group in groups]
            yield _level(level, sets, len(y))


def _level(level: int, sets: list[WeightedRows], n_rows: int) -> list:
    n_held, n_bytes = sum(map(len, sets)), sum(one.n_bytes for one in sets)
    reach = max(one.reach for one in sets)
    return [level, len(sets), n_held, n_held / n_rows, n_bytes, n_bytes / n_held, reach**2]


class Clock:
    """Seconds that a task takes in all, as a callback."""

    def __init__(self, name: str) -> None:
        self.name, self.seconds, self.begun = name, 0.0, 0.0

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        if context.task_name == self.name:
            self.begun = time.perf_counter()

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        if context.task_name == self.name:
            self.seconds += time.perf_counter() - self.begun


def fit(folder: str, n_workers: int, refine: int, n_jobs: int) -> None:
    """One fit, for ``processes.measured``: a process that does nothing else."""
    (_here if n_workers == 0 else _on_cluster)(Path(folder), n_workers, refine, n_jobs)


def _here(folder: Path, n_workers: int, refine: int, n_jobs: int) -> None:
    from aesvm import AESVC

    X, y = (np.load(folder / f"{name}.npy") for name in "Xy")
    AESVC(gamma=1.0, refine=refine, n_jobs=n_jobs).fit(X[:5000], y[:5000])
    model = AESVC(C=1.0, gamma=1.0, refine=refine, n_jobs=n_jobs)
    _measure(model, X, y, folder, None)


def _on_cluster(folder: Path, n_workers: int, refine: int, n_jobs: int) -> None:
    from distributed import Client, LocalCluster

    from aesvm.dask import DaskAESVC

    X, y = (lazy(folder / f"{name}.npy") for name in "Xy")
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        few = slice(0, 2 * PARTITION)
        DaskAESVC(gamma=1.0, hull_tol=0.1, refine=refine).fit(X[few], y[few])
        model = DaskAESVC(C=1.0, gamma=1.0, refine=refine, n_jobs=n_jobs)
        _measure(model, X, y, folder, client)


def _measure(model: Any, X: Any, y: Any, folder: Path, client: Any) -> None:
    clock = Clock("solve")
    before = _sent(client)
    print("ready", flush=True)
    started = time.perf_counter()
    model.set_callbacks(clock).fit(X, y)
    found: dict[str, Any] = {
        "seconds": time.perf_counter() - started,
        "solving": clock.seconds,
        "solved": model.certificate_.n_solved,
        "sent": _sent(client) - before,
    }
    print(json.dumps(found), flush=True)
    X_test, y_test = (np.load(folder / f"{name}_test.npy") for name in "Xy")
    accuracy = float(model.score(X_test, y_test))
    objective = _objective(model, X, y)
    print(json.dumps({"accuracy": accuracy, "objective": objective}), flush=True)


def _objective(model: Any, X: Any, y: Any) -> float:
    """F1 of a model, on all rows."""
    if not isinstance(X, np.ndarray):
        return model.certify(X, y).objective
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - signs * model.decision_function(X)).sum()
    return 0.5 * model.certificate_.norm**2 + float(losses)


def _sent(client: Any) -> int:
    """Bytes that workers have sent to each other so far."""
    if client is None:
        return 0
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def lazy(path: Path) -> Any:
    """An array in a file, partition by partition; workers read it."""
    import dask.array as da

    shape, kind = np.load(path, mmap_mode="r").shape, np.load(path, mmap_mode="r").dtype
    sizes = tuple(min(PARTITION, shape[0] - at) for at in range(0, shape[0], PARTITION))
    chunks = (sizes, *((width,) for width in shape[1:]))
    meta = np.empty((0,) * len(shape), dtype=kind)
    return da.map_blocks(_read, str(path), chunks=chunks, dtype=kind, meta=meta)


def _read(path: str, block_info: Any = None) -> Any:
    first, last = block_info[None]["array-location"][0]
    return np.array(np.load(path, mmap_mode="r")[first:last])
