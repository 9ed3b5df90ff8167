"""SVMs in the span of few vectors beside others of as many vectors, and of as many seconds."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import other_datasets, rivals
from benchmarks.bases import FLIGHTS, first_rows, warm_up
from benchmarks.compression import n_vectors_of, random_rows
from benchmarks.datasets import Dataset, load
from benchmarks.limits import Fitted
from benchmarks.report import Report, median_seconds
from experiments.rivals import CPSP, NystroemSVM, RandomFeatureSVM, SubsampleSVM

N_VECTORS = 1000

#: The first size that is tried where seconds are to be equal.
FIRST_SIZE = 64

#: Passes of LIBLINEAR over the rows.
MOST_PASSES = 10_000

COLUMNS = [
    "data",
    "C, gamma",
    "rows",
    "program",
    "compared at",
    "size",
    "vectors",
    "seconds",
    "accuracy",
    "labels as exact %",
    "remark",
]

VECTORS, SECONDS = "equal vectors", "equal seconds"

NOTE = (
    "size: vectors of a basis, features, or rows drawn. equal vectors: as many as ours may "
    "have. equal seconds: the largest size, of those twice as large as the one before, that "
    "takes no longer than ours. Features: the hinge loss by LIBLINEAR, which has one thread, in "
    f"at most {MOST_PASSES:,} passes. The last lines count the datasets on which no rival has "
    "more of the exact model's labels than ours."
)


class Problem(NamedTuple):
    """A dataset with test rows, and its parameters."""

    data: Dataset
    C: float
    gamma: float


def _features(kind: Any, C: float, gamma: float, size: int, n_jobs: int) -> Any:
    return kind(
        C=C, gamma=gamma, n_components=size, loss="hinge", max_iter=MOST_PASSES, random_state=0
    )


def _cpsp(C: float, gamma: float, size: int, n_jobs: int) -> Any:
    return CPSP(C=C, gamma=gamma, n_basis=size, random_state=0, n_jobs=n_jobs)


def _random_rows(C: float, gamma: float, size: int, n_jobs: int) -> Any:
    return SubsampleSVM(C=C, gamma=gamma, sample_size=size, random_state=0, n_jobs=n_jobs)


#: By title, what makes a rival of some size.
RIVALS: dict[str, Callable[[float, float, int, int], Any]] = {
    "Nystroem + LinearSVC": partial(_features, NystroemSVM),
    "random features + LinearSVC": partial(_features, RandomFeatureSVM),
    "CPSP": _cpsp,
    "random rows": _random_rows,
}


def run(report: Report, data_dir: Path | None, n_jobs: int) -> None:
    show(report, problems(data_dir), n_jobs, N_VECTORS)


def problems(data_dir: Path | None) -> Iterator[Problem]:
    yield Problem(load("ijcnn1", data_dir), 1.0, 1.0)
    yield Problem(load("covtype", data_dir).split(50_000, 20_000), 1.0, 1.0)
    yield Problem(load("a9a", data_dir), 1.0, 1 / 16)
    yield Problem(load("w8a", data_dir).split(39_749, 10_000), 1.0, 1 / 16)
    yield Problem(load("kdd99", data_dir), 1.0, 1 / 4)
    yield Problem(first_rows(other_datasets.load("flights", data_dir), 50_000), *FLIGHTS)


def show(report: Report, given: Iterator[Problem], n_jobs: int, n_vectors: int) -> None:
    """The table, with a line more for each comparison: on how many datasets ours is nearest."""
    rows: list[list] = []
    for problem in given:
        rows += compared(problem, n_jobs, n_vectors)
        report.table(
            f"In the span of {n_vectors:,} vectors, beside others, {n_jobs} threads, one run",
            COLUMNS,
            rows + nearest(rows),
            NOTE,
            replace=True,
        )


def compared(problem: Problem, n_jobs: int, n_vectors: int) -> list[list]:
    """The lines of a problem: exact, ours, and each rival twice."""
    data, C, gamma = problem
    assert data.X_test is not None
    warm_up(data, n_jobs)
    for make in RIVALS.values():
        _fitted(make(C, gamma, FIRST_SIZE, n_jobs), data._replace(X=data.X[:2000], y=data.y[:2000]))
    exact = _fitted(rivals.ours(C, gamma, n_jobs, "exact"), data)
    labels = exact.model.predict(data.X_test)
    lines: list[list] = []

    def add(program: str, at: str, size: Any, found: Fitted, remark: str = "") -> None:
        predicted = found.model.predict(data.X_test)
        lines.append(
            [
                data.name,
                f"{C:g}, {gamma:.4g}",
                len(data.y),
                program,
                at,
                size,
                found.n_vectors,
                found.seconds,
                f"{np.mean(predicted == data.y_test):.4f}",
                f"{100 * np.mean(predicted == labels):.2f}",
                remark or _remark(found.model),
            ]
        )
        print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)

    add("exact", "", "", exact)
    ours = _fitted(rivals.ours(C, gamma, n_jobs, "auto", max_vectors=n_vectors), data)
    add("ours", "", n_vectors, ours)
    for program, make in RIVALS.items():
        if program == "random rows":
            found, remark = random_rows(data, exact.model, n_jobs, n_vectors)
            add(program, VECTORS, found.model.sample_size, found, remark)
        else:
            add(program, VECTORS, n_vectors, _fitted(make(C, gamma, n_vectors, n_jobs), data))
        size, largest = in_time(
            lambda size, make=make: _fitted(make(C, gamma, size, n_jobs), data),  # type: ignore[misc]
            ours.seconds,
            len(data.y),
        )
        remark = "takes longer, as small as it is" if largest.seconds > ours.seconds else ""
        if program == "random rows" and size == len(data.y):
            remark = "all rows: the exact SVM"
        add(program, SECONDS, size, largest, remark)
    return lines


def in_time(fit: Callable[[int], Fitted], seconds: float, most: int) -> tuple[int, Fitted]:
    """The largest size within some seconds, by doubling; the first where none is."""
    size = min(FIRST_SIZE, most)
    found = fit(size)
    while size < most and found.seconds <= seconds:
        larger = fit(min(2 * size, most))
        if larger.seconds > seconds:
            break
        size, found = min(2 * size, most), larger
    return size, found


def nearest(rows: list[list]) -> list[list]:
    """On how many datasets no rival has more of the exact model's labels than ours."""
    at = {name: COLUMNS.index(name) for name in ("data", "program", "labels as exact %")}
    names = list(dict.fromkeys(row[at["data"]] for row in rows))
    lines = []
    for comparison in (VECTORS, SECONDS):
        count = 0
        for name in names:
            own = [row for row in rows if row[at["data"]] == name]
            labels = at["labels as exact %"]
            (ours,) = (float(row[labels]) for row in own if row[at["program"]] == "ours")
            theirs = [
                float(row[labels]) for row in own if row[COLUMNS.index("compared at")] == comparison
            ]
            count += ours >= max(theirs)
        empty = [""] * (len(COLUMNS) - 6)
        lines.append(
            [
                "all",
                "",
                "",
                "ours is nearest",
                comparison,
                *empty[:-1],
                f"{count} of {len(names)}",
                "",
            ]
        )
    return lines


def _fitted(model: Any, data: Dataset) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is in the table
        seconds = median_seconds(partial(model.fit, data.X, data.y), 1)
    return Fitted(model, seconds, n_vectors_of(model))


def _remark(model: Any) -> str:
    """Whether a rival was stopped before it had converged."""
    if hasattr(model, "linear_"):
        return "not converged" if model.n_iter_ >= MOST_PASSES else ""
    return "not converged" if getattr(model, "fit_status_", 0) else ""
