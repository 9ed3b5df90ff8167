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
    """Fits to half and to all of the rows of each problem, which has at most 100,000 of them."""
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
