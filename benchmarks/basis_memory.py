"""How much memory does an SVM in the span of few vectors take, of a file of many rows?"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import basis_growth
from benchmarks.report import Report

ROWS = 10_000_000

PARAMETERS: dict[str, Any] = {"max_vectors": 2000}

#: Seconds that it may take.
LIMIT = 7200.0

COLUMNS = [
    "rows",
    "file, MB",
    "seconds to write it",
    "seconds of fit_stream",
    "rows/s",
    "vectors",
    "accuracy",
    "gap estimated %",
    "peak resident memory, GiB",
    "peak anonymous memory, GiB",
    "remark",
]


def run(report: Report, n_jobs: int, n_rows: int = ROWS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        basis_growth.write(basis_growth.generated(n_rows), Path(folder), "streams")
        seconds = time.perf_counter() - started
        size = Path(folder, "rows.parquet").stat().st_size
        found, peak = basis_growth.in_a_process(
            "streams", folder, PARAMETERS, basis_growth.GAMMA, n_jobs, LIMIT
        )
    start: list[Any] = [n_rows, size / 1e6, seconds]
    if found is None:
        row = [*start, *[""] * 6, peak / 2**30, f"stopped after {LIMIT:g} s"]
    else:
        row = [
            *start,
            found["seconds"],
            round(n_rows / found["seconds"]),
            found["vectors"],
            f"{found['accuracy']:.4f}",
            "" if found["estimated"] is None else f"{100 * found['estimated']:.3f}",
            found["resident"] / 2**30,
            peak / 2**30,
            "",
        ]
    report.table(
        f"Memory of a fit_stream in the span of few vectors: {n_rows:,} x {basis_growth.FEATURES} "
        f"generated rows in Parquet, C=1, gamma={basis_growth.GAMMA:g}, "
        f"max_vectors={PARAMETERS['max_vectors']}, {n_jobs} threads (a process by itself)",
        COLUMNS,
        [row],
        "Resident memory is that of the process since it began, and counts its programs and the "
        "file's pages that it maps; anonymous memory is that of the fit, with its descendants.",
    )
