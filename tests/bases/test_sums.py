"""Sums over rows: against plain NumPy, wherever the rows are cut, on any number of threads."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.bases import solve_in_passes
from aesvm.bases.solve_in_passes import PointOnLine, Query, SpanMachines, add_up, merged_sums
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.one_class import OneClass
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import ClassPairs, EveryRow
from aesvm.runtime.threads import Threads
from tests import oracles

GAMMA, COST = 0.7, 2.0
POINTS = tuple(PointOnLine(*at) for at in ((0.0, 0.5), (1.0, 0.5), (1.0, 0.1), (0.3, 2.0)))


def ramp(t, width):
    """``max(0, t)`` with its kink rounded off, its slope and its curvature."""
    inside = np.abs(t) < width
    value = np.where(inside, (t + width) ** 2 / (4 * width), np.maximum(t, 0.0))
    slope = np.where(inside, (t + width) / (2 * width), (t > 0).astype(float))
    return value, slope, inside / (2 * width)


#: Of each formulation: the slopes of F in the offsets for each unit of cost, and the arguments of
#: its ramps, each with the change by score and by offset.
def hinge(scores, signs, offsets):
    yield 1 - signs * (scores + offsets[0]), -signs, [-signs]


def tube(scores, targets, offsets):
    one = np.ones(len(scores))
    yield scores + offsets[0] - targets - 0.2, one, [one]
    yield targets - scores - offsets[0] - 0.2, -one, [-one]


def one_class(scores, _, offsets):
    one = np.ones(len(scores))
    yield -scores - offsets[0], -one, [-one]


def nu_tube(scores, targets, offsets):
    one, none = np.ones(len(scores)), np.zeros(len(scores))
    yield scores - targets - offsets[0], one, [-one, none]
    yield targets - scores - offsets[1], -one, [none, -one]


FORMULATIONS = {
    "hinge": (Hinge(), hinge, [0.0]),
    "tube": (Tube(0.2, 1.0), tube, [0.0]),
    "one class": (OneClass(0.3), one_class, [0.3]),
    "nu tube": (NuTube(1.0, nu=0.4), nu_tube, [0.2, 0.2]),
}


def problem(n=300, n_vectors=7, n_offsets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    targets = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    query = Query(
        rng.normal(size=n_vectors),
        rng.normal(size=n_offsets),
        rng.normal(size=n_vectors),
        rng.normal(size=n_offsets),
        POINTS,
        1,
    )
    return X, targets, rng.uniform(0.5, 2.0, n), X[:n_vectors] + 0.1, query


def machines(vectors, formulation, dtype=np.float64, n=300):
    every = np.arange(vectors.shape[0])
    spec = KernelSpec("rbf", GAMMA)
    selections = {0: EveryRow(n, COST)}
    return SpanMachines(vectors, {0: every}, selections, spec, formulation, np.dtype(dtype), 1e-12)


@pytest.fixture(params=[False, True], ids=["one tile", "many tiles"])
def blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(solve_in_passes, "_VALUES", 1)
        monkeypatch.setattr(solve_in_passes, "_LEAST", 17)
        monkeypatch.setattr(solve_in_passes, "_BLOCKS", 3)
        monkeypatch.setattr(solve_in_passes, "_TOGETHER", 10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FORMULATIONS)
def test_sums_are_those_of_plain_numpy(blocks, name, dtype):
    formulation, ramps, slopes = FORMULATIONS[name]
    X, targets, weights, vectors, query = problem(n_offsets=len(slopes))
    if name == "one class":
        targets = np.ones(len(targets))
    found, curvature = add_up(
        X, targets, weights, machines(vectors, formulation, dtype), {0: query}
    )[0]
    rtol = 1e-11 if dtype == np.float64 else 2e-4
    K = oracles.kernel(X, vectors, gamma=GAMMA)
    costs = COST * weights
    assert_allclose(found.total_cost, [costs.sum()])
    assert_allclose(found.slopes, np.array(slopes) * costs.sum())
    for number, point in enumerate(POINTS):
        scores = K @ (query.coefs + point.step * query.along)
        offsets = query.offsets + point.step * query.shift
        loss = exact = 0.0
        g_at_basis, by_offset = np.zeros(len(vectors)), np.zeros(len(offsets))
        bent = np.zeros((len(vectors) + len(offsets),) * 2)
        for t, by_score, by_offsets in ramps(scores, targets, offsets):
            value, slope, curved = ramp(t, point.width)
            loss, exact = loss + costs @ value, exact + costs @ np.maximum(t, 0.0)
            g_at_basis -= (costs * slope * by_score) @ K
            by_offset += np.array(by_offsets) @ (costs * slope)
            by_all = np.column_stack([by_score[:, None] * K, *by_offsets])
            bent += (by_all * (costs * curved)[:, None]).T @ by_all
        assert_allclose(found.rounded[number], loss, rtol=rtol)
        assert_allclose(found.exact[number], exact, rtol=rtol)
        assert_allclose(found.g_at_basis[number], g_at_basis, rtol=rtol, atol=rtol * costs.sum())
        assert_allclose(found.by_offset[number], by_offset, rtol=rtol, atol=rtol * costs.sum())
        if number == query.curved:
            n = len(vectors)
            size = rtol * costs.sum()
            assert_allclose(curvature.within, bent[:n, :n], rtol=rtol, atol=size)
            assert_allclose(curvature.crossed, bent[n:, :n], rtol=rtol, atol=size)
            assert_allclose(curvature.corner, np.diag(bent)[n:], rtol=rtol, atol=size)


def flat(answer):
    return [array for own in answer.values() for part in own for array in part]


def test_threads_change_nothing_and_chunks_no_more_than_rounding(blocks):
    X, targets, weights, vectors, query = problem()
    sent = machines(vectors, Hinge())
    whole = add_up(X, targets, weights, sent, {0: query})
    with Threads(2) as run:
        threaded = add_up(X, targets, weights, sent, {0: query}, run)
    for one, other in zip(flat(whole), flat(threaded), strict=True):
        assert_array_equal(one, other)
    cuts = [slice(0, 1), slice(1, 120), slice(120, 120), slice(120, 300)]
    parts = [add_up(X[at], targets[at], weights[at], sent, {0: query}) for at in cuts]
    assert not parts[2]  # without rows there is no answer
    for one, other in zip(flat(whole), flat(merged_sums(parts)), strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_sparse_rows_give_the_same():
    X, targets, weights, vectors, query = problem()
    X, vectors = (np.where(np.abs(rows) < 0.4, 0.0, rows) for rows in (X, vectors))
    dense = add_up(X, targets, weights, machines(vectors, Hinge()), {0: query})
    sparse = machines(sp.csr_array(vectors), Hinge())
    found = add_up(sp.csr_array(X), targets, weights, sparse, {0: query})
    for one, other in zip(flat(dense), flat(found), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_pairs_of_classes_have_sums_of_their_own_rows_and_vectors(blocks):
    X, _, weights, vectors, _ = problem(n_vectors=9)
    labels = np.arange(300) % 3
    of_vectors = np.arange(9) % 3
    pairs = ClassPairs(np.arange(3), np.full(3, 100), np.full(3, COST))
    both = list(combinations(range(3), 2))
    own = {at: np.flatnonzero(np.isin(of_vectors, pair)) for at, pair in enumerate(both)}
    sent = machines(vectors, Hinge())._replace(own=own, selections=dict(enumerate(pairs)))
    rng = np.random.default_rng(5)
    queries = {
        at: Query(rng.normal(size=6), rng.normal(size=1), np.zeros(6), np.zeros(1), POINTS, 0)
        for at in (0, 2)
    }
    found = add_up(X, labels, weights, sent, queries)
    assert set(found) == {0, 2}
    for at, query in queries.items():
        here = np.isin(labels, both[at])
        signs = np.where(labels[here] == both[at][0], 1.0, -1.0)
        alone = machines(vectors[own[at]], Hinge())
        expected = add_up(X[here], signs, weights[here], alone, {0: query})
        for one, other in zip(flat({0: found[at]}), flat(expected), strict=True):
            assert_allclose(one, other, rtol=1e-11, atol=1e-11)
