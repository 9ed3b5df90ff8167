"""Checks of input: rows, targets and weights, class weights, chunks of a stream.

Also the constraints of parameters that several estimators share.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from sys import float_info
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils._missing import is_pandas_na
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, validate_data

from aesvm.gpu.rows import is_on_gpu
from aesvm.kernels import KERNELS
from aesvm.kernels.blocks import cached_rows
from aesvm.machines.processor import processor
from aesvm.out_of_core.source import reader_of
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import as_seconds
from aesvm.runtime.scikit_learn import check_sample_weight
from aesvm.runtime.threads import Threads
from aesvm.runtime.warn import ParameterError


class Interval(_Interval):
    """An interval of numbers; of reals, of those that a float can hold."""

    def is_satisfied_by(self, val: Any) -> bool:
        try:
            return super().is_satisfied_by(val) and (self.type is Integral or isfinite(val))
        except (
            OverflowError,
            TypeError,
        ):  # 10**400, and fractions, which arrays do not compute with
            return False


class Seconds(Interval):
    """A time that is not negative: a real number of any type."""

    def __init__(self) -> None:
        super().__init__(Real, 0.0, None, closed="left")

    def is_satisfied_by(self, val: Any) -> bool:
        return super().is_satisfied_by(as_seconds(val))


#: Constraints of the parameters of an estimator with a kernel.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "device": "no_validation",  # check_name says which there are
    "n_jobs": [
        Interval(Integral, None, -1, closed="right"),
        Interval(Integral, 1, None, closed="left"),
        None,
    ],
    "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
}

#: Constraints of an estimator that reduces rows.
REDUCTION_CONSTRAINTS: dict[str, Any] = {
    **KERNEL_CONSTRAINTS,
    "hull_tol": [Interval(Real, 0.0, None, closed="left")],
    "subset_size": [Interval(Integral, 1, None, closed="left")],
    "partition_size": [Interval(Integral, 1, None, closed="left")],
    "partition": [StrOptions({"distance", "sequence"})],
}

#: Constraints of an estimator that takes rows in chunks.
STREAM_CONSTRAINTS: dict[str, list] = {
    "memory_budget": [Interval(Integral, 1, None, closed="left"), str, None],
    "on_overflow": [StrOptions({"raise", "loosen"})],
}

#: Weights with a larger sum are refused: sums over the rows must stay finite.
_LARGEST_WEIGHT = 1e290

#: Targets that are larger are refused: sums of their squares must stay finite.
_LARGEST_TARGET = 1e140

#: Several threads look for infinite and missing values in arrays of at least this many values.
MANY_VALUES = 2**22

#: How errors about values that are not numbers begin.
_NO_NUMBERS = ("could not convert", "float() argument", "The DType")

#: The most columns that a message names; it counts the others.
_MOST_NAMED = 5

#: Makes a chunk of valid rows, unchecked y and weights, and the name of the estimator. It is a
#: function at the top of a module: workers of a cluster get its name.
ChunkOf = Callable[[Any, Any, Any, str], WeightedRows]

_ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32], "order": "C"}


def validated_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Rows as a contiguous array or a CSR matrix, each entry listed once; float32 stays that.

    ``reset`` is scikit-learn's: whether these are the rows to fit to.
    """
    if isinstance(X, str | PathLike):
        raise ValueError(
            f"X={str(X)!r} is a name: pass the rows themselves, as an array; or to fit_stream a "
            f"reader of the file, {reader_of(X)}."
        )
    _check_not_masked(X, "X")
    sparse = False if estimator.kernel == "precomputed" else "csr"
    try:
        with np.errstate(invalid="ignore"):  # sums of large numbers, to look for infinite ones
            check = partial(validate_data, estimator, X, accept_sparse=sparse, reset=reset, **_ROWS)
            is_large = isinstance(X, np.ndarray) and X.size >= MANY_VALUES
            rows = check(ensure_all_finite=not is_large)
            if is_large and not _are_finite(rows, estimator.n_jobs):
                rows = check()  # which says what is wrong with them
    except OverflowError as error:
        raise ValueError(f"X has a number that is too large: {error}.") from error
    except (TypeError, ValueError) as error:
        raise _with_columns(error, X) from error
    return _canonical(rows)


