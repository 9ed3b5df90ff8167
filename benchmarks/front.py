"""README's chart: exact fits and predictions with default settings, beside SVC and intelex.

``front``  five datasets, written to ``recorded/front.json``; ``make docs-figures`` draws them.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import numpy as np

from aesvm import AESVC
from benchmarks import rivals
from benchmarks.machine import processor
from benchmarks.records import FOLDER
from benchmarks.refinement import PROBLEMS
from benchmarks.report import Report, median_seconds, replace_file, show

#: The datasets, and how many rows are predicted.
NAMES, N_ROWS = ("ijcnn1", "a9a", "covtype", "w8a", "mnist"), 10_000


def front(report: Report) -> None:
    settings = {name: (parts, pairs[0]) for name, parts, pairs in PROBLEMS}
    lines: list[dict] = []
    for name in NAMES:
        parts, (C, gamma) = settings[name]
        data = report.data(name)
        data = data if parts is None else data.split(*parts)
        assert data.X_test is not None
        rows = data.X_test[:N_ROWS]
        models: dict[str, Any] = {
            "SVC": rivals.svc(C, gamma),
            "intelex": rivals.intelex(C, gamma, report.jobs),
            "aesvm": AESVC(C=C, gamma=gamma, n_jobs=report.jobs),
        }
        models["aesvm"].fit(data.X, data.y).predict(rows)  # compiles
        fits: dict[str, list[float]] = {program: [] for program in models}
        for turn in range(report.repeats):
            for program, model in models.items():
                if program != "SVC" or turn == 0:  # SVC's fits take minutes
                    fits[program].append(median_seconds(partial(model.fit, data.X, data.y)))
        expected = models["aesvm"].predict(rows)
        for program, model in models.items():
            line = {
                "data": name,
                "rows": len(data.y),
                "features": data.X.shape[1],
                "C": C,
                "gamma": gamma,
                "program": program,
                "fit s": float(np.median(fits[program])),
                "same labels as ours %": 100 * float((model.predict(rows) == expected).mean()),
                "predict s": median_seconds(partial(model.predict, rows), report.repeats),
            }
            lines.append(show(line))
    report.table(f"Fits and {N_ROWS:,} predictions, {report.jobs} threads (SVC has one)", lines)
    maker = " ".join(re.findall(r"AMD EPYC|Intel Xeon|Apple \w+", processor())) or processor()
    about = {
        "date": f"{report.started:%Y-%m-%d}",
        "machine": f"{report.jobs} cores, {maker}",
        "rows": lines,
    }
    replace_file(FOLDER / "front.json", json.dumps(about, indent=1) + "\n")
