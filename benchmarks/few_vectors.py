"""SVMs on few vectors: seconds, and how near they come to the exact one.

``basis``         ``max_vectors`` and "auto" beside the exact SVM, with more and more rows.
``basis_rivals``  beside other methods with as many vectors, or in as many seconds.
``compress``      trained models on a tenth and a twentieth of their vectors.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm import AESVR
from benchmarks import limits, rivals
from benchmarks.datasets import FLIGHTS, SEED, Dataset
from benchmarks.limits import Fitted
from benchmarks.report import Report, median_seconds, show
from experiments.rivals import CPSP, NystroemSVM, RandomFeatureSVM, SubsampleSVM

#: Vectors of ``basis`` and of ``basis_rivals``, and what ``compress`` keeps.
GROWING, BESIDE_RIVALS, SHARES = 2000, 1000, (0.1, 0.05)

#: The largest problem that intelex, which is quadratic, is given.
LARGEST_OF_INTELEX = 200_000

#: Between these the tolerance of representative sets is looked for.
FINEST, COARSEST = 1e-5, 2.0

#: Basis vectors of CPSP from which on its seconds are estimated first.
LEAST_BASIS = 50

#: Rival(C, gamma, size, n_jobs), by name; LIBLINEAR minimises the hinge loss of features.
RIVALS: dict[str, Callable[[float, float, int, int], Any]] = {
    "Nystroem + LinearSVC": lambda C, gamma, size, _: _features(NystroemSVM, C, gamma, size),
    "random features + LinearSVC": lambda C, gamma, size, _: _features(
        RandomFeatureSVM, C, gamma, size
    ),
    "CPSP": lambda C, gamma, size, n_jobs: CPSP(
        C=C, gamma=gamma, n_basis=size, random_state=0, n_jobs=n_jobs
    ),
    "random rows": lambda C, gamma, size, n_jobs: SubsampleSVM(
        C=C, gamma=gamma, sample_size=size, random_state=0, n_jobs=n_jobs
    ),
}


def _features(kind: Any, C: float, gamma: float, size: int) -> Any:
    return kind(C=C, gamma=gamma, n_components=size, loss="hinge", max_iter=10_000, random_state=0)


class Problem(NamedTuple):
    """A dataset with test rows, and an estimator that is trained exactly."""

    data: Dataset
    exact: Any


def basis(report: Report) -> None:
    lines: list[dict] = []
    for data, C, gamma in _growing(report):
        lines += in_basis(data, C, gamma, report.jobs)
        report.table(
            f"On few vectors, {report.jobs} threads, one run",
            lines,
            "Labels as exact: of test rows. Gaps are shares of the objective: estimated by fit, "
            "with two standard errors, or proven.",
        )


def _growing(report: Report) -> Iterator[tuple[Dataset, float, float]]:
    for n_rows in (50_000, 100_000, 200_000, 464_000):
        yield report.data("covtype").in_order(SEED, n_rows, 20_000), 1.0, 1.0
    for gamma in (1 / 4, 4.0):
        yield report.data("covtype").split(50_000, 20_000), 16.0, gamma
    for n_rows in (100_000, 255_847):
        yield report.data("flights").first(n_rows), *FLIGHTS
    for n_rows in (100_000, 300_000, 1_000_000):
        yield flipped(n_rows, 20_000), 1.0, 0.1


def flipped(n_rows: int, n_test: int, seed: int = 0) -> Dataset:
    """Normal rows in two classes with a smooth border; a tenth of the labels are flipped."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows + n_test, 10), dtype=np.float32)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] > 0.0
    y = (y ^ (rng.random(len(y)) < 0.1)).astype(np.int8)
    return Dataset("generated", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def in_basis(
    data: Dataset, C: float, gamma: float, n_jobs: int, n_vectors: int = GROWING
) -> list[dict]:
    """The lines of a problem: exact and intelex where they end in time, and ours."""
    warm_up(data, n_jobs)
    ours = partial(rivals.ours, C, gamma, n_jobs)
    programs: dict[str, Callable[[], Any]] = {
        "exact": partial(ours, "exact"),
        "intelex": partial(rivals.intelex, C, gamma, n_jobs),
        '"auto"': partial(ours, "auto"),
        f"max_vectors={n_vectors}": partial(ours, "auto", max_vectors=n_vectors),
        "refine=1": partial(ours, 1),
    }
    if len(data.y) > LARGEST_OF_INTELEX:
        del programs["intelex"]
    lines: list[dict] = []
    labels = None
    for program, make in programs.items():
        start = {"data": data.name, "rows": len(data.y), "C, gamma": f"{C:g}, {gamma:.4g}"}
        why_not = ""
        if program in ("exact", "intelex", "refine=1"):
            why_not = limits.too_long(partial(_fit_first, make, data), len(data.y))
        if why_not:
            lines.append(show({**start, "program": program, "remark": why_not}))
            continue
        found = fitted(make(), data)
        if program == "exact":
            labels = found.model.predict(data.X_test)
        known = getattr(found.model, "certificate_", None)
        lines.append(
            show(
                {
                    **start,
                    "program": program,
                    **scores(found, data, labels),
                    "gap estimated %": _percent(known and known.estimated_gap),
                    "±": _percent(known and known.estimated_gap_error),
                    "gap proven %": _percent(
                        known.relative_gap if known and known.proven else None
                    ),
                    "remark": "exact" if known and known.exact else "",
                }
            )
        )
    return lines


def _fit_first(make: Callable[[], Any], data: Dataset, n_rows: int) -> None:
    make().fit(data.X[:n_rows], data.y[:n_rows])


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def scores(found: Fitted, data: Dataset, labels: NDArray | None = None) -> dict:
    """What every table says of a model; ``labels``: those of the exact one, on test rows."""
    predicted = found.model.predict(data.X_test)
    score = found.model.score(data.X_test, data.y_test)
    same = None if labels is None else 100.0 * float(np.mean(predicted == labels))
    return {
        "seconds": found.seconds,
        "vectors": found.n_vectors,
        "accuracy or R²": round(float(score), 4),
        "labels as exact %": same if hasattr(found.model, "classes_") else None,
    }


def basis_rivals(report: Report) -> None:
    lines: list[dict] = []
    for data, C, gamma in (
        (report.data("ijcnn1"), 1.0, 1.0),
        (report.data("covtype").split(50_000, 20_000), 1.0, 1.0),
        (report.data("a9a"), 1.0, 1 / 16),
        (report.data("w8a").split(39_749, 10_000), 1.0, 1 / 16),
        (report.data("kdd99"), 1.0, 1 / 4),
        (report.data("flights").first(50_000), *FLIGHTS),
    ):
        lines += beside_rivals(data, C, gamma, report.jobs, BESIDE_RIVALS)
        report.table(
            f"On {BESIDE_RIVALS:,} vectors, beside others, {report.jobs} threads, one run",
            lines,
            "Size: vectors of a basis, features, or rows drawn. Equal seconds: the largest size, "
            "of those twice as large as the one before, that takes no longer than ours.",
        )


def beside_rivals(data: Dataset, C: float, gamma: float, n_jobs: int, n_vectors: int) -> list[dict]:
    """The lines of a problem: exact, ours, and each rival twice."""
    warm_up(data, n_jobs)
    exact = fitted(rivals.ours(C, gamma, n_jobs, "exact"), data)
    labels = exact.model.predict(data.X_test)
    lines: list[dict] = []

    def add(program: str, at: str, size: int | None, found: Fitted) -> None:
        start = {"data": data.name, "rows": len(data.y), "program": program}
        rest = {"compared at": at, "size": size, **scores(found, data, labels)}
        lines.append(show({**start, **rest}))

    add("exact", "", None, exact)
    ours = fitted(rivals.ours(C, gamma, n_jobs, "auto", max_vectors=n_vectors), data)
    add("ours", "", n_vectors, ours)
    for program, make in RIVALS.items():

        def fit(size: int, make: Callable[..., Any] = make) -> Fitted:
            return fitted(make(C, gamma, size, n_jobs), data)

        fitted(make(C, gamma, 64, n_jobs), data.first(2000))  # compiles
        if program == "random rows":
            equal = random_rows(Problem(data, exact.model), n_jobs, n_vectors)
            add(program, "equal vectors", equal.model.sample_size, equal)
        else:
            add(program, "equal vectors", n_vectors, fit(n_vectors))
        add(program, "equal seconds", *limits.largest(fit, ours.seconds, len(data.y)))
    return lines


def compress(report: Report) -> None:
    exact = partial(rivals.ours, n_jobs=report.jobs, refine="exact")
    lines: list[dict] = []
    for problem in (
        Problem(report.data("ijcnn1"), exact(1.0, 1.0)),
        Problem(report.data("covtype").split(100_000, 20_000), exact(1.0, 1.0)),
        Problem(report.data("kdd99"), exact(1.0, 1 / 4)),
        Problem(report.data("mnist"), exact(10.0, 1 / 64)),
        Problem(report.data("mnist_digits"), exact(10.0, 1 / 64)),
        Problem(report.data("california_housing"), AESVR(refine="exact", n_jobs=report.jobs)),
    ):
        lines += compressed(problem, report.jobs, report.repeats)
        report.table(
            f"Compressed models, {report.jobs} threads, one run",
            lines,
            "Of compress, seconds come on top of the exact fit. The others are trained to have as "
            "many vectors, within 3 % where that can be had. Changes are those of decision values "
            "(of any pair of classes) or predictions, on test rows.",
        )


def compressed(
    problem: Problem, n_jobs: int, repeats: int, shares: tuple[float, ...] = SHARES
) -> list[dict]:
    """The lines of a problem: exact, and for each share compress and the others."""
    data, exact = problem
    for n_rows in (500, 5000):  # compile, or load what was compiled
        type(exact)(**exact.get_params()).fit(*data.first(n_rows)[1:3]).compress(5)
    full = fitted(exact, data)
    labels, values = exact.predict(data.X_test), decision_values(exact, data.X_test)
    lines: list[dict] = []

    def add(program: str, found: Fitted, **others: Any) -> None:
        seconds = median_seconds(partial(found.model.predict, data.X_test), repeats)
        line = {"data": data.name, "rows": len(data.y), "program": program}
        line |= scores(found, data, labels)
        line["predictions/s"] = round(len(labels) / seconds)
        lines.append(show({**line, **others}))

    add("exact", full)
    for share in shares:
        wanted = max(1, round(share * full.n_vectors))
        started = time.perf_counter()
        small = exact.compress(wanted)
        seconds = time.perf_counter() - started
        kept = small.compression_.n_vectors
        change = np.abs(decision_values(small, data.X_test) - values)
        add(
            f"compress to {share:.0%}",
            Fitted(small, seconds, kept),
            **{"bound on changes": small.compression_.bound, "largest change": change.max()},
        )
        add(f"random rows, {share:.0%}", random_rows(problem, n_jobs, kept))
        add(f"refine=0, {share:.0%}", coarse(problem, kept))
        if hasattr(exact, "classes_"):
            own = max(1, kept // (1 if len(exact.classes_) == 2 else len(exact.classes_)))

            def cpsp(size: int) -> Fitted:
                return fitted(RIVALS["CPSP"](exact.C, exact.gamma_, max(1, size), n_jobs), data)

            why_not = limits.too_long(cpsp, own, LEAST_BASIS)
            if not why_not:
                add(f"CPSP, {share:.0%}", cpsp(own))
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


def random_rows(problem: Problem, n_jobs: int, n_vectors: int) -> Fitted:
    """The exact SVM of so many random rows that it has so many vectors."""
    data, exact = problem
    n = len(data.y)
    order = np.random.default_rng(0).permutation(n)

    def fit(size: float) -> Fitted:
        if hasattr(exact, "classes_"):
            return fitted(RIVALS["random rows"](exact.C, exact.gamma_, round(size), n_jobs), data)
        rows = np.sort(order[: round(size)])
        model = AESVR(C=exact.C, gamma=exact.gamma_, epsilon=exact.epsilon, refine="exact")
        part = data._replace(X=data.X[rows], y=data.y[rows])
        return fitted(model, part, sample_weight=np.full(len(rows), n / len(rows)))

    return limits.bisected(fit, min(n_vectors, n), n, n_vectors)


def coarse(problem: Problem, n_vectors: int) -> Fitted:
    """The SVM of a representative set that is coarse enough to have so many vectors."""
    data, exact = problem

    def fit(finesse: float) -> Fitted:
        params = {**exact.get_params(), "refine": 0, "hull_tol": 1.0 / finesse}
        return fitted(type(exact)(**params), data)

    return limits.bisected(fit, 1.0 / COARSEST, 1.0 / FINEST, n_vectors)


def fitted(model: Any, data: Dataset, **others: Any) -> Fitted:
    """Train; the vectors are those of the expansion, or features of a linear SVM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large gaps, and of LIBLINEAR's passes
        seconds = median_seconds(partial(model.fit, data.X, data.y, **others))
    if hasattr(model, "support_"):
        return Fitted(model, seconds, len(model.support_))
    own = model.n_basis_ if hasattr(model, "n_basis_") else model.n_components
    return Fitted(model, seconds, own)


def warm_up(data: Dataset, n_jobs: int) -> None:
    """Compile, or load what was compiled."""
    rivals.warm_up(data, n_jobs)
    part = data.first(5000)
    if len(np.unique(part.y)) > 1:
        rivals.ours(1.0, 1.0, n_jobs, "auto", max_vectors=100).fit(part.X, part.y)
