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
from sklearn.preprocessing import minmax_scale


class Dataset(NamedTuple):
    """Training rows and labels; ``name`` says which of the paper's datasets it is."""

    name: str
    X: NDArray | sp.csr_array
    y: NDArray


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
    return Dataset("ijcnn1 (D5)", arrays["X_train"].astype(np.float64), arrays["y_train"])


def _kdd99(data_dir: Path | None) -> Dataset:
    """The ten per cent file; distinct rows in order of first appearance, normal against attack."""
    arrays = _arrays("kdd99_10pct", "kdd.ics.uci.edu/databases/kddcup99", data_dir)
    X, y = arrays["X_train"].astype(np.float64), arrays["y_train"]
    labels = (y == arrays["normal_label"]).astype(int)
    _, first = np.unique(np.c_[X, labels], axis=0, return_index=True)
    first.sort()
    return Dataset(
        "KDD99 10 % (part of D1)", np.ascontiguousarray(minmax_scale(X[first])), labels[first]
    )


def _a9a(data_dir: Path | None) -> Dataset:
    return _sparse("a9a", "a9a (D6)", data_dir)


def _w8a(data_dir: Path | None) -> Dataset:
    return _sparse("w8a", "w8a (D9)", data_dir)


def _sparse(file: str, name: str, data_dir: Path | None) -> Dataset:
    origin = "csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
    arrays = _arrays(file, origin, data_dir)
    parts = (
        arrays["train_data"].astype(np.float64),
        arrays["train_indices"].astype(np.int32),
        arrays["train_indptr"],
    )
    return Dataset(name, sp.csr_array(parts, shape=tuple(arrays["train_shape"])), arrays["y_train"])


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
}