def _are_finite(rows: NDArray, n_jobs: int | None) -> bool:
    """Whether sums of the values are finite: then there are no infinite and no missing ones.

    Large finite values may overflow in a sum. The caller then looks at each of them.
    """
    step = cached_rows(rows.itemsize * rows.shape[1])

    def is_finite(start: int) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(rows[start : start + step].sum()))

    with Threads(n_jobs) as run:
        return all(run(is_finite, range(0, len(rows), step)))


def from_gpu(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> tuple:
    """Rows, targets and weights as arrays of the host."""
    names = {"X": X, "y": y, "sample_weight": sample_weight}
    return tuple(_from_gpu(estimator, values, name) for name, values in names.items())


def _from_gpu(estimator: Any, values: Any, name: str) -> Any:
    if not is_on_gpu(values):
        # scikit-learn would look for NumPy's types in the other library
        is_foreign = hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray)
        dispatches = get_config().get("array_api_dispatch", False)
        return np.asarray(values) if is_foreign and dispatches else values
    return processor(estimator.device).to_host(values, name)


def rows_of_chunk(estimator: Any, X: Any, *, first: bool) -> Any:
    """``validated_rows`` of a chunk, which need not repeat the names of columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return validated_rows(estimator, X, reset=first)


def rows_in_place(X: Any) -> Any:
    """``validated_rows`` without an estimator: of rows on a worker."""
    try:
        return _canonical(check_array(X, accept_sparse="csr", input_name="X", **_ROWS))
    except (TypeError, ValueError) as error:
        raise _with_columns(error, X) from error


def _with_columns(error: Exception, X: Any) -> Exception:
    """An error about values of X, with the names of their columns."""
    message = str(error)
    no_numbers = message.startswith(_NO_NUMBERS)
    if not no_numbers and "contains NaN" not in message and "contains infinity" not in message:
        return error
    columns = [name for name, values in _columns(X) if _at_fault(values, no_numbers)]
    where = ", ".join(repr(name) for name in columns[:_MOST_NAMED])
    if len(columns) > _MOST_NAMED:
        where += f" and {len(columns) - _MOST_NAMED:,} other columns"
    if no_numbers:
        where = f" in {where}" if where else ""
        message = f"X has values that are not numbers{where}: {message}."
    elif where:
        message = f"X has missing or infinite values in {where}. {message}"
    # scikit-learn's checks tell the two kinds of errors apart
    return TypeError(message) if isinstance(error, TypeError) else ValueError(message)


def _columns(X: Any) -> Iterator[tuple[Any, NDArray]]:
    """The columns of a table, by name; none of an array."""
    names = getattr(X, "column_names", getattr(X, "columns", None))  # of pyarrow, and of others
    if names is None:
        return
    for name in dict.fromkeys(names):
        yield name, np.asarray(X[name])


def _at_fault(values: NDArray, no_numbers: bool) -> bool:
    """Whether a column has values that are not numbers, or else missing or infinite ones."""
    if values.dtype.kind in "biu":
        return False
    if values.dtype.kind in "mM":
        return no_numbers
    if values.dtype.kind in "fc":
        return not no_numbers and not np.isfinite(values).all()
    return any(_fault_of(value) == no_numbers for value in values.ravel().tolist())


def _fault_of(value: Any) -> bool | None:
    """True of a value that is not a number, False of a missing or infinite one, else None."""
    if _is_missing(value):
        return False
    try:
        return None if np.isfinite(float(value)) else False
    except (TypeError, ValueError):
        return True


def _check_not_masked(values: Any, name: str) -> None:
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values, which would be used: fill them, or drop them.")


def _canonical(X: Any) -> Any:
    if not sp.issparse(X):
        return X
    _check_csr(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_csr(X: Any) -> None:
    """Refuse a matrix whose arrays do not fit together, which SciPy does not check."""
    ends, indices = X.indptr, X.indices
    sound = len(ends) == X.shape[0] + 1 and ends[0] == 0 and ends[-1] <= len(indices)
    if not sound or (np.diff(ends) < 0).any():
        raise ValueError("X is sparse, and its indptr does not count up to its stored values.")
    used = indices[: ends[-1]]
    if len(used) and not 0 <= used.min() <= used.max() < X.shape[1]:
        raise ValueError(
            f"X is sparse, with column indices from {used.min()} to {used.max()}, and has "
            f"{X.shape[1]} columns."
        )


def check_given(y: Any, name: str, what: str) -> None:
    """Refuse a missing y; ``name``: of the estimator; ``what``: what to pass."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None: pass {what}.")


