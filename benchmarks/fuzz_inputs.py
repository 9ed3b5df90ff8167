"""Bad input to every public class: a ValueError or TypeError that says of what, or a sound model.

A call has one or two things wrong with it, or odd: rows, classes, weights, or a parameter. Where it
is not refused, attributes and predictions are finite. Other errors, warnings of NumPy about its
arithmetic, and calls that take a minute are faults.
"""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from aesvm import (
    AESVC,
    AESVR,
    AENuSVC,
    AENuSVR,
    AEOneClassSVM,
    RepresentativeSet,
    baselines,
)
from aesvm.io import CSVReader, LibsvmReader, NpyReader, ParquetReader
from benchmarks.fuzz_problems import pick

#: Seconds after which a call hangs.
_LIMIT = 60

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


class HangsError(Exception):
    """A call has taken too long."""


def trial(rng: np.random.Generator, folder: Path) -> str:
    kinds = {"estimator": _estimator, "stream": _stream, "fitted": _fitted, "reader": _reader}
    name = pick(rng, ["estimator", "estimator", "stream", "stream", "fitted", "reader"])
    with warnings.catch_warnings(), _limited(_LIMIT):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        return f"{name}: {kinds[name](rng, folder)}"


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise HangsError(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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


def _estimator(rng: np.random.Generator, folder: Path) -> str:
    wrong: set[str] = set()
    model = _made(rng, wrong)
    data = _data(rng, wrong, [*signature(model.fit).parameters])
    if _is(model, "kernel", "precomputed"):
        wrong |= {"X", "kernel"}  # rows need not be a kernel matrix
    if "nu" in model.get_params():
        wrong.add("nu")  # classes of different weights need not allow it
    if not wrong:
        return "nothing wrong"
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
    return f"{type(model).__name__} {found}"


def _is(model: Any, name: str, value: str) -> bool:
    """Whether a parameter, which may be anything, has a value."""
    own = getattr(model, name, None)
    return isinstance(own, str) and own == value


def _made(rng: np.random.Generator, wrong: set[str]) -> Any:
    """An estimator, often with a parameter that is odd."""
    rivals = [getattr(baselines, name) for name in baselines.__all__]
    family = [AESVC, AESVC, AENuSVC, AESVR, AENuSVR, AEOneClassSVM]
    kind = pick(rng, [*family, RepresentativeSet, RepresentativeSet, pick(rng, rivals)])
    model = kind()
    names = list(model.get_params())
    if "gamma" in names:
        model.set_params(gamma=pick(rng, [0.5, 0.5, "scale"]))
    if "kernel" in names and rng.random() < 0.3:
        model.set_params(kernel=pick(rng, ["linear", "poly", "sigmoid", "precomputed"]))
        if kind in rivals:
            wrong.add("kernel")  # not all of them can have any
    if "hull_tol" in names:
        model.set_params(hull_tol=pick(rng, [0.0, 1e-3, 0.1]), subset_size=int(rng.integers(1, 30)))
    if "refine" in names:
        model.set_params(refine=pick(rng, [0, 1, "auto", "exact"]))
    for _ in range(pick(rng, [0, 0, 1, 1, 2])):
        name = pick(rng, names)
        value = pick(rng, _VALUES)()
        if name == "kernel" and rng.random() < 0.8:
            value = pick(rng, _KERNELS)
        if name in ("n_jobs", "epochs") and isinstance(value, int) and value > 100:
            continue  # so many are what was asked for
        if name == "verbose":
            continue
        model.set_params(**{name: value})
        wrong.add(name)
    return model


def _data(rng: np.random.Generator, wrong: set[str], names: list[str]) -> dict[str, Any]:
    """Rows, classes and weights; often one of them is odd."""
    n = int(np.exp(rng.uniform(0.7, 4)))
    data: dict[str, Any] = {"X": rng.normal(size=(n, 3)), "y": np.arange(n) % 3}
    data |= {"sample_weight": rng.random(n) + 0.1, "groups": np.arange(n) % 2}
    if rng.random() < 0.3:
        data["X"] = data["X"] @ data["X"].T
    for _ in range(pick(rng, [0, 1, 1, 1, 2])):
        name = pick(rng, names)
        odd = {"X": _odd_rows, "sample_weight": _odd_weights}.get(name, _odd_classes)
        if name not in wrong:
            data[name] = _made_odd(odd, rng, data[name])
            wrong.add(name)
    if rng.random() < 0.2:  # any two that do not fit together
        wrong |= {"X", "y", "sample_weight"}
        data["X"] = data["X"][: n - 1] if isinstance(data["X"], np.ndarray) else data["X"]
    return {name: value for name, value in data.items() if name in names}


def _made_odd(odd: Callable, rng: np.random.Generator, value: NDArray) -> Any:
    """NumPy may say what it likes of the making."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return odd(rng, value)
        except OverflowError:  # pandas does not take every integer
            return None


def _odd_rows(rng: np.random.Generator, X: NDArray) -> Any:
    at = int(rng.integers(len(X))), int(rng.integers(X.shape[1]))
    changed = X.copy()
    changed[at] = pick(rng, [np.nan, np.inf, -np.inf, 1e308, 1e200, 1e20, 1e-320, -1e308])
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
    mixed[at] = pick(rng, [None, "a", "1.5", b"x", [1], {}, 1 + 1j, 10**400, pd.NA, np.nan, True])
    dtypes = ["f2", "f4", "g", "i1", "u8", "?", "c16", "O", "U9", "S9", ">f8", "m8[s]", "M8[s]"]
    options: list[Callable[[], Any]] = [
        *(lambda: changed,) * 4,
        *(lambda factor=factor: X * factor for factor in (0.0, 1e-200, 1e-30, 1e10, 1e150, 1e300)),
        lambda: sp.csr_array(changed),
        lambda: X.astype(pick(rng, dtypes)),
        lambda: sparse.astype(pick(rng, ["f4", "i4", "?", "c16", "g"])),
        *(lambda: mixed, lambda: mixed.tolist(), lambda: pd.DataFrame(mixed)),
        *(lambda: X[:, 0], lambda: X[None], lambda: X[:0], lambda: X[:, :0], lambda: X[:1]),
        *(lambda: None, lambda: "rows.csv", lambda: 3.5, dict, list, object, lambda: iter(X)),
        *(lambda: X.tolist(), lambda: tuple(X), lambda: [*X.tolist(), [1.0]], lambda: [[]]),
        *(lambda: np.ma.masked_array(X, X > 1), lambda: np.asmatrix(X), lambda: X[::-1, ::-1]),
        lambda: np.asfortranarray(X),
        *(lambda: wide, lambda: unsorted, lambda: twice, lambda: sparse[:, :0], lambda: sparse[:0]),
        lambda: getattr(sparse, f"to{pick(rng, ['csc', 'coo', 'dok', 'lil', 'bsr', 'dia'])}")(),
        *(lambda: sp.coo_array(X[:, 0]), lambda: sp.csr_array(X.shape), lambda: sp.csr_matrix(X)),
        lambda: frame.astype(
            pick(rng, ["float32", "string", "category", "Float64", "Sparse[float]"])
        ),
        lambda: frame.mask(frame > 1).astype(pick(rng, ["float64", "Float64", "object"])),
        lambda: frame.set_axis(["a"] * X.shape[1], axis=1),
        lambda: frame.rename(columns={0: "a", 1: None}),
        lambda: frame.assign(c=pd.Timestamp("2020-01-01")),
        lambda: frame[0],
        lambda: frame.set_index(np.arange(len(X))[::-1] * 7),
    ]
    return pick(rng, options)()


def _odd_classes(rng: np.random.Generator, y: NDArray) -> Any:
    at = int(rng.integers(len(y)))
    mixed = y.astype(object)
    mixed[at] = pick(rng, ["a", b"a", 1.5, np.nan, None, (), [1], {}, 10**30, pd.NA, True, 1j])
    number = y.astype(float)
    number[at] = pick(rng, [np.nan, np.inf, 0.5, 1e300, 2.0**60, -0.0])
    names = np.array(["a", "b", "é" * 40])[y]
    dtypes = ["f2", "f4", "i1", "u8", "?", "O", "U9", "S9", "M8[s]", "m8[D]", "c16", ">i4", "g"]
    options: list[Callable[[], Any]] = [
        *(lambda: mixed, lambda: mixed.tolist(), lambda: pd.Series(mixed), lambda: number),
        *(lambda: names, lambda: names.astype(object), lambda: names.tolist()),
        *(lambda: y.astype(pick(rng, dtypes)),) * 3,
        *(lambda: y[:, None], lambda: np.c_[y, y], lambda: np.eye(3)[y], lambda: y[:-1]),
        *(lambda: y[:0], lambda: y * 0, lambda: np.arange(len(y)), lambda: y + 2**62),
        *(lambda: [int(v) + 2**70 for v in y], lambda: y + (1 - 2**63), lambda: y[None]),
        *(lambda: None, lambda: "y", lambda: 3, dict, object, lambda: iter(y), lambda: set(y)),
        *(lambda: pd.Series(y, index=y), lambda: pd.Series(y).astype("category")),
        lambda: (
            pd.Series(y).mask(pd.Series(y) == 1).astype(pick(rng, ["Int64", "float", "object"]))
        ),
        lambda: pd.Series(names).astype(pick(rng, ["string", "category"])),
        *(lambda: pd.DataFrame({"y": y}), lambda: pd.Categorical(names), lambda: sp.csr_array([y])),
        *(lambda: np.ma.masked_array(y, y == 1), lambda: tuple(y), lambda: [[v] for v in y]),
        lambda: np.array(list(zip(y, y, strict=True)), dtype="i4,i4"),
    ]
    return pick(rng, options)()


def _odd_weights(rng: np.random.Generator, weights: NDArray) -> Any:
    changed = weights.copy()
    changed[int(rng.integers(len(weights)))] = pick(
        rng, [np.nan, np.inf, -1.0, 0.0, 1e300, 1e308, 1e-310, -0.0, 1e30, 1e-30]
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
    return pick(rng, options)()


def _check_sound(estimator: Any) -> None:
    """No fitted attribute has a value that is no finite number, but those that say so."""
    for name, value in vars(estimator).items():
        if not name.endswith("_") or name in ("residuals_", "max_residual_"):
            continue
        values = value.data if sp.issparse(value) else value
        if isinstance(values, np.ndarray | float) and np.asarray(values).dtype.kind == "f":
            assert np.isfinite(values).all(), f"{name} is {values}"


# Streams, and what is asked of a fitted model


def _stream(rng: np.random.Generator, folder: Path) -> str:
    wrong: set[str] = {"source", "nu"}
    model = _made(rng, wrong)
    if not hasattr(type(model), "fit_stream"):
        return "no stream"
    if _is(model, "refine", "exact"):
        wrong.add("refine")
    if _is(model, "kernel", "precomputed"):
        wrong.add("kernel")
    chunks: list[Any] = []
    for _ in range(int(rng.integers(1, 4))):
        data = _data(rng, wrong, ["X", "y", "sample_weight"])
        chunks.append((data["X"], data["y"], data["sample_weight"]))
    if rng.random() < 0.3:
        other = [None, 3, "abc", (), chunks[0][:2], [*chunks[0], 4], {1: 2, 3: 4, 5: 6}]
        chunks[int(rng.integers(len(chunks)))] = pick(rng, other)
    before = dict(vars(model))
    if rng.random() < 0.5:
        source = pick(rng, [chunks, iter(chunks), tuple(chunks), None, 3, "rows", chunks, object()])
        found = _outcome(lambda: model.fit_stream(source), wrong)
        if found == "refused":
            assert vars(model) == before, "a failed fit left something"
    else:
        found = _partial_fits(rng, model, chunks, wrong)
    _check_sound(model)
    return f"{type(model).__name__} {found}"


def _partial_fits(rng: np.random.Generator, model: Any, chunks: list, wrong: set[str]) -> str:
    wrong |= {"partial_fit", "gamma", "kernel", "refine"}
    found = ""
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
            classes = {"classes": pick(rng, odd) if rng.random() < 0.2 else [0, 1, 2]}
        before = dict(vars(model))
        call = lambda: model.partial_fit(X, y, sample_weight=weights, **classes)  # noqa: B023, E731
        found = _outcome(call, wrong)
        if found == "refused":
            now = vars(model)
            assert now.keys() == before.keys()
            assert all(now[name] is before[name] for name in now)
    return f"in parts, {found}"


def _fitted(rng: np.random.Generator, folder: Path) -> str:
    """What is asked of a model of sound rows."""
    X = rng.normal(size=(40, 3))
    y = np.arange(40) % int(rng.integers(2, 4))
    model = AESVC(gamma=0.5, kernel=pick(rng, ["rbf", "linear"]), refine=pick(rng, [0, "auto"]))
    if rng.random() < 0.2:
        model = getattr(baselines, pick(rng, baselines.__all__))()
    if rng.random() < 0.1:
        return f"not fitted, {_outcome(lambda: model.predict(X), {'not fitted'})}"
    in_chunks = isinstance(model, AESVC) and rng.random() < 0.5
    model.fit_stream([(X, y, None)]) if in_chunks else model.fit(X, y)
    check_is_fitted(model)
    rows = _made_odd(_odd_rows, rng, X)
    methods: dict[str, Callable[[], Any]] = {
        "predict": lambda: model.predict(rows),
        "decision_function": lambda: model.decision_function(rows),
    }
    if isinstance(model, AESVC):
        labels = _made_odd(_odd_classes, rng, y)
        weights = _made_odd(_odd_weights, rng, np.ones(40))
        methods |= {
            "certify": lambda: model.certify(rows, y),
            "certify of y": lambda: model.certify(X, labels),
            "certify of weights": lambda: model.certify(X, y, weights),
            "certify_stream": lambda: model.certify_stream([(rows, y, None)]),
            "select": model.select,
            "score": lambda: model.score(rows, y),
        }
    name = pick(rng, list(methods))
    found: list[Any] = []
    wrong = {"X", "y", "sample_weight", "source", "select", "certify"}
    outcome = _outcome(lambda: found.append(methods[name]()), wrong)
    if found and name == "decision_function":
        assert np.isfinite(found[0]).all(), "decision values"
    return f"{name} {outcome}"


# Readers


def _reader(rng: np.random.Generator, folder: Path) -> str:
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
    kind = pick(rng, list(readers))
    make, options = readers[kind]
    names = list(signature(make).parameters)
    wrong = {pick(rng, names)}
    for name in wrong:
        options[name] = pick(rng, [*_VALUES, *(lambda v=v: v for v in _COLUMNS)])()
    try:
        found = _outcome(
            lambda: [*make(**options)], wrong | {"column", "file", "PathLike", str(folder)}
        )
    except OSError:
        found = "no file"
    return f"{kind} {found}"


_COLUMNS: list[Any] = ["a", "b", "y", "z", 0, 1, 2, 5, -4, ["a"], ["a", "a"], [0, 1], ["y"], [1.5]]
_COLUMNS += [",", ";", "\n", '"', "é", "skip", "raise", "strings", "numbers", "/", "/no/such", "."]
