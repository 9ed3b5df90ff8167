"""How fast is the rest of the family, and does it predict what scikit-learn's does?

Regression, the forms with nu, one class and many classes, beside scikit-learn and
scikit-learn-intelex. A rival that would take over ten minutes is given fewer rows, as the table
says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import svm
from sklearn.metrics import roc_auc_score

from aesvm import AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from benchmarks import other_datasets
from benchmarks.datasets import Dataset, load
from benchmarks.report import Report, median_seconds
from benchmarks.rivals import CACHE, intelex, ours, svc, with_intelex

#: Rows of the generated regressions, and the noise's standard deviation.
GENERATED, NOISE = 100_000, 0.5


class Race(NamedTuple):
    """An estimator of ours, and its rivals."""

    data: Dataset
    title: str
    ours: Any
    rivals: dict[str, Callable[[], Any]]
    score: Callable[[Any, Dataset], float]
    most_rows: dict[str, int]  #: that a rival is given, where it cannot have all


def run(report: Report, data_dir: Path | None, n_jobs: int, repeats: int) -> None:
    """Every race of the family, one after the other."""
    rows = []
    for race in (
        *_regressions(data_dir, n_jobs),
        *_one_class(data_dir, n_jobs),
        *_nu(data_dir, n_jobs),
        *_classes(data_dir, n_jobs),
    ):
        rows += _run(race, repeats)
    report.table(
        f"The family, {n_jobs} threads, X to model, median of {repeats} (rivals: one run)",
        [
            "data",
            "estimator",
            "rows",
            "ours s",
            "SVs",
            "score",
            "exact",
            "rival",
            "its rows",
            "its s",
            "times faster",
            "its score",
            "same predictions %",
        ],
        rows,
        "score: R² of regressions, ROC-AUC of one class, accuracy of classes. times faster: on as "
        "many rows. same predictions: labels, or values within 1e-2 of the standard deviation.",
    )


def _run(race: Race, repeats: int) -> list[list]:
    data = race.data
    _warm_up(race)
    seconds = median_seconds(lambda: race.ours.fit(data.X, data.y), repeats)
    rows = []
    for name, make in race.rivals.items():
        n_rows = min(len(data.y), race.most_rows.get(name, len(data.y)))
        X, y = data.X[:n_rows], data.y[:n_rows]
        rival, own, own_seconds = make(), race.ours, seconds
        started = time.perf_counter()
        rival.fit(X, y)
        its = time.perf_counter() - started
        if n_rows < len(data.y):
            own_seconds = median_seconds(partial(race.ours.fit, X, y), repeats)
        rows.append(
            [
                data.name,
                race.title,
                len(data.y),
                seconds,
                int(own.n_support_.sum()),
                race.score(own, data),
                own.certificate_.exact,
                name,
                n_rows,
                its,
                its / own_seconds,
                race.score(rival, data),
                100 * _agreement(own, rival, data),
            ]
        )
        if n_rows < len(data.y):
            race.ours.fit(data.X, data.y)
    return rows


def _warm_up(race: Race) -> None:
    """Compile, or load what was compiled."""
    for rows in (500, 5000):
        race.ours.fit(race.data.X[:rows], race.data.y[:rows])


def _agreement(one: Any, other: Any, data: Dataset) -> float:
    first, second = one.predict(data.X_test), other.predict(data.X_test)
    if isinstance(one, AESVR | AENuSVR):
        return float(np.mean(np.abs(first - second) <= 1e-2 * data.y.std()))
    return float(np.mean(first == second))


def _r2_or_accuracy(model: Any, data: Dataset) -> float:
    return model.score(data.X_test, data.y_test)


def generated(n_rows: int, seed: int = 0) -> Dataset:
    """A smooth function of eight features, and noise; a tenth as many rows for testing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + n_rows // 10, 8))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + NOISE * rng.normal(size=len(X))
    return Dataset(f"generated, noise {NOISE}", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def _regressions(data_dir: Path | None, n_jobs: int) -> list[Race]:
    races = []
    for data in (
        other_datasets.load("kin40k", data_dir),
        other_datasets.load("california_housing", data_dir),
        generated(GENERATED),
    ):
        rivals = {
            "SVR": lambda: svm.SVR(cache_size=CACHE),
            "intelex": lambda: with_intelex(n_jobs).SVR(cache_size=CACHE),
        }
        most = {"SVR": 40_000}
        model = AESVR(refine="exact", n_jobs=n_jobs)
        races.append(Race(data, "AESVR exact", model, rivals, _r2_or_accuracy, most))
    auto = AESVR(n_jobs=n_jobs)
    rivals = {"intelex": lambda: with_intelex(n_jobs).SVR(cache_size=CACHE)}
    races.append(Race(generated(2 * GENERATED), 'AESVR "auto"', auto, rivals, _r2_or_accuracy, {}))
    return races


def _one_class(data_dir: Path | None, n_jobs: int) -> list[Race]:
    data = load("anom_http", data_dir)
    order = np.random.default_rng(0).permutation(len(data.y))
    data = Dataset(data.name, data.X[order], data.y[order], data.X[order], data.y[order])

    def score(model: Any, data: Dataset) -> float:
        assert data.X_test is not None
        values: NDArray = model.decision_function(data.X_test[:100_000])
        return float(roc_auc_score(data.y_test[:100_000], -values))  # type: ignore[index]

    return [
        Race(
            data,
            f"AEOneClassSVM nu={nu}",
            AEOneClassSVM(nu=nu, n_jobs=n_jobs),
            {"OneClassSVM": partial(svm.OneClassSVM, nu=nu, cache_size=CACHE)},
            score,
            {"OneClassSVM": most},
        )
        for nu, most in ((0.01, len(data.y)), (0.1, 200_000))
    ]


def _nu(data_dir: Path | None, n_jobs: int) -> list[Race]:
    return [
        Race(
            load("ijcnn1", data_dir),
            "AENuSVC nu=0.05 exact",
            AENuSVC(nu=0.05, gamma=1.0, refine="exact", n_jobs=n_jobs),
            {"NuSVC": lambda: svm.NuSVC(nu=0.05, gamma=1.0, cache_size=CACHE)},
            _r2_or_accuracy,
            {},
        ),
        Race(
            other_datasets.load("kin40k", data_dir),
            "AENuSVR exact",
            AENuSVR(refine="exact", n_jobs=n_jobs),
            {
                "NuSVR": lambda: svm.NuSVR(cache_size=CACHE),
                "intelex": lambda: with_intelex(n_jobs).NuSVR(cache_size=CACHE),
            },
            _r2_or_accuracy,
            {},
        ),
    ]


def _classes(data_dir: Path | None, n_jobs: int) -> list[Race]:
    races = []
    for data, C, gamma in (
        (other_datasets.load("mnist_digits", data_dir), 10.0, 1 / 64),
        (other_datasets.load("covtype_7", data_dir).split(100_000, 20_000), 1.0, 1.0),
    ):
        races.append(
            Race(
                data,
                f"AESVC exact, {len(np.unique(data.y))} classes",
                ours(C, gamma, n_jobs, "exact"),
                {
                    "SVC": partial(svc, C, gamma),
                    "intelex": partial(intelex, C, gamma, n_jobs),
                },
                _r2_or_accuracy,
                {"SVC": 60_000},
            )
        )
    return races
