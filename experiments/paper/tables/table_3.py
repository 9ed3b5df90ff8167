"""Table 3: g on the high-dimensional datasets D6 to D9."""

from __future__ import annotations

from benchmarks.datasets import label
from experiments.paper import published
from experiments.paper.pages import Cell, Section, Table
from experiments.paper.reductions import cell, reduction
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale


def runs(scale: Scale) -> list[Run]:
    return [
        run
        for dataset in published.TABLE_3
        for gamma in published.GAMMA_GRID
        for run in reduction(scale, dataset, 1e-3, gamma)
    ]


def section(scale: Scale, ledger: Ledger) -> Section:
    rows: list[list[Cell | str]] = []
    for dataset, paper in published.TABLE_3.items():
        row: list[Cell | str] = [label(dataset)]
        for gamma, (share, seconds) in zip(published.GAMMA_GRID, paper, strict=True):
            runs_of = reduction(scale, dataset, 1e-3, gamma)
            row.append(cell(ledger, runs_of, f"{share} ({seconds} s)"))
        rows.append(row)
    fewer = ", ".join(
        f"{label(dataset)} {rows:,}" for dataset, rows in scale.reduction_rows.items()
    )
    table = Table(
        "Table 3: M/N in per cent, and seconds, on D6 to D9 with epsilon = 1e-3",
        ["dataset", *(f"g = {gamma:g}" for gamma in published.GAMMA_GRID)],
        rows,
        "“all”: reducing was given up, since the first subsets kept over 90 % of their rows; "
        "what is left then are the distinct rows of each class."
        + (f" Rows reduced here: {fewer}." if fewer else ""),
    )
    return Section("Table 3: size of the set on D6 to D9", [table], "table-3")
