"""``python -m aesvm.accel script.py args``: run a program with ``aesvm.accel`` installed."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from aesvm import accel
from aesvm.accel.calls import calls


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
    try:
        if options.module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(name))
            runpy.run_path(name, run_name="__main__")
    finally:
        if options.report:
            print(calls.so_far().text, file=sys.stderr)


if __name__ == "__main__":
    main()
