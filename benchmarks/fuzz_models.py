"""Model files, damaged and forged: an error that says so, or a model that predicts.

A damaged file has other bytes, or fewer: it must be refused. A forged one has a header with another
value somewhere and a checksum that agrees: it is refused with a ValueError, or read; then it
predicts, or fails with an exception. LIBSVM's files have no checksum, so that a damaged one is as a
forged one. Nothing may end the process: that is what this looks for.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import aesvm
from aesvm import AESVC, AESVR, AEOneClassSVM
from aesvm.io import load_libsvm_model, save_libsvm_model

#: What is put into headers.
_ODD: list[Any] = [None, True, -1, 0, 3, 2**40, 2**70, 1.5, 1e308, "", "x", "rbf", [], [1], {}]
_ODD += [{"array": 0}, {"array": 3}, {"tuple": []}, {"float": "nan"}, {"dict": [[[1], 2]]}]
_ODD += [{"objects": [[1], [1]]}, {"record": ["Tally", {}]}, {"csr_array": [[2, 2], 0, 1, 2]}]


def pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[rng.integers(len(options))]


@cache
def _rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(120, 3))
    return X, np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])


@cache
def _models() -> list[Any]:
    X, y = _rows()
    return [
        AESVC(gamma=0.5).fit(X, y),
        AESVC().fit(sp.csr_array(X), y > 0),
        AESVC(gamma=0.5, refine=0).fit_stream([(X, y, None)]),
        AESVR(gamma=0.5).fit(X, X[:, 0]).compress(10),
        AEOneClassSVM(kernel="precomputed").fit(X @ X.T),
    ]


def trial(rng: np.random.Generator, folder: Path) -> str:
    model = pick(rng, _models())
    path = folder / "model"
    way = pick(rng, ["damaged", "forged", "libsvm"])
    if way == "libsvm":
        save_libsvm_model(model, path)
        path.write_bytes(_damaged(rng, path.read_bytes()))
        return f"{way}: {_outcome(path, model, load_libsvm_model)}"
    model.save(path)
    content = path.read_bytes()
    changed = _damaged(rng, content) if way == "damaged" else _forged(rng, content)
    path.write_bytes(changed)
    outcome = _outcome(path, model, aesvm.load)
    if way == "damaged" and changed != content and outcome != "refused":
        raise AssertionError("a damaged file was read")
    return f"{way}: {outcome}"


def _outcome(path: Path, model: Any, load: Any) -> str:
    try:
        read = load(path)
    except ValueError:
        return "refused"
    X, _ = _rows()
    try:
        read.predict(X @ X.T if model.kernel == "precomputed" else X)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return "read, cannot predict"
    return "read"


def _damaged(rng: np.random.Generator, content: bytes) -> bytes:
    if rng.random() < 0.25:
        return content[: rng.integers(len(content))]
    changed = bytearray(content)
    for at in rng.integers(len(content), size=rng.integers(1, 4)):
        changed[at] ^= int(rng.integers(1, 256))
    return bytes(changed)


def _forged(rng: np.random.Generator, content: bytes) -> bytes:
    """With another value in its header, from a list or from elsewhere in it."""
    first, rest = content.split(b"\n", 1)
    size = int(first.split()[2], 16)
    header = json.loads(rest[:size])
    places = list(_places(header))
    value = pick(rng, _ODD)
    if rng.random() < 0.3:
        value = copy.deepcopy(_at(header, pick(rng, places)))
    *before, last = pick(rng, places)
    _at(header, tuple(before))[last] = value
    text = json.dumps(header).encode()
    text += b" " * (-(len(first) + 1 + len(text)) % 64)
    checksum = hashlib.sha256(text).hexdigest()
    return f"aesvm-model 0001 {len(text):016x} {checksum}\n".encode() + text + rest[size:]


def _places(tree: Any, here: tuple = ()) -> Iterator[tuple]:
    """The way to everything in a tree."""
    if here:
        yield here
    if isinstance(tree, dict | list):
        for key, one in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _places(one, (*here, key))


def _at(tree: Any, place: tuple) -> Any:
    for key in place:
        tree = tree[key]
    return tree
