"""What a run of benchmarks asks with, and what it measured: tables on the screen and in a file."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pandas as pd

from benchmarks import datasets, other_datasets
from benchmarks.datasets import Dataset
from benchmarks.machine import installed, processor

PACKAGES = ("aesvm", "numpy", "scipy", "scikit-learn", "numba", "scikit-learn-intelex", "dask")


class Report:
    """Where data is, threads and repetitions of a run; its tables, written whenever one grows."""

    def __init__(
        self, folder: Path, data_dir: Path | None = None, jobs: int = 1, repeats: int = 1
    ) -> None:
        self.started = datetime.now(UTC)
        self.path = folder / f"{self.started:%Y%m%dT%H%M%SZ}.json"
        self.data_dir, self.jobs, self.repeats = data_dir, jobs, repeats
        self.data: Callable[[str], Dataset] = cache(self._load)
        self.tables: dict[str, dict] = {}

    def _load(self, name: str) -> Dataset:
        module = other_datasets if name in other_datasets.OTHERS else datasets
        return module.load(name, self.data_dir)

    def table(self, title: str, rows: list[dict], note: str = "") -> None:
        """Print a table and write it down, in place of an earlier one of that title."""
        shown = pd.DataFrame(rows).map(_text)
        print(f"\n### {title}\n")
        print(shown.to_markdown(index=False, tablefmt="github", disable_numparse=True))
        print(f"\n{note}\n" if note else "", flush=True)
        self.tables[title] = {"rows": rows, "note": note}
        content = {
            "started": self.started.isoformat(),
            "machine": {
                "platform": platform.platform(),
                "processor": processor(),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                **{name: installed(name) for name in PACKAGES},
            },
            "tables": self.tables,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, json.dumps(content, indent=1, default=float))


def show(line: dict) -> dict:
    """A line of a table in the making, said at once."""
    print(" | ".join(map(_text, line.values())), file=sys.stderr, flush=True)
    return line


def replace_file(path: Path, content: str | bytes) -> None:
    """The file has the content, or what it had before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def median_seconds(run: Callable[[], object], repeats: int = 1, long: float = 5.0) -> float:
    """Median wall-clock seconds of a call; one that takes over ``long`` is made once."""
    seconds: list[float] = []
    while len(seconds) < repeats and (not seconds or seconds[0] <= long):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _text(value) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
