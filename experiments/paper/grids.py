"""Solvers over grids of hyper-parameters: Tables 4 to 11 and Figures 2 to 7."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.datasets import label
from experiments.paper import comparison, published
from experiments.paper.comparison import (
    AESVM,
    EPSILONS,
    LIBSVM,
    MODERN,
    Figures,
    by_metric,
    by_solver,
    epsilon_of,
    grid,
    to_make,
    value_of,
)
from experiments.paper.pages import Block, Section, Text
from experiments.paper.pictures import Bars, Scatter
from experiments.paper.published import METRICS
from experiments.paper.runs import Ledger, Outcome, Run
from experiments.paper.scales import Scale
from experiments.paper.sets import measured, reduction, row


@dataclass(frozen=True)
class Grid:
    """Solvers on datasets, each over ``runs_of(scale, dataset, solver)``."""

    datasets: tuple[str, ...]
    solvers: tuple[str, ...]
    runs_of: Callable[[Scale, str, str], list[Run]] = grid

    def runs(self, scale: Scale) -> list[Run]:
        runs = [
            run
            for dataset in self.datasets
            for solver in self.solvers
            for run in self.runs_of(scale, dataset, solver)
        ]
        return to_make(scale, runs)

    def compared(self, scale: Scale, ledger: Ledger, runs_of: Callable | None = None) -> Figures:
        """Every solver's figures, dataset by dataset; over other runs than those of the table."""
        of_scale = partial(runs_of or self.runs_of, scale)
        return comparison.compared(ledger, of_scale, self.datasets, self.solvers)


def small_grid(scale: Scale, dataset: str, solver: str) -> list[Run]:
    return grid(scale, dataset, solver, scale.small_points)


def polynomial_grid(scale: Scale, dataset: str, solver: str) -> list[Run]:
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
            all_test_rows=scale.all_test_rows,
        )
        for fold in scale.folds_of(dataset)
        for C, degree in scale.poly_points
    ]


OTHERS = ("CVM", "BVM", "LASVM", *MODERN, LIBSVM)
OF_D1_TO_D5 = Grid(("D1", "D2", "D3", "D4", "D5"), (*EPSILONS.values(), *OTHERS))
OF_D6_TO_D9 = Grid(("D6", "D7", "D8", "D9"), (AESVM, *OTHERS))
WITH_CPSP = Grid(published.WITH_CPSP, (AESVM, "CPSP", LIBSVM))
WITH_FEATURES = Grid(tuple(published.RANDOM_FEATURES), (AESVM, "RfeatSVM", LIBSVM), small_grid)
POLYNOMIAL = Grid(tuple(published.TABLE_10), (AESVM, "AESVC auto", LIBSVM), polynomial_grid)
ON_D2 = Grid(("D2",), OF_D1_TO_D5.solvers, small_grid)


def _pair(grid: Grid, numbers: tuple[int, int], scale: Scale, ledger: Ledger) -> Section:
    """A table of the five metrics, and one of accuracies."""
    every = widest(scale, ledger)
    figures = {d: {name: every[d][name] for name in grid.solvers} for d in grid.datasets}
    where = f"{grid.datasets[0]} to {grid.datasets[-1]}"
    first, second = numbers
    tables = [
        by_metric(f"Table {first}: performance on {where}", METRICS[:5], figures, published.RBF),
        by_metric(f"Table {second}: accuracies on {where}", METRICS[5:], figures, published.RBF),
    ]
    anchor = f"tables-{first}-{second}"
    return Section(f"Tables {first} and {second}: {where}", tables, anchor)


def tables_4_5(scale: Scale, ledger: Ledger) -> Section:
    return _pair(OF_D1_TO_D5, (4, 5), scale, ledger)


def tables_6_7(scale: Scale, ledger: Ledger) -> Section:
    return _pair(OF_D6_TO_D9, (6, 7), scale, ledger)


def table_8(scale: Scale, ledger: Ledger) -> Section:
    table = by_solver(
        "Table 8: SVMperf (CPSP), AESVM and LIBSVM",
        METRICS,
        WITH_CPSP.compared(scale, ledger),
        published.RBF,
        f"CPSP has {scale.basis} basis vectors"
        + ("." if scale.basis == 1000 else ", and 1000 in the paper."),
    )
    return Section("Table 8: SVMperf", [table], "table-8")


def table_9(scale: Scale, ledger: Ledger) -> Section:
    features = ", ".join(
        f"{label(data)} {size}" for data, size in published.RANDOM_FEATURES.items()
    )
    table = by_solver(
        "Table 9: random features (RfeatSVM), AESVM and LIBSVM",
        tuple(published.TABLE_9),
        WITH_FEATURES.compared(scale, ledger),
        published.TABLE_9,
        f"Features: {features}, as in the paper. The paper trains on them with LIBSVM, and "
        "we with LIBLINEAR and the same loss: accuracies are compared, not seconds.",
    )
    return Section("Table 9: random features", [table], "table-9")


