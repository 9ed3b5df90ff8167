"""SVMs in a span by passes over sums: the optimum, few passes, and an end before it is due."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from aesvm.bases import solve_in_passes as passes
from aesvm.bases.descent import Point
from aesvm.bases.solve_in_passes import SpanMachines, Start, add_up, solve_in_passes
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import NuHinge
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.one_class import OneClass
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import EveryRow
from aesvm.runtime.progress import OutOfTimeError, Silence
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
        return {0: Start(within, Point(found.coefs, found.offsets), len(weights))}

    def ask(self, queries):
        self.n_passes += 1
        return add_up(self.X, self.targets, self.weights, self.sent, queries)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_passes_find_the_optimum_that_one_place_finds(name):
    rows = Rows(FORMULATIONS[name])
    found = solve_in_passes(rows.start(), rows.ask, rows.formulation, Silence())[0]
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
    found = solve_in_passes(rows.start(), rows.ask, rows.formulation, Silence())[0]
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
    found = solve_in_passes(rows.start(), ask, rows.formulation, progress)
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
    start = {0: Start(own, Point(np.zeros(2), (0.0,)), 2)}
    found = solve_in_passes(start, rows.ask, rows.formulation, Silence())[0]
    best = 1.0 / (own[0, 0] - own[0, 1])  # both on the margin: a (1 - k) = 1
    assert found.best.objective == pytest.approx(best, rel=0.02)
    assert found.best.objective >= best * (1 - 1e-9)
