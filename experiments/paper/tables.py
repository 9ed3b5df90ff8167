"""The paper's tables and figures: the runs that each needs, and the section it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from experiments.paper import grids, sets
from experiments.paper.pages import Section
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale


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
