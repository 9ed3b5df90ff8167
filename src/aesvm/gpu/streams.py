"""Work that a device does side by side: some of it on a stream, some on another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from aesvm.gpu.devices import part_of_memory
from aesvm.gpu.rows import DeviceRows
from aesvm.runtime.progress import Progress
from aesvm.runtime.threads import Threads, side_by_side

#: Streams. (On ten classes of 6,000 rows 2, 3 and 4 are equal, and 8 slower: the interpreter is
#: busy then.)
STREAMS = 3

#: Names of devices that have done such work. What the first item needs is compiled before there are
#: other threads, which would compile it as well.
_USED: set[str] = set()


class Streams:
    """Streams that compute with the same rows, which are brought to the device.

    There is one where the rows stay on the host: side by side, none would know what memory the
    others take.
    """

    def __init__(self, rows: DeviceRows) -> None:
        self.device = rows.device
        self.n = 1 if rows.there() is None else STREAMS

    def each(
        self, function: Callable[..., Any], items: Iterable[tuple], progress: Progress
    ) -> list[Any]:
        """Results of a function, in order; several calls run at a time, each on one stream.

        Parameters
        ----------
        function : callable
            Takes the values of an item, and a Progress, from which it learns whether to end.
        items : iterable of tuple
            Each is made when a stream is free.
        progress : Progress
            A step is reported for each, by the thread that called this.
        """
        self.device.wait()  # for arrays that all streams use

        @contextmanager
        def stream() -> Iterator[None]:
            with self.device.stream(), part_of_memory(1.0 / self.n):
                yield

        is_new = self.device.name not in _USED
        with Threads(self.n) as threads:
            found = side_by_side(
                threads,
                function,
                items,
                progress,
                lambda *item: progress.step("pair"),
                stream,
                first_alone=is_new,
            )
        _USED.add(self.device.name)
        return found
