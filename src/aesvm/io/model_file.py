"""Model files: skops' format, read without running anything that a file says.

skops writes an estimator as names of types, numbers and arrays in a zip archive, and reads back
types that are trusted, and no others. The lists below are what we add to those that it trusts by
itself.

The state of our estimators is plain values: numbers, strings, arrays, lists and dicts of names.
Pickle, copies and model files hold this state. A record of ours, such as a stream that may go on,
is a dict of its fields with its name; a dict is two lists where its keys are no strings, or would
be taken for such marks.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from inspect import signature
from types import ModuleType
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.validation import check_is_fitted

from aesvm import __version__
from aesvm.bases.compress import Compression
from aesvm.io.files import written_whole
from aesvm.kernels import KernelSpec
from aesvm.kernels.gamma import Moments
from aesvm.kernels.joint import TargetScale
from aesvm.machines.results import Terms
from aesvm.out_of_core.merge_tree import MergeTree
from aesvm.out_of_core.source import Tally
from aesvm.out_of_core.stream import Stream, StreamedModel
from aesvm.out_of_core.weighted_rows import WeightedRows

#: Our types that a file may name: the public estimators.
OURS = [
    "aesvm.svc.AESVC",
    "aesvm.svc.AENuSVC",
    "aesvm.svr.AESVR",
    "aesvm.svr.AENuSVR",
    "aesvm.one_class.AEOneClassSVM",
    "aesvm.representative_set.RepresentativeSet",
    "aesvm.dask.estimators.DaskAESVC",
    "aesvm.dask.estimators.DaskAENuSVC",
    "aesvm.dask.estimators.DaskAESVR",
    "aesvm.dask.estimators.DaskAENuSVR",
    "aesvm.dask.estimators.DaskAEOneClassSVM",
    "aesvm.dask.estimators.DaskRepresentativeSet",
    "aesvm.model_selection.calibration.SharedCalibration",
    "aesvm.model_selection.search.AEGridSearchCV",
    "aesvm.model_selection.search.AEHalvingGridSearchCV",
    "aesvm.model_selection.search.AERandomizedSearchCV",
    "aesvm.tabular.DateParts",
    "aesvm.tabular.LevelNames",
    "aesvm.tabular.TableColumns",
]

#: Types of other packages that skops does not trust by itself: fitted pipelines, calibrated
#: classifiers and searches hold them.
_OTHERS = [
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer._RemainderColsList",  # of scikit-learn 1.6
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.GroupShuffleSplit",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.PredefinedSplit",
    "sklearn.model_selection._split.RepeatedKFold",
    "sklearn.model_selection._split.RepeatedStratifiedKFold",
    "sklearn.model_selection._split.ShuffleSplit",
    "sklearn.model_selection._split.StratifiedGroupKFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.model_selection._split.TimeSeriesSplit",
    "sklearn.utils._bunch.Bunch",
]

#: How a zip archive begins.
_MAGIC = b"PK\x03\x04"

#: The member of an archive with the versions that wrote it.
_VERSIONS = "aesvm.json"


def save(estimator: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator to a file, from which :func:`aesvm.load` reads it.

    The file is replaced as a whole. It holds names of types, numbers and arrays, in the format of
    skops. A model of a stream keeps what it takes to go on with ``partial_fit``.

    Parameters
    ----------
    estimator : object
        An estimator of this package or of scikit-learn: a pipeline, a search or a calibrated
        classifier with one of ours, say. It must hold no function but NumPy's ufuncs and
        scikit-learn's metrics.
    path : str or path
        The file.

    Raises
    ------
    ValueError
        Where the estimator holds what a file cannot; it is named.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import aesvm
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = make_pipeline(StandardScaler(), aesvm.AESVC()).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     aesvm.save(model, Path(folder, "moons.aesvm"))
    ...     loaded = aesvm.load(Path(folder, "moons.aesvm"))
    >>> bool((loaded.decision_function(X) == model.decision_function(X)).all())
    True
    """
    import skops.io  # which imports all of scikit-learn: a second that only files should cost
    from skops.io.exceptions import UnsupportedTypeException

    if not isinstance(estimator, BaseEstimator):
        raise ValueError(f"estimator={estimator!r:.80} is no estimator: these can be saved.")
    check_is_fitted(estimator)
    bare = _bare(estimator)
    for part in _parts(bare):
        _check_parameters(part)
    _check_keys(bare)
    content = io.BytesIO()
    try:
        skops.io.dump(bare, content)
    except UnsupportedTypeException as error:
        raise ValueError(f"{estimator!r:.80} cannot be saved: {error}") from error
    if unknown := _untrusted(content):
        raise ValueError(
            f"{estimator!r:.80} cannot be saved: it holds {unknown}. A model file holds estimators "
            "of aesvm and scikit-learn, and no code; pickle can."
        )
    with ZipFile(content, "a") as archive:
        versions = {"aesvm": __version__, "scikit-learn": sklearn.__version__}
        archive.writestr(_VERSIONS, json.dumps(versions))
    with written_whole(path) as file:
        file.write(content.getbuffer())


