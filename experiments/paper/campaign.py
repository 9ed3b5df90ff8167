"""All runs that are still to be made, handed to worker processes."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aesvm
from benchmarks.datasets import ChecksumError, MissingError, by_paper, make_sure_of
from benchmarks.machine import installed, processor
from experiments.paper.runs import SEED, Ledger, Outcome, Run
from experiments.paper.worker import Worker, wait_for

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "scikit-learn-intelex")

#: Once a solver has been past its time limit so often, it is not tried again with other C or on
#: other folds: the rest of the grid, other kernels and other sizes, is.
PATIENCE = 2

#: A subsample that is to take a given time needs two smaller ones to find its size.
_FITS = {"subsample, same time": 3}

#: So many processes that end by themselves, one after another, are no accident.
_LOSSES = 5

#: Seconds between two lines of progress.
_LINES = 10.0


class Campaign:
    """Makes runs, and writes each down as soon as it has ended."""

    def __init__(
        self,
        ledger: Ledger,
        data_dir: Path | None,
        threads: int,
        workers: int,
        time_limit: float,
        reduction_limit: float,
        retry: bool = False,
        seconds: float | None = None,
        processor_time: bool = False,
        command: str = "",
        gpu: str = "",
    ) -> None:
        self.ledger = ledger
        self.data_dir = data_dir
        self.threads = threads
        self.n_workers = workers
        self.time_limit = time_limit
        self.reduction_limit = reduction_limit
        self.retry = retry
        self.seconds = seconds
        self.processor_time = processor_time
        self.losses = 0
        self.environment = environment(threads, workers, time_limit, reduction_limit)
        if processor_time:
            self.environment["clock"] = "processor"
        if command:
            self.environment["command"] = command
        if gpu:
            self.environment["gpu"] = gpu

    def make(self, runs: Iterable[Run]) -> None:
        """The runs that the ledger has not, in the order given; for some seconds, where limited.

        Runs that are under way then are finished, and the others left for the next time.
        """
        wanted = list(runs)
        self.until = None if self.seconds is None else time.monotonic() + self.seconds
        if self.retry:
            self._forget([run for run in wanted if not self.ledger[run].ok])
        pending = self._possible(self._with_data(self.ledger.missing(wanted)))
        if not pending:
            return
        self.late = self._late(wanted)
        workers = [
            Worker(self.data_dir, self.threads, self.processor_time)
            for _ in range(min(self.n_workers, len(pending)))
        ]
        try:
            self._hand_out(pending, workers, _Progress(self.ledger, len(pending), len(workers)))
        finally:
            for worker in workers:
                worker.stop()

    def _with_data(self, runs: Iterable[Run]) -> list[Run]:
        """The runs whose data is here, or could be fetched."""
        found = list(runs)
        for paper in dict.fromkeys(run.dataset for run in found):
            try:
                make_sure_of(by_paper(paper).name, self.data_dir)
            except (MissingError, ChecksumError) as error:
                print(f"{paper}: {error}")
                for run in found:
                    if run.dataset == paper:
                        self.ledger.outcomes[run.key] = Outcome("missing", reason=str(error))
        return list(self.ledger.missing(found))

    def _possible(self, runs: list[Run]) -> list[Run]:
        """Without those that are measured against a run that is neither made nor to be made."""
        coming = {run.key for run in runs}
        return [
            run
            for run in runs
            if run.like is None or run.like in self.ledger or run.like.key in coming
        ]

    def _hand_out(self, pending: list[Run], workers: list[Worker], progress: _Progress) -> None:
        while pending or any(worker.run for worker in workers):
            if self.until is not None and time.monotonic() > self.until:
                pending.clear()
            for worker in workers:
                if worker.run is None:
                    self._give(worker, pending, progress)
            busy = [worker for worker in workers if worker.run is not None]
            if busy:
                wait_for(busy, 0.2)
            for worker in busy:
                run, outcome = worker.run, worker.outcome()
                if run is not None and outcome is not None:
                    self._write_down(run, outcome, progress)
            progress.show(pending, [worker.run for worker in busy if worker.run is not None])

    def _give(self, worker: Worker, pending: list[Run], progress: _Progress) -> None:
        """The next run that need not wait for another."""
        position = 0
        while position < len(pending):
            run = pending[position]
            if run.like is not None and run.like not in self.ledger:
                position += 1
                continue
            pending.pop(position)
            known = self._known(run)
            if known is not None:
                self._write_down(run, known, progress)
                continue
            like = None if run.like is None else self.ledger[run.like]
            limit = self.reduction_limit if run.solver == "DeriveRS" else self.time_limit
            worker.begin(run, like, limit * _FITS.get(run.solver, 1))
            return

    def _known(self, run: Run) -> Outcome | None:
        """What will come of a run, where that is clear without making it."""
        like = None if run.like is None else self.ledger[run.like]
        if like is not None and not like.ok:
            status = "missing" if like.status == "missing" else "skipped"
            return Outcome(status, reason="the run that it is measured against has no result")
        if self.late[_kind(run)] >= PATIENCE:
            reason = f"past its time limit {PATIENCE} times before, with this kernel"
            return Outcome("skipped", reason=reason)
        return None

    def _write_down(self, run: Run, outcome: Outcome, progress: _Progress) -> None:
        if outcome.status == "missing":  # not a result: it is looked for again the next time
            self.ledger.outcomes[run.key] = outcome
        else:
            self.ledger.add(run, outcome, self.environment)
        if outcome.status == "timeout":
            self.late[_kind(run)] += 1
        lost = outcome.status == "error" and "exit code" in (outcome.reason or "")
        self.losses = self.losses + 1 if lost else 0
        if self.losses >= _LOSSES:
            raise RuntimeError(f"{_LOSSES} runs in a row were lost: {outcome.reason}")
        if outcome.status in ("timeout", "error"):
            print(f"{run.dataset} {run.solver}: {outcome.reason}", file=sys.stderr, flush=True)
        progress.ended(run, outcome)

    def _late(self, runs: list[Run]) -> Counter[Run]:
        unique = {run.key: run for run in runs}.values()
        return Counter(_kind(run) for run in unique if self.ledger[run].status == "timeout")

    def _forget(self, runs: list[Run]) -> None:
        for run in runs:
            self.ledger.outcomes.pop(run.key, None)


class _Progress:
    """Lines that say what runs, how many are made, and how long the others may take."""

    def __init__(self, ledger: Ledger, total: int, workers: int) -> None:
        self.total, self.workers, self.made = total, workers, 0
        self.shown = time.monotonic()
        self.spent: dict[tuple[str, ...], list[float]] = {}
        for content, _ in ledger.lines:
            self._learn(Run(**content["run"]), Outcome(**content["outcome"]))

    def _learn(self, run: Run, outcome: Outcome) -> None:
        if outcome.spent is not None:
            for kind in ((run.dataset, run.solver), (run.solver,), ()):
                self.spent.setdefault(kind, []).append(outcome.spent)

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.made += 1
        self._learn(run, outcome)

    def left(self, pending: Iterable[Run]) -> float | None:
        """Seconds: of each as many as others of its dataset and solver took, on average."""
        if not self.spent:
            return None
        total = 0.0
        for run in pending:
            kinds = ((run.dataset, run.solver), (run.solver,), ())
            total += statistics.fmean(next(self.spent[k] for k in kinds if k in self.spent))
        return total / self.workers

    def show(self, pending: list[Run], running: list[Run]) -> None:
        if time.monotonic() < self.shown + _LINES:
            return
        self.shown = time.monotonic()
        left = self.left(pending)
        about = "" if left is None else f", about {left / 60.0:.0f} minutes left"
        now = "; ".join(f"{run.dataset} {run.solver}" for run in running[:3])
        print(f"{self.made} of {self.total} runs{about}: {now}", file=sys.stderr, flush=True)


def _kind(run: Run) -> Run:
    """The run, but for C and the fold."""
    return replace(run, C=0.0, fold=0, like=None)


def environment(
    threads: int, workers: int, time_limit: float, reduction_limit: float
) -> dict[str, Any]:
    """What a run was made with, and where."""
    return {
        "seed": SEED,
        "threads": threads,
        "runs at a time": workers,
        "time limit": time_limit,
        "reduction limit": reduction_limit,
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": {"aesvm": aesvm.__version__} | {name: installed(name) for name in PACKAGES},
    }
