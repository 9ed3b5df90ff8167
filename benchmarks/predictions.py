"""How long do predictions take, with the same support vectors, beside SVC and intelex?

``predictions``  of 10,000 rows, by exact SVMs of five datasets.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import rivals
from benchmarks.refinement import PROBLEMS
from benchmarks.report import Report, median_seconds, show

#: The datasets, and how many rows are predicted.
NAMES, N_ROWS = ("ijcnn1", "a9a", "covtype", "w8a", "mnist"), 10_000


def predictions(report: Report) -> None:
    settings = {name: (parts, pairs[0]) for name, parts, pairs in PROBLEMS}
    lines: list[dict] = []
    for name in NAMES:
        parts, (C, gamma) = settings[name]
        data = report.data(name)
        data = data if parts is None else data.split(*parts)
        ours: Any = rivals.ours(C, gamma, report.jobs, "exact").fit(data.X, data.y)
        # SVC's own fit takes minutes; the twin has the same support vectors and its predictions
        models = {
            "SVC": ours.to_sklearn(),
            "intelex": rivals.intelex(C, gamma, report.jobs).fit(data.X, data.y),
            "aesvm": ours,
        }
        assert data.X_test is not None
        rows = data.X_test[:N_ROWS]
        expected = ours.predict(rows)
        for program, model in models.items():
            seconds = median_seconds(partial(model.predict, rows), report.repeats)
            line = {
                "data": name,
                "program": program,
                "predict s": seconds,
                "support vectors": len(model.support_),
                "same labels %": 100 * float((model.predict(rows) == expected).mean()),
            }
            lines.append(show(line))
        report.table(
            f"{N_ROWS:,} predictions, {report.jobs} threads (SVC has one), medians of "
            f"{report.repeats}",
            lines,
        )
