"""Waiting for a cluster: for futures as they finish, and what is said where none does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue

from distributed import Client, Future, KilledWorker

from aesvm.runtime.warn import warn

#: Seconds without a finished task until the cluster is looked at, and between two looks.
_LOOK_EVERY = 10.0

#: Seconds until a second warning; the third comes after twice as many, and so on.
_WARN_AGAIN = 60.0

#: Seconds until it is noticed that the client has been closed.
_TICK = 0.5

_CLOSED = ("closing", "closed")


class Watch:
    """Waits for the futures of a client; warns where its workers cannot go on.

    Parameters
    ----------
    client : Client
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.address = client.scheduler.address if client.scheduler else None
        self.next_warning = 0.0
        self.pause = _WARN_AGAIN

    def finished(self, futures: list[Future]) -> Iterator[Future]:
        """Futures as they finish, fail or are cancelled; all of them if the client is closed."""
        done: SimpleQueue[Future] = SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        waiting = dict.fromkeys(futures)
        since = looked = time.monotonic()
        while waiting:
            try:
                future = done.get(timeout=_TICK)
            except Empty:
                if self.client.status in _CLOSED:
                    yield from waiting
                    return
                now = time.monotonic()
                if now - looked > _LOOK_EVERY:
                    self._look(now - since)
                    looked = time.monotonic()
            else:
                del waiting[future]
                yield future
                since = looked = time.monotonic()

    def _look(self, waited: float) -> None:
        """Warn where workers cannot go on, unless that was done a short while ago."""
        trouble = self._trouble()
        now = time.monotonic()
        if trouble and now >= self.next_warning:
            self.next_warning = now + self.pause
            self.pause *= 2
            warn(f"no task has finished for {waited:,.0f} seconds: {trouble}")

    def _trouble(self) -> str:
        """What keeps workers from going on; nothing where it is their work."""
        try:
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, RuntimeError, AttributeError, KeyError):  # it is being lost
            return ""
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

        Parameters
        ----------
        what : str
            Which task it is.
        future : Future or None
        others : list of Future
            What else is known, and may know why.
        """
        error = future.exception() if future is not None and future.status == "error" else None
        if isinstance(error, ValueError):
            named: Exception = ValueError(f"in {what}: {error}")
        elif isinstance(error, KilledWorker):
            named = RuntimeError(
                f"{what} failed: the workers that had it died, {error.allowed_failures + 1} of "
                "them, most often for lack of memory: see their logs, give workers a larger "
                "memory_limit or fewer threads, or X smaller partitions."
            )
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


def _reason(future: Future | None) -> str | None:
    """Why Dask has cancelled a future, where it says so."""
    return getattr(getattr(getattr(future, "_state", None), "exception", None), "reason", None)
