"""Bad input to every public class: a ValueError or TypeError that says of what, or a sound model.

A call has one or two things wrong with it, or odd: rows, classes, weights, or a parameter. Where it
is not refused, attributes and predictions are finite. Other errors, and warnings of NumPy about
its arithmetic, are faults.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from aesvm import (
    AESVC,
    AESVR,
    AENuSVC,
    AENuSVR,
    AEOneClassSVM,
    RepresentativeSet,
)
from aesvm.io import CSVReader, LibsvmReader, NpyReader, ParquetReader
from experiments import rivals as rival_classes
from tests.fuzz.examples import few

pytestmark = pytest.mark.fuzz

#: What the message about an argument has, besides its name: scikit-learn's words.
_OF_ROWS = ("column", "float()", "omplex")
_WORDS = {
    "X": (
        "data",
        "inhomogeneous",
        "array",
        "parse",
        "convert",
        "sample",
        "feature",
        "dtype",
        "NaN",
        "data",
        "k(x, x)",
        *_OF_ROWS,
    ),
    "y": ("class", "label", "array", "sample", "argument", "dtype", "sparse", "not supported"),
    "sample_weight": ("weight", "sample", "array", "convert", "argument"),
    "groups": ("sample", "array", "argument", "omplex"),
    "source": ("array", "X", "y", "class", "label", "weight", *_OF_ROWS),
    "kernel": ("callable", "X", "k(x, x)", "positional"),
}

#: Odd values for a parameter, each made anew.
_VALUES: list[Callable[[], Any]] = [
    *(lambda value=value: value for value in (None, "x", "", "scale", "balanced", b"rbf", True)),
    *(lambda value=value: value for value in (-1, 0, 1, 2, 3, 10**6, 2**63, 10**30, -(10**30))),
    *(lambda value=value: value for value in (0.5, 1e-320, 1e-9, 1e9, 1e308, -0.0, -2.5)),
    *(lambda value=value: value for value in (np.nan, np.inf, -np.inf, 1 + 2j, "5 kB", "1 XB")),
    *(lambda value=value: value for value in (np.float32(0.5), np.int64(3), np.bool_(True))),
    *(list, dict, set, tuple, object, type(None), int),
    lambda: np.array([1.0]),
    lambda: np.ones(3),
    lambda: {0: 2.0},
    lambda: {"a": None},
    lambda: np.random.RandomState(0),
]


def _products(A: NDArray, B: NDArray) -> NDArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return A @ B.T


def _dense(values: Any) -> NDArray:
    return values.toarray() if sp.issparse(values) else values


#: Callables that are no kernels, or odd ones.
_KERNELS: list[Callable] = [
    lambda A, B: None,
    lambda A, B: 1.0,
    lambda A, B: np.ones(len(A)),
    lambda A, B: np.ones((len(A), len(B), 1)),
    lambda A, B: np.ones((len(B), len(A) + 1)),
    lambda A, B: np.full((len(A), len(B)), np.nan),
    lambda A, B: np.full((len(A), len(B)), 1e200),
    lambda A, B: np.full((len(A), len(B)), "a"),
    lambda A, B: np.full((len(A), len(B)), None),
    lambda A, B: np.full((A.shape[0], B.shape[0]), 1j),
    lambda A, B: _dense(_products(A, B)).tolist(),
    lambda A, B: sp.csr_array(_products(A, B)),
    lambda A, B: _products(A, B) > 0,
    lambda A, B: -_products(A, B),
    lambda A, B: np.zeros((len(A), len(B))),
    lambda A, B: _products(A, B[::-1]),
    lambda A, B: np.clip(_products(A, B), -6e4, 6e4).astype(np.float16),
    lambda A: A,
]


class Choices:
    """What Hypothesis chooses in one example."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any]) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.integer(len(options))]

    def integer(self, low: int, end: int | None = None) -> int:
        """As ``Generator.integers`` has it: from a number, or zero, to below another."""
        low, end = (0, low) if end is None else (low, end)
        return self.draw(st.integers(low, end - 1))

    def chance(self, share: float) -> bool:
        return self.integer(100) < 100 * share


@contextmanager
def warnings_of_arithmetic_as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


@few(25)
@given(st.data())
@warnings_of_arithmetic_as_errors()
def test_fits_of_odd_input_are_refused_or_sound(data):
    _estimator(Choices(data.draw))


@few(25)
@given(st.data())
@warnings_of_arithmetic_as_errors()
def test_streams_of_odd_input_are_refused_or_sound(data):
    _stream(Choices(data.draw))