def load(path: str | os.PathLike) -> Any:
    """Read a fitted estimator from a file that :func:`aesvm.save` has written.

    Nothing in the file is executed: it can name the estimators of this package and of
    scikit-learn, and other types are refused.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    estimator : object
        It predicts what the one that was saved did, to the last bit.

    Raises
    ------
    ValueError
        Where the file is no model file, is damaged, names a type that is not trusted, or was
        written by a newer aesvm; it says which.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import aesvm
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.aesvm")
    ...     aesvm.AEOneClassSVM(nu=0.1).fit(X).save(path)
    ...     model = aesvm.load(path)
    >>> model.nu
    0.1
    """
    import skops.io  # see save
    from skops.io.exceptions import UntrustedTypesFoundException

    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: the name of a file is needed.")
    name = os.fspath(path)
    if not is_model_file(path):
        raise ValueError(f"{name}: this is no model file of aesvm.")
    with open(path, "rb") as file:
        try:
            with ZipFile(file) as archive:
                versions = json.loads(archive.read(_VERSIONS))
            newer = _release(versions["aesvm"]) > _release(__version__)
        except Exception as error:  # whatever damaged bytes make of an archive, and of JSON
            raise ValueError(
                f"{name}: the file is truncated or damaged, or no model file of aesvm ({error})."
            ) from error
        written = ", ".join(f"{package} {version}" for package, version in versions.items())
        if newer:
            raise ValueError(
                f"{name}: the file was written with {written}, which is newer than this aesvm, "
                f"{__version__}: update aesvm to read it."
            )
        try:
            estimator = skops.io.load(file, trusted=_trusted())
            check_is_fitted(estimator)
            check_model(estimator)
        except UntrustedTypesFoundException as error:
            raise ValueError(
                f"{name}: the file names {_untrusted(file)}. A model file holds estimators of "
                "aesvm and scikit-learn, and no code: it is refused."
            ) from error
        except (MemoryError, ImportError):
            raise
        except Exception as error:  # as above, and whatever a forged file says that is not so
            raise ValueError(
                f"{name}: the file is damaged: what it says does not fit together ({error}). It "
                f"was written with {written}."
            ) from error
    return estimator


def is_model_file(path: str | os.PathLike) -> bool:
    """Whether a file begins as a model file does."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


@cache
def _trusted() -> list[str]:
    """All types that a file may name, beside those that skops trusts by itself."""
    metrics = (get_scorer(name)._score_func for name in get_scorer_names())
    return [*OURS, *_OTHERS, *{f"{one.__module__}.{one.__name__}" for one in metrics}]


def _untrusted(file: IO[bytes]) -> str:
    """The types that a file may not name; an empty string where there are none."""
    import skops.io

    return ", ".join(sorted({*skops.io.get_untrusted_types(file=file)} - {*_trusted()}))


def _release(version: str) -> tuple[int, ...]:
    """The major and minor number of a version: files of others are read alike."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def check_model(estimator: Any) -> None:
    """Refuse what does not fit together in an estimator, or in others that it holds.

    Compiled code would read beyond arrays, and predictions would fail.
    """
    for part in _parts(estimator):
        if sp.issparse(part):
            part.check_format(full_check=True)
        elif isinstance(part, WeightedRows):
            _check_rows(part)
        _check_parameters(part)
        if _is_ours(part) and hasattr(part, "support_"):
            _check_machines(part)


def _bare(estimator: Any) -> Any:
    """A copy without callbacks and metadata requests, which are no part of a model."""
    arrays = (part for part in _parts(estimator) if sp.issparse(part) or _is_array(part))
    bare = deepcopy(estimator, {id(array): array for array in arrays})
    for part in _parts(bare):
        for name in ("_skl_callbacks", "_metadata_request"):
            _attributes(part).pop(name, None)
    return bare


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object


def _check_keys(estimator: Any) -> None:
    """Refuse dicts whose keys skops would read as others: it makes True of False."""
    for part in _parts(estimator, leave_out=_is_plain):
        for key in part if isinstance(part, dict) else ():
            if isinstance(key, bool) or not isinstance(key, str | int | float | np.number):
                raise ValueError(
                    f"{estimator!r:.80} cannot be saved: it holds a dict with the key {key!r:.80}, "
                    "and keys in a model file are strings or numbers."
                )


def _is_plain(value: Any) -> bool:
    """Whether a value's state has no such dicts, whatever itself has."""
    return getattr(type(value), "__setstate__", None) is set_plain_state


