"""What a benchmark measured: a Markdown table on the screen and a JSON file."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pandas as pd

PACKAGES = ("aesvm", "numpy", "scipy", "scikit-learn", "numba")
RIVALS = ("scikit-learn-intelex",)


class Report:
    """Tables of one run, written to a file whenever one is added."""

    def __init__(self, folder: Path) -> None:
        self.started = datetime.now(UTC)
        self.path = folder / f"{self.started:%Y%m%dT%H%M%SZ}.json"
        self.tables: list[dict] = []

    def table(
        self,
        title: str,
        columns: list[str],
        rows: list[list],
        note: str = "",
        replace: bool = False,
    ) -> None:
        """Print a table and write it down; ``replace``: in place of the last, if of that title."""
        if replace and self.tables and self.tables[-1]["title"] == title:
            self.tables.pop()
        cells = pd.DataFrame([[_text(value) for value in row] for row in rows], columns=columns)
        print(f"\n### {title}\n")
        print(cells.to_markdown(index=False, tablefmt="github", disable_numparse=True))
        if note:
            print(f"\n{note}")
        print(flush=True)
        self.tables.append({"title": title, "columns": columns, "rows": rows, "note": note})
        self._write()

    def _write(self) -> None:
        content = {
            "started": self.started.isoformat(),
            "machine": {
                "platform": platform.platform(),
                "processor": processor(),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                **{name: version(name) for name in PACKAGES},
                **{name: installed(name) for name in RIVALS},
            },
            "tables": self.tables,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, json.dumps(content, indent=1, default=float))


def replace_file(path: Path, text: str) -> None:
    """The file has the text, or what it had before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """Median wall-clock seconds of a call."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _text(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()
