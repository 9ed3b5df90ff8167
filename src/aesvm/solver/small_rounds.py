"""Rounds of small duals (``small``): with all variables at once, or with working sets.

The kernel values of a dual of some hundred variables are all at hand, and pair updates run over all
of them: many such duals take one call of compiled code. Of a dual of more, few rows of the
kernel matrix are ever needed. Its variables that violate optimality most are solved for
on their own, and the rows of those that moved are computed, and kept while the round lasts.
Scores are computed anew from the coefficients at the end of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.accumulate import add_rows
from aesvm.runtime.jit import jit
from aesvm.solver.pair_updates import HUGE, update_pairs
from aesvm.solver.small import Array, Variables
from aesvm.solver.state import find_edges

#: Variables of a working set.
WORKING_SET = 256

#: A working set is solved to a tolerance of this share of the gap, or to that aimed at.
_INNER = 0.1

#: Scores that are computed anew differ by less, as a share of the gap aimed at.
_ANEW = 1e-3

#: How often the range of slopes is halved, to find as many of the worst as there is room for.
_HALVINGS = 20

#: Sums that differ by less, as a share of them, are the same.
_ROUNDING = 1e-13


class Blocks(NamedTuple):
    """Kernel values of two groups of classes."""

    first: Array
    cross: Array
    second: Array


def round_of_blocks(
    blocks: Blocks, places: NDArray[np.intp], apart: bool, values: Array
) -> Callable:
    """The round of duals whose kernel values are those of two groups of classes.

    Parameters
    ----------
    blocks : Blocks
    places : ndarray of shape (n_duals, 2)
        Where the classes of each begin in their groups.
    apart : bool
        Whether the sum of each class is held.
    values : ndarray
        Room for the largest matrix of a dual.
    """

    def make(v: Variables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        account = np.empty((len(active), 2))
        _round_of_blocks(
            *blocks, places, v.sizes, v.classes, active, apart, v.held, v.bounds, v.diag,
            v.linear, v.lower, v.upper, aims, most, values, v.coefs, v.slopes, account,
        )  # fmt: skip
        return account.T

    return make


@jit
def _round_of_blocks(
    first,
    cross,
    second,
    places,
    sizes,
    classes,
    active,
    apart,
    held,
    all_bounds,
    all_diag,
    all_linear,
    all_lower,
    all_upper,
    aims,
    most,
    values,
    all_coefs,
    all_slopes,
    accounts,
):
    account = np.empty(3)
    for a in range(active.size):
        number = active[a]
        n_first, start = sizes[number, 0], classes[2 * number]
        n = n_first + sizes[number, 1]
        begin, other = places[number, 0], places[number, 1]
        K = values[: n * n].reshape(n, n)
        stop = start + n
        linear, diag, bounds = all_linear[start:stop], all_diag[start:stop], all_bounds[start:stop]
        lower, upper = all_lower[start:stop], all_upper[start:stop]
        coefs, slopes = all_coefs[start:stop], all_slopes[start:stop]
        ends = np.empty(2 if apart else 1, dtype=np.intp)
        ends[0], ends[-1] = n_first, n
        written = np.zeros(n, dtype=np.bool_)
        accounts[a, 0] = accounts[a, 1] = 0.0
        for i in range(n):
            if coefs[i] != 0.0:
                _write_row(first, cross, second, begin, other, n_first, i, K[i])
                written[i] = True
        _add_up(K, coefs, linear, slopes)
        while True:  # further rows are written as they come up
            left = most[a] - int(accounts[a, 0])
            update_pairs(
                K, diag, written, coefs, slopes, lower, upper, ends, 0.5 * aims[a], left, account
            )
            accounts[a, 0] += account[0]
            accounts[a, 1] += account[1]
            i = int(account[2])
            if i < 0:
                break
            _write_row(first, cross, second, begin, other, n_first, i, K[i])
            written[i] = True
        balance(coefs, bounds, n_first, held[number])
        _add_up(K, coefs, linear, slopes)


@jit
def balance(coefs, bounds, n_first, held):
    """Move the sums of classes, which rounding has moved, back to what is held."""
    above = below = 0.0
    for i in range(coefs.size):
        if i < n_first:
            above += coefs[i]
        else:
            below -= coefs[i]
    wanted = held if held > 0.0 else min(above, below)
    for i in range(coefs.size):
        reached = above if i < n_first else below
        if abs(reached - wanted) > _ROUNDING * reached and reached > 0.0:
            coefs[i] = min(max(coefs[i] * (wanted / reached), -bounds[i]), bounds[i])


@jit
def _write_row(first, cross, second, begin, other, n_first, i, row):
    """A row of the matrix of a pair, from the blocks of its groups."""
    n_second = row.size - n_first
    left, right = row[:n_first], row[n_first:]
    if i < n_first:
        own, across = first[begin + i][begin:], cross[begin + i][other:]
        for k in range(n_first):
            left[k] = own[k]
        for k in range(n_second):
            right[k] = across[k]
    else:
        at = other + i - n_first
        own = second[at][other:]
        for k in range(n_first):
            left[k] = cross[begin + k, at]
        for k in range(n_second):
            right[k] = own[k]


@jit
def _add_up(K, coefs, linear, slopes):
    """``slopes = K coefs + linear``, of rows that are written where coefficients are not zero."""
    for k in range(slopes.size):
        slopes[k] = linear[k]
    for i in range(coefs.size):
        if coefs[i] != 0.0:
            row, coef = K[i], coefs[i]
            for k in range(slopes.size):
                slopes[k] += coef * row[k]


class Lines(NamedTuple):
    """What computes kernel values of a dual, into arrays."""

    rows: Callable[[NDArray[np.intp], Array], None]  #: of some variables, with all
    square: Callable[[NDArray[np.intp], Array], None]  #: of some variables, with each other


def round_of_working_sets(lines: Callable[[int], Lines], apart: bool, values: Array) -> Callable:
    """The round of duals whose kernel values are computed as they are needed.

    Parameters
    ----------
    lines : callable
        Takes the number of a dual to its ``Lines``.
    apart : bool
        Whether the sum of each class is held.
    values : ndarray
        Room for the largest matrix of a dual.
    """

    def make(v: Variables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        updates, decrease = np.zeros(len(active)), np.zeros(len(active))
        for a, number in enumerate(active.tolist()):
            one = _WorkingSets(v, number, lines(number), apart, values)
            updates[a], decrease[a] = one.solve(aims[a], int(most[a]))
        return updates, decrease

    return make


class _WorkingSets:
    """One dual, for a round."""

    def __init__(self, v: Variables, number: int, lines: Lines, apart: bool, values: Array) -> None:
        start, n_first, n = v.classes[2 * number], v.sizes[number, 0], v.sizes[number].sum()
        own = slice(start, start + n)
        self.coefs, self.slopes, self.linear = v.coefs[own], v.slopes[own], v.linear[own]
        self.lower, self.upper, self.diag = v.lower[own], v.upper[own], v.diag[own]
        self.bounds, self.held, self.n_first = v.bounds[own], v.held[number], n_first
        self.ends = np.array([n_first, n] if apart else [n])
        self.lines = lines
        self.kept = values[: n * n].reshape(n, n)
        self.slots: NDArray[np.intp] = np.full(n, -1)
        self.n_kept = 0
        self.recent = np.empty(0, dtype=np.intp)

    def solve(self, aim: float, most: int) -> tuple[int, float]:
        updates, decrease = 0, 0.0
        account, block = np.empty(3), np.empty(WORKING_SET**2)
        self._anew()
        while True:
            chosen, gap = self._choose()
            if gap <= (1.0 - _ANEW) * aim or updates >= most:
                break
            n = len(chosen)
            K = block[: n * n].reshape(n, n)
            self.lines.square(chosen, K)
            before = self.coefs[chosen]
            coefs, slopes = before.copy(), self.slopes[chosen]
            update_pairs(
                K,
                self.diag[chosen],
                np.ones(n, dtype=bool),
                coefs,
                slopes,
                self.lower[chosen],
                self.upper[chosen],
                np.searchsorted(chosen, self.ends),
                max(0.5 * aim, _INNER * gap),
                most - updates,
                account,
            )
            if account[0] == 0:
                break
            updates += int(account[0])
            decrease += float(account[1])
            self.coefs[chosen] = coefs
            changes = coefs - before
            moved = np.flatnonzero(changes)
            self._add(chosen[moved], changes[moved])
        balance(self.coefs, self.bounds, self.n_first, self.held)
        self._anew()
        return updates, decrease

    def _anew(self) -> None:
        self.slopes[:] = self.linear
        held = np.flatnonzero(self.coefs)
        self._add(held, self.coefs[held])

    def _add(self, at: NDArray[np.intp], changes: Array) -> None:
        """Changes of coefficients, to the slopes."""
        missing = at[self.slots[at] < 0]
        if len(missing):
            stop = self.n_kept + len(missing)
            self.lines.rows(missing, self.kept[self.n_kept : stop])
            self.slots[missing] = np.arange(self.n_kept, stop)
            self.n_kept = stop
        add_rows(self.kept, self.slots[at], changes, 0, self.slopes)

    def _choose(self) -> tuple[NDArray[np.intp], float]:
        """The variables that violate optimality most, and half of those last chosen; the gap."""
        stay = self.recent[: WORKING_SET // 2]
        taken = np.zeros(len(self.coefs), dtype=bool)
        taken[stay] = True
        new = np.empty(WORKING_SET - len(stay), dtype=np.intp)
        n_new, gap = choose_worst(
            self.slopes, self.coefs, self.lower, self.upper, self.ends, taken, new
        )
        self.recent = np.concatenate([new[:n_new], stay])
        return np.flatnonzero(taken), gap


@jit
def choose_worst(slopes, coefs, lower, upper, ends, taken, chosen):
    """Choose variables that violate optimality most, which are then marked as taken.

    Of each group as many of those that can rise as of those that can fall, if there are; how many
    there are and the gap are returned.
    """
    room = chosen.size // (2 * ends.size)
    n_chosen, gap, begin = 0, 0.0, 0
    values = np.empty(slopes.size)
    for end in ends:
        lowest, highest = find_edges(
            slopes[begin:end], coefs[begin:end], lower[begin:end], upper[begin:end]
        )
        gap = max(gap, highest - lowest)
        own = values[: end - begin]
        for sign in (1.0, -1.0):
            for k in range(own.size):
                i = begin + k
                can = coefs[i] < upper[i] if sign > 0.0 else coefs[i] > lower[i]
                own[k] = sign * slopes[i] if can and not taken[i] else HUGE
            # fewer than there is room for are below the first, and as many below the second
            few = lowest if sign > 0.0 else -highest
            many = highest if sign > 0.0 else -lowest
            for _ in range(_HALVINGS):
                middle = 0.5 * (few + many)
                below = 0
                for k in range(own.size):
                    below += own[k] < middle
                if below < room:
                    few = middle
                else:
                    many = middle
            left = room
            for limit in (few, many):
                for k in range(own.size):
                    if left and own[k] < limit and not taken[begin + k]:
                        taken[begin + k] = True
                        chosen[n_chosen] = begin + k
                        n_chosen += 1
                        left -= 1
        begin = int(end)
    return n_chosen, gap
