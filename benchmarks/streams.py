"""Bigger than memory: all of KDD99, from files of three kinds."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import processes
from benchmarks.datasets import MissingError
from benchmarks.report import Report

#: Rows that are written to a file together.
CHUNK = 65_536

CHILD = """
import json, sys, time
import numpy as np
from aesvm import AESVC
from aesvm.io import LibsvmReader, NpyReader, ParquetReader

kind, source, refine, n_jobs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = np.random.default_rng(1)
X = rng.normal(size=(3000, 5))
AESVC(gamma=1.0, refine=refine, n_jobs=n_jobs).fit_stream([(X, X[:, 0] > 0, None)])

if kind == "parquet":
    reader = ParquetReader(source, target="y")
elif kind == "libsvm":
    reader = LibsvmReader(source, n_features=41)
else:
    reader = NpyReader(source + "/X.npy", source + "/y.npy")
print("ready", flush=True)
started = time.perf_counter()
model = AESVC(gamma=1.0, refine=refine, n_jobs=n_jobs).fit_stream(reader)
print(json.dumps({
    "seconds": time.perf_counter() - started,
    "rows": model.n_seen_,
    "solved": model.certificate_.n_solved,
    "support": len(model.support_),
    "bound": model.certificate_.max_residual,
}), flush=True)
"""


def run(report: Report, data_dir: Path | None, n_jobs: int) -> None:
    """KDD99, all 4,898,431 rows, from three kinds of files."""
    X, y = kdd99(data_dir)
    rows: list[list] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, write in (("npy", _npy), ("parquet", _parquet), ("libsvm", _libsvm)):
            source = write(Path(folder), X, y)
            size = sum(f.stat().st_size for f in Path(folder).rglob(f"*{source.suffix or '.npy'}"))
            for refine in (0, 1):
                command = [sys.executable, "-c", CHILD, kind, str(source), str(refine), str(n_jobs)]
                found, peak = processes.measured(command)
                assert found is not None
                rows.append(
                    [
                        kind,
                        refine,
                        size / 1e6,
                        found["seconds"],
                        round(found["rows"] / found["seconds"]),
                        found["solved"],
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
                    "refine",
                    "MB",
                    "seconds",
                    "rows/s",
                    "rows solved for",
                    "support vectors",
                    "residual bound",
                    "peak anonymous memory, GiB",
                ],
                rows,
                "The values are saturated at 255, so this is about scale, not accuracy. Target: at "
                "most 2 GiB for the whole tree of processes.",
                replace=True,
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
    path = folder / "kdd99.parquet"
    firsts = range(0, len(y), CHUNK)
    write_parquet(
        path, ((X[at : at + CHUNK] / np.float32(255), y[at : at + CHUNK]) for at in firsts)
    )
    return path


def write_parquet(path: Path, chunks: Iterable[tuple[NDArray, NDArray]]) -> None:
    """Rows in single precision, and classes that are small numbers in a column y."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingError("pyarrow is not installed here") from error
    chunks = iter(chunks)
    first = next(chunks)
    names = [f"x{column}" for column in range(first[0].shape[1])]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for block, classes in chain([first], chunks):
            columns = [*block.astype(np.float32, copy=False).T, classes.astype(np.int8)]
            writer.write_table(pa.table(columns, schema=schema))


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
