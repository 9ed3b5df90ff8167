"""How long does a search take whose fits share their work? Beside searches whose fits do not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV, paper_grid
from benchmarks import processes, rivals
from benchmarks.datasets import Dataset, MissingError, folds
from benchmarks.report import Report, show

#: The ways of training that are searched with.
WAYS: dict[str, dict[str, Any]] = {
    "exact": {"refine": "exact"},
    "refine=0": {"refine": 0, "hull_tol": 1e-3},
}

#: Processor seconds after which a rival is given no more points.
LIMIT = 120.0

NOTE = (
    "Seconds are those of processors, all threads and processes together: on an idle machine with "
    "so many cores, these over the cores pass. Of programs beside AEGridSearchCV a sample of "
    "points is fitted and scored, all on one fold: as many for each gamma, with values of C that "
    "are spread over the grid; the seconds of all points are these times points and folds over the "
    "sample. AEGridSearchCV, GridSearchCV and SVC have one thread for each of so many fits at a "
    "time, intelex all threads for one fit. The largest difference of a score is that to "
    "GridSearchCV at the sampled points. SVC's best point is that of the highest score on the "
    "fold; its test accuracies are those of models of the fold's training rows. All searches are "
    "of the fold in the middle, with a sample of the gammas, and multiplied up."
)


class Problem(NamedTuple):
    """Rows, and the points and folds that are searched over."""

    data: Dataset
    grid: dict[str, list[float]]
    folds: list[tuple[NDArray, NDArray]]

    @property
    def n_fits(self) -> int:
        return len(self.folds) * len(self.grid["C"]) * len(self.grid["gamma"])


def coarse_grid() -> dict[str, list[float]]:
    """The paper's ranges, five values each."""
    return {
        name: [float(value) for value in np.geomspace(min(values), max(values), 5)]
        for name, values in paper_grid().items()
    }


def of_paper(data: Dataset) -> Problem:
    return Problem(data, paper_grid(), folds(len(data.y), 5))


def of_part(data: Dataset) -> Problem:
    return Problem(data, coarse_grid(), folds(len(data.y), 3))


def sampled(grid: dict[str, list[float]], per_gamma: int) -> list[dict[str, float]]:
    """So many points of each gamma, with values of C spread over the grid; in a random order."""
    rng = np.random.default_rng(0)
    costs = [C for _ in range(per_gamma) for C in rng.permutation(grid["C"])]
    points = [
        {"C": float(costs.pop()), "gamma": gamma}
        for _ in range(per_gamma)
        for gamma in grid["gamma"]
    ]
    return [points[at] for at in rng.permutation(len(points))]


def search(report: Report) -> None:
    """Every dataset, on one of its folds with a sample of the gammas."""
    lines: list[dict] = []
    for problem, every in (
        (of_paper(report.data("ijcnn1")), 1),
        (of_paper(report.data("kdd99")), 3),
        (of_part(report.data("covtype").split(50_000, 20_000)), 2),
    ):
        for line in _beside(problem, problem.grid["gamma"][::every], report.jobs):
            lines.append(show(line))
        report.table(f"Search over C and gamma, one fold, {report.jobs} cores", lines, NOTE)


