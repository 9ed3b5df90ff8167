"""Many classes: a machine for every pair of them. How much do we cost beside SVC?"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import rivals
from benchmarks.datasets import Dataset
from benchmarks.report import Report, median_seconds


def blobs(name: str, n_classes: int, n_rows: int, n_features: int, spread: float) -> Dataset:
    """Rows of classes around random centres, ``spread`` times as far apart as a class is wide."""
    rng = np.random.default_rng(0)
    y: NDArray = np.arange(n_rows) % n_classes
    centers = spread * rng.normal(size=(n_classes, n_features))
    return Dataset(name, centers[y] + rng.normal(size=(n_rows, n_features)), y)


def run(report: Report, n_jobs: int, repeats: int) -> None:
    rows = []
    for data, times, target in (
        (blobs("200 classes of 1 row", 200, 200, 5, 1.0), 3 * repeats, "<= 3"),
        (blobs("150 classes of 20 rows", 150, 3000, 5, 2.0), repeats, "<= 3"),
        (blobs("26 classes, as of letters", 26, 30_000, 16, 1.0), repeats, "<= 1/6"),
    ):
        gamma = 1.0 / data.X.shape[1]
        svc, ours = rivals.svc(1.0, gamma), rivals.ours(1.0, gamma, n_jobs, "auto")
        ours.fit(data.X[:200], data.y[:200])  # compile, or load what was compiled
        theirs = median_seconds(partial(svc.fit, data.X, data.y), times)
        seconds = median_seconds(partial(ours.fit, data.X, data.y), times)
        some = data.X[:2000]
        rows.append(
            [
                data.name,
                len(data.y),
                theirs,
                seconds,
                seconds / theirs,
                target,
                median_seconds(partial(svc.predict, some), repeats),
                median_seconds(partial(ours.predict, some), repeats),
                median_seconds(partial(svc.decision_function, some), repeats),
                median_seconds(partial(ours.decision_function, some), repeats),
                float((svc.predict(some) == ours.predict(some)).mean()),
            ]
        )
    report.table(
        f"Many classes, C=1, gamma=1/features, {n_jobs} threads, warm, medians",
        [
            "data",
            "rows",
            "SVC s",
            "AESVC s",
            "AESVC / SVC",
            "target",
            "SVC predicts 2,000 rows in s",
            "AESVC",
            "SVC decides in s",
            "AESVC",
            "equal predictions",
        ],
        rows,
    )
