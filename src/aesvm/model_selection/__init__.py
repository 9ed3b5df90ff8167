"""Searches over parameters, and calibration, that share the work of their fits."""

from aesvm.model_selection.calibration import SharedCalibration, calibrated
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
    "SharedCalibration",
    "calibrated",
    "paper_grid",
    "svm_grid",
]
