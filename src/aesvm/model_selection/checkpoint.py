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

#: What is said of a part of a search that has changed.
_PARTS = {
    "estimator": "another estimator",
    "X": "another X",
    "y": "another y",
    "params": "other parameters of fit",
    "scoring": "another scoring",
    "options": "another return_train_score or error_score",
}

#: Parameters that results do not depend on.
_NO_MATTER = ("n_jobs", "verbose")


class Checkpoint:
    """The results of candidates on folds, in a file.

    Parameters
    ----------
    path : str or os.PathLike
        Of the file; where there is one, its results are read.
    search : dict of str to str
        What the search is of: each part by a digest, see ``parts_of``.
    """

    def __init__(self, path: str | os.PathLike, search: dict[str, str]) -> None:
        self.path = Path(path)
        self.search = search
        self.results: dict[str, dict[str, Any]] = {}
        if not self.path.parent.is_dir():
            raise ValueError(f"resume={str(path)!r}: there is no folder {str(self.path.parent)!r}.")
        if self.path.exists():
            if not self.path.is_file():
                kind = "a folder" if self.path.is_dir() else "no plain file"
                raise ValueError(f"resume={str(path)!r} is {kind}: name a file.")
            self.results = self._read()
        self.n_read = len(self.results)  #: results that were in the file

    def find(self, key: str) -> dict[str, Any] | None:
        """The result of a candidate on a fold, where there is one."""
        return self.results.get(key)

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep the result of a candidate on a fold, from the next ``write`` on."""
        self.results[key] = result

    def write(self) -> None:
        """Replace the file."""
        body = json.dumps({"search": self.search, "results": self.results}, default=float)
        head = {"format": _FORMAT, "version": _VERSION, "sha256": _checksum(body)}
        with written_whole(self.path) as file:
            file.write(f"{json.dumps(head)}\n{body}\n".encode())

    def _read(self) -> dict[str, dict[str, Any]]:
        name = f"resume={str(self.path)!r}"
        try:
            head, _, body = self.path.read_bytes().partition(b"\n")
            header = json.loads(head)
            mine = isinstance(header, dict) and header.get("format") == _FORMAT
        except ValueError:
            mine = False
        if not mine:
            raise ValueError(f"{name} was not written by a search of aesvm: name another file.")
        if header.get("version") != _VERSION:
            raise ValueError(
                f"{name} is of version {header.get('version')!r} of the format, and this is "
                f"{_VERSION}: use the aesvm that wrote it, or remove it."
            )
        text = body.removesuffix(b"\n")
        if _checksum(text) != header.get("sha256"):
            raise ValueError(f"{name} is truncated or corrupt: remove it, and begin anew.")
        try:
            kept = json.loads(text)
            search, results = dict(kept["search"]), dict(kept["results"])
        except (ValueError, TypeError, KeyError):
            raise ValueError(f"{name} is corrupt: remove it, and begin anew.") from None
        parts = {**search, **self.search}
        changed = [part for part in parts if search.get(part) != self.search.get(part)]
        if changed:
            own = [part for part in changed if part not in _PARTS]
            said = [_PARTS[part] for part in _PARTS if part in changed]
            said += [f"another value of {', '.join(own)}"] if own else []
            raise ValueError(
                f"{name} is of another search, with {'; '.join(said)}: name another file, or "
                "remove it."
            )
        return results


def parts_of(estimator: Any, **parts: Any) -> dict[str, str]:
    """What a search is of, each part by a digest, and each parameter of the estimator."""
    params = {
        name: value
        for name, value in estimator.get_params().items()
        if name.rpartition("__")[2] not in _NO_MATTER
    }
    found = {"estimator": digest_of("estimator", _plain(estimator), sorted(params))}
    found |= {name: digest_of(name, value) for name, value in parts.items()}
    return found | {
        f"the estimator's {name}": digest_of(name, _plain(value)) for name, value in params.items()
    }


def _plain(value: Any) -> Any:
    """A value, with estimators in it by their classes: their parameters are told one by one."""
    if hasattr(value, "get_params"):
        return type(value).__module__, type(value).__qualname__
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def digest_of(name: str, *values: Any) -> str:
    """A digest of what the name says, the same in every process."""
    try:
        return joblib.hash(values, hash_name="sha1")
    except Exception as error:
        raise ValueError(
            f"resume needs what a search is of to be told from another, and {name} holds something "
            f"that cannot be pickled, such as a lambda ({error}): define functions in a module."
        ) from error


def _checksum(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
