"""Values as JSON and arrays, and back: those of a list, and no others.

Numbers, strings, None and lists are themselves. Everything else is an object of one name, which
says what it is: ``{"tuple": [...]}``, ``{"array": 3}``, ``{"record": ["Tally", {...}]}``. The
classes that may be named are in the tables below; nothing else is ever imported, or called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from aesvm.bases.compress import Compression
from aesvm.io.container import KINDS
from aesvm.kernels import KernelSpec
from aesvm.kernels.joint import TargetScale
from aesvm.kernels.moments import Moments
from aesvm.machines.results import Terms
from aesvm.out_of_core.merge_tree import MergeTree
from aesvm.out_of_core.stream import Stream, StreamedModel
from aesvm.out_of_core.tally import Tally
from aesvm.out_of_core.weighted_rows import WeightedRows

#: Where the estimators are that files may have, by name: they are above this folder.
ESTIMATORS = {
    "AESVC": "aesvm.svc",
    "AENuSVC": "aesvm.nu_svc",
    "AESVR": "aesvm.svr",
    "AENuSVR": "aesvm.svr",
    "AEOneClassSVM": "aesvm.one_class",
    "RepresentativeSet": "aesvm.representative_set",
    "DaskAESVC": "aesvm.dask.estimators",
    "DaskAENuSVC": "aesvm.dask.estimators",
    "DaskAESVR": "aesvm.dask.estimators",
    "DaskAENuSVR": "aesvm.dask.estimators",
    "DaskAEOneClassSVM": "aesvm.dask.estimators",
    "DaskRepresentativeSet": "aesvm.dask.representative_set",
    "Pipeline": "sklearn.pipeline",
    "StandardScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "MaxAbsScaler": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
}

#: Values of ours that models keep, of streams and of what was done to them.
_RECORDS: dict[str, Callable] = {
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

#: What ``skops.io.load(file, trusted=SKOPS_TYPES)`` must be told to trust for any model of this
#: package; without sparse rows, streams and compression, an estimator and ``RepresentativeSet`` do.
SKOPS_TYPES = [
    *(f"{module}.{name}" for name, module in ESTIMATORS.items() if module.startswith("aesvm")),
    *(f"{one.__module__}.{name}" for name, one in _RECORDS.items()),
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
]

_SPARSE = {"csr_array": sp.csr_array, "csr_matrix": sp.csr_matrix}
_SEQUENCES: dict[str, Callable] = {"tuple": tuple, "set": set, "frozenset": frozenset}

_NOT_FINITE = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}


class Encoder:
    """Makes JSON of values, and collects their arrays, each of them once."""

    def __init__(self) -> None:
        self.arrays: list[NDArray] = []
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, name: str) -> Any:
        """A value as JSON; ``name``: what errors call it."""
        if isinstance(value, np.generic):
            return {"scalar": self._add(np.asarray(value), name)}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        for kind, cls in _SPARSE.items():
            if type(value) is cls:
                parts = [value.data, value.indices, value.indptr]
                entries = [self._add(part, name) for part in parts]
                return {kind: [list(value.shape), *entries]}
        if isinstance(value, BaseEstimator):
            return {"estimator": self._estimator(value, name)}
        if type(value).__name__ in _RECORDS and type(value) is _RECORDS[type(value).__name__]:
            return {"record": [type(value).__name__, self._fields(value, name)]}
        if type(value) is list:
            return [self.encode(one, f"{name}[{at}]") for at, one in enumerate(value)]
        if type(value) is dict:
            pairs = value.items()
            return {
                "dict": [[self.encode(k, name), self.encode(v, f"{name}[{k!r}]")] for k, v in pairs]
            }
        if type(value).__name__ in _SEQUENCES and type(value) is _SEQUENCES[type(value).__name__]:
            each = [self.encode(one, f"{name}[{at}]") for at, one in enumerate(value)]
            return {type(value).__name__: each}
        raise _cannot_write(value, name)

    def _array(self, array: NDArray, name: str) -> Any:
        if array.dtype.kind != "O":
            return {"array": self._add(array, name)}
        values = [
            self.encode(one, f"{name}[{at}]") for at, one in enumerate(array.ravel().tolist())
        ]
        return {"objects": [list(array.shape), values]}

    def _add(self, array: NDArray, name: str) -> int:
        if array.dtype.kind not in KINDS or not array.dtype.itemsize:
            raise _cannot_write(array, name)
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)  # and so its id is not given to another
        return self._numbers[id(array)]

    def _fields(self, value: Any, name: str) -> dict[str, Any]:
        values = (
            {one.name: getattr(value, one.name) for one in fields(value)}
            if is_dataclass(value)
            else value._asdict()
        )
        return {key: self.encode(one, f"{name}.{key}") for key, one in values.items()}

    def _estimator(self, estimator: Any, name: str) -> dict[str, Any]:
        kind = type(estimator).__name__
        if kind not in ESTIMATORS or type(estimator) is not estimator_class(kind):
            raise _cannot_write(estimator, name)
        state = estimator.__getstate__()  # where a cluster's client is None
        parameters = {one: state[one] for one in estimator._get_param_names()}
        _check_no_memory(kind, parameters)
        fitted = {key: one for key, one in state.items() if _is_fitted_attribute(key)}
        return {
            "class": kind,
            "parameters": {
                key: self.encode(one, f"{kind}'s {key}") for key, one in parameters.items()
            },
            "fitted": {key: self.encode(one, f"{kind}'s {key}") for key, one in fitted.items()},
        }


class Decoder:
    """Makes values of JSON and arrays; what is not in its tables is a ValueError."""

    def __init__(self, arrays: list[NDArray]) -> None:
        self.arrays = arrays

    def decode(self, node: Any) -> Any:
        """The value that JSON stands for."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.decode(one) for one in node]
        ((kind, content),) = node.items()
        return self._of_kind(kind, content)

    def _of_kind(self, kind: str, content: Any) -> Any:
        if kind in ("array", "scalar"):
            array = self._taken(content)
            return array if kind == "array" else array[()]
        if kind in _SPARSE:
            return self._sparse(kind, *content)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self.decode(list(content)))
        if kind == "dict":
            return {self.decode(key): self.decode(value) for key, value in content}
        if kind == "float":
            return _NOT_FINITE[content]
        if kind == "objects":
            shape, values = content
            array = np.empty(len(values), dtype=object)
            array[:] = [self.decode(value) for value in values]
            return array.reshape(shape)
        if kind == "record":
            name, values = content
            record = _RECORDS[name](**{key: self.decode(one) for key, one in values.items()})
            if isinstance(record, WeightedRows):
                _check_rows(record)
            return record
        if kind == "estimator":
            return self._estimator(**content)
        raise ValueError(f"there is no {kind!r}")

    def _taken(self, number: Any) -> NDArray:
        if not isinstance(number, int) or not 0 <= number < len(self.arrays):
            raise ValueError(f"there is no array {number!r}")
        return self.arrays[number]

    def _sparse(self, kind: str, shape: Any, *entries: Any) -> Any:
        parts = tuple(map(self._taken, entries))
        found = _SPARSE[kind](parts, shape=tuple(shape))
        found.check_format(full_check=True)  # indices that lie would be read out of bounds
        return found

    def _estimator(self, **content: Any) -> Any:
        parameters, fitted = content["parameters"], content["fitted"]
        cls = estimator_class(content["class"])
        unknown = sorted(set(parameters) - set(cls._get_param_names()))
        if unknown:
            raise ValueError(f"{content['class']} has no parameter {unknown[0]!r}")
        given = {name: self.decode(one) for name, one in parameters.items()}
        _check_no_memory(content["class"], given)
        estimator = cls(**given)
        estimator._validate_params()
        for name, value in fitted.items():
            if not _is_fitted_attribute(name):
                raise ValueError(f"{name} is no fitted attribute")
            setattr(estimator, name, self.decode(value))
        return estimator


