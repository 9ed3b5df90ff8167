"""Threads: a parallel ``map`` whose result does not depend on their number; BLAS held to one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


class Threads:
    """A ``map`` over ``n_jobs`` threads: in order, and stopped by an exception.

    How many threads ``n_jobs`` means is joblib's to say, contexts and nesting included. Its
    own threads are not used: they hand results over by polling, every ten milliseconds.
    A context: the threads, and what they keep for themselves, last as long as it does.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self.n_threads = effective_n_jobs(n_jobs)
        self.pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def __call__(self, function: Callable, items: Iterable) -> Generator:
        if self.pool is None:
            yield from map(function, items)
            return
        futures = [self.pool.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            # after an interrupt, do not wait for what is running: its result is dropped
            self.pool.shutdown(wait=False, cancel_futures=True)


class _OneBlasThread:
    """Context in which BLAS runs single-threaded: our threads are the parallelism.

    The limit is the process's. Where fits overlap, the first to come sets it and the last to
    go lifts it, whichever thread that is: threadpoolctl's own context lets none but the thread
    that set a limit lift it, and the last of two would restore what the first had set.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                libraries = _threadpools().select(user_api="blas").lib_controllers
                self.before = [(library, library.num_threads) for library in libraries]
                self._set([1] * len(self.before))
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self._set([count for _, count in self.before])

    def _set(self, counts: list[int]) -> None:
        for (library, _), count in zip(self.before, counts, strict=True):
            library.set_num_threads(count)
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread()


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()


one_blas_thread = _OneBlasThread()
