"""Threads that share out tiles of work, and wait for more of it in compiled code.

A solve hands out work every millisecond. To wake threads for it through the interpreter may take
as long as the work: they need the interpreter's lock, one after another, and cores that are idle
go to sleep. So a thread that finds no tile left looks for new ones for some milliseconds.

Tiles are numbered through, from one task to the next. A thread takes a number below the limit,
computes that tile and counts it as done. What the task is it reads once it has a number: the task
stays what it is until all of its tiles are done. Who comes late, or never, is not waited for.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.accumulate import Scratch
from aesvm.runtime import atomic
from aesvm.runtime.jit import jit
from aesvm.runtime.threads import Threads

#: Places in a crew's numbers, on cache lines of their own: tiles taken, tiles there are and tiles
#: done, of all tasks so far; and threads that look for tiles.
TAKEN, LIMIT, DONE, HELPERS = 0, 8, 16, 24

#: What a thread does where no tile is left: it waits for those of a next task; for the last of this
#: one; or this, and does not compute what it takes.
HELP, LEAD, SKIP = 0, 1, 2

#: How often a thread looks for tiles before it goes: thousands of times a millisecond.
_LOOKS = 10_000

#: Computes tiles: of (numbers, task, mode, looks, calls, buffer), as ``Crew`` describes them.
Work = Callable[[NDArray[np.int64], NDArray[np.int64], int, int, NDArray[np.int64], NDArray], None]


@jit
def next_tile(numbers, mode, looks, calls, n_calls):
    """The number of a tile that is this thread's to compute; -1 where it is to return."""
    for _ in range(looks):
        limit = atomic.load(numbers, LIMIT)
        taken = atomic.load(numbers, TAKEN)
        while taken < limit:
            if atomic.count_up(numbers, TAKEN, taken):
                return taken
            taken = atomic.load(numbers, TAKEN)
        if mode == HELP:
            if atomic.load(calls, 0) != n_calls:
                return -1
        elif atomic.load(numbers, DONE) == limit:
            return -1
        atomic.give_way()
    return -1


class Crew:
    """The threads of a ``run``, and the memory that each of them works in.

    Parameters
    ----------
    run : callable
        ``map`` or a parallel one.

    Attributes
    ----------
    numbers : ndarray of int64
        TAKEN, LIMIT, DONE, HELPERS.
    task : ndarray of int64
        What there is to do, addresses of arrays among it.
    held : object
        Those arrays, until the next task begins.
    """

    def __init__(self, run: Callable) -> None:
        self.run = run
        self.scratch = Scratch()
        self.numbers = np.zeros(32, dtype=np.int64)
        self.task = np.zeros(32, dtype=np.int64)
        self.held: Any = None
        self.coming: deque[None] = deque()  # one for each thread that was called and is not here

    def lead(
        self,
        work: Work,
        publish: Callable[[NDArray, NDArray], None],
        held: Any,
        buffer: tuple[int, np.dtype],
        n_threads: int,
    ) -> None:
        """Do all tiles of a task, together with others.

        Parameters
        ----------
        work : callable
            Computes tiles: jitted, without the interpreter's lock.
        publish : callable
            Writes the task, given ``numbers`` and ``task``, and raises the limit.
        held : object
            All arrays that the task has the addresses of.
        buffer : tuple
            Size and dtype of the buffer that each thread has: the same for all tasks of a crew.
        n_threads : int
            How many there is work for.
        """
        own_buffer = self.scratch.buffer(*buffer)
        calls = np.zeros(1, dtype=np.int64)
        own = self.numbers, self.task
        self._end(work, calls, own_buffer)  # where an interrupt has left something
        self.held = held
        publish(*own)
        try:
            self._call(work, buffer, n_threads - 1)
            while self.numbers[DONE] < self.numbers[LIMIT]:
                work(*own, LEAD, _LOOKS, calls, own_buffer)
        finally:
            self._end(work, calls, own_buffer)

    def _end(self, work: Work, calls: NDArray[np.int64], buffer: NDArray) -> None:
        while self.numbers[DONE] < self.numbers[LIMIT]:
            work(self.numbers, self.task, SKIP, _LOOKS, calls, buffer)

    def _call(self, work: Work, buffer: tuple[int, np.dtype], n_helpers: int) -> None:
        if not isinstance(self.run, Threads):
            return
        here = int(self.numbers[HELPERS]) + len(self.coming)
        missing = min(n_helpers, self.run.n_threads - 1) - here
        if missing > 0:
            self.coming.extend([None] * missing)
            self.run.lend(partial(_help, weakref.ref(self), work, buffer), missing)


def _help(who: weakref.ref[Crew], work: Work, buffer: tuple[int, np.dtype]) -> None:
    """What another thread does: by the time it comes, there may be nothing left to do."""
    crew = who()
    if crew is None:
        return
    crew.coming.pop()
    run = crew.run
    assert isinstance(run, Threads)
    looks = _LOOKS if run.is_idle() else 1
    work(crew.numbers, crew.task, HELP, looks, run.calls, crew.scratch.buffer(*buffer))
