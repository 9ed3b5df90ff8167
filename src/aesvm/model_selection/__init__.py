"""Searches over parameters that share the work of their fits."""

from aesvm.model_selection.grids import paper_grid, svm_grid
from aesvm.model_selection.search import (
    AEGridSearchCV,
    AEHalvingGridSearchCV,
    AERandomizedSearchCV,
)
from aesvm.plotting.search import SearchDisplay

__all__ = [
    "AEGridSearchCV",
    "AEHalvingGridSearchCV",
    "AERandomizedSearchCV",
    "SearchDisplay",
    "paper_grid",
    "svm_grid",
]
