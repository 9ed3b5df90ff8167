"""The set of rows that an online SVM keeps, and the steps made on it.

    maximise   sum_i y_i a_i - 1/2 a'Ka,   sum_i a_i = 0,   0 <= y_i a_i <= C

Only a set S of rows has coefficients, and their gradients ``g_s = y_s - sum_t a_t K_st`` are
kept. A pair (i, j) violates optimality where ``a_i`` can rise, ``a_j`` can fall and ``g_i - g_j``
is over the tolerance; a step moves both by as much. PROCESS takes a new row into S and makes a
step with its most violating partner. REPROCESS makes a step with the most violating pair of S;
rows with ``a = 0`` that violate with no other then leave.

Rows are met in batches: their kernel values with S are one block, and the steps, which depend on
each other, run in one jitted call on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit, minimum
from aesvm.solver.pair_updates import HUGE
from experiments.rivals.base import Pair
from experiments.rivals.growing_gram import GrowingGram

#: Rows of each class that S begins with.
_SEEDS = 5

#: Most rows of a batch.
_BATCH = 256

#: Gradients that are moved before an interrupt is heard: a fraction of a second.
_MOVED = 100_000_000


class _Members(NamedTuple):
    """What is known of each member of S; one that has left has no room between its bounds."""

    coefs: NDArray[np.float64]
    gradients: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    no_rise: NDArray[np.float64]  #: zero where the coefficient can rise, otherwise HUGE
    no_fall: NDArray[np.float64]


class CurrentSet(GrowingGram):
    """The set S of a pair of classes, and the steps made on it.

    Members that leave stay as dead slots until there are many.

    Attributes
    ----------
    state : ndarray of shape (6, capacity)
        The fields of ``_Members``; the first ``n`` columns count.
    account : ndarray of shape (4,)
        Offset, gap, steps made, dead slots.
    """

    def __init__(self, pair: Pair, C: float, tol: float) -> None:
        super().__init__(pair.kernel)
        self.pair, self.C, self.tol = pair, C, tol
        self.state = np.zeros((len(_Members._fields), len(self.rows)))
        of_class = [np.flatnonzero(pair.signs == sign) for sign in (1.0, -1.0)]
        seeds = np.concatenate([pair.random.permutation(rows)[:_SEEDS] for rows in of_class])
        self.extend(pair.rows[seeds])
        for slot, sign in enumerate(pair.signs[seeds]):
            _enter(_Members(*self.state), slot, sign, sign, C)
        self.account = np.array([0.0, 2.0, 0.0, 0.0])  # gradients are the signs so far

    @property
    def offset(self) -> float:
        return float(self.account[0])

    @property
    def gap(self) -> float:
        return float(self.account[1])

    @property
    def n_steps(self) -> int:
        return int(self.account[2])

    def alive(self) -> NDArray[np.intp]:
        """Slots of the members that have not left."""
        members = _Members(*self.state[:, : self.n])
        return np.flatnonzero(members.lower < members.upper)

    def coefs(self) -> NDArray[np.float64]:
        """A coefficient for each row of the pair."""
        coefs = np.zeros(len(self.pair.rows))
        alive = self.alive()
        coefs[self._places(alive)] = self.state[0, alive]
        return coefs

    def meet_all(self) -> Iterator[float]:
        """PROCESS and REPROCESS for every row outside; yields the part of them met so far."""
        outside = np.ones(len(self.pair.rows), dtype=bool)
        outside[self._places(self.alive())] = False
        order = self.pair.random.permutation(np.flatnonzero(outside))
        for start in range(0, len(order), _BATCH):
            self.meet(order[start : start + _BATCH])
            yield min(1.0, (start + _BATCH) / len(order))

    def meet(self, batch: NDArray[np.intp]) -> None:
        """PROCESS and REPROCESS for some rows of the pair, one after another."""
        rows = self.pair.rows[batch]
        if self.n + len(rows) > len(self.rows):
            self._make_room(self.n + len(rows))
        entered = np.empty(len(rows), dtype=np.intp)
        n_entered = _meet(
            self.values,
            _Members(*self.state),
            self.n,
            self.against(rows),
            self.kernel.square(rows),
            self.pair.signs[batch],
            self.C,
            self.tol,
            entered,
            self.account,
        )
        self.rows[self.n : self.n + n_entered] = rows[entered[:n_entered]]
        self.n += n_entered
        self._merge()
        self._compact()

    def finish(self, limit: int) -> Iterator[None]:
        """REPROCESS until the gap is closed; yields now and then."""
        last = self.n_steps + limit
        while self.gap > self.tol and self.n_steps < last:
            steps = min(last - self.n_steps, max(1, _MOVED // self.n))
            _finish(self.values, _Members(*self.state), self.n, self.tol, steps, self.account)
            self._compact()
            yield

    def prune(self) -> None:
        """Coefficients that hardly count are made zero."""
        coefs = self.state[0, : self.n]
        small = np.flatnonzero((coefs != 0.0) & (np.abs(coefs) < 1e-3 * np.abs(coefs).max()))
        moved = self.values[: self.n, small] @ coefs[small]
        if np.abs(moved).max(initial=0.0) <= self.tol:
            coefs[small] = 0.0

    def keep(self, positions: NDArray[np.intp]) -> None:
        self.state[:, : len(positions)] = self.state[:, positions]
        super().keep(positions)

    def _compact(self) -> None:
        if self.account[3] >= 64 + self.n // 8:
            self.keep(self.alive())
            self.account[3] = 0

    def _places(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where the members in these slots are among the rows of the pair."""
        return np.searchsorted(self.pair.rows, self.rows[slots])

    def _make_room(self, n: int) -> None:
        super()._make_room(n)
        state = self.state
        self.state = np.zeros((len(state), len(self.rows)))
        self.state[:, : self.n] = state[:, : self.n]


