"""The estimator or search that a display shows, and the axes that it is drawn on."""

from __future__ import annotations

from typing import Any

from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def machine_in(estimator: Any, display: type, *wanted: str) -> Any:
    """The best estimator of a search, the last step of a pipeline, or what is neither.

    It is fitted, and has one of the attributes that are wanted.
    """
    while isinstance(estimator, Pipeline) or _is_search(estimator):
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
            continue
        check_is_fitted(estimator, "cv_results_")
        if not hasattr(estimator, "best_estimator_"):
            raise ValueError(
                f"{display.__name__}: the search has no best_estimator_ (refit={estimator.refit}): "
                "fit an estimator with its best_params_."
            )
        estimator = estimator.best_estimator_
    check_is_fitted(estimator)
    # a property of the class may have something to say itself
    if not any(hasattr(type(estimator), one) or hasattr(estimator, one) for one in wanted):
        raise TypeError(
            f"{display.__name__} draws estimators of aesvm, and {type(estimator).__name__} has no "
            f"{wanted[0]}."
        )
    return estimator


def search_in(search: Any, display: type) -> Any:
    """A fitted search, or that which is the last step of a pipeline."""
    while isinstance(search, Pipeline):
        search = search.steps[-1][1]
    if not _is_search(search):
        raise TypeError(
            f"{display.__name__} draws searches, which have cv_results_, and "
            f"{type(search).__name__} is none: pass the search itself."
        )
    check_is_fitted(search, "cv_results_")
    return search


def _is_search(estimator: Any) -> bool:
    return isinstance(estimator, BaseSearchCV) or hasattr(estimator, "cv_results_")


def axes_for(display: Any, ax: Any = None) -> Any:
    """The axes that were given, or those of a new figure; matplotlib is not imported before."""
    try:
        import matplotlib.pyplot as plt  # of the extra "plot"
    except ImportError as error:
        name = display if isinstance(display, str) else type(display).__name__
        raise ImportError(f'{name} needs matplotlib: pip install "aesvm[plot]".') from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax
