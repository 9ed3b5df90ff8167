"""How long until the first answer: import, first fit ever, first fit of a process?"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

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
EXACT, REDUCED = FIT.format("'auto'"), FIT.format(0)  # so few rows are not reduced by themselves


def run(report: Report, repeats: int) -> None:
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
        ours.append(seconds(IMPORT.format("aesvm")))
    ratio = statistics.median(ours) / statistics.median(theirs)
    report.table(
        f"Start-up, seconds, median of {repeats} processes",
        ["what", "seconds", "target"],
        [
            ["first fit of 3,000 x 3 rows, empty Numba cache", first_ever, "<= 2.5"],
            ["the same with representatives", first_reduced, "<= 8"],
            ["first fit of a process, warm cache", first_of_process, "<= 1"],
            ["import sklearn.svm", statistics.median(theirs), ""],
            ["import aesvm", statistics.median(ours), f"ratio {ratio:.2f}, <= 1.3"],
        ],
    )