def _parts(
    value: Any, seen: set[int] | None = None, leave_out: Callable[[Any], bool] | None = None
) -> Iterator[Any]:
    """A value, and all values that it holds, each of them once."""
    seen = set() if seen is None else seen
    if id(value) in seen or (leave_out is not None and leave_out(value)):
        return
    seen.add(id(value))
    yield value
    held: Iterable[Any] = ()
    if isinstance(value, dict):
        held = value.values()
    elif isinstance(value, list | tuple | set):
        held = value
    elif isinstance(value, np.ndarray):
        held = () if _is_array(value) else value.flat
    else:
        held = [*_attributes(value).values()]
    for one in held:
        yield from _parts(one, seen, leave_out)


def _attributes(value: Any) -> dict[str, Any]:
    is_object = not (sp.issparse(value) or isinstance(value, type | ModuleType))
    return getattr(value, "__dict__", {}) if is_object else {}


def _is_ours(value: Any) -> bool:
    return isinstance(value, BaseEstimator) and type(value).__module__.startswith("aesvm.")


def _check_parameters(estimator: Any) -> None:
    """Refuse parameters that are not what they may be, and a folder of pickles.

    Also whole numbers of more than 64 bits: nothing that computes takes them.
    """
    name = type(estimator).__name__
    if isinstance(estimator, int) and not -(2**63) <= estimator < 2**64:
        raise ValueError(f"it holds a whole number of {estimator.bit_length():,} bits")
    if _is_ours(estimator):
        estimator._validate_params()
        for key in vars(estimator):
            method = getattr(type(estimator), key, None)
            if callable(method) or isinstance(method, property):
                raise ValueError(f"{key} of {name} is no value")
    memory = getattr(estimator, "memory", None)
    if isinstance(estimator, BaseEstimator) and memory is not None:
        raise ValueError(
            f"{name}'s memory is {memory!r:.80}, and what is kept there is pickled, which model "
            "files do without: set it to None, or save the estimator inside, such as the "
            "best_estimator_ of a search."
        )


def _check_rows(rows: WeightedRows) -> None:
    """Refuse columns of different lengths."""
    columns = [rows.targets, rows.groups, rows.weights, rows.indices]
    columns += [] if rows.positions is None else [rows.positions]
    if any(column.shape != (rows.X.shape[0],) for column in columns):
        raise ValueError("columns of a set are not of one length")
    if rows.X.dtype not in (np.float32, np.float64) or rows.weights.dtype != np.float64:
        raise ValueError("rows of a set are no numbers")


def _check_machines(estimator: Any) -> None:
    """Refuse fitted attributes that do not fit each other."""
    support, vectors, dual = estimator.support_, estimator.support_vectors_, estimator.dual_coef_
    intercept, n_support = np.asarray(estimator.intercept_), np.asarray(estimator.n_support_)
    n_classes = len(estimator.classes_) if hasattr(estimator, "classes_") else 2
    n_pairs = n_classes * (n_classes - 1) // 2
    matrix = estimator.kernel == "precomputed"
    numbers = [dual.data if sp.issparse(dual) else dual, intercept, float(estimator.gamma_)]
    numbers += [] if matrix else [vectors.data if sp.issparse(vectors) else vectors]
    wanted = {
        "support_": support.ndim == 1 and support.dtype.kind in "iu",
        "support_vectors_": vectors.dtype in (np.float32, np.float64)
        and (matrix or vectors.shape == (len(support), estimator.n_features_in_)),
        "dual_coef_": dual.shape == (n_classes - 1, len(support)) and dual.dtype == np.float64,
        "intercept_": intercept.shape == (n_pairs,) and intercept.dtype == np.float64,
        "n_support_": n_support.dtype.kind in "iu"
        and n_support.shape == (n_classes if hasattr(estimator, "classes_") else 1,)
        and n_support.min() >= 0
        and int(n_support.sum()) == len(support),
        "numbers that are finite": all(np.isfinite(one).all() for one in numbers),
    }
    ties = getattr(estimator, "tie_order_", None)
    if ties is not None:
        wanted["tie_order_"] = np.array_equal(np.sort(ties), np.arange(n_classes))
    if matrix and len(support):
        wanted["support_"] &= 0 <= support.min() <= support.max() < estimator.n_features_in_
    if hasattr(estimator, "_trained_on_"):
        terms = estimator._trained_on_["multipliers"]
        ends, places = terms["ends"], terms["rows"]
        wanted["_trained_on_"] = (
            len(places) == len(terms["coefs"]) == int(ends.max(initial=0))
            and bool((np.diff(ends, prepend=0) >= 0).all())
            and (not len(places) or 0 <= places.min() <= places.max() < estimator.shape_fit_[0])
        )
        str(estimator.certificate_)  # an error where its numbers are not those of a certificate
    for name, is_sound in wanted.items():
        if not is_sound:
            raise ValueError(f"{name} is not what the others say")


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

    Fractions and decimal numbers become floats.

    Examples
    --------
    >>> from aesvm.io.model_file import plain, restored
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
    return float(value) if isinstance(value, Fraction | Decimal) else value


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
