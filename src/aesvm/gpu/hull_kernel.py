"""Approximate extreme points of many subsets, one thread block to each: the device's ``sets.hull``.

The same phases in the same order as there, and the same CheckPoint. What differs is where things
are: the gradient, the members and the combination that is worked on lie in shared memory; members
are gathered from the Gram block itself; and the ledger, in global memory, has the combinations.

All threads of a block take every branch together: each of them computes the numbers that decide
from shared memory, and one of them changes what is there, between two barriers. Thread k looks at
members k, k + T, k + 2 T, ... Minima go to the lowest position, and sums have an order that depends
on sizes alone, so the result does not depend on the order in which threads run.

Nothing here uses the threads of a warp as such: Numba's simulator, which has no warps, runs all
of it.
"""

# What Numba's names stand for inside of compiled code, their types do not say.
# mypy: check-untyped-defs=false

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float64, int32
from numba.core import config

#: Most threads of a block. A power of two of threads, at least ``_GROUPS``, is expected.
MOST_THREADS = 256

#: Rows that a combination may lean on: no check reaches so many, by the moves that it may make.
MOST_SUPPORT = 256

#: What became of a subset.
DONE, LEDGER_FULL = range(2)

# Partial results of a reduction: one of these for each group of threads.
_GROUPS = 16
_SLOTS = MOST_THREADS + _GROUPS

# So that five blocks of 128 threads share a multiprocessor, and 132 of those are enough for 581,012
# rows in subsets of 1,000. (The simulator knows nothing of registers.)
_OPTIONS: dict[str, Any] = {"cache": True}
if not getattr(config, "ENABLE_CUDASIM", False):
    _OPTIONS["max_registers"] = 96

_ABSORB, _PRUNE, _COVER, _PHASES = range(4)

# Out of reach of any gradient.
_FAR = 1e30

# Smallest squared distance of two members that the choice of a target distinguishes.
_TINY = 1e-12

# The ball is as small as it gets where no row is farther than those on the sphere by this part.
_BALL_TOL = 1e-4


@cuda.jit(**_OPTIONS)
def find_extreme_points(
    gram, sizes, weights, tol, absorb, check, offset, ledger_rows, ledger_coefs, start, length,
    order, selected, residuals, sums, answers,
):  # fmt: skip
    """Reduce subset b of a batch in block b.

    Parameters
    ----------
    gram : array of shape (n_subsets, n, n)
        Kernel values of each subset; n is even.
    sizes : int array of shape (n_subsets,)
        How many of the n rows are there.
    weights : float64 array of shape (n_subsets, n)
    tol : float
        Largest squared distance of a row from its combination.
    absorb, check : float64 array of shape (2,)
        Most moves of a check, and its patience, while rows are absorbed and afterwards.
    offset : int
        Kernel values in the 8 n bytes of shared memory before the gradient.
    ledger_rows, ledger_coefs : int32 and float64 arrays of shape (n_subsets, n_entries)
        The combinations: of row i, ``length[i]`` entries from ``start[i]`` on. Written.
    start, length : int32 arrays of shape (n_subsets, n)
        Written; nothing of a row that is selected.
    order : int32 array of shape (n_subsets, n)
        Scratch.
    selected : int32 array of shape (n_subsets, n)
        Whether a row is a representative. Written.
    residuals : float64 array of shape (n_subsets, n)
        Squared distance of each row from its combination. Written.
    sums : float64 array of shape (n_subsets, n)
        The weights that representatives stand for. Written.
    answers : int32 array of shape (n_subsets,)
        ``DONE``, or ``LEDGER_FULL``: nothing else that was written is of use.
    """
    b = cuda.blockIdx.x
    n = sizes[b]
    capacity = gram.shape[1]
    values = cuda.shared.array(_SLOTS, float64)
    others = cuda.shared.array(_SLOTS, float64)
    places = cuda.shared.array(_SLOTS, int32)
    mu = cuda.shared.array(MOST_SUPPORT, float64)
    support = cuda.shared.array(MOST_SUPPORT, int32)
    state = cuda.shared.array(2, int32)
    # One piece of shared memory: slopes and centre of the ball, and afterwards the members.
    doubles = cuda.shared.array(0, float64)
    integers = cuda.shared.array(0, int32)
    reals = cuda.shared.array(0, gram.dtype)
    scratch = values, others, places
    block = gram[b]
    _ball(block, n, doubles[:capacity], doubles[capacity : 2 * capacity], order[b], scratch)
    m = _seed(n, integers, capacity, order[b], length[b], state)
    rows, place = integers[:capacity], integers[capacity : 2 * capacity]
    g, diag = reals[offset : offset + capacity], reals[offset + capacity : offset + 2 * capacity]
    thread, step = cuda.threadIdx.x, cuda.blockDim.x
    for t in range(thread, m, step):
        diag[t] = block[rows[t], rows[t]]
    cuda.syncthreads()
    used = 0
    for phase in range(_PHASES):
        for at in range(n):
            i = order[b, at]
            if i < 0 or (phase == _PRUNE) != (place[i] >= 0):
                continue
            size = 0
            if phase != _ABSORB:
                size, intact = _recall(
                    place, start[b, i], length[b, i], ledger_rows[b], ledger_coefs[b], mu, support
                )
                if intact and phase != _PRUNE:
                    continue
            limits = absorb if phase == _ABSORB else check
            size, inside, p = _check(
                block, rows, diag, g, mu, support, size, m, i, place[i], tol, limits, scratch
            )
            if inside or phase == _ABSORB:
                first = used
                if 0 < size <= length[b, i]:
                    first = start[b, i]
                elif used + size > ledger_rows.shape[1]:
                    if thread == 0:
                        answers[b] = LEDGER_FULL
                    return
                else:
                    used += size
                cuda.syncthreads()
                for a in range(thread, size, step):
                    ledger_rows[b, first + a] = rows[support[a]]
                    ledger_coefs[b, first + a] = mu[a]
                if thread == 0:
                    start[b, i] = first
                    length[b, i] = size
                    residuals[b, i] = p
            joins = not inside and phase != _PRUNE
            leaves = inside and phase == _PRUNE
            cuda.syncthreads()
            if thread == 0 and joins:
                rows[m] = i
                diag[m] = block[i, i]
                place[i] = m
            if thread == 0 and leaves:
                own = place[i]
                rows[own] = rows[m - 1]
                diag[own] = diag[m - 1]
                place[rows[own]] = own
                place[i] = -1
            m += joins - leaves
            cuda.syncthreads()
    _write_out(
        n, weights[b], place, start[b], length[b], ledger_rows[b], ledger_coefs[b],
        doubles[capacity : 2 * capacity], selected[b], residuals[b], sums[b],
    )  # fmt: skip
    if thread == 0:
        answers[b] = DONE


