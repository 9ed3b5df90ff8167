"""Tables 4 and 5: AESVM, CVM, BVM and LASVM beside LIBSVM, on D1 to D5."""

from __future__ import annotations

from functools import partial

from experiments.paper import comparison, published
from experiments.paper.comparison import LIBSVM, MODERN, Compared, by_metric, grid
from experiments.paper.pages import Section, Text
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale

DATASETS = ("D1", "D2", "D3", "D4", "D5")
SOLVERS = (*published.AESVM.values(), "CVM", "BVM", "LASVM", *MODERN, LIBSVM)


def runs(scale: Scale) -> list[Run]:
    return [run for data in DATASETS for solver in SOLVERS for run in grid(scale, data, solver)]


def figures_of(
    scale: Scale, ledger: Ledger, datasets=DATASETS, solvers=SOLVERS
) -> dict[str, dict[str, Compared]]:
    """Every solver's figures, dataset by dataset."""
    return comparison.compared(ledger, partial(grid, scale), datasets, solvers)


#: What a reader must know of both pairs of tables.
NOTE = (
    "Bold is the best of a row among those that finished the grid, LIBSVM aside. “(3/4)”: three "
    "of four runs were finished, by LIBSVM too where the metric needs it, and count. Seconds of a "
    "representative set count in OTS, not in ETS, as in the paper. Of Nystroem its landmarks "
    "count as support vectors. The equal-time subsample takes as long as the set and the training "
    "of AESVM 1e-3 together."
)


def section(scale: Scale, ledger: Ledger) -> Section:
    figures = figures_of(scale, ledger)
    metrics = by_metric(
        "Table 4: performance on D1 to D5",
        ("RMSE", "ETS", "OTS", "ECS", "OCS"),
        figures,
        published.TABLE_4,
        NOTE,
    )
    accuracies = by_metric(
        "Table 5: accuracies on D1 to D5", ("max", "mean", "std"), figures, published.TABLE_5
    )
    text = Text(
        "The five metrics are over the points (C', g) of the grid and the folds, LIBSVM's over "
        "the solver's: RMSE of the accuracies, ETS and ECS the means of the ratios of training "
        "times and of support vectors, OTS and OCS the ratios of their sums."
    )
    return Section("Tables 4 and 5: D1 to D5", [text, metrics, accuracies], "tables-4-5")
