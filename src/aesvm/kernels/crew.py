"""Threads that share out strips of work, and wait for more of it in compiled code.

A solve hands out work every millisecond. To wake threads for it through the interpreter may take
as long as the work: they need the interpreter's lock, one after another, and cores that are idle
go to sleep. So a thread that finds no strip left looks for new ones for some milliseconds.

Strips are numbered through, from one job to the next. A thread takes a number below the limit,
computes that strip and counts it as done. What the job is it reads once it has a number: the job
stays what it is until all of its strips are done. Who comes late, or never, is not waited for.

What they do is to add weighted sums of kernel rows to scores: the loops of that are here as well,
and the memory they work in.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.runtime import atomic
from aesvm.runtime.jit import inlined, jit
from aesvm.runtime.threads import Threads


class KeptRows(NamedTuple):
    """Rows of the kernel matrix that are kept, and the part that they have in an accumulation."""

    rows: NDArray
    slots: NDArray[np.intp]  #: of rows that are there already
    coefs: NDArray[np.float64]  #: of these
    free: NDArray[np.intp]  #: slots to keep the first of the new lines in
    start: int = 0  #: where in the rows the values of the first column are

    @classmethod
    def none(cls, dtype: np.dtype) -> KeptRows:
        nowhere = np.empty(0, dtype=np.intp)
        return cls(np.empty((0, 0), dtype=dtype), nowhere, np.empty(0), nowhere)


class Scratch:
    """A block of kernel values for each thread that asks, used again and again.

    Fresh memory would be zeroed by the system for every block.
    """

    def __init__(self) -> None:
        self.thread = threading.local()

    def block(self, n_lines: int, width: int, dtype: np.dtype) -> NDArray:
        return self.buffer(n_lines * width, dtype)[: n_lines * width].reshape(n_lines, width)

    def buffer(self, size: int, dtype: np.dtype) -> NDArray:
        """The thread's own array, of at least ``size`` values."""
        buffer = getattr(self.thread, "buffer", None)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self.thread.buffer = np.empty(max(blocks.UPDATE_VALUES, size), dtype=dtype)
        return buffer


@jit
def add_rows(rows, slots, changes, start, scores):
    """scores[k] += sum_w changes[w] rows[slots[w], start + k]; four rows at a time."""
    n = scores.size
    stop = start + n
    w = 0
    while w + 4 <= slots.size:
        r0, r1 = rows[slots[w], start:stop], rows[slots[w + 1], start:stop]
        r2, r3 = rows[slots[w + 2], start:stop], rows[slots[w + 3], start:stop]
        c0, c1, c2, c3 = changes[w], changes[w + 1], changes[w + 2], changes[w + 3]
        for k in range(n):
            scores[k] += (
                c0 * np.float64(r0[k])
                + c1 * np.float64(r1[k])
                + c2 * np.float64(r2[k])
                + c3 * np.float64(r3[k])
            )
        w += 4
    while w < slots.size:
        row, change = rows[slots[w], start:stop], changes[w]
        for k in range(n):
            scores[k] += change * np.float64(row[k])
        w += 1


@inlined
def store_rows(block, slots, start, rows):
    """The first lines of a block, into rows of the cache. (As slices Numba copies them slowly.)"""
    n = block.shape[1]
    for w in range(slots.size):
        row, line = rows[slots[w], start : start + n], block[w]
        for k in range(n):
            row[k] = line[k]


#: Places in a crew's numbers, on cache lines of their own: strips taken, strips there are and
#: strips done, of all jobs so far; and threads that look for strips.
TAKEN, LIMIT, DONE, HELPERS = 0, 8, 16, 24

#: Modes. HELP takes strips of this job and of later ones. LEAD takes strips of this job, and waits
#: for the last. SKIP does as LEAD, but counts strips as done without computing them: after an
#: interrupt.
HELP, LEAD, SKIP = 0, 1, 2

#: Looks before a thread gives up: some milliseconds.
_LOOKS = 10_000

_Integers = NDArray[np.int64]


class Work(NamedTuple):
    """What a crew does, the same in all of its jobs."""

    #: Jitted, without the interpreter's lock: takes numbers, job, mode, the most looks, the count
    #: that tells of other work (``Threads.calls``) and the thread's buffer
    function: Callable[[_Integers, _Integers, int, int, _Integers, NDArray], None]
    buffer_size: int  #: of each thread
    dtype: np.dtype  #: of the buffer


@inlined
def next_strip(numbers, mode, looks, calls, n_calls):
    """The number of a strip that is this thread's to compute; -1 where it is to return."""
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


@jit
def _is_done(numbers):
    """Whether all strips are; then this thread sees what others have written to them."""
    return atomic.load(numbers, DONE) == atomic.load(numbers, LIMIT)


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
    job : ndarray of int64
        What there is to do, addresses of arrays among it.
    held : object
        Those arrays, until the next job begins.
    """

    def __init__(self, run: Callable) -> None:
        self.run = run
        self.scratch = Scratch()
        self.numbers = np.zeros(32, dtype=np.int64)
        self.job = np.zeros(32, dtype=np.int64)
        self.held: Any = None
        self.work: Work | None = None
        # one for each thread that was called and is not here; operations of a deque are atomic
        self.coming: deque[None] = deque()

    def lead(
        self, work: Work, publish: Callable[[_Integers, _Integers], None], held: Any, n_threads: int
    ) -> None:
        """Do all strips of a job, together with others.

        Parameters
        ----------
        work : Work
        publish : callable
            Writes the job, given ``numbers`` and ``job``, and raises the limit.
        held : object
            All arrays that the job has the addresses of.
        n_threads : int
            How many there is work for.
        """
        if self.work is None:
            self.work = work
        elif self.work != work:  # who helps knows but the first, and reads memory by its dtype
            raise ValueError("A crew does one kind of work, in one precision.")
        buffer = self.scratch.buffer(work.buffer_size, work.dtype)
        calls = np.zeros(1, dtype=np.int64)
        self._end(work, calls, buffer)  # where an interrupt has left something
        self.held = held
        publish(self.numbers, self.job)
        try:
            self._call(work, n_threads - 1)
            while not _is_done(self.numbers):
                work.function(self.numbers, self.job, LEAD, _LOOKS, calls, buffer)
        finally:
            self._end(work, calls, buffer)

    def _end(self, work: Work, calls: _Integers, buffer: NDArray) -> None:
        while not _is_done(self.numbers):
            work.function(self.numbers, self.job, SKIP, _LOOKS, calls, buffer)

    def _call(self, work: Work, n_helpers: int) -> None:
        if not isinstance(self.run, Threads):
            return
        here = int(self.numbers[HELPERS]) + len(self.coming)
        missing = min(n_helpers, self.run.n_threads - 1) - here
        if missing > 0:
            self.coming.extend([None] * missing)
            self.run.offer(partial(_help, weakref.ref(self), work), missing)


def _help(who: weakref.ref[Crew], work: Work) -> None:
    """What another thread does: by the time it comes, there may be nothing left to do."""
    crew = who()
    if crew is None:
        return
    crew.coming.pop()
    run = crew.run
    assert isinstance(run, Threads)
    looks = _LOOKS if run.nothing_waits() else 1
    buffer = crew.scratch.buffer(work.buffer_size, work.dtype)
    work.function(crew.numbers, crew.job, HELP, looks, run.calls, buffer)
