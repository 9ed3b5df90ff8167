"""Duals that are hard to solve: a large C, weights over many decades. All are to converge.

    AESVM_DATA=FOLDER python -m benchmarks.hard [covtype gpu stopping] [--device cuda]

``covtype``   exact SVMs of 20,000 and 50,000 rows; each point of the grid also with 5,000 rows,
              beside SVC's objective.
``gpu``       the same of 464,000 rows, on a GPU.
``stopping``  300 random problems of all formulations. Each has converged, with a proven gap of at
              most 1e-3, or is warned of and has a ``fit_status_`` of 1.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from benchmarks.gpu import problem

#: Rows, C and gamma.
POINTS = [
    (20_000, 1e3, 1 / 16),
    (20_000, 1e4, 1 / 16),
    (20_000, 1e5, 1 / 16),
    (20_000, 1e6, 1 / 16),
    (50_000, 128.0, 1 / 16),
    (50_000, 128.0, 4.0),
    (50_000, 16.0, 4.0),
]
GPU_POINTS = [(464_000, 128.0, 1 / 16), (464_000, 128.0, 4.0)]

#: Rows that SVC is given; and most iterations of it: minutes.
SVC_ROWS, _SVC_ITERATIONS = 5_000, 10_000_000

#: Random problems, and the gap that a model with ``fit_status_`` 0 has at most.
N_PROBLEMS, _GAP = 300, 1e-3


def covtype(folder: Path | None, device: str) -> None:
    print(
        f"{'covtype':>8} {'C':>8} {'gamma':>7} {'SVC dual':>16} {'aesvm dual':>16}   (5,000 rows)"
    )
    for C, gamma in dict.fromkeys((C, gamma) for _, C, gamma in POINTS):
        X, y, _, _ = problem("covtype", SVC_ROWS, folder)
        ours = AESVC(C=C, gamma=gamma, refine="exact").fit(X, y)
        theirs = SVC(C=C, gamma=gamma, max_iter=_SVC_ITERATIONS).fit(X, y)
        dual = _dual(theirs, X, gamma)
        ended = "" if theirs.fit_status_ == 0 else f"   (SVC stopped at {_SVC_ITERATIONS:,})"
        print(
            f"{SVC_ROWS:8,} {C:8g} {gamma:7g} {dual:16,.1f} {ours.dual_objective_[0]:16,.1f}{ended}"
        )
    for point in POINTS:
        _fit(*point, folder, "cpu")


def gpu(folder: Path | None, device: str) -> None:
    for point in GPU_POINTS:
        _fit(*point, folder, device)


def _dual(model: SVC, X: Any, gamma: float) -> float:
    """The dual objective of a trained SVC: ``sum |coef| - |w|^2 / 2``."""
    coefs = model.dual_coef_.ravel()
    rows = X[model.support_]
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = squares[:, None] + squares - 2.0 * rows @ rows.T
    return float(np.abs(coefs).sum() - 0.5 * coefs @ np.exp(-gamma * distances) @ coefs)


def _fit(rows: int, C: float, gamma: float, folder: Path | None, device: str) -> None:
    X, y, X_test, y_test = problem("covtype", rows, folder)
    begin = time.perf_counter()
    model = AESVC(C=C, gamma=gamma, refine="exact", device=device, n_jobs=-1).fit(X, y)
    seconds = time.perf_counter() - begin
    print(
        f"covtype {rows:,} ({C:g}, {gamma:g}) on {device}: {seconds:.1f} s, "
        f"fit_status_ {model.fit_status_}, KKT violation {model.kkt_violation_[0]:.2e}, "
        f"{model.n_iter_[0]:,} iterations, {len(model.support_):,} support vectors, dual "
        f"{model.dual_objective_[0]:,.0f}, relative gap {model.certificate_.relative_gap}, "
        f"accuracy {model.score(X_test, y_test):.4f}",
        flush=True,
    )


def stopping(folder: Path | None, device: str) -> None:
    n_converged, n_warned, wrong, longest = 0, 0, [], 0.0
    begin = time.perf_counter()
    for trial in range(N_PROBLEMS):
        model, given, weights = random_problem(trial)
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(*given, sample_weight=weights)
        longest = max(longest, time.perf_counter() - began)
        is_warned = any(issubclass(one.category, ConvergenceWarning) for one in caught)
        gap = model.certificate_.relative_gap
        if model.fit_status_ == 0 and gap is not None and gap <= _GAP:
            n_converged += 1
        elif model.fit_status_ == 1 and is_warned:
            n_warned += 1
        else:
            wrong.append(trial)
            print(f"problem {trial}: fit_status_ {model.fit_status_}, gap {gap}: {model}")
    print(
        f"{N_PROBLEMS} problems in {time.perf_counter() - begin:.0f} s, the longest {longest:.1f} "
        f"s: {n_converged} converged with a proven gap up to {_GAP:g}, {n_warned} warned of, "
        f"{len(wrong)} wrong"
    )


def random_problem(trial: int) -> tuple[Any, tuple[Any, ...], Any]:
    """An estimator with ``refine="exact"``, what it is fitted to, and weights."""
    random = np.random.default_rng(trial)
    n_rows, n_features = int(random.integers(10, 400)), int(random.integers(1, 6))
    X = random.normal(size=(n_rows, n_features))
    if random.random() < 0.2:
        X = X.round(1)
    values = X[:, 0] + np.sin(3.0 * X[:, -1])
    values += random.normal(size=n_rows) * 10.0 ** random.uniform(-3, 0.5)
    labels = (values > np.median(values)).astype(int)
    C, nu = 10.0 ** random.uniform(-3, 8), float(random.uniform(0.05, 0.9))
    weights = 10.0 ** random.uniform(-3, 3, size=n_rows) if random.random() < 0.6 else None
    common: dict[str, Any] = {
        "kernel": str(random.choice(["rbf", "rbf", "rbf", "linear", "poly"])),
        "gamma": 10.0 ** random.uniform(-3, 1),
        "tol": 10.0 ** random.uniform(-4, -2),
        "refine": "exact",
    }
    targets = values * 10.0 ** random.uniform(-2, 3)
    epsilon = float(10.0 ** random.uniform(-3, 0))
    if trial % 5 == 0:
        classes = labels if random.random() < 0.8 else np.digitize(values, [-1.0, 0.0, 1.0])
        return AESVC(C=C, **common), (X, classes), weights
    if trial % 5 == 1:
        # of classes whose weights differ, no larger nu is possible
        return AENuSVC(nu=0.4 * nu, **common), (X, labels), weights
    if trial % 5 == 2:
        return AESVR(C=C, epsilon=epsilon, **common), (X, targets), weights
    if trial % 5 == 3:
        return AENuSVR(C=C, nu=nu, **common), (X, targets), weights
    return AEOneClassSVM(nu=nu, **common), (X,), weights


QUESTIONS = {"covtype": covtype, "gpu": gpu, "stopping": stopping}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AS_IT_IS)
    parser.add_argument("questions", nargs="*", help=", ".join(QUESTIONS))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    folder = None if asked.data_dir is None else Path(asked.data_dir)
    for name in asked.questions or ["covtype", "stopping"]:
        QUESTIONS[name](folder, asked.device)


_AS_IT_IS = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main()
