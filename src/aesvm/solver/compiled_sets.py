"""Rounds of small duals (``small``) by working sets, where compiled code has their kernel.

The same as in ``small_rounds``, without the interpreter and its lock: a dual is solved in one call.
And half of a kernel row are values within a class, which the duals of that class with all others
share: where these are at hand, the other half is computed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.accumulate import add_rows
from aesvm.kernels.transposed import TransposedRows, take_lines, write_values
from aesvm.runtime.jit import jit
from aesvm.solver.pair_updates import HUGE, update_pairs
from aesvm.solver.small import Array, PairVariables
from aesvm.solver.small_rounds import ANEW, INNER, balance
from aesvm.solver.state import find_edges

#: Variables of a working set. (Rounds cost less than in Python, so that there may be more of them.)
WORKING_SET = 128


class Within(NamedTuple):
    """Kernel values among rows, some of which are a class, one after another."""

    values: Array
    begin: int  #: where the class does


#: Of the two classes of a dual; None where they are not at hand.
WithinClasses = tuple[Within | None, Within | None]


def round_of_compiled_sets(
    rows: TransposedRows,
    pairs: NDArray[np.intp],
    within: list[WithinClasses],
    apart: bool,
    memory: Array,
) -> Callable:
    """The round of duals of classes.

    Parameters
    ----------
    rows : TransposedRows
        Of all classes.
    pairs : ndarray of shape (n_duals, 2)
        The classes of each dual.
    within : list of WithinClasses
        Of each dual.
    apart : bool
        Whether the sum of each class is held.
    memory : ndarray
        Room for the largest matrix of a dual.
    """

    def make(v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        accounts = np.zeros((len(active), 3))
        n_most, width = int(v.sizes.sum(axis=1).max()), rows.classes[0].shape[0]
        memories = (
            *np.empty((2, WORKING_SET), dtype=np.intp),
            np.ones(WORKING_SET, dtype=bool),
            np.empty((2, max(n_most, WORKING_SET) * width)),
            np.empty((2, n_most)),
            np.empty(n_most),
            np.empty((5, max(n_most, 4)), dtype=np.intp),
            np.empty(WORKING_SET**2),
            np.empty((5, WORKING_SET)),
        )
        for a, number in enumerate(active.tolist()):
            both = tuple(rows.classes[own] for own in pairs[number].tolist())
            n_first, n_second = (own.shape[1] for own in both)
            start, n = int(v.classes[2 * number]), n_first + n_second
            ends = np.array([n_first, n] if apart else [n])
            memories[1][:] = -1
            each = v.coefs, v.slopes, v.linear, v.lower, v.upper, v.diag
            _solve(
                both,
                *_places(n_first, n_second, within[number], memory),
                rows.form,
                *(own[start : start + n] for own in each),
                ends,
                float(v.held[number]),
                float(aims[a]),
                int(most[a]),
                *memories,
                accounts[a],
            )
        return accounts[:, 0], accounts[:, 1]

    return make


def _places(
    n_first: int, n_second: int, within: WithinClasses, memory: Array
) -> tuple[tuple[Array, Array], tuple[int, int], tuple[Array, Array]]:
    """Where the rows of a dual are kept: values within each class, where it begins in these (-1
    where they are none as yet), and values with the other class.
    """
    n = n_first + n_second
    own, begins, other, used = [], [], [], 0
    for size, values in zip((n_first, n_second), within, strict=True):
        kept = memory[used : used + size * n]
        used += size * n
        own.append(kept[: size * size].reshape(size, size) if values is None else values.values)
        begins.append(-1 if values is None else values.begin)
        other.append(kept[size * size :].reshape(size, n - size))
    return (own[0], own[1]), (begins[0], begins[1]), (other[0], other[1])


@jit
def _solve(
    rows, own, begins, other, form, coefs, slopes, linear, lower, upper, diag, ends, held, aim,
    most, chosen, recent, written, factors, keys, changes, places, block, parts, account,
):  # fmt: skip
    """Solve a dual; ``account`` receives the updates made, and what the objective fell by."""
    first, second = rows
    width, n_first, n = first.shape[0], first.shape[1], coefs.size
    slots, moved, missing, found = places[0], places[1], places[2], places[3]
    zero: Any = np.intp(0)  # no literal: add_rows would be compiled for that, too
    n_kept = places[4]  # of each class; then, of each group, how many are chosen
    n_kept[0] = n_kept[1] = 0
    updates, decrease = 0.0, 0.0
    for k in range(n):
        slots[k] = -1
    is_over = False
    n_moved = _move_all(coefs, linear, slopes, moved, changes)
    while True:
        n_missing = first_missing = first_moved = 0
        for m in range(n_moved):
            k = moved[m]
            side = 0 if k < n_first else 1
            first_moved += 1 - side
            if slots[k] < 0:
                missing[n_missing] = k
                n_missing += 1
                first_missing += 1 - side
                slots[k] = n_kept[side]
                n_kept[side] += 1
        lines = factors[0, : n_missing * width].reshape(n_missing, width)
        columns = factors[1, : n_missing * width].reshape(width, n_missing)
        take_lines(first, second, missing[:n_missing], form, lines, columns)
        for side in range(2):
            some = lines[first_missing:] if side else lines[:first_missing]
            start, stop = (first_moved, n_moved) if side else (0, first_moved)
            end = n_kept[side]
            for with_other in range(2):
                begin = -1 if with_other else begins[side]
                kept, right = (other, rows[1 - side]) if with_other else (own, rows[side])
                if begin < 0:
                    write_values(some, right, form, kept[side][end - some.shape[0] : end])
                for m in range(start, stop):
                    place = moved[m] - side * n_first
                    found[m] = slots[moved[m]] if begin < 0 else begin + place
                here = slopes[n_first:] if side != with_other else slopes[:n_first]
                first_column = max(begin, zero)
                add_rows(kept[side], found[start:stop], changes[start:stop], first_column, here)
        if is_over:
            break
        size, gap = _choose(coefs, slopes, lower, upper, ends, recent, chosen, keys, found, missing)
        is_over = gap <= (1.0 - ANEW) * aim or updates >= most
        if not is_over:
            lines = factors[0, : size * width].reshape(size, width)
            columns = factors[1, : size * width].reshape(width, size)
            K = block[: size * size].reshape(size, size)
            take_lines(first, second, chosen[:size], form, lines, columns)
            write_values(lines, columns, form, K)
            for g in range(ends.size):
                n_kept[2 + g] = 0
            for c in range(size):
                k = chosen[c]
                parts[0, c], parts[1, c], parts[2, c] = coefs[k], slopes[k], diag[k]
                parts[3, c], parts[4, c] = lower[k], upper[k]
                for g in range(ends.size):
                    n_kept[2 + g] += k < ends[g]
            update_pairs(
                K, parts[2, :size], written[:size], parts[0, :size], parts[1, :size],
                parts[3, :size], parts[4, :size], n_kept[2 : 2 + ends.size],
                max(0.5 * aim, INNER * gap), most - int(updates), account,
            )  # fmt: skip
            is_over = account[0] == 0.0
            updates += account[0]
            decrease += account[1]
            n_moved = 0
            for c in range(size):
                k = chosen[c]
                if parts[0, c] != coefs[k]:
                    moved[n_moved], changes[n_moved] = k, parts[0, c] - coefs[k]
                    coefs[k] = parts[0, c]
                    n_moved += 1
        if is_over:
            balance(coefs, lower, upper, n_first, held)
            n_moved = _move_all(coefs, linear, slopes, moved, changes)
    account[0], account[1] = updates, decrease


@jit
def _move_all(coefs, linear, slopes, moved, changes):
    """All coefficients, as if they had moved from zero: how many they are."""
    n_moved = 0
    for k in range(coefs.size):
        slopes[k] = linear[k]
        if coefs[k] != 0.0:
            moved[n_moved], changes[n_moved] = k, coefs[k]
            n_moved += 1
    return n_moved


@jit
def _choose(coefs, slopes, lower, upper, ends, recent, chosen, keys, found, is_chosen):
    """The variables that violate optimality most, and half of those last chosen.

    They are written to ``chosen``, ascending, and to ``recent``, the newest first. Returns how many
    they are, and the gap.
    """
    n, most = coefs.size, chosen.size
    for k in range(n):
        is_chosen[k] = 0
    n_stay = n_new = 0
    while n_stay < most // 2 and recent[n_stay] >= 0:
        is_chosen[recent[n_stay]] = 1
        n_stay += 1
    room = (most - n_stay) // (2 * ends.size)
    gap = 0.0
    begin = 0
    for g in range(ends.size):
        end = ends[g]
        lowest, highest = find_edges(
            slopes[begin:end], coefs[begin:end], lower[begin:end], upper[begin:end]
        )
        gap = max(gap, highest - lowest)
        for falls in range(2):
            size = 0
            sign, limit = (-1.0, -lowest) if falls else (1.0, highest)
            for k in range(begin, end):  # without branches, which could not be foreseen
                can = coefs[k] > lower[k] if falls else coefs[k] < upper[k]
                found[size], keys[0, size] = k, sign * slopes[k]
                size += can & (sign * slopes[k] < limit) & (is_chosen[k] == 0)
            last, n_equal = HUGE, room
            if size > room:
                for m in range(size):
                    keys[1, m] = keys[0, m]
                last = _smallest(keys[1, :size], room)
                for m in range(size):
                    n_equal -= keys[0, m] < last
            for m in range(size):
                is_last = keys[0, m] == last and n_equal > 0
                if keys[0, m] < last or is_last:
                    n_equal -= is_last
                    is_chosen[found[m]] = 1
                    chosen[n_new] = found[m]
                    n_new += 1
        begin = end
    for k in range(n_stay):
        chosen[n_new + k] = recent[k]
    for k in range(most):
        recent[k] = chosen[k] if k < n_new + n_stay else -1
    size = 0
    for k in range(n):
        found[size] = k
        size += is_chosen[k]
    for k in range(size):
        chosen[k] = found[k]
    return size, gap


@jit
def _smallest(keys, number):
    """The largest of the ``number`` smallest keys, which are put into another order."""
    first, last, at = 0, keys.size - 1, number - 1
    while first < last:
        middle = keys[(first + last) // 2]
        i, j = first, last
        while i <= j:
            while keys[i] < middle:
                i += 1
            while keys[j] > middle:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if at <= j:
            last = j
        elif at >= i:
            first = i
        else:
            break
    return keys[at]
