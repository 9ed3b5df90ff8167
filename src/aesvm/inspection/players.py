"""The players of the Shapley values: raw columns of a table, traced through a pipeline's steps.

A step may scale a column, encode it by several, or leave it out: each column that it passes on
comes from one raw column. Steps that mix columns, as PCA does, leave no product over raw columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from aesvm.tabular import DateParts, LevelNames

#: Steps that pass on one column for each, in the same order.
_ONE_BY_ONE = (
    Binarizer,
    LevelNames,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)


class Players(NamedTuple):
    """The players: raw columns or groups of them, and the machine's columns of each."""

    names: list[str]
    raw_names: list[str]  #: of the raw columns
    raw: list[list[int]]  #: the raw columns of each
    columns: NDArray[np.int64]  #: the machine's columns of the first, then of the second, ...
    ends: NDArray[np.int64]  #: where those of each end


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The steps before a fitted machine, None where there are none, and the machine itself."""
    steps: list[tuple[str, Any]] = []
    while isinstance(estimator, Pipeline | BaseSearchCV) or hasattr(estimator, "best_estimator_"):
        if isinstance(estimator, Pipeline):
            steps += estimator.steps[:-1]
            estimator = estimator.steps[-1][1]
        else:
            check_is_fitted(estimator, "best_estimator_")
            estimator = estimator.best_estimator_
    if not hasattr(estimator, "_model"):
        inside = [name for name in ("regressor_", "estimator_") if hasattr(estimator, name)]
        if hasattr(estimator, "calibrated_classifiers_"):
            inside = ["calibrated_classifiers_[0].estimator"]
        advice = f" Pass the model inside it: {inside[0]}." if inside else ""
        raise TypeError(
            f"model: {type(estimator).__name__} is no estimator of aesvm, nor a pipeline or a "
            f"search that ends in one.{advice}"
        )
    check_is_fitted(estimator)
    if len({*dict(steps)}) < len(steps):  # of pipelines in pipelines
        steps = [(f"{name}-{number}", step) for number, (name, step) in enumerate(steps)]
    return Pipeline(steps) if steps else None, estimator


def players_of(steps: Pipeline | None, machine: Any, X: Any, groups: Any) -> Players:
    """The players: raw columns, or groups of them."""
    first = machine if steps is None else steps
    n_raw = int(first.n_features_in_ if hasattr(first, "n_features_in_") else np.shape(X)[1])
    known = getattr(first, "feature_names_in_", None)
    if known is None and steps is None:
        known = getattr(X, "columns", None)
    names = [f"x{number}" for number in range(n_raw)] if known is None else [*map(str, known)]
    origins = range(n_raw) if steps is None else _origins(steps, [*range(n_raw)], names)
    if len(origins) != machine.n_features_in_:
        raise ValueError(
            f"model: its steps pass on {machine.n_features_in_} columns, and {len(origins)} were "
            "expected: explain model[-1], with X as the other steps transform it."
        )
    used = {*origins}
    titles, raw = _grouped(groups, names, used)
    of_raw = {one: number for number, own in enumerate(raw) for one in own}
    owners = np.array([of_raw[one] for one in origins], dtype=np.int64)
    columns = np.argsort(owners, kind="stable").astype(np.int64)
    counts = np.bincount(owners, minlength=len(raw))
    return Players(titles, names, raw, columns, np.cumsum(counts).astype(np.int64))


def _grouped(groups: Any, names: list[str], used: set[int]) -> tuple[list[str], list[list[int]]]:
    """Names and raw columns of the players, in the order of their first columns."""
    if groups is None:
        groups = {}
    if isinstance(groups, Mapping):
        given = [(str(title), _positions(own, names, "groups")) for title, own in groups.items()]
    elif isinstance(groups, Sequence) and not isinstance(groups, str):
        lists = [_positions(own, names, "groups") for own in groups]
        given = [(" + ".join(names[one] for one in own), own) for own in lists]
    else:
        raise ValueError(
            f"groups={groups!r}: a dict of names and their columns is needed, or a list of lists "
            "of columns."
        )
    for title, own in given:
        if not own:
            raise ValueError(f"groups: {title!r} has no columns.")
    grouped = [one for _, own in given for one in own]
    if len({*grouped}) < len(grouped):
        twice = next(names[one] for one in grouped if grouped.count(one) > 1)
        raise ValueError(f"groups: column {twice!r} is in more than one group.")
    alone = [(names[one], [one]) for one in sorted(used - {*grouped})]
    titles = [title for title, _ in given]
    for title in titles:
        if titles.count(title) > 1 or title in {name for name, _ in alone}:
            raise ValueError(f"groups: {title!r} is the name of another player too.")
    left = [(title, [one for one in own if one in used]) for title, own in given]
    players = [*((title, own) for title, own in left if own), *alone]
    players.sort(key=lambda one: min(one[1]))
    return [title for title, _ in players], [own for _, own in players]


def _positions(columns: Any, names: list[str], parameter: str) -> list[int]:
    """Columns by number: of a name, a number, a slice, a mask, or several names or numbers."""
    if isinstance(columns, slice):
        start, stop = columns.start, columns.stop
        start = names.index(start) if isinstance(start, str) else start
        stop = names.index(stop) + 1 if isinstance(stop, str) else stop  # which is included
        return [*range(len(names))[start : stop : columns.step]]
    if isinstance(columns, str | int | np.integer):
        columns = [columns]
    if not isinstance(columns, Iterable):
        raise ValueError(f"{parameter}: {columns!r} is no list of columns.")
    given = [*columns]
    if len(given) == len(names) and all(isinstance(one, bool | np.bool_) for one in given):
        return [int(one) for one in np.flatnonzero(given)]
    found = []
    for one in given:
        if isinstance(one, bool | np.bool_):
            raise ValueError(
                f"{parameter}: a mask needs {len(names)} values, one for each column, and has "
                f"{len(given)}."
            )
        if isinstance(one, int | np.integer) and -len(names) <= one < len(names):
            found.append(int(one) % len(names))
        elif isinstance(one, str) and one in names:
            found.append(names.index(one))
        else:
            shown = ", ".join(names[:20])
            raise ValueError(f"{parameter}: {one!r} is none of the columns {shown}.")
    return found


def _origins(step: Any, origins: list[int], names: list[str]) -> list[int]:
    """The raw column that each column of a fitted step's output comes from.

    ``origins``, ``names``: of the step's input columns.
    """
    if step is None or step == "passthrough":
        return origins
    if isinstance(step, Pipeline):
        for _, one in step.steps:
            origins = _origins(one, origins, names)
            names = [str(number) for number in range(len(origins))]  # no later step knows names
        return origins
    if isinstance(step, FeatureUnion):
        parts = [_origins(one, origins, names) for _, one in step.transformer_list if one != "drop"]
        return [one for own in parts for one in own]
    if isinstance(step, ColumnTransformer):
        known = [str(one) for one in getattr(step, "feature_names_in_", names)]
        found: list[int] = []
        for _, one, columns in step.transformers_:  # in the order of the output
            own = [] if isinstance(one, str) and one == "drop" else columns
            at = _positions(own, known, "model")
            if at:
                found += _origins(one, [origins[k] for k in at], [known[k] for k in at])
        return found
    return [origins[column] for column in _sources(step, len(origins))]


def _sources(step: Any, n_columns: int) -> list[int]:
    """The input column that each column of a step's output comes from."""
    every = [*range(n_columns)]
    if isinstance(step, _ONE_BY_ONE):
        return every
    if isinstance(step, FunctionTransformer) and (
        step.func is None or step.feature_names_out == "one-to-one"
    ):
        return every
    if isinstance(step, SelectorMixin):
        return [int(one) for one in step.get_support(indices=True)]
    if isinstance(step, DateParts):
        each = len(step.get_feature_names_out(every)) // max(1, n_columns)
        return [one for one in every for _ in range(each)]
    if isinstance(step, OneHotEncoder):
        return [one for one in every for _ in range(_n_levels(step, one))]
    if isinstance(step, KBinsDiscretizer):
        counts = [1] * n_columns if step.encode == "ordinal" else step.n_bins_
        return [one for one in every for _ in range(counts[one])]
    if isinstance(step, SimpleImputer):
        empty = np.array([isinstance(one, float) and np.isnan(one) for one in step.statistics_])
        kept = [one for one in every if step.keep_empty_features or not empty[one]]
        flagged = step.indicator_.features_ if step.indicator_ is not None else []
        return kept + [int(one) for one in flagged]
    raise ValueError(
        f"model: {type(step).__name__} is not known to treat columns one by one, so that raw "
        "columns have no Shapley values in closed form. Explain the columns that the machine sees: "
        "shapley_values(model[-1], model[:-1].transform(X)). (A FunctionTransformer needs "
        'feature_names_out="one-to-one".)'
    )


def _n_levels(encoder: OneHotEncoder, column: int) -> int:
    """Columns that encode one."""
    rare = getattr(encoder, "infrequent_categories_", [None] * (column + 1))[column]
    n_levels = len(encoder.categories_[column]) - (0 if rare is None else len(rare) - 1)
    dropped = encoder.drop_idx_ is not None and encoder.drop_idx_[column] is not None
    return n_levels - int(dropped)
