"""When a solve ends: at tol, at max_iter, by the user, or where the objective no longer falls."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from aesvm import AESVC, AENuSVC, AENuSVR, AEOneClassSVM, TimeLimit
from aesvm.formulations.objective import best_multiples
from aesvm.kernels import kernel_matrix
from aesvm.solver import host, smo
from aesvm.solver.free_variables import newton_step
from aesvm.solver.interior_point import solve_interior
from aesvm.solver.stagnation import Stagnation
from benchmarks.hard import random_problem
from tests import oracles


def noisy(n=1500, n_features=4, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, n_features))
    return X, np.where(X[:, 0] + 2.0 * random.normal(size=n) > 0, 1.0, -1.0)


def test_a_violation_that_rises_and_stays_high_does_not_end_a_solve(monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 4)
    monkeypatch.setattr(host, "_HELD", 0)
    monkeypatch.setattr(host, "UPDATES", 1)  # small steps: many iterations
    X, y = noisy(600)
    seen: list[float] = []
    n = len(y)
    smo.minimize(
        kernel_matrix(X, gamma=0.1),
        np.arange(n),
        y,
        -np.ones(n),
        np.full(n, 300.0),
        tol=0.1,
        watch=lambda violation, *_: seen.append(violation) or len(seen) >= 6000,
    )
    assert len(seen) >= 6000


def test_an_enormous_c_converges():
    X, y = noisy(200, 2)
    model = AESVC(C=1e8, gamma=0.05, refine="exact").fit(X, y)
    assert model.fit_status_ == 0
    assert model.certificate_.relative_gap <= 1e-3


def test_a_large_c_where_svc_converges():
    X, y = make_classification(120, 4, class_sep=1.5, random_state=0)
    model = AESVC(C=1e8, gamma=1e-4, refine="exact").fit(X, y)
    theirs = SVC(C=1e8, gamma=1e-4).fit(X, y)
    assert model.fit_status_ == 0
    coefs, K = theirs.dual_coef_.ravel(), oracles.kernel(X[theirs.support_], gamma=1e-4)
    dual = np.abs(coefs).sum() - 0.5 * coefs @ K @ coefs
    assert model.dual_objective_[0] >= dual * (1.0 - 1e-3)


@pytest.mark.parametrize("trial", range(25))
def test_a_fit_has_converged_or_says_that_it_has_not(trial):
    model, rows, weights = random_problem(trial)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # those that are known to take long end by the user
        model.set_callbacks(TimeLimit(30)).fit(*rows, sample_weight=weights)
    if model.fit_status_ == 0:
        assert model.certificate_.relative_gap <= 1e-3
    else:
        assert any(issubclass(one.category, ConvergenceWarning) for one in caught)


def test_stagnation_is_told_by_the_objective_alone():
    random = np.random.default_rng(0)
    K = np.cov(random.normal(size=(8, 30)))
    q, b = random.normal(size=8), np.zeros(8)
    lengths = np.sqrt(K.diagonal())
    stagnation = Stagnation(8, 2e-16)
    stagnation.follow(b, K @ b + q)
    falling = []
    for step in range(600):
        if step < 300:
            b = b - 1e-4 * (K @ b + q)  # falls all the time
        falling.append(stagnation.count_iteration(lambda b=b: (b, K @ b + q, lengths), 0))
    assert not any(falling[:300])
    assert any(falling[400:])


@given(st.integers(0, 10**6), st.sampled_from([1.0, 1e3, 1e6]), st.sampled_from([1, 2]))
def test_interior_points_are_near_the_optimum(seed, C, n_groups):
    random = np.random.default_rng(seed)
    n = 12
    X = random.normal(size=(n, 2))
    K = oracles.kernel(X, gamma=0.5)
    signs = np.tile([1.0, -1.0], n // 2)
    groups = np.sort(random.integers(0, n_groups, n))
    ends = np.searchsorted(groups, np.arange(n_groups), side="right")
    bounds = np.full(n, C)
    lower, upper = np.minimum(signs * bounds, 0.0), np.maximum(signs * bounds, 0.0)
    linear = -signs
    found = solve_interior(K, linear, np.zeros(n), lower, upper, ends)
    wanted = smo.minimize(
        kernel_matrix(K, kernel="precomputed"),
        np.arange(n),
        signs,
        -np.ones(n),
        bounds,
        groups=groups,
        tol=1e-9,
    )
    assert (found >= lower).all()
    assert (found <= upper).all()
    for a, b in zip([0, *ends[:-1]], ends, strict=True):
        assert abs(found[a:b].sum()) <= 1e-9 * (1.0 + np.abs(found[a:b]).sum())
    objective = 0.5 * found @ K @ found + linear @ found
    assert objective <= wanted.objective + 1e-5 * abs(wanted.objective)


@given(st.integers(0, 10**6))
def test_newton_steps_lower_the_objective_and_stay_feasible(seed):
    random = np.random.default_rng(seed)
    n = 20
    X = random.normal(size=(n, 2))
    K, q = oracles.kernel(X, gamma=0.2), random.normal(size=n)
    lower, upper = -random.uniform(0.1, 3.0, n), random.uniform(0.1, 3.0, n)
    b = random.uniform(lower, upper)
    ends = np.array([8, n])
    slopes, before = K @ b + q, b.copy()
    fell = newton_step(K, b, slopes, lower, upper, ends)
    assert (b >= lower).all()
    assert (b <= upper).all()
    assert_allclose(slopes, K @ b + q, atol=1e-9)
    assert_allclose([b[:8].sum(), b[8:].sum()], [before[:8].sum(), before[8:].sum()], atol=1e-9)
    was, now = (0.5 * one @ K @ one + q @ one for one in (before, b))
    assert now <= was + 1e-12 * abs(was)
    assert fell or np.array_equal(b, before)


@pytest.mark.parametrize("seed", [8, 9])
def test_newton_steps_of_a_kernel_of_low_rank_keep_the_sums(seed):
    """Three features and a linear kernel: its matrix cannot be factorised without a remedy."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(160, 3))
    X[np.abs(X) < 0.3] = 0.0
    y = 0.3 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * random.normal(size=160)
    model = AENuSVR(kernel="linear", nu=0.23, C=10.0, tol=1e-6, refine="exact").fit(
        X[:120], y[:120]
    )
    assert_allclose(np.abs(model.dual_coef_).sum(), 0.23 * 10.0 * 120, rtol=1e-12)