def runs_of_tables_10_11(scale: Scale) -> list[Run]:
    reductions = [
        run
        for dataset in POLYNOMIAL.datasets
        for degree in published.DEGREES
        for run in reduction(scale, dataset, 1e-3, 1.0, degree)
    ]
    return reductions + POLYNOMIAL.runs(scale)


def tables_10_11(scale: Scale, ledger: Ledger) -> Section:
    rows = []
    for dataset, paper in published.TABLE_10.items():
        runs = [reduction(scale, dataset, 1e-3, 1.0, degree) for degree in published.DEGREES]
        rows.append(row(label(dataset), ledger, runs, paper))
    sizes = measured(
        "Table 10: M/N in per cent, and seconds, with the polynomial kernel",
        ["dataset", *(f"d = {degree}" for degree in published.DEGREES)],
        rows,
        "Here a distance in kernel space depends on the scale of the features: ours lie between "
        "0 and 1.",
    )
    table = by_solver(
        "Table 11: AESVM and LIBSVM with the polynomial kernel",
        METRICS,
        POLYNOMIAL.compared(scale, ledger),
        published.TABLE_11,
    )
    return Section("Tables 10 and 11: the polynomial kernel", [sizes, table], "tables-10-11")


def _points(
    scale: Scale, ledger: Ledger, dataset: str, solvers, of
) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for solver in solvers:
        outcomes = [ledger[run] for run in grid(scale, dataset, solver, scale.small_points)]
        found = [(of(o), 100.0 * o.accuracy) for o in outcomes if o.ok and o.accuracy is not None]
        series[solver] = [(x, y) for x, y in found if x]
    return series


def seconds(outcome: Outcome) -> float:
    return outcome.total_seconds


def vectors(outcome: Outcome) -> float:
    return float(outcome.support_vectors or 0)


def figures_2_3(scale: Scale, ledger: Ledger) -> Section:
    blocks: list = [
        Text(
            "Each point is a run: one fold, one (C', g). Seconds include the representative set. "
            "The paper shows D2 alone; the last picture shows every dataset that was timed on a "
            "CPU."
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
                {"": _points(scale, ledger, "D2", OF_D1_TO_D5.solvers, of)},
                x_log=True,
                y_limits=(0.0, 100.0),
            )
        )
    panels = {}
    for table in (OF_D1_TO_D5, OF_D6_TO_D9):
        for dataset in table.datasets:
            series = _points(scale, ledger, dataset, table.solvers, seconds)
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


def runs_of_figures_4_7(scale: Scale) -> list[Run]:
    tables = (OF_D1_TO_D5, OF_D6_TO_D9, WITH_CPSP, WITH_FEATURES)
    return [run for table in tables for run in table.runs(scale)]


FIGURES = (
    ("Figure 4: RMSE of the accuracies", "figure_4", "RMSE", "RMSE (x 100)", False),
    ("Figure 5: maximum accuracy", "figure_5", "max", "accuracy, %", False),
    ("Figure 6: overall training time speedup", "figure_6", "OTS", "OTS", True),
    ("Figure 7: overall classification time speedup", "figure_7", "OCS", "OCS", True),
)


def everything(scale: Scale, ledger: Ledger, runs_of: Callable = small_grid) -> Figures:
    """Every solver's figures on every dataset, from all tables with the RBF kernel.

    Over the paper's grid of 24 points, on which all are run, unless ``runs_of`` says otherwise.
    """
    found = OF_D1_TO_D5.compared(scale, ledger, runs_of)
    found |= OF_D6_TO_D9.compared(scale, ledger, runs_of)
    for table, name in ((WITH_CPSP, "CPSP"), (WITH_FEATURES, "RfeatSVM")):
        for dataset, of_dataset in table.compared(scale, ledger, runs_of).items():
            found[dataset][name] = of_dataset[name]
    return found


def widest(scale: Scale, ledger: Ledger) -> Figures:
    """The same over each solver's whole grid, or over the 24 points where that is not complete."""
    whole, small = everything(scale, ledger, grid), everything(scale, ledger)
    return {
        dataset: {name: one.or_over(small[dataset][name]) for name, one in of_dataset.items()}
        for dataset, of_dataset in whole.items()
    }


def figures_4_7(scale: Scale, ledger: Ledger) -> Section:
    found = everything(scale, ledger)
    names = list(dict.fromkeys(name for of_dataset in found.values() for name in of_dataset))
    blocks: list[Block] = [Text("A solver has a bar where it finished every point of the grid.")]
    for caption, stem, metric, axis, log in FIGURES:
        series = {
            name: [value_of(found[dataset].get(name), metric) for dataset in found]
            for name in names
            if name != LIBSVM or metric == "max"
        }
        groups = [label(dataset) for dataset in found]
        blocks.append(Bars(caption, stem, groups, series, axis, log=log))
    return Section("Figures 4 to 7: summary", blocks, "figures-4-7")
