"""Paths: candidates of a search that are fitted one after another, and share work.

The candidates of a path have one kernel and are fitted to the same rows. C rises along a path, and
each solution is a start for the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf
from numbers import Real
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from aesvm.estimators.fit_warnings import FAR, NOTHING
from aesvm.estimators.machine import KernelMachine
from aesvm.estimators.trained import fit_rows
from aesvm.machines.sharing import SharedWork
from aesvm.runtime.progress import Limit
from aesvm.runtime.warn import kept_warnings

#: Parameters of the SVM that its kernel matrix depends on, with the precision of its values: the
#: key under which ``estimators.trained`` keeps the kernel.
_OF_KERNEL = ("kernel", "gamma", "degree", "coef0", "tol")


class Path(NamedTuple):
    """Candidates with one kernel, in the order in which they are fitted."""

    numbers: list[int]  #: among all candidates
    params: list[dict[str, Any]]
    rows: int  #: the same number in paths that are fitted to the same rows


def paths_of(estimator: Any, candidates: Sequence[dict[str, Any]]) -> list[Path]:
    """Put candidates into paths; an estimator of another package is alone in its path."""
    paths: dict[Hashable, list[tuple[float, int, dict[str, Any]]]] = {}
    rows_of: dict[Hashable, Hashable] = {}
    for number, params in enumerate(candidates):
        prefix, svm = svm_of(estimator, params)
        if svm is None:
            key: Hashable = ("alone", number)
            rows_of[key] = key
            paths[key] = [(0.0, number, params)]
            continue
        own = own_params(params, prefix)
        others = _key(
            {name: params[name] for name in params if name not in {prefix + name for name in own}}
        )
        of_kernel = {name: getattr(svm, name) for name in _OF_KERNEL}
        key = others, _key(of_kernel)
        # a kernel matrix is cut into folds in both directions
        rows_of[key] = others, svm.kernel == "precomputed"
        paths.setdefault(key, []).append((_cost(svm), number, params))
    # numbers are the same in every process, whatever objects the keys hold
    numbered = {rows: at for at, rows in enumerate(dict.fromkeys(rows_of.values()))}
    found = []
    for key, members in paths.items():
        members.sort(key=lambda member: member[:2])
        numbers = [number for _, number, _ in members]
        params_of = [params for *_, params in members]
        found.append(Path(numbers, params_of, numbered[rows_of[key]]))
    return found


def svm_of(estimator: Any, params: dict[str, Any]) -> tuple[str, Any]:
    """The prefix of the names of the SVM's parameters, and the SVM with these parameters.

    The SVM is the estimator itself, or the last step of a pipeline. It is None

    - where that is no estimator of this package that is fitted to rows in memory;
    - where the SVM or the pipeline overrides ``fit``, which may do anything with the rows;
    - where a pipeline has callbacks, which must see its fit.
    """
    prefix, svm = "", estimator
    if isinstance(estimator, Pipeline):
        own_fit = type(estimator).fit is not Pipeline.fit
        if (
            own_fit
            or hasattr(estimator, "_skl_callbacks")
            or estimator.transform_input is not None
            or "steps" in params
        ):
            return prefix, None
        name, svm = estimator.steps[-1]
        prefix, svm = f"{name}__", params.get(name, svm)
    if getattr(type(svm), "fit", None) is not KernelMachine.fit:
        return prefix, None
    own = own_params(params, prefix)
    if not set(own) <= set(svm.get_params(deep=False)):
        return prefix, None  # to fail as any estimator does that is given unknown parameters
    return prefix, clone(svm).set_params(**own)


def last_step(estimator: Any) -> tuple[str, Any]:
    """The last step of a pipeline, however deep, with the prefix of its parameters' names."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return prefix, estimator


def own_params(params: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The parameters of the SVM itself, without the prefix."""
    below = {
        name.removeprefix(prefix): value
        for name, value in params.items()
        if name.startswith(prefix)
    }
    return {name: value for name, value in below.items() if "__" not in name}


def _cost(svm: Any) -> float:
    """C, by which the candidates of a path are ordered."""
    cost = getattr(svm, "C", 0.0)
    return float(cost) if isinstance(cost, Real) else 0.0


def _key(values: dict[str, Any]) -> Hashable:
    """A key that is equal for equal values; unhashable values are equal if they are identical."""
    return tuple((name, _hashable(value)) for name, value in sorted(values.items()))


def _hashable(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return "object", id(value)
    return type(value).__name__, value


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
    those of separate fits, to within ``tol``. They have no certificate. ``shared``: what paths with
    other kernels have computed from the same rows. ``seconds``: returns the time that the next fit
    may take, where it is less than its ``time_limit``.
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
