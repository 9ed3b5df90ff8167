"""How long does a search take whose fits share their work? Beside searches whose fits do not."""

from __future__ import annotations

import os
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
from benchmarks import processes, rivals
from benchmarks.datasets import Dataset, MissingError, folds, load
from benchmarks.report import Report

#: The ways of training that are searched with.
WAYS: dict[str, dict[str, Any]] = {
    "exact": {"refine": "exact"},
    "refine=0": {"refine": 0, "hull_tol": 1e-3},
}

#: Processor seconds after which a rival is given no more points; and where a single fold is
#: searched.
LIMIT, LIMIT_OF_FOLD = 300.0, 120.0

#: What a search over 500,000 rows may take, in GiB.
BUDGET_GIB = 4.0

COLUMNS = [
    "data",
    "fits",
    "AESVC",
    "AEGridSearchCV, processor s",
    "wall s",
    "GridSearchCV(AESVC), processor s",
    "times",
    "SVC",
    "OTS of SVC",
    "intelex",
    "OTS of intelex",
    "points of GridSearchCV, SVC, intelex",
    "largest difference of a score",
    "best point",
    "test accuracy %",
    "of SVC at its best point %",
    "most of SVC's points %",
]

NOTE = (
    "Seconds are those of processors, all threads and processes together: on an idle machine with "
    "so many cores, these over the cores pass. Of programs beside AEGridSearchCV a sample of "
    "points is fitted and scored, all on one fold: as many for each gamma, with values of C that "
    "are spread over the grid; the seconds of all points are these times points and folds over the "
    "sample. AEGridSearchCV, GridSearchCV and SVC have one thread for each of so many fits at a "
    "time, intelex all threads for one fit. The largest difference of a score is that to "
    "GridSearchCV at the sampled points. SVC's best point is that of the highest score on the "
    "fold; its test accuracies are those of models of the fold's training rows."
)

