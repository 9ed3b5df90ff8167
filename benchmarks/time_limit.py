"""What the same seconds buy: ``time_limit``, the exact SVM of a sample, Nystroem features.

python -m benchmarks time_limit
python -m benchmarks.time_limit covtype --rows 100000 --limits 1 3 10 --data-dir FOLDER
python -m benchmarks.time_limit covtype --processor-time
python -m benchmarks.time_limit --picture docs/pictures/time_limit.png RESULTS.json

On a machine that does other work, too, ``--processor-time`` counts the processor time of this
process, divided by the threads, in place of seconds: of fits with a limit, too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC, LinearSVR

from aesvm import AESVC, AESVR, TimeLimit
from benchmarks.__main__ import RESULTS
from benchmarks.datasets import Dataset
from benchmarks.report import Report, show

#: Rows that are trained on at most, rows to compare predictions on, and limits in seconds.
ROWS, COMPARED, LIMITS = 100_000, 10_000, (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

#: The title of the table.
TITLE = "A time limit"

#: Rows of the smallest sample, and vectors of the smallest map; each next one has twice as many.
_LEAST_SAMPLE, _LEAST_MAP = 1000, 64


class Problem(NamedTuple):
    """Rows to train on and to compare on, and the SVM's parameters."""

    name: str
    data: Dataset
    parameters: dict[str, Any]
    regression: bool = False
    clock: Callable[[], float] = time.perf_counter

    def timed(self, fit: Callable, *given: Any) -> tuple[Any, float]:
        """What a call returns, and the seconds that it takes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = self.clock()
            model = fit(*given)
            return model, self.clock() - started

    def machine(self, **others: Any) -> Any:
        return (AESVR if self.regression else AESVC)(**self.parameters, **others)


#: Parameters by dataset.
PROBLEMS: dict[str, dict[str, Any]] = {
    "covtype": {"C": 1.0, "gamma": 1.0},
    "heart2020": {"C": 1.0, "gamma": 1 / 25},
    "flights": {"C": 1.0, "gamma": 1 / 33},
    "mnist_digits": {"C": 10.0, "gamma": 0.02},
    "kin40k": {"C": 10.0, "gamma": 1 / 8, "epsilon": 0.1},
}


def problem_of(
    name: str,
    report: Report,
    rows: int,
    seed: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Problem:
    """A problem of so many rows at most, in an order by a seed."""
    data = report.data(name)
    X, y = data.X, data.y
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = min(COMPARED, len(y) // 5)
    train, test = order[n_test : n_test + rows], order[:n_test]
    return Problem(
        name,
        Dataset(data.name, X[train], y[train], X[test], y[test]),
        PROBLEMS[name],
        y.dtype.kind == "f" and len(np.unique(y)) > 100,
        clock,
    )


def time_limit(report: Report) -> None:
    """All problems, at most ``ROWS`` rows of each."""
    lines: list[dict] = []
    for name in PROBLEMS:
        measure(name, report, ROWS, LIMITS, 0, lines)


def measure(
    name: str,
    report: Report,
    rows: int,
    limits: Sequence[float],
    seed: int,
    lines: list[dict],
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Lines of one problem, which are added to the table."""
    problem = problem_of(name, report, rows, seed, clock)
    n_jobs, data = report.jobs, problem.data
    _compiled(problem, n_jobs)
    exact, seconds = problem.timed(
        problem.machine(refine="exact", n_jobs=n_jobs).fit, data.X, data.y
    )
    least = exact.certificate_.objective
    answers = exact.predict(data.X_test)

    def add(limit: float, how: str, model: Any, taken: float, objective: float | None) -> None:
        above = None if objective is None else 100.0 * (objective - least) / abs(least)
        predictions = model.predict(data.X_test)
        if problem.regression:
            same = 100.0 * (1.0 - np.var(predictions - answers) / np.var(answers))
        else:
            same = 100.0 * np.mean(predictions == answers)
        line = {
            "data": f"{name}, {len(data.y):,} rows",
            "seed": seed,
            "limit, s": limit,
            "how": how,
            "seconds": taken,
            "above the optimum, %": above,
            "as the exact, %": same,
            "accuracy, %": 100.0 * model.score(data.X_test, data.y_test),
        }
        lines.append(show(line))
        report.table(TITLE, lines)

    add(seconds, "exact", exact, seconds, least)
    for limit in limits:
        model = problem.machine(n_jobs=n_jobs).set_callbacks(TimeLimit(limit, clock))
        model, taken = problem.timed(model.fit, data.X, data.y)
        objective = model.certificate_.objective
        if objective is None:
            objective = model.certify(data.X, data.y).objective
        add(limit, "time_limit", model, taken, objective)
    _largest_in_time(limits, _samples(problem, n_jobs), "exact SVM of a sample", add)
    _largest_in_time(limits, _maps(problem), "Nystroem + linear", add)


def _compiled(problem: Problem, n_jobs: int) -> None:
    """Have all code loaded that fits use."""
    X, y = problem.data.X[:6000], problem.data.y[:6000]
    for others in ({"refine": "exact"}, {"max_vectors": 64}, {"time_limit": 1.0}):
        problem.timed(problem.machine(n_jobs=n_jobs, **others).fit, X, y)


