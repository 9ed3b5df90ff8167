"""Figures 4 to 7: every solver on every dataset, in four bar charts."""

from __future__ import annotations

from benchmarks.datasets import label
from experiments.paper.comparison import LIBSVM, Compared
from experiments.paper.pages import Section
from experiments.paper.pictures import Bars
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import table_8, table_9, tables_4_5, tables_6_7

DATASETS = (*tables_4_5.DATASETS, *tables_6_7.DATASETS)

FIGURES = (
    ("Figure 4: RMSE of the accuracies", "figure_4", "RMSE", "RMSE (x 100)", False),
    ("Figure 5: maximum accuracy", "figure_5", "max", "accuracy, %", False),
    ("Figure 6: overall training time speedup", "figure_6", "OTS", "OTS", True),
    ("Figure 7: overall classification time speedup", "figure_7", "OCS", "OCS", True),
)


def runs(scale: Scale) -> list[Run]:
    return [
        run for table in (tables_4_5, tables_6_7, table_8, table_9) for run in table.runs(scale)
    ]


def everything(scale: Scale, ledger: Ledger) -> dict[str, dict[str, Compared]]:
    """Every solver's figures on every dataset, from all tables with the RBF kernel."""
    found = tables_4_5.figures_of(scale, ledger)
    found |= tables_4_5.figures_of(scale, ledger, tables_6_7.DATASETS, tables_6_7.SOLVERS)
    for table, name in ((table_8, "CPSP"), (table_9, "RfeatSVM")):
        for dataset, of_dataset in table.compared(scale, ledger).items():
            found[dataset][name] = of_dataset[name]
    return found


def section(scale: Scale, ledger: Ledger) -> Section:
    found = everything(scale, ledger)
    names = list(dict.fromkeys(name for of_dataset in found.values() for name in of_dataset))
    blocks = []
    for caption, stem, metric, axis, log in FIGURES:
        series = {
            name: [
                found[dataset][name].values[metric] if name in found[dataset] else None
                for dataset in found
            ]
            for name in names
            if name != LIBSVM or metric == "max"
        }
        groups = [label(dataset) for dataset in found]
        blocks.append(Bars(caption, stem, groups, series, axis, log=log))
    return Section("Figures 4 to 7: summary", blocks, "figures-4-7")