def valid_values(y: Any, X: Any, name: str) -> NDArray[np.float64]:
    """The target of each row, a number; ``name``: of the estimator."""
    check_given(y, name, "the values to predict")
    try:
        y = np.asarray(_check_y(y, y_numeric=True, estimator=name), dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        if re.search(r"\by\b", str(error)):
            raise
        raise ValueError(
            f"y must be numbers, one for each row and none missing: {error}"
        ) from error
    check_consistent_length(X, y)
    largest = float(np.abs(y).max(initial=0.0))
    if largest > _LARGEST_TARGET:
        raise ValueError(
            f"y has values as large as {largest:.3g}: scale y to less than {_LARGEST_TARGET:g}."
        )
    return y


def valid_classes(y: Any, X: Any, name: str = "") -> NDArray:
    """The class of each row; ``name``: of the estimator."""
    check_given(y, name, "the classes")
    _check_not_masked(y, "y")
    check_consistent_length(X, y)
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biu" and y.flags.c_contiguous:
        return y  # whole numbers are classes: no need to look
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "V":
        raise ValueError(f"y has the structured type {y.dtype}: pass one class for each row.")
    if y.dtype.kind not in "biu":
        check_labels(y, "y")
        with np.errstate(invalid="ignore"):  # it tries whether they are whole numbers
            check_classification_targets(y)
    return y


def check_labels(labels: NDArray, name: str) -> None:
    """Refuse missing labels, and labels without an order; ``name``: of the argument."""
    try:
        missing = _missing(labels)
        if labels.dtype.kind == "O" and not len(missing):
            sorted(set(labels.tolist()))
    except TypeError as error:
        raise ValueError(
            f"{name} has classes of different kinds ({labels[:5].tolist()}, ...): use numbers, or "
            "strings."
        ) from error
    if len(missing):
        raise ValueError(
            f"{name} has missing labels (None, NaN or NA): {len(missing):,} of {len(labels):,}, "
            f"the first at place {missing[0]}. Leave them out, or give them a label."
        )


def _missing(labels: NDArray) -> NDArray[np.intp]:
    """Positions of missing labels."""
    if labels.dtype.kind in "fmM":
        return np.flatnonzero(labels != labels)
    if labels.dtype.kind != "O" or not any(map(_is_missing, set(labels.tolist()))):
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero([_is_missing(label) for label in labels])


def _is_missing(label: Any) -> bool:
    return label is None or is_pandas_na(label) or bool(label != label)


def valid_weights(
    sample_weight: Any, X: Any, *, all_may_be_zero: bool = False
) -> NDArray[np.float64]:
    """The weight of each row; a copy where all may be zero, as in a chunk of a stream."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    if np.asarray(sample_weight).dtype.kind == "c":
        raise ValueError("sample_weight has complex numbers: weights must be real.")
    try:
        weights = check_sample_weight(
            sample_weight, X, copy=all_may_be_zero, all_may_be_zero=all_may_be_zero
        )
    except OverflowError as error:
        raise ValueError(f"sample_weight has a number that is too large: {error}.") from error
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not total < _LARGEST_WEIGHT:
        raise ParameterError(
            "sample_weight",
            f"sample_weight adds up to {total:.3g}: weights must be finite, with a sum of less "
            f"than {_LARGEST_WEIGHT:g}.",
        )
    return weights


def check_two_classes(
    classes: NDArray, labels: NDArray[np.intp], weights: NDArray[np.float64]
) -> None:
    """Refuse rows of fewer than two classes; ``labels`` are classes by number."""
    present = np.flatnonzero(np.bincount(labels[weights > 0]))
    if len(present) < 2:
        where = "" if len(classes) < 2 else " among the rows of non-zero sample_weight"
        raise ValueError(
            f"y has {len(present)} class{where} ({classes[present].tolist()}): "
            "classification needs at least two classes."
        )


def class_weights(
    given: dict[Any, float] | str | None, classes: NDArray, counts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Factors of C by class, from SVC's ``class_weight``.

    Classes that a dict does not name have 1. A class without rows counts as one row.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.estimators.validation import class_weights
    >>> class_weights("balanced", np.array(["no", "yes"]), np.array([30, 10]))
    array([0.66666667, 2.        ])
    """
    if given is None:
        return np.ones(len(classes))
    if not isinstance(given, dict):
        rows = np.maximum(counts, 1)
        return rows.sum() / (len(classes) * rows)
    known = classes.tolist()
    unknown = [label for label in given if label not in known]
    if unknown and not all(label in given for label in known):
        raise ValueError(
            f"class_weight={given} has weights for {unknown}, which are not "
            f"among the classes of y: use {known}."
        )
    wrong = {
        label: weight
        for label, weight in given.items()
        if not isinstance(weight, Real) or not 0 <= weight <= float_info.max
    }
    if wrong:
        raise ValueError(f"class_weight has {wrong}: weights must be finite, non-negative numbers.")
    return np.array([float(given.get(label, 1.0)) for label in known])


def valid_chunk(
    chunk_of: ChunkOf, estimator: Any, X: Any, y: Any, sample_weight: Any, first: bool
) -> WeightedRows:
    """A chunk of valid rows of a stream, made by ``chunk_of``."""
    X, y, sample_weight = from_gpu(estimator, X, y, sample_weight)
    rows = rows_of_chunk(estimator, X, first=first)
    return chunk_of(rows, y, sample_weight, type(estimator).__name__)


def with_classes(rows: Any, y: Any, sample_weight: Any, name: str) -> WeightedRows:
    """Rows that must have classes."""
    classes = valid_classes(y, rows, name)
    return WeightedRows.of_chunk(rows, classes, _weights(rows, sample_weight), classes)


def with_or_without_classes(rows: Any, y: Any, sample_weight: Any, name: str) -> WeightedRows:
    """Rows that may have classes; without, all are of class zero."""
    classes = _one_group(rows) if y is None else valid_classes(y, rows, name)
    return WeightedRows.of_chunk(rows, classes, _weights(rows, sample_weight), classes)


def with_values(rows: Any, y: Any, sample_weight: Any, name: str) -> WeightedRows:
    """Rows that must have numbers, and stand for each other together with them."""
    values, weights = valid_values(y, rows, name), _weights(rows, sample_weight)
    return WeightedRows.of_chunk(rows, values, weights, _one_group(rows))


def without_targets(rows: Any, y: Any, sample_weight: Any, name: str) -> WeightedRows:
    """Rows alone; y is ignored."""
    weights = _weights(rows, sample_weight)
    return WeightedRows.of_chunk(rows, np.ones(len(weights)), weights, _one_group(rows))


def _weights(rows: Any, sample_weight: Any) -> NDArray[np.float64]:
    return valid_weights(sample_weight, rows, all_may_be_zero=True)


def _one_group(rows: Any) -> NDArray[np.int8]:
    return np.zeros(rows.shape[0], dtype=np.int8)
