"""Rows that are not in memory: seconds, memory and accuracy of streams and of a cluster.

``streams``        all of KDD99, from files of three kinds.
``stream_growth``  more and more generated rows, and how far SVMs of all rows come.
``loosened``       budgets that are too small, beside random samples of as many rows.
``cluster``        covtype on workers of this machine, beside one place.
``levels``         rows and bytes that each level of merged sets hands on.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.datasets import dump_svmlight_file, make_moons
from sklearn.svm import SVC

from aesvm import AESVC
from aesvm.io import LibsvmReader, NpyReader, ParquetReader
from aesvm.kernels import KernelSpec
from aesvm.out_of_core.merge_tree import merged
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.weighted_rows import WeightedRows, joined
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads, one_blas_thread
from aesvm.sets.derive import ReductionSettings
from benchmarks import limits, processes, rivals
from benchmarks.datasets import Dataset, MissingError
from benchmarks.limits import expected, exponent
from benchmarks.report import Report, installed, show

#: Rows that are written or made together, and those of a test.
BLOCK, FRESH = 65_536, 20_000

#: Rows of the streams, and of the prefixes that SVMs of all rows are given.
ROWS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
PREFIXES = (10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 500_000, 1_000_000)

#: The plane that generated rows are near, and how near, in two kinds of data.
PLANE = np.random.default_rng(0).normal(size=(2, 10)) / 3
NEAR, LESS_NEAR = 0.001, 0.01

#: Programs of ``stream_growth``, and the noise of their data.
BOUNDED = {"refine": 0, "memory_budget": "8 MB", "on_overflow": "loosen"}
RUNS: tuple[tuple[str, float, dict[str, Any]], ...] = (
    ("AESVC", NEAR, {"refine": 0}),
    ("AESVC", LESS_NEAR, {"refine": 0}),
    ("AESVC, 8 MB", LESS_NEAR, BOUNDED),
    ("AESVC, max_vectors=2000", LESS_NEAR, {"max_vectors": 2000}),
    ("SVC", NEAR, {}),
    ("intelex", NEAR, {}),
)
GROWTH = "Growth of streams"

#: Bytes that a loosened stream may hold, and in how many orders the rows come.
BUDGETS = {5_000: 60, 20_000: 60, 100_000: 20, 300_000: 10, 1_000_000: 5}

#: Training rows of covtype, rows of a partition, and sets that are put together at a time.
N_TRAIN, PARTITION, SPLIT_EVERY = 464_810, 50_000, 16

CHILD = "import json, sys; from benchmarks import streams; streams.fit(**json.loads(sys.argv[1]))"


@dataclass(frozen=True)
class Generated:
    """A source of n rows near a plane, in two classes that overlap where they meet.

    The first rows are the same however many there are, and whatever the chunk.
    """

    noise: float
    n: int
    seed: int = 0
    chunk: int = BLOCK

    def __iter__(self) -> Iterator[tuple[NDArray, NDArray, None]]:
        for first in range(0, self.n, self.chunk):
            yield *self.rows(first, min(first + self.chunk, self.n)), None

    def rows(self, first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Some of the rows, and their classes."""
        begun = first // BLOCK
        blocks = [self._block(number) for number in range(begun, -(-last // BLOCK))]
        part = slice(first - begun * BLOCK, last - begun * BLOCK)
        X, y = (np.concatenate(arrays)[part] for arrays in zip(*blocks, strict=True))
        return X, y

    def _block(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        rng = np.random.default_rng([self.seed, number])
        place = rng.uniform(size=(BLOCK, 2))
        X = place @ PLANE + self.noise * rng.normal(size=(BLOCK, PLANE.shape[1]))
        y = place.sum(axis=1) + 0.1 * rng.normal(size=BLOCK) > 1.0
        return X.astype(np.float32), y.astype(np.int8)


# Fits in processes that do nothing else


def in_a_process(limit: float | None = None, **arguments: Any) -> dict[str, Any] | None:
    """What ``fit`` finds, and its peak of memory; None where it takes longer than the limit."""
    command = [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(arguments)]
    folder = Path(__file__).parent.parent
    at_most = {} if limit is None else {"limit": limit}
    found, peak = processes.measured(command, cwd=folder, **at_most)
    return None if found is None else {**found, "peak, GiB": peak / 2**30}


def fit(source: Any, parameters: dict[str, Any], program: str = "stream", workers: int = 0) -> None:
    """One fit, for ``processes.measured``.

    ``source``: a file, a folder with ``.npy`` files, or noise and rows of generated data.
    ``program``: "stream", "memory" or "cluster", or the name of a rival.
    """
    if workers:
        from distributed import Client, LocalCluster

        place: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1}
        with LocalCluster(dashboard_address=":0", **place) as cluster, Client(cluster) as client:
            _fit_on_cluster(Path(source), parameters, client)
    elif program == "stream":
        rng = np.random.default_rng(1)
        few = rng.normal(size=(3000, 5))
        AESVC(**parameters).fit_stream([(few, few[:, 0] > 0, None)])
        model = AESVC(**parameters)
        _measure(model, partial(model.fit_stream, opened(source)), source)
    else:
        X, y = _in_memory(source)
        if program == "memory":
            AESVC(**parameters).fit(X[:5000], y[:5000])
            model = AESVC(**parameters)
        elif program == "SVC":
            model = rivals.svc(1.0, 1.0)
        else:
            model = rivals.intelex(1.0, 1.0, parameters["n_jobs"])
        _measure(model, partial(model.fit, X, y), source)


def opened(source: Any) -> Any:
    """A source that can be read again."""
    if not isinstance(source, str):
        return Generated(*source)
    if source.endswith(".parquet"):
        return ParquetReader(source, target="y", dtype=np.float32)
    if source.endswith(".libsvm"):
        return LibsvmReader(source, n_features=None)
    return NpyReader(f"{source}/X.npy", f"{source}/y.npy")


def _in_memory(source: Any) -> tuple[NDArray, NDArray]:
    if isinstance(source, str):
        return np.load(f"{source}/X.npy"), np.load(f"{source}/y.npy")
    return Generated(*source).rows(0, source[1])


def _fit_on_cluster(folder: Path, parameters: dict[str, Any], client: Any) -> None:
    from aesvm.dask import DaskAESVC

    X, y = (lazy(folder / f"{name}.npy") for name in "Xy")
    few = slice(0, 2 * PARTITION)
    DaskAESVC(**{**parameters, "hull_tol": 0.1}).fit(X[few], y[few])
    model = DaskAESVC(**parameters)

    def sent() -> int:
        of_workers = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return sum(of_workers.values())

    before = sent()
    _measure(model, partial(model.fit, X, y), str(folder), lambda: {"sent": sent() - before})


def _measure(
    model: Any,
    train: Callable[[], object],
    source: Any,
    more: Callable[[], dict[str, Any]] = dict,
) -> None:
    print("ready", flush=True)
    started = time.perf_counter()
    train()
    found = {"seconds": time.perf_counter() - started, "vectors": len(model.support_), **more()}
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        found |= {"solved": certificate.n_solved, "bound": certificate.max_residual}
    print(json.dumps(found), flush=True)
    if not isinstance(source, str):
        test = Generated(source[0], FRESH, seed=1).rows(0, FRESH)
    elif Path(source, "X_test.npy").exists():
        test = np.load(f"{source}/X_test.npy"), np.load(f"{source}/y_test.npy")
    else:
        return
    print(json.dumps({"accuracy": float(np.mean(model.predict(test[0]) == test[1]))}), flush=True)


def lazy(path: Path) -> Any:
    """An array in a file, partition by partition; workers read it."""
    import dask.array as da

    array = np.load(path, mmap_mode="r")
    sizes = tuple(min(PARTITION, len(array) - at) for at in range(0, len(array), PARTITION))
    chunks = (sizes, *((width,) for width in array.shape[1:]))
    meta = np.empty((0,) * array.ndim, dtype=array.dtype)
    return da.map_blocks(_read, str(path), chunks=chunks, dtype=array.dtype, meta=meta)


def _read(path: str, block_info: Any = None) -> Any:
    first, last = block_info[None]["array-location"][0]
    return np.array(np.load(path, mmap_mode="r")[first:last])


# Questions


def streams(report: Report) -> None:
    """KDD99, all 4,898,431 rows."""
    X, y = kdd99(report.data_dir)
    lines: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in written(Path(folder), X, y):
            files = path.iterdir() if path.is_dir() else [path]
            size = sum(file.stat().st_size for file in files) / 1e6
            for refine in (0, 1):
                parameters = {"gamma": 1.0, "refine": refine, "n_jobs": report.jobs}
                found = in_a_process(source=str(path), parameters=parameters)
                assert found is not None
                speed = round(len(y) / found["seconds"])
                lines.append(
                    show({"file": kind, "MB": size, "refine": refine, "rows/s": speed, **found})
                )
            report.table(
                f"All of KDD99 ({len(y):,} x {X.shape[1]}) streamed, gamma=1, {report.jobs} "
                "threads",
                lines,
                "The values are saturated at 255, so this is about scale, not accuracy. Memory: "
                "anonymous, of the whole tree of processes.",
            )


def kdd99(data_dir: Path | None) -> tuple[NDArray, NDArray]:
    path = None if data_dir is None else data_dir / "kdd99_full_lossy.npz"
    if path is None or not path.exists():
        raise MissingError(
            f"kdd99_full_lossy.npz is not in {data_dir}: all rows of KDD99 as bytes, made of "
            "kddcup.data.gz (http://kdd.ics.uci.edu/databases/kddcup99)"
        )
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["X"], arrays["y"]
    classes, counts = np.unique(y, return_counts=True)
    return X, (y == classes[counts.argmax()]).astype(np.int8)


def written(folder: Path, X: NDArray, y: NDArray) -> Iterator[tuple[str, Path]]:
    """Bytes as single precision between 0 and 1, in files of three kinds, block by block."""
    parts = [slice(at, at + BLOCK) for at in range(0, len(y), BLOCK)]
    npy, parquet, text = folder / "npy", folder / "rows.parquet", folder / "rows.libsvm"
    npy.mkdir()
    rows = np.lib.format.open_memmap(npy / "X.npy", "w+", np.float32, X.shape)
    for part in parts:
        rows[part] = X[part] / np.float32(255)
    rows.flush()
    np.save(npy / "y.npy", y)
    yield ".npy", npy
    names = [*(f"x{column}" for column in range(X.shape[1])), "y"]
    schema = pa.schema([*((name, pa.float32()) for name in names[:-1]), ("y", pa.int8())])
    with pq.ParquetWriter(parquet, schema) as writer:
        for part in parts:
            writer.write_table(pa.table([*rows[part].T, y[part]], schema=schema))
    yield "Parquet", parquet
    with text.open("wb") as file:
        for part in parts:
            dump_svmlight_file(rows[part], y[part], file, zero_based=False)
    yield "LIBSVM text", text


def stream_growth(report: Report) -> None:
    """Each program, while it is within the limit."""
    if installed("scikit-learn-intelex") is None:
        raise MissingError("scikit-learn-intelex is not installed here")
    lines: list[dict] = []
    for program, noise, parameters in RUNS:
        lines += grown(program, noise, parameters, report.jobs)
        report.table(
            f"{GROWTH}: n x {PLANE.shape[1]} generated rows, C=1, gamma=1, {report.jobs} threads",
            lines,
            "Rows near a plane, with noise in all dimensions. Seconds are those of fit_stream, in "
            "which the rows are made, and of fit with the first n of them. exponent: of seconds "
            "as a power of the rows, from the first line.",
        )


def grown(program: str, noise: float, parameters: dict[str, Any], n_jobs: int) -> list[dict]:
    """Lines of a program, one for each number of rows."""
    rival = program in ("SVC", "intelex")
    points: list[tuple[int, float]] = []
    lines: list[dict] = []
    for n in PREFIXES if rival else ROWS:
        line = {"noise": noise, "program": program, "n": n}
        awaited = expected(points, n)
        found = None
        if awaited <= limits.LIMIT:
            found = in_a_process(
                limits.LIMIT,
                source=[noise, n],
                parameters={"gamma": 1.0, "n_jobs": n_jobs, **parameters},
                program=program if rival else "stream",
            )
        if found is None:
            stopped = f"stopped after {limits.LIMIT:g} s"
            waits = f"not started: some {awaited:,.0f} s expected"
            lines.append(show({**line, "remark": waits if awaited > limits.LIMIT else stopped}))
            break
        points.append((n, found["seconds"]))
        grows = exponent(points) if len(points) > 1 else None
        lines.append(show({**line, **found, "exponent": grows}))
    return lines


def loosened(report: Report) -> None:
    X, y = make_moons(110_000, noise=0.2, random_state=0)
    lines: list[dict] = []
    for data in (
        Dataset("moons", X, y).split(100_000, 10_000),
        report.data("covtype").split(100_000, 10_000),
        report.data("kdd99"),
    ):
        for budget, n_orders in BUDGETS.items():
            lines.append(show(beside_samples(data, budget, n_orders, report.jobs)))
        report.table(
            "Loosened streams in chunks of 2,000, C=1, gamma=1, refine=0, and SVMs of random rows",
            lines,
            "A random sample has as many rows as the stream holds, each of the same weight.",
        )


def beside_samples(data: Any, budget: int, n_orders: int, n_jobs: int) -> dict:
    """A line: rows held, mean accuracies over orders of the rows, and their difference."""
    found = np.array([_pair(data, budget, seed, n_jobs) for seed in range(n_orders)])
    held, sampled, ours, theirs = found.mean(axis=0)
    differences = found[:, 2] - found[:, 3]
    return {
        "data": data.name,
        "budget": budget,
        "rows held": round(held),
        "sampled": f"{sampled:.0%}",
        "accuracy": ours,
        "of random rows": theirs,
        "difference": differences.mean(),
        "standard error": differences.std(ddof=1) / np.sqrt(n_orders),
    }


def _pair(data: Any, budget: int, seed: int, n_jobs: int) -> tuple[int, bool, float, float]:
    """Rows held by a stream, whether it is a sample, its accuracy, and that of random rows."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    parts = np.array_split(order, range(2000, len(order), 2000))
    model = AESVC(gamma=1.0, refine=0, memory_budget=budget, on_overflow="loosen", n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit_stream((data.X[part], data.y[part], None) for part in parts)
    n_held = len(model.representative_set_.sample_indices_)
    drawn = np.random.default_rng([seed, 1]).permutation(len(data.y))[:n_held]
    y = data.y[drawn]
    if len(np.unique(y)) < 2:
        by_chance = float((data.y_test == y[0]).mean())
    else:
        sample = SVC(C=len(data.y) / n_held, gamma=1.0).fit(data.X[drawn], y)
        by_chance = float(sample.score(data.X_test, data.y_test))
    is_sample = bool(np.isinf(model.certificate_.max_residual))
    return n_held, is_sample, float(model.score(data.X_test, data.y_test)), by_chance


def cluster(report: Report) -> None:
    """One and two workers of this machine, beside rows in memory."""
    part = report.data("covtype").split(N_TRAIN)
    lines: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, values in zip(("X", "y", "X_test", "y_test"), part[1:], strict=True):
            kind = np.float32 if name.startswith("X") else np.int8
            np.save(Path(folder, f"{name}.npy"), np.asarray(values, dtype=kind))
        for refine in (0, 1):
            for workers in (0, 1, 2):
                parameters = {"gamma": 1.0, "refine": refine, "n_jobs": report.jobs}
                found = in_a_process(
                    source=folder, parameters=parameters, program="memory", workers=workers
                )
                assert found is not None
                lines.append(show({"workers": workers, "refine": refine, **found}))
                report.table(
                    f"{part.name} on a cluster of this machine: {N_TRAIN:,} rows in partitions of "
                    f"{PARTITION:,}, C=1, gamma=1, {report.jobs} threads here",
                    lines,
                    "Workers of one thread and the process that solves share the cores; no "
                    "workers: rows in memory. sent: bytes between workers.",
                )


def levels(report: Report) -> None:
    """What a cluster's network has to carry."""
    X, y = kdd99(report.data_dir)
    covtype = report.data("covtype")
    lines: list[dict] = []
    for name, rows_of, labels in (
        ("KDD99, all rows", lambda part: X[part] / np.float32(255), y),
        (covtype.name, lambda part: covtype.X[part].astype(np.float32), covtype.y),
    ):
        lines += [{"data": name, **line} for line in handed_on(rows_of, labels, report.jobs)]
        report.table(
            f"Levels: partitions of {PARTITION:,} rows, {SPLIT_EVERY} sets at a time, gamma=1, "
            "hull_tol=1e-3",
            lines,
            "Level 0 is the data. Rows are in random order.",
        )


def handed_on(rows_of: Callable[[NDArray], Any], y: NDArray, n_jobs: int) -> Iterator[dict]:
    """A line for each level."""
    settings = ReductionSettings(1e-3, 1000, 100_000, "distance")
    order = np.random.default_rng(0).permutation(len(y))
    parts = [order[at : at + PARTITION] for at in range(0, len(y), PARTITION)]
    sets = [
        WeightedRows(rows_of(part), y[part], y[part], np.ones(len(part)), part, 0.0)
        for part in parts
    ]
    with one_blas_thread(), Threads(n_jobs) as run:
        reduce = RowReducer(KernelSpec("rbf", gamma=1.0), settings).at_levels(run, Silence())
        yield _level(0, sets, len(y))
        sets = [reduce(one, settings.hull_tol, 1) for one in sets]
        yield _level(1, sets, len(y))
        level = 1
        while len(sets) > 1:
            level += 1
            groups = [sets[at : at + SPLIT_EVERY] for at in range(0, len(sets), SPLIT_EVERY)]
            if len(groups) == 1:
                sets = [reduce(joined(sets), settings.hull_tol, None)]
            else:
                sets = [merged(group, settings.hull_tol, level, reduce) for group in groups]
            yield _level(level, sets, len(y))


def _level(level: int, sets: list[WeightedRows], n_rows: int) -> dict:
    n_held, n_bytes = sum(map(len, sets)), sum(one.n_bytes for one in sets)
    shares = {"share of all": n_held / n_rows, "MB": n_bytes / 1e6, "bytes a row": n_bytes / n_held}
    return {"level": level, "sets": len(sets), "rows": n_held, **shares}
