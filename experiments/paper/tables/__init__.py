"""The paper's tables and figures, a module each: the runs it needs, and the section it gives."""

from __future__ import annotations

from typing import Protocol, cast

from experiments.paper.pages import Section
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import (
    figure_1,
    figures_2_3,
    figures_4_7,
    table_1,
    table_2,
    table_3,
    table_8,
    table_9,
    tables_4_5,
    tables_6_7,
    tables_10_11,
)


class PaperTable(Protocol):
    """What each of the modules offers."""

    def runs(self, scale: Scale) -> list[Run]:
        """What has to be measured."""

    def section(self, scale: Scale, ledger: Ledger) -> Section:
        """What the report shows of it."""


TABLES: dict[str, PaperTable] = {
    name: cast(PaperTable, module)
    for name, module in {
        "figure_1": figure_1,
        "table_1": table_1,
        "table_2": table_2,
        "table_3": table_3,
        "figures_2_3": figures_2_3,
        "tables_4_5": tables_4_5,
        "tables_6_7": tables_6_7,
        "table_8": table_8,
        "table_9": table_9,
        "tables_10_11": tables_10_11,
        "figures_4_7": figures_4_7,
    }.items()
}
