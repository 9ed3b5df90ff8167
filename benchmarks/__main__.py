"""``python -m benchmarks [questions] --data-dir FOLDER``: tables, and a JSON file."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.datasets import MissingError
from benchmarks.report import Report

RESULTS = Path(__file__).parent / "results"

#: Questions by module: a function of each module that is given the report.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "floor": ("floor",),
    "startup": ("startup",),
    "speed": ("speed", "values", "few", "scaling"),
    "solver": ("solver", "cores", "classes", "family"),
    "refinement": ("refinement", "exactness_growth", "regret"),
    "few_vectors": ("basis", "basis_rivals", "compress"),
    "closeness": ("closeness",),
    "streams": ("streams", "stream_growth", "loosened", "cluster", "levels"),
    "search": ("search", "search_large", "search_halving"),
    "exports": ("exports",),
    "shapley": ("shapley", "shapley_rivals"),
    "accel": ("accel",),
    "time_limit": ("time_limit",),
    "expected": ("expected",),
    "front": ("front",),
}


def main() -> int:
    modules = {name: module for module, names in QUESTIONS.items() for name in names}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="question", help=", ".join(modules))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="threads")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON file")
    options = parser.parse_args()
    unknown = set(options.questions) - set(modules)
    if unknown:
        parser.error(f"unknown question {', '.join(sorted(unknown))}: use {', '.join(modules)}")
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    report = Report(options.results, data_dir, options.jobs, options.repeats)
    missing = []
    for name in options.questions or modules:
        print(f"... {name}", file=sys.stderr, flush=True)
        try:
            getattr(import_module(f"benchmarks.{modules[name]}"), name)(report)
        except MissingError as error:
            missing.append(f"{name}: {error}")
    print(f"Written to {report.path}" if report.tables else "Nothing measured.")
    for line in missing:
        print(f"Skipped {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; what was measured is in the JSON file")
