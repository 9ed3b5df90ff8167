"""Trained models on a tenth and a twentieth of their vectors, beside others with as many.

The exact SVM is trained and compressed. Beside it stand SVMs that are trained to have as many
vectors: CPSP, that of random rows, and that of a representative set which is coarse enough.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm import AESVR
from benchmarks import limits, other_datasets, rivals
from benchmarks.datasets import Dataset, load
from benchmarks.limits import Fitted
from benchmarks.report import Report, median_seconds
from experiments.rivals import CPSP, SubsampleSVM

#: What is kept of the exact model's vectors.
SHARES = (0.1, 0.05)

#: Between these the tolerance of representative sets is looked for.
FINEST, COARSEST = 1e-5, 2.0

#: Basis vectors of CPSP from which on its seconds are estimated first.
LEAST_BASIS = 50

#: C and gamma of both problems of MNIST.
MNIST = 10.0, 1 / 64

COLUMNS = [
    "data",
    "C, gamma",
    "rows",
    "program",
    "vectors",
    "seconds",
    "accuracy or R²",
    "labels as exact %",
    "bound on changes",
    "largest change",
    "typical change",
    "predictions/s",
    "times those of exact",
    "remark",
]

NOTE = (
    "Vectors: of compress so many of the exact model's, and of the others as many as compress "
    "keeps (within 3 % where that can be had; CPSP has its share for each machine). Seconds: of "
    "exact and the others those of training, of compress those that come on top. Changes are "
    "those of decision values (with several classes: of any pair; of regressions: of "
    "predictions) on the test rows, the typical one the root of their mean square. random rows: "
    "an exact SVM of random rows that weigh as much as all. refine=0: the tolerance found by "
    "bisection."
)


class Problem(NamedTuple):
    """A dataset with test rows, and an estimator that is trained exactly."""

    data: Dataset
    exact: Any


def run(report: Report, data_dir: Path | None, n_jobs: int, repeats: int) -> None:
    rows: list[list] = []
    for problem in problems(data_dir, n_jobs):
        rows += compared(problem, n_jobs, repeats)
        report.table(
            f"Compressed models, {n_jobs} threads, one run (predictions: median of {repeats})",
            COLUMNS,
            rows,
            NOTE,
            replace=True,
        )


def problems(data_dir: Path | None, n_jobs: int) -> Iterator[Problem]:
    exact = partial(rivals.ours, n_jobs=n_jobs, refine="exact")
    yield Problem(load("ijcnn1", data_dir), exact(1.0, 1.0))
    yield Problem(load("covtype", data_dir).split(100_000, 20_000), exact(1.0, 1.0))
    yield Problem(load("kdd99", data_dir), exact(1.0, 1 / 4))
    yield Problem(load("mnist", data_dir), exact(*MNIST))
    yield Problem(other_datasets.load("mnist_digits", data_dir), exact(*MNIST))
    housing = other_datasets.load("california_housing", data_dir)
    yield Problem(housing, AESVR(refine="exact", n_jobs=n_jobs))


def compared(
    problem: Problem, n_jobs: int, repeats: int, shares: tuple[float, ...] = SHARES
) -> list[list]:
    """The lines of a problem: exact, and compress and the others for each share."""
    data, exact = problem
    assert data.X_test is not None
    assert data.y_test is not None
    _warm_up(problem)
    full = _timed(exact, data.X, data.y)
    labels, values = exact.predict(data.X_test), decision_values(exact, data.X_test)
    speed = _speed(exact, data, repeats)
    classes = hasattr(exact, "classes_")
    lines: list[list] = []

    def add(program: str, fitted: Fitted, *others: Any, remark: str = "") -> None:
        predicted = fitted.model.predict(data.X_test)
        lines.append(
            [
                data.name,
                f"{exact.C:g}, {exact.gamma_:.4g}",
                len(data.y),
                program,
                fitted.n_vectors,
                fitted.seconds,
                f"{fitted.model.score(data.X_test, data.y_test):.4f}",
                f"{100 * np.mean(predicted == labels):.2f}" if classes else "",
                *others,
                *[""] * (5 - len(others)),
                remark,
            ]
        )
        print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)

    add("exact", full, "", "", "", f"{speed:,.0f}", 1.0)
    for share in shares:
        wanted = max(1, round(share * full.n_vectors))
        started = time.perf_counter()
        small = exact.compress(wanted)
        seconds = time.perf_counter() - started
        kept = small.compression_.n_vectors
        change = np.abs(decision_values(small, data.X_test) - values)
        now = _speed(small, data, repeats)
        add(
            f"compress to {share:.0%}",
            Fitted(small, seconds, kept),
            small.compression_.bound,
            float(change.max()),
            float(np.sqrt(np.square(change).mean())),
            f"{now:,.0f}",
            now / speed,
        )
        for program, fit in _others(problem, n_jobs).items():
            found, remark = fit(kept)
            if found is None:
                lines.append([*lines[-1][:3], program, *[""] * 9, remark])
            else:
                add(f"{program}, {share:.0%}", found, remark=remark)
    return lines


def decision_values(model: Any, X: Any) -> NDArray[np.float64]:
    """Of every pair of classes, or of the one machine there is."""
    if not hasattr(model, "classes_"):
        return model.predict(X)
    shape = model.decision_function_shape
    try:
        return model.set_params(decision_function_shape="ovo").decision_function(X)
    finally:
        model.set_params(decision_function_shape=shape)


def random_rows(
    data: Dataset, exact: Any, n_jobs: int, n_vectors: int, seed: int = 0
) -> tuple[Fitted, str]:
    """The exact SVM of so many random rows that it has so many vectors; and how many rows."""
    n = len(data.y)
    order = np.random.default_rng(seed).permutation(n)
    sizes = {}

    def of_classes(size: float) -> Fitted:
        model = SubsampleSVM(
            C=exact.C,
            gamma=exact.gamma_,
            sample_size=round(size),
            random_state=seed,
            n_jobs=n_jobs,
        )
        fitted = _timed(model, data.X, data.y)
        sizes[id(model)] = round(size)
        return fitted

    def of_values(size: float) -> Fitted:
        rows = np.sort(order[: round(size)])
        model = AESVR(C=exact.C, gamma=exact.gamma_, refine="exact", n_jobs=n_jobs)
        model.set_params(epsilon=exact.epsilon)
        weights = np.full(len(rows), n / len(rows))
        fitted = _timed(model, data.X[rows], data.y[rows], sample_weight=weights)
        sizes[id(model)] = len(rows)
        return fitted

    fit = of_classes if hasattr(exact, "classes_") else of_values
    found = limits.bisected(fit, min(n_vectors, n), n, n_vectors)
    return found, f"{sizes[id(found.model)]:,} rows drawn"


def _others(problem: Problem, n_jobs: int) -> dict[str, Callable[[int], tuple[Fitted | None, str]]]:
    """The programs beside ours: each is given the number of vectors, and has a remark."""
    data, exact = problem
    programs: dict[str, Callable[[int], tuple[Fitted | None, str]]] = {
        "random rows": partial(random_rows, data, exact, n_jobs),
        "refine=0": partial(_coarse, data, exact),
    }
    if hasattr(exact, "classes_"):
        programs = {"CPSP": partial(_cpsp, data, exact, n_jobs), **programs}
    return programs


def _cpsp(data: Dataset, exact: Any, n_jobs: int, n_vectors: int) -> tuple[Fitted | None, str]:
    n_classes = len(exact.classes_)
    own = max(1, n_vectors // (1 if n_classes == 2 else n_classes))

    def fit(size: int) -> Fitted:
        model = CPSP(
            C=exact.C, gamma=exact.gamma_, n_basis=max(1, size), random_state=0, n_jobs=n_jobs
        )
        return _timed(model, data.X, data.y)

    why_not = limits.too_long(fit, own, LEAST_BASIS)
    return (None, why_not) if why_not else (fit(own), "")


def _coarse(data: Dataset, exact: Any, n_vectors: int) -> tuple[Fitted, str]:
    def fit(finesse: float) -> Fitted:
        model = type(exact)(**{**exact.get_params(), "refine": 0, "hull_tol": 1.0 / finesse})
        return _timed(model, data.X, data.y)

    found = limits.bisected(fit, 1.0 / COARSEST, 1.0 / FINEST, n_vectors)
    return found, f"hull_tol={found.model.hull_tol:.2g}"


def _timed(model: Any, X: Any, y: NDArray, **others: Any) -> Fitted:
    seconds = median_seconds(partial(model.fit, X, y, **others), 1)
    return Fitted(model, seconds, n_vectors_of(model))


def n_vectors_of(model: Any) -> int:
    """Vectors of a kernel expansion, or features of a linear SVM."""
    if hasattr(model, "support_"):
        return len(model.support_)
    return model.n_basis_ if hasattr(model, "n_basis_") else model.n_components


def _speed(model: Any, data: Dataset, repeats: int) -> float:
    """Rows that are predicted in a second."""
    assert data.X_test is not None
    return data.X_test.shape[0] / median_seconds(partial(model.predict, data.X_test), repeats)


def _warm_up(problem: Problem) -> None:
    """Compile, or load what was compiled."""
    data, exact = problem
    model = type(exact)(**exact.get_params())
    for rows in (500, 5000):
        if len(np.unique(data.y[:rows])) > 1:
            model.fit(data.X[:rows], data.y[:rows])
            model.compress(max(1, len(model.support_) // 10)).predict(data.X[:rows])
