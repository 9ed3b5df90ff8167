"""Figure 1: FLS1 and FLS2, with the rows in their own order and in a random one."""

from __future__ import annotations

import statistics

from benchmarks.datasets import label
from benchmarks.paper.pages import Panels, Scatter, Section, Text
from benchmarks.paper.runs import Ledger, Run
from benchmarks.paper.scales import Scale

DATASETS = ("D1", "D2", "D4", "D5")
VARIANTS = {
    "FLS1": ("sequence", False),
    "FLS2": ("distance", False),
    "random + FLS1": ("sequence", True),
    "random + FLS2": ("distance", True),
}


def variant(scale: Scale, dataset: str, name: str, gamma: float) -> list[Run]:
    partition, random = VARIANTS[name]
    return [
        Run(
            dataset,
            "DeriveRS",
            gamma=gamma,
            epsilon=1e-3,
            partition=partition,
            partition_size=10_000,
            shuffled=seed if random else None,
            train_rows=scale.reduction_rows.get(dataset),
        )
        for seed in range(scale.repeats if random else 1)
    ]


def runs(scale: Scale) -> list[Run]:
    return [
        run
        for dataset in DATASETS
        for name in VARIANTS
        for gamma in scale.orders_gammas
        for run in variant(scale, dataset, name, gamma)
    ]


def share(scale: Scale, ledger: Ledger, dataset: str, name: str, gamma: float) -> float | None:
    """Rows kept, in per cent, on average over the repetitions."""
    outcomes = [ledger[run] for run in variant(scale, dataset, name, gamma)]
    shares = [100.0 * o.kept / o.rows for o in outcomes if o.ok and o.kept and o.rows]
    return statistics.fmean(shares) if shares else None


def section(scale: Scale, ledger: Ledger) -> Section:
    panels = {}
    for dataset in DATASETS:
        series = {}
        for name in VARIANTS:
            points = [(g, share(scale, ledger, dataset, name, g)) for g in scale.orders_gammas]
            series[name] = [(g, value) for g, value in points if value is not None]
        panels[label(dataset)] = Scatter(
            "",
            f"figure_1_{dataset}",
            "g",
            "rows kept, %",
            series,
            x_log=True,
            connect=True,
        )
    caption = "Figure 1: size of the representative set by first-level segregation"
    return Section(
        "Figure 1: FLS1 against FLS2",
        [
            Text(
                "P = 10,000, V = 1,000, epsilon = 1e-3. The paper shows this as a figure without "
                "numbers; what it reports of it is checked under Claims. Rows of a dataset that "
                "the paper splits into folds are those of the training part."
            ),
            Panels(caption, "figure_1", panels),
        ],
        "figure-1",
    )
