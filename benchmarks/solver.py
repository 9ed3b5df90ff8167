"""How fast are exact SVMs, and what do threads and classes make of it?

``solver``   the full problem, beside LIBSVM and scikit-learn-intelex.
``cores``    more and more threads, beside plain matrix products.
``classes``  many classes: a machine for every pair of them.
``family``   regression, nu and one class, beside scikit-learn's and intelex's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, RepresentativeSet
from aesvm.runtime.threads import Threads, one_blas_thread
from benchmarks import rivals
from benchmarks.datasets import Dataset
from benchmarks.report import Report, median_seconds, show
from benchmarks.rivals import CACHE, with_intelex

#: dataset, C and gamma of each problem
PROBLEMS = (
    ("ijcnn1", 1.0, 1.0),
    ("ijcnn1", 16.0, 1 / 4),
    ("a9a", 1.0, 1 / 16),
    ("covtype", 1.0, 1.0),
    ("covtype", 16.0, 4.0),
)

#: Numbers of threads that are tried, as far as there are cores; rows, C and gamma of their SVMs.
COUNTS = (1, 2, 4, 8, 16, 32, 64)
SOLVES = ((50_000, 1.0, 1.0), (50_000, 16.0, 0.25), (100_000, 1.0, 1.0), (100_000, 16.0, 0.25))

#: Shape and number of the products: lines, columns, features.
PRODUCT, TASKS = (4096, 2048, 64), 128

#: Name, classes, rows, features, and how far apart classes are.
CLASSES = (
    ("200 classes of 1 row", 200, 200, 5, 1.0),
    ("150 classes of 20 rows", 150, 3000, 5, 2.0),
    ("26 classes, as of letters", 26, 30_000, 16, 1.0),
)


def solver(report: Report) -> None:
    lines: list[dict] = []
    for name, C, gamma in PROBLEMS:
        data = report.data(name)
        data = data.split(50_000, 20_000) if name == "covtype" else data
        rivals.warm_up(data, report.jobs)
        theirs = rivals.svc(C, gamma)
        ours = rivals.ours(C, gamma, report.jobs, "exact")
        by_turns = [
            [
                median_seconds(partial(model.fit, data.X, data.y))
                for model in (rivals.intelex(C, gamma, report.jobs), ours)
            ]
            for _ in range(report.repeats)
        ]
        intelex_seconds, seconds = np.median(by_turns, axis=0).tolist()
        svc_seconds = median_seconds(partial(theirs.fit, data.X, data.y))
        best = rivals.dual_objective(theirs, gamma, report.jobs)
        found = rivals.dual_objective(ours, gamma, report.jobs)
        line = {
            "data": data.name,
            "C, gamma": f"{C:g}, {gamma:g}",
            "SVC s": svc_seconds,
            "intelex s": intelex_seconds,
            "ours s": seconds,
            "SVC / ours": svc_seconds / seconds,
            "ours / intelex": seconds / intelex_seconds,
            "our SVs": len(ours.support_),
            "SVC's": len(theirs.support_),
            "objective - SVC's, relative": (found - best) / abs(best),
            "accuracy": ours.score(data.X_test, data.y_test),
        }
        lines.append(show(line))
    means = np.exp(np.log(pd.DataFrame(lines)[["SVC / ours", "ours / intelex"]]).mean())
    report.table(
        f"The solver on the full problem, tol=1e-3, {report.jobs} threads (SVC has one), {CACHE} "
        f"MB of kernel rows (ours: the default), median of {report.repeats} (SVC: one run)",
        lines,
        f"Geometric means: {means.iloc[0]:.1f} times SVC's speed, {means.iloc[1]:.2f} of intelex's "
        "time.",
    )


def cores(report: Report) -> None:
    data = report.data("covtype")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    counts = [count for count in COUNTS if count <= (available or 1)]
    found: dict[str, list[float]] = {}
    for count in counts:
        for title, work in works(data, count).items():
            found.setdefault(title, []).append(median_seconds(work, report.repeats))
    lines = [
        {
            "what": title,
            "threads": count,
            "seconds": own,
            "speed-up": seconds[0] / own,
            "of matrix products": found["matrix products"][0] / product,
        }
        for title, seconds in found.items()
        for count, own, product in zip(counts, seconds, found["matrix products"], strict=True)
    ]
    report.table(
        f"Threads on {data.name}, {available} cores, median of {report.repeats}",
        lines,
        "Products of the shape that kernel values are made of are what the machine offers.",
    )


def works(data: Dataset, count: int) -> dict[str, Callable[[], object]]:
    """What is timed, by title, on so many threads."""
    found: dict[str, Callable[[], object]] = {
        "matrix products": partial(_multiply, *_operands(), count)
    }
    for n_rows, C, gamma in SOLVES:
        part = data.split(n_rows, 20_000)
        machine = AESVC(C=C, gamma=gamma, refine="exact", n_jobs=count)
        machine.fit(part.X[:3000], part.y[:3000])  # compiles
        title = f"exact SVM, {n_rows:,} rows, C={C:g}, gamma={gamma:g}"
        found[title] = partial(machine.fit, part.X, part.y)
    representatives = RepresentativeSet(gamma=1.0, n_jobs=count)
    representatives.fit(data.X[:3000], data.y[:3000])
    found[f"representatives of {len(data.y):,} rows"] = partial(representatives.fit, data.X, data.y)
    part = data.split(SOLVES[0][0], 20_000)
    model: Any = AESVC(gamma=1.0, refine="exact").fit(part.X[:20_000], part.y[:20_000])
    title = f"20,000 predictions of {len(model.support_):,} vectors"
    found[title] = partial(model.set_params(n_jobs=count).predict, part.X_test)
    return found


def _operands() -> tuple[NDArray, NDArray, list[NDArray]]:
    """What is multiplied, and where to: written to once, so that memory is there."""
    n_lines, n_columns, n_features = PRODUCT
    rng = np.random.default_rng(0)
    lines = rng.standard_normal((n_lines, n_features), dtype=np.float32)
    columns = rng.standard_normal((n_columns, n_features), dtype=np.float32)
    outs = [np.full((n_lines, n_columns), 1.0, dtype=np.float32) for _ in range(max(COUNTS))]
    return lines, columns, outs


def _multiply(lines: NDArray, columns: NDArray, outs: list[NDArray], count: int) -> None:
    def product(number: int) -> None:
        np.matmul(lines, columns.T, out=outs[number % len(outs)])

    with one_blas_thread(), Threads(count) as run:
        for _ in run(product, range(TASKS)):
            pass


def classes(report: Report) -> None:
    lines: list[dict] = []
    for name, n_classes, n_rows, n_features, spread in CLASSES:
        centers = spread * np.random.default_rng(0).normal(size=(n_classes, n_features))
        X, y = make_blobs(n_rows, centers=centers, random_state=0)
        gamma = 1.0 / n_features
        models = {
            "SVC": rivals.svc(1.0, gamma),
            "AESVC": rivals.ours(1.0, gamma, report.jobs, "auto"),
        }
        models["AESVC"].fit(X[:200], y[:200])  # compiles
        line: dict[str, Any] = {"data": name, "rows": len(y)}
        for program, model in models.items():
            line[f"{program} s"] = median_seconds(partial(model.fit, X, y), report.repeats)
            for work in (model.predict, model.decision_function):
                seconds = median_seconds(partial(work, X[:2000]), report.repeats)
                line[f"{program} {work.__name__}, 2,000 rows, s"] = seconds
        theirs, ours = (model.predict(X[:2000]) for model in models.values())
        lines.append(show({**line, "equal predictions": float((theirs == ours).mean())}))
    report.table(
        f"Many classes, C=1, gamma=1/features, {report.jobs} threads, warm, medians", lines
    )


class Race(NamedTuple):
    """An estimator of ours, and its rivals, each with the most rows that it is given."""

    data: Dataset
    title: str
    ours: Any
    rivals: dict[str, tuple[Any, int]]


def family(report: Report) -> None:
    lines: list[dict] = []
    for race in _races(report):
        lines += raced(race, report.repeats)
        report.table(
            f"The family beside scikit-learn and intelex, {report.jobs} threads",
            lines,
            "score: R² of regressions, ROC-AUC of one class, accuracy of classes. times faster: on "
            "as many rows. same predictions: labels, or values within 1e-2 of the standard "
            "deviation.",
        )


def raced(race: Race, repeats: int) -> Iterator[dict]:
    """A line for each rival."""
    data = race.data
    for n_rows in (500, 5000):  # compile, or load what was compiled
        race.ours.fit(data.X[:n_rows], data.y[:n_rows])
    seconds = median_seconds(partial(race.ours.fit, data.X, data.y), repeats)
    predicted, score = race.ours.predict(data.X_test), _score(race.ours, data)
    n_support, exact = int(race.ours.n_support_.sum()), race.ours.certificate_.exact
    for name, (rival, most) in race.rivals.items():
        part = data.first(min(len(data.y), most))
        its = median_seconds(partial(rival.fit, part.X, part.y))
        own = seconds
        if len(part.y) < len(data.y):
            own = median_seconds(partial(race.ours.fit, part.X, part.y), repeats)
        theirs = rival.predict(data.X_test)
        same = np.equal(predicted, theirs)
        if isinstance(race.ours, AESVR | AENuSVR):
            same = np.abs(predicted - theirs) <= 1e-2 * data.y.std()
        line = {
            "data": data.name,
            "estimator": race.title,
            "rows": len(data.y),
            "ours s": seconds,
            "SVs": n_support,
            "score": score,
            "exact": exact,
            "rival": name,
            "its rows": len(part.y),
            "its s": its,
            "times faster": its / own,
            "its score": _score(rival, data),
            "same predictions %": 100 * float(np.mean(same)),
        }
        yield show(line)


def _score(model: Any, data: Dataset) -> float:
    if hasattr(model, "score"):
        return float(model.score(data.X_test, data.y_test))
    return float(roc_auc_score(data.y_test, -model.decision_function(data.X_test)))


def smooth(n_rows: int, seed: int = 0) -> Dataset:
    """A smooth function of eight features, and noise; a tenth as many rows for testing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + n_rows // 10, 8))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=len(X))
    return Dataset("generated, noise 0.5", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def _races(report: Report) -> Iterator[Race]:
    jobs, every = report.jobs, 10**9
    theirs: dict[str, Any] = {"cache_size": CACHE}
    intel = with_intelex(jobs)
    for data in (report.data("kin40k"), report.data("california_housing"), smooth(100_000)):
        regressions = {"SVR": (svm.SVR(**theirs), 40_000), "intelex": (intel.SVR(**theirs), every)}
        yield Race(data, "AESVR exact", AESVR(refine="exact", n_jobs=jobs), regressions)
    auto = {"intelex": (intel.SVR(**theirs), every)}
    yield Race(smooth(200_000), 'AESVR "auto"', AESVR(n_jobs=jobs), auto)
    http = report.data("anom_http")
    order = np.random.default_rng(0).permutation(len(http.y))
    X, y = http.X[order], http.y[order]
    for nu, most in ((0.01, every), (0.1, 200_000)):
        one = {"OneClassSVM": (svm.OneClassSVM(nu=nu, **theirs), most)}
        data = Dataset(http.name, X, y, X[:100_000], y[:100_000])
        yield Race(data, f"AEOneClassSVM nu={nu}", AEOneClassSVM(nu=nu, n_jobs=jobs), one)
    same: dict[str, Any] = {"nu": 0.05, "gamma": 1.0}
    yield Race(
        report.data("ijcnn1"),
        "AENuSVC nu=0.05 exact",
        AENuSVC(refine="exact", n_jobs=jobs, **same),
        {"NuSVC": (svm.NuSVC(**same, **theirs), every)},
    )
    yield Race(
        report.data("kin40k"),
        "AENuSVR exact",
        AENuSVR(refine="exact", n_jobs=jobs),
        {"NuSVR": (svm.NuSVR(**theirs), every), "intelex": (intel.NuSVR(**theirs), every)},
    )
    for data, C, gamma in (
        (report.data("mnist_digits"), 10.0, 1 / 64),
        (report.data("covtype_7").split(100_000, 20_000), 1.0, 1.0),
    ):
        yield Race(
            data,
            f"AESVC exact, {len(np.unique(data.y))} classes",
            rivals.ours(C, gamma, jobs, "exact"),
            {
                "SVC": (rivals.svc(C, gamma), 60_000),
                "intelex": (rivals.intelex(C, gamma, jobs), every),
            },
        )
