"""SVMs in a span by passes over the rows: the optimum, and the sums against plain NumPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from aesvm.bases import solve_in_passes as passes
from aesvm.bases.descent import Point
from aesvm.bases.solve_in_passes import (
    PointOnLine,
    ProblemElsewhere,
    Query,
    SpanMachines,
    add_up,
    merged_sums,
    solve_in_passes,
)
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import NuHinge, OneClass
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import ClassPairs, EveryRow
from aesvm.runtime.progress import OutOfTimeError, Silence
from aesvm.runtime.threads import Threads
from tests import oracles
from tests.bases.spans import solved_in_one_place

GAMMA, COST = 0.5, 1.5

FORMULATIONS = {
    "hinge": Hinge(),
    "nu hinge": NuHinge(0.4),
    "tube": Tube(0.1, 1.0),
    "nu tube": NuTube(1.0, nu=0.4),
    "one class": OneClass(0.2),
}


class Rows:
    """Rows that answer, and count how often they were asked."""

    def __init__(self, formulation, n=4000, n_vectors=40, seed=0):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 3))
        values = np.sin(2 * self.X[:, 0]) + self.X[:, 1] + 0.4 * rng.normal(size=n)
        self.targets = values
        if isinstance(formulation, OneClass):
            self.targets = np.ones(n)
        elif not isinstance(formulation, Tube):
            self.targets = np.sign(values)
        self.weights = rng.uniform(0.5, 1.5, n)
        self.vectors = self.X[:n_vectors]
        self.formulation = formulation
        self.sent = SpanMachines(
            self.vectors,
            {0: np.arange(n_vectors)},
            {0: EveryRow(n, COST)},
            KernelSpec("rbf", GAMMA),
            formulation,
            np.dtype(np.float64),
            1e-12,
        )
        self.n_passes = 0

    @property
    def bounds(self):
        return COST * self.weights

    def solved(self, n_rows=None):
        """The SVM of the first rows, in one place."""
        first = slice(0, n_rows)
        return solved_in_one_place(
            self.X[first],
            self.targets[first],
            self.bounds[first],
            self.vectors,
            self.formulation,
            gamma=GAMMA,
        )

    def start(self):
        """From the SVM of a tenth of the rows, as heavy as all of them."""
        n = len(self.targets) // 10
        weights = self.weights
        self.weights = 10.0 * weights
        found = self.solved(n)
        self.weights = weights
        within = oracles.kernel(self.vectors, gamma=GAMMA)
        return {
            0: ProblemElsewhere(
                within, Point(found.coefs, found.offsets), len(weights), self.formulation
            )
        }

    def ask(self, queries):
        self.n_passes += 1
        return add_up(self.X, self.targets, self.weights, self.sent, queries)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_passes_find_the_optimum_that_one_place_finds(name):
    rows = Rows(FORMULATIONS[name])
    found = solve_in_passes(rows.start(), rows.ask, Silence())[0]
    best = rows.solved()
    assert found.converged
    assert found.best.objective == pytest.approx(best.objective, rel=1e-3)
    assert rows.n_passes <= passes._PASSES
    # F is that of the point
    coefs, offsets = found.best.point
    scores = oracles.kernel(rows.X, rows.vectors, gamma=GAMMA) @ coefs
    positions = rows.formulation.positions(scores, rows.targets, offsets)
    linear = np.dot(rows.formulation.slopes(rows.bounds.sum()), offsets)
    loss = rows.bounds @ rows.formulation.losses(positions) + linear
    assert found.best.loss == pytest.approx(loss, rel=1e-9)
    own = oracles.kernel(rows.vectors, gamma=GAMMA)
    assert found.best.objective == pytest.approx(loss + 0.5 * coefs @ own @ coefs, rel=1e-9)
    np.testing.assert_allclose(found.scores, own @ coefs, rtol=1e-9, atol=1e-12)


def test_in_the_span_of_all_rows_it_is_the_svm():
    rows = Rows(Hinge(), n=120, n_vectors=120)
    found = solve_in_passes(rows.start(), rows.ask, Silence())[0]
    exact = SVC(C=COST, gamma=GAMMA, tol=1e-6).fit(rows.X, rows.targets, sample_weight=rows.weights)
    values = exact.decision_function(rows.X)
    coefs = exact.dual_coef_[0]
    own = oracles.kernel(exact.support_vectors_, gamma=GAMMA)
    losses = np.maximum(0.0, 1.0 - rows.targets * values)
    best = 0.5 * coefs @ own @ coefs + rows.bounds @ losses
    assert found.best.objective == pytest.approx(best, rel=2e-3)
    assert found.best.objective >= best * (1 - 1e-6)


@pytest.mark.parametrize("n_passes", [0, 1, 3])
def test_a_fit_that_ends_has_the_best_point_of_its_passes(n_passes):
    rows = Rows(Hinge())
    objectives = []

    def ask(queries):
        if rows.n_passes == n_passes:
            raise OutOfTimeError
        answer = rows.ask(queries)
        for point, loss in zip(queries[0].points, answer[0].losses.exact, strict=True):
            coefs = queries[0].coefs + point.step * queries[0].along
            objectives.append(0.5 * coefs @ within @ coefs + loss)
        return answer

    within = oracles.kernel(rows.vectors, gamma=GAMMA)

    progress = Silence()
    found = solve_in_passes(rows.start(), ask, progress)
    assert dict(progress.ending.cut) == {f"the SVM of all rows ended after {n_passes} passes": 1}
    assert bool(found) == (n_passes > 0)
    if found:
        assert found[0].best.objective == pytest.approx(min(objectives), rel=1e-12)


def test_rows_that_are_all_far_from_a_kink_are_reached():
    """From w = 0 no loss is curved, and nothing says how long a step is to be."""
    rows = Rows(Hinge(), n=2, n_vectors=2)
    rows.X = rows.vectors = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    rows.targets, rows.weights = np.array([1.0, -1.0]), np.full(2, 10.0)
    rows.sent = rows.sent._replace(vectors=rows.vectors)
    own = oracles.kernel(rows.vectors, gamma=GAMMA)
    start = {0: ProblemElsewhere(own, Point(np.zeros(2), (0.0,)), 2, rows.formulation)}
    found = solve_in_passes(start, rows.ask, Silence())[0]
    best = 1.0 / (own[0, 0] - own[0, 1])  # both on the margin: a (1 - k) = 1
    assert found.best.objective == pytest.approx(best, rel=0.02)
    assert found.best.objective >= best * (1 - 1e-9)


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


WITH_RAMPS = {
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
        monkeypatch.setattr(passes, "_VALUES", 1)
        monkeypatch.setattr(passes, "_LEAST", 17)
        monkeypatch.setattr(passes, "_BLOCKS", 3)
        monkeypatch.setattr(passes, "_TOGETHER", 10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", WITH_RAMPS)
def test_sums_are_those_of_plain_numpy(blocks, name, dtype):
    formulation, ramps, slopes = WITH_RAMPS[name]
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
