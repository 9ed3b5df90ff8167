"""What is between two SVMs of samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from aesvm.certificate.records import Record
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.objective import Objective
from aesvm.machines.samples import Line, WholeMachine, best_multiple
from tests import oracles


@pytest.fixture(name="ends")
def two_svms_of_halves():
    """Rows, labels, and of each half's SVM its w, over all rows, and its offset."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    found = []
    for half in (slice(0, 60), slice(60, 120)):
        svm = SVC(gamma=1.0).fit(X[half], y[half])
        w = np.zeros(120)
        w[np.arange(120)[half][svm.support_]] = svm.dual_coef_[0]
        found.append((w, svm.intercept_[0]))
    return oracles.kernel(X), y, found


def line_of(K, y, ends):
    (w, b), (other, c) = ends
    judge = Objective(Hinge(), y, np.ones(len(y)))
    products = w @ K @ w, w @ K @ other, other @ K @ other
    return Line(judge, products, ((b,), (c,)), (K @ w, K @ other))


def objective(K, y, w, b):
    """``1/2 |w|^2`` and the hinge losses, by their definitions."""
    return 0.5 * w @ K @ w + np.maximum(0.0, 1.0 - y * (K @ w + b)).sum()


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_its_value_is_the_objective_of_the_mean(ends, t):
    K, y, ((w, b), (other, c)) = ends
    line = line_of(K, y, ((w, b), (other, c)))
    wanted = objective(K, y, (1 - t) * w + t * other, (1 - t) * b + t * c)
    assert line.value(t) == pytest.approx(wanted, rel=1e-12)


def test_two_svms_of_different_rows_have_a_better_mean(ends):
    line = line_of(*ends)
    t = line.lowest()
    values = [line.value(s) for s in np.linspace(0.0, 1.0, 101)]
    assert line.value(t) <= min(values) + 1e-6 * values[0]
    assert line.value(t) < 0.99 * min(values[0], values[-1])


@pytest.mark.parametrize("times", [0.3, 1.0, 3.0])
def test_a_machine_of_a_sample_is_the_best_multiple_of_its_w(ends, times):
    K, y, ((w, b), _) = ends
    w, rows = times * w, np.flatnonzero(w)
    record = replace(Record.of_nothing(), n_rows=60, squared_norm=w @ K @ w, offsets=(b,))
    made = WholeMachine(record, (rows, w[rows]), b, (rows, w[rows]))
    judge = Objective(Hinge(), y, np.ones(len(y)))
    found, scores = best_multiple(Hinge(), judge, made, K @ w)
    v = np.zeros(len(y))
    v[rows] = found.decided[1]
    np.testing.assert_allclose(scores, K @ v, rtol=1e-9)
    assert found.record.squared_norm == pytest.approx(v @ K @ v, rel=1e-9)
    now = objective(K, y, v, found.intercept)
    others = [
        objective(K, y, t * w, c)
        for t in np.geomspace(0.2, 5.0, 60)
        for c in b + np.linspace(-1, 1, 41)
    ]
    assert now <= min(others) * (1.0 + 5e-3)
    np.testing.assert_array_equal(found.multipliers[1], w[rows])  # feasible as they were


def test_a_machine_whose_w_is_right_gets_the_best_offset():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0)
    svm, K, w = SVC(gamma=1.0, tol=1e-10).fit(X, y), oracles.kernel(X), np.zeros(300)
    w[svm.support_] = svm.dual_coef_[0]
    b, held = svm.intercept_[0], np.flatnonzero(w)
    record = replace(Record.of_nothing(), n_rows=300, squared_norm=w @ K @ w, offsets=(b + 0.3,))
    made = WholeMachine(record, (held, w[held]), b + 0.3, (held, w[held]))
    judge = Objective(Hinge(), y, np.ones(300))
    found, scores = best_multiple(Hinge(), judge, made, K @ w)
    np.testing.assert_allclose(scores, K @ w, rtol=0.05)
    v = np.zeros(300)
    v[held] = found.decided[1]
    best = objective(K, y, w, b)
    assert objective(K, y, v, found.intercept) <= best * (1.0 + 1e-6)
    assert objective(K, y, w, b + 0.3) > 1.01 * best


def test_a_w_that_is_many_times_too_short_is_lengthened(ends):
    K, y, ((w, b), _) = ends
    w, rows = 0.01 * w, np.flatnonzero(w)
    record = replace(Record.of_nothing(), n_rows=60, squared_norm=w @ K @ w, offsets=(b,))
    made = WholeMachine(record, (rows, w[rows]), b, (rows, w[rows]))
    found, _ = best_multiple(Hinge(), Objective(Hinge(), y, np.ones(len(y))), made, K @ w)
    v = np.zeros(len(y))
    v[rows] = found.decided[1]
    others = [objective(K, y, t * w, b) for t in np.geomspace(20.0, 500.0, 60)]
    assert objective(K, y, v, found.intercept) <= min(others) * (1.0 + 5e-3)


def test_an_end_that_is_about_the_best_is_taken_as_it_is(ends):
    K, y, (one, _) = ends
    nothing = np.zeros(len(y)), 50.0
    assert line_of(K, y, (one, nothing)).lowest() == 0
    assert line_of(K, y, (nothing, one)).lowest() == 1
