"""How do the seconds of an SVM in the span of few vectors grow with the rows?

Rows are in memory, in a Parquet file that is streamed, or on two workers of Dask: one question
each. Every fit is in a process that does nothing else.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import processes, streams
from benchmarks.bases import SEED, in_order
from benchmarks.cluster import PARTITION, lazy
from benchmarks.datasets import Dataset
from benchmarks.report import Report, installed
from benchmarks.stream_growth import BLOCK, FEATURES, Generated, expected, exponent

#: Rows of covtype and of the generated data.
COVTYPE = (100_000, 200_000, 464_000)
GENERATED = (100_000, 300_000, 1_000_000, 3_000_000)

#: Rows that accuracy is measured with.
TEST = 20_000

#: Seconds that a fit may take. One that is expected to take longer is not started.
LIMIT = 1800.0

#: The share of the generated labels that are flipped, and the kernel's gamma there.
FLIPS, GAMMA = 0.1, 0.1

#: Rows to compile with.
WARM_UP = 5000

N_WORKERS = 2

#: Parameters of each program.
PROGRAMS: dict[str, dict[str, Any]] = {'"auto"': {}, "max_vectors=2000": {"max_vectors": 2000}}

COLUMNS = [
    "data",
    "program",
    "rows",
    "seconds",
    "microseconds per row",
    "vectors",
    "accuracy",
    "gap estimated %",
    "peak anonymous memory, GiB",
    "exponent",
    "exponent fitted",
    "remark",
]

NOTE = (
    "exponent: of seconds as a power of the rows, from the line before; fitted: by least squares, "
    "over all lines so far. Memory is that of the process and its descendants. Rows are in single "
    f"precision. Generated: {FEATURES} normal features, {FLIPS:.0%} of the labels flipped."
)

CHILD = (
    "import json, sys; from benchmarks import basis_growth as g; g.fit(*json.loads(sys.argv[1]))"
)


@dataclass(frozen=True)
class Flipped(Generated):
    """Normal rows in two classes with a smooth border; ``noise``: the share of flipped labels."""

    def _block(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        rng = np.random.default_rng([self.seed, number])
        X = rng.standard_normal((BLOCK, FEATURES), dtype=np.float32)
        y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] > 0.0
        return X, (y ^ (rng.random(BLOCK) < self.noise)).astype(np.int8)


class Series(NamedTuple):
    """Data of several sizes; ``source(n)`` has its rows, and those to test with."""

    name: str
    gamma: float
    sizes: tuple[int, ...]
    source: Callable[[int], Source]


class Source(NamedTuple):
    """Rows as they are written to files."""

    chunks: Iterator[tuple[NDArray, NDArray]]
    n_rows: int
    X_test: NDArray
    y_test: NDArray


def run(report: Report, covtype: Dataset, n_jobs: int) -> None:
    """Rows in memory."""
    grow(report, "memory", all_series(covtype), n_jobs)


def run_streams(report: Report, covtype: Dataset, n_jobs: int) -> None:
    """Rows in a Parquet file."""
    grow(report, "streams", all_series(covtype), n_jobs)


def run_cluster(report: Report, covtype: Dataset, n_jobs: int) -> None:
    """Rows in partitions, which two workers of Dask read."""
    grow(report, "cluster", all_series(covtype), n_jobs)


def all_series(
    covtype: Dataset,
    sizes: tuple[int, ...] = COVTYPE,
    generated_sizes: tuple[int, ...] = GENERATED,
    n_test: int = TEST,
) -> list[Series]:
    return [
        Series(covtype.name, 1.0, sizes, partial(_of_dataset, covtype, n_test)),
        Series("generated", GAMMA, generated_sizes, partial(generated, n_test=n_test)),
    ]


def _of_dataset(data: Dataset, n_test: int, n_rows: int) -> Source:
    part: Any = in_order(data, SEED, n_rows, n_test)
    starts = range(0, n_rows, BLOCK)
    chunks = ((part.X[at : at + BLOCK], part.y[at : at + BLOCK]) for at in starts)
    return Source(chunks, n_rows, part.X_test, part.y_test)


def generated(n_rows: int, n_test: int = TEST) -> Source:
    """Rows with flipped labels, and fresh ones to test with."""
    chunks = ((X, y) for X, y, _ in Flipped(FLIPS, n_rows))
    return Source(chunks, n_rows, *Flipped(FLIPS, n_test, seed=1).rows(0, n_test))


WAYS = {
    "memory": "in memory",
    "streams": "streamed from Parquet",
    "cluster": f"on {N_WORKERS} workers of Dask, in partitions of {PARTITION:,}",
}


def grow(report: Report, way: str, series: list[Series], n_jobs: int) -> None:
    """Every series of data with every program, larger and larger."""
    rows: list[list] = []
    for one in series:
        points: dict[str, list[tuple[int, float]]] = {program: [] for program in PROGRAMS}
        for n in one.sizes:
            with tempfile.TemporaryDirectory() as folder:
                write(one.source(n), Path(folder), way)
                for program in PROGRAMS:
                    row = _row(way, folder, one, program, n, points[program], n_jobs)
                    rows.append(row)
                    print(*row, sep=" | ", file=sys.stderr, flush=True)
            report.table(
                f"Growth in the span of few vectors, {WAYS[way]}: C=1, gamma=1 and {GAMMA:g}, "
                f"{n_jobs} threads, one run (dask {installed('dask')})",
                COLUMNS,
                rows,
                NOTE,
                replace=True,
            )


def _row(
    way: str,
    folder: str,
    series: Series,
    program: str,
    n: int,
    points: list[tuple[int, float]],
    n_jobs: int,
) -> list:
    """A line of the table. ``points`` has the runs before, and gets this one."""
    nothing = [series.name, program, n, *[""] * 8]
    awaited = expected(points, n)
    if awaited > LIMIT:
        return [*nothing, f"not started: some {awaited:,.0f} s expected"]
    found, peak = in_a_process(way, folder, PROGRAMS[program], series.gamma, n_jobs, LIMIT)
    if found is None:
        return [*nothing, f"stopped after {LIMIT:g} s"]
    points.append((n, found["seconds"]))
    return [
        series.name,
        program,
        n,
        found["seconds"],
        1e6 * found["seconds"] / n,
        found["vectors"],
        f"{found['accuracy']:.4f}",
        "" if found["estimated"] is None else f"{100 * found['estimated']:.3f}",
        peak / 2**30,
        f"{exponent(points[-2:]):.2f}" if len(points) > 1 else "",
        f"{fitted_exponent(points):.2f}" if len(points) > 1 else "",
        "",
    ]


def fitted_exponent(points: list[tuple[int, float]]) -> float:
    """Of seconds as a power of the rows, by least squares of the logarithms."""
    rows, seconds = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(rows, seconds, 1)[0])


def in_a_process(
    way: str,
    folder: str,
    parameters: dict[str, Any],
    gamma: float,
    n_jobs: int,
    limit: float,
) -> tuple[dict[str, Any] | None, int]:
    """What a fit finds, and its peak of anonymous memory."""
    arguments = json.dumps([way, folder, parameters, gamma, n_jobs])
    command = [sys.executable, "-W", "ignore", "-c", CHILD, arguments]
    return processes.measured(command, limit, Path(__file__).parent.parent)


def write(source: Source, folder: Path, way: str) -> None:
    """Rows to a file of the kind that a way reads, in single precision; and those to test with."""
    np.save(folder / "X_test.npy", source.X_test.astype(np.float32))
    np.save(folder / "y_test.npy", source.y_test)
    if way == "streams":
        streams.write_parquet(folder / "rows.parquet", source.chunks)
        return
    shape = (source.n_rows, source.X_test.shape[1])
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, shape)
    y = np.empty(source.n_rows, dtype=np.int8)
    at = 0
    for rows, classes in source.chunks:
        X[at : at + len(classes)], y[at : at + len(classes)] = rows, classes
        at += len(classes)
    X.flush()
    np.save(folder / "y.npy", y)


def fit(way: str, folder: str, parameters: dict[str, Any], gamma: float, n_jobs: int) -> None:
    """One fit, for ``processes.measured``: a process that does nothing else."""
    ways = {"memory": fit_in_memory, "streams": fit_stream, "cluster": fit_on_cluster}
    ways[way](Path(folder), {"gamma": gamma, "n_jobs": n_jobs, **parameters})


def fit_in_memory(folder: Path, parameters: dict[str, Any]) -> None:
    from aesvm import AESVC

    X, y = (np.load(folder / f"{name}.npy") for name in "Xy")
    AESVC(**parameters).fit(X[:WARM_UP], y[:WARM_UP])
    model = AESVC(**parameters)
    _measure(model, partial(model.fit, X, y), folder)


def fit_stream(folder: Path, parameters: dict[str, Any]) -> None:
    from aesvm import AESVC
    from aesvm.io import ParquetReader

    reader = partial(ParquetReader, folder / "rows.parquet", target="y", dtype=np.float32)
    few = list(islice(reader(chunk_rows=WARM_UP // 2), 2))
    AESVC(**parameters).fit_stream(few)
    model = AESVC(**parameters)
    _measure(model, partial(model.fit_stream, reader()), folder)


def fit_on_cluster(folder: Path, parameters: dict[str, Any]) -> None:
    import dask.array as da
    from distributed import Client, LocalCluster

    from aesvm.dask import DaskAESVC

    with (
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0") as workers,
        Client(workers),
    ):
        few = (np.load(folder / f"{name}.npy", mmap_mode="r")[:WARM_UP] for name in "Xy")
        sizes = WARM_UP // (2 * N_WORKERS)
        DaskAESVC(**parameters).fit(*(da.from_array(np.array(one), chunks=sizes) for one in few))
        model = DaskAESVC(**parameters)
        X, y = (lazy(folder / f"{name}.npy") for name in "Xy")
        _measure(model, partial(model.fit, X, y), folder)


def _measure(model: Any, train: Callable[[], object], folder: Path) -> None:
    print("ready", flush=True)
    started = time.perf_counter()
    train()
    found = {
        "seconds": time.perf_counter() - started,
        "resident": processes.resident_peak(),
        "vectors": len(model.support_),
        "estimated": model.certificate_.estimated_gap,
    }
    print(json.dumps(found), flush=True)
    X, y = (np.load(folder / f"{name}_test.npy") for name in "Xy")
    print(json.dumps({"accuracy": float(np.mean(model.predict(X) == y))}), flush=True)