@cuda.jit(device=True)
def _ball(gram, n, slopes, center, order, scratch):
    """The smallest enclosing ball (``sets.ball``): rows by their distance from its centre.

    In ``order`` are the rows, the farthest first; one on the sphere, i, is written as -1 - i.
    """
    thread, step = cuda.threadIdx.x, cuda.blockDim.x
    low, at = _FAR, 0
    for i in range(thread, n, step):
        key = 2.0 * np.float64(gram[0, i]) - np.float64(gram[i, i])
        if key < low:
            low, at = key, i
    low, first, _ = _least(scratch, low, at, 0.0)
    for i in range(thread, n, step):
        center[i] = 1.0 if i == first else 0.0
        # half the gradient of what is minimised
        slopes[i] = np.float64(gram[first, i]) - 0.5 * np.float64(gram[i, i])
    for _ in range(20 * n + 1000):
        low, at = _FAR, 0
        high, source = _FAR, 0
        radius2 = 0.0
        for i in range(thread, n, step):
            if slopes[i] < low:
                low, at = slopes[i], i
            if center[i] > 0.0:
                radius2 += center[i] * (0.5 * np.float64(gram[i, i]) - slopes[i])
                if -slopes[i] < high:
                    high, source = -slopes[i], i
        low, farthest, _ = _least(scratch, low, at, 0.0)
        high, source, _ = _least(scratch, high, source, 0.0)
        radius2 = _sum(scratch, radius2)
        slope = -high - low
        if 2.0 * slope <= _BALL_TOL * max(radius2, 0.0):
            break
        curvature = np.float64(gram[farthest, farthest]) + np.float64(gram[source, source])
        curvature -= 2.0 * np.float64(gram[farthest, source])
        weight = center[source]
        move = weight
        if slope < move * curvature:
            move = slope / curvature
        cuda.syncthreads()
        for i in range(thread, n, step):
            if i == farthest:
                center[i] += move
            if i == source:
                center[i] = weight - move
            slopes[i] += move * (np.float64(gram[farthest, i]) - np.float64(gram[source, i]))
    cuda.syncthreads()
    for i in range(thread, n, step):
        rank = 0
        for j in range(n):
            rank += slopes[j] < slopes[i] or (slopes[j] == slopes[i] and j < i)
        order[rank] = -1 - i if center[i] > 0.0 else i
    cuda.syncthreads()


