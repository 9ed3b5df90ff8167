"""Subsets of similar rows: the paper's FLS1, FLS2 (coarse) and SLS (fine).

Index arrays in, index arrays out. ``rows`` are always ascending row indices.

sequence  (FLS1)  consecutive partitions of at most P rows.
distance  (FLS2)  a class larger than P is halved by distance in kernel space from its first
                  row, and so on, until the halves have at most P rows. A class of at most P
                  rows stays whole (the paper's pseudo-code would halve it once).
fine      (SLS)   from a partition, the V rows nearest to an anchor are taken off, again and again.
                  The first anchor is the row farthest from the origin, the next one the row
                  that would have been taken next.

Ranks, not thresholds: ties are split by row index, so equal distances cannot stall it.

Distances are asked of the kernel matrix (``kernels.distances``); for the RBF kernel they do not
depend on gamma, and so neither does the result. A partition is copied once and kept contiguous: the
rows taken off are replaced by rows from its end, so a pass reads what is left and moves V
rows.

Halving down to V rows would need fewer passes, but its subsets reduce worse (covertype at
gamma = 1: 30.5 % of the rows kept instead of 22.8 %), and it takes no less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.blocks import DISTANCE_ROWS
from aesvm.kernels.joint import HullKernel
from aesvm.runtime.jit import jit

Rows = NDArray[np.intp]

#: One value in this many is looked at to guess where others lie.
_SAMPLED = 16


def sequence_partitions(rows: Rows, size: int) -> list[Rows]:
    """FLS1: consecutive partitions of at most ``size`` rows."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def distance_partitions(
    kernel: HullKernel, classes: list[Rows], size: int, run: Callable = map
) -> list[Rows]:
    """FLS2 on every class, a level of the trees at a time; ``run`` is map or a parallel one.

    A partition of n rows whose halves have n / 2 <= size rows is halved and done.
    """
    partitions = [(rows, len(rows) <= size) for rows in classes]
    while not all(done for _, done in partitions):
        wide = [rows for rows, done in partitions if not done]
        halves = run(_halves, list(zip(wide, _from_first_row(kernel, wide, run), strict=True)))
        following = []
        for rows, done in partitions:
            if done:
                following.append((rows, True))
            else:
                following += [(half, len(rows) <= 2 * size) for half in next(halves)]
        partitions = following
    return [rows for rows, _ in partitions if len(rows)]


def _halves(measured: tuple[Rows, NDArray]) -> tuple[Rows, Rows]:
    """The half of the rows with the least distances, and the others."""
    rows, distances = measured
    near = np.zeros(len(rows), dtype=bool)
    near[_nearest(distances, rows, len(rows) // 2)[0]] = True
    return rows[near], rows[~near]


def _from_first_row(kernel: HullKernel, partitions: list[Rows], run: Callable) -> Iterator[NDArray]:
    """For each partition, the distances of its rows from its first row."""
    starts = [range(0, len(rows), DISTANCE_ROWS) for rows in partitions]

    def distances(task: tuple[Rows, int]) -> NDArray:
        rows, start = task
        part = np.concatenate([rows[:1], rows[start : start + DISTANCE_ROWS]])
        return kernel.distances(part).from_row(0, len(part))[1:]

    tasks = [(rows, at) for rows, own in zip(partitions, starts, strict=True) for at in own]
    results = run(distances, tasks)
    for own in starts:
        yield np.concatenate([next(results) for _ in own])


def fine_subsets(kernel: HullKernel, rows: Rows, size: int) -> list[Rows]:
    """SLS: subsets of ``size`` similar rows, and a last one of at most ``size``."""
    if len(rows) <= size:
        return [rows]
    distances = kernel.distances(rows)
    anchor = distances.farthest()
    subsets = []
    for left in range(len(rows), size, -size):
        from_anchor = distances.from_row(anchor, left)
        names = distances.rows[:left]
        taken, following = _nearest(from_anchor, names, size)
        subsets.append(np.sort(names[taken]))
        anchor = distances.take_off(taken, left, following)
    subsets.append(np.sort(distances.rows[: left - size]))
    return subsets


def _nearest(distances: NDArray, names: Rows, count: int) -> tuple[Rows, int]:
    """Positions of the ``count`` least (distance, name) pairs, ascending, and of the next."""
    bound = _order_statistic(distances, count)
    taken = np.empty(count + 1, dtype=np.intp)
    below, ties, following = _below(distances, bound, taken)
    if ties > 1:
        tied = np.flatnonzero(distances == bound)
        tied = tied[np.argsort(names[tied])]
        following = int(tied[count - below])
        taken[below:count] = tied[: count - below]
        taken[:count].sort()
    return taken[:count], following


def _order_statistic(values: NDArray, rank: int) -> Any:
    """``np.partition(values, rank)[rank]``: the value at this place of the sorted ones.

    As a rule it is found among those up to one that a sample says is a little larger; where it is
    not among them, or these are not many fewer, all are looked at.
    """
    expected = rank // _SAMPLED
    guess = expected + 4 * isqrt(expected) + 4
    if guess * _SAMPLED < len(values) // 2:
        few = values[values <= np.partition(values[::_SAMPLED], guess)[guess]]
        if len(few) > rank:
            values = few
    return np.partition(values, rank)[rank]


# Jitted functions called from Python fill arrays and return numbers: to return an array, Numba
# runs Python code, and an interrupt that falls there is lost.


@jit
def _below(distances, bound, taken):
    """Positions below the bound; how many, how many are at it, and the last of those.

    There is room for one position more: every one is written, and those below it are kept.
    """
    below = 0
    ties = 0
    last = -1
    for i in range(distances.size):
        taken[below] = i
        below += distances[i] < bound
        if distances[i] == bound:
            ties += 1
            last = i
    return below, ties, last
