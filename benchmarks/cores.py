"""How does a fit speed up with the cores, and how does the machine itself?

The machine's own speed-up is that of arithmetic which touches no memory and needs no lock:
where cores are hardware threads of half as many, it stays well below their number.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from aesvm import AESVC, RepresentativeSet
from aesvm.runtime.jit import jit
from aesvm.runtime.threads import Threads
from benchmarks.datasets import Dataset
from benchmarks.report import Report, median_seconds

_TASKS = 64


def run(report: Report, data: Dataset, repeats: int) -> None:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= (available or 1)]
    part = data.split(50_000, 1)
    rows: list[list] = []
    for count in counts:
        rs = RepresentativeSet(gamma=1.0, n_jobs=count)
        svm = AESVC(gamma=1.0, hull_tol=0.0, n_jobs=count)
        seconds = [
            _seconds(rs, data, repeats),
            _seconds(svm, part, repeats),
            median_seconds(partial(_arithmetic, count), repeats),
        ]
        first = rows[0][1::2] if rows else seconds
        cells = ((one, before / one) for one, before in zip(seconds, first, strict=True))
        rows.append([count, *(cell for pair in cells for cell in pair)])
    report.table(
        f"Threads on {data.name}, g=1, {available} cores, median of {repeats}",
        [
            "threads",
            f"set of {len(data.y):,} rows, s",
            "speed-up",
            "SVM of 50,000 rows, s",
            "speed-up",
            "arithmetic, s",
            "machine's own speed-up",
        ],
        rows,
        "Target for the set: >= 6 on 8 cores, >= 10 on 16.",
    )


def _seconds(model, data: Dataset, repeats: int) -> float:
    model.fit(data.X[:3000], data.y[:3000])
    return median_seconds(partial(model.fit, data.X, data.y), repeats)


def _arithmetic(count: int) -> None:
    with Threads(count) as run:
        for _ in run(_burn, [np.full(64, 0.5) for _ in range(_TASKS)]):
            pass


@jit
def _burn(values):
    for _ in range(400_000):
        for i in range(values.size):
            values[i] = values[i] * 0.999 + 0.001
    return values[0]
