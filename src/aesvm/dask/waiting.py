"""Waiting for futures of a cluster as they finish, and the errors if none does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

import dask
from dask.utils import format_bytes
from distributed import Client, Future, KilledWorker

from aesvm.runtime.warn import warn

#: Seconds without a finished task until the cluster is checked, and between two checks.
_CHECK_EVERY = 10.0

#: Seconds until a second warning; the third comes after twice as many, and so on.
_WARN_AGAIN = 60.0

#: Seconds in which a worker must come back after all have died.
_COME_BACK = 60.0

#: Seconds until it is noticed that the client has been closed.
_TICK = 0.5

_CLOSED = ("closing", "closed")


class Watch:
    """Waits for the futures of a client; warns where its workers cannot go on.

    Where workers die, it ends the wait: when all have died and none comes back, or when they die
    again and again while no task finishes. Workers that are late, or that a cluster retires, are
    waited for. So are all workers of an adaptive cluster: it may be long until it gets new ones.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.address = client.scheduler.address if client.scheduler else None
        self.next_warning = 0.0
        self.pause = _WARN_AGAIN
        self.memory_limits: list[int] = []
        self._workers(5)  # enough to know their limits by
        self.began = max((stamp for stamp, _ in self._events("all")), default=0.0)

    def finished(self, name: str, futures: list[Future]) -> Iterator[Future]:
        """Futures as they finish, fail or are cancelled; all of them if the client is closed.

        ``name``: of the step that they belong to.
        """
        done: SimpleQueue[Future] = SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        waiting = dict.fromkeys(futures)
        since = checked = time.monotonic()
        deaths = _Deaths()
        while waiting:
            try:
                future = done.get(timeout=_TICK)
            except Empty:
                if self.client.status in _CLOSED:
                    yield from waiting
                    return
                now = time.monotonic()
                if now - checked > _CHECK_EVERY:
                    self._check(name, now - since, deaths)
                    checked = time.monotonic()
            else:
                del waiting[future]
                yield future
                since = checked = time.monotonic()
                deaths = _Deaths()

    def _check(self, name: str, waited: float, deaths: _Deaths) -> None:
        """Raise where workers have died; warn where they cannot go on, but not too often."""
        workers = self._workers()
        if workers is None:
            return
        deaths.note(set(workers), self._died())
        if deaths.are_too_many() and not getattr(self.client.cluster, "_adaptive", None):
            raise RuntimeError(
                f"the step {name!r} failed: {_count(deaths.n_died)} died, "
                f"{len(workers)} are connected now, and no task has finished for {waited:,.0f} "
                f"seconds. {self._why_died()}"
            )
        trouble = self._trouble(workers)
        now = time.monotonic()
        if trouble and now >= self.next_warning:
            self.next_warning = now + self.pause
            self.pause *= 2
            warn(f"no task has finished for {waited:,.0f} seconds: {trouble}")

    def _workers(self, n_workers: int = -1) -> dict[str, Any] | None:
        """What the scheduler knows of its workers; None where it is being lost."""
        try:
            workers = self.client.scheduler_info(n_workers=n_workers)["workers"]
        except (OSError, RuntimeError, AttributeError, KeyError):
            return None
        if workers:
            self.memory_limits = [worker.get("memory_limit", 0) for worker in workers.values()]
        return workers

    def _events(self, topic: str) -> list[tuple[float, dict[str, Any]]]:
        """What the scheduler has noted on a topic, with the times."""
        try:
            return list(self.client.get_events(topic) or ())
        except (OSError, RuntimeError, AttributeError):  # the scheduler is being lost
            return []

    def _died(self) -> int:
        """How many workers have died since this watch began; a retired one has not."""
        return sum(
            event.get("action") == "remove-worker" and not event.get("expected", True)
            for stamp, event in self._events("all")
            if stamp > self.began
        )

    def _why_died(self) -> str:
        """Why workers have died, and what would help."""
        ended = sum(stamp > self.began for stamp, _ in self._events("worker-restart-memory"))
        limit = format_bytes(min(self.memory_limits)) if any(self.memory_limits) else "none"
        why = (
            f"Dask ended {_count(ended)} near the limit of their memory"
            if ended
            else "The usual cause is a lack of memory: see their logs"
        )
        return (
            f"{why} (memory_limit: {limit}). Give workers a larger memory_limit or fewer threads, "
            "or X smaller partitions, and fit again."
        )

    def _trouble(self, workers: dict[str, Any]) -> str:
        """What keeps workers from going on; nothing where it is their work."""
        paused = [name for name, worker in workers.items() if worker["status"] == "paused"]
        if not workers:
            return (
                f"no worker is connected to the scheduler at {self.address}. As soon as one is "
                f"(dask worker {self.address}, or cluster.scale(n)), the work goes on."
            )
        if not paused:
            return ""
        return (
            f"{len(paused)} of {len(workers)} workers are paused, near the limit of their memory "
            f"({', '.join(paused[:5])}{', ...' if len(paused) > 5 else ''}). The work goes on when "
            "memory is free: delete or cancel what else is kept there (persisted collections), or "
            "add workers. Otherwise interrupt it, and give workers a larger memory_limit or fewer "
            "threads, or X smaller partitions."
        )

    def has_failed(self, future: Future) -> bool:
        """Whether a future has not finished well; one that is lost has, and is made again."""
        return future.status in ("error", "cancelled") or self.client.status in _CLOSED

    def failure(self, what: str, future: Future | None, others: list[Future]) -> Exception:
        """The error of a task that failed, or could not be handed on where there is no future.

        ``what``: which task it is. ``others``: what else is known, and may know why.
        """
        error = future.exception() if future is not None and future.status == "error" else None
        if isinstance(error, ValueError):
            named: Exception = ValueError(f"in {what}: {error}")
        elif isinstance(error, KilledWorker):
            died = _count(error.allowed_failures + 1)
            named = RuntimeError(f"{what} failed: {died} that had it died. {self._why_died()}")
        elif error is not None:
            named = RuntimeError(f"{what} failed: {type(error).__name__}: {error}")
        else:
            named = RuntimeError(f"{what} is lost: {self._why_cancelled([*others, future])}")
        named.__cause__ = error
        return named

    def _why_cancelled(self, futures: list[Future | None]) -> str:
        reasons = {_reason(future) for future in futures}
        status = self.client.status
        if "scheduler-connection-lost" in reasons or status == "connecting":
            return (
                f"the connection to the scheduler at {self.address} broke. See in its log, and in "
                "its cluster's, why it ended; start it again, connect a new Client, and fit again."
            )
        if status in _CLOSED:
            return (
                f"the client of the scheduler at {self.address}, or its cluster, was closed "
                "meanwhile. Keep it open until the end, and fit again with a new Client."
            )
        if "scheduler-restart" in reasons:
            return "the cluster was restarted meanwhile (client.restart). Fit again."
        return "it was cancelled (client.cancel, or by another client). Fit again."


