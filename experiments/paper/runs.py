"""What is to be measured, and what was: one JSON line for every run, so that work can go on later.

A run is known by what it does, not by when: a line of the same run in the file means that it
need not be made again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.datasets import by_paper

#: Stands for all rows of a dataset that has folds.
WHOLE = -1

#: Why a run has no outcome that was never begun.
NOT_RUN = "not run"

#: Of all random choices.
SEED = 0


@dataclass(frozen=True)
class Run:
    """One fit: of a representative set (``solver="DeriveRS"``), or of a classifier."""

    dataset: str  #: D1 to D9
    solver: str
    gamma: float = 1.0
    C: float = 1.0
    epsilon: float = 0.0
    kernel: str = "rbf"
    degree: int = 0
    fold: int = 0  #: ``WHOLE`` is no fold: all rows are trained on
    train_rows: int | None = None  #: at most so many, evenly spaced; None is all
    test_rows: int | None = None
    partition: str = "distance"
    partition_size: int = 100_000
    subset_size: int = 1000
    shuffled: int | None = None  #: seed of a random order
    components: int = 0  #: basis vectors, random features, landmarks
    like: Run | None = None  #: the run whose set size, or seconds, a subsample has
    all_test_rows: bool = False  #: also those that the registry leaves out
    device: str = "cpu"  #: what trains and predicts, of this package's solvers

    @property
    def content(self) -> dict[str, Any]:
        """What is not as by default: a field added later does not change the runs made before."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        kept = {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}
        return {k: v.content if isinstance(v, Run) else v for k, v in kept.items()}

    @property
    def key(self) -> str:
        return _key(self)


@cache
def _key(run: Run) -> str:
    """A report asks for thousands of runs, many times."""
    return json.dumps(run.content, sort_keys=True)


def key_of(content: dict[str, Any]) -> str:
    """Of a line, its run's."""
    return json.dumps(content["run"], sort_keys=True)


@dataclass(frozen=True)
class Outcome:
    """What a run gave.

    ``status``: "ok", "timeout", "skipped", "error", or "missing" where the data, or the solver, is
    not to be had.
    """

    status: str
    seconds: float | None = None  #: of training; the reduction's where that is the run
    reduction_seconds: float | None = None  #: of the representative set, before training
    support_vectors: int | None = None
    accuracy: float | None = None
    kept: int | None = None  #: rows of the representative set, or of the subsample
    rows: int | None = None  #: trained on
    features: int | None = None
    reduced: bool | None = None  #: whether reducing was not given up
    objective: float | None = None  #: of the dual, to be minimised
    agreement: float | None = None  #: of LIBSVM: the share of test rows with our exact SVM's label
    excess: float | None = None  #: of LIBSVM: by how much our objective is above, relative to it
    exact_seconds: float | None = None  #: of LIBSVM: those of our exact SVM, beside it
    factor: float | None = None  #: of estimated seconds: a standard error, as a factor
    spent: float | None = None  #: seconds of the clock for the whole run, testing included
    reason: str | None = None  #: why a run is not ok, or why its seconds do not count

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def total_seconds(self) -> float:
        return (self.seconds or 0.0) + (self.reduction_seconds or 0.0)


def place_of(environment: dict[str, Any]) -> str:
    """Where seconds can be compared: the machine, the threads, the clock."""
    parts = ("machine", "threads", "clock")
    return json.dumps({part: environment.get(part) for part in parts}, sort_keys=True)


@dataclass
class Ledger:
    """The runs made, in a file to which lines are only ever added.

    The first outcome that is a result counts. Later lines of the same run are of other machines.
    """

    path: Path
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    environments: list[dict[str, Any]] = field(default_factory=list)
    lines: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Ledger:
        ledger = cls(path)
        if path.exists():
            content = path.read_text()
            whole = content[: content.rfind("\n") + 1]
            if whole != content:  # a line that was cut short is a run that was not made
                partial = path.with_suffix(".partial")
                partial.write_text(whole)
                partial.replace(path)
            for number, line in enumerate(whole.splitlines(), 1):
                ledger._read(line, number)
        return ledger

    def _read(self, line: str, number: int) -> None:
        try:
            content = json.loads(line)
            self._take(content, content.get("environment") or self.environments[-1])
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(
                f"{self.path}, line {number} is not a run ({error}): remove the line, or the file."
            ) from error

    def _now_in(self, environment: dict[str, Any]) -> None:
        """The environment of the last line is the last of them."""
        if environment in self.environments:
            self.environments.remove(environment)
        self.environments.append(environment)

    def add(self, run: Run, outcome: Outcome, environment: dict[str, Any]) -> None:
        """Write a line; it has its environment where that is not the one of the line before."""
        entry = by_paper(run.dataset)
        content = {
            "run": run.content,
            "data": {"name": entry.name, "kind": entry.kind or "the paper's"},
            "outcome": {k: v for k, v in asdict(outcome).items() if v is not None},
        }
        self._write(content, environment)

    def _write(self, content: dict[str, Any], environment: dict[str, Any]) -> None:
        line = {k: v for k, v in content.items() if k != "environment"}
        if self.environments[-1:] != [environment]:
            line["environment"] = environment
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._take(content, environment)

    def _take(self, content: dict[str, Any], environment: dict[str, Any]) -> None:
        key = key_of(content)
        known = self.outcomes.get(key)
        if known is None or not known.ok:
            self.outcomes[key] = Outcome(**content["outcome"])
        self.lines.append((content, environment))
        self._now_in(environment)

    def merge(self, other: Ledger, wanted: Collection[str] | None = None) -> int:
        """Add another machine's runs, but for those that this file has of it; how many were added.

        A run without a result gives way to one that has it, and errors are left where they were.
        ``wanted``: the keys of runs to add.
        """
        made = {
            (key_of(content), place_of(environment))
            for content, environment in self.lines
            if content["outcome"]["status"] == "ok"
        }
        added = 0
        for content, environment in other.lines:
            key, status = key_of(content), content["outcome"]["status"]
            if status == "error" or (key, place_of(environment)) in made:
                continue
            if key in self.outcomes and status != "ok":
                continue
            if wanted is None or key in wanted:
                self._write(content, environment)
                added += 1
        return added

    def __contains__(self, run: Run) -> bool:
        return run.key in self.outcomes

    def __getitem__(self, run: Run) -> Outcome:
        return self.outcomes.get(run.key, Outcome("skipped", reason=NOT_RUN))

    def missing(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The runs still to be made, each once."""
        seen = set()
        for run in runs:
            if run.key not in self.outcomes and run.key not in seen:
                seen.add(run.key)
                yield run
