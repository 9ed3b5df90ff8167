"""All runs that are still to be made, handed to worker processes."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.datasets import ChecksumError, MissingError, by_paper, make_sure_of
from benchmarks.report import installed, processor
from experiments.paper.runs import SEED, Ledger, Outcome, Run
from experiments.paper.worker import Worker, wait_for

PACKAGES = ("aesvm", "numpy", "scipy", "scikit-learn", "numba", "scikit-learn-intelex")

#: Once a solver has been past its time limit so often, it is not tried again with other C or on
#: other folds: the rest of the grid, other kernels and other sizes, is.
PATIENCE = 2

#: A subsample that is to take a given time needs two smaller ones to find its size.
_FITS = {"subsample, same time": 3}

#: So many processes that end by themselves, one after another, are no accident.
_LOSSES = 5


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
    ) -> None:
        self.ledger = ledger
        self.data_dir = data_dir
        self.threads = threads
        self.n_workers = workers
        self.time_limit = time_limit
        self.reduction_limit = reduction_limit
        self.retry = retry
        self.losses = 0
        self.environment = environment(threads, workers, time_limit, reduction_limit)

    def make(self, runs: Iterable[Run]) -> None:
        wanted = list(runs)
        if self.retry:
            self._forget([run for run in wanted if not self.ledger[run].ok])
        pending = self._with_data(self.ledger.missing(wanted))
        if not pending:
            return
        self.late = self._late(wanted)
        workers = [
            Worker(self.data_dir, self.threads) for _ in range(min(self.n_workers, len(pending)))
        ]
        try:
            with Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            ) as progress:
                self._hand_out(pending, workers, progress)
        finally:
            for worker in workers:
                worker.stop()

    def _with_data(self, runs: Iterable[Run]) -> list[Run]:
        """The runs whose data is here, or could be fetched; by dataset."""
        found = sorted(runs, key=lambda run: (run.dataset, run.fold))
        for paper in dict.fromkeys(run.dataset for run in found):
            try:
                make_sure_of(by_paper(paper).name, self.data_dir)
            except (MissingError, ChecksumError) as error:
                print(f"{paper}: {error}")
                for run in found:
                    if run.dataset == paper:
                        self.ledger.outcomes[run.key] = Outcome("missing", reason=str(error))
        return list(self.ledger.missing(found))

    def _hand_out(self, pending: list[Run], workers: list[Worker], progress: Progress) -> None:
        task = progress.add_task("runs", total=len(pending))
        while pending or any(worker.run for worker in workers):
            for worker in workers:
                if worker.run is None:
                    self._give(worker, pending, progress, task)
            busy = [worker for worker in workers if worker.run is not None]
            if busy:
                wait_for(busy, 0.2)
            for worker in busy:
                run, outcome = worker.run, worker.outcome()
                if run is not None and outcome is not None:
                    self._write_down(run, outcome, progress, task)

    def _give(self, worker: Worker, pending: list[Run], progress: Progress, task: Any) -> None:
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
                self._write_down(run, known, progress, task)
                continue
            progress.update(task, description=f"{run.dataset} {run.solver}"[:34].ljust(34))
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

    def _write_down(self, run: Run, outcome: Outcome, progress: Progress, task: Any) -> None:
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
            progress.console.print(f"{run.dataset} {run.solver}: {outcome.reason}", soft_wrap=True)
        progress.advance(task)

    def _late(self, runs: list[Run]) -> Counter[Run]:
        unique = {run.key: run for run in runs}.values()
        return Counter(_kind(run) for run in unique if self.ledger[run].status == "timeout")

    def _forget(self, runs: list[Run]) -> None:
        for run in runs:
            self.ledger.outcomes.pop(run.key, None)


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
        "versions": {name: installed(name) for name in PACKAGES},
    }
