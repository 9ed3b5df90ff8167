"""SVMs at several settings of their parameters, fitted one after the other to the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, NamedTuple

from sklearn.base import clone

from aesvm.estimators.fit_warnings import FAR, NOTHING
from aesvm.estimators.trained import fit_rows
from aesvm.machines.sharing import SharedWork
from aesvm.runtime.progress import Limit
from aesvm.runtime.warn import kept_warnings


class PathFit(NamedTuple):
    """One fit of a path."""

    svm: Any  #: fitted; None where the fit failed
    seconds: float
    spent: dict[str, float | None]  #: see ``SharedWork``
    warned: list[tuple[str, str]]  #: messages, each with the name of its category
    was_cut: bool = False  #: whether the time that the fit was given had ended it


def fit_path(
    estimator: Any,
    X: Any,
    y: Any,
    settings: Iterable[dict[str, Any]],
    *,
    shared: SharedWork | None = None,
    seconds: Callable[[], float] | None = None,
    **fit_params: Any,
) -> list[PathFit]:
    """Fit an SVM at several settings of its parameters, as ``lasso_path`` does for the lasso.

    Each fit starts from the solution of the one before, and takes over its kernel values and
    representative sets. So the settings should have one kernel, and C should rise. The models are
    those of separate fits, to within ``tol``. They have no certificate.

    Parameters
    ----------
    estimator : estimator
        One of ours; it stays as it is.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or None
    settings : iterable of dict
        Parameters of the estimator, fit by fit.
    shared : SharedWork, default=None
        What paths with other kernels have computed from the same rows.
    seconds : callable, default=None
        Returns the time that the next fit may take, where less than its ``time_limit``.
    **fit_params : dict
        Parameters of ``fit``.

    Returns
    -------
    fits : list of PathFit

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection.fit_path import fit_path
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> fits = fit_path(AESVC(gamma=1.0), X, y, [{"C": C} for C in (0.1, 1.0, 10.0)])
    >>> [fit.svm.C for fit in fits]
    [0.1, 1.0, 10.0]
    """
    shared = SharedWork(in_search=True) if shared is None else shared
    fits = []
    for params in settings:
        svm = clone(estimator).set_params(**clone(params, safe=False))
        shared.spent.clear()
        limit = with_limit(svm, inf if seconds is None else seconds())
        started = time.perf_counter()
        with kept_warnings() as warned:
            try:
                fit_rows(svm, X, y, **fit_params, shared=shared)
            except Exception:
                svm = None
        messages = [  # without a certificate a large gap is no news
            (message, category.__name__)
            for message, category in warned
            if not message.startswith((FAR, NOTHING))
        ]
        n_told, taken = len(messages), time.perf_counter() - started
        messages = [one for one in messages if not (limit and one[0].startswith(limit))]
        was_cut = len(messages) < n_told
        fits.append(PathFit(svm, taken, dict(shared.spent), messages, was_cut))
    return fits


def with_limit(svm: Any, seconds: float) -> str:
    """Give an SVM a time limit, unless its own is shorter; how a fit says that it has ended it."""
    own = svm.time_limit
    if seconds == inf or (own is not None and own <= seconds):
        return ""
    svm.set_params(time_limit=seconds)
    return f"{Limit(seconds)!r} ended the fit"