def test_the_best_multiple_is_no_worse_than_any_other():
    random = np.random.default_rng(0)
    kinks = random.uniform(0.0, 3.0, size=(5, 7))

    def value(t):
        return 0.1 * np.square(t) + np.maximum(0.0, 1.0 - t[:, None] * kinks).sum(axis=1)

    best = best_multiples(value, 5, 35)
    for t in np.linspace(0.0, 5.0, 200):
        assert (value(best) <= value(np.full(5, t)) + 1e-9).all()


@pytest.mark.parametrize("max_iter", [1, 30, 300])
def test_a_model_that_ended_early_is_the_best_multiple_of_its_w(max_iter):
    X, y = noisy(400)
    model = AESVC(C=50.0, gamma=0.5, refine="exact", max_iter=max_iter)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    K = oracles.kernel(X, gamma=0.5)
    w = np.zeros(len(y))
    w[model.support_] = model.dual_coef_[0]

    def objective(t, offset):
        margins = y * (t * (K @ w) + offset)
        return 0.5 * t * t * w @ K @ w + 50.0 * np.maximum(0.0, 1.0 - margins).sum()

    own = objective(1.0, model.intercept_[0])
    assert_allclose(own, model.certificate_.objective, rtol=1e-9)
    assert own <= 50.0 * len(y)
    for t in (0.0, 0.5, 0.9, 1.1, 2.0):
        for offset in np.linspace(-2.0, 2.0, 21) + model.intercept_[0]:
            assert own <= objective(t, offset) * (1.0 + 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_violation_that_is_reported_is_that_of_the_model(seed):
    """Of a nu-SVM in single precision it was up to forty times as large."""
    X, y = make_classification(2500, 5, n_informative=3, flip_y=0.1, random_state=seed)
    model = AENuSVC(nu=0.3, gamma=0.1, refine="exact").fit(X, y)
    assert model.fit_status_ == 0
    assert model.certificate_.relative_gap <= 1e-3
    kept = model._trained_on_["multipliers"]
    b = np.zeros(len(y))
    b[kept["rows"]] = kept["coefs"]
    scores = oracles.kernel(X, gamma=0.1) @ b
    worst = 0.0
    for own in (y == 1, y == 0):
        alpha, slope = np.abs(b[own]), np.sign(b[own].sum()) * scores[own]
        worst = max(worst, slope[alpha > 0].max() - slope[alpha < 1.0].min())
    assert worst <= 1.05 * model.kkt_violation_[0] + 1e-9


@pytest.mark.parametrize("kind", [AENuSVC, AEOneClassSVM])
@pytest.mark.parametrize("weight", [1e-6, 1e-3])
def test_small_weights_of_all_rows_change_nothing(kind, weight):
    X, y = make_classification(600, 5, n_informative=3, flip_y=0.1, random_state=0)
    given = (X, y) if kind is AENuSVC else (X,)
    plain = kind(nu=0.3, gamma=0.2).fit(*given)
    weighted = kind(nu=0.3, gamma=0.2).fit(*given, sample_weight=np.full(len(y), weight))
    agree = plain.predict(X) == weighted.predict(X)
    assert agree.mean() >= 0.97
    decisions = np.abs(plain.decision_function(X))
    assert agree[decisions > 1e-2 * decisions.max()].all()  # others are within tol of the boundary
    assert_allclose(weighted.dual_objective_ / weight**2, plain.dual_objective_, rtol=1e-2)


def test_small_weights_of_many_classes_change_nothing():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(450, 3)), np.repeat(np.arange(15), 30)
    X += y[:, None] % 4
    plain = AENuSVC(nu=0.3, gamma=0.2).fit(X, y)
    weighted = AENuSVC(nu=0.3, gamma=0.2).fit(X, y, sample_weight=np.full(len(y), 1e-6))
    assert np.mean(plain.predict(X) == weighted.predict(X)) >= 0.97


@pytest.mark.parametrize("max_iter", [1, 5, 50])
@pytest.mark.parametrize("kind", [AESVC, AENuSVC])
def test_certificates_of_few_vectors_hold_where_the_pilot_was_cut(kind, max_iter):
    X, y = make_moons(400, noise=0.3, random_state=0)
    given = {"nu": 0.3} if kind is AENuSVC else {"C": 10.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cut = kind(gamma=1.0, max_vectors=30, max_iter=max_iter, **given).fit(X, y).certificate_
    exact = kind(gamma=1.0, refine="exact", tol=1e-6, **given).fit(X, y).certificate_
    assert cut.gap is not None
    assert cut.objective - exact.objective <= cut.gap + 1e-9 * abs(exact.objective)
