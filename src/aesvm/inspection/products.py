"""Shapley values of sums of RBF kernels, by this computer's processor.

For one vector z, one background row b and one row x the game is a product over the players, each
a feature or a group of them: ``v(S) = prod_{j in S} p_j prod_{j not in S} q_j``, with
``p_j = exp(-gamma |x_j - z_j|^2)`` and ``q_j = exp(-gamma |b_j - z_j|^2)``. Its Shapley values are

    phi_j = (p_j - q_j) int_0^1 prod_{l != j} (t p_l + (1 - t) q_l) dt,

and Shapley's interaction index of two players is the same integral with two factors left out,
times ``(p_i - q_i) (p_j - q_j)``. Values of a model are sums over its vectors, with their
coefficients, and means over the background.

A factor is ``m_l (1 + a_l s)`` with ``s = 2t - 1``, ``m_l = (p_l + q_l) / 2`` and ``a_l = (p_l -
q_l) / (p_l + q_l)``. The integrand is a polynomial in s, for which a Gauss-Legendre rule with N
nodes is exact up to degree ``2N - 1``: ``N = m / 2`` nodes are exact where m factors are not
constant. Far fewer are as good where p_l and q_l are close to each other. On the ellipse with foci
-1 and 1 whose half axes add up to r > 1, the product of all ``1 + a_l s`` is at most
``M = exp(sum_l |a_l| (r + 1/r) / 2)``. A polynomial of degree ``2N - 1`` is then within
``2 M r^(1 - 2N) / (r - 1)`` of it (Bernstein), and the rule's error is at most twice that. A rule
is used where this is less than a rounding, 2^-52, of the product of all m_l, which is the mean of
the game over all coalitions.

Nodes come in pairs s and -s, which share most operations. Products without one factor are
quotients. That is safe: factors below 1e-30 are replaced by 1e-30, which
changes the game by at most 1e-30 for each player, since no factor is above one. A product that
underflows then belongs to a quotient below 1e-270.

Vectors are taken 64 at a time, in lanes. Loops over lanes are vectorised, and what they use stays
in the core's cache. Factors of features that x and b have in common are constants of the integral.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from aesvm.kernels.blocks import copied_bytes
from aesvm.kernels.functions import exponential
from aesvm.kernels.matrix import dense
from aesvm.runtime.jit import jit

#: Vectors of a tile, one to a lane.
LANES = 64

#: Factors below this are replaced by it.
LEAST = 1e-30

#: Pairs of nodes of a block. Loops over them are unrolled by hand: five, wherever this is used.
_PAIRS = 5

#: Factors at nodes that a task computes, some tenth of a second; and the rows of a task, at most.
_TASK_FACTORS, _TASK_ROWS = 5e8, 8

#: The error of a quadrature that counts as none: a rounding.
_ROUNDING = 2.0**-52


class Game(NamedTuple):
    """A sum of RBF kernels, and its players."""

    vectors: Any  #: array or CSR matrix
    coefs: NDArray[np.float64]  #: (n_vectors, n_outputs)
    gamma: float
    columns: NDArray[np.int64]  #: those of the first player, then of the second, ...
    ends: NDArray[np.int64]  #: where those of each player end

    @property
    def n_players(self) -> int:
        return len(self.ends)


class Rules(NamedTuple):
    """Quadrature rules with more and more nodes, one to a line."""

    sizes: NDArray[np.int64]  #: nodes of each, ascending
    reaches: NDArray[np.float64]  #: the largest sum of the |a_l| that each is good for
    nodes: NDArray[np.float64]  #: descending: 1 - t follows in the other half
    weights: NDArray[np.float64]  #: which add up to one


def rules_for(n_factors: int, step: int = 4) -> Rules:
    """Rules for products of up to ``n_factors`` factors: the last one is exact for all of them.

    Sizes are multiples of ``step``, the number of nodes in a block of the caller's loop.
    """
    largest = -(-max(1, n_factors) // (2 * step))  # in steps
    steps = [1]
    while steps[-1] < largest:  # by a quarter: with many factors there are few rules
        steps.append(min(largest, steps[-1] + max(1, steps[-1] // 4)))
    sizes = step * np.array(steps, dtype=np.int64)
    nodes, weights = np.zeros((2, len(sizes), sizes[-1]))
    for own, size in enumerate(sizes):
        at, weight = roots_legendre(int(size))
        nodes[own, :size], weights[own, :size] = (1.0 - at) / 2.0, weight / 2.0
    return Rules(sizes, np.array([_reach(int(size)) for size in sizes]), nodes, weights)


def _reach(size: int) -> float:
    """The largest sum of the |a_l| for which a rule of this size is good."""
    r = np.geomspace(1.5, 1e4, 4000)
    logs = np.log(_ROUNDING * (r - 1.0) / 4.0) + (2 * size - 1) * np.log(r)
    return max(0.0, float(np.max(logs * 2.0 / (r + 1.0 / r))))


def shapley_products(
    game: Game,
    X: Any,
    background: Any,
    interactions: bool,
    run: Callable,
    done: Callable[[float], None],
) -> NDArray[np.float64]:
    """Shapley values of rows, (n_rows, n_players, n_outputs).

    Or the interaction indices, (n_rows, n_players, n_players, n_outputs), with diagonals of zero.
    ``run``: ``map`` or a parallel one. ``done``: called now and then with the share that is done.
    """
    n_players, n_outputs = game.n_players, game.coefs.shape[1]
    n_terms = n_players * n_players if interactions else n_players
    found = np.zeros((X.shape[0], n_terms, n_outputs))
    rules = rules_for(n_players, 2 * _PAIRS)
    above_zero = rules.sizes, rules.reaches, 2.0 * rules.nodes - 1.0, rules.weights
    n_tiles = -(-game.coefs.shape[0] // LANES)
    work = LANES * n_terms * float(rules.sizes[-1])  # of one row, background row and tile
    few = 8 * LANES * (n_players + 1)
    n_others = int(max(1, min(_TASK_FACTORS // work, copied_bytes() // few)))
    parts = list(_parts(background.shape[0], n_others))
    n_others = parts[0].stop
    room = min(_TASK_FACTORS // (work * n_others), copied_bytes() // (few * n_others))
    panels = list(_parts(n_tiles, int(max(1, room))))
    task_rows = int(np.clip(_TASK_FACTORS // (work * n_others * panels[0].stop), 1, _TASK_ROWS))
    rows_of_tasks = list(_parts(X.shape[0], task_rows))

    def some_rows(
        vectors: NDArray, coefs: NDArray, compared: NDArray, others: NDArray, rows: slice
    ) -> None:
        given = _by_player(game, X[rows])
        sums = np.zeros((len(given), n_terms, len(coefs)))
        game_at = vectors, game.ends, game.gamma
        _add_terms(given, *game_at, compared, others, above_zero, interactions, sums)
        found[rows] += sums @ coefs

    n_done, n_tasks = 0, len(parts) * len(panels) * len(rows_of_tasks)
    for panel in panels:
        vectors, coefs = _lanes(game, panel)
        for part in parts:
            compared = _by_player(game, background[part])
            others = _factors(game, compared, vectors, run)
            task = partial(some_rows, vectors, coefs, compared, others)
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


def _by_player(game: Game, rows: Any) -> NDArray[np.float64]:
    """Rows with the columns of the first player, then of the second, ..."""
    return np.ascontiguousarray(dense(rows)[:, game.columns])


def _lanes(game: Game, panel: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vectors of some tiles, (n_tiles, n_columns, LANES), and coefficients; zeros are added."""
    begin, end = panel.start * LANES, panel.stop * LANES
    own = _by_player(game, game.vectors[begin:end])
    coefs = game.coefs[begin:end]
    short = end - begin - len(own)
    own, coefs = np.pad(own, ((0, short), (0, 0))), np.pad(coefs, ((0, short), (0, 0)))
    tiles = own.reshape(-1, LANES, own.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(tiles), coefs


def _factors(
    game: Game, rows: NDArray[np.float64], vectors: NDArray[np.float64], run: Callable
) -> NDArray[np.float64]:
    """Half the factors of some rows, (n_tiles, n_rows, n_players + 1, LANES)."""
    found = np.empty((len(vectors), len(rows), game.n_players + 1, LANES))

    def one_tile(number: int) -> None:
        for row, out in zip(rows, found[number], strict=True):
            _fill_factors(row, vectors[number], game.ends, game.gamma, out)

    for _ in run(one_tile, range(len(vectors))):
        pass
    return found


@jit
def _fill_factors(row, vectors, ends, gamma, out):
    """Half the factor of each player of a row with the vectors of a tile."""
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
            own[lane] = 0.5 * max(own[lane], LEAST)
    for lane in range(LANES):
        out[ends.size, lane] = 0.5


@jit
def _fill_active(row, other, ends, active):
    """The players that differ, and how many."""
    n_active, begin = 0, 0
    for player in range(ends.size):
        differs = False
        for column in range(begin, ends[player]):
            differs |= row[column] != other[column]
        begin = ends[player]
        if differs:
            active[n_active] = player
            n_active += 1
    active[n_active] = ends.size  # a factor of one: they are multiplied two at a time
    return n_active


@jit
def _fill_shares(p, q, active, n_active, sizes, reaches, constant, spread, shares):
    """The a_l of the active players, the product of the other factors, and the rule to use."""
    for lane in range(LANES):
        constant[lane] = 1.0
        spread[lane] = 0.0
    number = 0
    for player in range(p.shape[0] - 1):
        own, other = p[player], q[player]
        if number < n_active and active[number] == player:
            share = shares[number]
            for lane in range(LANES):
                share[lane] = (own[lane] - other[lane]) / (own[lane] + other[lane])
                spread[lane] += abs(share[lane])
            number += 1
        else:
            for lane in range(LANES):
                constant[lane] *= own[lane] + other[lane]
    widest = 0.0
    for lane in range(LANES):
        widest = max(widest, spread[lane])
    rule = 0
    while 2 * sizes[rule] < n_active and reaches[rule] < widest:
        rule += 1
    return rule


@jit
def _fill_products(p, q, active, n_active, constant, nodes, weights, products):
    """Weighted products of all factors at five nodes s above zero, and at -s."""
    w0, w1, w2 = weights[0], weights[1], weights[2]
    w3, w4 = weights[3], weights[4]
    for lane in range(LANES):
        start = constant[lane]
        products[lane] = products[5 * LANES + lane] = w0 * start
        products[LANES + lane] = products[6 * LANES + lane] = w1 * start
        products[2 * LANES + lane] = products[7 * LANES + lane] = w2 * start
        products[3 * LANES + lane] = products[8 * LANES + lane] = w3 * start
        products[4 * LANES + lane] = products[9 * LANES + lane] = w4 * start
    s0, s1, s2 = nodes[0], nodes[1], nodes[2]
    s3, s4 = nodes[3], nodes[4]
    for number in range(0, n_active, 2):  # (m + h s) (n + g s): the even and the odd part
        own, other = p[active[number]], q[active[number]]
        own_2, other_2 = p[active[number + 1]], q[active[number + 1]]
        for lane in range(LANES):
            m, h = own[lane] + other[lane], own[lane] - other[lane]
            n, g = own_2[lane] + other_2[lane], own_2[lane] - other_2[lane]
            constant_term, square = m * n, h * g
            linear = m * g + n * h
            even, odd = constant_term + square * (s0 * s0), linear * s0
            products[lane] *= even + odd
            products[5 * LANES + lane] *= even - odd
            even, odd = constant_term + square * (s1 * s1), linear * s1
            products[LANES + lane] *= even + odd
            products[6 * LANES + lane] *= even - odd
            even, odd = constant_term + square * (s2 * s2), linear * s2
            products[2 * LANES + lane] *= even + odd
            products[7 * LANES + lane] *= even - odd
            even, odd = constant_term + square * (s3 * s3), linear * s3
            products[3 * LANES + lane] *= even + odd
            products[8 * LANES + lane] *= even - odd
            even, odd = constant_term + square * (s4 * s4), linear * s4
            products[4 * LANES + lane] *= even + odd
            products[9 * LANES + lane] *= even - odd


@jit
def _add_terms(X, vectors, ends, gamma, background, others, rules, interactions, sums):
    """Add the values of every row, or its interactions, over some background rows."""
    n_players = ends.size
    sizes, reaches, nodes, weights = rules
    p = np.empty((n_players + 1, LANES))
    shares, ratios = np.empty((n_players, LANES)), np.empty((n_players, LANES))
    active = np.empty(n_players + 1, np.int64)
    lanes, products = np.empty((2, LANES)), np.empty(2 * _PAIRS * LANES)
    for tile in range(vectors.shape[0]):
        begin = tile * LANES
        for row in range(X.shape[0]):
            _fill_factors(X[row], vectors[tile], ends, gamma, p)
            for b in range(background.shape[0]):
                q = others[tile, b]
                n_active = _fill_active(X[row], background[b], ends, active)
                rule = _fill_shares(
                    p, q, active, n_active, sizes, reaches, lanes[0], lanes[1], shares
                )
                into = active, n_active, sums[row], begin
                for first in range(0, sizes[rule] // 2, _PAIRS):
                    at, weight = nodes[rule, first:], weights[rule, first:]
                    _fill_products(p, q, active, n_active, lanes[0], at, weight, products)
                    if interactions:
                        _add_products(shares, at, products, ratios, *into)
                    else:
                        _add_quotients(shares, at, products, *into)
    if interactions:
        for row in range(X.shape[0]):
            for i in range(n_players):
                for j in range(i):
                    sums[row, j * n_players + i] = sums[row, i * n_players + j]


@jit
def _add_quotients(shares, nodes, products, active, n_active, sums, begin):
    """Add the products without each player's factor, at five nodes and their negatives.

    ``u / (1 + a s) + v / (1 - a s) = (u + v - a s (u - v)) / (1 - a^2 s^2)``, and one division for
    all nodes.
    """
    above, below = products[: _PAIRS * LANES], products[_PAIRS * LANES :]
    for node in range(_PAIRS):
        for lane in range(node * LANES, (node + 1) * LANES):
            u, v = above[lane], below[lane]
            above[lane], below[lane] = u + v, nodes[node] * (u - v)
    for number in range(n_active):
        share, into = shares[number], sums[active[number], begin : begin + LANES]
        for lane in range(LANES):
            a, upper, lower = share[lane], 0.0, 1.0
            for node in range(_PAIRS):
                at, s = node * LANES + lane, nodes[node]
                factor = 1.0 - a * a * (s * s)
                upper = upper * factor + (above[at] - a * below[at]) * lower
                lower *= factor
            into[lane] += 2.0 * a * upper / lower


@jit
def _add_products(shares, nodes, products, ratios, active, n_active, sums, begin):
    """Add the products without two players' factors, at nodes and their negatives."""
    n_players = shares.shape[0]
    for node in range(2 * _PAIRS):
        s = nodes[node] if node < _PAIRS else -nodes[node - _PAIRS]
        product = products[node * LANES : (node + 1) * LANES]
        for number in range(n_active):
            share, ratio = shares[number], ratios[number]
            for lane in range(LANES):
                ratio[lane] = 2.0 * share[lane] / (1.0 + s * share[lane])
        for i in range(n_active):
            of_i = ratios[i]
            for j in range(i):
                of_j = ratios[j]
                into = sums[active[i] * n_players + active[j], begin : begin + LANES]
                for lane in range(LANES):
                    into[lane] += product[lane] * of_i[lane] * of_j[lane]
