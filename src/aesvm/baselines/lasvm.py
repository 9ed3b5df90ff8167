"""LASVM: the exact SVM's dual, two variables at a time, while the rows are met one by one.

    maximise   sum_i y_i a_i - 1/2 a'Ka,   sum_i a_i = 0,   0 <= y_i a_i <= C

Only a set S of rows has coefficients, and their gradients ``g_s = y_s - sum_t a_t K_st`` are
kept. A pair (i, j) violates optimality where ``a_i`` can rise, ``a_j`` can fall and ``g_i - g_j``
is over the tolerance; a step moves both by as much. PROCESS takes a new row into S and makes a
step with its most violating partner. REPROCESS makes a step with the most violating pair of S;
rows with ``a = 0`` that violate with no other then leave. Each row met is one of each. When all
have been met, REPROCESS goes on until no pair violates (Bordes, Ertekin, Weston and Bottou 2005).

Rows are met in batches: their kernel values with S are one block, and the steps, which depend on
each other, run in one jitted call on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from aesvm.baselines.base import CACHE_CONSTRAINTS, Expansion, Pair, PairwiseSVM
from aesvm.baselines.growing_gram import GrowingGram
from aesvm.expansion import scores
from aesvm.jit import jit, minimum
from aesvm.pairs import HUGE

#: Rows of each class that S begins with.
_SEEDS = 5

#: Most rows of a batch, and most where the model selects them.
_BATCH, _SELECTED = 256, 64

#: To get a row ready for kernel values is taken to cost as much as so many of them.
_PER_ROW = 32

#: Progress is reported so often in an epoch.
_REPORTS = 20

#: Gradients that are moved, and kernel values that are copied, before an interrupt is heard: a
#: fraction of a second, even where memory is fresh.
_MOVED, _COPIED = 100_000_000, 10_000_000


class LASVM(PairwiseSVM):
    """The SVM trained online: each row is met once, and support vectors so far are kept.

    Close to the exact SVM, and closer with more epochs.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation, as in SVC: the larger, the less.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
    degree, gamma, coef0 : int, {"scale", "auto"} or float, float
        Parameters of the kernel, as in SVC.
    selection : {"random", "gradient", "active"}, default="random"
        Which row is met next: any; or, of ``n_candidates`` random ones that have not been met,
        the worst classified ("gradient") or the nearest to the decision boundary ("active").
    n_candidates : int, default=50
    epochs : int, default=1
        How often each row is met.
    tol : float, default=1e-3
        Tolerance for stopping, with SVC's meaning, among the rows that are kept.
    max_iter : int, default=-1
        Most steps after the last row was met: 0 leaves the model as it is then, -1 stands for
        ``max(10_000_000, 100 * n_rows)``.
    random_state : int, RandomState instance or None, default=None
        For the order of the rows, and the candidates.
    n_jobs : int, default=None
        Threads of prediction, and of the decision values of candidates.
    verbose : int, default=0
        1 prints a line per pair of classes.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, fit_status_
        As SVC's.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Steps.

    Notes
    -----
    Faithful to the paper in the problem solved, a few rows of each class (five) to begin with,
    PROCESS, REPROCESS and finishing with pairs chosen by first order, and the removal of rows.
    As in the authors' program, coefficients under a thousandth of the largest are dropped; only
    where that moves no decision value in the set by more than ``tol``. It differs in that

    - a row that does not violate never enters the set (in the paper it does, for a moment);
    - up to 64 rows, and a tenth of the set, are selected by one model: candidates of each
      selection are drawn without repetition and ranked before the first of them is met;
    - later epochs meet the rows that are outside the set when they begin.

    On a9a, one epoch of "active" is less accurate than one of "random" (84 % and 85 %), two are
    not: probably since rows far from the boundary are met last, and others that they would have
    kept are gone by then. The authors' program was found to agree with "random" there.

    The kernel matrix of the set is kept: four or eight bytes for each pair of support vectors,
    and a third as much again for rows that have left; room for it grows by halves.

    References
    ----------
    A. Bordes, S. Ertekin, J. Weston, L. Bottou, "Fast Kernel Classifiers with Online and Active
    Learning", Journal of Machine Learning Research 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm.baselines import LASVM
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = LASVM(gamma=1.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **PairwiseSVM._parameter_constraints,
        "selection": [StrOptions({"random", "gradient", "active"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": CACHE_CONSTRAINTS["max_iter"],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        selection: str = "random",
        n_candidates: int = 50,
        epochs: int = 1,
        tol: float = 1e-3,
        max_iter: int = -1,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.selection = selection
        self.n_candidates = n_candidates
        self.epochs = epochs
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _train(self, pair: Pair) -> Expansion:
        current = CurrentSet(pair, self.C, self.tol)
        with pair.progress.task("process", self.epochs * _REPORTS) as progress:
            for _ in range(self.epochs):
                reported = 0
                for part in current.meet_all(self._candidates(pair)):
                    while reported < int(part * _REPORTS):
                        progress.step("rows")
                        reported += 1
        online = current.n_steps
        limit = max(10_000_000, 100 * len(pair.rows)) if self.max_iter < 0 else self.max_iter
        with pair.progress.task("finish", None) as progress:
            for _ in current.finish(limit):
                progress.step("steps")
        current.prune()
        coefs = current.coefs()
        pair.progress.say(
            f"{len(pair.rows)} rows: {np.count_nonzero(coefs)} support vectors, {online} steps "
            f"online, {current.n_steps - online} to finish, gap {current.gap:.2g}"
        )
        return Expansion(coefs, current.offset, current.n_steps, current.gap <= self.tol)

    def _candidates(self, pair: Pair) -> Candidates | None:
        if self.selection == "random" or self.n_candidates == 1:
            return None
        return Candidates(pair, self.n_candidates, self.selection == "gradient")


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

    def meet_all(self, candidates: Candidates | None) -> Iterator[float]:
        """PROCESS and REPROCESS for every row outside; yields the part of them met so far."""
        outside = np.ones(len(self.pair.rows), dtype=bool)
        outside[self._places(self.alive())] = False
        pool = np.flatnonzero(outside)
        left, width = len(pool), 1 if candidates is None else candidates.width
        while left:
            # what a model selects is little beside what makes up the model
            most = _BATCH if candidates is None else min(_SELECTED, self.n // 10)
            n_rows = max(1, min(most, left // width))
            drawn = pool[: min(n_rows * width, left)]
            _draw(pool, left, self.pair.random.random_sample(len(drawn)))
            chosen = np.arange(n_rows)
            if candidates is not None:
                candidates.follow(self.coefs(), drawn, pool[:left])
                chosen = candidates.best(drawn.reshape(n_rows, -1), self.offset)
            self.meet(drawn[chosen])
            left = _discard(pool, left, chosen)
            yield 1.0 - left / len(pool)

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
        n, before = len(positions), self.n
        for first, last in self._slices(n):
            _move_up(self.values, positions, first, last)
        self.values[n:before, :before] = 0.0
        self.values[:n, n:before] = 0.0
        self.rows[:n] = self.rows[positions]
        self.state[:, :n] = self.state[:, positions]
        self.n, self.in_pieces, self.pieces = n, 0, []
        self._merge()

    def _compact(self) -> None:
        if self.account[3] >= 64 + self.n // 8:
            self.keep(self.alive())
            self.account[3] = 0

    def _places(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where the members in these slots are among the rows of the pair."""
        return np.searchsorted(self.pair.rows, self.rows[slots])

    def _make_room(self, n: int) -> None:
        values, state = self.values, self.state
        capacity = max(n, len(self.rows) + len(self.rows) // 2)
        self.rows = np.resize(self.rows, capacity)
        self.state = np.zeros((len(state), capacity))
        self.state[:, : self.n] = state[:, : self.n]
        self.values = np.zeros((capacity, capacity), dtype=values.dtype)
        for first, last in self._slices(self.n):
            self.values[first:last, : self.n] = values[first:last, : self.n]

    def _slices(self, n: int) -> Iterator[tuple[int, int]]:
        """Some of n rows of the kernel matrix at a time: with many members it is gigabytes."""
        step = max(1, _COPIED // max(1, n))
        for first in range(0, n, step):
            yield first, min(first + step, n)


class Candidates:
    """Decision values of rows outside S.

    They are known of a model of the past. What has changed since is added for the rows in
    question; for all, once that has been done so often that it would have paid.
    """

    def __init__(self, pair: Pair, width: int, gradient: bool) -> None:
        self.pair, self.width, self.gradient = pair, width, gradient
        self.known, self.sums, self.coefs = np.zeros((3, len(pair.rows)))
        self.spent = 0

    def follow(
        self, coefs: NDArray[np.float64], drawn: NDArray[np.intp], outside: NDArray[np.intp]
    ) -> None:
        """Bring ``sums``, the decision values without offset, up to date for rows drawn."""
        pair = self.pair
        changes = coefs - self.coefs
        changed = np.flatnonzero(changes)
        price = len(changed) + _PER_ROW
        self.spent += len(drawn) * price
        every = self.spent > len(outside) * price
        rows = outside if every else drawn
        added = scores(pair.kernel, pair.rows[changed], changes[changed], pair.rows[rows], pair.run)
        self.sums[rows] = self.known[rows] + added
        if every:
            self.known[rows] = self.sums[rows]
            self.coefs, self.spent = coefs, 0

    def best(self, drawn: NDArray[np.intp], offset: float) -> NDArray[np.intp]:
        """Of each line of ``drawn`` the one to meet, by its place in all of it."""
        values = self.sums[drawn] + offset
        ranks = self.pair.signs[drawn] * values if self.gradient else np.abs(values)
        return ranks.argmin(axis=1) + np.arange(0, drawn.size, drawn.shape[1])


@jit
def _draw(pool, left, uniform):
    """Random ones of the first ``left`` come first, as many as there are random numbers."""
    for t in range(uniform.size):
        other = t + int(uniform[t] * (left - t))
        pool[t], pool[other] = pool[other], pool[t]


@jit
def _discard(pool, left, chosen):
    """Take those at the given positions, ascending, out of the first ``left``."""
    for t in range(chosen.size - 1, -1, -1):
        left -= 1
        pool[chosen[t]] = pool[left]
    return left


@jit
def _move_up(K, positions, first, last):
    """Rows and columns at ascending positions come first, in place: some of these rows."""
    for r in range(first, last):
        source, target = K[positions[r]], K[r]
        for c in range(positions.size):
            target[c] = source[positions[c]]


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
        if partner >= 0 and sign * (gradient - members.gradients[partner]) > tol:
            for s in range(before):
                K[n, s] = K[s, n] = line[s]
            for t in range(n_entered):
                K[n, before + t] = K[before + t, n] = square[k, entered[t]]
            K[n, n] = square[k, k]
            _enter(members, n, sign, gradient, C)
            i, j = (n, partner) if sign > 0.0 else (partner, n)
            entered[n_entered] = k
            n_entered += 1
            n += 1
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
