"""What real tables, many classes and many features make of the exact solver.

``speed``   seconds beside scikit-learn-intelex, on as many threads, once all is compiled.
``values``  kernel values that a fit computes, over rows times support vectors.
``few``     few rows of several classes, beside LIBSVM.
``scaling`` the same data as ``speed``, on more and more threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC
from aesvm.estimators.trained import fit_rows
from aesvm.machines.sharing import SharedWork
from benchmarks import rivals
from benchmarks.report import Report, median_seconds, show

#: Name, rows, C and gamma of the problems of ``values``; all rows where None.
FREE: tuple[tuple[str, int | None, float, float | str], ...] = (
    ("heart2020", 40_000, 1.0, "scale"),
    ("flights", 40_000, 1.0, "scale"),
    ("covtype", 50_000, 16.0, 4.0),
    ("covtype", 50_000, 1.0, 1.0),
    ("ijcnn1", None, 1.0, 1.0),
)

#: Numbers of threads, as far as there are cores.
COUNTS = (1, 2, 4, 8, 16, 32, 64)

#: Predictions that are compared.
_TESTED = 2000


class Problem(NamedTuple):
    """Rows to train on, with C and gamma."""

    name: str
    X: Any
    y: NDArray
    C: float = 1.0
    gamma: float | str = "scale"

    def ours(self, n_jobs: int) -> AESVC:
        return AESVC(C=self.C, gamma=self.gamma, refine="exact", n_jobs=n_jobs)


def letters() -> tuple[NDArray, NDArray]:
    """16,000 rows of 26 classes that overlap, 16 features with whole values, as of letters."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(52, 16))  # two of each class
    X, at = make_blobs(16_000, centers=centers, cluster_std=0.8, random_state=0)
    return StandardScaler().fit_transform(np.round(2.0 * X)), at % 26


def standardised(X: NDArray) -> NDArray:
    """Features of mean 0 and variance 1; one that is constant stays 0."""
    return StandardScaler().fit_transform(np.asarray(X, dtype=np.float64))


def problems(report: Report, covtype: int = 50_000, heart: int = 50_000) -> Iterator[Problem]:
    usps = report.data("usps")
    yield Problem("usps, ten classes", usps.X, usps.y)
    X, y = letters()
    yield Problem("as of letters, 26 classes", X, y)
    mnist = report.data("mnist").first(50_000)
    yield Problem("mnist, 0 or not", standardised(mnist.X), mnist.y)
    digits = report.data("mnist_digits").first(10_000)
    yield Problem("mnist, ten classes", standardised(digits.X), digits.y)
    w8a = report.data("w8a")
    yield Problem("w8a", standardised(_dense(w8a.X)), w8a.y)
    flights = report.data("flights").first(50_000)
    yield Problem("flights", flights.X, flights.y)
    part = report.data("heart2020").split(heart, 1)
    yield Problem("heart2020", part.X, part.y)
    part = report.data("covtype").split(covtype, 1)
    yield Problem("covtype", part.X, part.y, 1.0, 1.0)
    ijcnn1 = report.data("ijcnn1")
    yield Problem("ijcnn1", standardised(ijcnn1.X), ijcnn1.y)
    a9a = report.data("a9a")
    yield Problem("a9a", standardised(_dense(a9a.X)), a9a.y)


def _dense(X: Any) -> NDArray:
    return X.toarray() if hasattr(X, "toarray") else X


