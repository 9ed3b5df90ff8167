"""Table 9: random Fourier features (RfeatSVM)."""

from __future__ import annotations

from functools import partial

from benchmarks.datasets import label
from experiments.paper import comparison, published
from experiments.paper.comparison import AESVM, LIBSVM, Compared, by_solver, grid
from experiments.paper.pages import Section
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale

DATASETS = tuple(published.TABLE_9)
SOLVERS = (AESVM, "RfeatSVM", LIBSVM)


def _grid(scale: Scale, dataset: str, solver: str) -> list[Run]:
    return grid(scale, dataset, solver, scale.small_points)


def runs(scale: Scale) -> list[Run]:
    return [run for data in DATASETS for solver in SOLVERS for run in _grid(scale, data, solver)]


def compared(scale: Scale, ledger: Ledger) -> dict[str, dict[str, Compared]]:
    return comparison.compared(ledger, partial(_grid, scale), DATASETS, SOLVERS)


def section(scale: Scale, ledger: Ledger) -> Section:
    features = ", ".join(
        f"{label(data)} {size}" for data, size in published.RANDOM_FEATURES.items()
    )
    densities = ", ".join(
        f"{data} {before} to {after} %" for data, (before, after) in published.DENSITIES.items()
    )
    table = by_solver(
        "Table 9: RfeatSVM, AESVM and LIBSVM",
        ("RMSE", "max", "mean", "std"),
        compared(scale, ledger),
        published.TABLE_9,
        f"Random features: {features}, as in the paper; LIBSVM with the linear kernel trains on "
        f"them, as there. A cosine is never zero, so the features are dense; the paper's "
        f"densities before and after: {densities}.",
    )
    return Section("Table 9: random features", [table], "table-9")
