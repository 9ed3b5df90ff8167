"""Where there is little to gain: an easy problem, and a small one. How much do we cost there?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sklearn.datasets import make_classification

from benchmarks import rivals
from benchmarks.datasets import Dataset, load
from benchmarks.report import Report, median_seconds


def run(report: Report, data_dir: Path | None, n_jobs: int, repeats: int) -> None:
    X, y = make_classification(1000, 5, random_state=0)
    small = Dataset("1,000 x 5 generated rows", X, y)
    rows = []
    for data, times, target in (
        (load("anom_http", data_dir), repeats, 1.5),
        (small, 10 * repeats + 1, 3.0),
    ):
        rivals.warm_up(data, n_jobs)
        svc, ours = rivals.svc(1.0, 1.0), rivals.ours(1.0, 1.0, n_jobs)
        theirs = median_seconds(partial(svc.fit, data.X, data.y), times)
        seconds = median_seconds(partial(ours.fit, data.X, data.y), times)
        rows.append(
            [
                data.name,
                len(data.y),
                theirs,
                seconds,
                seconds / theirs,
                f"<= {target}",
                len(svc.support_),
                len(ours.support_),
                float((svc.predict(data.X[:20_000]) == data.y[:20_000]).mean()),
                float((ours.predict(data.X[:20_000]) == data.y[:20_000]).mean()),
            ]
        )
    report.table(
        f"Easy and small problems, C=1, gamma=1, epsilon=1e-3, {n_jobs} threads, warm, medians",
        [
            "data",
            "rows",
            "SVC s",
            "AESVC s",
            "AESVC / SVC",
            "target",
            "SVC's SVs",
            "AESVC's",
            "SVC's training accuracy",
            "AESVC's",
        ],
        rows,
    )