def speed(report: Report) -> None:
    intelex = rivals.with_intelex(report.jobs)
    lines: list[dict] = []
    for problem in problems(report):
        ours = problem.ours(report.jobs)
        theirs = intelex.SVC(C=problem.C, gamma=problem.gamma, cache_size=rivals.CACHE)
        rows = problem.X, problem.y
        first = median_seconds(partial(ours.fit, *rows))
        theirs_seconds, seconds = [], []
        for _ in range(report.repeats):  # by turns: others may use the machine
            theirs_seconds.append(median_seconds(partial(theirs.fit, *rows)))
            seconds.append(median_seconds(partial(ours.fit, *rows)))
        some = np.random.default_rng(0).permutation(len(problem.y))[:_TESTED]
        same = ours.predict(problem.X[some]) == theirs.predict(problem.X[some])
        line = {
            "data": f"{problem.name} {len(problem.y):,} × {problem.X.shape[1]}",
            "ours s": float(np.median(seconds)),
            "intelex s": float(np.median(theirs_seconds)),
            "times faster": float(np.median(theirs_seconds) / np.median(seconds)),
            "our first fit s": first,
            "SVs": len(ours.support_),
            "same labels %": 100.0 * float(np.mean(same)),
        }
        lines.append(show(line))
    times = pd.DataFrame(lines)["times faster"]
    report.table(
        f"Exact SVMs beside intelex, {report.jobs} threads, median of {report.repeats} by turns",
        lines,
        f"Geometric mean {np.exp(np.log(times).mean()):.2f}, least {times.min():.2f}.",
    )


def values(report: Report) -> None:
    lines = []
    for name, n_rows, C, gamma in FREE:
        data = report.data(name)
        data = data if n_rows is None else data.split(n_rows, 1)
        model, shared = AESVC(C=C, gamma=gamma, refine="exact", n_jobs=report.jobs), SharedWork()
        model.fit(data.X[:3000], data.y[:3000])
        started = time.perf_counter()
        fit_rows(model, data.X, data.y, shared=shared)
        seconds = time.perf_counter() - started
        found, n_support = shared.spent["kernel_values"], len(model.support_)
        assert found is not None
        line = {
            "data": f"{name} {len(data.y):,}",
            "C, gamma": f"{C:g}, {gamma}",
            "SVs": n_support,
            "free": int(np.count_nonzero(np.abs(model.dual_coef_) < C * (1.0 - 1e-9))),
            "pair updates": int(model.n_iter_.sum()),
            "values / floor": found / (len(data.y) * n_support),
            "seconds": seconds,
        }
        lines.append(show(line))
    report.table(
        "Kernel values over rows times support vectors",
        lines,
        "Target: at most 4 where thousands are free.",
    )


def few(report: Report) -> None:
    iris, digits = load_iris(return_X_y=True), load_digits(return_X_y=True)
    blobs = make_blobs(14 * 25, centers=14, n_features=5, cluster_std=2.0, random_state=0)
    lines = []
    for name, (X, y) in {"iris": iris, "digits": digits, "14 classes of 25 rows": blobs}.items():
        models = {"SVC": SVC(), "AESVC": AESVC(n_jobs=report.jobs)}
        for model in models.values():
            model.fit(X, y)
        by_turns = [
            [median_seconds(partial(model.fit, X, y)) for model in models.values()]
            for _ in range(10 * report.repeats)
        ]
        theirs, ours = np.median(by_turns, axis=0).tolist()
        line = {
            "data": name,
            "SVC ms": 1e3 * theirs,
            "AESVC ms": 1e3 * ours,
            "ratio": ours / theirs,
        }
        lines.append(show(line))
    report.table("Few rows of several classes, after compiling", lines, "Target: at most 2.")


def scaling(report: Report) -> None:
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    counts = [count for count in COUNTS if count <= (n_cores or 1)]
    lines: list[dict] = []
    for problem in problems(report, 100_000, 100_000):
        line: dict[str, Any] = {"data": problem.name}
        problem.ours(counts[-1]).fit(problem.X, problem.y)  # compiles
        seconds = [
            median_seconds(
                partial(problem.ours(count).fit, problem.X, problem.y), report.repeats, long=3.0
            )
            for count in counts
        ]
        line |= {f"{count} s": own for count, own in zip(counts, seconds, strict=True)}
        line["speed-up"] = seconds[0] / seconds[-1]
        lines.append(show(line))
    report.table(f"Exact SVMs on more and more threads, {n_cores} cores", lines)