def _beside(problem: Problem, gammas: list[float], jobs: int) -> Iterator[dict]:
    """All ways of training, beside the others."""
    data, fold = problem.data, problem.folds[len(problem.folds) // 2]
    grid = {**problem.grid, "gamma": gammas}
    points = sampled(grid, 1)
    more = problem.n_fits / (len(grid["C"]) * len(gammas))
    _warm_up(data, jobs)
    found: list[tuple[Any, dict[str, Any]]] = []
    for name, way in WAYS.items():
        model = AESVC(n_jobs=1, **way)
        own = AEGridSearchCV(model, grid, cv=[fold], n_jobs=jobs, refit=False)
        seconds, wall = _spent(partial(own.fit, data.X, data.y))
        plain, differs = _plain(problem, points, model, own, jobs)
        line: dict[str, Any] = {
            "AESVC": name,
            "AEGridSearchCV, processor s": more * seconds,
            "wall s": more * wall,
            "GridSearchCV(AESVC), processor s": plain,
            "largest difference of a score": differs,
        }
        found.append((own, line))
    theirs = {"SVC": _rival(problem, points, rivals.svc, jobs)}
    try:
        theirs["intelex"] = _rival(problem, points, partial(rivals.intelex, n_jobs=jobs), 1)
    except MissingError:
        theirs["intelex"] = Sampled(np.nan, [])
    for own, line in found:
        best = AESVC(n_jobs=jobs).set_params(**own.best_params_).fit(data.X, data.y)
        ours = line["AEGridSearchCV, processor s"]
        yield {
            "data": data.name,
            "fits": problem.n_fits,
            **line,
            "times": line["GridSearchCV(AESVC), processor s"] / ours,
            **{f"{name}, processor s": one.seconds for name, one in theirs.items()},
            **{f"OTS of {name}": one.seconds / ours for name, one in theirs.items()},
            "best point": _named(own.best_params_),
            "test accuracy %": 100 * best.score(data.X_test, data.y_test),
            "of SVC at its best point %": 100 * theirs["SVC"].at_best,
        }


def _spent(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of processors, and those that passed."""
    before, started = processes.processor_seconds(os.getpid()), time.perf_counter()
    work()
    wall = time.perf_counter() - started
    return processes.processor_seconds(os.getpid()) - before, wall


def _warm_up(data: Dataset, jobs: int) -> None:
    """Start workers, and have them compile, or load what was compiled."""
    part = np.random.default_rng(0).permutation(len(data.y))[:2000]
    grid = {"C": [1.0], "gamma": [1.0, 2.0]}
    for way in WAYS.values():
        model = AESVC(n_jobs=1, **way)
        AEGridSearchCV(model, grid, cv=max(2, jobs), n_jobs=jobs).fit(data.X[part], data.y[part])


class Sampled(NamedTuple):
    """The seconds of a whole search, as a sample of its points has them."""

    seconds: float
    tried: list[tuple[float, float]]  #: the score on the fold, and on test rows, of each point

    @property
    def at_best(self) -> float:
        return max(self.tried)[1] if self.tried else np.nan


def _rival(
    problem: Problem,
    points: list[dict[str, float]],
    make: Callable[..., Any],
    at_a_time: int,
) -> Sampled:
    """Another SVM, at as many of the points as there is time for."""
    data, (train, test) = problem.data, problem.folds[len(problem.folds) // 2]
    models: list[Any] = []
    tried: list[float] = []
    seconds = 0.0

    def fitted(params: dict[str, float]) -> tuple[Any, float]:
        model = make(**params).fit(data.X[train], data.y[train])
        return model, model.score(data.X[test], data.y[test])

    def some() -> None:
        at = len(models)
        for model, score in parallel(delayed(fitted)(p) for p in points[at : at + at_a_time]):
            models.append(model)
            tried.append(score)

    with Parallel(n_jobs=at_a_time, prefer="threads") as parallel:
        while len(models) < len(points) and seconds < LIMIT:
            seconds += _spent(some)[0]
    accuracies = [model.score(data.X_test, data.y_test) for model in models]
    return Sampled(
        seconds / len(models) * problem.n_fits, list(zip(tried, accuracies, strict=True))
    )


def _plain(
    problem: Problem,
    points: list[dict[str, float]],
    model: AESVC,
    search: Any,
    jobs: int,
) -> tuple[float, float]:
    """Seconds of a search whose fits share nothing; and how much scores of points differ."""
    grid = [{name: [value] for name, value in params.items()} for params in points]
    data = problem.data
    fold = [problem.folds[len(problem.folds) // 2]]
    plain = GridSearchCV(model, grid, cv=fold, n_jobs=jobs, refit=False)
    seconds, _ = _spent(lambda: plain.fit(data.X, data.y))
    known = search.cv_results_
    scores = [known["split0_test_score"][known["params"].index(params)] for params in points]
    differs = np.abs(np.array(scores) - plain.cv_results_["split0_test_score"]).max()
    return seconds / len(points) * problem.n_fits, float(differs)


def _named(params: dict[str, float]) -> str:
    return ", ".join(f"{name}={value:.3g}" for name, value in params.items())


def search_large(report: Report) -> None:
    """A search over many rows, and the memory that it takes."""
    data = report.data("covtype").split(500_000, 20_000)
    grid = {
        name: np.geomspace(min(values), max(values), 4).tolist()
        for name, values in paper_grid().items()
    }
    model = AESVC(n_jobs=1, refine=0)
    middle = folds(len(data.y), 3)[1:2]
    own = AEGridSearchCV(model, grid, cv=middle, n_jobs=report.jobs, refit=False)
    _warm_up(data, report.jobs)
    before = processes.memory(os.getpid())
    with processes.Watch(os.getpid()) as watch:
        seconds, wall = _spent(lambda: own.fit(data.X, data.y))
    line = {
        "data": data.name,
        "fits": len(grid["C"]) * len(grid["gamma"]),
        "X, GiB": data.X.nbytes / 2**30,
        "before, GiB": before / 2**30,
        "peak, GiB": watch.peak / 2**30,
        "processor s": seconds,
        "wall s": wall,
        "best": _named(own.best_params_),
    }
    report.table(
        f"Search over {len(data.y):,} rows, refine=0, {report.jobs} processes, one of three folds",
        [line],
        "Anonymous memory of the process and those it starts, all together; rows that these read "
        "from a memory map are not in it.",
    )


def search_halving(report: Report) -> None:
    """Searches by halving, beside those over the whole grid."""
    lines: list[dict] = []
    for problem in (
        of_paper(report.data("ijcnn1")),
        of_paper(report.data("localization").split(12_000)),
        of_part(report.data("covtype").split(50_000, 20_000)),
        of_part(report.data("a9a")),
        of_paper(report.data("kdd99")),
    ):
        lines += map(show, _halved(problem, report.jobs))
        report.table(
            f"Search by halving beside the whole grid, {report.jobs} cores",
            lines,
            "The best point is fitted to all rows. AESVC is exact; hull_tol is 1e-3 at the end.",
        )


def _halved(problem: Problem, jobs: int) -> Iterator[dict]:
    data, model = problem.data, AESVC(n_jobs=1, refine="exact")
    _warm_up(data, jobs)
    common: dict[str, Any] = {"cv": problem.folds, "n_jobs": jobs, "refit": False}
    searches: dict[str, Any] = {"": AEGridSearchCV(model, problem.grid, **common)}
    for resource in ("n_samples", "hull_tol"):
        searches[resource] = AEHalvingGridSearchCV(
            model, problem.grid, resource=resource, random_state=0, **common
        )
    whole = np.nan
    for resource, one in searches.items():
        seconds, _ = _spent(partial(one.fit, data.X, data.y))
        whole = seconds if not resource else whole
        best = {name: one.best_params_[name] for name in ("C", "gamma")}
        machine = AESVC(n_jobs=jobs, refine="exact", **best).fit(data.X, data.y)
        yield {
            "data": data.name,
            "candidates, folds": f"{problem.n_fits // len(problem.folds)}, {len(problem.folds)}",
            "resource": resource,
            "candidates of each round": ", ".join(map(str, getattr(one, "n_candidates_", []))),
            "processor s": seconds,
            "of the whole grid / these": whole / seconds,
            "best point": _named(best),
            "test accuracy %": 100 * machine.score(data.X_test, data.y_test),
        }
