"""Results of a search, kept in a file from which an interrupted one goes on.

The file is text: a line that says what it is, with a checksum of the next, and a line of JSON. It
is replaced as a whole whenever a chain of candidates is done on a fold, and never unpickled. What
another process has written in the meantime, of the same search, is kept as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from aesvm.io.atomic import check_writable, written_whole
from aesvm.model_selection.digests import digest_of

try:
    import fcntl
except ImportError:  # Windows: files are merged there too, but not under a lock
    fcntl = None  # type: ignore[assignment]

#: What the file begins with, and its version.
_FORMAT, _VERSION = "aesvm search", 1

#: How an error names a part of a search that has changed.
_PARTS = {
    "estimator": "another estimator",
    "X": "another X",
    "y": "another y",
    "params": "other parameters of fit",
    "scoring": "another scoring",
    "options": "another return_train_score or error_score",
}

#: The most changed parameters that an error names.
_NAMED = 3

#: Numbers that every result has, and the scores that it may have.
_NUMBERS, _SCORES = ("fit_time", "score_time", "n_test_samples"), ("test_scores", "train_scores")

#: Parameters that results do not depend on.
_NO_MATTER = ("n_jobs", "verbose")


class Checkpoint:
    """The results of candidates on folds, in a file.

    Parameters
    ----------
    path : str or os.PathLike
        Of the file; where there is one, its results are read.
    search : dict of str to str
        Digests of the parts of the search, from ``parts_of``.
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
        try:
            check_writable(self.path)
        except OSError as error:
            why = error.strerror or error
            raise ValueError(f"resume={str(path)!r} cannot be written to: {why}.") from error
        self.n_read = len(self.results)  #: results that were in the file

    def find(self, key: str) -> dict[str, Any] | None:
        """The result of a candidate on a fold, or None; also None of a fit that failed.

        The cause, such as too little memory, may have passed.
        """
        result = self.results.get(key)
        return None if result is None or result["fit_error"] is not None else result

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep the result of a candidate on a fold, from the next ``write`` on."""
        self.results[key] = result

    def write(self) -> None:
        """Replace the file; results that another process has put into it since stay there."""
        with _locked(self.path.parent):
            if self.path.exists():
                for key, result in self._read().items():
                    better = self.find(key) is None and result["fit_error"] is None
                    if better or key not in self.results:
                        self.results[key] = result
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
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error}.") from error
        except (ValueError, RecursionError):
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
            if not all(map(_is_result, results.values())):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError(
                f"{name} is corrupt, it has no results of a search: remove it, and begin anew."
            ) from None
        parts = {**search, **self.search}
        changed = [part for part in parts if search.get(part) != self.search.get(part)]
        if changed:
            own = [part for part in changed if part not in _PARTS]
            said = [_PARTS[part] for part in _PARTS if part in changed]
            if own and "estimator" not in changed:  # of another one, all parameters are
                rest = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
                said.append(f"another value of {', '.join(own[:_NAMED])}{rest}")
            raise ValueError(
                f"{name} is of another search, with {'; '.join(said)}: name another file, or "
                "remove it."
            )
        return results


def parts_of(estimator: Any, **parts: Any) -> dict[str, str]:
    """Digests of the parts of a search, and of each parameter of its estimator."""
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
    """A value with estimators replaced by their classes: parameters have digests of their own."""
    if hasattr(value, "get_params"):
        return type(value)
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _is_result(one: Any) -> bool:
    """Whether a value read from a file is a result of a fit."""
    if not isinstance(one, dict) or not isinstance(one.get("fit_error", 0), (str, type(None))):
        return False
    scores = [one[name] for name in _SCORES if name in one]
    each = [list(own.values()) if isinstance(own, dict) else [own] for own in scores]
    numbers = [one.get(name) for name in _NUMBERS] + [value for own in each for value in own]
    spent, warned = one.get("spent", {}), one.get("warned", [])
    if not isinstance(spent, dict) or not isinstance(warned, list) or "test_scores" not in one:
        return False
    texts = [text for pair in warned for text in (pair if isinstance(pair, list) else [None, None])]
    return (
        all(isinstance(number, (int, float)) for number in numbers)
        and all(isinstance(number, (int, float, type(None))) for number in spent.values())
        and all(isinstance(text, str) for text in texts)
        and len(texts) == 2 * len(warned)
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that write results there."""
    with ExitStack() as stack:
        if fcntl is not None:
            with suppress(OSError):  # a folder or a file system without locks
                descriptor = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _checksum(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
