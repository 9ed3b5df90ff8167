"""How long does a search take whose fits share their work? Beside searches whose fits do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV, paper_grid
from benchmarks import rivals
from benchmarks.datasets import Dataset, MissingError, folds, load
from benchmarks.report import Report

#: The ways of training that are searched with.
WAYS: dict[str, dict[str, Any]] = {
    "exact": {"refine": "exact"},
    "refine=0": {"refine": 0, "hull_tol": 1e-3},
}

#: Seconds after which a rival is given no more points.
LIMIT = 300.0

COLUMNS = [
    "data",
    "fits",
    "AESVC",
    "AEGridSearchCV s",
    "GridSearchCV(AESVC) s",
    "times",
    "SVC s",
    "OTS of SVC",
    "intelex s",
    "OTS of intelex",
    "points of GridSearchCV, SVC, intelex",
    "largest difference of a score",
    "best point",
    "test accuracy %",
    "of the best SVC %",
]

NOTE = (
    "Of programs beside AEGridSearchCV a sample of points is fitted and scored, all on one fold: "
    "as many for each gamma, with values of C that are spread over the grid; the seconds of all "
    "points are these times points and folds over the sample. AEGridSearchCV, GridSearchCV and SVC "
    "have one thread for each of so many fits at a time, intelex all threads for one fit. The "
    "largest difference of a score is that to GridSearchCV at the sampled points. "
    "The best SVC is that of the best of its sampled points, fitted to all rows."
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


def run(report: Report, data_dir: Path | None, covtype: Callable[[], Dataset], jobs: int) -> None:
    rows: list[list] = []
    cases: list[tuple[Callable[[], Problem], int]] = [
        (lambda: of_paper(load("ijcnn1", data_dir)), 2),
        (lambda: of_paper(load("kdd99", data_dir)), 1),
        (lambda: of_part(covtype().split(50_000, 20_000)), 2),
    ]
    for case, per_gamma in cases:
        rows += _beside(case(), per_gamma, jobs)
        report.table(f"Search over C and gamma, {jobs} cores", COLUMNS, rows, NOTE, replace=True)


def _beside(problem: Problem, per_gamma: int, jobs: int) -> Iterator[list]:
    data = problem.data
    points = sampled(problem.grid, per_gamma)
    _warm_up(data, jobs)
    SVC, best_of_svc = _rival(problem, points, partial(rivals.svc), jobs, True)
    try:
        theirs, _ = _rival(problem, points, partial(rivals.intelex, n_jobs=jobs), 1, False)
    except MissingError:
        theirs = Sampled(np.nan, 0)
    for name, way in WAYS.items():
        model = AESVC(n_jobs=1, **way)
        started = time.perf_counter()
        search = AEGridSearchCV(
            model, problem.grid, cv=problem.folds, n_jobs=jobs, refit=False
        ).fit(data.X, data.y)
        seconds = time.perf_counter() - started
        plain, differs = _plain(problem, points, model, search, jobs)
        best = AESVC(n_jobs=jobs).set_params(**search.best_params_).fit(data.X, data.y)
        accuracy = best.score(data.X_test, data.y_test)
        yield [
            data.name,
            problem.n_fits,
            name,
            seconds,
            plain,
            plain / seconds,
            SVC.seconds,
            SVC.seconds / seconds,
            theirs.seconds,
            theirs.seconds / seconds,
            f"{len(points)}, {SVC.n_points}, {theirs.n_points}",
            differs,
            _named(search.best_params_),
            f"{100 * accuracy:.2f}",
            f"{100 * best_of_svc:.2f}",
        ]


def _warm_up(data: Dataset, jobs: int) -> None:
    """Start workers, and have them compile, or load what was compiled."""
    part = np.random.default_rng(0).permutation(len(data.y))[:2000]
    grid = {"C": [1.0], "gamma": [1.0, 2.0]}
    for way in WAYS.values():
        model = AESVC(n_jobs=1, **way)
        AEGridSearchCV(model, grid, cv=jobs, n_jobs=jobs).fit(data.X[part], data.y[part])


class Sampled(NamedTuple):
    """The seconds of a whole search, as a sample of its points has them."""

    seconds: float
    n_points: int


def _rival(
    problem: Problem, points: list[dict[str, float]], make: Any, at_a_time: int, refit: bool
) -> tuple[Sampled, float]:
    """Another SVM; and the test accuracy of the best of the points, fitted to all rows."""
    data, (train, test) = problem.data, _one_fold(problem)

    def tried(params: dict[str, float]) -> tuple[float, float]:
        started = time.perf_counter()
        model = make(**params).fit(data.X[train], data.y[train])
        model.score(data.X[test], data.y[test])
        seconds = time.perf_counter() - started
        return seconds, model.score(data.X_test, data.y_test) if refit else np.nan

    done: list[tuple[float, float]] = []
    seconds = 0.0
    with Parallel(n_jobs=at_a_time, prefer="threads") as parallel:
        for at in range(0, len(points), at_a_time):
            if seconds / at_a_time > LIMIT:
                break
            done += parallel(delayed(tried)(params) for params in points[at : at + at_a_time])
            seconds = sum(one for one, _ in done)
    whole = seconds / at_a_time / len(done) * problem.n_fits
    accuracy = np.nan
    if refit:
        best = points[int(np.argmax([accuracy for _, accuracy in done]))]
        accuracy = make(**best).fit(data.X, data.y).score(data.X_test, data.y_test)
    return Sampled(whole, len(done)), accuracy


def _plain(
    problem: Problem, points: list[dict[str, float]], model: AESVC, search: Any, jobs: int
) -> tuple[float, float]:
    """Seconds of a search whose fits share nothing; and how much scores of points differ."""
    grid = [{name: [value] for name, value in params.items()} for params in points]
    data, number = problem.data, len(problem.folds) // 2
    fold = [_one_fold(problem)]
    started = time.perf_counter()
    plain = GridSearchCV(model, grid, cv=fold, n_jobs=jobs, refit=False).fit(data.X, data.y)
    seconds = time.perf_counter() - started
    known = search.cv_results_
    scores = [
        known[f"split{number}_test_score"][known["params"].index(params)] for params in points
    ]
    differs = np.abs(np.array(scores) - plain.cv_results_["split0_test_score"]).max()
    return seconds / len(points) * problem.n_fits, float(differs)


def _one_fold(problem: Problem) -> tuple[NDArray, NDArray]:
    """The fold that samples of points are fitted to: the one in the middle."""
    return problem.folds[len(problem.folds) // 2]


def _named(params: dict[str, float]) -> str:
    return ", ".join(f"{name}={value:.3g}" for name, value in params.items())


def halving(
    report: Report, data_dir: Path | None, covtype: Callable[[], Dataset], jobs: int
) -> None:
    """Searches by halving, beside those over the whole grid."""
    cases: list[Callable[[], Problem]] = [
        lambda: of_paper(load("ijcnn1", data_dir)),
        lambda: of_paper(load("localization", data_dir).split(12_000)),
        lambda: of_part(covtype().split(50_000, 20_000)),
        lambda: of_part(load("a9a", data_dir)),
        lambda: of_paper(load("kdd99", data_dir)),
    ]
    rows: list[list] = []
    for case in cases:
        rows.extend(_halved(case(), jobs))
        report.table(
            f"Search by halving beside the whole grid, {jobs} cores",
            [
                "data",
                "candidates, folds",
                "resource",
                "candidates of each round",
                "seconds",
                "of the whole grid / these",
                "best point",
                "test accuracy %",
                "of the whole grid's %",
            ],
            rows,
            "The best point is fitted to all rows. AESVC is exact; hull_tol is 1e-3 at the end.",
            replace=True,
        )


def _halved(problem: Problem, jobs: int) -> Iterator[list]:
    data, model = problem.data, AESVC(n_jobs=1, refine="exact")
    _warm_up(data, jobs)

    def timed(search: Any) -> tuple[Any, float, float]:
        started = time.perf_counter()
        search.fit(data.X, data.y)
        seconds = time.perf_counter() - started
        best = AESVC(n_jobs=jobs, refine="exact").set_params(
            C=search.best_params_["C"], gamma=search.best_params_["gamma"]
        )
        return search, seconds, best.fit(data.X, data.y).score(data.X_test, data.y_test)

    common: dict[str, Any] = {"cv": problem.folds, "n_jobs": jobs, "refit": False}
    whole = timed(AEGridSearchCV(model, problem.grid, **common))
    k = len(problem.folds)
    start = [data.name, f"{problem.n_fits // k}, {k}"]
    yield [
        *start,
        "",
        "",
        whole[1],
        1.0,
        _named(whole[0].best_params_),
        *2 * [f"{100 * whole[2]:.2f}"],
    ]
    for resource in ("n_samples", "hull_tol"):
        search, seconds, accuracy = timed(
            AEHalvingGridSearchCV(model, problem.grid, resource=resource, random_state=0, **common)
        )
        best = {name: search.best_params_[name] for name in ("C", "gamma")}
        yield [
            *start,
            resource,
            ", ".join(map(str, search.n_candidates_)),
            seconds,
            whole[1] / seconds,
            _named(best),
            f"{100 * accuracy:.2f}",
            f"{100 * whole[2]:.2f}",
        ]
