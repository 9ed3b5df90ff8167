"""Streams in a budget that is too small for them, beside random samples of as many rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from aesvm import AESVC
from benchmarks.datasets import Dataset, load
from benchmarks.report import Report

#: Bytes that a stream may hold, and in how many orders the rows come, each with a random sample
#: of its own: the fewer rows are held, the more it matters which.
BUDGETS = {5_000: 60, 20_000: 60, 100_000: 20, 300_000: 10, 1_000_000: 5}

#: Rows of a chunk.
CHUNK = 2_000

GAMMA = 1.0

COLUMNS = [
    "data",
    "memory_budget",
    "orders",
    "rows held",
    "of them sampled",
    "accuracy",
    "of random rows",
    "difference",
    "its standard error",
]


def run(report: Report, data_dir: Path | None, n_jobs: int) -> None:
    rows: list[list] = []
    for data in _datasets(data_dir):
        for budget, n_orders in BUDGETS.items():
            rows.append([data.name, budget, n_orders, *compared(data, budget, n_orders, n_jobs)])
            report.table(
                f"Loosened streams in chunks of {CHUNK:,}, C=1, gamma={GAMMA:g}, refine=0, and "
                "SVMs of random rows",
                COLUMNS,
                rows,
                "A random sample has as many rows as the stream holds, each of the same weight. "
                "Target: a difference of no less than -0.01.",
                replace=True,
            )


def _datasets(data_dir: Path | None) -> Iterator[Dataset]:
    X, y = make_moons(110_000, noise=0.2, random_state=0)
    yield Dataset("moons", X, y).split(100_000, 10_000)
    yield load("covtype", data_dir).split(100_000, 10_000)
    yield load("kdd99", data_dir)


def compared(data: Dataset, budget: int, n_orders: int, n_jobs: int) -> list:
    """What a table says of a budget: rows held, mean accuracies, and their difference."""
    found = np.array([_pair(data, budget, seed, n_jobs) for seed in range(n_orders)])
    held, sampled, ours, theirs = found.mean(axis=0)
    differences = found[:, 2] - found[:, 3]
    error = float(differences.std(ddof=1) / np.sqrt(n_orders))
    return [
        round(held),
        f"{sampled:.0%}",
        f"{ours:.4f}",
        f"{theirs:.4f}",
        f"{differences.mean():+.4f}",
        f"{error:.4f}",
    ]


def _pair(data: Any, budget: int, seed: int, n_jobs: int) -> tuple[int, bool, float, float]:
    """Rows held by a stream, whether it is a sample, its accuracy, and that of random rows."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    parts = np.array_split(order, range(CHUNK, len(order), CHUNK))
    model = AESVC(gamma=GAMMA, refine=0, memory_budget=budget, on_overflow="loosen", n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit_stream((data.X[part], data.y[part], None) for part in parts)
    n_held = len(model.representative_set_.sample_indices_)
    drawn = np.random.default_rng([seed, 1]).permutation(len(data.y))[:n_held]
    return (
        n_held,
        bool(np.isinf(model.certificate_.max_residual)),
        float(model.score(data.X_test, data.y_test)),
        _random_rows(data, drawn),
    )


def _random_rows(data: Any, drawn: np.ndarray) -> float:
    X, y = data.X[drawn], data.y[drawn]
    if len(np.unique(y)) < 2:
        return float((data.y_test == y[0]).mean())
    model = SVC(C=len(data.y) / len(drawn), gamma=GAMMA).fit(X, y)
    return float(model.score(data.X_test, data.y_test))
