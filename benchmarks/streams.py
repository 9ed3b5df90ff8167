"""Bigger than memory: all of KDD99 from files, and how seconds grow with the rows of a stream."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import MissingError
from benchmarks.report import Report

#: Rows of the generated streams, and their features.
ROWS, FEATURES = (100_000, 1_000_000, 10_000_000), 10

#: Rows that a generated stream has at a time, or that are written to a file together.
CHUNK = 65_536

#: Seconds between two looks at the memory of a process.
_LOOK = 0.05

CHILD = '''
import json, sys, time
import numpy as np
from aesvm import AESVC
from aesvm.io import LibsvmReader, NpyReader, ParquetReader

kind, source, gamma, n_jobs = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
rng = np.random.default_rng(1)
X = rng.normal(size=(3000, 5))
AESVC(gamma=1.0, n_jobs=n_jobs).fit_stream([(X, X[:, 0] > 0, None)])

class Generated:
    """Rows near a plane in ten dimensions, as many as asked for."""

    def __iter__(self):
        rng = np.random.default_rng(0)
        plane = rng.normal(size=(2, 10)) / 3
        left = int(source)
        while left:
            n = min(left, 65_536)
            place = rng.uniform(size=(n, 2))
            X = (place @ plane + 0.01 * rng.normal(size=(n, 10))).astype(np.float32)
            yield X, (place.sum(axis=1) + 0.1 * rng.normal(size=n) > 1.0).astype(np.int8), None
            left -= n

if kind == "parquet":
    reader = ParquetReader(source, target="y")
elif kind == "libsvm":
    reader = LibsvmReader(source, n_features=41)
elif kind == "npy":
    reader = NpyReader(source + "/X.npy", source + "/y.npy")
else:
    reader = Generated()
print("ready", flush=True)
started = time.perf_counter()
model = AESVC(gamma=gamma, n_jobs=n_jobs).fit_stream(reader)
print(json.dumps({
    "seconds": time.perf_counter() - started,
    "rows": model.n_seen_,
    "held": len(model.representative_set_.sample_indices_),
    "support": len(model.support_),
    "bound": model.certificate_.max_residual,
}), flush=True)
'''


def run(report: Report, data_dir: Path | None, n_jobs: int) -> None:
    """KDD99, all 4,898,431 rows, from three kinds of files."""
    if not Path("/proc/self/status").exists():
        raise MissingError("/proc/self/status, which tells the memory of a process on Linux")
    X, y = _kdd99(data_dir)
    rows: list[list] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, write in (("npy", _npy), ("parquet", _parquet), ("libsvm", _libsvm)):
            source = write(Path(folder), X, y)
            size = sum(f.stat().st_size for f in Path(folder).rglob(f"*{source.suffix or '.npy'}"))
            found, peak = _in_a_process(kind, str(source), 1.0, n_jobs)
            rows.append(
                [
                    kind,
                    size / 1e6,
                    found["seconds"],
                    round(found["rows"] / found["seconds"]),
                    found["held"],
                    found["support"],
                    found["bound"],
                    peak / 2**30,
                ]
            )
            report.table(
                f"All of KDD99 ({len(y):,} x {X.shape[1]}) streamed into AESVC, gamma=1, {n_jobs} "
                "threads",
                [
                    "file",
                    "MB",
                    "seconds",
                    "rows/s",
                    "rows held",
                    "support vectors",
                    "residual bound",
                    "peak anonymous memory, GiB",
                ],
                rows,
                "The values are saturated at 255, so this is about scale, not accuracy. Target: at "
                "most 2 GiB for the whole tree of processes.",
                replace=True,
            )


def growth(report: Report, n_jobs: int) -> None:
    """Seconds of generated streams that differ in length alone."""
    rows: list[list] = []
    for n in ROWS:
        found, peak = _in_a_process("generated", str(n), 1.0, n_jobs)
        exponent = ""
        if rows:
            exponent = f"{log(found['seconds'] / rows[-1][1]) / log(n / rows[-1][0]):.2f}"
        seconds, held = found["seconds"], found["held"]
        rows.append([n, seconds, round(n / seconds), held, peak / 2**30, exponent])
        report.table(
            f"A stream of n x {FEATURES} generated rows near a plane into AESVC, gamma=1, {n_jobs} "
            "threads",
            ["n", "seconds", "rows/s", "rows held", "peak anonymous memory, GiB", "exponent"],
            rows,
            "Target: an exponent of at most 1.1.",
            replace=True,
        )


def _in_a_process(kind: str, source: str, gamma: float, n_jobs: int) -> tuple[dict[str, Any], int]:
    """What a fit by itself found, and the most anonymous memory that it had."""
    command = [sys.executable, "-c", CHILD, kind, source, str(gamma), str(n_jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has imported and compiled
        watch = _Watch(process.pid)
        answer = process.stdout.readline()
        watch.end()
    if process.returncode or not answer:
        raise RuntimeError(f"the stream of {kind} {source} failed: {process.returncode}")
    return json.loads(answer), watch.peak


class _Watch(threading.Thread):
    """The anonymous memory of a process, looked at now and then."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.path = Path(f"/proc/{pid}/status")
        self.peak, self.ended = 0, False
        self.start()

    def run(self) -> None:
        while not self.ended:
            try:
                lines = self.path.read_text().splitlines()
            except OSError:
                return
            found = [line.split()[1] for line in lines if line.startswith("RssAnon")]
            self.peak = max(self.peak, 1024 * int(found[0]) if found else 0)
            time.sleep(_LOOK)

    def end(self) -> None:
        self.ended = True
        self.join()


def _kdd99(data_dir: Path | None) -> tuple[NDArray, NDArray]:
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


def _npy(folder: Path, X: NDArray, y: NDArray) -> Path:
    target = folder / "npy"
    target.mkdir()
    rows = np.lib.format.open_memmap(target / "X.npy", "w+", np.float32, X.shape)
    for first in range(0, len(y), CHUNK):
        rows[first : first + CHUNK] = X[first : first + CHUNK] / np.float32(255)
    rows.flush()
    np.save(target / "y.npy", y)
    return target


def _parquet(folder: Path, X: NDArray, y: NDArray) -> Path:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingError("pyarrow is not installed here") from error
    path = folder / "kdd99.parquet"
    names = [f"x{column}" for column in range(X.shape[1])]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, len(y), CHUNK):
            block = X[first : first + CHUNK] / np.float32(255)
            columns = [*block.T, y[first : first + CHUNK]]
            writer.write_table(pa.table(columns, schema=schema))
    return path


def _libsvm(folder: Path, X: NDArray, y: NDArray) -> Path:
    path = folder / "kdd99.libsvm"
    # one text for each value there is, so that millions of rows are written in a minute
    texts = [f"{value / 255:.6g}" for value in range(256)]
    fields = [[f" {column + 1}:{text}" for text in texts] for column in range(X.shape[1])]
    with path.open("w") as file:
        for first in range(0, len(y), CHUNK):
            lines = []
            for row, label in zip(
                X[first : first + CHUNK].tolist(), y[first : first + CHUNK].tolist(), strict=True
            ):
                pairs = [fields[column][value] for column, value in enumerate(row) if value]
                lines.append(f"{label}{''.join(pairs)}\n")
            file.writelines(lines)
    return path
