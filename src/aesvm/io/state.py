"""The state of an estimator as plain values: numbers, strings, arrays, lists and dicts of names.

Pickle, copies and model files hold this state. A record of ours, such as a stream that may go on,
is a dict of its fields with its name; a dict is two lists where its keys are no strings, or would
be taken for such marks.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator

from aesvm.bases.compress import Compression
from aesvm.kernels import KernelSpec
from aesvm.kernels.gamma import Moments
from aesvm.kernels.joint import TargetScale
from aesvm.machines.results import Terms
from aesvm.out_of_core.merge_tree import MergeTree
from aesvm.out_of_core.source import Tally
from aesvm.out_of_core.stream import Stream, StreamedModel
from aesvm.out_of_core.weighted_rows import WeightedRows

_RECORDS: dict[str, Any] = {
    one.__name__: one
    for one in (
        Compression,
        KernelSpec,
        MergeTree,
        Moments,
        Stream,
        StreamedModel,
        Tally,
        TargetScale,
        Terms,
        WeightedRows,
    )
}

#: Keys by which ``restored`` knows a record, and a dict that is two lists.
_MARKS = ("record", "keys", "values")


def plain_state(estimator: Any) -> dict[str, Any]:
    """The ``__getstate__`` of our estimators."""
    return {name: plain(value) for name, value in BaseEstimator.__getstate__(estimator).items()}


def set_plain_state(estimator: Any, state: dict[str, Any]) -> None:
    """The ``__setstate__`` of our estimators: parameters that are missing have their defaults."""
    parameters = signature(type(estimator)).parameters.values()
    vars(estimator).update({one.name: one.default for one in parameters if one.name not in state})
    vars(estimator).update({name: restored(value) for name, value in state.items()})


def plain(value: Any) -> Any:
    """A value without records, and without dicts whose keys are no strings or marks of ours.

    Examples
    --------
    >>> from aesvm.io.state import plain, restored
    >>> from aesvm.kernels.gamma import Moments
    >>> plain({1: Moments(weight=2.0)})
    {'keys': [1], 'values': [{'record': 'Moments', 'weight': 2.0, 'mean': 0.0, 'variance': 0.0}]}
    >>> restored(plain({1: Moments(weight=2.0)}))
    {1: Moments(weight=2.0, mean=0.0, variance=0.0)}
    """
    name = type(value).__name__
    if type(value) is _RECORDS.get(name):
        names = [one.name for one in fields(value)] if is_dataclass(value) else value._fields
        return {"record": name, **{key: plain(getattr(value, key)) for key in names}}
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        values = list(map(plain, value.values()))
        if all(type(key) is str and key not in _MARKS for key in value):
            return dict(zip(value, values, strict=True))
        return {"keys": list(value), "values": values}
    return value


def restored(value: Any) -> Any:
    """The value that ``plain`` was given."""
    if type(value) in (list, tuple):
        return type(value)(map(restored, value))
    if type(value) is not dict:
        return value
    if value.keys() == {"keys", "values"}:
        return dict(zip(value["keys"], restored(value["values"]), strict=True))
    values = {key: restored(one) for key, one in value.items()}
    return _RECORDS[values.pop("record")](**values) if "record" in values else values
