"""The real datasets of the benchmarks, prepared as the paper prepares them.

They are read from ``--data-dir`` (or the variable ``AESVM_DATA``), one ``.npz`` file each;
covtype is otherwise fetched from its public origin by scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import MinMaxScaler, minmax_scale


class Dataset(NamedTuple):
    """Training rows and labels; ``name`` says which of the paper's datasets it is.

    Test rows are there where the published data has them.
    """

    name: str
    X: NDArray | sp.csr_array
    y: NDArray
    X_test: NDArray | sp.csr_array | None = None
    y_test: NDArray | None = None

    def split(self, n_train: int, n_test: int | None = None) -> Dataset:
        """Random rows to train with, and others to test with: always the same."""
        order = np.random.default_rng(2).permutation(len(self.y))
        train = order[:n_train]
        test = order[n_train:] if n_test is None else order[-n_test:]
        return Dataset(self.name, self.X[train], self.y[train], self.X[test], self.y[test])


class MissingError(Exception):
    """The dataset is neither in the data directory nor can it be fetched."""


def load(name: str, data_dir: Path | None) -> Dataset:
    if name not in LOADERS:
        raise ValueError(f"dataset {name!r} is unknown: use one of {', '.join(LOADERS)}.")
    return LOADERS[name](data_dir)


def _arrays(file: str, origin: str, data_dir: Path | None):
    path = None if data_dir is None else data_dir / f"{file}.npz"
    if path is None or not path.exists():
        raise MissingError(f"{file}.npz is not in --data-dir {data_dir} (public origin: {origin})")
    return np.load(path, allow_pickle=False)


def _covtype(data_dir: Path | None) -> Dataset:
    try:
        arrays = _arrays("covtype", "archive.ics.uci.edu/dataset/31/covertype", data_dir)
        X, y = arrays["X"].astype(np.float64), arrays["y"]
    except MissingError as missing:
        from sklearn.datasets import fetch_covtype

        try:
            X, y = fetch_covtype(return_X_y=True)
        except OSError as error:
            raise MissingError(f"{missing}; fetching it failed: {error}") from error
    return Dataset("covtype (D4)", np.ascontiguousarray(minmax_scale(X)), (y == 2).astype(int))


def _ijcnn1(data_dir: Path | None) -> Dataset:
    origin = "csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#ijcnn1"
    arrays = _arrays("ijcnn1", origin, data_dir)
    return Dataset(
        "ijcnn1 (D5)",
        arrays["X_train"].astype(np.float64),
        arrays["y_train"],
        arrays["X_test"][:20_000].astype(np.float64),
        arrays["y_test"][:20_000],
    )


def _kdd99(data_dir: Path | None) -> Dataset:
    """The ten per cent file; distinct rows in order of first appearance, normal against attack."""
    arrays = _arrays("kdd99_10pct", "kdd.ics.uci.edu/databases/kddcup99", data_dir)

    def distinct(part: str) -> tuple[NDArray, NDArray]:
        X, y = arrays[f"X_{part}"].astype(np.float64), arrays[f"y_{part}"]
        labels = (y == arrays["normal_label"]).astype(int)
        _, first = np.unique(np.c_[X, labels], axis=0, return_index=True)
        first.sort()
        return X[first], labels[first]

    X, y = distinct("train")
    X_test, y_test = distinct("test")
    scaler = MinMaxScaler().fit(X)
    return Dataset(
        "KDD99 10 % (part of D1)",
        scaler.transform(X),
        y,
        scaler.transform(X_test[::3]),
        y_test[::3],
    )


def _anom_http(data_dir: Path | None) -> Dataset:
    arrays = _arrays("anom_http", "kdd.ics.uci.edu/databases/kddcup99", data_dir)
    return Dataset("anom_http (like D3)", minmax_scale(arrays["X"].astype(float)), arrays["y"])


def _a9a(data_dir: Path | None) -> Dataset:
    return _sparse("a9a", "a9a (D6)", data_dir)


def _w8a(data_dir: Path | None) -> Dataset:
    return _sparse("w8a", "w8a (D9)", data_dir)


def _sparse(file: str, name: str, data_dir: Path | None) -> Dataset:
    origin = "csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
    arrays = _arrays(file, origin, data_dir)

    def part(which: str) -> sp.csr_array:
        parts = (
            arrays[f"{which}_data"].astype(np.float64),
            arrays[f"{which}_indices"].astype(np.int32),
            arrays[f"{which}_indptr"],
        )
        return sp.csr_array(parts, shape=tuple(arrays[f"{which}_shape"]))

    return Dataset(name, part("train"), arrays["y_train"], part("test"), arrays["y_test"])


def _mnist(data_dir: Path | None) -> Dataset:
    arrays = _arrays("mnist", "csie.ntu.edu.tw/~cjlin/libsvmtools/datasets", data_dir)
    y = (arrays["y_train"] == 0).astype(int)
    return Dataset("mnist 0 against rest (D8)", arrays["X_train"] / 255.0, y)


LOADERS: dict[str, Callable[[Path | None], Dataset]] = {
    "covtype": _covtype,
    "ijcnn1": _ijcnn1,
    "kdd99": _kdd99,
    "a9a": _a9a,
    "w8a": _w8a,
    "mnist": _mnist,
    "anom_http": _anom_http,
}
