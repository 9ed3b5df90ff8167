"""``python -m experiments.paper --tables all --scale quick --data-dir FOLDER``: a report.

Runs that are in the results file already are not made again: the same command goes on where
it stopped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from experiments.paper import report
from experiments.paper.campaign import Campaign
from experiments.paper.runs import Ledger
from experiments.paper.scales import QUICK, SCALES
from experiments.paper.tables import TABLES

ROOT = Path(__file__).parent.parent.parent


def main() -> int:
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
    parser.add_argument(
        "--retry", action="store_true", help="make runs again that had no result, or no time"
    )
    parser.add_argument("--results", type=Path, help="file of the runs, one JSON line each")
    parser.add_argument(
        "--report",
        type=Path,
        help="folder; docs/paper for all tables at the scale quick, otherwise beside the results",
    )
    parser.add_argument("--no-runs", action="store_true", help="only write the report anew")
    options = parser.parse_args()
    scale = SCALES[options.scale]
    chosen = list(TABLES) if "all" in options.tables else list(dict.fromkeys(options.tables))
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        parser.error(f"unknown table {', '.join(unknown)}: use all or {', '.join(TABLES)}")
    results = options.results or ROOT / "experiments" / "results" / f"paper_{scale.name}.jsonl"
    if options.no_runs and not results.exists():
        parser.error(f"--no-runs: there are no results in {results}")
    whole = len(chosen) == len(TABLES) and scale is QUICK
    folder = options.report or (ROOT / "docs" / "paper" if whole else results.with_suffix(""))
    ledger = Ledger.open(results)
    tables = [TABLES[name] for name in chosen]
    if not options.no_runs:
        campaign = Campaign(
            ledger,
            None if options.data_dir is None else Path(options.data_dir),
            options.threads,
            options.workers or max(1, (os.cpu_count() or 1) // options.threads),
            options.time_limit or scale.time_limit,
            options.time_limit or scale.reduction_limit,
            options.retry,
        )
        campaign.make([run for table in tables for run in table.runs(scale)])
    for path in report.write(tables, scale, ledger, folder):
        print(f"Written: {path}")
    copy = folder / "runs.jsonl"
    if results.exists() and not (copy.exists() and copy.samefile(results)):
        shutil.copyfile(results, copy)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the runs made are kept, and the same command goes on from there")