class _Tried(NamedTuple):
    """A model of another way, its size and what it took; its objective where that is known."""

    model: Any
    size: int
    seconds: float
    objective: Callable[[], float | None]


def _samples(problem: Problem, n_jobs: int) -> Callable[[int], _Tried | None]:
    """The exact SVM of the first rows, which are in random order."""
    X, y = problem.data.X, problem.data.y

    def fit(step: int) -> _Tried | None:
        size = _LEAST_SAMPLE * 2**step
        if size > len(y):
            return None
        model = problem.machine(refine="exact", n_jobs=n_jobs)
        model, seconds = problem.timed(model.fit, X[:size], y[:size])
        return _Tried(model, size, seconds, lambda: objective_of(model, X, y))

    return fit


def _maps(problem: Problem) -> Callable[[int], _Tried | None]:
    """A linear SVM of Nystroem features."""
    data, parameters = problem.data, problem.parameters

    def fit(step: int) -> _Tried | None:
        size = _LEAST_MAP * 2**step
        if size > 4096:
            return None
        features = Nystroem(gamma=parameters["gamma"], n_components=size, random_state=0)
        linear: Any = LinearSVC(C=parameters["C"], loss="hinge", max_iter=1000)
        if problem.regression:
            linear = LinearSVR(C=parameters["C"], epsilon=parameters["epsilon"], max_iter=1000)
        model, seconds = problem.timed(make_pipeline(features, linear).fit, data.X, data.y)
        return _Tried(model, size, seconds, lambda: None)

    return fit


def _largest_in_time(
    limits: Sequence[float],
    fit: Callable[[int], _Tried | None],
    how: str,
    add: Callable,
) -> None:
    """For each limit the largest that has ended in time; sizes double."""
    tried: list[_Tried] = []
    while (found := fit(len(tried))) is not None:
        tried.append(found)
        if found.seconds > max(limits) / 3.0:  # the next would not end in time
            break
    for limit in limits:
        in_time = [one for one in tried if one.seconds <= limit]
        if in_time:
            best = in_time[-1]
            add(limit, f"{how} ({best.size:,})", best.model, best.seconds, best.objective())


def objective_of(model: Any, X: NDArray, y: NDArray) -> float:
    """F on some rows, of an SVM that was trained on others: all pairs of classes together."""
    coefs, vectors, intercept = model.dual_coef_, model.support_vectors_, model.intercept_
    if not hasattr(model, "classes_"):
        scores = model.predict(X)
        paid = np.maximum(np.abs(scores - y) - model.epsilon, 0.0).sum()
        own = model.predict(vectors) - intercept[0]
        return 0.5 * float(coefs[0] @ own) + model.C * float(paid)
    if len(model.classes_) > 2:
        return float("nan")  # of pairs, labels alone are compared
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    paid = np.maximum(1.0 - signs * model.decision_function(X), 0.0).sum()
    own = model.decision_function(vectors) - intercept[0]
    return 0.5 * float(coefs[0] @ own) + model.C * float(paid)


def picture(lines: list[dict]) -> Figure:
    """Objective above the optimum, and labels as the exact model's, against the limit."""
    names = list(dict.fromkeys(line["data"] for line in lines))
    figure = Figure(figsize=(3.0 * len(names), 5.2), layout="constrained")
    panels = figure.subplots(2, len(names), sharex=True, squeeze=False)
    styles = {"time_limit": ("#d94801", "o"), "exact SVM": ("#777777", "s")}
    styles["Nystroem"] = ("#2171b5", "^")
    for column, name in enumerate(names):
        for row, value in enumerate(("above the optimum, %", "as the exact, %")):
            axes = panels[row, column]
            for how, (color, marker) in styles.items():
                own = [
                    (line["limit, s"], line[value])
                    for line in lines
                    if line["data"] == name and line["how"].startswith(how)
                    if line[value] is not None and line[value] == line[value]
                ]
                if own:
                    x, values = np.array(sorted(own)).T
                    if row == 0:
                        values = np.maximum(values, 1e-3)
                    axes.plot(x, values, marker=marker, color=color, label=how, ms=4)
            axes.set_xscale("log")
            if row == 0:
                axes.set_yscale("log")
                axes.set_title(name, fontsize=9)
            else:
                axes.set_xlabel("limit, s")
        panels[0, 0].set_ylabel("objective above the optimum, %")
        panels[1, 0].set_ylabel("labels as the exact SVM's, %")
    panels[0, 0].legend(fontsize=8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_limit", description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.picture is not None:
        lines = []
        for path in options.names:
            lines += json.loads(Path(path).read_text())["tables"][TITLE]["rows"]
        picture(lines).savefig(options.picture, dpi=130)
        return
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    report = Report(options.results, data_dir, options.jobs)
    clock = time.perf_counter
    if options.processor_time:
        clock = lambda: time.process_time() / options.jobs  # noqa: E731
    found: list[dict] = []
    for name in options.names:
        measure(name, report, options.rows, options.limits, options.seed, found, clock)


if __name__ == "__main__":
    main()
