"""What the same seconds buy: ``time_limit``, the exact SVM of a sample, Nystroem features.

python -m benchmarks time_limit                   all problems
python -m benchmarks.time_limit covtype --rows 100000 --limits 1 4 16 --seeds 0 1
python -m benchmarks.time_limit covtype --processor-time --record

A seed is an order of the rows. The samples of ours and of others, which are compared with the first
seed, begin with other rows then. The exact SVM is trained once. ``--record`` puts the lines in
``recorded/time_limit.json``, in place of earlier ones of the same data.

Objectives are compared on the same random rows for all models: what a model's losses there have
more than the exact SVM's stands for all rows. (The norms of w are those of the models.)

On a machine that does other work, too, ``--processor-time`` counts the processor time of this
process, divided by the threads, in place of seconds: of fits with a limit, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import make_classification, make_moons
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC, LinearSVR

from aesvm import AESVC, AESVR, TimeLimit
from benchmarks import rivals
from benchmarks.__main__ import RESULTS
from benchmarks.datasets import Dataset, MissingError
from benchmarks.machine import processor
from benchmarks.records import FOLDER
from benchmarks.report import Report, replace_file, show

#: Rows to compare predictions on, and rows of the training set to compare objectives on.
COMPARED, JUDGES = 10_000, 10_000

#: Limits in seconds, and orders of the rows.
LIMITS, SEEDS = (1.0, 4.0, 16.0), (0, 1, 2)

#: The title of the table.
TITLE = "A time limit"

#: Rows of the smallest sample, and vectors of the smallest map; each next one has twice as many.
_LEAST_SAMPLE, _LEAST_MAP = 4000, 128


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

    def in_order(self, seed: int) -> Problem:
        """The same rows in another order."""
        order = np.random.default_rng(seed).permutation(len(self.data.y))
        data = self.data._replace(X=self.data.X[order], y=self.data.y[order])
        return self._replace(data=data)


#: Parameters by dataset.
PROBLEMS: dict[str, dict[str, Any]] = {
    "covtype": {"C": 1.0, "gamma": 1.0},
    "heart2020": {"C": 1.0, "gamma": 1 / 25},
    "flights": {"C": 1.0, "gamma": 1 / 33},
    "mnist_digits": {"C": 10.0, "gamma": 0.02},
    "sines": {"C": 1.0, "gamma": 1 / 8, "epsilon": 0.1},
    "ijcnn1": {"C": 1.0, "gamma": 1.0},
    "a9a": {"C": 1.0, "gamma": 1 / 16},
    "w8a": {"C": 1.0, "gamma": 1 / 16},
    "mnist": {"C": 1.0, "gamma": 0.02},
    "moons": {"C": 1.0, "gamma": 2.0},
    "hypercube": {"C": 1.0, "gamma": 1 / 20},
}


def sines(n_rows: int = 200_000 + COMPARED) -> Dataset:
    """A regression: the sum of the sines of six random directions in 8 dimensions, and noise."""
    random = np.random.default_rng(0)
    X = random.standard_normal((n_rows, 8))
    y = np.sin(X @ random.standard_normal((8, 6))).sum(axis=1)
    return Dataset("sines", X, y + 0.3 * random.standard_normal(n_rows))


def moons(n_rows: int = 100_000 + COMPARED) -> Dataset:
    """Two moons that overlap."""
    return Dataset("moons", *make_moons(n_rows, noise=0.3, random_state=0))


def hypercube(n_rows: int = 100_000 + COMPARED) -> Dataset:
    """Clusters at the corners of a cube, with a tenth of the labels wrong."""
    X, y = make_classification(n_rows, n_informative=8, flip_y=0.1, random_state=0)
    return Dataset("hypercube", X, y)


GENERATED: dict[str, Callable[[], Dataset]] = {
    "sines": sines,
    "moons": moons,
    "hypercube": hypercube,
}


def problem_of(
    name: str,
    report: Report,
    rows: int | None,
    clock: Callable[[], float] = time.perf_counter,
) -> Problem:
    """A problem: rows to train on, at most ``rows`` if that is given, and rows to compare on."""
    data = GENERATED[name]() if name in GENERATED else report.data(name)
    X, y = _dense(data.X), data.y
    order = np.random.default_rng(0).permutation(len(y))
    n_rows = 464_000 if name == "covtype" and rows is None else rows
    if data.X_test is None or data.y_test is None:
        n_test = min(COMPARED, len(y) // 5)
        train, test = order[n_test:][:n_rows], order[:n_test]
        data = Dataset(data.name, X[train], y[train], X[test], y[test])
    else:
        train, X_test = order[:n_rows], _dense(data.X_test)[:COMPARED]
        data = Dataset(data.name, X[train], y[train], X_test, data.y_test[:COMPARED])
    regression = y.dtype.kind == "f" and len(np.unique(y)) > 100
    return Problem(name, data, PROBLEMS[name], regression, clock)


def _dense(X: Any) -> NDArray:
    return X.toarray() if sp.issparse(X) else X


def time_limit(report: Report) -> None:
    """All problems, at most 100,000 rows of each."""
    lines: list[dict] = []
    for name in PROBLEMS:
        measure(problem_of(name, report, 100_000), report, LIMITS, (0,), lines)


def measure(
    problem: Problem,
    report: Report,
    limits: Sequence[float],
    seeds: Sequence[int],
    lines: list[dict],
    with_others: bool = True,
) -> None:
    """Lines of one problem, which are added to the table."""
    n_jobs, data = report.jobs, problem.data
    _compiled(problem, n_jobs)
    exact, seconds = problem.timed(
        problem.machine(refine="exact", n_jobs=n_jobs).fit, data.X, data.y
    )
    least = exact.certificate_.objective
    answers = exact.predict(data.X_test)
    is_pair = problem.regression or len(np.unique(data.y)) == 2
    judged = np.random.default_rng(1).permutation(len(data.y))[:JUDGES]
    X, y = data.X[judged], data.y[judged]
    known = parts_of(exact, X, y) if is_pair else None

    def add(seed: int, limit: float, how: str, size: int, model: Any, taken: float) -> None:
        above, error = None, None
        if known is not None and not hasattr(model, "steps"):
            half_norm, paid = parts_of(model, X, y)
            more = paid - known[1]
            above = 100.0 * (half_norm - known[0] + len(data.y) * np.mean(more)) / least
            error = 200.0 * len(data.y) * np.std(more) / np.sqrt(len(more)) / least
        predictions = model.predict(data.X_test)
        if problem.regression:
            same = 100.0 * (1.0 - np.var(predictions - answers) / np.var(answers))
        else:
            same = 100.0 * np.mean(predictions == answers)
        line = {
            "data": problem.name,
            "rows": len(data.y),
            "seed": seed,
            "limit s": limit,
            "how": how,
            "size": size,
            "seconds": taken,
            "above %": above,
            "error %": error,
            "same %": same,
            "score": float(model.score(data.X_test, data.y_test)),
        }
        lines.append(show({key: _plain(value) for key, value in line.items()}))
        report.table(TITLE, lines)

    add(0, seconds, "exact", len(data.y), exact, seconds)
    for seed in seeds:
        own = problem.in_order(seed)
        for limit in limits:
            model = own.machine(n_jobs=n_jobs).set_callbacks(TimeLimit(limit, own.clock))
            model, taken = own.timed(model.fit, own.data.X, own.data.y)
            size = model.certificate_.n_solved
            add(seed, limit, "time_limit", size, model, taken)
    if not with_others:
        return
    first = problem.in_order(seeds[0])
    others = {"sample": _samples(first, n_jobs), "Nystroem": _maps(first)}
    if not problem.regression:
        others["intelex"] = _samples_of_intelex(first, n_jobs)
    for how, fit in others.items():
        try:
            _largest_in_time(limits, fit, how, lambda *given: add(seeds[0], *given))
        except MissingError:
            continue


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _compiled(problem: Problem, n_jobs: int) -> None:
    """Have all code loaded that fits use."""
    X, y = problem.data.X[:6000], problem.data.y[:6000]
    for others in ({"refine": "exact"}, {"time_limit": 1.0}):
        problem.timed(problem.machine(n_jobs=n_jobs, **others).fit, X, y)


class _Tried(NamedTuple):
    """A model of another way, its size and what it took."""

    model: Any
    size: int
    seconds: float


def _samples(problem: Problem, n_jobs: int) -> Callable[[int], _Tried | None]:
    """The exact SVM of the first rows, which are in random order."""
    return _of_first_rows(problem, lambda: problem.machine(refine="exact", n_jobs=n_jobs))


def _samples_of_intelex(problem: Problem, n_jobs: int) -> Callable[[int], _Tried | None]:
    C, gamma = problem.parameters["C"], problem.parameters["gamma"]
    return _of_first_rows(problem, lambda: rivals.intelex(C, gamma, n_jobs))


def _of_first_rows(problem: Problem, machine: Callable[[], Any]) -> Callable[[int], _Tried | None]:
    X, y = problem.data.X, problem.data.y

    def fit(step: int) -> _Tried | None:
        size = _LEAST_SAMPLE * 2**step
        if size >= 2 * len(y):
            return None
        size = min(size, len(y))
        model, seconds = problem.timed(machine().fit, X[:size], y[:size])
        return _Tried(model, size, seconds)

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
        return _Tried(model, size, seconds)

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
            add(limit, how, best.size, best.model, best.seconds)


def parts_of(model: Any, X: NDArray, y: NDArray) -> tuple[float, NDArray]:
    """``1/2 |w|^2`` of an SVM of two classes or of values, and what it pays at some rows."""
    coefs, vectors, intercept = model.dual_coef_, model.support_vectors_, model.intercept_
    values = not hasattr(model, "classes_")
    scores = model.predict if values else model.decision_function
    half_norm = 0.5 * float(np.ravel(coefs) @ (scores(vectors) - intercept[0]))
    if values:
        paid = np.maximum(np.abs(scores(X) - y) - model.epsilon, 0.0)
    else:
        paid = np.maximum(1.0 - np.where(y == model.classes_[1], 1.0, -1.0) * scores(X), 0.0)
    return half_norm, model.C * paid


def record(lines: list[dict], jobs: int, started: Any, clock: str) -> None:
    """Put lines in the record, in place of earlier ones of the same data and rows."""
    path = FOLDER / "time_limit.json"
    content = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": []}
    new = {(line["data"], line["rows"]) for line in lines}
    kept = [line for line in content["rows"] if (line["data"], line["rows"]) not in new]
    maker = " ".join(re.findall(r"AMD EPYC|Intel Xeon|Apple \w+", processor())) or processor()
    run = {
        "date": f"{started:%Y-%m-%d}",
        "machine": f"{jobs} core{'s' * (jobs > 1)}, {maker}",
        "clock": clock,
    }
    rows = kept + [{**line, **run} for line in lines]
    replace_file(path, json.dumps({"rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_limit", description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--alone", action="store_true", help="nothing else beside it")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    report = Report(options.results, data_dir, options.jobs)
    clock, named = time.perf_counter, "seconds"
    if options.processor_time:
        clock, named = lambda: time.process_time() / options.jobs, "processor time / cores"
    for name in options.names:
        found: list[dict] = []
        problem = problem_of(name, report, options.rows, clock)
        try:
            measure(problem, report, options.limits, options.seeds, found, not options.alone)
        finally:
            if options.record and found:
                record(found, options.jobs, report.started, named)


if __name__ == "__main__":
    main()
