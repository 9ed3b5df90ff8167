"""``python -m experiments.paper --tables all --scale quick --data-dir FOLDER``: a report.

Runs that are in the results file already are not made again: the same command goes on where
it stopped. ``--merge`` adds the runs that another machine made.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from experiments.paper.campaign import Campaign
from experiments.paper.estimates import on_devices
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import FULL, ORDER, SCALES, Scale
from experiments.paper.tables import TABLES, in_order

ROOT = Path(__file__).parent.parent.parent

#: The report in docs/paper, and the folder there of any other scale's.
_OF_DOCS = {FULL.name: ".", "quick": "quick"}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.paper", description=__doc__)
    parser.add_argument(
        "--tables",
        nargs="+",
        default=["all"],
        metavar="TABLE",
        help=f"all, or some of {', '.join(TABLES)}",
    )
    parser.add_argument("--scale", choices=SCALES, default="quick")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--threads", type=int, default=1, help="of every solver")
    parser.add_argument("--workers", type=int, help="runs at a time; as many as cores allow")
    parser.add_argument("--time-limit", type=float, help="seconds of one fit")
    parser.add_argument("--folds", type=int, default=1, help="of D2 to D4, with --scale full")
    parser.add_argument(
        "--datasets", nargs="+", choices=sorted(ORDER), metavar="D", help="make runs of these only"
    )
    parser.add_argument(
        "--solvers",
        nargs="+",
        metavar="SOLVER",
        help='make runs of these only, in this order, as "AESVM 1e-3"',
    )
    parser.add_argument(
        "--gammas", nargs="+", type=float, metavar="G", help="make runs with these g only"
    )
    parser.add_argument(
        "--costs", nargs="+", type=float, metavar="C", help="make runs with these C' only"
    )
    parser.add_argument(
        "--common-points",
        action="store_true",
        help="make runs only at the points of the grid that all solvers have",
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="cuda, with --scale full: make there what the exact SVM and AESVM have not on a CPU",
    )
    parser.add_argument(
        "--seconds", type=float, help="begin no run after so many: the next call goes on"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="measure the processor's seconds, for a machine with other work; one thread",
    )
    parser.add_argument(
        "--retry", action="store_true", help="make runs again that had no result, or no time"
    )
    parser.add_argument("--results", type=Path, help="file of the runs, one JSON line each")
    parser.add_argument(
        "--merge", type=Path, nargs="+", default=[], metavar="FILE", help="runs of other machines"
    )
    parser.add_argument(
        "--report",
        type=Path,
        help="folder; one in docs/paper for all tables, otherwise beside the results",
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--no-runs", action="store_true", help="only write the report anew")
    only.add_argument("--no-report", action="store_true", help="only make the runs")
    return parser


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    scale = _scale(parser, options)
    chosen = list(TABLES) if "all" in options.tables else list(dict.fromkeys(options.tables))
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        parser.error(f"unknown table {', '.join(unknown)}: use all or {', '.join(TABLES)}")
    if options.processor_time and (options.threads > 1 or options.device != "cpu"):
        parser.error("--processor-time: one thread, and device cpu")
    results = options.results or ROOT / "experiments" / "results" / f"paper_{scale.name}.jsonl"
    ledger = Ledger.open(results)
    tables = [TABLES[name] for name in chosen]
    every = [run for table in tables for run in table.runs(scale)]
    of_scale = {
        one.key for table in TABLES.values() for run in table.runs(scale) for one in on_devices(run)
    }
    for path in options.merge:
        if not path.exists():
            parser.error(f"--merge: there is no file {path}")
        print(f"{path}: {ledger.merge(Ledger.open(path), of_scale)} runs added")
    if options.no_runs and not results.exists():
        parser.error(f"--no-runs: there are no results in {results}")
    if not options.no_runs:
        _make(options, scale, ledger, every)
    if options.no_report:
        return 0
    whole = len(chosen) == len(TABLES)
    docs = ROOT / "docs" / "paper" / _OF_DOCS[scale.name]
    folder = options.report or (docs if whole else results.with_suffix(""))
    _report(chosen, scale, ledger, folder)
    copy = folder / "runs.jsonl"
    if results.exists() and not (copy.exists() and copy.samefile(results)):
        shutil.copyfile(results, copy)
    return 0


def _scale(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Scale:
    scale = SCALES[options.scale]
    if scale is not FULL:
        if options.folds != 1 or options.device != "cpu":
            parser.error("--folds and --device: with --scale full only")
        return scale
    if not 1 <= options.folds <= 5:
        parser.error(f"--folds {options.folds}: use 1 to 5")
    if options.folds > 1:  # the first of them is the fold that is taken alone
        of = {d: [one, *(k for k in range(5) if k != one)] for d, (one,) in scale.folds.items()}
        scale = replace(scale, folds={d: tuple(ks[: options.folds]) for d, ks in of.items()})
    return replace(scale, device=options.device)


def _make(options: argparse.Namespace, scale: Scale, ledger: Ledger, runs: list[Run]) -> None:
    campaign = Campaign(
        ledger,
        None if options.data_dir is None else Path(options.data_dir),
        options.threads,
        options.workers or max(1, (os.cpu_count() or 1) // options.threads),
        options.time_limit or scale.time_limit,
        options.time_limit or scale.reduction_limit,
        options.retry,
        options.seconds,
        options.processor_time,
        _command(),
        _gpu(options.device),
    )
    wanted = [
        run
        for run in in_order(scale, runs, options.solvers or ())
        if (not options.datasets or run.dataset in options.datasets)
        and (not options.solvers or run.solver in options.solvers)
        and (not options.gammas or run.gamma in options.gammas)
        and (not options.costs or run.C in options.costs)
        and (not options.common_points or _is_common(scale, run))
        and (run.device == "cpu" or not ledger[replace(run, device="cpu")].ok)
    ]
    campaign.make(wanted)


def _is_common(scale: Scale, run: Run) -> bool:
    return bool(run.degree) or (run.C, run.gamma) in scale.small_points


def _gpu(device: str) -> str:
    """Its name, where CuPy says it; what cannot be computed there, the runs say themselves."""
    if device == "cpu":
        return ""
    try:
        import cupy

        number = int(device.partition(":")[2] or 0)
        return str(cupy.cuda.runtime.getDeviceProperties(number)["name"].decode())
    except ImportError:
        return ""


def _command() -> str:
    """As it was given, without the folders of a machine."""
    given, hidden = [], {"--data-dir", "--results", "--report", "--merge"}
    skipping = False
    for word in sys.argv[1:]:
        if word.startswith("--"):
            skipping = word.split("=")[0] in hidden
        if not skipping:
            given.append(word)
    return shlex.join(["python", "-m", "experiments.paper", *given])


def _report(chosen: list[str], scale: Scale, ledger: Ledger, folder: Path) -> None:
    from experiments.paper import report  # pandas and matplotlib: a machine may only make runs

    for path in report.write([TABLES[name] for name in chosen], scale, ledger, folder):
        print(f"Written: {path}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the runs made are kept, and the same command goes on from there")
