"""Shapley values of sums of RBF kernels, by this computer's processor.

For one vector z, one background row b and one row x the game is a product over the players, each
a feature or a group of them: ``v(S) = prod_{j in S} p_j prod_{j not in S} q_j``, with
``p_j = exp(-gamma |x_j - z_j|^2)`` and ``q_j = exp(-gamma |b_j - z_j|^2)``. Its Shapley values are

    phi_j = (p_j - q_j) int_0^1 prod_{l != j} (t p_l + (1 - t) q_l) dt,

and Shapley's interaction index of two players is the same integral with two factors left out,
times ``(p_i - q_i) (p_j - q_j)``. The integrand is a polynomial in t, and ``quadrature`` says how
many nodes are as good as exact. Values of a model are sums over its vectors, with their
coefficients, and means over the background.

Products without one factor are quotients. That is safe: factors below 1e-30 are replaced by 1e-30,
which changes the game by at most 1e-30 for each player, since no factor is above one. A
product that underflows then belongs to a quotient below 1e-270.

Vectors are taken 32 at a time, in lanes. Loops over lanes are vectorised, and what they use stays
in the core's cache. Factors that are the same for x and b are constants of the integral.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.inspection.quadrature import rules_for
from aesvm.kernels.arrays import dense
from aesvm.kernels.blocks import copied_bytes
from aesvm.kernels.exponential import exponential
from aesvm.runtime.jit import jit

#: Vectors that are computed with together.
LANES = 32

#: Factors below this are replaced by it.
LEAST = 1e-30

#: Factors at nodes that a task computes, some tenth of a second; and the rows of a task, at most.
_TASK_FACTORS, _TASK_ROWS = 2e8, 8


class Game(NamedTuple):
    """A sum of RBF kernels, and who plays."""

    vectors: Any  #: array or CSR matrix
    coefs: NDArray[np.float64]  #: (n_vectors, n_outputs)
    gamma: float
    columns: NDArray[np.int64]  #: those of the first player, then of the second, ...
    ends: NDArray[np.int64]  #: where those of each player end

    @property
    def n_players(self) -> int:
        return len(self.ends)


def shapley_products(
    game: Game,
    X: Any,
    background: Any,
    interactions: bool,
    run: Callable,
    done: Callable[[float], None],
) -> NDArray[np.float64]:
    """Shapley values of rows, (n_rows, n_players, n_outputs).

    Parameters
    ----------
    game : Game
    X, background : arrays or CSR matrices
    interactions : bool
        Instead of values the interaction indices, (n_rows, n_players, n_players, n_outputs). Their
        diagonals are zero.
    run : callable
        ``map`` or a parallel one.
    done : callable
        Called now and then with the share that is done.
    """
    n_players, n_outputs = game.n_players, game.coefs.shape[1]
    n_terms = n_players * n_players if interactions else n_players
    found = np.zeros((X.shape[0], n_terms, n_outputs))
    rules = rules_for(n_players)
    n_tiles = -(-game.coefs.shape[0] // LANES)
    work = LANES * n_terms * float(rules.sizes[-1])  # of one row, background row and tile
    few = 8 * LANES * n_players
    n_others = int(max(1, min(_TASK_FACTORS // work, copied_bytes() // few)))
    parts = list(_parts(background.shape[0], n_others))
    n_others = parts[0].stop
    room = min(_TASK_FACTORS // (work * n_others), copied_bytes() // (few * n_others))
    panels = list(_parts(n_tiles, int(max(1, room))))
    task_rows = int(np.clip(_TASK_FACTORS // (work * n_others * panels[0].stop), 1, _TASK_ROWS))
    rows_of_tasks = list(_parts(X.shape[0], task_rows))
    fill = _add_pairs if interactions else _add_values

    def some_rows(vectors: NDArray, coefs: NDArray, others: NDArray, rows: slice) -> None:
        given = np.ascontiguousarray(dense(X[rows])[:, game.columns])
        sums = np.zeros((len(given), n_terms, len(coefs)))
        fill(given, vectors, game.ends, game.gamma, others, *rules, sums)
        found[rows] += sums @ coefs

    n_done, n_tasks = 0, len(parts) * len(panels) * len(rows_of_tasks)
    for panel in panels:
        vectors, coefs = _lanes(game, panel)
        for part in parts:
            others = _factors(game, dense(background[part]), vectors, run)

            task = partial(some_rows, vectors, coefs, others)
            for _ in run(task, rows_of_tasks):
                n_done += 1
                done(n_done / n_tasks)
    found /= background.shape[0]
    if interactions:
        return found.reshape(X.shape[0], n_players, n_players, n_outputs)
    return found


def _parts(size: int, step: int) -> Iterator[slice]:
    for first in range(0, size, step):
        yield slice(first, min(first + step, size))


def _lanes(game: Game, panel: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vectors of some tiles, (n_tiles, n_columns, LANES), and coefficients; zeros are added."""
    begin, end = panel.start * LANES, panel.stop * LANES
    own = dense(game.vectors[begin:end])[:, game.columns]
    coefs = game.coefs[begin:end]
    short = end - begin - len(own)
    own, coefs = np.pad(own, ((0, short), (0, 0))), np.pad(coefs, ((0, short), (0, 0)))
    tiles = own.reshape(-1, LANES, own.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(tiles), coefs


def _factors(
    game: Game, rows: NDArray[np.float64], vectors: NDArray[np.float64], run: Callable
) -> NDArray[np.float64]:
    """Factors of some rows, (n_tiles, n_rows, n_players, LANES)."""
    rows = np.ascontiguousarray(rows[:, game.columns])
    found = np.empty((len(vectors), len(rows), game.n_players, LANES))

    def one_tile(number: int) -> None:
        for row, out in zip(rows, found[number], strict=True):
            _fill_factors(row, vectors[number], game.ends, game.gamma, out)

    for _ in run(one_tile, range(len(vectors))):
        pass
    return found


@jit
def _fill_factors(row, vectors, ends, gamma, out):
    """The factor of each player of a row with the vectors of a tile."""
    begin = 0
    for player in range(ends.size):
        own = out[player]
        for lane in range(LANES):
            own[lane] = 0.0
        for column in range(begin, ends[player]):
            value, here = row[column], vectors[column]
            for lane in range(LANES):
                apart = value - here[lane]
                own[lane] -= gamma * apart * apart
        begin = ends[player]
        exponential(own)
        for lane in range(LANES):
            own[lane] = max(own[lane], LEAST)


@jit
def _choose(p, q, sizes, reaches, active, constant, spread):
    """The players that differ, the product of the others, and the rule that is to be used."""
    n_active = 0
    for lane in range(LANES):
        constant[lane] = 1.0
        spread[lane] = 0.0
    for player in range(p.shape[0]):
        own, other = p[player], q[player]
        total = 0.0
        for lane in range(LANES):
            total += abs(own[lane] - other[lane])
        if total > 0.0:
            active[n_active] = player
            n_active += 1
            for lane in range(LANES):
                spread[lane] += abs(own[lane] - other[lane]) / (own[lane] + other[lane])
        else:
            for lane in range(LANES):
                constant[lane] *= own[lane]
    widest = 0.0
    for lane in range(LANES):
        widest = max(widest, spread[lane])
    rule = 0
    while 2 * sizes[rule] < n_active and reaches[rule] < widest:
        rule += 1
    return n_active, rule


@jit
def _fill_products(p, q, active, n_active, constant, nodes, weights, first, products):
    """Weighted products of all factors, at four nodes."""
    t0, t1, t2, t3 = nodes[first], nodes[first + 1], nodes[first + 2], nodes[first + 3]
    w0, w1, w2, w3 = weights[first], weights[first + 1], weights[first + 2], weights[first + 3]
    a, b, c, d = products[0], products[1], products[2], products[3]
    for lane in range(LANES):
        a[lane] = w0 * constant[lane]
        b[lane] = w1 * constant[lane]
        c[lane] = w2 * constant[lane]
        d[lane] = w3 * constant[lane]
    for number in range(n_active):
        own, other = p[active[number]], q[active[number]]
        for lane in range(LANES):
            least = other[lane]
            apart = own[lane] - least
            a[lane] *= least + t0 * apart
            b[lane] *= least + t1 * apart
            c[lane] *= least + t2 * apart
            d[lane] *= least + t3 * apart


@jit
def _add_values(X, vectors, ends, gamma, others, sizes, reaches, nodes, weights, sums):
    """Add the values of every row, with each vector, over some background rows."""
    n_players = ends.size
    p, added = np.empty((n_players, LANES)), np.empty((n_players, LANES))
    active = np.empty(n_players, np.int64)
    lanes, products = np.empty((2, LANES)), np.empty((4, LANES))
    for tile in range(vectors.shape[0]):
        begin = tile * LANES
        for row in range(X.shape[0]):
            _fill_factors(X[row], vectors[tile], ends, gamma, p)
            for background in range(others.shape[1]):
                q = others[tile, background]
                n_active, rule = _choose(p, q, sizes, reaches, active, lanes[0], lanes[1])
                for number in range(n_active):
                    here = added[number]
                    for lane in range(LANES):
                        here[lane] = 0.0
                for first in range(0, sizes[rule], 4):
                    _fill_products(
                        p,
                        q,
                        active,
                        n_active,
                        lanes[0],
                        nodes[rule],
                        weights[rule],
                        first,
                        products,
                    )
                    _add_quotients(p, q, active, n_active, nodes[rule], first, products, added)
                for number in range(n_active):
                    player = active[number]
                    own, other, here = p[player], q[player], added[number]
                    into = sums[row, player, begin : begin + LANES]
                    for lane in range(LANES):
                        into[lane] += (own[lane] - other[lane]) * here[lane]


@jit
def _add_quotients(p, q, active, n_active, nodes, first, products, added):
    """Add the products over each player's factor, of four nodes: one division for all four."""
    t0, t1, t2, t3 = nodes[first], nodes[first + 1], nodes[first + 2], nodes[first + 3]
    a, b, c, d = products[0], products[1], products[2], products[3]
    for number in range(n_active):
        own, other, here = p[active[number]], q[active[number]], added[number]
        for lane in range(LANES):
            least = other[lane]
            apart = own[lane] - least
            f0, f1 = least + t0 * apart, least + t1 * apart
            f2, f3 = least + t2 * apart, least + t3 * apart
            f01, f23 = f0 * f1, f2 * f3
            upper = (a[lane] * f1 + b[lane] * f0) * f23 + (c[lane] * f3 + d[lane] * f2) * f01
            here[lane] += upper / (f01 * f23)


@jit
def _add_pairs(X, vectors, ends, gamma, others, sizes, reaches, nodes, weights, sums):
    """Add the interactions of every row, with each vector, over some background rows."""
    n_players = ends.size
    p, ratios = np.empty((n_players, LANES)), np.empty((n_players, LANES))
    active = np.empty(n_players, np.int64)
    lanes, products = np.empty((2, LANES)), np.empty((4, LANES))
    for tile in range(vectors.shape[0]):
        begin = tile * LANES
        for row in range(X.shape[0]):
            _fill_factors(X[row], vectors[tile], ends, gamma, p)
            for background in range(others.shape[1]):
                q = others[tile, background]
                n_active, rule = _choose(p, q, sizes, reaches, active, lanes[0], lanes[1])
                for node in range(sizes[rule]):
                    if node % 4 == 0:
                        _fill_products(
                            p,
                            q,
                            active,
                            n_active,
                            lanes[0],
                            nodes[rule],
                            weights[rule],
                            node,
                            products,
                        )
                    t, product = nodes[rule, node], products[node % 4]
                    for number in range(n_active):
                        own, other, ratio = p[active[number]], q[active[number]], ratios[number]
                        for lane in range(LANES):
                            apart = own[lane] - other[lane]
                            ratio[lane] = apart / (other[lane] + t * apart)
                    for i in range(n_active):
                        of_i = ratios[i]
                        for j in range(i):
                            of_j = ratios[j]
                            into = sums[
                                row, active[i] * n_players + active[j], begin : begin + LANES
                            ]
                            for lane in range(LANES):
                                into[lane] += product[lane] * of_i[lane] * of_j[lane]
    for row in range(X.shape[0]):
        for i in range(n_players):
            for j in range(i):
                sums[row, j * n_players + i] = sums[row, i * n_players + j]
