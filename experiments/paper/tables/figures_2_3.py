"""Figures 2 and 3: accuracy on D2 against training time, and against support vectors."""

from __future__ import annotations

from benchmarks.datasets import label
from experiments.paper import comparison
from experiments.paper.pages import Section, Text
from experiments.paper.pictures import Scatter
from experiments.paper.runs import Ledger, Outcome, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import tables_4_5, tables_6_7

SOLVERS = tables_4_5.SOLVERS


def runs(scale: Scale) -> list[Run]:
    return [
        run
        for solver in SOLVERS
        for run in comparison.grid(scale, "D2", solver, scale.small_points)
    ]


def _points(
    scale: Scale, ledger: Ledger, dataset: str, solvers, of
) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for solver in solvers:
        outcomes = [
            ledger[run] for run in comparison.grid(scale, dataset, solver, scale.small_points)
        ]
        found = [(of(o), 100.0 * o.accuracy) for o in outcomes if o.ok and o.accuracy is not None]
        series[solver] = [(x, y) for x, y in found if x]
    return series


def seconds(outcome: Outcome) -> float:
    return outcome.total_seconds


def vectors(outcome: Outcome) -> float:
    return float(outcome.support_vectors or 0)


def section(scale: Scale, ledger: Ledger) -> Section:
    blocks: list = [
        Text(
            "Each point is a run: one fold, one (C', g). Seconds include the representative set. "
            "The paper shows D2 alone; the panels below it show every dataset."
        )
    ]
    for figure, of, axis, name in (
        ("Figure 2", seconds, "training time, s", "figure_2"),
        ("Figure 3", vectors, "support vectors", "figure_3"),
    ):
        blocks.append(
            Scatter(
                f"{figure}: accuracy on D2 (part) against {axis.split(',')[0]}",
                name,
                axis,
                "accuracy, %",
                {"": _points(scale, ledger, "D2", SOLVERS, of)},
                x_log=True,
                y_limits=(0.0, 100.0),
            )
        )
    panels = {}
    for table in (tables_4_5, tables_6_7):
        for dataset in table.DATASETS:
            series = _points(scale, ledger, dataset, table.SOLVERS, seconds)
            if any(series.values()):
                panels[label(dataset)] = series
    blocks.append(
        Scatter(
            "Accuracy against training time on every dataset",
            "time",
            "training time, s",
            "accuracy, %",
            panels,
            x_log=True,
            y_limits=(0.0, 100.0),
        )
    )
    return Section("Figures 2 and 3: accuracy against time and size", blocks, "figures-2-3")
