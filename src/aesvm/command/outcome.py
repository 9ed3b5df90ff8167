"""How the program ends: exit codes, and errors in one line."""

from __future__ import annotations

import errno
import re

DONE = 0
BAD_DATA = 1
USAGE = 2
FAULT = 3
MISSING = 4
INTERRUPTED = 130
BROKEN_PIPE = 141

#: Errors of a place that can take no more.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

#: What installs a library that is missing.
_INSTALLED_BY = {
    "skl2onnx": "aesvm[onnx]",
    "onnx": "aesvm[onnx]",
    "matplotlib": "aesvm[plot]",
    "rich": "aesvm[cli]",
    "typer": "aesvm[cli]",
}


#: Words of the package, and what they are on the command line.
_FLAGS = {
    r"a larger hull_tol, a larger subset_size or a smaller gamma": (
        "a larger --hull-tol or a smaller -g"
    ),
    r"scale X, for instance with sklearn\.preprocessing\.StandardScaler": (
        "scale them, for instance with aesvm scale"
    ),
    r"call certify(_stream)?\([^)]*\), (with what fit was given|or with Dask certify\(X, y\))": (
        "aesvm certify computes them, from the rows of training"
    ),
    r"a smaller tol goes further": "a smaller -e goes further",
    r"scale y, for instance with sklearn\.compose\.\w+\([^)]*\)\)": "scale the targets",
    r"tol=": "-e ",
    r"(raise|smaller|what) tol\b": r"\1 -e",
    r"nu=": "-n ",
    r"([Rr]aise) nu\b": r"\1 -n",
    r"lower C\b": "lower -c",
    r"max_vectors=": "--max-vectors ",
    r"max_vectors\b": "--max-vectors",
    r"target='([^']*)'": r"--target \1",
    r"Name the columns to read in features": "--ignore leaves a column out",
    r'refine="?(exact|auto|[0-9]+)"?': r"--refine \1",
    r"memory_budget=": "--memory ",
    r"memory_budget\b": "--memory",
    r"hull_tol=": "--hull-tol ",
    r"hull_tol\b": "--hull-tol",
    r'classes="strings"': "--classes strings",
    r"(target|features|weight)='([^']*)':": r"--\1 \2:",
    r"(target|features|weight)=(-?[0-9]+):": r"--\1 \2:",
    r"features: '": "--features: '",
    r"target and weight are": "--target and --weight are",
    r"leave it out \(index=False\), or list the columns of X in features": (
        "--ignore leaves it out, by its number from 0"
    ),
    r"Negative values in data passed to `sample_weight`": "a weight is negative",
    r"sample_weight": "weight",
    r"path=('[^']*')": r"\1",
    r"unless zero_based=True": "but in kernel matrices (-t 4)",
    r"certify(_stream)?\([^)]*\)": "aesvm certify",
}

#: A word of the package, where it is not part of the name of a file.
_WORD = r"(?<![\w/\\]){}(?!\.\w|\S*[/\\])"

#: What would do about a table that cannot be read, by how the error ends.
_REMEDIES = {
    r"column '[^']*'.* is not a number\.?$": (
        "--ignore leaves a column out; rows that lack a value are to be removed or filled in"
    ),
    r"column '[^']*' is empty\.?$": (
        "remove or fill in the rows that lack a value, or leave the column out with --ignore"
    ),
}


def as_flags(text: str) -> str:
    """A message of the package, in the words of the command line.

    Examples
    --------
    >>> from aesvm.command.outcome import as_flags
    >>> as_flags('nearer to it are a smaller hull_tol or refine="exact"')
    'nearer to it are a smaller --hull-tol or --refine exact'
    >>> as_flags("runs/hull_tol=0.1/rows.csv: there is no such file.")
    'runs/hull_tol=0.1/rows.csv: there is no such file.'
    """
    for pattern, flag in _FLAGS.items():
        text = re.sub(_WORD.format(pattern), flag, text)
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, text):
            return f"{text.removesuffix('.')}: {remedy}."
    return text


class Terminated(BaseException):
    """The end that a signal has asked for; no KeyboardInterrupt, which typer takes for its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class CommandError(Exception):
    """Something the user can mend; ``code`` is the exit code it ends with."""

    code = BAD_DATA


class UsageError(CommandError):
    """Arguments that do not go together, or mean nothing."""

    code = USAGE


def code_of(error: BaseException) -> int:
    """The exit code that an exception ends the program with."""
    if isinstance(error, CommandError | Terminated):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, ImportError):
        return MISSING
    if isinstance(error, ValueError | OSError | EOFError | MemoryError):
        return BAD_DATA
    return FAULT


def line_of(error: BaseException) -> str:
    """What is wrong, in one line."""
    if isinstance(error, Terminated | KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
        )
    text = as_flags(" ".join(str(error).split()))
    if isinstance(error, OSError) and error.strerror:
        # of what is full, only standard output has no name
        name = error.filename or ("standard output" if error.errno in _FULL else None)
        text = f"{name}: {error.strerror}" if name else text
    if code_of(error) == FAULT:
        return f"a fault of aesvm, {type(error).__name__}: {text} (--debug shows where)"
    missing = (getattr(error, "name", None) or "").split(".")[0]
    if isinstance(error, ImportError) and missing and "pip install" not in text:
        return f"{text}: pip install '{_INSTALLED_BY.get(missing, missing)}'"
    return text or type(error).__name__
