"""How the program ends: exit codes, and errors in one line."""

from __future__ import annotations

DONE = 0
BAD_DATA = 1
USAGE = 2
FAULT = 3
MISSING = 4
INTERRUPTED = 130
BROKEN_PIPE = 141

#: What installs a library that is missing.
_INSTALLED_BY = {
    "skl2onnx": "aesvm[onnx]",
    "onnx": "aesvm[onnx]",
    "matplotlib": "aesvm[plot]",
    "rich": "aesvm[cli]",
    "typer": "aesvm[cli]",
}


class Terminated(KeyboardInterrupt):
    """The end that a signal has asked for, which is that of Ctrl-C but for its exit code."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class CommandError(Exception):
    """Something the user can mend; ``code`` is the exit code it ends with."""

    def __init__(self, message: str, code: int = BAD_DATA) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """Arguments that do not go together, or mean nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


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
    if isinstance(error, KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
        )
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if code_of(error) == FAULT:
        return f"a fault of aesvm, {type(error).__name__}: {text} (--debug shows where)"
    missing = (getattr(error, "name", None) or "").split(".")[0]
    if isinstance(error, ImportError) and missing and "pip install" not in text:
        return f"{text}: pip install '{_INSTALLED_BY.get(missing, missing)}'"
    return text or type(error).__name__
