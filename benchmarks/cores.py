"""How does the work speed up with the cores, and how do plain matrix products?

Products of the shape that kernel values are made of are what the machine offers: where its cores
are hardware threads of half as many, or share their clock and memory, these do not reach their
number either.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm import AESVC, RepresentativeSet
from aesvm.runtime.threads import Threads, one_blas_thread
from benchmarks.datasets import Dataset
from benchmarks.report import Report, median_seconds

#: Numbers of threads that are tried, as far as there are cores.
COUNTS = (1, 2, 4, 8, 16, 32, 64)

#: Rows, C and gamma of the exact SVMs.
SOLVES = ((50_000, 1.0, 1.0), (50_000, 16.0, 0.25), (100_000, 1.0, 1.0), (100_000, 16.0, 0.25))

#: Rows that are predicted.
PREDICTED = 20_000

#: Shape and number of the products: lines, columns, features.
PRODUCT, TASKS = (4096, 2048, 64), 128

WARM_UP = 3000


def run(report: Report, data: Dataset, repeats: int) -> None:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    counts = [count for count in COUNTS if count <= (available or 1)]
    found: dict[str, list[float]] = {}
    for count in counts:
        for title, work in works(data, count).items():
            found.setdefault(title, []).append(median_seconds(work, repeats))
    products = found["matrix products"]
    rows = []
    for title, seconds in found.items():
        for count, own, product in zip(counts, seconds, products, strict=True):
            speed_up, offered = seconds[0] / own, products[0] / product
            rows.append([title, count, own, speed_up, offered, f"{speed_up / offered:.0%}"])
    report.table(
        f"Threads on {data.name}, {available} cores, median of {repeats}",
        ["what", "threads", "seconds", "speed-up", "of matrix products", "share of that"],
        rows,
        "Targets on 8 and 16 threads: 85 % for exact SVMs, 90 % for the set and for predictions.",
    )


def works(data: Dataset, count: int) -> dict[str, Callable[[], object]]:
    """What is timed, by title, on so many threads."""
    found: dict[str, Callable[[], object]] = {
        "matrix products": partial(_multiply, *_operands(), count)
    }
    for n_rows, C, gamma in SOLVES:
        part = data.split(n_rows, PREDICTED)
        svm = AESVC(C=C, gamma=gamma, refine="exact", n_jobs=count)
        svm.fit(part.X[:WARM_UP], part.y[:WARM_UP])
        found[f"exact SVM, {n_rows:,} rows, C={C:g}, gamma={gamma:g}"] = partial(
            svm.fit, part.X, part.y
        )
    representatives = RepresentativeSet(gamma=1.0, n_jobs=count)
    representatives.fit(data.X[:WARM_UP], data.y[:WARM_UP])
    found[f"representatives of {len(data.y):,} rows"] = partial(representatives.fit, data.X, data.y)
    part = data.split(SOLVES[0][0], PREDICTED)
    model: Any = AESVC(gamma=1.0, refine="exact").fit(part.X[:20_000], part.y[:20_000])
    model.set_params(n_jobs=count)
    found[f"{PREDICTED:,} predictions of {len(model.support_):,} vectors"] = partial(
        model.predict, part.X_test
    )
    return found


def _operands() -> tuple[NDArray, NDArray, list[NDArray]]:
    """What is multiplied, and where to: written to once, so that memory is there."""
    n_lines, n_columns, n_features = PRODUCT
    rng = np.random.default_rng(0)
    lines = rng.standard_normal((n_lines, n_features), dtype=np.float32)
    columns = rng.standard_normal((n_columns, n_features), dtype=np.float32)
    outs = [np.zeros((n_lines, n_columns), dtype=np.float32) for _ in range(max(COUNTS))]
    for out in outs:
        out.fill(1.0)
    return lines, columns, outs


def _multiply(lines: NDArray, columns: NDArray, outs: list[NDArray], count: int) -> None:
    def product(number: int) -> None:
        np.matmul(lines, columns.T, out=outs[number % len(outs)])

    with one_blas_thread(), Threads(count) as run:
        for _ in run(product, range(TASKS)):
            pass