@few(25)
@given(st.data())
@warnings_of_arithmetic_as_errors()
def test_fitted_models_answer_odd_questions_or_refuse_them(data):
    _fitted(Choices(data.draw))


@few(25)
@given(st.data())
@warnings_of_arithmetic_as_errors()
def test_readers_refuse_odd_parameters_by_name(data):
    with tempfile.TemporaryDirectory() as folder:
        _reader(Choices(data.draw), Path(folder))


def _outcome(call: Callable[[], Any], wrong: set[str]) -> str:
    """Whether a call is refused, with a message about something that is wrong with it."""
    try:
        call()
    except (ValueError, TypeError) as error:
        words = [*wrong, *(word for name in wrong for word in _WORDS.get(name, ()))]
        if not any(re.search(rf"(?<!\w){re.escape(word)}", str(error)) for word in words):
            raise
        return "refused"
    return "accepted"


# Estimators


def _estimator(choose: Choices) -> None:
    wrong: set[str] = set()
    model = _made(choose, wrong)
    data = _data(choose, wrong, [*signature(model.fit).parameters])
    if _is(model, "kernel", "precomputed"):
        wrong |= {"X", "kernel"}  # rows need not be a kernel matrix
    if "nu" in model.get_params():
        wrong.add("nu")  # classes of different weights need not allow it
    if not wrong:
        return
    before = dict(vars(model))
    found = _outcome(lambda: model.fit(**data), wrong)
    if found == "refused":
        assert vars(model) == before, "a failed fit left something"
    else:
        _check_sound(model)
        rows = data["X"]
        if hasattr(model, "predict"):
            values = getattr(model, "decision_function", model.predict)(rows)
            assert np.isfinite(np.asarray(values)).all(), "decision values"
            if hasattr(model, "classes_"):
                assert np.isin(model.predict(rows), model.classes_).all(), "predictions"


def _is(model: Any, name: str, value: str) -> bool:
    """Whether a parameter, which may be anything, has a value."""
    own = getattr(model, name, None)
    return isinstance(own, str) and own == value


def _made(choose: Choices, wrong: set[str]) -> Any:
    """An estimator, often with a parameter that is odd."""
    rivals = [getattr(rival_classes, name) for name in rival_classes.__all__]
    family = [AESVC, AESVC, AENuSVC, AESVR, AENuSVR, AEOneClassSVM]
    kind = choose.pick([*family, RepresentativeSet, RepresentativeSet, choose.pick(rivals)])
    model = kind()
    names = list(model.get_params())
    if "gamma" in names:
        model.set_params(gamma=choose.pick([0.5, 0.5, "scale"]))
    if "kernel" in names and choose.chance(0.3):
        model.set_params(kernel=choose.pick(["linear", "poly", "sigmoid", "precomputed"]))
        if kind in rivals:
            wrong.add("kernel")  # not all of them can have any
    if "hull_tol" in names:
        model.set_params(hull_tol=choose.pick([0.0, 1e-3, 0.1]), subset_size=choose.integer(1, 30))
    if "refine" in names:
        model.set_params(refine=choose.pick([0, 1, "auto", "exact"]))
    for _ in range(choose.pick([0, 0, 1, 1, 2])):
        name = choose.pick(names)
        value = choose.pick(_VALUES)()
        if name == "kernel" and choose.chance(0.8):
            value = choose.pick(_KERNELS)
        if name in ("n_jobs", "epochs") and isinstance(value, int) and value > 100:
            continue  # so many are what was asked for
        if name == "verbose":
            continue
        model.set_params(**{name: value})
        wrong.add(name)
    return model


def _data(choose: Choices, wrong: set[str], names: list[str]) -> dict[str, Any]:
    """Rows, classes and weights; often one of them is odd."""
    n = choose.integer(2, 54)
    data: dict[str, Any] = {"X": choose.rng.normal(size=(n, 3)), "y": np.arange(n) % 3}
    data |= {"sample_weight": choose.rng.random(n) + 0.1, "groups": np.arange(n) % 2}
    if choose.chance(0.3):
        data["X"] = data["X"] @ data["X"].T
    for _ in range(choose.pick([0, 1, 1, 1, 2])):
        name = choose.pick(names)
        odd = {"X": _odd_rows, "sample_weight": _odd_weights}.get(name, _odd_classes)
        if name not in wrong:
            data[name] = _made_odd(odd, choose, data[name])
            wrong.add(name)
    if choose.chance(0.2):  # any two that do not fit together
        wrong |= {"X", "y", "sample_weight"}
        data["X"] = data["X"][: n - 1] if isinstance(data["X"], np.ndarray) else data["X"]
    return {name: value for name, value in data.items() if name in names}


