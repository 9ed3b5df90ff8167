"""Threads: a parallel ``map``, and long tasks side by side; BLAS held to one.

Results do not depend on the number of threads.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from aesvm.runtime.progress import Aside, Progress

#: Seconds that the end of the process waits for threads, at most.
_LAST_SECONDS = 2.0

#: Threads of ours that may be alive.
_ALIVE: weakref.WeakSet[Thread] = weakref.WeakSet()


@atexit.register
def _wait_for_threads() -> None:
    """After an interrupt, threads may still be at what they had begun.

    The interpreter's end would tear them out of it, which C++ code answers with an abort.
    """
    end = time.monotonic() + _LAST_SECONDS
    for thread in list(_ALIVE):
        if thread.is_alive():  # an interrupt may have fallen before its start
            thread.join(max(0.0, end - time.monotonic()))


def valid_jobs(n_jobs: Any) -> int | None:
    """A number of threads, checked where it is no parameter of an estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.runtime.threads import valid_jobs
    >>> valid_jobs(np.int64(2))
    2
    """
    if n_jobs is None:
        return None
    if isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs:
        return int(n_jobs)
    raise ValueError(f"n_jobs={n_jobs!r} must be None or a whole number other than 0.")


class Threads:
    """A ``map`` over ``n_jobs`` threads: in order, and stopped by an exception.

    How many threads ``n_jobs`` means is joblib's to say, contexts and nesting included. Its
    own threads are not used: they hand results over by polling, every ten milliseconds; nor are
    those of ``concurrent.futures``, which spend ten times as long as these on handing over a task,
    all of it under the interpreter's lock.
    The thread that waits for results works too, so that a function which is mapped may map itself.
    A context: the threads, and what they keep for themselves, last as long as it does. ``around``:
    makes the context that each thread works in; the calling thread is in it already.
    """

    n_started = 0  # of the class: an interrupt may fall into __init__, and __del__ follows

    def __init__(
        self, n_jobs: int | None, around: Callable[[], AbstractContextManager] = nullcontext
    ) -> None:
        self.n_threads = effective_n_jobs(n_jobs)
        self.around = around
        self.maps: SimpleQueue[_Map | None] = SimpleQueue()
        self.starting = threading.Lock()  # several threads may map at the same time
        # counts calls that somebody waits for: threads that look for strips leave at a new one
        self.calls = np.zeros(1, dtype=np.int64)

    def __call__(self, function: Callable, items: Iterable) -> Generator:
        """Threads begin at once; this one, when the first result is asked for."""
        items = list(items)
        if len(items) == 1 or self.n_threads == 1:  # there is nothing to hand out
            return (function(item) for item in items)
        one = _Map(function, items)
        self._hand_out(one, len(one.items) - 1)
        self.calls += 1
        return one.in_order()

    def together(self, function: Callable[[], None], n_calls: int) -> None:
        """Call a function on ``n_calls`` threads at once, of which this is one.

        The calls share the work out among themselves: one that comes late finds it done.
        """
        others = _Map(lambda _: function(), list(range(min(n_calls, self.n_threads) - 1)))
        self._hand_out(others, len(others.items))
        self.calls += 1
        try:
            function()
            for _ in others.in_order():
                pass
        finally:
            others.is_over = True

    def offer(self, function: Callable[[], None], n_calls: int) -> None:
        """Have other threads call a function when they are free.

        Nobody waits for them, and an error of theirs is lost.
        """
        self._hand_out(_Map(lambda _: function(), list(range(n_calls))), n_calls)

    def nothing_waits(self) -> bool:
        """Whether no work waits for a thread."""
        return self.maps.empty()

    def _hand_out(self, one: _Map, most: int) -> None:
        """Have other threads work on a map, no more than there is use for."""
        n_workers = min(most, self.n_threads - 1)
        if self.n_started < n_workers:
            with self.starting:
                while self.n_started < n_workers:
                    self.n_started += 1  # first: an interrupt may fall while it starts
                    thread = Thread(target=_work, args=(self.maps, self.around), daemon=True)
                    _ALIVE.add(thread)
                    thread.start()
        for _ in range(n_workers):
            self.maps.put(one)

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *error: object) -> None:
        # after an interrupt, what is running is not waited for: its result is dropped
        if self.n_started > 0:
            self.calls += 1
        while self.n_started > 0:
            self.maps.put(None)
            self.n_started -= 1

    def __del__(self) -> None:
        self.__exit__()


class _Map:
    """A function and its arguments, which threads take one after another."""

    def __init__(self, function: Callable, items: list) -> None:
        self.function = function
        self.items = items
        self.numbers = iter(range(len(items)))  # next() is atomic
        self.results: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        self.is_over = False

    def work(self) -> bool:
        """Do the next of the items: whether there was one."""
        number = None if self.is_over else next(self.numbers, None)
        if number is None:
            return False
        try:
            self.results.put((number, self.function(self.items[number]), None))
        except BaseException as error:  # it is raised where the result is waited for
            self.results.put((number, None, error))
        return True

    def in_order(self) -> Generator:
        early: dict[int, Any] = {}
        try:
            for number in range(len(self.items)):
                while number not in early:
                    if self.results.empty() and self.work():
                        continue
                    at, result, error = self.results.get()
                    if error is not None:
                        raise error
                    early[at] = result
                yield early.pop(number)
        finally:
            self.is_over = True


def _work(maps: SimpleQueue[_Map | None], around: Callable[[], AbstractContextManager]) -> None:
    with around():
        while (one := maps.get()) is not None:
            while one.work():
                pass
            del one  # and with it what its function holds


class one_blas_thread:  # noqa: N801
    """Context in which BLAS runs single-threaded: our threads are the parallelism.

    The limit is the process's. Where fits overlap, the first to come sets it and the last to
    go lifts it, whichever thread that is: threadpoolctl's own context lets none but the thread
    that set a limit lift it, and the last of two would restore what the first had set.
    An interrupt may fall anywhere: what it leaves undone is done when this object goes.
    """

    entered = False

    def __enter__(self) -> None:
        self.entered = True
        _limit.set(id(self))

    def __exit__(self, *error: object) -> None:
        if self.entered:
            _limit.lift(id(self))
            self.entered = False

    def __del__(self) -> None:
        self.__exit__()


class _Limit:
    """How many ``one_blas_thread`` contexts there are, and what they have changed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside: dict[int, int] = {}  # contexts, and the thread that entered each
        self.before: list[tuple[Any, int]] = []  # kept until all of it is restored

    def set(self, one: int) -> None:
        with self.lock:
            self.inside[one] = threading.get_ident()
            if len(self.inside) > 1:
                return
            if not self.before:
                self.before = [(library, library.num_threads) for library in _blas_libraries()]
            self._set([1] * len(self.before))

    def lift(self, one: int) -> None:
        with self.lock:
            self.inside.pop(one, None)
            self._restore()

    def continue_in_child(self) -> None:
        """After a fork, which has left but one thread: contexts of the others never end."""
        this = threading.get_ident()
        self.inside = {one: thread for one, thread in self.inside.items() if thread == this}
        self._restore()
        self.lock.release()

    def _restore(self) -> None:
        if not self.inside and self.before:
            self._set([count for _, count in self.before])
            self.before = []

    def _set(self, counts: list[int]) -> None:
        for (library, _), count in zip(self.before, counts, strict=True):
            library.set_num_threads(count)
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread()


