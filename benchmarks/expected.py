"""What ``verbose=1`` says of the time of an exact fit, beside the seconds that it takes.

``python -m benchmarks expected``. Seconds are the processor's, on one thread: other work on the
machine matters little then.
"""

from __future__ import annotations

import io
import time
import warnings
from contextlib import redirect_stdout
from typing import Any
from unittest import mock

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC, AESVR
from aesvm.certificate.text import between
from aesvm.machines import forecast, trainer
from benchmarks.report import Report, show
from benchmarks.time_limit import PROBLEMS, problem_of

#: Problems with parameters that make them harder: the dataset, and the parameters.
HARDER: dict[str, tuple[str, dict[str, Any]]] = {
    "covtype, C=16": ("covtype", {"C": 16.0, "gamma": 4.0}),
    "a9a, C=100": ("a9a", {"C": 100.0, "gamma": 1 / 16}),
    "ijcnn1, C=100": ("ijcnn1", {"C": 100.0, "gamma": 1.0}),
    "moons, C=10": ("moons", {"C": 10.0, "gamma": 2.0}),
}

#: Generated problems: the function of scikit-learn, its arguments, and the SVM. Rows are
#: standardised. No constant of the forecast was chosen by one of these problems alone.
GENERATED: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "friedman1": (
        datasets.make_friedman1,
        {"n_samples": 60_000, "noise": 1.0},
        AESVR(C=10, gamma=0.5, epsilon=0.2),
    ),
    "swiss roll": (
        datasets.make_swiss_roll,
        {"n_samples": 50_000, "noise": 0.5},
        AESVR(C=10, gamma=1.0),
    ),
    "200 features": (
        datasets.make_classification,
        {"n_samples": 40_000, "n_features": 200, "n_informative": 30, "flip_y": 0.02},
        AESVC(gamma=1 / 200),
    ),
    "no noise, C=10": (
        datasets.make_classification,
        {"n_samples": 60_000, "n_features": 12, "n_informative": 8, "flip_y": 0.0},
        AESVC(C=10, gamma=1 / 12),
    ),
    "circles, C=1000": (
        datasets.make_circles,
        {"n_samples": 50_000, "noise": 0.2, "factor": 0.5},
        AESVC(C=1000, gamma=1.0),
    ),
    "quantiles, C=50": (
        datasets.make_gaussian_quantiles,
        {"n_samples": 60_000, "n_features": 5, "n_classes": 2},
        AESVC(C=50, gamma=0.2),
    ),
    "quantiles, three classes": (
        datasets.make_gaussian_quantiles,
        {"n_samples": 60_000, "n_features": 5, "n_classes": 3},
        AESVC(gamma=0.2),
    ),
    "blobs, C=100": (
        datasets.make_blobs,
        {"n_samples": 50_000, "n_features": 4, "centers": 2, "cluster_std": 3.0},
        AESVC(C=100, gamma=0.5),
    ),
    "blobs, five classes": (
        datasets.make_blobs,
        {"n_samples": 60_000, "n_features": 10, "centers": 5, "cluster_std": 6.0},
        AESVC(gamma=0.1),
    ),
    "blobs, ten classes": (
        datasets.make_blobs,
        {"n_samples": 60_000, "n_features": 10, "centers": 10, "cluster_std": 6.0},
        AESVC(gamma=0.1),
    ),
    "overlapping, C=0.1": (
        datasets.make_classification,
        {"n_samples": 60_000, "n_features": 30, "flip_y": 0.3},
        AESVC(C=0.1, gamma=1 / 60),
    ),
}


def generated(name: str) -> tuple[Any, Any, Any]:
    """Rows in random order, targets, and the SVM."""
    make, given, model = GENERATED[name]
    X, y, *_ = make(**given, random_state=3)
    order = np.random.default_rng(0).permutation(len(y))
    return StandardScaler().fit_transform(X)[order], y[order], model


def measure(name: str, X: Any, y: Any, model: Any) -> dict[str, Any]:
    """A line: what was expected, what the fit took, and what was expected after a tenth of it."""
    found: dict[str, Any] = {"reached": []}
    look, done_of = forecast.forecast, trainer.done_of

    def looked(*given: Any) -> Any:
        before = time.process_time()
        found["known"] = look(*given)
        found["began"] = time.process_time()
        found["cost"] = found["began"] - before
        found["reached"].clear()
        return found["known"]

    def reached(*given: float) -> float:
        done = done_of(*given)
        found["reached"].append((time.process_time(), done))
        return done

    with (
        mock.patch.object(forecast, "forecast", looked),
        mock.patch.object(forecast, "_clock", time.process_time),
        mock.patch.object(forecast, "_WORTH_ASKING", 1),
        mock.patch.object(trainer, "done_of", reached),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        model.fit(X[:3000], y[:3000])  # code is loaded
        model.fit(X, y)
    took = time.process_time() - found["began"]
    expected = found["known"].seconds
    later = [
        (at - found["began"]) / done
        for at, done in found["reached"]
        if at - found["began"] >= 0.1 * took and done > trainer._LEAST_DONE
    ]
    is_alone = len(model.intercept_) == 1
    return {
        "data": name,
        "rows": len(y),
        "said": between(forecast._LEAST * expected, forecast._MOST * expected),
        "took s": took,
        "expected / took": expected / took,
        "after a tenth": later[0] / took if later and is_alone else None,
        "small SVMs %": 100.0 * found["cost"] / took,
    }


def expected(report: Report) -> None:
    """Fits to half and to all of the rows of each problem, which has at most 100,000 of them.

    Generated problems are fitted with all of their rows only.
    """
    lines: list[dict] = []
    for name in [*PROBLEMS, *HARDER]:
        base, parameters = HARDER.get(name, (name, PROBLEMS.get(name, {})))
        problem = problem_of(base, report, 100_000)
        kind = AESVR if problem.regression else AESVC
        for part in (2, 1):
            n_rows = len(problem.data.y) // part
            model = kind(**parameters, n_jobs=1, verbose=1)
            X = np.ascontiguousarray(problem.data.X[:n_rows])
            lines.append(show(measure(name, X, problem.data.y[:n_rows], model)))
            report.table("What is expected of an exact fit", lines)
    for name in GENERATED:
        X, y, model = generated(name)
        lines.append(show(measure(name, X, y, model.set_params(n_jobs=1, verbose=1))))
        report.table("What is expected of an exact fit", lines)
