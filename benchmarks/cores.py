"""How does a fit speed up with the cores?"""

from __future__ import annotations

import os
from functools import partial

from aesvm import RepresentativeSet
from benchmarks.datasets import Dataset
from benchmarks.report import Report, median_seconds


def run(report: Report, data: Dataset, repeats: int) -> None:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= (available or 1)]
    rows: list[list] = []
    for count in counts:
        rs = RepresentativeSet(gamma=1.0, n_jobs=count)
        rs.fit(data.X[:3000], data.y[:3000])
        seconds = median_seconds(partial(rs.fit, data.X, data.y), repeats)
        rows.append([count, seconds, (rows[0][1] if rows else seconds) / seconds])
    report.table(
        f"Threads on {data.name}, {data.X.shape[0]:,} rows, g=1, {available} cores, median of "
        f"{repeats}",
        ["threads", "seconds", "speed-up"],
        rows,
        "Target: >= 6 on 8 cores, >= 10 on 16.",
    )