@functools.cache
def _blas_libraries() -> list[Any]:
    return ThreadpoolController().select(user_api="blas").lib_controllers


_limit = _Limit()

if hasattr(os, "register_at_fork"):  # a child inherits the lock: no other thread may hold it then
    os.register_at_fork(
        before=_limit.lock.acquire,
        after_in_parent=_limit.lock.release,
        after_in_child=_limit.continue_in_child,
    )


def side_by_side(
    threads: Threads,
    function: Callable[..., Any],
    items: Iterable[tuple],
    progress: Progress,
    done: Callable[..., None],
    around: Callable[[], AbstractContextManager] = nullcontext,
    first_alone: bool = False,
) -> list[Any]:
    """Results of a function, in order.

    - ``function``: takes the values of an item, and a Progress, from which it learns whether to
      end.
    - ``items``: each is made when a thread is free.
    - ``done``: called with the values of each item that is done, by the thread that called this.
    - ``around``: makes the context that each thread works in.
    - ``first_alone``: whether this thread does the first item before others begin, outside such a
      context.
    """
    each, results, made = iter(items), dict[int, Any](), list[tuple]()
    lock, caller = threading.Lock(), threading.current_thread()
    is_dropped = False
    aside = Aside(progress, lambda: is_dropped)
    n_told = 0

    def take() -> int | None:
        with lock:
            item = None if is_dropped else next(each, None)
            if item is None:
                return None
            made.append(item)
            return len(made) - 1

    def tell() -> None:
        nonlocal n_told
        for number in list(results)[n_told:]:
            n_told += 1
            done(*made[number])
            made[number] = ()

    def do(number: int) -> None:
        results[number] = function(*made[number], aside)
        if threading.current_thread() is caller:
            tell()

    def work() -> None:
        nonlocal is_dropped
        try:
            with around():
                while (number := take()) is not None:
                    do(number)
        except BaseException:
            is_dropped = True  # an error, or an interrupt: what else is being done ends soon
            raise

    try:
        if first_alone and (number := take()) is not None:
            do(number)
        threads.together(work, threads.n_threads)
    except BaseException:
        is_dropped = True  # an interrupt, while the others were waited for
        raise
    tell()
    return [results[number] for number in range(len(made))]
