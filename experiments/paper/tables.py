"""The paper's tables and figures: the runs that each needs, their order, and its section."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log2
from typing import NamedTuple

from experiments.paper import grids, sets
from experiments.paper.comparison import EPSILONS, EXACT, LIBSVM, LIKE_AESVM, ON_WHOLE_GRID
from experiments.paper.pages import Section
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import ORDER, Scale


class PaperTable(NamedTuple):
    runs: Callable[[Scale], list[Run]]
    section: Callable[[Scale, Ledger], Section]


TABLES: dict[str, PaperTable] = {
    "figure_1": PaperTable(sets.runs_of_figure_1, sets.figure_1),
    "table_1": PaperTable(sets.runs_of_table_1, sets.table_1),
    "table_2": PaperTable(sets.runs_of_table_2, sets.table_2),
    "table_3": PaperTable(sets.runs_of_table_3, sets.table_3),
    "figures_2_3": PaperTable(grids.ON_D2.runs, grids.figures_2_3),
    "tables_4_5": PaperTable(grids.OF_D1_TO_D5.runs, grids.tables_4_5),
    "tables_6_7": PaperTable(grids.OF_D6_TO_D9.runs, grids.tables_6_7),
    "table_8": PaperTable(grids.WITH_CPSP.runs, grids.table_8),
    "table_9": PaperTable(grids.WITH_FEATURES.runs, grids.table_9),
    "tables_10_11": PaperTable(grids.runs_of_tables_10_11, grids.tables_10_11),
    "figures_4_7": PaperTable(grids.runs_of_figures_4_7, grids.figures_4_7),
}


def in_order(scale: Scale, runs: Iterable[Run], solvers: Sequence[str] = ()) -> list[Run]:
    """By dataset where everything is made anyway.

    Otherwise the paper's method and the exact SVM come first, at the points that all solvers
    share; then LIBSVM at its sample, the sets of Tables 1 to 3, the rest of the grid and of
    the solvers. Runs of the same set follow each other: it is computed once. ``solvers`` come
    one after the other, where they are given.
    """
    if not scale.estimates:
        return sorted(runs, key=lambda run: (run.dataset, run.fold))
    place = {solver: at for at, solver in enumerate(solvers)}
    return sorted(runs, key=lambda run: _rank(scale, run, place.get(run.solver, len(place))))


def _rank(scale: Scale, run: Run, place: int) -> tuple:
    return (
        _stage(scale, run),
        place,
        ORDER.index(run.dataset),
        run.fold,
        run.train_rows or 0,
        run.solver not in (EXACT, LIBSVM),
        abs(log2(run.C)) if run.solver in (EXACT, LIBSVM) else 0.0,  # from the grid's middle
        run.degree,
        run.gamma,
        -run.epsilon,
        run.solver,
        run.C,
    )


def _stage(scale: Scale, run: Run) -> int:
    if run.degree:
        return 5
    if run.solver == LIBSVM:
        return 1
    if run.solver == "DeriveRS":
        return 2
    if run.solver == EXACT or run.solver in EPSILONS.values():
        return 0 if (run.C, run.gamma) in scale.small_points else 3
    if run.solver in ON_WHOLE_GRID:
        return 4
    return 6 if run.solver in LIKE_AESVM else 7
