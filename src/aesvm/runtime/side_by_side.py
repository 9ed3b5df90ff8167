"""Long tasks, several at a time, with one progress for all.

Unlike in a map of ``Threads``, an item is made when a thread is free for it, and an error or an
interrupt ends what else is being done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from aesvm.runtime.progress import Aside, Progress
from aesvm.runtime.threads import Threads


def side_by_side(
    threads: Threads,
    n_at_a_time: int,
    function: Callable[..., Any],
    items: Iterable[tuple],
    progress: Progress,
    done: Callable[..., None],
    around: Callable[[], AbstractContextManager] = nullcontext,
    first_alone: bool = False,
) -> list[Any]:
    """Results of a function, in order.

    Parameters
    ----------
    threads : Threads
    n_at_a_time : int
        No more than there are threads.
    function : callable
        Takes the values of an item, and a Progress, from which it learns whether to end.
    items : iterable of tuple
        Each is made when a thread is free.
    progress : Progress
        Of all of them.
    done : callable
        Called with the values of each item that is done, by the thread that called this.
    around : callable
        Makes the context that each thread works in.
    first_alone : bool
        Whether the first item is done before others begin, by the thread that called this, outside
        such a context.

    Examples
    --------
    >>> from aesvm.runtime.progress import Silence
    >>> from aesvm.runtime.side_by_side import side_by_side
    >>> from aesvm.runtime.threads import Threads
    >>> with Threads(2) as threads:
    ...     side_by_side(
    ...         threads, 2, lambda n, progress: n * n, [(2,), (3,)], Silence(), lambda n: None
    ...     )
    [4, 9]
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
        threads.together(work, n_at_a_time)
    except BaseException:
        is_dropped = True  # an interrupt, while the others were waited for
        raise
    tell()
    return [results[number] for number in range(len(made))]
