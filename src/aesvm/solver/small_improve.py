"""Small duals (``small``) improved: with all variables at once, or with working sets.

The kernel values of a dual of some hundred variables are all at hand, and pair updates run over all
of them: many such duals take one call of compiled code. Of a dual of more, few rows of the
kernel matrix are ever needed. Its variables that violate optimality most are solved for
on their own, and the rows of those that moved are computed, and kept until the end. There scores
are computed anew from the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.accumulate import add_rows
from aesvm.runtime.jit import jit
from aesvm.solver.pair_updates import update_pairs
from aesvm.solver.small import SAME_SUM, Array, Improve, PairVariables
from aesvm.solver.working_set import INNER, Edge, choose, possible_moves

#: Variables of a working set.
WORKING_SET = 256

#: Scores that are computed anew differ by less, as a share of the violation aimed at.
ANEW = 1e-3


class Blocks(NamedTuple):
    """Kernel values of two groups of classes."""

    first: Array
    cross: Array
    second: Array


def improve_by_blocks(
    blocks: Blocks, places: NDArray[np.intp], apart: bool, values: Array
) -> Improve:
    """Improve duals whose kernel values are those of two groups of classes.

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

    def improve(v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        updates = np.empty(len(active), dtype=np.intp)
        _improve_by_blocks(
            *blocks, places, v.sizes, v.classes, active, np.empty(2 if apart else 1, dtype=np.intp),
            v.held, v.linear, v.diag, v.lower, v.upper, aims, most, values, v.coefs, v.slopes,
            updates,
        )  # fmt: skip
        return updates

    return improve


@jit
def _improve_by_blocks(
    first,
    cross,
    second,
    places,
    sizes,
    classes,
    active,
    ends,
    held,
    linear,
    diag,
    lower,
    upper,
    aims,
    most,
    values,
    coefs,
    slopes,
    updates,
):
    for a in range(active.size):
        number = active[a]
        n_first, start = sizes[number, 0], classes[2 * number]
        n = n_first + sizes[number, 1]
        K, own, at = values[: n * n].reshape(n, n), coefs[start:][:n], slopes[start:][:n]
        low, high = lower[start:][:n], upper[start:][:n]
        ends[0], ends[-1] = n_first, n
        _put_together(first, cross, second, places[number, 0], places[number, 1], n_first, K)
        for is_last in range(2):
            balance(own, low, high, n_first, held[number])
            _add_up(K, own, linear[start], n_first, at)
            if not is_last:
                updates[a] = update_pairs(
                    K, diag[start:][:n], own, at, low, high, ends, 0.5 * aims[a], most[a]
                )


@jit
def balance(coefs, lower, upper, n_first, held):
    """Move the sums of classes, which rounding has moved, back to what is held."""
    above = below = 0.0
    for i in range(n_first):
        above += coefs[i]
    for i in range(n_first, coefs.size):
        below -= coefs[i]
    wanted = held if held > 0.0 else min(above, below)
    for i in range(coefs.size):
        reached = above if i < n_first else below
        if reached > 0.0 and abs(reached - wanted) > SAME_SUM * reached:
            coefs[i] = min(max(coefs[i] * (wanted / reached), lower[i]), upper[i])


@jit
def _put_together(first, cross, second, begin, other, n_first, K):
    """The matrix of a pair, from the blocks of its groups."""
    for i in range(K.shape[0]):
        for k in range(i + 1):
            if i < n_first:
                value = first[begin + i, begin + k]
            elif k < n_first:
                value = cross[begin + k, other + i - n_first]
            else:
                value = second[other + i - n_first, other + k - n_first]
            K[i, k] = K[k, i] = value


@jit
def _add_up(K, coefs, linear, n_first, slopes):
    """``slopes = K coefs +- linear``, the latter by class."""
    for k in range(slopes.size):
        slopes[k] = linear if k < n_first else -linear
    for i in range(coefs.size):
        if coefs[i] != 0.0:
            row, coef = K[i], coefs[i]
            for k in range(slopes.size):
                slopes[k] += coef * row[k]


class Lines(NamedTuple):
    """What computes kernel values of a dual, into arrays."""

    rows: Callable[[NDArray[np.intp], Array], None]  #: of some variables, with all
    square: Callable[[NDArray[np.intp], Array], None]  #: of some variables, with each other


def improve_by_working_sets(lines: Callable[[int], Lines], apart: bool, values: Array) -> Improve:
    """Improve duals whose kernel values are computed as they are needed.

    Parameters
    ----------
    lines : callable
        Takes the number of a dual to its ``Lines``.
    apart : bool
        Whether the sum of each class is held.
    values : ndarray
        Room for the largest matrix of a dual.
    """

    def improve(v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        updates = np.zeros(len(active), dtype=np.intp)
        for a, number in enumerate(active.tolist()):
            one = _WorkingSets(v, number, lines(number), apart, values)
            updates[a] = one.solve(aims[a], int(most[a]))
        return updates

    return improve


class _WorkingSets:
    """One dual."""

    def __init__(
        self, v: PairVariables, number: int, lines: Lines, apart: bool, values: Array
    ) -> None:
        start, n_first, n = v.classes[2 * number], v.sizes[number, 0], v.sizes[number].sum()
        own = slice(start, start + n)
        self.coefs, self.slopes, self.linear = v.coefs[own], v.slopes[own], v.linear[own]
        self.lower, self.upper, self.diag = v.lower[own], v.upper[own], v.diag[own]
        self.held, self.n_first = v.held[number], n_first
        self.parts = [slice(0, n_first), slice(n_first, n)] if apart else [slice(0, n)]
        self.lines = lines
        self.kept = values[: n * n].reshape(n, n)
        self.slots: NDArray[np.intp] = np.full(n, -1)
        self.n_kept = 0
        self.recent = np.empty(0, dtype=np.intp)

    def solve(self, aim: float, most: int) -> int:
        """Pair updates made."""
        updates = 0
        block = np.empty(WORKING_SET**2)
        self._anew()
        while True:
            moves = possible_moves(self.coefs, self.lower, self.upper)
            edges = [Edge.of(part, self.slopes, moves) for part in self.parts]
            violation = max(edge.violation for edge in edges)
            if violation <= (1.0 - ANEW) * aim or updates >= most:
                break
            self.recent = choose(self.slopes, moves, edges, self.recent, WORKING_SET)
            chosen = np.sort(self.recent)
            n = len(chosen)
            K = block[: n * n].reshape(n, n)
            self.lines.square(chosen, K)
            before = self.coefs[chosen]
            coefs, slopes = before.copy(), self.slopes[chosen]
            done = update_pairs(
                K,
                self.diag[chosen],
                coefs,
                slopes,
                self.lower[chosen],
                self.upper[chosen],
                np.searchsorted(chosen, [part.stop for part in self.parts]),
                max(0.5 * aim, INNER * violation),
                most - updates,
            )
            if done == 0:
                break
            updates += done
            self.coefs[chosen] = coefs
            changes = coefs - before
            moved = np.flatnonzero(changes)
            self._add(chosen[moved], changes[moved])
        balance(self.coefs, self.lower, self.upper, self.n_first, self.held)
        self._anew()
        return updates

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
