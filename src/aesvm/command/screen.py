"""What the program says: results on standard output, all else on standard error; its exit codes.

Standard output has what a program may want to read: LIBSVM's lines, or with ``--json`` one object.
Notes, warnings and progress go to standard error; progress only where that is a terminal.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

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

#: Parameters of the package, and what they are on the command line where it is another name.
_FLAGS = {
    "C": "-c",
    "cache_size": "-m",
    "degree": "-d",
    "epsilon": "-p",
    "gamma": "-g",
    "memory_budget": "--memory",
    "nu": "-n",
    "sample_weight": "--weight or -W",
    "tol": "-e",
}


def flag_of(parameter: str) -> str:
    """What a parameter of the package is on the command line."""
    return _FLAGS.get(parameter, f"--{parameter.replace('_', '-')}")


class Terminated(BaseException):
    """The end that a signal has asked for; no KeyboardInterrupt, which typer takes for its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class CommandError(Exception):
    """An error that the user can correct; ``code`` is the exit code."""

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
    """What is wrong, in one line; a parameter that the error carries is named by its flag too."""
    if isinstance(error, Terminated | KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
        )
    text = " ".join(str(error).split())
    parameter = getattr(error, "parameter", None)
    if parameter is not None:
        text = f"{text} ({parameter} is {flag_of(parameter)})"
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


#: Levels of tasks that have a bar.
_DEEPEST = 3


@dataclass(frozen=True)
class Screen:
    """Where a command prints; ``quiet``: warnings, errors and what was asked for alone."""

    as_json: bool = False
    quiet: bool = False

    def line(self, text: str) -> None:
        """A line about the result, for people and for LIBSVM's scripts; not where it is quiet."""
        if not self.as_json and not self.quiet:
            print(text)

    def answer(self, text: str) -> None:
        """A line that was asked for: ``quiet`` does not silence it."""
        if not self.as_json:
            print(text)

    def note(self, text: str) -> None:
        """A line about what is done."""
        if not self.quiet:
            print(f"aesvm: {text}", file=sys.stderr, flush=True)

    def result(self, found: dict[str, Any]) -> None:
        """All of the result, for programs."""
        if self.as_json:
            print(json.dumps(_plain(found), allow_nan=False))

    def table(self, lines: Iterable[tuple[str, str]], title: str | None = None) -> None:
        """Names and values, for people."""
        if self.as_json or self.quiet:
            return
        from rich.console import Console
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, box=None)
        for name, value in lines:
            table.add_row(Text(name, style="cyan"), Text(value))
        framed = table if title is None else Panel(table, title=Text(title), expand=False)
        Console(highlight=False).print(framed)

    @contextmanager
    def progress(self, estimator: Any) -> Iterator[None]:
        """Bars for what an estimator does, where somebody watches."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(complete_style="cyan", finished_style="green"),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            before = getattr(estimator, "_skl_callbacks", [])
            estimator.set_callbacks(*before, Bars(bars))
            try:
                yield
            finally:
                estimator.set_callbacks(*before)


class Bars:
    """A callback of scikit-learn that shows tasks of fits as bars of rich."""

    max_propagation_depth = 0

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.tasks: dict[int, Any] = {}

    def __deepcopy__(self, memo: dict) -> Bars:
        return self

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing: a task is shown when it begins."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing: ``Screen.progress`` removes the bars."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Draw a bar for a task that has several parts."""
        depth = _depth(context)
        if context.max_subtasks in (0, 1) or depth >= _DEEPEST:
            return
        name = f"{'  ' * depth}{context.estimator_name if not depth else context.task_name}"
        self.tasks[id(context)] = self.bars.add_task(name, total=context.max_subtasks)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Take its bar away, and go on a step in that of the task that it is a part of."""
        own = self.tasks.pop(id(context), None)
        if own is not None:
            self.bars.remove_task(own)
        if context.parent is not None and id(context.parent) in self.tasks:
            self.bars.advance(self.tasks[id(context.parent)])


def _depth(context: Any) -> int:
    depth = 0
    while context.parent is not None:
        context, depth = context.parent, depth + 1
    return depth


def _plain(value: Any) -> Any:
    """What JSON has a type for: arrays are lists, and numbers that are not finite are null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
