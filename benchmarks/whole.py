"""All of covtype: seconds, accuracy and memory; and what others would need, extrapolated."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import rivals
from benchmarks.datasets import Dataset, MissingError
from benchmarks.report import Report

N_TRAIN = 464_810

CHILD = """
import sys, time
from pathlib import Path
import numpy as np
from aesvm import AESVC

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

folder, n_jobs, hull_tol = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
AESVC(gamma=1.0, n_jobs=n_jobs).fit(X[:5000], y[:5000])
started = time.perf_counter()
model = AESVC(C=1.0, gamma=1.0, hull_tol=hull_tol, refine=0, n_jobs=n_jobs).fit(X, y)
seconds = time.perf_counter() - started
fitted = peak()
accuracy = model.score(np.load(folder / "X_test.npy"), np.load(folder / "y_test.npy"))
size = len(model.representative_set_.sample_indices_)
print(seconds, size, len(model.support_), accuracy, fitted, X.nbytes)
"""


def run(report: Report, data: Dataset, n_jobs: int) -> None:
    if not Path("/proc/self/status").exists():
        raise MissingError("/proc/self/status, which tells the peak memory on Linux")
    part = data.split(N_TRAIN)
    assert part.X_test is not None
    assert part.y_test is not None
    rows: list[list] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for dtype in (np.float64, np.float32):
            for key, values in (("X", part.X), ("X_test", part.X_test)):
                np.save(folder / f"{key}.npy", values.astype(dtype))
            np.save(folder / "y.npy", part.y)
            np.save(folder / "y_test.npy", part.y_test)
            for hull_tol in (1e-3, 1e-2):
                command = [sys.executable, "-c", CHILD, name, str(n_jobs), str(hull_tol)]
                words = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                seconds, size, support, accuracy, peak, own = map(float, words.split())
                rows.append(
                    [
                        f"AESVC, epsilon={hull_tol:g}, {np.dtype(dtype).name}",
                        seconds,
                        f"{size:,.0f} ({size / N_TRAIN:.1%})",
                        f"{support:,.0f}",
                        accuracy,
                        f"{peak / 2**30:.2f} ({own / 2**30:.2f} of it X)",
                    ]
                )
    for program, sizes in (("SVC", (12_500, 25_000)), ("intelex", (25_000, 50_000, 100_000))):
        seconds, exponent = _extrapolated(data, program, sizes, n_jobs)
        label = f"{program}, extrapolated from {sizes[-2]:,} and {sizes[-1]:,} rows"
        rows.append([f"{label} (exponent {exponent:.2f})", seconds, "", "", "", ""])
    report.table(
        f"All of {data.name}: {N_TRAIN:,} training rows, {len(data.y) - N_TRAIN:,} test rows, C=1, "
        f"gamma=1, {n_jobs} threads",
        ["program", "seconds", "representatives", "SVs", "accuracy", "peak GiB"],
        rows,
        "Target: peak <= 4 GiB.",
    )


def _extrapolated(
    data: Dataset, program: str, sizes: tuple[int, ...], n_jobs: int
) -> tuple[float, float]:
    seconds = []
    for size in sizes:
        part = data.split(size, 1)
        model = rivals.svc(1.0, 1.0) if program == "SVC" else rivals.intelex(1.0, 1.0, n_jobs)
        started = time.perf_counter()
        model.fit(part.X, part.y)
        seconds.append(time.perf_counter() - started)
    exponent = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
    return seconds[-1] * (N_TRAIN / sizes[-1]) ** exponent, exponent
