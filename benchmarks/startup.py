"""How long until the first answer: import, first fit ever, first fit of a process?"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import Report

IMPORT = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
FIT = """
import time
import numpy as np
from aesvm import AESVC
X = np.random.default_rng(0).uniform(size=(3000, 3))
t = time.perf_counter()
AESVC(gamma=0.5, refine={0}).fit(X, X[:, 0] > 0.5)
print(time.perf_counter() - t)
"""
WARM = """
import time
t = time.perf_counter()
from aesvm import AESVC
from aesvm.io import LibsvmReader, save_libsvm_model
imports = time.perf_counter() - t
def train():
    t = time.perf_counter()
    reader = LibsvmReader("rows", n_features=None)
    (chunk,) = reader
    model = AESVC(gamma=1 / reader.n_features).fit(chunk.X.toarray(), chunk.y)
    save_libsvm_model(model, "warm.model")
    return time.perf_counter() - t
train()
print(imports + min(train() for _ in range(3)))
"""
EXACT, REDUCED = FIT.format("'auto'"), FIT.format(0)  # so few rows are not reduced by themselves


def startup(report: Report) -> None:
    _imports_and_fits(report, report.repeats)
    _program(report, report.repeats)


def _program(report: Report, repeats: int) -> None:
    """The command line: what it takes to say how it is used, and to train on few rows."""
    draws = np.random.default_rng(0)
    y = draws.choice([-1, 1], 1000)
    X = draws.normal(0.3 * y[:, None], 1.0, (1000, 10))
    rows = [
        f"{label} " + " ".join(f"{at}:{value:.4f}" for at, value in enumerate(row, 1))
        for label, row in zip(y, X, strict=True)
    ]
    program = [sys.executable, "-m", "aesvm"]
    paths = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rows").write_text("\n".join(rows) + "\n")

        def ended(command: list[str]) -> tuple[float, str]:
            began = time.perf_counter()
            result = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": paths},
                capture_output=True,
                text=True,
                check=True,
            )
            return time.perf_counter() - began, result.stdout

        helps, trains, warm = [], [], []
        for _ in range(repeats + 2):  # by turns: others may use the machine
            helps.append(ended([*program, "--help"])[0])
            trains.append(ended([*program, "train", "-q", "rows"])[0])
            warm.append(float(ended([sys.executable, "-c", WARM])[1]))
    whole, known = statistics.median(trains), statistics.median(warm)
    report.table(
        f"The program, seconds, median of {repeats + 2} processes",
        [
            {"what": "aesvm --help", "seconds": statistics.median(helps)},
            {"what": "aesvm train, 1,000 x 10 rows", "seconds": whole},
            {"what": "the same in a process that has done it, and its imports", "seconds": known},
        ],
    )


def _imports_and_fits(report: Report, repeats: int) -> None:
    def seconds(program: str, cache: str | None = None) -> float:
        environment = dict(os.environ) | ({"NUMBA_CACHE_DIR": cache} if cache else {})
        command = [sys.executable, "-c", program]
        result = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        )
        return float(result.stdout)

    with tempfile.TemporaryDirectory() as cache:
        first_reduced = seconds(REDUCED, cache)
    with tempfile.TemporaryDirectory() as cache:
        first_ever = seconds(EXACT, cache)
        first_of_process = statistics.median(seconds(EXACT, cache) for _ in range(repeats))
    ours, theirs = [], []
    for _ in range(repeats + 2):
        theirs.append(seconds(IMPORT.format("sklearn.svm")))
        ours.append(seconds(IMPORT.format("aesvm.svc")))
    report.table(
        f"Start-up, seconds, median of {repeats} processes",
        [
            {"what": "first fit of 3,000 x 3 rows, empty Numba cache", "seconds": first_ever},
            {"what": "the same with representatives", "seconds": first_reduced},
            {"what": "first fit of a process, warm cache", "seconds": first_of_process},
            {"what": "import sklearn.svm", "seconds": statistics.median(theirs)},
            {"what": "from aesvm import AESVC", "seconds": statistics.median(ours)},
        ],
    )
