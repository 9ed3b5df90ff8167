"""How much memory does a fit take at its peak?"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.datasets import Dataset, MissingError
from benchmarks.report import Report

# VmHWM, not ru_maxrss: that one starts from what the parent had when it forked.
CHILD = """
import sys
from pathlib import Path
import numpy as np
from aesvm import RepresentativeSet
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

X, y = np.load(sys.argv[1]), np.load(sys.argv[2])
loaded = peak()
rs = RepresentativeSet(gamma=1.0, n_jobs=int(sys.argv[3])).fit(X, y)
print(X.nbytes, loaded, peak(), len(rs.sample_indices_))
"""


def run(report: Report, data: Dataset, n_jobs: int) -> None:
    if not Path("/proc/self/status").exists():
        raise MissingError("/proc/self/status, which tells the peak memory on Linux")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "y.npy")
        np.save(labels, data.y)
        for dtype in (np.float32, np.float64):
            path = Path(folder, "X.npy")
            np.save(path, data.X.astype(dtype))
            command = [sys.executable, "-c", CHILD, str(path), str(labels), str(n_jobs)]
            words = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            gib = [int(word) / 2**30 for word in words.split()[:3]]
            rows.append([np.dtype(dtype).name, *gib])
    report.table(
        f"Peak resident memory in GiB on {data.name}, {n_jobs} threads (a process by itself)",
        ["dtype", "X", "before the fit", "peak"],
        rows,
        "Target: peak <= 1.5 GiB for float32 input.",
    )
