"""How do seconds grow with the rows?"""

from __future__ import annotations

from functools import partial

import numpy as np

from aesvm import RepresentativeSet
from benchmarks.datasets import Dataset
from benchmarks.report import Report, median_seconds


def run(report: Report, data: Dataset, n_jobs: int, repeats: int) -> None:
    n = data.X.shape[0]
    order = np.random.default_rng(0).permutation(n)
    sizes = [size for size in (50_000, 100_000, 200_000, 400_000) if size < n] + [n]
    rows, seconds = [], []
    for size in sizes:
        part = np.sort(order[:size])
        X, y = data.X[part], data.y[part]
        rs = RepresentativeSet(gamma=1.0, n_jobs=n_jobs)
        seconds.append(median_seconds(partial(rs.fit, X, y), repeats))
        share = 100 * len(rs.sample_indices_) / size
        rows.append([size, seconds[-1], 1e6 * seconds[-1] / size, share])
    ends = np.log(seconds[-1] / seconds[0]) / np.log(sizes[-1] / sizes[0])
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    report.table(
        f"Growth on {data.name}, g=1, epsilon=1e-3, {n_jobs} threads, median of {repeats}",
        ["rows", "seconds", "microseconds per row", "M/N %"],
        rows,
        f"Exponent from the first to the last: {ends:.3f}; by least squares: {slope:.3f} "
        "(target <= 1.1). Random rows, so smaller samples are sparser and keep a larger share.",
    )
