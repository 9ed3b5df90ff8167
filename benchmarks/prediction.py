"""How many rows a second are predicted, with the same support vectors?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import rivals
from benchmarks.datasets import load
from benchmarks.report import Report, median_seconds

PROBLEMS = (("ijcnn1", 1.0, 1.0), ("a9a", 1.0, 1 / 16))
SVC_ROWS = 2000  # it is slow


def run(report: Report, data_dir: Path | None, n_jobs: int, repeats: int) -> None:
    rows = []
    for name, C, gamma in PROBLEMS:
        data = load(name, data_dir)
        assert data.X_test is not None
        X = data.X_test
        svc = rivals.svc(C, gamma).fit(data.X, data.y)
        intelex = rivals.intelex(C, gamma, n_jobs).fit(data.X, data.y)
        ours = rivals.ours(C, gamma, n_jobs, hull_tol=0.0).fit(data.X, data.y)
        # equal rows are merged here: give every program LIBSVM's support vectors
        for attribute in ("support_", "support_vectors_", "dual_coef_", "intercept_"):
            setattr(ours, attribute, getattr(svc, attribute))
        ours.n_support_ = svc.n_support_
        speeds = [
            part.shape[0] / median_seconds(partial(model.predict, part), repeats)
            for model, part in ((svc, X[:SVC_ROWS]), (intelex, X), (ours, X))
        ]
        same = float((ours.predict(X[:SVC_ROWS]) == svc.predict(X[:SVC_ROWS])).mean())
        rows.append(
            [
                data.name,
                len(svc.support_),
                *(f"{speed:,.0f}" for speed in speeds),
                speeds[2] / speeds[0],
                speeds[2] / speeds[1],
                same,
            ]
        )
    report.table(
        f"Prediction, rows a second, {n_jobs} threads (SVC has one), median of {repeats}",
        [
            "data",
            "SVs",
            "SVC",
            "intelex",
            "ours",
            "ours / SVC",
            "ours / intelex",
            "labels as SVC",
        ],
        rows,
        "Targets: >= 5 times SVC, >= 1 times intelex.",
    )
