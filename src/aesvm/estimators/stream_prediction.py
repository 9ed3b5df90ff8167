"""Predictions over a source of chunks, in the memory of one of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from aesvm.out_of_core.source import check_chunk, check_source

#: What may be asked of every chunk of a source.
_METHODS = ("predict", "decision_function", "score_samples")


def predict_stream(
    estimator: Any, source: Iterable[tuple[Any, Any, Any]], method: str = "predict"
) -> Iterator[NDArray]:
    """Predict the rows of a source chunk by chunk, with no more than a chunk in memory.

    Parameters
    ----------
    source : iterable of (X, y, sample_weight)
        Chunks of rows, as ``fit_stream`` takes them; y and sample_weight are not looked at. The
        readers of ``aesvm.io`` are such sources. It is read once, as predictions are asked for.
    method : {"predict", "decision_function", "score_samples"}, default="predict"
        What is asked of each chunk; the estimator must have it.

    Returns
    -------
    predictions : iterator of ndarray
        One for each chunk that has rows.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = AESVC(gamma=1.0).fit(X, y)
    >>> chunks = [(X[at : at + 400], None, None) for at in (0, 400, 800)]
    >>> [len(labels) for labels in model.predict_stream(chunks)]
    [400, 400, 200]
    """
    check_is_fitted(estimator)
    check_source(source)
    if method not in _METHODS or not hasattr(estimator, method):
        known = [name for name in _METHODS if hasattr(estimator, name)]
        raise ValueError(
            f"method={method!r}: {type(estimator).__name__} has {', '.join(map(repr, known))}."
        )
    names = getattr(source, "feature_names", None)
    if names is not None and hasattr(estimator, "feature_names_in_"):
        expected = estimator.feature_names_in_.tolist()
        if list(names) != expected:
            raise ValueError(
                f"source has the features {list(names)}, and the model was fitted to {expected}: "
                "they must be the same, in the same order."
            )
    return _predictions(source, getattr(estimator, method))


def _predictions(source: Iterable, ask: Callable) -> Iterator[NDArray]:
    n_rows = 0
    for chunk in source:
        check_chunk(chunk)
        if not np.shape(chunk[0])[0]:
            continue
        try:
            with warnings.catch_warnings():  # a chunk need not repeat the names
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                found = ask(chunk[0])
        except ValueError as error:
            where = f"in the chunk of source that begins at row {n_rows:,}"
            raise ValueError(f"{error} ({where})") from error
        n_rows += len(found)
        yield found
