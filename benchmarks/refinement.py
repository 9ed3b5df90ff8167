"""How close does each kind of refinement come to the exact SVM, and in what time?

``refinement``        every ``refine`` beside SVC and intelex, on twelve problems.
``exactness_growth``  covtype, more and more rows.
``regret``            "auto" beside what it chooses between, on problems of many kinds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks import limits, rivals
from benchmarks.datasets import FLIGHTS, Dataset
from benchmarks.few_vectors import warm_up
from benchmarks.report import Report, median_seconds, show

#: dataset, rows to train and test with where these are split off, and two pairs of C and gamma
PROBLEMS: tuple[tuple[str, tuple[int, int] | None, tuple[tuple[float, float], ...]], ...] = (
    ("ijcnn1", None, ((1.0, 1.0), (16.0, 1 / 4))),
    ("a9a", None, ((1.0, 1 / 16), (16.0, 1 / 64))),
    ("kdd99", None, ((1.0, 1.0), (16.0, 1 / 4))),
    ("covtype", (50_000, 20_000), ((1.0, 1.0), (16.0, 1 / 4))),
    ("w8a", (39_749, 10_000), ((1.0, 1 / 16), (16.0, 1 / 16))),
    ("mnist", (50_000, 10_000), ((1.0, 1 / 64), (16.0, 1 / 64))),
)

#: Rows of covtype, and the most that intelex, which is quadratic, is given.
SIZES, LARGEST = (50_000, 100_000, 200_000, 464_810), 200_000

#: What "auto" chooses between.
CHOICES: dict[str, dict[str, Any]] = {
    "exact": {"refine": "exact"},
    "refine=1": {"refine": 1},
    "max_vectors=2000": {"refine": "auto", "max_vectors": 2000},
}

#: Accuracies within this of the best are equal.
EQUAL = 0.001

#: Generated problems: rows, features, classes, the share of rows whose class is drawn at random.
GENERATED = (
    (100_000, 3, 2, 0.2),
    (200_000, 5, 2, 0.4),
    (100_000, 10, 2, 0.3),
    (300_000, 20, 2, 0.1),
    (100_000, 50, 2, 0.2),
    (100_000, 6, 4, 0.3),
    (100_000, 3, 10, 0.3),
    (120_000, 3, 22, 0.6),
    (100_000, 15, 25, 0.05),
    (1_000_000, 4, 2, 0.05),
)

#: Rows to test with, and the seeds that rows are generated with.
N_TEST, SEEDS = 20_000, (0, 1, 2)


def refinement(report: Report) -> None:
    lines: list[dict] = []
    for name, parts, settings in PROBLEMS:
        whole = report.data(name)
        data = whole if parts is None else whole.split(*parts)
        rivals.warm_up(data, report.jobs)
        for C, gamma in settings:
            lines += refined(data, C, gamma, report.jobs, report.repeats)
            report.table(
                f"Refinement, {report.jobs} threads, median of {report.repeats}",
                lines,
                "subsample: an exact SVM on as many random rows as refine=1 solves for, weight "
                "N/M. Gaps are computed after the fit, by certify(X, y).",
            )
    report.table("How many times faster, over these problems", speedups(lines))


def speedups(lines: list[dict]) -> list[dict]:
    """Geometric mean and least, over the problems, of rivals' seconds over ours."""
    seconds = pd.DataFrame(lines).pivot(
        index=["data", "C, gamma"], columns="program", values="seconds"
    )
    return [
        {
            "": f"{mode} against {rival}",
            "geometric mean": float(np.exp(np.log(seconds[rival] / seconds[mode]).mean())),
            "least": float((seconds[rival] / seconds[mode]).min()),
        }
        for mode in ("refine=auto", "refine=exact")
        for rival in ("SVC", "intelex")
    ]


