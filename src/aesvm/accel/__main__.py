"""``python -m aesvm.accel script.py args``: run a program with ``aesvm.accel`` installed.

The program runs as by ``python script.py args``: it is ``__main__`` until the process ends, and has
the same ``sys.argv`` and ``sys.path``. Exit codes, tracebacks and Ctrl-C are as Python has them.
"""

from __future__ import annotations

import argparse
import atexit
import builtins
import io
import os
import runpy
import sys
from types import ModuleType, TracebackType

from aesvm import accel
from aesvm.accel.seam import calls


def main() -> None:
    """Run a script, or a module with ``-m``; all that follows is the program's."""
    parser = argparse.ArgumentParser(
        prog="python -m aesvm.accel",
        description="Run a Python program whose sklearn.svm is accelerated.",
        usage="%(prog)s [--n-jobs N] [--device D] [--strict] [--report] "
        "(script.py | -m module) [args]",
    )
    parser.add_argument("--n-jobs", type=int, help="threads; by default all processors")
    parser.add_argument("--device", help='what computes, such as "cuda"')
    parser.add_argument("--strict", action="store_true", help="raise instead of using LIBSVM")
    parser.add_argument("--report", action="store_true", help="print at the end what ran where")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module by its name")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    options = parser.parse_args()
    if not options.program:
        parser.error("no program given: a script, or -m and the name of a module.")
    name, *_ = sys.argv = options.program
    try:
        accel.install(n_jobs=options.n_jobs, device=options.device, strict=options.strict)
    except (RuntimeError, ValueError) as error:
        parser.error(str(error))
    if options.report:
        atexit.register(_report)
    try:
        if options.module:
            # what ``python -m`` itself calls; it fills the module that is ``__main__``
            sys.modules["__main__"] = ModuleType("__main__")
            runpy._run_module_as_main(name)  # type: ignore[attr-defined]
        elif os.path.isfile(name) and not _is_archive(name):
            _run_script(name)
        else:
            _run_path(name, parser)
    except (Exception, KeyboardInterrupt) as error:
        _hide_our_frames(error)
        raise


def _run_script(name: str) -> None:
    """Execute a file as ``__main__``."""
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(name))
    path = os.path.abspath(name)
    with io.open_code(path) as file:
        source = file.read()
    program = ModuleType("__main__")
    vars(program).update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = program
    exec(compile(source, path, "exec", dont_inherit=True), vars(program))


def _run_path(name: str, parser: argparse.ArgumentParser) -> None:
    """Run a folder or an archive with a ``__main__``."""
    if not os.path.exists(name):
        parser.error(f"can't open file {os.path.abspath(name)!r}: there is none.")
    if not sys.flags.safe_path:
        del sys.path[0]  # runpy puts the folder or the archive there
    runpy.run_path(name, run_name="__main__")


def _is_archive(name: str) -> bool:
    with open(name, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _report() -> None:
    print(calls.so_far().text, file=sys.stderr)


def _hide_our_frames(error: BaseException) -> None:
    """Have Python's traceback of an error begin in the program."""
    frame = begin = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == __file__:
            begin = frame.tb_next
        frame = frame.tb_next
    theirs = sys.excepthook  # the program may have set it

    def hook(kind: type[BaseException], value: BaseException, _: TracebackType | None) -> None:
        theirs(kind, value.with_traceback(begin), begin)

    sys.excepthook = hook


if __name__ == "__main__":
    main()
