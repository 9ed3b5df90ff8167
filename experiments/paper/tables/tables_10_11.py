"""Tables 10 and 11: the polynomial kernel ``(1 + x.y)^d``."""

from __future__ import annotations

from functools import partial

from benchmarks.datasets import label
from experiments.paper import comparison, published
from experiments.paper.comparison import (
    AESVM,
    LIBSVM,
    Compared,
    by_solver,
    epsilon_of,
)
from experiments.paper.pages import Cell, Section, Table
from experiments.paper.reductions import cell, reduction
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale

DATASETS = tuple(published.TABLE_11)
SOLVERS = (AESVM, "AESVC auto", LIBSVM)


def _grid(scale: Scale, dataset: str, solver: str) -> list[Run]:
    return [
        Run(
            dataset,
            solver,
            C=C,
            epsilon=epsilon_of(solver),
            kernel="poly",
            degree=degree,
            fold=fold,
            train_rows=scale.train_rows.get(dataset),
            test_rows=scale.test_rows,
        )
        for fold in scale.folds_of(dataset)
        for C, degree in scale.poly_points
    ]


def runs(scale: Scale) -> list[Run]:
    reductions = [
        run
        for dataset in DATASETS
        for degree in published.DEGREES
        for run in reduction(scale, dataset, 1e-3, 1.0, degree)
    ]
    trained = [run for data in DATASETS for name in SOLVERS for run in _grid(scale, data, name)]
    return reductions + trained


def compared(scale: Scale, ledger: Ledger) -> dict[str, dict[str, Compared]]:
    return comparison.compared(ledger, partial(_grid, scale), DATASETS, SOLVERS)


def section(scale: Scale, ledger: Ledger) -> Section:
    rows: list[list[Cell | str]] = []
    for dataset, paper in published.TABLE_10.items():
        row: list[Cell | str] = [label(dataset)]
        for degree, (share, seconds) in paper.items():
            runs_of = reduction(scale, dataset, 1e-3, 1.0, degree)
            row.append(cell(ledger, runs_of, f"{share} ({seconds} s)"))
        rows.append(row)
    sizes = Table(
        "Table 10: M/N in per cent, and seconds, with the polynomial kernel",
        ["dataset", *(f"d = {degree}" for degree in published.DEGREES)],
        rows,
        "epsilon = 1e-3 is a squared distance in kernel space: how large that is depends on how "
        "the features are scaled, here to between 0 and 1.",
    )
    table = by_solver(
        "Table 11: AESVM and LIBSVM with the polynomial kernel",
        published.METRICS,
        compared(scale, ledger),
        published.TABLE_11,
    )
    return Section("Tables 10 and 11: the polynomial kernel", [sizes, table], "tables-10-11")
