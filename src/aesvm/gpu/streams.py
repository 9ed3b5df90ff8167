"""Work that a device does side by side: some of it on a stream, some on another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from aesvm.gpu.arrays import rows_there
from aesvm.gpu.devices import Device, part_of_memory
from aesvm.runtime.progress import Progress
from aesvm.runtime.side_by_side import side_by_side
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


def on_streams(
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

    @contextmanager
    def stream() -> Iterator[None]:
        with device.stream(), part_of_memory(1.0 / n_streams):
            yield

    is_new = device.name not in _USED
    with Threads(n_streams) as threads:
        found = side_by_side(
            threads,
            threads.n_threads,
            function,
            items,
            progress,
            lambda *item: progress.step("pair"),
            stream,
            first_alone=is_new,
        )
    _USED.add(device.name)
    return found