@jit
def _meet(K, members, n, block, square, signs, C, tol, entered, account):
    """PROCESS and REPROCESS for every row of a batch.

    ``block`` holds the kernel values of the batch with the n members, ``square`` with itself.
    Returns how many have entered; their positions in the batch are in ``entered``.
    """
    before, n_entered = n, 0
    coefs, later = members.coefs[:n], members.coefs[n:]
    for k in range(signs.size):
        line, sign = block[k], signs[k]
        gradient = sign
        for s in range(before):
            gradient -= np.float64(line[s]) * coefs[s]
        for t in range(n_entered):
            gradient -= np.float64(square[k, entered[t]]) * later[t]
        i, j = _most_violating(members, n)
        partner = j if sign > 0.0 else i
        violation = HUGE if partner < 0 else sign * (gradient - members.gradients[partner])
        if violation <= 0.0:
            _reprocess(K, members, n, tol, account)
            continue
        for s in range(before):
            K[n, s] = K[s, n] = line[s]
        for t in range(n_entered):
            K[n, before + t] = K[before + t, n] = square[k, entered[t]]
        K[n, n] = square[k, k]
        _enter(members, n, sign, gradient, C)
        entered[n_entered] = k
        n_entered += 1
        n += 1
        if partner >= 0 and violation > tol:
            i, j = (n - 1, partner) if sign > 0.0 else (partner, n - 1)
            _step(K, members, n, i, j, account)
        _reprocess(K, members, n, tol, account)
    return n_entered


@jit
def _enter(members, slot, sign, gradient, C):
    members.coefs[slot] = 0.0
    members.gradients[slot] = gradient
    members.lower[slot] = min(0.0, C * sign)
    members.upper[slot] = max(0.0, C * sign)
    members.no_rise[slot] = 0.0 if sign > 0.0 else HUGE
    members.no_fall[slot] = 0.0 if sign < 0.0 else HUGE


@jit
def _finish(K, members, n, tol, limit, account):
    for _ in range(limit):
        _reprocess(K, members, n, tol, account)
        if account[1] <= tol:
            break


@jit
def _reprocess(K, members, n, tol, account):
    """A step where a pair violates, and those leave that then cannot."""
    gradients, lower, upper = members.gradients, members.lower, members.upper
    i, j = _most_violating(members, n)
    if i >= 0 and j >= 0 and gradients[i] - gradients[j] > tol:
        _step(K, members, n, i, j, account)
        i, j = _most_violating(members, n)
        for s in range(n):
            if members.coefs[s] == 0.0 and lower[s] < upper[s] and i >= 0 and j >= 0:
                positive = upper[s] > 0.0
                if gradients[s] <= gradients[j] if positive else gradients[s] >= gradients[i]:
                    lower[s] = upper[s] = 0.0
                    members.no_rise[s] = members.no_fall[s] = HUGE
                    account[3] += 1
    account[1] = 0.0
    if i >= 0 and j >= 0:
        account[0] = 0.5 * (gradients[i] + gradients[j])
        account[1] = gradients[i] - gradients[j]


@jit
def _most_violating(members, n):
    """The member of the largest gradient that can rise, and of the smallest that can fall.

    -1 stands for none.
    """
    gradients, no_rise, no_fall = members.gradients, members.no_rise, members.no_fall
    top, bottom, at_top, at_bottom = HUGE, HUGE, 0, 0
    # in chunks: to find a minimum vectorises, to find its place does not
    for c in range(0, n, 64):
        here = gradients[c : min(c + 64, n)]
        rise, fall = no_rise[c : c + here.size], no_fall[c : c + here.size]
        high, low = HUGE, HUGE
        for k in range(here.size):
            high = minimum(high, rise[k] - here[k])
            low = minimum(low, fall[k] + here[k])
        if high < top:
            top, at_top = high, c
        if low < bottom:
            bottom, at_bottom = low, c
    i, j = -1, -1
    for k in range(min(at_top + 64, n) - 1, at_top - 1, -1):
        if top < HUGE and no_rise[k] - gradients[k] == top:
            i = k
    for k in range(min(at_bottom + 64, n) - 1, at_bottom - 1, -1):
        if bottom < HUGE and no_fall[k] + gradients[k] == bottom:
            j = k
    return i, j


@jit
def _step(K, members, n, i, j, account):
    """Coefficient i rises and j falls by as much: to the best for both, or to a bound."""
    coefs, lower, upper = members.coefs, members.lower, members.upper
    gradients, one, other = members.gradients[:n], K[i, :n], K[j, :n]
    k_ii, k_jj, k_ij = np.float64(one[i]), np.float64(other[j]), np.float64(one[j])
    flat = 1e-12 * (abs(k_ii) + abs(k_jj)) + 1e-300
    step = (gradients[i] - gradients[j]) / max(k_ii + k_jj - 2.0 * k_ij, flat)
    room_i, room_j = upper[i] - coefs[i], coefs[j] - lower[j]
    step = min(step, min(room_i, room_j))
    coefs[i] = upper[i] if step == room_i else min(coefs[i] + step, upper[i])
    coefs[j] = lower[j] if step == room_j else max(coefs[j] - step, lower[j])
    members.no_rise[i] = 0.0 if coefs[i] < upper[i] else HUGE
    members.no_fall[j] = 0.0 if coefs[j] > lower[j] else HUGE
    members.no_fall[i] = members.no_rise[j] = 0.0
    for k in range(n):
        gradients[k] -= step * (np.float64(one[k]) - np.float64(other[k]))
    account[2] += 1