def refined(data: Dataset, C: float, gamma: float, n_jobs: int, repeats: int) -> list[dict]:
    """The lines of a problem; the first is SVC's, whose labels the others are held against."""
    n, size = len(data.y), 0
    lines: list[dict] = []
    expected: NDArray | None = None

    def add(program: str, model: Any, seconds: float, share: float, gap: float | None) -> None:
        nonlocal expected
        predicted = model.predict(data.X_test)
        expected = predicted if expected is None else expected
        line = {
            "data": data.name,
            "C, gamma": f"{C:g}, {gamma:g}",
            "program": program,
            "seconds": seconds,
            "M/N %": 100 * share,
            "SVs": len(model.support_),
            "accuracy": float((predicted == data.y_test).mean()),
            "labels as SVC %": 100 * float((predicted == expected).mean()),
            "relative gap": gap,
        }
        lines.append(show(line))

    others = {"SVC": rivals.svc(C, gamma), "intelex": rivals.intelex(C, gamma, n_jobs)}
    for program, rival in others.items():
        seconds = median_seconds(partial(rival.fit, data.X, data.y))
        gap = rivals.relative_gap(rival, data.X, data.y, C, gamma, n_jobs)
        add(program, rival, seconds, 1.0, gap)
    for mode in (0, 1, 2, "auto", "exact"):
        model = rivals.ours(C, gamma, n_jobs, mode)
        seconds = median_seconds(partial(model.fit, data.X, data.y), repeats)
        known = model.certify(data.X, data.y)
        size = known.n_solved if mode == 1 else size
        add(f"refine={mode}", model, seconds, known.n_solved / n, known.relative_gap)
    sample = np.sort(np.random.default_rng(0).permutation(n)[:size])
    plain = rivals.ours(C, gamma, n_jobs, "exact")
    part, weights = (data.X[sample], data.y[sample]), np.full(size, n / size)
    seconds = median_seconds(partial(plain.fit, *part, sample_weight=weights), repeats)
    add("subsample", plain, seconds, size / n, None)
    return lines


def exactness_growth(report: Report) -> None:
    lines: list[dict] = []
    for size in SIZES:
        part = report.data("covtype").split(size, 100_000)
        rivals.warm_up(part, report.jobs)
        models: dict[str, Any] = {}
        if size <= LARGEST:
            models["intelex"] = rivals.intelex(1.0, 1.0, report.jobs)
            models["refine=exact"] = rivals.ours(1.0, 1.0, report.jobs, "exact")
        models["refine=auto"] = rivals.ours(1.0, 1.0, report.jobs, "auto")
        expected, slow = None, math.nan
        for program, model in models.items():
            seconds = median_seconds(partial(model.fit, part.X, part.y))
            labels = model.predict(part.X_test)
            if program == "intelex":
                expected, slow = labels, seconds
            known = getattr(model, "certificate_", None)
            line = {
                "rows": size,
                "program": program,
                "seconds": seconds,
                "times faster than intelex": slow / seconds,
                "M/N %": None if known is None else 100 * known.n_solved / size,
                "SVs": len(model.support_),
                "accuracy": float((labels == part.y_test).mean()),
                "labels as intelex %": None
                if expected is None
                else 100 * float((labels == expected).mean()),
            }
            lines.append(show(line))
        report.table(f"Growth on covtype, C=1, gamma=1, {report.jobs} threads, one run", lines)


class Problem(NamedTuple):
    """A dataset with test rows, and its parameters."""

    data: Dataset
    C: float
    gamma: float
    seed: int = 0


