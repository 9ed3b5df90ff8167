"""Datasets from their public origins, as the arrays of the ``.npz`` files the benchmarks read.

A file is downloaded into a temporary folder inside the cache, parsed there, checked and only
then moved to its name, so that an interrupted download leaves nothing behind. What is checked
is the content, a sha256 over the arrays: it is the same for a file somebody prepared and for
one parsed here, whatever the compression and the order in memory.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from sklearn.datasets import fetch_covtype, load_svmlight_file

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
#: This archive is older than https; what comes from it is held against a checksum.
UCI_KDD = "http://kdd.ics.uci.edu/databases/kddcup99"

#: Seconds without a byte after which an origin counts as out of reach.
PATIENCE = 30
PIECE = 1 << 16

Arrays = dict[str, NDArray]
#: Gives the local file of a URL.
Get = Callable[[str], Path]


class MissingError(Exception):
    """The dataset is in none of the folders, nor can it be fetched."""


class ChecksumError(ValueError):
    """The arrays are not those the measurements were made with."""


def fetch(recipe: Callable[[Get], Arrays], cache: Path) -> Arrays:
    """The arrays a recipe makes of its downloads; whatever goes wrong is a ``MissingError``."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
            return recipe(partial(obtain, folder=Path(folder), shelf=cache))
    except (OSError, HTTPException, EOFError, ValueError, zlib.error) as error:
        # A page that says "moved", or half an archive, fails in the parser.
        raise MissingError(f"fetching it failed: {error or type(error).__name__}") from error


def store(arrays: Arrays, path: Path) -> None:
    """Write an ``.npz`` file that is either whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".store-") as folder:
        partial_file = Path(folder) / path.name
        named: dict[str, Any] = dict(arrays)
        np.savez_compressed(partial_file, **named)
        os.replace(partial_file, path)


def obtain(url: str, folder: Path, shelf: Path) -> Path:
    """The file of a URL: one put on the shelf by hand, or downloaded into the folder."""
    name = urlsplit(url).path.rsplit("/", 1)[-1]
    by_hand = shelf / name
    if by_hand.is_file():
        return by_hand
    try:
        return _download(url, folder / name)
    except (OSError, HTTPException) as error:
        raise OSError(f"{url}: {error} (a copy of that file in {shelf} would be used)") from error


def _download(url: str, path: Path) -> Path:
    request = Request(url, headers={"User-Agent": "aesvm-benchmarks"})
    with urlopen(request, timeout=PATIENCE) as answer, path.open("wb") as file, _bar() as bar:
        length = answer.headers.get("Content-Length")
        total = None if length is None else int(length)
        task = bar.add_task(path.name, total=total)
        received = 0
        while piece := answer.read(PIECE):
            file.write(piece)
            received += len(piece)
            bar.update(task, completed=received)
    if total is not None and received != total:
        raise OSError(f"the connection ended after {received:,} of {total:,} bytes")
    return path


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def content_checksum(arrays: Arrays) -> str:
    """The sha256 of names, types, shapes and values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        if array.dtype.kind == "U":  # its width is that of the longest text, and no content
            kind, content = "text", np.frombuffer("\0".join(array.ravel()).encode(), np.uint8)
        else:
            kind = array.dtype.newbyteorder("<").str
            content = np.ascontiguousarray(array, dtype=kind)
        digest.update(f"{name} {kind} {array.shape}\n".encode())
        digest.update(content.data)
    return digest.hexdigest()


def without_stored_zeros(arrays: Arrays) -> Arrays:
    """Sparse parts without zeros that are written down.

    Copies of a9a.t go about with a ``123:0`` in one row or another, put there to say how wide
    the rows are. It is not in the original, and the matrix is the same.
    """
    result = dict(arrays)
    for part in ("train", "test"):
        data = result.get(f"{part}_data")
        if data is None or data.all():
            continue
        indptr = result[f"{part}_indptr"]
        kept_before = np.concatenate([[0], np.cumsum(data != 0)])
        result[f"{part}_data"] = data[data != 0]
        result[f"{part}_indices"] = result[f"{part}_indices"][data != 0]
        result[f"{part}_indptr"] = kept_before[indptr].astype(indptr.dtype)
    return result


def covtype(get: Get) -> Arrays:
    """Left to scikit-learn, which knows a mirror of the original, and may have it already."""
    with Console(stderr=True).status("covtype: scikit-learn fetches it (11 MB)"):
        X, y = fetch_covtype(return_X_y=True, n_retries=1)
    return {"X": X.astype(np.float32), "y": y.astype(np.uint8)}