def _made_odd(odd: Callable, choose: Choices, value: NDArray) -> Any:
    """NumPy may say what it likes of the making."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return odd(choose, value)
        except OverflowError:  # pandas does not take every integer
            return None


def _odd_rows(choose: Choices, X: NDArray) -> Any:
    at = choose.integer(len(X)), choose.integer(X.shape[1])
    changed = X.copy()
    changed[at] = choose.pick([np.nan, np.inf, -np.inf, 1e308, 1e200, 1e20, 1e-320, -1e308])
    sparse = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    frame = pd.DataFrame(X)
    wide = sp.csr_array(sparse)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    unsorted = sp.csr_array(
        (np.ones(2 * len(X)), np.tile([1, 0], len(X)), np.arange(len(X) + 1) * 2)
    )
    twice = sp.csr_array(
        (np.ones(2 * len(X)), np.zeros(2 * len(X), dtype=int), np.arange(len(X) + 1) * 2),
        shape=X.shape,
    )
    mixed = X.astype(object)
    mixed[at] = choose.pick([None, "a", "1.5", b"x", [1], {}, 1 + 1j, 10**400, pd.NA, np.nan, True])
    dtypes = ["f2", "f4", "g", "i1", "u8", "?", "c16", "O", "U9", "S9", ">f8", "m8[s]", "M8[s]"]
    options: list[Callable[[], Any]] = [
        *(lambda: changed,) * 4,
        *(lambda factor=factor: X * factor for factor in (0.0, 1e-200, 1e-30, 1e10, 1e150, 1e300)),
        lambda: sp.csr_array(changed),
        lambda: X.astype(choose.pick(dtypes)),
        lambda: sparse.astype(choose.pick(["f4", "i4", "?", "c16", "g"])),
        *(lambda: mixed, lambda: mixed.tolist(), lambda: pd.DataFrame(mixed)),
        *(lambda: X[:, 0], lambda: X[None], lambda: X[:0], lambda: X[:, :0], lambda: X[:1]),
        *(lambda: None, lambda: "rows.csv", lambda: 3.5, dict, list, object, lambda: iter(X)),
        *(lambda: X.tolist(), lambda: tuple(X), lambda: [*X.tolist(), [1.0]], lambda: [[]]),
        *(lambda: np.ma.masked_array(X, X > 1), lambda: np.asmatrix(X), lambda: X[::-1, ::-1]),
        lambda: np.asfortranarray(X),
        *(lambda: wide, lambda: unsorted, lambda: twice, lambda: sparse[:, :0], lambda: sparse[:0]),
        lambda: getattr(sparse, f"to{choose.pick(['csc', 'coo', 'dok', 'lil', 'bsr', 'dia'])}")(),
        *(lambda: sp.coo_array(X[:, 0]), lambda: sp.csr_array(X.shape), lambda: sp.csr_matrix(X)),
        lambda: frame.astype(
            choose.pick(["float32", "string", "category", "Float64", "Sparse[float]"])
        ),
        lambda: frame.mask(frame > 1).astype(choose.pick(["float64", "Float64", "object"])),
        lambda: frame.set_axis(["a"] * X.shape[1], axis=1),
        lambda: frame.rename(columns={0: "a", 1: None}),
        lambda: frame.assign(c=pd.Timestamp("2020-01-01")),
        lambda: frame[0],
        lambda: frame.set_index(np.arange(len(X))[::-1] * 7),
    ]
    return choose.pick(options)()


def _odd_classes(choose: Choices, y: NDArray) -> Any:
    at = choose.integer(len(y))
    mixed = y.astype(object)
    mixed[at] = choose.pick(["a", b"a", 1.5, np.nan, None, (), [1], {}, 10**30, pd.NA, True, 1j])
    number = y.astype(float)
    number[at] = choose.pick([np.nan, np.inf, 0.5, 1e300, 2.0**60, -0.0])
    names = np.array(["a", "b", "é" * 40])[y]
    dtypes = ["f2", "f4", "i1", "u8", "?", "O", "U9", "S9", "M8[s]", "m8[D]", "c16", ">i4", "g"]
    options: list[Callable[[], Any]] = [
        *(lambda: mixed, lambda: mixed.tolist(), lambda: pd.Series(mixed), lambda: number),
        *(lambda: names, lambda: names.astype(object), lambda: names.tolist()),
        *(lambda: y.astype(choose.pick(dtypes)),) * 3,
        *(lambda: y[:, None], lambda: np.c_[y, y], lambda: np.eye(3)[y], lambda: y[:-1]),
        *(lambda: y[:0], lambda: y * 0, lambda: np.arange(len(y)), lambda: y + 2**62),
        *(lambda: [int(v) + 2**70 for v in y], lambda: y + (1 - 2**63), lambda: y[None]),
        *(lambda: None, lambda: "y", lambda: 3, dict, object, lambda: iter(y), lambda: set(y)),
        *(lambda: pd.Series(y, index=y), lambda: pd.Series(y).astype("category")),
        lambda: (
            pd.Series(y).mask(pd.Series(y) == 1).astype(choose.pick(["Int64", "float", "object"]))
        ),
        lambda: pd.Series(names).astype(choose.pick(["string", "category"])),
        *(lambda: pd.DataFrame({"y": y}), lambda: pd.Categorical(names), lambda: sp.csr_array([y])),
        *(lambda: np.ma.masked_array(y, y == 1), lambda: tuple(y), lambda: [[v] for v in y]),
        lambda: np.array(list(zip(y, y, strict=True)), dtype="i4,i4"),
    ]
    return choose.pick(options)()


def _odd_weights(choose: Choices, weights: NDArray) -> Any:
    changed = weights.copy()
    changed[choose.integer(len(weights))] = choose.pick(
        [np.nan, np.inf, -1.0, 0.0, 1e300, 1e308, 1e-310, -0.0, 1e30, 1e-30]
    )
    options: list[Callable[[], Any]] = [
        *(lambda: changed,) * 4,
        *(lambda f=f: weights * f for f in (0.0, 1e300, 1e308, 1e-300, 1e-310, -1.0, 1e12, 1e-12)),
        *(
            lambda d=d: weights.astype(d)
            for d in ("f2", "f4", "i8", "?", "O", "U9", "c16", "M8[s]")
        ),
        *(lambda: weights[:-1], lambda: weights[:, None], lambda: weights[:0], lambda: "w"),
        *(lambda: 2, lambda: -1.5, lambda: np.nan, lambda: weights.tolist(), dict, object),
        *(lambda: [None, *weights[1:]], lambda: pd.Series(weights, index=weights), lambda: True),
        lambda: sp.csr_array([weights]),
        lambda: np.ma.masked_array(weights, weights > 0.5),
        lambda: pd.Series(weights).astype("Float64").mask(pd.Series(weights) > 0.9),
        lambda: weights * (np.arange(len(weights)) % 3 == 0),
    ]
    return choose.pick(options)()


def _check_sound(estimator: Any) -> None:
    """No fitted attribute has a value that is no finite number, but those that say so."""
    for name, value in vars(estimator).items():
        if not name.endswith("_") or name in ("residuals_", "max_residual_"):
            continue
        values = value.data if sp.issparse(value) else value
        if isinstance(values, np.ndarray | float) and np.asarray(values).dtype.kind == "f":
            assert np.isfinite(values).all(), f"{name} is {values}"


# Streams, and what is asked of a fitted model


def _stream(choose: Choices) -> None:
    wrong: set[str] = {"source", "nu"}
    model = _made(choose, wrong)
    if not hasattr(type(model), "fit_stream"):
        return
    if _is(model, "refine", "exact"):
        wrong.add("refine")
    if _is(model, "kernel", "precomputed"):
        wrong.add("kernel")
    chunks: list[Any] = []
    for _ in range(choose.integer(1, 4)):
        data = _data(choose, wrong, ["X", "y", "sample_weight"])
        chunks.append((data["X"], data["y"], data["sample_weight"]))
    if choose.chance(0.3):
        other = [None, 3, "abc", (), chunks[0][:2], [*chunks[0], 4], {1: 2, 3: 4, 5: 6}]
        chunks[choose.integer(len(chunks))] = choose.pick(other)
    before = dict(vars(model))
    if choose.chance(0.5):
        source = choose.pick(
            [chunks, iter(chunks), tuple(chunks), chunks, None, 3, "rows", object()]
        )
        found = _outcome(lambda: model.fit_stream(source), wrong)
        if found == "refused":
            assert vars(model) == before, "a failed fit left something"
    else:
        _partial_fits(choose, model, chunks, wrong)
    _check_sound(model)


def _partial_fits(choose: Choices, model: Any, chunks: list, wrong: set[str]) -> None:
    wrong |= {"partial_fit", "gamma", "kernel", "refine"}
    for chunk in chunks:
        X, y, weights = (
            chunk if isinstance(chunk, tuple) and len(chunk) == 3 else (chunk, None, None)
        )
        classes = {}
        if isinstance(model, AESVC | AENuSVC):
            wrong.add("classes")
            odd: list[Any] = [
                None,
                3,
                "ab",
                [],
                [0],
                {},
                [None, 1],
                [[0, 1]],
                ["a", 1],
                [np.nan, 1.0],
            ]
            classes = {"classes": choose.pick(odd) if choose.chance(0.2) else [0, 1, 2]}
        before = dict(vars(model))
        call = lambda: model.partial_fit(X, y, sample_weight=weights, **classes)  # noqa: B023, E731
        found = _outcome(call, wrong)
        if found == "refused":
            now = vars(model)
            assert now.keys() == before.keys()
            assert all(now[name] is before[name] for name in now)


def _fitted(choose: Choices) -> None:
    """What is asked of a model of sound rows."""
    X = choose.rng.normal(size=(40, 3))
    y = np.arange(40) % choose.integer(2, 4)
    model = AESVC(gamma=0.5, kernel=choose.pick(["rbf", "linear"]), refine=choose.pick([0, "auto"]))
    if choose.chance(0.2):
        model = getattr(rival_classes, choose.pick(rival_classes.__all__))()
    if choose.chance(0.1):
        assert _outcome(lambda: model.predict(X), {"not fitted"}) == "refused"
        return
    in_chunks = isinstance(model, AESVC) and choose.chance(0.5)
    model.fit_stream([(X, y, None)]) if in_chunks else model.fit(X, y)
    check_is_fitted(model)
    rows = _made_odd(_odd_rows, choose, X)
    methods: dict[str, Callable[[], Any]] = {
        "predict": lambda: model.predict(rows),
        "decision_function": lambda: model.decision_function(rows),
    }
    if isinstance(model, AESVC):
        labels = _made_odd(_odd_classes, choose, y)
        weights = _made_odd(_odd_weights, choose, np.ones(40))
        methods |= {
            "certify": lambda: model.certify(rows, y),
            "certify of y": lambda: model.certify(X, labels),
            "certify of weights": lambda: model.certify(X, y, weights),
            "certify_stream": lambda: model.certify_stream([(rows, y, None)]),
            "select": model.select,
            "score": lambda: model.score(rows, y),
        }
    name = choose.pick(list(methods))
    found: list[Any] = []
    wrong = {"X", "y", "sample_weight", "source", "select", "certify"}
    _outcome(lambda: found.append(methods[name]()), wrong)
    if found and name == "decision_function":
        assert np.isfinite(found[0]).all(), "decision values"


# Readers


def _reader(choose: Choices, folder: Path) -> None:
    """Parameters of readers that are not what they should be."""
    paths = {name: folder / f"rows.{name}" for name in ("csv", "libsvm", "npy", "parquet")}
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.5, 0.25, 4.0], "y": [0, 1, 0]})
    table.to_csv(paths["csv"], index=False)
    table.to_parquet(paths["parquet"])
    paths["libsvm"].write_text("0 1:1 2:0.5\n1 1:2\n0 2:4\n")
    np.save(paths["npy"], table[["a", "b"]].to_numpy())
    np.save(folder / "y.npy", table["y"].to_numpy())
    readers: dict[str, tuple[Callable, dict[str, Any]]] = {
        "csv": (CSVReader, {"path": paths["csv"], "target": "y"}),
        "libsvm": (LibsvmReader, {"path": paths["libsvm"], "n_features": 2}),
        "npy": (NpyReader, {"X_path": paths["npy"], "y_path": folder / "y.npy"}),
        "parquet": (ParquetReader, {"path": paths["parquet"], "target": "y"}),
    }
    kind = choose.pick(list(readers))
    make, options = readers[kind]
    names = list(signature(make).parameters)
    wrong = {choose.pick(names)}
    for name in wrong:
        options[name] = choose.pick([*_VALUES, *(lambda v=v: v for v in _COLUMNS)])()
    with suppress(OSError):  # there is no such file
        _outcome(lambda: [*make(**options)], wrong | {"column", "file", "PathLike", str(folder)})


_COLUMNS: list[Any] = ["a", "b", "y", "z", 0, 1, 2, 5, -4, ["a"], ["a", "a"], [0, 1], ["y"], [1.5]]
_COLUMNS += [",", ";", "\n", '"', "é", "skip", "raise", "strings", "numbers", "/", "/no/such", "."]
