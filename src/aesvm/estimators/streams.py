"""Rows that come in chunks: the common part of ``partial_fit`` and ``fit_stream``."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from aesvm.estimators.fitting import Method, fit_method
from aesvm.estimators.parameters import kernel_spec, reduction_settings
from aesvm.estimators.validation import check_labels, from_gpu, validated_rows
from aesvm.kernels.gamma import has_gamma
from aesvm.out_of_core.gathered_training import SET_BYTES
from aesvm.out_of_core.merge_tree import MergeTree, bytes_of
from aesvm.out_of_core.source import Validate, check_source
from aesvm.out_of_core.stream import (
    Stream,
    StreamedModel,
    gamma_of_source,
    take_all,
    warn_if_looser,
)
from aesvm.runtime.progress import Progress

#: Parameters that must stay the same throughout a stream.
_KERNEL = ("kernel", "gamma", "degree", "coef0")


class NotAStreamError(ValueError, AttributeError):
    """Parameters that need all rows at once: a stream of chunks is not possible.

    An AttributeError too, so that ``hasattr(estimator, "partial_fit")`` is False with them.
    """


class available_for_streams:  # noqa: N801 (a decorator)
    """Decorate ``partial_fit``: as ``fit_method``, and absent where no stream is possible."""

    def __init__(self, method: Callable) -> None:
        self.method = fit_method(method)
        self.__doc__ = method.__doc__

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self.method
        _check_can_stream(estimator)
        return types.MethodType(self.method, estimator)


def takes_source(method: Method) -> Method:
    """Decorate a method of a source: as ``fit_method``, and rows in its place are refused."""
    fit = fit_method(method)
    name = method.__name__

    @functools.wraps(fit)
    def checked(self: Any, source: Any, *rows: Any, **named: Any) -> Any:
        if rows or named:
            raise TypeError(
                f"{name} takes one source, an iterable of chunks, as in {name}([(X, y, None)]); "
                f"for rows in memory there is {name.removesuffix('_stream')}(X, y)."
            )
        return fit(self, source)

    return cast(Method, checked)


def _check_can_stream(estimator: Any) -> None:
    """Refuse parameters that need all rows at once."""
    if estimator.kernel == "precomputed":
        raise NotAStreamError(
            'kernel="precomputed" is the kernel matrix of all rows, and a stream never has all: '
            "partial_fit needs rows, and a kernel or a callable."
        )
    if has_gamma(estimator.kernel) and isinstance(estimator.gamma, str):
        raise NotAStreamError(
            f"gamma={estimator.gamma!r} is a statistic of all rows, and a stream never has all: "
            "partial_fit needs a number, as in gamma=0.1."
        )


def check_streams(estimator: Any, source: Any) -> None:
    """Refuse a source, or parameters, that ``fit_stream`` cannot be given."""
    check_source(source)
    if estimator.kernel == "precomputed":
        raise ValueError(
            'kernel="precomputed" is the kernel matrix of all rows, and a stream never has '
            "all: use another kernel, or a callable."
        )


def new_stream(
    estimator: Any, hull_tol: float, gamma: float | None = None, passes: bool = False
) -> Stream:
    """A stream without rows; ``gamma``: its value, where the parameter is a string.

    ``passes``: whether passes over all rows follow, so that few rows need be held.
    """
    if gamma is None:  # where it is no number, the kernel has none
        gamma = 1.0 if isinstance(estimator.gamma, str) else float(estimator.gamma)
    budget, loosens = bytes_of(estimator.memory_budget), estimator.on_overflow == "loosen"
    tree = MergeTree(float(hull_tol), budget, loosens)
    if passes:
        tree = tree._replace(budget=min(budget, SET_BYTES), loosen=True, samples=True)
    names = {name: getattr(estimator, name) for name in _KERNEL}
    joint = getattr(getattr(estimator, "_learns", None), "joint", False)
    return Stream(kernel_spec(estimator, gamma), names, tree, joint)


def extended(
    estimator: Any,
    stream: Stream,
    X: Any,
    y: Any,
    sample_weight: Any,
    validate: Validate,
    run: Callable,
    progress: Progress,
) -> Stream:
    """A stream with some more rows; without X, with the rows of its buffer reduced."""
    stream.check_kernel({name: getattr(estimator, name) for name in _KERNEL})
    stream = stream.with_settings(
        estimator.hull_tol, bytes_of(estimator.memory_budget), estimator.on_overflow == "loosen"
    )
    settings = reduction_settings(estimator)
    if X is None:
        after = stream.settled(settings, run, progress)
    else:
        chunk = validate(X, y, sample_weight, not stream.n_rows)
        after = stream.add(chunk, y is not None, settings, run, progress)
    before = stream.tree
    warn_if_looser(after.tree, before.hull_tol, estimator.memory_budget, before.sampled)
    return after


def streamed_from(
    estimator: Any,
    source: Iterable,
    hull_tol: float,
    validate: Validate,
    run: Callable,
    progress: Progress,
    passes: bool = False,
) -> Stream:
    """A stream of all rows of a source; ``passes`` as in ``new_stream``."""

    def rows(X: Any, first: bool) -> Any:
        return validated_rows(estimator, from_gpu(estimator, X)[0], reset=first)

    gamma = gamma_of_source(estimator.gamma, estimator.kernel, source, rows, progress)
    stream = new_stream(estimator, hull_tol, gamma, passes)
    settings = reduction_settings(estimator)
    scaled = estimator.gamma == "scale" and has_gamma(estimator.kernel)
    stream = take_all(stream, source, validate, settings, run, progress, scaled)
    names = getattr(source, "feature_names", None)
    if names is not None and not hasattr(estimator, "feature_names_in_"):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    if not passes:
        warn_if_looser(stream.tree, hull_tol, estimator.memory_budget)
    return stream


def classes_of_stream(estimator: Any, before: StreamedModel | None, classes: Any) -> NDArray | None:
    """All classes there will be in a stream: announced in its first call, and the same since."""
    given = None if classes is None else _announced(classes)
    if before is None:
        given = getattr(estimator, "classes_", None) if given is None else given
        if given is None:
            raise ValueError(
                "classes=None: the first partial_fit of a stream needs all classes there "
                "will be, as in classes=[0, 1]."
            )
        return given
    if (
        given is not None
        and before.classes is not None
        and given.tolist() != before.classes.tolist()
    ):
        raise ValueError(
            f"classes={given.tolist()} were {before.classes.tolist()} in the first call of this "
            "stream."
        )
    return before.classes


def _announced(classes: Any) -> NDArray:
    try:
        given = column_or_1d(classes)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"classes={classes!r}: a list of all classes is needed, numbers or strings."
        ) from error
    check_labels(given, "classes")
    return np.unique(given)
