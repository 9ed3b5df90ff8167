"""Runs in a process of their own, so that one past its time limit can be stopped.

The process lives from run to run, with its data and its compiled code; only a run that is
stopped takes it along.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path

from benchmarks.paper.runs import Outcome, Run

#: What tells BLAS how many threads to use.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

#: Seconds to load data, and to test, beyond those of training.
_GRACE = 180.0


class Worker:
    """A process that makes one run after another."""

    def __init__(self, data_dir: Path | None, threads: int) -> None:
        self.data_dir = data_dir
        self.threads = threads
        self.run: Run | None = None
        self._start()

    def _start(self) -> None:
        for name in _THREADS:  # read when NumPy is imported, in the process to come
            os.environ[name] = str(self.threads)
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_work, args=(theirs, self.data_dir, self.threads), daemon=True
        )
        self.process.start()
        theirs.close()

    def begin(self, run: Run, like: Outcome | None, time_limit: float) -> None:
        self.run = run
        self.time_limit = time_limit
        self.deadline = time.monotonic() + _GRACE + time_limit
        self.connection.send((run, like))

    def outcome(self) -> Outcome | None:
        """What the run gave, where it has come to an end, or past its limit."""
        while self.connection.poll():
            try:
                message = self.connection.recv()
            except EOFError:
                return self._lost()
            if isinstance(message, Outcome):
                self.run = None
                return message
            # the data is there: from now on time counts, for training and then for testing
            self.deadline = time.monotonic() + (
                self.time_limit if message == "training" else _GRACE
            )
        if time.monotonic() > self.deadline:
            self.stop()
            self._start()
            self.run = None
            return Outcome("timeout", reason=f"over {self.time_limit:g} s")
        return None

    def _lost(self) -> Outcome:
        self.process.join()
        code = self.process.exitcode
        self._start()
        self.run = None
        return Outcome("error", reason=f"the process ended with exit code {code}")

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def wait_for(workers: list[Worker], seconds: float) -> None:
    """Until one of them has something to say."""
    wait([worker.connection for worker in workers], seconds)


def _work(connection: Connection, data_dir: Path | None, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    from benchmarks.datasets import MissingError  # all that is measured is imported here, and
    from benchmarks.paper import solvers  # not in the parent

    warm: set[tuple[str, ...]] = set()
    while True:
        try:
            run, like = connection.recv()
        except EOFError:
            return
        try:
            rows = solvers.part_of(run, data_dir)
            conditions = solvers.Conditions(threads, like)
            kind = (run.solver, run.kernel, type(rows.X).__name__, str(rows.X.dtype))
            if kind not in warm:
                solvers.warm_up(run, rows, conditions)
                warm.add(kind)
            connection.send("training")
            outcome = solvers.carry_out(run, rows, conditions, lambda: connection.send("testing"))
        except MissingError as error:
            outcome = Outcome("missing", reason=str(error))
        except Exception as error:
            outcome = Outcome("error", reason=f"{type(error).__name__}: {error}")
        connection.send(outcome)
