"""Does "auto" ever regret its choice? Beside what it chooses between, on problems of many kinds."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import limits, other_datasets, rivals
from benchmarks.bases import FLIGHTS, first_rows, warm_up
from benchmarks.datasets import Dataset, load
from benchmarks.report import Report, median_seconds

#: What "auto" chooses between.
OTHERS: dict[str, dict[str, Any]] = {
    "exact": {"refine": "exact"},
    "refine=1": {"refine": 1},
    "max_vectors=2000": {"refine": "auto", "max_vectors": 2000},
}

#: Accuracies within this of the best are equal.
EQUAL = 0.001

#: Fits that take longer than this are timed once.
LONG = 5.0

#: Generated problems: rows, features, classes, the share of rows whose class is drawn at random.
GENERATED = (
    (100_000, 3, 2, 0.2),
    (200_000, 5, 2, 0.4),
    (100_000, 10, 2, 0.3),
    (300_000, 20, 2, 0.1),
    (100_000, 50, 2, 0.2),
    (100_000, 6, 4, 0.3),
    (100_000, 3, 10, 0.3),
    (120_000, 3, 22, 0.6),
    (100_000, 15, 25, 0.05),
    (1_000_000, 4, 2, 0.05),
)

#: Rows to test with, and the seeds that rows are generated and drawn with.
N_TEST, SEEDS = 20_000, (0, 1, 2)

COLUMNS = [
    "data",
    "C, gamma",
    "seed",
    "program",
    "seconds",
    "accuracy",
    "labels as exact %",
    "what it was",
    "best of the others",
    "auto's seconds / its",
]

NOTE = (
    f"best of the others: the fastest whose accuracy is within {100 * EQUAL:g} point of the best "
    'of them. Where the exact SVM takes at most 2e10 kernel values, "auto" is exact, though others '
    "may be faster: it is SVC's own problem then. Targets: 1.25 at most, 1.05 the median."
)


class Problem(NamedTuple):
    """A dataset with test rows, and its parameters."""

    data: Dataset
    C: float
    gamma: float
    seed: int


def noisy(n_rows: int, n_features: int, n_classes: int, noise: float, seed: int) -> Dataset:
    """Four Gaussians for each class, that overlap; of some rows the class is drawn at random.

    Examples
    --------
    >>> from benchmarks.regret import noisy
    >>> noisy(1000, 3, 2, 0.1, seed=0).X.shape
    (1000, 3)
    """
    rng = np.random.default_rng(seed)
    total, n_centres = n_rows + N_TEST, 4 * n_classes
    centres = rng.uniform(size=(n_centres, n_features))
    which = rng.integers(n_centres, size=total)
    X = centres[which] + 0.3 / np.sqrt(n_features) * rng.normal(size=(total, n_features))
    drawn = rng.uniform(size=total) < noise
    y = np.where(drawn, rng.integers(n_classes, size=total), which % n_classes)
    name = f"{n_rows:,} x {n_features}, {n_classes} classes, {noise:.0%} noise"
    return Dataset(name, X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def problems(data_dir: Path | None) -> Iterator[Problem]:
    """All of them; datasets are shuffled by the seed where they are split."""
    for seed in SEEDS:
        for size in GENERATED:
            data = noisy(*size, seed=seed)
            spread = float(data.X.var())
            yield Problem(data, 1.0, 1.0 / (data.X.shape[1] * spread), seed)
    yield Problem(load("ijcnn1", data_dir), 1.0, 1.0, 0)
    yield Problem(load("a9a", data_dir), 1.0, 1 / 16, 0)
    yield Problem(load("w8a", data_dir).split(39_749, 10_000), 1.0, 1 / 16, 0)
    yield Problem(load("kdd99", data_dir), 1.0, 1.0, 0)
    covtype, flights = load("covtype", data_dir), other_datasets.load("flights", data_dir)
    for n_rows in (50_000, 100_000):
        for C, gamma in ((1.0, 1.0), (16.0, 1 / 4)):
            yield Problem(covtype.split(n_rows, N_TEST), C, gamma, 0)
    yield Problem(first_rows(flights, 100_000), *FLIGHTS, 0)
    yield Problem(flights, *FLIGHTS, 0)


def run(report: Report, data_dir: Path | None, n_jobs: int, repeats: int) -> None:
    rows: list[list] = []
    for problem in problems(data_dir):
        warm_up(problem.data, n_jobs)
        rows += compared(problem, n_jobs, repeats)
        report.table(f'"auto", {n_jobs} threads', COLUMNS, rows, NOTE, replace=True)
    ratios = [row[-1] for row in rows if row[-1] != ""]
    report.table(
        'Seconds of "auto" over those of the best of the others',
        ["problems", "median", "largest"],
        [[len(ratios), float(np.median(ratios)), max(ratios)]],
        "Targets: 1.05 and 1.25.",
    )


def compared(problem: Problem, n_jobs: int, repeats: int) -> list[list]:
    """The lines of one problem."""
    data, C, gamma, seed = problem
    labels: dict[str, NDArray] = {}
    seconds: dict[str, float] = {}
    accuracy: dict[str, float] = {}
    remark: dict[str, str] = {}
    for program, parameters in {**OTHERS, "auto": {"refine": "auto"}}.items():
        model: Any = rivals.ours(C, gamma, n_jobs, **parameters)

        fit = partial(_fit, model, data)
        remark[program] = limits.too_long(fit, len(data.y)) if program == "exact" else ""
        if remark[program]:
            continue
        seconds[program] = median_seconds(partial(fit, len(data.y)), 1)
        if seconds[program] <= LONG:
            seconds[program] = median_seconds(partial(fit, len(data.y)), repeats)
        labels[program] = model.predict(data.X_test)
        accuracy[program] = float((labels[program] == data.y_test).mean())
        remark[program] = what_it_was(model)
        print(data.name, program, seconds[program], remark[program], file=sys.stderr, flush=True)
    best, ratio = regret(seconds, accuracy)
    lines = []
    for program, said in remark.items():
        line: list = [data.name, f"{C:g}, {gamma:.3g}", seed, program]
        if program in seconds:
            as_exact = ""
            if "exact" in labels:
                as_exact = f"{100 * (labels[program] == labels['exact']).mean():.2f}"
            line += [seconds[program], f"{accuracy[program]:.4f}", as_exact, said]
        else:
            line += ["", "", "", said]
        lines.append([*line, *((best, ratio) if program == "auto" else ("", ""))])
    return lines


def _fit(model: Any, data: Dataset, n_rows: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X[:n_rows], data.y[:n_rows])


def regret(seconds: dict[str, float], accuracy: dict[str, float]) -> tuple[str, float]:
    """The fastest of the others that are as accurate as the best, and auto's seconds over its.

    Examples
    --------
    >>> from benchmarks.regret import regret
    >>> regret({"a": 2.0, "b": 1.0, "auto": 3.0}, {"a": 0.9, "b": 0.8, "auto": 0.9})
    ('a', 1.5)
    """
    others = [name for name in seconds if name != "auto"]
    least = max(accuracy[name] for name in others) - EQUAL
    good = [name for name in others if accuracy[name] >= least]
    best = min(good, key=lambda name: seconds[name])
    return best, seconds["auto"] / seconds[best]


def what_it_was(model: Any) -> str:
    """What a fit came to."""
    certificate = model.certificate_
    if certificate.exact:
        return "exact"
    if certificate.n_vectors is not None:
        return f"{certificate.n_vectors:,} vectors"
    return f"rounds: {certificate.rounds}"
