"""How the program ends: exit codes, and errors in one line."""

from __future__ import annotations

import errno

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
    "matplotlib": "aesvm[cli]",
    "pandas": "aesvm[cli]",
    "pyarrow": "aesvm[cli]",
    "rich": "aesvm[cli]",
    "typer": "aesvm[cli]",
}

#: Parameters of the package that errors carry, and what they are on the command line.
_FLAGS = {
    "max_vectors": "--max-vectors",
    "memory_budget": "--memory",
    "nu": "-n",
    "sample_weight": "--weight or -W",
    "scoring": "--scoring",
    "target": "--target",
    "task": "--task",
}


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
    """What is wrong, in one line; a parameter that the error carries is named by its flag too.

    Examples
    --------
    >>> from aesvm.command.outcome import line_of
    >>> from aesvm.runtime.errors import ParameterError
    >>> line_of(ParameterError("nu", "nu=0.9 is infeasible."))
    'nu=0.9 is infeasible. (nu is -n)'
    """
    if isinstance(error, Terminated | KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
        )
    text = " ".join(str(error).split())
    parameter = getattr(error, "parameter", None)
    if parameter in _FLAGS:
        text = f"{text} ({parameter} is {_FLAGS[parameter]})"
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
