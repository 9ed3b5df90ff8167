"""How fast is AESVC from X to a model, and what does it lose?

Beside it, in every row: an SVM on a random subsample of as many rows, each of weight N/M. It is
solved exactly, by the same solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import rivals
from benchmarks.datasets import Dataset, load
from benchmarks.report import Report, median_seconds

#: dataset, training rows of covtype, C, gamma, rival, and how many times faster we mean to be
PROBLEMS: tuple[tuple[str, int | None, float, float, str, float], ...] = (
    ("covtype", 100_000, 1.0, 1.0, "intelex", 5.0),
    ("covtype", 200_000, 1.0, 1.0, "intelex", 10.0),
    ("kdd99", None, 1.0, 1.0, "SVC", 12.0),
    ("a9a", None, 1.0, 1 / 16, "SVC", 8.0),
    ("ijcnn1", None, 1.0, 1.0, "SVC", 2.5),
)


def run(
    report: Report, data_dir: Path | None, covtype: Callable[[], Dataset], n_jobs: int, repeats: int
) -> None:
    rows = []
    for name, n_train, C, gamma, rival, target in PROBLEMS:
        data = load(name, data_dir) if n_train is None else covtype().split(n_train, 20_000)
        rows.append(_compare(data, C, gamma, rival, target, n_jobs, repeats))
    report.table(
        f"AESVC, epsilon=1e-3, {n_jobs} threads, X to model, median of {repeats} (rival: one run)",
        [
            "data",
            "rows",
            "C, gamma",
            "rival",
            "rival s",
            "AESVC s",
            "times faster",
            "target",
            "M/N %",
            "SVs",
            "rival's",
            "accuracy",
            "rival's",
            "labels as rival %",
            "subsample s",
            "its accuracy",
            "its labels as rival %",
        ],
        rows,
        "Target for accuracy: within a point of the rival's. subsample: an exact SVM on M random "
        "rows of weight N/M.",
    )


def _compare(
    data: Dataset, C: float, gamma: float, rival: str, target: float, n_jobs: int, repeats: int
) -> list:
    assert data.X_test is not None
    rivals.warm_up(data, n_jobs)
    other: Any = rivals.svc(C, gamma) if rival == "SVC" else rivals.intelex(C, gamma, n_jobs)
    started = time.perf_counter()
    other.fit(data.X, data.y)
    other_seconds = time.perf_counter() - started
    expected = other.predict(data.X_test)

    model = rivals.ours(C, gamma, n_jobs)
    seconds = median_seconds(lambda: model.fit(data.X, data.y), repeats)
    predicted = model.predict(data.X_test)

    n, size = len(data.y), len(model.representative_set_.sample_indices_)
    sample = np.sort(np.random.default_rng(0).permutation(n)[:size])
    plain = rivals.ours(C, gamma, n_jobs, hull_tol=0.0)
    weights = np.full(size, n / size)
    started = time.perf_counter()
    plain.fit(data.X[sample], data.y[sample], sample_weight=weights)
    sample_seconds = time.perf_counter() - started
    sampled = plain.predict(data.X_test)
    return [
        data.name,
        n,
        f"{C:g}, {gamma:g}",
        rival,
        other_seconds,
        seconds,
        other_seconds / seconds,
        f">= {target:g}",
        100 * size / n,
        len(model.support_),
        len(other.support_),
        float((predicted == data.y_test).mean()),
        float((expected == data.y_test).mean()),
        f"{100 * (predicted == expected).mean():.2f}",
        sample_seconds,
        float((sampled == data.y_test).mean()),
        f"{100 * (sampled == expected).mean():.2f}",
    ]
