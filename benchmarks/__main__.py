"""``python -m benchmarks [questions] --data-dir FOLDER``: tables, and a JSON file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from benchmarks import (
    bases,
    basis_growth,
    basis_memory,
    basis_rivals,
    classes,
    closeness,
    cluster,
    compression,
    cores,
    family,
    floor,
    loosened,
    refinement,
    regret,
    search,
    solver,
    startup,
    stream_growth,
    streams,
)
from benchmarks.datasets import Dataset, MissingError, load
from benchmarks.report import Report

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    questions: dict[str, Callable[[], None]] = {
        "floor": lambda: floor.run(report, covtype(), jobs, repeats),
        "startup": lambda: startup.run(report, repeats),
        "solver": lambda: solver.run(report, data_dir, covtype, jobs, repeats),
        "classes": lambda: classes.run(report, jobs, repeats),
        "family": lambda: family.run(report, data_dir, jobs, repeats),
        "refinement": lambda: refinement.run(report, data_dir, jobs, repeats),
        "exactness_growth": lambda: refinement.growth(report, covtype(), jobs),
        "regret": lambda: regret.run(report, data_dir, jobs, repeats),
        "search": lambda: search.run(report, data_dir, covtype, jobs),
        "search_ijcnn1": lambda: search.of_fold(report, "ijcnn1", data_dir, covtype, jobs),
        "search_kdd99": lambda: search.of_fold(report, "kdd99", data_dir, covtype, jobs),
        "search_covtype": lambda: search.of_fold(report, "covtype", data_dir, covtype, jobs),
        "search_large": lambda: search.large(report, covtype, jobs),
        "search_halving": lambda: search.halving(report, data_dir, covtype, jobs),
        "hard_rounds": lambda: refinement.hard(report, covtype(), jobs),
        "streams": lambda: streams.run(report, data_dir, jobs),
        "stream_growth": lambda: stream_growth.run(report, jobs, repeats),
        "loosened": lambda: loosened.run(report, data_dir, jobs),
        "cluster": lambda: cluster.run(report, covtype(), jobs),
        "levels": lambda: cluster.levels(report, data_dir, covtype(), jobs),
        "cores": lambda: cores.run(report, covtype(), repeats),
        "compress": lambda: compression.run(report, data_dir, jobs, repeats),
        "basis": lambda: bases.run(report, data_dir, jobs),
        "closeness": lambda: closeness.run(report, data_dir, jobs),
        "basis_growth": lambda: basis_growth.run(report, covtype(), jobs),
        "basis_growth_streams": lambda: basis_growth.run_streams(report, covtype(), jobs),
        "basis_growth_cluster": lambda: basis_growth.run_cluster(report, covtype(), jobs),
        "basis_memory": lambda: basis_memory.run(report, jobs),
        "exports": lambda: import_module("benchmarks.exports").run(report),
        "basis_rivals": lambda: basis_rivals.run(report, data_dir, jobs),
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="question", help=", ".join(questions))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="threads")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON file")
    options = parser.parse_args()
    unknown = set(options.questions) - set(questions)
    if unknown:
        parser.error(f"unknown question {', '.join(sorted(unknown))}: use {', '.join(questions)}")
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    jobs, repeats = options.jobs, options.repeats
    report = Report(options.results)

    @cache
    def covtype() -> Dataset:
        return load("covtype", data_dir)

    missing = []
    for name in options.questions or questions:
        print(f"... {name}", file=sys.stderr, flush=True)
        try:
            questions[name]()
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