@cuda.jit(device=True)
def _seed(n, integers, capacity, order, length, state):
    """The rows on the sphere become the first members; returns how many."""
    thread, step = cuda.threadIdx.x, cuda.blockDim.x
    for i in range(thread, n, step):
        integers[capacity + i] = -1
        length[i] = 0
    cuda.syncthreads()
    if thread == 0:
        m = 0
        for at in range(n):
            if order[at] < 0:
                i = -1 - order[at]
                integers[m] = i
                integers[capacity + i] = m
                m += 1
        state[0] = m
    cuda.syncthreads()
    return state[0]


@cuda.jit(device=True)
def _recall(place, first, count, ledger_rows, ledger_coefs, mu, support):
    """A recorded combination without the rows that have left: its size, and whether intact."""
    thread = cuda.threadIdx.x
    for e in range(thread, count, cuda.blockDim.x):
        support[e] = place[ledger_rows[first + e]]
        mu[e] = ledger_coefs[first + e]
    cuda.syncthreads()
    size = 0
    total = 0.0
    for e in range(count):
        if support[e] >= 0:
            size += 1
            total += mu[e]
    cuda.syncthreads()
    if thread == 0:
        kept = 0
        for e in range(count):
            if support[e] >= 0:
                support[kept] = support[e]
                mu[kept] = mu[e] / total
                kept += 1
    cuda.syncthreads()
    return size, size == count


@cuda.jit(device=True)
def _check(gram, rows, diag, g, mu, support, size, m, i, at, tol, limits, scratch):
    """CheckPoint: is row i within tol of the hull of the ``m`` members other than itself?

    As in ``sets.hull``, but that ``mu`` is parallel to ``support``.
    """
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    real = gram.dtype.type
    p = 0.0
    if size > 0:
        p = _residual(gram, rows, mu, support, size, i, scratch)
        if p <= tol:
            return size, True, p
    low, target = 2.0 * _FAR, m
    for t in range(thread, m, threads):
        row = rows[t]
        slope = -gram[i, row]
        for a in range(size):
            slope += real(mu[a]) * gram[rows[support[a]], row]
        if t == at:
            slope = real(_FAR)
        g[t] = slope
        key = np.float64(real(0.5) * diag[t] + slope)
        if key < low:
            low, target = key, t
    # The start is a move too: from nowhere to the nearest member, or none at all.
    step, source = 0.0, -1
    dot = 0.0  # <z_i, u>
    if size == 0:
        low, target, _ = _least(scratch, low, target, 0.0)
        if low >= 0.5 * _FAR:
            return 0, False, 0.0
        if thread == 0:
            support[0] = target
            mu[0] = 1.0
        size = 1
        step = 1.0
        dot = np.float64(gram[i, rows[target]])
        p = np.float64(gram[i, i]) - 2.0 * dot
        p += np.float64(gram[rows[target], rows[target]])
    else:
        target = -1
        for a in range(size):
            dot += mu[a] * np.float64(gram[i, rows[support[a]]])
    inside = False
    for _ in range(int(limits[0])):
        _shift(gram, rows, g, m, step, target, source)
        cuda.syncthreads()
        high = 0
        top = -_FAR
        for a in range(size):
            slope = np.float64(g[support[a]])
            if slope > top:
                top, high = slope, a
        source = support[high]
        weight = mu[high]
        least, target = _target(gram, rows, diag, g, m, source, scratch)
        if p <= tol:
            p = _residual(gram, rows, mu, support, size, i, scratch)
            if p <= tol:
                inside = True
                break
        reach = np.float64(gram[i, i]) - dot + least  # <v, z_i> - max_t <v, z_t>
        if (reach > 0.0 and reach * reach > tol * p) or target == m or size == MOST_SUPPORT:
            break
        slope = top - np.float64(g[target])
        curvature = np.float64(diag[source]) + np.float64(diag[target])
        curvature -= 2.0 * np.float64(gram[rows[source], rows[target]])
        if slope <= 0.0:
            break
        step = weight
        if slope < step * curvature:
            step = slope / curvature
        gain = step * (2.0 * slope - step * curvature)
        if gain <= 1e-9 * p or p - tol > limits[1] * gain:
            break
        p -= gain
        dot += step * (np.float64(gram[i, rows[target]]) - np.float64(gram[i, rows[source]]))
        known = size
        for a in range(size):
            if support[a] == target:
                known = a
        cuda.syncthreads()
        if thread == 0:
            support[known] = target
            mu[known] = mu[known] + step if known < size else step
            mu[high] = weight - step
        size += known == size
        if step == weight:  # nothing is left of the source
            size -= 1
            if thread == 0:
                support[high] = support[size]
                mu[high] = mu[size]
    cuda.syncthreads()
    return size, inside, p