NOTE_OF_FOLD = (
    " All searches are of the fold in the middle, with the gammas of a sample, and the seconds of "
    "all folds and gammas are these times their number; the best point is that of this fold."
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
    for case, per_gamma, _ in _cases(data_dir, covtype).values():
        rows += _beside(case(), per_gamma, jobs)
        report.table(f"Search over C and gamma, {jobs} cores", COLUMNS, rows, NOTE, replace=True)


def of_fold(
    report: Report,
    name: str,
    data_dir: Path | None,
    covtype: Callable[[], Dataset],
    jobs: int,
) -> None:
    """The same of one dataset, on one of its folds: minutes rather than an hour."""
    case, _, every = _cases(data_dir, covtype)[name]
    problem = case()
    gammas = problem.grid["gamma"][::every]
    rows: list[list] = []
    for row in _beside(problem, 1, jobs, gammas):
        rows.append(row)
        report.table(
            f"Search over C and gamma, {name}, one fold, {len(gammas)} gammas, {jobs} cores",
            COLUMNS,
            rows,
            NOTE + NOTE_OF_FOLD,
            replace=True,
        )


def _cases(
    data_dir: Path | None, covtype: Callable[[], Dataset]
) -> dict[str, tuple[Callable[[], Problem], int, int]]:
    """Problems; the points of each gamma that programs beside AEGridSearchCV are given.

    And of one fold, which gammas are searched: the first, and each so many later.
    """
    return {
        "ijcnn1": (lambda: of_paper(load("ijcnn1", data_dir)), 2, 1),
        "kdd99": (lambda: of_paper(load("kdd99", data_dir)), 1, 3),
        "covtype": (lambda: of_part(covtype().split(50_000, 20_000)), 2, 2),
    }


def _beside(
    problem: Problem, per_gamma: int, jobs: int, gammas: list[float] | None = None
) -> Iterator[list]:
    """All ways, beside the others; with ``gammas``, these alone on one fold."""
    data = problem.data
    grid, searched, limit = problem.grid, problem.folds, LIMIT
    if gammas is not None:
        grid = {**grid, "gamma": gammas}
        searched, limit = [_one_fold(problem)], LIMIT_OF_FOLD
    points = sampled(grid, per_gamma)
    more = problem.n_fits / (len(searched) * len(grid["C"]) * len(grid["gamma"]))
    _warm_up(data, jobs)
    found: list[tuple[Any, list]] = []
    for name, way in WAYS.items():
        model = AESVC(n_jobs=1, **way)
        search = AEGridSearchCV(model, grid, cv=searched, n_jobs=jobs, refit=False)
        seconds, wall = _spent(partial(search.fit, data.X, data.y))
        plain, differs = _plain(problem, points, model, search, len(searched) // 2, jobs)
        found.append((search, [name, more * seconds, more * wall, plain, differs]))
    SVC = _rival(problem, points, rivals.svc, jobs, limit)
    try:
        theirs = _rival(problem, points, partial(rivals.intelex, n_jobs=jobs), 1, limit)
    except MissingError:
        theirs = Sampled(np.nan, [])
    for search, (name, seconds, wall, plain, differs) in found:
        best = AESVC(n_jobs=jobs).set_params(**search.best_params_).fit(data.X, data.y)
        accuracies = [best.score(data.X_test, data.y_test), SVC.at_best, SVC.highest]
        yield [
            data.name,
            problem.n_fits,
            name,
            seconds,
            wall,
            plain,
            plain / seconds,
            SVC.seconds,
            SVC.seconds / seconds,
            theirs.seconds,
            theirs.seconds / seconds,
            f"{len(points)}, {len(SVC.tried)}, {len(theirs.tried)}",
            differs,
            _named(search.best_params_),
            *(f"{100 * accuracy:.2f}" for accuracy in accuracies),
        ]


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

    @property
    def highest(self) -> float:
        return max((accuracy for _, accuracy in self.tried), default=np.nan)


def _rival(
    problem: Problem,
    points: list[dict[str, float]],
    make: Callable[..., Any],
    at_a_time: int,
    limit: float,
) -> Sampled:
    """Another SVM, at as many of the points as there is time for."""
    data, (train, test) = problem.data, _one_fold(problem)
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
        while len(models) < len(points) and seconds < limit:
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
    number: int,
    jobs: int,
) -> tuple[float, float]:
    """Seconds of a search whose fits share nothing; and how much scores of points differ.

    ``number``: which of the search's folds is the one of the points.
    """
    grid = [{name: [value] for name, value in params.items()} for params in points]
    data = problem.data
    fold = [_one_fold(problem)]
    plain = GridSearchCV(model, grid, cv=fold, n_jobs=jobs, refit=False)
    seconds, _ = _spent(lambda: plain.fit(data.X, data.y))
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


def large(report: Report, covtype: Callable[[], Dataset], jobs: int) -> None:
    """A search over many rows, and the memory that it takes."""
    data = covtype().split(500_000, 20_000)
    grid = {
        name: [float(value) for value in np.geomspace(min(values), max(values), 4)]
        for name, values in paper_grid().items()
    }
    model = AESVC(n_jobs=1, refine=0)
    middle = folds(len(data.y), 3)[1:2]
    search = AEGridSearchCV(model, grid, cv=middle, n_jobs=jobs, refit=False)
    _warm_up(data, jobs)
    before = processes.memory(os.getpid())
    with processes.Watch(os.getpid()) as watch:
        seconds, wall = _spent(lambda: search.fit(data.X, data.y))
    report.table(
        f"Search over {len(data.y):,} rows, refine=0, {jobs} processes",
        ["data", "fits", "X, GiB", "before, GiB", "peak, GiB", "processor s", "wall s", "best"],
        [
            [
                data.name,
                len(grid["C"]) * len(grid["gamma"]),
                data.X.nbytes / 2**30,
                before / 2**30,
                watch.peak / 2**30,
                seconds,
                wall,
                _named(search.best_params_),
            ]
        ],
        "Anonymous memory of the process and those it starts, all together; rows that these read "
        f"from a memory map are not in it. Budget: {BUDGET_GIB:g} GiB. hull_tol is its default. "
        "One of three folds, that in the middle: they are alike.",
    )


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
                "processor s",
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
        seconds, _ = _spent(lambda: search.fit(data.X, data.y))
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
