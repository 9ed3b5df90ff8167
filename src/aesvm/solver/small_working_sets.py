"""Small duals (``small``) improved by working sets, with kernel values computed as needed.

Of a dual of a thousand variables few rows of the kernel matrix are ever needed. Its variables that
violate optimality most are solved for by themselves, and the rows of those that moved are computed,
and kept until the end. At the end, slopes are computed anew from the coefficients. One call of
compiled code solves several duals.

Half of a kernel row are values within a class, which the duals of that class with all others have
in common. Where these are at hand, only the other half is computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.crew import add_rows
from aesvm.kernels.tiles import RowsByClass, write_columns, write_lines, write_values
from aesvm.runtime.jit import inlined, jit
from aesvm.solver.pair_updates import update_pairs
from aesvm.solver.small import Array, Improve, PairVariables, balance
from aesvm.solver.working_set import FALL, RISE, choose_compiled

#: Variables of a working set.
WORKING_SET = 128

#: The fraction of its violation that a working set is solved to. (With 0.1 in place of 0.3, usps
#: and 26 classes as of letters took 1.2 and 1.1 times as long.)
_INNER = 0.3

#: Values of rows with fewer factors are computed again rather than gathered from memory.
_CHEAP_WIDTH = 64

#: Slopes that are computed anew differ by less, relative to the violation aimed at.
_ANEW = 1e-3


class ClassValues(NamedTuple):
    """Square blocks of kernel values within classes."""

    values: Array  #: the blocks, one after another
    #: (n_classes, 3), of each class: where its block begins, how many lines that has, and the line
    #: and column at which the class begins in it. The first is -1 where no block is at hand.
    places: NDArray[np.intp]


class _Dual(NamedTuple):
    """Variables, as ``PairVariables`` has them: of all duals, or of a working set."""

    coefs: Array
    slopes: Array
    linear: Array
    lower: Array
    upper: Array
    diag: Array


class _KernelRows(NamedTuple):
    """Where kernel rows of a dual are kept: of each class, in two halves.

    A row of the values with the other class is written when it is first needed, to the next free
    line; so is one within the class, where those are not at hand.
    """

    own: tuple[Array, Array]  #: values within each class
    #: Where each class begins in these; -1 where they are computed as they are needed.
    begins: tuple[Any, Any]
    other: tuple[Array, Array]  #: values with the other class


class _Blocks(NamedTuple):
    """Room for blocks of kernel values, and for the rows that they are computed from."""

    whole: Array  #: the values of a working set
    quarter: Array  #: those of the first class's variables with the second's, before they are there
    lines: Array  #: rows of some variables, as the lines of a block
    columns: Array  #: rows of a working set, as its columns


class _Memory(NamedTuple):
    """What a solve works with; nothing in it outlasts the solve."""

    chosen: NDArray[np.intp]  #: the working set, ascending
    recent: NDArray[np.intp]  #: the last one, the newest of it first; then -1
    n_chosen: NDArray[np.intp]  #: (2,), where each group of ``ends`` ends in the working set
    part: _Dual  #: the variables of the working set
    blocks: _Blocks
    slots: NDArray[np.intp]  #: of each variable, its line in the kernel rows; -1 where it has none
    n_kept: NDArray[np.intp]  #: (2,), lines of each class that are written
    moved: NDArray[np.intp]  #: variables whose coefficients changed
    changes: Array  #: of these
    missing: NDArray[np.intp]  #: moved variables whose kernel rows are not kept yet
    found: NDArray[np.intp]  #: some variables, or their lines in the kernel rows
    moves: NDArray[np.int8]  #: what each variable can do
    taken: NDArray[np.bool_]  #: whether each variable is in the working set
    behind: Array  #: slopes to choose by, seen from the edge
    keys: Array  #: the same, as they are put into another order

    @classmethod
    def of(cls, n: int, width: int) -> _Memory:
        """Room for ``n`` variables, whose rows have ``width`` factors."""
        n_lines = max(n, WORKING_SET)

        def numbers(size: int) -> NDArray[np.intp]:
            return np.empty(size, dtype=np.intp)

        return cls(
            chosen=numbers(WORKING_SET),
            recent=numbers(WORKING_SET),
            n_chosen=numbers(2),
            part=_Dual(*np.empty((len(_Dual._fields), WORKING_SET))),
            blocks=_Blocks(
                whole=np.empty(WORKING_SET**2),
                quarter=np.empty(WORKING_SET**2),
                lines=np.empty((n_lines, width)),
                columns=np.empty(WORKING_SET * width),
            ),
            slots=numbers(n),
            n_kept=numbers(2),
            moved=numbers(n),
            changes=np.empty(n),
            missing=numbers(2 * n_lines),
            found=numbers(n + 1),
            moves=np.empty(n, dtype=np.int8),
            taken=np.empty(n, dtype=bool),
            behind=np.empty(n + 1),
            keys=np.empty(n),
        )


def improve_by_working_sets(
    rows: RowsByClass,
    pairs: NDArray[np.intp],
    class_values: ClassValues,
    apart: bool,
    values: Array,
) -> Improve:
    """Improve duals of classes.

    Parameters
    ----------
    rows : RowsByClass
        Of all classes.
    pairs : ndarray of shape (n_duals, 2)
        The classes of each dual.
    class_values : ClassValues
        Of all classes.
    apart : bool
        Whether the sum of each class is held.
    values : ndarray
        Room for the largest matrix of a dual.
    """

    def improve(v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        updates = np.zeros(len(active), dtype=np.intp)
        memory = _Memory.of(int(v.sizes.sum(axis=1).max()), rows.width)
        duals = _Dual(v.coefs, v.slopes, v.linear, v.lower, v.upper, v.diag)
        ends = np.empty(2 if apart else 1, dtype=np.intp)
        _solve(
            duals, v.sizes, v.classes, v.held, pairs, active, ends, rows.factors, rows.width,
            rows.ends, rows.product_map, class_values, values, aims, most, memory, updates,
        )  # fmt: skip
        return updates

    return improve


@jit
def _solve(
    duals,
    sizes,
    starts,
    held,
    pairs,
    active,
    ends,
    factors,
    width,
    class_ends,
    product_map,
    class_values,
    values,
    aims,
    most,
    memory,
    updates,
):
    """Solve some duals, one after another; ``updates`` has the number of pair updates of each.

    Parameters
    ----------
    duals : _Dual
        The variables of all duals. Coefficients and slopes are brought up to date.
    sizes, starts, held, pairs
        Of each dual: the variables of its classes, where it begins, as ``PairVariables`` has
        them; the sum of the magnitudes in a class, zero where it is not held; its classes.
    active : ndarray
        The duals to solve.
    ends : ndarray of shape (n_groups,)
        Room for where each group ends whose sum is held.
    factors, width, class_ends, product_map
        Of ``RowsByClass``.
    class_values : ClassValues
    values : ndarray
        Room for kernel rows.
    aims, most : ndarray
        The violation to come to, and the most pair updates, of each of the active duals.
    memory : _Memory
    """
    part, blocks = memory.part, memory.blocks
    slots, n_kept, n_chosen = memory.slots, memory.n_kept, memory.n_chosen[: ends.size]
    moved, changes, missing, found = memory.moved, memory.changes, memory.missing, memory.found
    chosen, recent = memory.chosen, memory.recent
    zero: Any = np.intp(0)  # no literal: functions would be compiled for that, too
    places = class_values.places
    for a in range(active.size):
        number = active[a]
        one, other = pairs[number, 0], pairs[number, 1]
        n_first, n_second, start = sizes[number, 0], sizes[number, 1], starts[2 * number]
        n = n_first + n_second
        first = _matrix(factors, width * (class_ends[one] - n_first), width, n_first)
        second = _matrix(factors, width * (class_ends[other] - n_second), width, n_second)
        ends[0], ends[-1] = n_first, n
        coefs, slopes = duals.coefs[start : start + n], duals.slopes[start : start + n]
        lower, upper = duals.lower[start : start + n], duals.upper[start : start + n]
        linear, diag = duals.linear[start : start + n], duals.diag[start : start + n]
        # room for what is not at hand, the half of the first class before that of the second
        middle = n_first * n
        kernel_rows = _KernelRows(
            (
                _own_values(class_values, one, values, zero, n_first),
                _own_values(class_values, other, values, middle, n_second),
            ),
            (
                places[one, 2] if places[one, 0] >= 0 else np.intp(-1),
                places[other, 2] if places[other, 0] >= 0 else np.intp(-1),
            ),
            (
                _matrix(values, n_first * n_first, n_first, n_second),
                _matrix(values, middle + n_second * n_second, n_second, n_first),
            ),
        )
        rows, aim, limit = (first, second), aims[a], most[a]
        moves = memory.moves[:n]
        n_kept[0] = n_kept[1] = 0
        n_updates = 0
        for k in range(coefs.size):
            slots[k] = -1
        for c in range(recent.size):
            recent[c] = -1
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
            write_lines(first, second, missing[:n_missing], product_map, blocks.lines)
            for side in range(2):
                low, high = (first_missing, n_missing) if side else (0, first_missing)
                some = blocks.lines[low:high]
                start, stop = (first_moved, n_moved) if side else (0, first_moved)
                end = n_kept[side]
                for which in range(2):  # whose rows the values are with, and whose slopes change
                    begin = kernel_rows.begins[side] if which == side else -1
                    kept = kernel_rows.own[side] if which == side else kernel_rows.other[side]
                    if begin < 0:
                        write_values(
                            some, rows[which], product_map, kept[end - some.shape[0] : end]
                        )
                    for m in range(start, stop):
                        place = moved[m] - side * n_first
                        found[m] = slots[moved[m]] if begin < 0 else begin + place
                    column = begin if begin > 0 else zero
                    low, high = (n_first, n) if which else (zero, n_first)
                    add_rows(kept, found[start:stop], changes[start:stop], column, slopes[low:high])
            if is_over:
                break
            for k in range(coefs.size):
                moves[k] = RISE * (coefs[k] < upper[k]) + FALL * (coefs[k] > lower[k])
            size, violation = choose_compiled(
                slopes, moves, ends, recent, chosen, memory.taken, memory.behind, found, memory.keys
            )
            is_over = violation <= (1.0 - _ANEW) * aim or n_updates >= limit
            if not is_over:
                K = _matrix(blocks.whole, zero, size, size)
                n_chosen[0] = _write_block(
                    first, second, chosen[:size], product_map, kernel_rows.own,
                    kernel_rows.begins, blocks, K,
                )  # fmt: skip
                n_chosen[-1] = size
                for c in range(size):
                    k = chosen[c]
                    part.coefs[c], part.slopes[c], part.diag[c] = coefs[k], slopes[k], diag[k]
                    part.lower[c], part.upper[c] = lower[k], upper[k]
                done = update_pairs(
                    K, part.diag, part.coefs, part.slopes, part.lower, part.upper,
                    n_chosen, max(0.5 * aim, _INNER * violation), limit - n_updates,
                )  # fmt: skip
                is_over = done == 0
                n_updates += done
                n_moved = 0
                for c in range(size):
                    k = chosen[c]
                    if part.coefs[c] != coefs[k]:
                        moved[n_moved], changes[n_moved] = k, part.coefs[c] - coefs[k]
                        coefs[k] = part.coefs[c]
                        n_moved += 1
            if is_over:
                balance(coefs, lower, upper, n_first, held[number])
                n_moved = _move_all(coefs, linear, slopes, moved, changes)
        updates[a] = n_updates


@inlined
def _own_values(class_values, number, values, start, size):
    """The block of a class, or room for it in ``values``."""
    begin, n_lines = class_values.places[number, 0], class_values.places[number, 1]
    if begin >= 0:
        values, start, size = class_values.values, begin, n_lines
    return _matrix(values, start, size, size)


@jit
def _matrix(values, start, n_lines, n_columns):
    """A part of a buffer as a matrix. It is not inlined: Numba makes much code of it."""
    return values[start : start + n_lines * n_columns].reshape(n_lines, n_columns)


@inlined
def _write_block(first, second, chosen, product_map, own, begins, blocks, K):
    """The kernel values of a working set; returns how many of it are of the first class.

    Where values within both classes are at hand, those of the one with the other are computed.
    """
    width, n_first = first.shape
    zero: Any = np.intp(0)  # no literal, as in _solve
    middle = 0
    for c in range(chosen.size):
        middle += chosen[c] < n_first
    first_begin, second_begin = begins
    one, other = own
    held = first_begin >= 0 and second_begin >= 0 and width >= _CHEAP_WIDTH
    bottom = middle if held else chosen.size
    left = middle if held else 0
    right = chosen.size - left
    columns = _matrix(blocks.columns, zero, width, right)
    room = blocks.quarter if held else blocks.whole  # of which ``K`` is a view
    values = _matrix(room, zero, bottom, right)
    write_lines(first, second, chosen[:bottom], product_map, blocks.lines)
    write_columns(first, second, chosen[left:], columns)
    write_values(blocks.lines[:bottom], columns, product_map, values)
    for i in range(chosen.size if held else 0):
        for k in range(i + 1):
            if i < middle:
                value = one[first_begin + chosen[i], first_begin + chosen[k]]
            elif k >= middle:
                at = second_begin - n_first
                value = other[at + chosen[i], at + chosen[k]]
            else:
                value = values[k, i - middle]
            K[i, k] = K[k, i] = value
    return middle


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