@cuda.jit(device=True)
def _shift(gram, rows, g, m, step, to, from_):
    """Move g for a step of weight between two members; from nowhere where ``from_`` is -1."""
    if step == 0.0:
        return
    move = gram.dtype.type(step)
    to_row = rows[to]
    for t in range(cuda.threadIdx.x, m, cuda.blockDim.x):
        change = gram[to_row, rows[t]]
        if from_ >= 0:
            change -= gram[rows[from_], rows[t]]
        g[t] += move * change


@cuda.jit(device=True)
def _target(gram, rows, diag, g, m, source, scratch):
    """The least g, and the member to which moving weight from ``source`` lowers p most.

    Where (g_s - g_t)^2 / |z_s - z_t|^2 is largest; m where no member is below the source.
    """
    real = gram.dtype.type
    top, source_diag, source_row = g[source], diag[source], rows[source]
    zero, two, tiny = real(0.0), real(2.0), real(_TINY)
    best, least = zero, real(_FAR)
    at = m
    for t in range(cuda.threadIdx.x, m, cuda.blockDim.x):
        least = min(least, g[t])
        slope = min(g[t] - top, zero)
        curvature = min(two * gram[source_row, rows[t]] - diag[t] - source_diag, -tiny)
        gain = slope * slope / curvature
        if gain < best:
            best, at = gain, t
    _, at, lowest = _least(scratch, np.float64(best), at, np.float64(least))
    return lowest, at


@cuda.jit(device=True)
def _residual(gram, rows, mu, support, size, i, scratch):
    """Squared distance of row i to its combination, in double precision."""
    thread, step = cuda.threadIdx.x, cuda.blockDim.x
    p = 0.0
    for e in range(thread, size * size, step):
        a = e // size
        c = e - a * size
        p += mu[a] * mu[c] * np.float64(gram[rows[support[a]], rows[support[c]]])
    for a in range(thread, size, step):
        p -= 2.0 * mu[a] * np.float64(gram[i, rows[support[a]]])
    return np.float64(gram[i, i]) + _sum(scratch, p)


@cuda.jit(device=True)
def _least(scratch, value, at, other):
    """The least value of all threads, the lowest position that has it, and the least other.

    Two barriers, one before each level is read: that is enough for the next reduction, too, which
    does not write to a level before all threads are done with it.
    """
    values, others, places = scratch
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    values[thread], places[thread], others[thread] = value, at, other
    cuda.syncthreads()
    groups = min(_GROUPS, threads)
    if thread < groups:
        for k in range(thread + groups, threads, groups):
            if values[k] < value or (values[k] == value and places[k] < at):
                value, at = values[k], places[k]
            other = min(other, others[k])
        values[MOST_THREADS + thread] = value
        places[MOST_THREADS + thread] = at
        others[MOST_THREADS + thread] = other
    cuda.syncthreads()
    value, at, other = values[MOST_THREADS], places[MOST_THREADS], others[MOST_THREADS]
    for k in range(MOST_THREADS + 1, MOST_THREADS + groups):
        if values[k] < value or (values[k] == value and places[k] < at):
            value, at = values[k], places[k]
        other = min(other, others[k])
    return value, at, other


@cuda.jit(device=True)
def _sum(scratch, value):
    """The sum of all threads' values."""
    values, thread, threads = scratch[0], cuda.threadIdx.x, cuda.blockDim.x
    values[thread] = value
    cuda.syncthreads()
    groups = min(_GROUPS, threads)
    if thread < groups:
        for k in range(thread + groups, threads, groups):
            value += values[k]
        values[MOST_THREADS + thread] = value
    cuda.syncthreads()
    value = values[MOST_THREADS]
    for k in range(MOST_THREADS + 1, MOST_THREADS + groups):
        value += values[k]
    return value


@cuda.jit(device=True)
def _write_out(
    n, weights, place, start, length, ledger_rows, ledger_coefs, totals, selected, residuals, sums
):  # fmt: skip
    """Combinations that sum to one, and the weights handed on by them."""
    thread, step = cuda.threadIdx.x, cuda.blockDim.x
    for i in range(thread, n, step):
        member = place[i] >= 0
        selected[i] = 1 if member else 0
        if member:
            residuals[i] = 0.0
            length[i] = 0
            totals[i] = weights[i]
        else:
            total = 0.0
            for e in range(start[i], start[i] + length[i]):
                total += ledger_coefs[e]
            for e in range(start[i], start[i] + length[i]):
                ledger_coefs[e] /= total
            totals[i] = 0.0
    cuda.syncthreads()
    # One row after another, so that sums have one order; the entries of a row are different rows.
    for i in range(n):
        first = start[i]
        for a in range(thread, length[i], step):
            totals[ledger_rows[first + a]] += weights[i] * ledger_coefs[first + a]
        cuda.syncthreads()
    for i in range(thread, n, step):
        sums[i] = totals[i]
