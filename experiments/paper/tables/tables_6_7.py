"""Tables 6 and 7: AESVM, CVM, BVM and LASVM beside LIBSVM, on D6 to D9."""

from __future__ import annotations

from experiments.paper import published
from experiments.paper.comparison import AESVM, LIBSVM, MODERN, by_metric, grid
from experiments.paper.pages import Section
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import tables_4_5

DATASETS = ("D6", "D7", "D8", "D9")
SOLVERS = (AESVM, "CVM", "BVM", "LASVM", *MODERN, LIBSVM)


def runs(scale: Scale) -> list[Run]:
    return [run for data in DATASETS for solver in SOLVERS for run in grid(scale, data, solver)]


def section(scale: Scale, ledger: Ledger) -> Section:
    figures = tables_4_5.figures_of(scale, ledger, DATASETS, SOLVERS)
    metrics = by_metric(
        "Table 6: performance on D6 to D9",
        ("RMSE", "ETS", "OTS", "ECS", "OCS"),
        figures,
        published.TABLE_6,
        tables_4_5.NOTE,
    )
    accuracies = by_metric(
        "Table 7: accuracies on D6 to D9", ("max", "mean", "std"), figures, published.TABLE_7
    )
    return Section("Tables 6 and 7: D6 to D9", [metrics, accuracies], "tables-6-7")
