"""Approximate extreme points of one subset: the paper's DeriveAE, with a bound that holds.

The subset's rows are known through their Gram block ``K`` alone. A set ``S`` of
representatives is wanted such that every row lies within ``tol`` of their convex hull in
kernel space,

    f(i, S) = min_mu  K_ii - 2 sum_t mu_t K_it + sum_ts mu_t mu_s K_ts  <=  tol,
              mu >= 0,  sum_t mu_t = 1,  t, s in S,

together with one feasible ``mu`` per row. The phases, by the paper's steps:

sphere (1, 2)  the hard-margin SVDD (smallest enclosing ball) gives the first
               representatives and the order, farthest from its centre first;
absorb (3)     CheckPoint on each row in that order: a row outside the hull joins;
prune (4)      CheckPoint on each joined row against the others; a row inside leaves, and
               is gone for the rows checked after it;
cover (5, 6)   a row whose combination used a row that left is checked again, and joins if it is
               now outside. The paper leaves such rows beyond ``tol``; here none is.

CheckPoint moves weight between two representatives at a time (pairwise Frank-Wolfe with
exact steps) and stops as soon as either answer is certain. With ``v = z_i - u`` the
current residual vector, ``p = |v|^2`` bounds f from above, and the hyperplane normal to
``v`` bounds it from below:

    f >= max(0, <v, z_i> - max_t <v, z_t>)^2 / p.

Any feasible ``mu`` with ``p <= tol`` serves the paper's theorems, so the first one is kept.

Where ``tol`` allows it the search runs in single precision, which halves the memory that every move
reads. Its results are checked: a combination is accepted when its residual, computed anew from the
Gram block in double precision, is within ``tol``.

``Workspace`` is the memory of the search. The members are the rows that represent so far, with
their own Gram block, in its precision. The ledger has, for every row checked, the combination that
was reached.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import first_at, inlined, jit, minimum
from aesvm.sets.ball import enclosing_ball

#: Vectors over the members are padded to a multiple of this.
LANE = 32

# Rows times members that one jitted call may look at: a tenth of a second's work. An
# interrupt is answered between calls; a subset of a thousand rows is done in one.
_BUDGET = 4_000_000

#: CheckPoint answers "outside", which is always safe, after this number of moves, or when the way
# left is this multiple of the last move's gain. Rows are absorbed impatiently: most of those
# inside are found so within five moves, and what joins without need is pruned later.
ABSORB_MOVES, ABSORB_PATIENCE = 25, 10.0
CHECK_MOVES, CHECK_PATIENCE = 100, 1e30

# The phases in order, and what a call that makes them answers.
_SEED, _ABSORB, _PRUNE, _COVER, _PHASES = range(5)
_DONE, _PAUSED, _BLOCK_FULL, _LEDGER_FULL = range(4)

# The search is in single precision where tol is this many of its roundings.
_ROUNDINGS = 1000
_SINGLE_EPS = float(np.finfo(np.float32).eps)

# Out of reach of any gradient; finite, since the jitted code assumes finite numbers.
_FAR = 1e30

# Smallest squared distance of two members that the choice of a target distinguishes.
_TINY = 1e-12


class Hull(NamedTuple):
    """Representatives of a subset, by position in it, and how each row leans on them."""

    selected: NDArray[np.intp]  #: representatives, ascending
    indptr: NDArray[np.intp]  #: row i leans on indices[indptr[i]:indptr[i + 1]]
    indices: NDArray[np.intp]  #: positions in the subset, each of them selected
    coefs: NDArray[np.float64]  #: convex weights, summing to one over each row
    residuals: NDArray[np.float64]  #: squared distance of each row to its combination


def approximate_extreme_points(
    gram: NDArray, tol: float, workspace: Workspace | None = None
) -> Hull:
    """Select rows whose convex hull in kernel space is within ``tol`` of every row.

    ``gram``: the kernel matrix of the subset, float32 or float64, C-contiguous and symmetric;
    ``tol``: the largest squared distance allowed between a row and its convex combination.

    Examples
    --------
    Of five points on a line, the two ends span the rest:

    >>> import numpy as np
    >>> from aesvm.sets.hull import approximate_extreme_points
    >>> x = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])
    >>> hull = approximate_extreme_points(x @ x.T, tol=1e-9)
    >>> hull.selected
    array([0, 4])
    >>> hull.coefs[hull.indptr[2] : hull.indptr[3]]
    array([0.5, 0.5])
    """
    center, distances = enclosing_ball(gram)
    order = np.argsort(-distances, kind="stable")
    workspace = Workspace() if workspace is None else workspace
    workspace.fit(len(gram), _search_precision(gram, tol))
    progress = np.zeros(3, dtype=np.intp)
    while True:
        members, ledger, scratch = workspace.members, workspace.ledger, workspace.scratch
        answer = _derive(gram, order, center, members, ledger, scratch, progress, tol, _BUDGET)
        if answer == _DONE:
            return _hull(len(gram), members, ledger, int(progress[2]))
        if answer == _BLOCK_FULL:
            workspace.enlarge_block()
        elif answer == _LEDGER_FULL:
            workspace.lengthen_ledger()


def _search_precision(gram: NDArray, tol: float) -> np.dtype:
    single = tol >= _ROUNDINGS * _SINGLE_EPS * _largest_diagonal(gram)
    return np.dtype(np.float32) if single else gram.dtype


def _hull(n: int, members: Members, ledger: Ledger, entries: int) -> Hull:
    hull = Hull(
        selected=np.empty(members.size[0], dtype=np.intp),
        indptr=np.empty(n + 1, dtype=np.intp),
        indices=np.empty(entries, dtype=np.intp),
        coefs=np.empty(entries),
        residuals=np.empty(n),
    )
    _write_out(members, ledger, *hull)
    return hull


@jit
def _derive(gram, order, center, members, ledger, scratch, progress, tol, budget):
    """All phases, from where ``progress`` (phase, position in ``order``) says.

    Returns when done, when the budget is spent, or when there is no room for the next row.
    When done, ``progress[2]`` is the number of entries in all combinations.
    """
    # unpacked once: each use of a tuple's array counts a reference to it, with a locked bus
    packed, diag, rows, place, count, work = members
    start, length, leans_on, coefs, reached, used = ledger
    mu, support = scratch
    g, gains = work[0], work[1]
    if progress[0] == _SEED and progress[1] == 0:
        for i in range(order.size):
            place[i] = -1
        count[0] = 0
        used[0] = 0
    spent = 0
    while progress[0] < _PHASES:
        phase = progress[0]
        while progress[1] < order.size:
            if spent > budget:
                return _PAUSED
            if count[0] + 1 >= packed.shape[0]:
                return _BLOCK_FULL
            if used[0] + count[0] > leans_on.size:
                return _LEDGER_FULL
            i = order[progress[1]]
            progress[1] += 1
            if center[i] > 0.0:  # on the sphere: there from the start, and never asked
                if phase == _SEED:
                    join(gram, packed, diag, rows, place, count, i)
                continue
            if phase == _SEED or (phase == _PRUNE) != (place[i] >= 0):
                continue
            size = np.intp(0)  # no literal: _check would be compiled for that, too
            if phase != _ABSORB:
                size, intact = recall(place, start, length, leans_on, coefs, mu, support, i)
                if intact and phase != _PRUNE:
                    continue
            spent += count[0]
            moves, patience = CHECK_MOVES, CHECK_PATIENCE
            if phase == _ABSORB:
                moves, patience = ABSORB_MOVES, ABSORB_PATIENCE
            size, inside, p = _check(
                gram, packed, diag, rows, g, gains, mu, support, size, count[0], i, place[i], tol,
                moves, patience,
            )  # fmt: skip
            if inside or phase == _ABSORB:
                record(rows, start, length, leans_on, coefs, used, mu, support, size, i)
                reached[i] = p
            if inside and phase == _PRUNE:
                leave(packed, diag, rows, place, count, i)
            elif not inside and phase != _PRUNE:
                join(gram, packed, diag, rows, place, count, i)
        progress[0] += 1
        progress[1] = 0
    progress[2] = 0
    for i in range(order.size):
        progress[2] += 1 if place[i] >= 0 else length[i]
    return _DONE


@jit
def _check(
    gram, packed, diag, rows, g, gains, mu, support, size, m, i, at, tol, moves, patience
):  # fmt: skip
    """CheckPoint: is row i within tol of the hull of the ``m`` members other than itself?

    On entry ``mu`` and ``support`` hold a combination of ``size`` members to start from (none:
    start at the nearest member); on return the one reached after at most ``moves`` moves. ``at`` is
    the row's own place among the members, or negative. In ``g`` is half the
    gradient, sum_s mu_s K_ts - K_it. Returns the size, the answer, and the residual: where the
    answer is yes, as it was computed afresh.
    """
    real = g.dtype.type
    lanes = (m + LANE - 1) // LANE * LANE
    nowhere = packed.shape[0] - 1
    inside = False
    p = 0.0
    if size > 0:
        p = _residual(gram, packed, rows, mu, support, size, i)
        inside = p <= tol
    # One way out: with several, Numba counts references to all arrays, with a locked bus.
    if not inside:
        if at >= 0:
            for t in range(m):
                g[t] = -packed[at, t]
            g[at] = real(_FAR)
        else:
            for t in range(m):
                g[t] = -gram[i, np.uint64(rows[t])]
        for t in range(m, lanes):
            g[t] = real(_FAR)
        # The start is a move too: from nowhere to the nearest member, or none at all.
        step = 0.0
        target = source = nowhere
        if size == 0:
            target = _nearest(g, diag, gains, lanes)
            if g[target] >= 0.5 * _FAR:
                moves = 0
            else:
                size = _add(mu, support, size, target, 1.0)
                step = 1.0
                p = _residual(gram, packed, rows, mu, support, size, i)
        else:
            for a in range(size):
                _add_row(g, packed, support[a], real(mu[support[a]]), m)
        dot = 0.0  # <z_i, u>
        for a in range(size):
            dot += mu[support[a]] * gram[i, rows[support[a]]]

        for _ in range(moves):
            # The gradient on the support alone tells where weight is next taken from; one pass
            # then moves the whole gradient and finds where that weight should go.
            high = 0
            top = -_FAR
            for a in range(size):
                s = support[a]
                slope = g[s] + step * (packed[target, s] - packed[source, s])
                if slope > top:
                    top = slope
                    high = a
            least, target = _shift(
                g, gains, packed, diag, lanes, step, target, source, top, support[high]
            )
            source = support[high]
            if p <= tol:
                p = _residual(gram, packed, rows, mu, support, size, i)
                if p <= tol:
                    inside = True
                    break
            reach = np.float64(gram[i, i]) - dot + least  # <v, z_i> - max_t <v, z_t>
            if reach > 0.0 and reach * reach > tol * p:
                break
            slope = np.float64(g[source]) - np.float64(g[target])
            curvature = np.float64(diag[source]) + np.float64(diag[target])
            curvature -= 2.0 * packed[source, target]
            step = mu[source]
            if slope < step * curvature:
                step = slope / curvature
            gain = step * (2.0 * slope - step * curvature)
            if slope <= 0.0 or gain <= 1e-9 * p or p - tol > patience * gain:
                break
            p -= gain
            dot += step * (np.float64(gram[i, rows[target]]) - np.float64(gram[i, rows[source]]))
            size = _add(mu, support, size, target, step)
            if step == mu[source]:
                size -= 1
                support[high] = support[size]
            else:
                mu[source] -= step
    return size, inside, p


@jit
def _add(mu, support, size, t, weight):
    for a in range(size):
        if support[a] == t:
            mu[t] += weight
            return size
    support[size] = t
    mu[t] = weight
    return size + 1


@inlined
def _add_row(g, packed, s, weight, m):
    for t in range(m):
        g[t] += weight * packed[s, t]


@jit
def _residual(gram, packed, rows, mu, support, size, i):
    """Squared distance of row i to its combination, from the Gram block itself.

    Where the members' own block has its very values, they are read from there.
    """
    same = packed.itemsize == gram.itemsize
    p = np.float64(gram[i, i])
    for a in range(size):
        s = support[a]
        row = rows[s]
        cross = -2.0 * gram[i, row]
        for b in range(a):
            t = support[b]
            k = np.float64(packed[s, t]) if same else np.float64(gram[row, rows[t]])
            cross += 2.0 * mu[t] * k
        k = np.float64(packed[s, s]) if same else np.float64(gram[row, row])
        p += mu[s] * (cross + mu[s] * k)
    return p


@inlined
def _nearest(g, diag, distance, lanes):
    """The member nearest to the row: where diag / 2 - K_it is least (g is -K_it)."""
    half = g.dtype.type(0.5)
    least = g.dtype.type(2.0 * _FAR)
    for t in range(lanes):
        distance[t] = half * diag[t] + g[t]
        least = minimum(least, distance[t])
    return first_at(distance, lanes, least)


@inlined
def _shift(g, gain, packed, diag, lanes, step, to, from_, top, source):
    """Move g for a step of weight between two members, and choose the next target.

    Returns the least g, and the member to which moving weight from the next source (whose
    g will be ``top``) lowers the residual most: (g_s - g_t)^2 / |z_s - z_t|^2 is largest.
    """
    real = g.dtype.type
    move, top, source_diag = real(step), real(top), diag[source]
    zero, two, tiny = real(0.0), real(2.0), real(_TINY)
    least = real(_FAR)
    best = zero
    for t in range(lanes):
        g[t] += move * (packed[to, t] - packed[from_, t])
        least = minimum(least, g[t])
        slope = minimum(g[t] - top, zero)
        curvature = minimum(two * packed[source, t] - diag[t] - source_diag, -tiny)
        gain[t] = slope * slope / curvature
        best = minimum(best, gain[t])
    return least, first_at(gain, lanes, best)


@jit
def _largest_diagonal(gram):
    largest = 0.0
    for i in range(gram.shape[0]):
        largest = max(largest, abs(gram[i, i]))
    return largest


@jit
def _write_out(members, ledger, selected, indptr, indices, coefs, residuals):
    """Copy the combinations out, normalised."""
    place = members.place
    start, length, leans_on, entries, reached, _ = ledger
    at = 0
    found = 0
    for i in range(residuals.size):
        indptr[i] = at
        if place[i] >= 0:
            selected[found] = i
            indices[at] = i
            coefs[at] = 1.0
            residuals[i] = 0.0
            found += 1
            at += 1
            continue
        total = 0.0
        for e in range(start[i], start[i] + length[i]):
            total += entries[e]
        for e in range(start[i], start[i] + length[i]):
            indices[at] = leans_on[e]
            coefs[at] = entries[e] / total
            at += 1
        residuals[i] = reached[i]
    indptr[residuals.size] = at


class Members(NamedTuple):
    """The rows that represent, and their Gram block."""

    packed: NDArray  # Gram block of the members; its last row is zero
    diag: NDArray  # its diagonal
    rows: NDArray[np.intp]  # the members, in its order
    place: NDArray[np.intp]  # of every row among them, -1 for those that are not
    size: NDArray[np.intp]  # how many there are, in an array of one
    work: NDArray  # two vectors over the members


class Ledger(NamedTuple):
    """For every row checked, the combination reached."""

    start: NDArray[np.intp]  # row i: entries start[i] to start[i] + length[i]
    length: NDArray[np.intp]
    rows: NDArray[np.intp]
    coefs: NDArray[np.float64]
    residuals: NDArray[np.float64]  # squared distance of every row to its combination
    used: NDArray[np.intp]  # entries, in an array of one


class Scratch(NamedTuple):
    """The combination being worked on: members ``support``, their weights in ``mu``."""

    mu: NDArray[np.float64]
    support: NDArray[np.intp]


class Workspace:
    """Memory for one subset after another, grown as they need it. One thread's, not shared."""

    members: Members
    ledger: Ledger
    scratch: Scratch

    def __init__(self) -> None:
        self.rows = 0

    def fit(self, n: int, dtype: np.dtype) -> None:
        """Have room for a subset of n rows, searched in the given precision."""
        if n > self.rows or dtype != self.members.packed.dtype:
            self.rows = n
            padded = -(-n // LANE) * LANE
            self.members = Members(
                packed=empty_block(min(padded, 10 * LANE), dtype),
                diag=np.ones(padded, dtype=dtype),
                rows=np.empty(n, dtype=np.intp),
                place=np.empty(n, dtype=np.intp),
                size=np.zeros(1, dtype=np.intp),
                work=np.empty((2, padded), dtype=dtype),
            )
            self.ledger = Ledger(
                start=np.empty(n, dtype=np.intp),
                length=np.empty(n, dtype=np.intp),
                rows=np.empty(16 * n, dtype=np.intp),
                coefs=np.empty(16 * n),
                residuals=np.empty(n),
                used=np.zeros(1, dtype=np.intp),
            )
            self.scratch = Scratch(np.empty(n), np.empty(n, dtype=np.intp))

    def enlarge_block(self) -> None:
        old = self.members.packed
        size = self.members.size[0]
        packed = empty_block(-(-3 * size // (2 * LANE)) * LANE, old.dtype)
        packed[:size, :size] = old[:size, :size]
        self.members = self.members._replace(packed=packed)

    def lengthen_ledger(self) -> None:
        ledger = self.ledger
        self.ledger = ledger._replace(
            rows=np.concatenate([ledger.rows, np.empty_like(ledger.rows)]),
            coefs=np.concatenate([ledger.coefs, np.empty_like(ledger.coefs)]),
        )


def empty_block(side: int, dtype: np.dtype) -> NDArray:
    """Room for the Gram block of ``side`` members: compact, it stays in cache.

    Eight more columns, since at a stride of a power of two rows would evict each other. One
    more row, of zeros: the place from which a combination is started.
    """
    return np.zeros((side + 1, side + 8), dtype=dtype)


@jit
def join(gram, packed, diag, rows, place, count, i):
    last = count[0]
    for t in range(last):
        k = gram[i, rows[t]]
        packed[last, t] = k
        packed[t, last] = k
    packed[last, last] = gram[i, i]
    diag[last] = gram[i, i]
    rows[last] = i
    place[i] = last
    count[0] = last + 1


@inlined
def leave(packed, diag, rows, place, count, i):
    """The last member takes the place of the one that leaves."""
    last = count[0] - 1
    at = place[i]
    for t in range(last + 1):
        packed[at, t] = packed[last, t]
    for t in range(last + 1):
        packed[t, at] = packed[t, last]
    diag[at] = diag[last]
    rows[at] = rows[last]
    place[rows[at]] = at
    place[i] = -1
    count[0] = last


@inlined
def record(rows, start, length, leans_on, coefs, used, mu, support, size, i):
    first = used[0]
    start[i] = first
    length[i] = size
    for a in range(size):
        leans_on[first + a] = rows[support[a]]
        coefs[first + a] = mu[support[a]]
    used[0] = first + size


@inlined
def recall(place, start, length, leans_on, coefs, mu, support, i):
    """Row i's recorded combination, without the rows that have left: size, and if intact."""
    size = 0
    total = 0.0
    for e in range(start[i], start[i] + length[i]):
        t = place[leans_on[e]]
        if t >= 0:
            support[size] = t
            mu[t] = coefs[e]
            total += coefs[e]
            size += 1
    for a in range(size):
        mu[support[a]] /= total
    return size, size == length[i]
