"""Table 1: the sizes P and V of pieces and subsets, on D1."""

from __future__ import annotations

from experiments.paper import published
from experiments.paper.pages import Cell, Section, Table
from experiments.paper.reductions import cell
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale


def run_of(scale: Scale, partition_size: int, subset_size: int) -> Run:
    return Run(
        "D1",
        "DeriveRS",
        gamma=1.0,
        epsilon=1e-3,
        partition_size=partition_size,
        subset_size=subset_size,
        train_rows=scale.reduction_rows.get("D1"),
    )


def runs(scale: Scale) -> list[Run]:
    return [run_of(scale, P, V) for P in published.PARTITION_SIZES for V in published.SUBSET_SIZES]


def section(scale: Scale, ledger: Ledger) -> Section:
    rows: list[list[Cell | str]] = []
    for P, paper in published.TABLE_1.items():
        row: list[Cell | str] = [f"P = {P:,}"]
        for V, (share, seconds) in zip(published.SUBSET_SIZES, paper, strict=True):
            row.append(cell(ledger, run_of(scale, P, V), f"{share} ({seconds} s)"))
        rows.append(row)
    table = Table(
        "Table 1: M/N in per cent, and seconds, on D1 (part) with g = 1 and epsilon = 1e-3",
        ["", *(f"V = {V:,}" for V in published.SUBSET_SIZES)],
        rows,
        "The paper's D1 has seven times as many distinct rows, so its shares are smaller. What "
        "can be compared is how M/N falls with V, and hardly with P.",
    )
    return Section("Table 1: P and V", [table], "table-1")