class _Deaths:
    """Of workers, while no task finishes."""

    def __init__(self) -> None:
        self.first: set[str] | None = None  # the workers at the first check that found any
        self.n_before = 0  # deaths by then
        self.n_died = 0
        self.none_since: float | None = None
        self.none_left = False  # of these

    def note(self, workers: set[str], n_died: int) -> None:
        """Note the workers that a check has found, and all deaths since the fit began."""
        if self.first is None and workers:
            self.first, self.n_before = workers, n_died
        self.n_died = n_died
        self.none_left = self.first is not None and not self.first & workers
        if workers:
            self.none_since = None
        elif self.none_since is None:
            self.none_since = time.monotonic()

    def are_too_many(self) -> bool:
        """Whether there is no use in waiting longer."""
        if self.none_since is not None and time.monotonic() - self.none_since >= _COME_BACK:
            return self.n_died > 0
        allowed = dask.config.get("distributed.scheduler.allowed-failures")
        return self.none_left and self.n_died - self.n_before > allowed


def _count(n_workers: int) -> str:
    return f"{n_workers:,} worker{'' if n_workers == 1 else 's'}"


def _reason(future: Future | None) -> str | None:
    """Why Dask has cancelled a future, where it says so."""
    return getattr(getattr(getattr(future, "_state", None), "exception", None), "reason", None)
