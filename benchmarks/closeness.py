"""Are statements of closeness true? Those of models on few vectors, beside the exact SVM.

A model with ``max_vectors`` says that its objective is at most so much above the exact SVM's. Here
its objective over all rows is computed anew in double precision, and compared with the dual
objective of ``refine="exact"`` at a tight ``tol``, which the optimum is not below.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import make_classification, make_friedman1
from sklearn.preprocessing import scale

from aesvm import AESVC, AESVR
from benchmarks import other_datasets
from benchmarks.datasets import load
from benchmarks.report import Report, median_seconds, show

#: The vectors that models may have, and their budgets.
VECTORS, BUDGETS = (200, 800), (None, "20 MB")

#: Rows of a problem, at most, and the tolerance of the exact SVM.
ROWS, TOL = 30_000, 1e-5

#: Rows whose kernel values are computed at a time.
_BLOCK = 4096


class Problem(NamedTuple):
    """Rows, targets, and what they are learned with."""

    name: str
    X: NDArray
    y: NDArray
    estimator: Any


def closeness(report: Report) -> None:
    lines = [
        show(line)
        for problem in problems(report.data_dir)
        for line in compared(problem, report.jobs)
    ]
    table = pd.DataFrame(lines)
    report.table(
        f"Statements of closeness, {report.jobs} threads",
        lines,
        f"{table['holds'].sum()} of {len(lines)} bounds hold; the median is "
        f"{table['times the truth'].median():.2f} times the truth. At most: "
        "what the certificate of fit says, its sampling error included. Truly: the objective over "
        f'all rows in double precision, above the dual objective of refine="exact", tol={TOL:g}.',
    )


def problems(data_dir: Path | None, n_rows: int = ROWS) -> Iterator[Problem]:
    """Generated ones, and where there is a folder real ones."""
    for seed, (n_features, flipped, C) in enumerate(
        [(8, 0.1, 1.0), (8, 0.3, 1.0), (4, 0.2, 10.0), (20, 0.1, 1.0), (8, 0.1, 0.1)]
    ):
        X, y = make_classification(
            n_rows,
            n_features,
            n_informative=n_features // 2 + 1,
            n_redundant=1,
            flip_y=flipped,
            random_state=seed,
        )
        name = f"generated, {n_features} features, {flipped:.0%} flipped"
        yield Problem(name, X, y, AESVC(C=C))
    for seed, (n_features, noise, C) in enumerate([(5, 1.0, 1.0), (10, 0.3, 1.0), (10, 1.0, 10.0)]):
        X, y = make_friedman1(n_rows, n_features, noise=noise * 5.0, random_state=seed)
        name = f"generated, {n_features} features, noise {noise:g}"
        yield Problem(name, scale(X), scale(y), AESVR(C=C))
    # more rows than vectors are chosen by where there is no room for kernel values
    n_many = 7 * n_rows // 2
    X, y = make_classification(
        n_many, 8, n_informative=5, n_redundant=1, flip_y=0.1, random_state=0
    )
    yield Problem("generated, 8 features, 10% flipped", X, y, AESVC())
    if data_dir is None:
        return
    for name, parameters in {
        "covtype": {"C": 1.0, "gamma": 1.0},
        "ijcnn1": {"C": 1.0, "gamma": 1.0},
        "flights": {},
        "heart2020": {},
    }.items():
        known = name in other_datasets.OTHERS
        found = other_datasets.load(name, data_dir) if known else load(name, data_dir)
        chosen = np.random.default_rng(0).permutation(len(found.y))[:n_rows]
        yield Problem(
            found.name, found.X[chosen], found.y[chosen], AESVC().set_params(**parameters)
        )
    for name in ("kin40k", "california_housing"):
        found = other_datasets.load(name, data_dir)
        yield Problem(found.name, found.X[:n_rows], found.y[:n_rows], AESVR())


def compared(problem: Problem, n_jobs: int) -> list[dict]:
    """A line for each number of vectors and budget."""
    exact = type(problem.estimator)(**problem.estimator.get_params())
    exact.set_params(refine="exact", tol=TOL, n_jobs=n_jobs).fit(problem.X, problem.y)
    optimum = exact.certificate_.dual_objective
    lines = []
    for n_vectors in VECTORS:
        for budget in BUDGETS:
            model = type(problem.estimator)(**problem.estimator.get_params())
            model.set_params(max_vectors=n_vectors, memory_budget=budget, n_jobs=n_jobs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of large gaps, which are in the table
                seconds = median_seconds(partial(model.fit, problem.X, problem.y))
            truth = objective(model, problem) / optimum - 1.0
            stated = at_most(model.certificate_)
            lines.append(
                {
                    "data": problem.name,
                    "rows": len(problem.y),
                    "C": problem.estimator.C,
                    "vectors": len(model.support_),
                    "budget": budget or "",
                    "seconds": seconds,
                    "at most % above": 100.0 * stated,
                    "truly %": 100.0 * truth,
                    "times the truth": stated / truth,
                    "holds": stated >= truth,
                }
            )
    return lines


def at_most(certificate: Any) -> float:
    """The share of the exact SVM's objective that a certificate's bound is."""
    gap = certificate.relative_gap
    if gap is None:
        gap = certificate.estimated_gap + certificate.estimated_gap_error
    return gap / (1.0 - gap) if gap < 1.0 else np.inf


def objective(model: Any, problem: Problem) -> float:
    """F of a model with one machine over all rows, in double precision, from the formulas."""
    vectors = model.support_vectors_.astype(np.float64)
    coefs, offset = model.dual_coef_[0].astype(np.float64), float(model.intercept_[0])

    def scores(X: NDArray) -> NDArray[np.float64]:
        squares = (X**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1) - 2.0 * X @ vectors.T
        return np.exp(-model.gamma_ * squares) @ coefs

    total = 0.5 * float(coefs @ scores(vectors))
    for first in range(0, len(problem.y), _BLOCK):
        here = slice(first, first + _BLOCK)
        values, y = scores(problem.X[here].astype(np.float64)) + offset, problem.y[here]
        if isinstance(model, AESVC):
            losses = 1.0 - np.where(y == model.classes_[1], values, -values)
        else:
            losses = np.abs(values - y) - model.epsilon
        total += model.C * float(np.maximum(losses, 0.0).sum())
    return total
