"""P, V, and the order of the rows: the paper's Table 1 and its comparison of FLS1 and FLS2."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from aesvm import RepresentativeSet
from benchmarks.datasets import MissingError, load
from benchmarks.report import Report

SUBSET_SIZES = (100, 500, 1000, 2000, 3000)
#: M/N in per cent (seconds) on all of KDD99, 1,074,974 distinct rows
PAPER_TABLE_1 = {
    10_000: "10.7 (27), 6.1 (67), 5.1 (131), 4.5 (258), 4.3 (338)",
    50_000: "9.9 (78), 5.3 (72), 4.4 (130), 3.9 (249), 3.7 (351)",
    100_000: "9.8 (142), 5.2 (83), 4.3 (134), 3.7 (242), 3.5 (352)",
    200_000: "9.8 (254), 5.1 (104), 4.2 (144), 3.7 (240), 3.4 (355)",
}


def sizes(report: Report, data_dir: Path | None, n_jobs: int) -> None:
    data = load("kdd99", data_dir)
    rows = []
    for partition_size, paper in PAPER_TABLE_1.items():
        cells = [_cell(data, n_jobs, partition_size, size) for size in SUBSET_SIZES]
        rows.append([partition_size, *cells, paper])
    report.table(
        f"P x V on {data.name}, {data.X.shape[0]:,} rows, g=1, epsilon=1e-3: M/N % (seconds)",
        ["P", *(f"V={size}" for size in SUBSET_SIZES), "paper, all of D1, same columns"],
        rows,
        "The paper's data has seven times as many rows, so its shares are smaller; what can be "
        "compared is how M/N falls with V and hardly with P.",
    )


def orders(report: Report, data_dir: Path | None, n_jobs: int) -> None:
    rows: list[list] = []
    for name in ("covtype", "kdd99", "ijcnn1"):
        try:
            data = load(name, data_dir)
        except MissingError as missing:
            rows.append([name, str(missing), "", "", "", ""])
            continue
        shuffled = np.random.default_rng(0).permutation(len(data.y))
        for gamma in (1 / 16, 1 / 4, 1.0, 4.0):
            cells = [
                _cell(data, n_jobs, 10_000, 1000, gamma, partition, order)
                for order in (None, shuffled)
                for partition in ("sequence", "distance")
            ]
            rows.append([data.name, gamma, *cells])
    report.table(
        "FLS1, FLS2 and random order, P=1e4, V=1e3, epsilon=1e-3: M/N % (seconds)",
        ["data", "g", "FLS1", "FLS2", "random + FLS1", "random + FLS2"],
        rows,
        "The paper shows this as a figure without numbers. What it reports: FLS2 gives smaller "
        "sets on D1 and D5, FLS1 on D4; after random reordering FLS2 is better on all.",
    )


def _cell(data, n_jobs, partition_size, subset_size, gamma=1.0, partition="distance", order=None):
    X, y = (data.X, data.y) if order is None else (data.X[order], data.y[order])
    rs = RepresentativeSet(
        gamma=gamma,
        partition_size=partition_size,
        subset_size=subset_size,
        partition=partition,
        n_jobs=n_jobs,
    )
    started = time.perf_counter()
    rs.fit(X, y)
    seconds = time.perf_counter() - started
    return f"{100 * len(rs.sample_indices_) / len(y):.1f} ({seconds:.1f})"
