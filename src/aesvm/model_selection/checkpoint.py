"""Results of a search, kept in a file from which an interrupted one goes on.

The file is text: a line that says what it is, with a checksum of the next, and a line of JSON. It
is replaced as a whole whenever a chain of candidates is done on a fold, and never unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import joblib

from aesvm.io.atomic import written_whole

#: What the file begins with, and its version.
_FORMAT, _VERSION = "aesvm search", 1

#: What is told of a part of a search that has changed.
_PARTS = {
    "estimator": "another estimator, or other parameters of it",
    "X": "another X",
    "y": "another y",
    "params": "other parameters of fit",
    "scoring": "another scoring",
    "options": "another return_train_score or error_score",
}


class Checkpoint:
    """The results of chains on folds, in a file.

    Parameters
    ----------
    path : str or os.PathLike
        Of the file; where there is one, its results are read.
    search : dict of str to str
        What the search is of: each part by a digest, see ``parts``.
    """

    def __init__(self, path: str | os.PathLike, search: dict[str, str]) -> None:
        self.path = Path(path)
        self.search = search
        self.results: dict[str, list[dict[str, Any]]] = {}
        if self.path.is_dir():
            raise ValueError(f"resume={str(path)!r} is a folder: name a file.")
        if not self.path.parent.is_dir():
            raise ValueError(f"resume={str(path)!r}: there is no folder {str(self.path.parent)!r}.")
        if self.path.exists():
            self.results = self._read()

    def find(self, key: str, n_candidates: int) -> list[dict[str, Any]] | None:
        """The results of a chain on a fold, where they are known."""
        found = self.results.get(key)
        return found if found is not None and len(found) == n_candidates else None

    def add(self, key: str, results: list[dict[str, Any]]) -> None:
        """Keep the results of a chain on a fold."""
        self.results[key] = results
        body = json.dumps({"search": self.search, "results": self.results}, default=float)
        head = {"format": _FORMAT, "version": _VERSION, "sha256": _checksum(body)}
        with written_whole(self.path) as file:
            file.write(f"{json.dumps(head)}\n{body}\n".encode())

    def _read(self) -> dict[str, list[dict[str, Any]]]:
        name = f"resume={str(self.path)!r}"
        try:
            head, _, body = self.path.read_bytes().partition(b"\n")
            told = json.loads(head)
            mine = isinstance(told, dict) and told.get("format") == _FORMAT
        except ValueError:
            mine = False
        if not mine:
            raise ValueError(f"{name} is not a file of a search: name another, or remove it.")
        if told.get("version") != _VERSION:
            raise ValueError(
                f"{name} is of version {told.get('version')!r} of the format, and this is "
                f"{_VERSION}: use the aesvm that wrote it, or remove it."
            )
        text = body.removesuffix(b"\n")
        if _checksum(text) != told.get("sha256"):
            raise ValueError(f"{name} is truncated or corrupt: remove it, and begin anew.")
        kept = json.loads(text)
        changed = [
            what for part, what in _PARTS.items() if kept["search"].get(part) != self.search[part]
        ]
        if changed:
            raise ValueError(
                f"{name} is of another search, with {'; '.join(changed)}: name another file, or "
                "remove it."
            )
        return kept["results"]


def parts(
    estimator: Any, X: Any, y: Any, params: Any, scoring: Any, options: tuple
) -> dict[str, str]:
    """What a search is of, each part by a digest."""
    values = {"estimator": estimator.get_params(), "X": X, "y": y, "params": params}
    own = {"estimator": type(estimator).__qualname__, "scoring": scoring, "options": options}
    return {name: digest_of(values.get(name), own.get(name)) for name in _PARTS}


def digest_of(*values: Any) -> str:
    """A digest of some values, the same in every process."""
    try:
        return joblib.hash(values, hash_name="sha1")
    except Exception:  # what cannot be pickled, such as a lambda
        return joblib.hash(repr(values), hash_name="sha1")


def _checksum(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