def noisy(n_rows: int, n_features: int, n_classes: int, noise: float, seed: int) -> Dataset:
    """Four Gaussians for each class, that overlap; of some rows the class is drawn at random.

    Examples
    --------
    >>> from benchmarks.refinement import noisy
    >>> noisy(1000, 3, 2, 0.1, seed=0).X.shape
    (1000, 3)
    """
    rng = np.random.default_rng(seed)
    total, n_centres = n_rows + N_TEST, 4 * n_classes
    centres = rng.uniform(size=(n_centres, n_features))
    which = rng.integers(n_centres, size=total)
    X = centres[which] + 0.3 / np.sqrt(n_features) * rng.normal(size=(total, n_features))
    drawn = rng.uniform(size=total) < noise
    y = np.where(drawn, rng.integers(n_classes, size=total), which % n_classes)
    name = f"{n_rows:,} x {n_features}, {n_classes} classes, {noise:.0%} noise"
    return Dataset(name, X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def _problems(report: Report) -> Iterator[Problem]:
    for seed in SEEDS:
        for size in GENERATED:
            data = noisy(*size, seed=seed)
            yield Problem(data, 1.0, 1.0 / (data.X.shape[1] * float(data.X.var())), seed)
    yield Problem(report.data("ijcnn1"), 1.0, 1.0)
    yield Problem(report.data("a9a"), 1.0, 1 / 16)
    yield Problem(report.data("w8a").split(39_749, 10_000), 1.0, 1 / 16)
    yield Problem(report.data("kdd99"), 1.0, 1.0)
    for n_rows in (50_000, 100_000):
        for C, gamma in ((1.0, 1.0), (16.0, 1 / 4)):
            yield Problem(report.data("covtype").split(n_rows, N_TEST), C, gamma)
    yield Problem(report.data("flights").first(100_000), *FLIGHTS)
    yield Problem(report.data("flights"), *FLIGHTS)


def regret(report: Report) -> None:
    lines: list[dict] = []
    for problem in _problems(report):
        warm_up(problem.data, report.jobs)
        lines += beside_choices(problem, report.jobs, report.repeats)
        report.table(
            f'"auto", {report.jobs} threads',
            lines,
            f"best of the others: the fastest whose accuracy is within {100 * EQUAL:g} point of "
            'the best of them. Where the exact SVM takes at most 2e10 kernel values, "auto" is '
            "exact, though others may be faster: it is SVC's own problem then.",
        )
    ratios = pd.DataFrame(lines)["auto's seconds / its"].dropna()
    summary = {"problems": len(ratios), "median": ratios.median(), "largest": ratios.max()}
    report.table('Seconds of "auto" over those of the best of the others', [summary])


def beside_choices(problem: Problem, n_jobs: int, repeats: int) -> list[dict]:
    """The lines of one problem."""
    data, C, gamma, seed = problem
    labels: dict[str, NDArray] = {}
    lines: dict[str, dict] = {}
    for program, parameters in {**CHOICES, "auto": {"refine": "auto"}}.items():
        model: Any = rivals.ours(C, gamma, n_jobs, **parameters)
        fit = partial(_fit, model, data)
        line = {"data": data.name, "C, gamma": f"{C:g}, {gamma:.3g}", "seed": seed}
        lines[program] = {**line, "program": program}
        why_not = limits.too_long(fit, len(data.y)) if program == "exact" else ""
        if why_not:
            lines[program]["what it was"] = why_not
            continue
        seconds = median_seconds(partial(fit, len(data.y)), repeats)
        labels[program] = model.predict(data.X_test)
        lines[program] |= {
            "seconds": seconds,
            "accuracy": float((labels[program] == data.y_test).mean()),
            "labels as exact %": 100 * float((labels[program] == labels["exact"]).mean())
            if "exact" in labels
            else None,
            "what it was": what_it_was(model),
        }
        show(lines[program])
    seconds_of = {name: lines[name]["seconds"] for name in labels}
    best, ratio = regretted(seconds_of, {name: lines[name]["accuracy"] for name in labels})
    lines["auto"] |= {"best of the others": best, "auto's seconds / its": ratio}
    return list(lines.values())


def _fit(model: Any, data: Dataset, n_rows: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X[:n_rows], data.y[:n_rows])


def regretted(seconds: dict[str, float], accuracy: dict[str, float]) -> tuple[str, float]:
    """The fastest of the others that are as accurate as the best, and auto's seconds over its.

    Examples
    --------
    >>> from benchmarks.refinement import regretted
    >>> regretted({"a": 2.0, "b": 1.0, "auto": 3.0}, {"a": 0.9, "b": 0.8, "auto": 0.9})
    ('a', 1.5)
    """
    others = [name for name in seconds if name != "auto"]
    least = max(accuracy[name] for name in others) - EQUAL
    good = [name for name in others if accuracy[name] >= least]
    best = min(good, key=lambda name: seconds[name])
    return best, seconds["auto"] / seconds[best]


def what_it_was(model: Any) -> str:
    """What a fit came to."""
    certificate = model.certificate_
    if certificate.exact:
        return "exact"
    if certificate.n_vectors is not None:
        return f"{certificate.n_vectors:,} vectors"
    return f"rounds: {certificate.rounds}"
