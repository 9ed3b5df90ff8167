"""Runs in a process of their own, so that one past its time limit can be stopped.

The process lives from run to run, with its data and its compiled code; only a run that is
stopped takes it along.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from experiments.paper.runs import Outcome, Run

#: What tells BLAS how many threads to use.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

#: Seconds to import, load and warm up; and the least for testing, which has as long as training.
_GRACE = 180.0

#: Seconds between two looks at whether the parent is still there.
_WATCH = 1.0

#: How many times its processor time a run may take by the clock.
_SHARED = 30.0


class Worker:
    """A process that makes one run after another."""

    def __init__(self, data_dir: Path | None, threads: int, processor_time: bool = False) -> None:
        """``processor_time``: seconds, and limits, are the processor's and not the clock's."""
        self.processor_time = processor_time
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
            target=_work,
            args=(theirs, self.data_dir, self.threads, self.processor_time, os.getpid()),
            daemon=True,
        )
        self.process.start()
        theirs.close()

    def begin(self, run: Run, like: Outcome | None, time_limit: float) -> None:
        self.run = run
        self.begun = time.monotonic()
        self.limits = {
            "loading": _GRACE,
            "training": time_limit,
            "testing": max(_GRACE, time_limit),
        }
        self._enter("loading")
        self.connection.send((run, like, self.limits))

    def _enter(self, phase: str) -> None:
        self.phase = phase
        shared = _SHARED if self.processor_time else 1.0
        self.deadline = time.monotonic() + shared * self.limits[phase]

    def outcome(self) -> Outcome | None:
        """What the run gave, where it has come to an end, or past its limit."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if isinstance(message, Outcome):
                    self.run = None
                    return replace(message, spent=time.monotonic() - self.begun)
                self._enter(message)
        except (EOFError, OSError):
            self.process.join()
            if self.process.exitcode != -signal.SIGPROF:
                lost = f"the process ended with exit code {self.process.exitcode}"
                return self._replaced(Outcome("error", reason=lost))
        else:
            if time.monotonic() <= self.deadline:
                return None
        late = f"{self.phase} took over {self.limits[self.phase]:g} s"
        status = "timeout" if self.phase == "training" else "error"
        return self._replaced(Outcome(status, reason=late))

    def _replaced(self, outcome: Outcome) -> Outcome:
        self.stop()
        self._start()
        self.run = None
        return outcome

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def wait_for(workers: list[Worker], seconds: float) -> None:
    """Until one of them has something to say."""
    wait([worker.connection for worker in workers], seconds)


def _work(
    connection: Connection,
    data_dir: Path | None,
    threads: int,
    processor_time: bool,
    parent: int,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    from benchmarks.datasets import ChecksumError, MissingError  # all that is measured is
    from experiments.paper import solvers  # imported here, and not in the parent

    def enter(phase: str) -> None:
        connection.send(phase)
        if processor_time:  # past it, the signal ends the process
            signal.setitimer(signal.ITIMER_PROF, limits[phase])

    warm: set[tuple[str, ...]] = set()
    while True:
        try:
            run, like, limits = connection.recv()
        except EOFError:
            return
        try:
            rows = solvers.part_of(run, data_dir)
            clock = time.process_time if processor_time else time.perf_counter
            conditions = solvers.Conditions(threads, like, clock)
            kind = (run.solver, run.device, run.kernel, type(rows.X).__name__, str(rows.X.dtype))
            if kind not in warm:
                solvers.warm_up(run, rows, conditions)
                warm.add(kind)
            enter("training")
            outcome = solvers.carry_out(run, rows, conditions, lambda: enter("testing"))
        except (MissingError, ChecksumError) as error:
            outcome = Outcome("missing", reason=str(error))
        except Exception as error:
            outcome = Outcome("error", reason=f"{type(error).__name__}: {error}")
        if processor_time:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        connection.send(outcome)


def _end_with(parent: int) -> None:
    """A run whose parent was killed would go on for hours."""
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(1)
