"""Table 8: SVMperf's cutting-plane subspace pursuit (CPSP)."""

from __future__ import annotations

from experiments.paper import published
from experiments.paper.comparison import AESVM, LIBSVM, Compared, by_solver, grid
from experiments.paper.pages import Section
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import tables_4_5

DATASETS = tuple(published.TABLE_8)
SOLVERS = (AESVM, "CPSP", LIBSVM)


def runs(scale: Scale) -> list[Run]:
    return [run for data in DATASETS for solver in SOLVERS for run in grid(scale, data, solver)]


def compared(scale: Scale, ledger: Ledger) -> dict[str, dict[str, Compared]]:
    return tables_4_5.figures_of(scale, ledger, DATASETS, SOLVERS)


def section(scale: Scale, ledger: Ledger) -> Section:
    table = by_solver(
        "Table 8: SVMperf, AESVM and LIBSVM",
        published.METRICS,
        compared(scale, ledger),
        published.TABLE_8,
        f"{scale.basis} basis vectors; the paper's experiments have 1000.",
    )
    return Section("Table 8: SVMperf", [table], "table-8")