def _check_no_memory(kind: str, parameters: dict[str, Any]) -> None:
    """Refuse a pipeline that keeps fitted steps in a folder: they are pickled there."""
    if kind == "Pipeline" and parameters.get("memory") is not None:
        raise ValueError(
            f"Pipeline's memory is {parameters['memory']!r:.80}, and what is kept there is "
            "pickled, which models in files do without: set it to None."
        )


def _check_rows(rows: WeightedRows) -> None:
    """Refuse columns of different lengths, which compiled code would read beyond."""
    columns = [rows.targets, rows.groups, rows.weights, rows.indices]
    columns += [] if rows.positions is None else [rows.positions]
    if any(column.shape != (rows.X.shape[0],) for column in columns):
        raise ValueError("columns of a set are not of one length")
    if rows.X.dtype not in (np.float32, np.float64) or rows.weights.dtype != np.float64:
        raise ValueError("rows of a set are no numbers")


def estimator_class(name: str) -> Any:
    """The class of an estimator that files may have."""
    if name not in ESTIMATORS:
        raise ValueError(f"there is no estimator {name!r}")
    return getattr(import_module(ESTIMATORS[name]), name)


def _is_fitted_attribute(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__")


def _cannot_write(value: Any, name: str) -> ValueError:
    what = "a callable" if callable(value) else f"of {type(value).__name__}"
    return ValueError(
        f"{name} is {what} ({value!r:.80}), which a model file cannot hold: it has numbers, "
        "strings, arrays and models of aesvm, and no code. Pickle can."
    )
