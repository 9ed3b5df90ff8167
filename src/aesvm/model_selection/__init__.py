"""Searches over parameters that share the work of their fits."""

from aesvm.model_selection.display import SearchDisplay
from aesvm.model_selection.grids import paper_grid, svm_grid
from aesvm.model_selection.search import (
    AEGridSearchCV,
    AEHalvingGridSearchCV,
    AERandomizedSearchCV,
)

__all__ = [
    "AEGridSearchCV",
    "AEHalvingGridSearchCV",
    "AERandomizedSearchCV",
    "SearchDisplay",
    "paper_grid",
    "svm_grid",
]
