"""Work that a device does side by side: some of it on a stream, some on another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from aesvm.gpu.arrays import rows_there
from aesvm.gpu.devices import Device, part_of_memory
from aesvm.runtime.progress import Aside, Progress
from aesvm.runtime.threads import Threads

#: Streams. (On ten classes of 6,000 rows 2, 3 and 4 are equal, and 8 slower: the interpreter is
#: busy then.)
STREAMS = 3

#: Names of devices that have done such work. What the first item needs is compiled before there are
#: other threads, which would compile it as well.
_USED: set[str] = set()


def n_streams_for(device: Device, X: Any) -> int:
    """How many streams compute with the rows of X, which are brought to the device.

    One, where they stay on the host: side by side, none would know what memory the others take.
    """
    return 1 if rows_there(device, X) is None else STREAMS


def side_by_side(
    device: Device,
    n_streams: int,
    function: Callable[..., Any],
    items: Iterable[tuple],
    progress: Progress,
) -> list[Any]:
    """Results of a function, in order: several at a time, each computed on a stream of its own.

    Parameters
    ----------
    device : Device
    n_streams : int
        How many at a time.
    function : callable
        Takes the values of an item, and a Progress, from which it learns whether to end.
    items : iterable of tuple
        Each is made when a stream is free.
    progress : Progress
        A step is reported for each, by the thread that called this.
    """
    device.wait()  # for arrays that all streams use
    each, results = iter(items), dict[int, Any]()
    lock, caller = threading.Lock(), threading.current_thread()
    is_dropped = False
    aside = Aside(progress, lambda: is_dropped)
    n_taken = n_told = 0

    def take() -> tuple[int, tuple] | None:
        nonlocal n_taken
        with lock:
            item = None if is_dropped else next(each, None)
            n_taken += item is not None
            return None if item is None else (n_taken - 1, item)

    def tell() -> None:
        nonlocal n_told
        for _ in range(n_told, len(results)):
            n_told += 1
            progress.step("pair")

    def work() -> None:
        nonlocal is_dropped
        try:
            with device.stream(), part_of_memory(1.0 / threads.n_threads):
                while (taken := take()) is not None:
                    number, item = taken
                    results[number] = function(*item, aside)
                    if threading.current_thread() is caller:
                        tell()
        except BaseException:
            is_dropped = True  # an error, or an interrupt: what else is being done ends soon
            raise

    if device.name not in _USED:
        first = take()
        if first is not None:
            results[first[0]] = function(*first[1], aside)
            tell()
        _USED.add(device.name)
    try:
        with Threads(n_streams) as threads:
            threads.together(work, n_streams)
    except BaseException:
        is_dropped = True  # an interrupt, while the others were waited for
        raise
    tell()
    return [results[number] for number in range(n_taken)]
