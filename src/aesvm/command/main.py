"""Where the program begins and ends: whatever happens becomes an exit code and one line.

It imports nothing that is not needed to say how the program is used.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from aesvm.command.screen import (
    BROKEN_PIPE,
    DONE,
    INTERRUPTED,
    Terminated,
    code_of,
    line_of,
)

#: LIBSVM's flag for the weight of a class.
_CLASS_WEIGHT = re.compile(r"-w([-+]?[0-9]+)")


def start() -> NoReturn:
    """Run the program as a process, and end that.

    All files are closed by then: what Python would do at its end, to take apart what compiled code
    left in memory, takes half a second.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (to the end)
    for ending in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, ending) and signal.getsignal(getattr(signal, ending)) == signal.SIG_DFL:
            signal.signal(getattr(signal, ending), _terminate)
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or BROKEN_PIPE
    os._exit(code)


#: Signals to end that came.
_signals: list[int] = []


def _terminate(number: int, _: Any) -> NoReturn:
    """End as Ctrl-C does, so that no temporary file is left."""
    _signals.append(number)
    raise Terminated(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    arguments : sequence of str, default=None
        What follows the program's name; None: as it was started.

    Returns
    -------
    code : int
        The exit code; ``docs/command_line.md`` lists them.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    as_json = "--json" in given
    wanted = translated([one for one in given if one != "--debug"])
    try:
        from aesvm.command.app import program

        with warnings.catch_warnings():
            warnings.simplefilter("once")
            for expected in ("X does not have valid feature names", "Found unknown categories"):
                warnings.filterwarnings("ignore", message=expected)
            warnings.showwarning = _show_warning
            work = program()(args=wanted, prog_name="aesvm", standalone_mode=False)
            if isinstance(work, int):  # help was shown, or Ctrl-C came early
                return _report_error(KeyboardInterrupt(), as_json) if work == INTERRUPTED else work
            work()
            sys.stdout.flush()
        return DONE
    except SystemExit as ended:  # of typer, where the pipe that it prints help to is closed
        broken = isinstance(ended.__context__, BrokenPipeError)
        return BROKEN_PIPE if broken else int(bool(ended.code))
    except BaseException as error:
        if debug:
            raise
        return _report_error(error, as_json)


def translated(arguments: Sequence[str]) -> list[str]:
    """Arguments with LIBSVM's ``-wi weight`` written as ``--class-weight i=weight``."""
    if not arguments or arguments[0] != "train":
        return list(arguments)
    found, rest = [], list(arguments)
    while rest:
        one = rest.pop(0)
        match = _CLASS_WEIGHT.fullmatch(one)
        if match and rest:
            found += ["--class-weight", f"{match[1]}={rest.pop(0)}"]
        else:
            found.append(one)
    return found


def _report_error(error: BaseException, as_json: bool) -> int:
    """Say in one line what is wrong, and return the exit code."""
    if _signals:  # whatever was made of that on the way: compiled modules make it an ImportError
        error = Terminated(_signals[0])
    elif type(error).__name__ == "Abort":  # typer's, of Ctrl-C
        error = KeyboardInterrupt()
    code, line = code_of(error), line_of(error)
    if hasattr(error, "format_message"):  # typer's own errors, which may leave out the value
        code, line = getattr(error, "exit_code", 2), " ".join(error.format_message().split())
        if found := getattr(error.__cause__, "errors", None):  # of pydantic, which typer may ask
            line += f": {found()[0]['input']!r}"
    if isinstance(error, BrokenPipeError):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    if as_json:
        import json

        said: dict[str, Any] = {"error": line, "exit_code": code}
        if isinstance(number := getattr(error, "line", None), int):
            said |= {"file": getattr(error, "path", None), "line": number}
        with suppress(OSError):  # where standard output is what is wrong
            print(json.dumps(said), flush=True)
    if line:  # where there are no arguments, help was shown
        with suppress(OSError):
            print(f"aesvm: {line}", file=sys.stderr, flush=True)
    return code


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    text = " ".join(str(message).split())
    print(f"aesvm: warning: {text}", file=sys.stderr, flush=True)