def ijcnn1(get: Get) -> Arrays:
    arrays: Arrays = {}
    for part, file in (("train", "ijcnn1.bz2"), ("test", "ijcnn1.t.bz2")):
        X, y = _svmlight(get(f"{LIBSVM}/binary/{file}"), 22)
        arrays |= {f"X_{part}": X.astype(np.float32).toarray(), f"y_{part}": y.astype(np.int8)}
    return arrays


def mnist(get: Get) -> Arrays:
    """LIBSVM's files end at the last pixel ever set, the 780th: the rest are put back."""
    arrays: Arrays = {}
    for part, file in (("train", "mnist.bz2"), ("test", "mnist.t.bz2")):
        X, y = _svmlight(get(f"{LIBSVM}/multiclass/{file}"), 784)
        arrays |= {f"X_{part}": X.astype(np.uint8).toarray(), f"y_{part}": y.astype(np.uint8)}
    return arrays


def a9a(get: Get) -> Arrays:
    return _zeros_and_ones(get, "a9a", 123)


def w8a(get: Get) -> Arrays:
    return _zeros_and_ones(get, "w8a", 300)


def _zeros_and_ones(get: Get, name: str, n_features: int) -> Arrays:
    arrays: Arrays = {}
    for part, file in (("train", name), ("test", f"{name}.t")):
        X, y = _svmlight(get(f"{LIBSVM}/binary/{file}"), n_features)
        arrays |= {
            f"{part}_data": X.data.astype(np.uint8),
            f"{part}_indices": X.indices.astype(np.int16),
            f"{part}_indptr": X.indptr.astype(np.int32),
            f"{part}_shape": np.array(X.shape, dtype=np.int64),
            f"y_{part}": y.astype(np.int8),
        }
    return arrays


def _svmlight(path: Path, n_features: int) -> tuple[Any, NDArray]:
    return load_svmlight_file(str(path), n_features=n_features, zero_based=False)


#: Where KDD99's lines hold words: three features, and after the 41 features the label.
PROTOCOL, SERVICE, FLAG, LABEL = 1, 2, 3, 41


def kdd99(get: Get) -> Arrays:
    """Words are numbered in the order of the alphabet, over both files."""
    parts = ("train", "test")
    files = [get(f"{UCI_KDD}/{file}") for file in ("kddcup.data_10_percent.gz", "corrected.gz")]
    words = [_words(file, (PROTOCOL, SERVICE, FLAG, LABEL)) for file in files]
    names = [np.unique(np.concatenate(column)) for column in zip(*words, strict=True)]
    arrays = dict(zip(("vocab_protocol_type", "vocab_service", "vocab_flag"), names, strict=False))
    numeric = [column for column in range(LABEL) if column not in (PROTOCOL, SERVICE, FLAG)]
    for part, file, columns in zip(parts, files, words, strict=True):
        *features, labels = [
            np.searchsorted(known, column) for known, column in zip(names, columns, strict=True)
        ]
        X = np.empty((len(labels), LABEL), dtype=np.float32)
        X[:, numeric] = np.loadtxt(file, delimiter=",", usecols=numeric, ndmin=2)
        X[:, [PROTOCOL, SERVICE, FLAG]] = np.transpose(features)
        arrays |= {f"X_{part}": X, f"y_{part}": labels.astype(np.uint8)}
    normal = np.searchsorted(names[-1], "normal.")
    return arrays | {"label_names": names[-1], "normal_label": np.array(normal, dtype=np.int64)}


def _words(file: Path, columns: tuple[int, ...]) -> NDArray:
    """Columns of text, one in a row; none of KDD99's words has more than 16 letters."""
    return np.loadtxt(file, delimiter=",", usecols=columns, dtype="U16", ndmin=2).T


#: The lines of the localization data that the benchmarks use: a tenth of them.
LOCALIZATION_LINES = 16_486


def localization(get: Get) -> Arrays:
    """Lines of sequence, tag, time stamp, date, x, y, z and activity."""
    with get(f"{UCI}/00196/ConfLongDemo_JSI.txt").open() as file:
        lines = [line.strip().split(",") for line in islice(file, LOCALIZATION_LINES)]
    sequence, tag, timestamp, _, x, y, z, activity = map(np.array, zip(*lines, strict=True))
    arrays: Arrays = {
        "X": np.array([x, y, z], dtype=np.float64).T.astype(np.float32),
        "timestamp": timestamp.astype(np.int64),
    }
    for name, names, column in (
        ("seq", "seq_names", sequence),
        ("tag", "tag_names", tag),
        ("y", "label_names", activity),
    ):
        arrays[names], codes = np.unique(column, return_inverse=True)
        arrays[name] = codes.astype(np.uint8)
    return arrays
