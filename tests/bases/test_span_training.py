"""Machines in the span of few vectors, held against exact SVMs of the kernel of that span."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.bases import span_training
from aesvm.bases.span_machine import SpanMachine
from aesvm.estimators.trained import TrainedOn
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import NuHinge, OneClass
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.objective import best_offsets, total_loss
from aesvm.formulations.tube import Tube
from tests import oracles
from tests.plans import set_limits, set_table

FAMILY = {
    "AESVC": (AESVC(C=2.0, gamma=1.0), SVC(C=2.0), Hinge()),
    "AENuSVC": (AENuSVC(nu=0.3, gamma=1.0), NuSVC(nu=0.3), NuHinge(0.3)),
    "AESVR": (AESVR(C=2.0, gamma=1.0), SVR(C=2.0), Tube(0.1, 1.0)),
    "AENuSVR": (AENuSVR(C=2.0, nu=0.4, gamma=1.0), NuSVR(C=2.0, nu=0.4), NuTube(1.0, nu=0.4)),
    "AEOneClassSVM": (AEOneClassSVM(nu=0.2, gamma=1.0), OneClassSVM(nu=0.2), OneClass(0.2)),
}
EACH = pytest.mark.parametrize("name", FAMILY)
#: The gap that solving in a span leaves, as a share of the objective.
SOLVED = 1e-3


@pytest.fixture
def small_steps(monkeypatch):
    """Pilots of some of the rows, solves of some first, and basis vectors a few at a time."""
    set_table(monkeypatch, pilot_rows=150, pilot_least=60)
    monkeypatch.setattr(span_training, "_FIRST_ROWS", 100)
    monkeypatch.setattr(span_training, "_FIRST_ROWS_PER_VECTOR", 1)
    monkeypatch.setattr(span_training, "_MOST_ADDED", 8)


@cache
def rows(n=500, seed=0):
    X, y = make_moons(n, noise=0.3, random_state=seed)
    return X, y, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * np.cos(40 * X[:, 1])


def targets_for(name, y, values):
    return values if "SVR" in name else y


def fitted(model, X, y, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(X, y, sample_weight=weights)


def costs_of(model, n, weights=None):
    weights = np.ones(n) if weights is None else weights
    return weights * (model.C if hasattr(model, "C") else 1.0)


def signed(model, y):
    """Targets as formulations have them."""
    if isinstance(model, AEOneClassSVM):
        return np.ones(len(y))
    if hasattr(model, "classes_"):
        return np.where(y == model.classes_[0], 1.0, -1.0)
    return np.asarray(y, dtype=float)


def objective_of(model, formulation, X, y, weights=None):
    """F1 of a model with one machine, in double precision, from the formulas."""
    (record,), (one,) = TrainedOn.of(model).records, model._model().expansions()
    coefs = one.coefs * formulation.decision(record.offsets).scale
    norm = coefs @ oracles.kernel(X[one.rows], gamma=model.gamma_) @ coefs
    scores = oracles.kernel(X, X[one.rows], gamma=model.gamma_) @ coefs
    targets, bounds = signed(model, y), costs_of(model, len(y), weights)
    return 0.5 * norm + loss(model, scores, targets, bounds, record.offsets)


def loss(model, scores, targets, bounds, offsets):
    total = bounds.sum()
    if isinstance(model, AESVC):
        return bounds @ np.maximum(0.0, 1.0 - targets * (scores + offsets[0]))
    if isinstance(model, AENuSVC):
        b, rho = 0.5 * (offsets[0] - offsets[1]), -0.5 * (offsets[0] + offsets[1])
        losses = np.maximum(0.0, rho - targets * (scores + b))
        return bounds @ losses - model.nu * total * rho
    if isinstance(model, AESVR):
        return bounds @ np.maximum(0.0, np.abs(scores + offsets[0] - targets) - model.epsilon)
    if isinstance(model, AENuSVR):
        b, epsilon = 0.5 * (offsets[1] - offsets[0]), 0.5 * (offsets[0] + offsets[1])
        losses = np.maximum(0.0, np.abs(scores + b - targets) - epsilon)
        return bounds @ losses + model.nu * total * epsilon
    return bounds @ np.maximum(0.0, -(scores + offsets[0])) + model.nu * total * offsets[0]


def kernel_of_span(X, basis, gamma):
    """Inner products of the rows' parts in the span of the basis."""
    K = oracles.kernel(X, basis, gamma=gamma)
    within = oracles.kernel(basis, gamma=gamma)
    return K @ np.linalg.lstsq(within, K.T, rcond=1e-13)[0]


def exact_in_span(name, model, X, y, weights=None):
    """scikit-learn's SVM of that kernel: scores, objective and decision values of all rows."""
    _, theirs, formulation = FAMILY[name]
    L = kernel_of_span(X, model.support_vectors_, model.gamma_)
    bounds = costs_of(model, len(y), weights)
    used = np.flatnonzero(bounds > 0)
    theirs = clone(theirs).set_params(kernel="precomputed", tol=1e-6)
    y = np.asarray(y)
    theirs.fit(
        L[np.ix_(used, used)],
        y[used],
        sample_weight=None if weights is None else np.asarray(weights)[used],
    )
    coefs = np.zeros(len(used))
    coefs[theirs.support_] = theirs.dual_coef_[0] * (-1.0 if "SVC" in name else 1.0)
    scale = 1.0
    if name == "AENuSVC":  # its model is divided by rho; multipliers come to nu times the costs
        scale = model.nu * bounds.sum() / np.abs(coefs).sum()
    coefs *= scale
    scores = L[np.ix_(used, used)] @ coefs
    targets = signed(model, y)[used]
    offsets = best_offsets(formulation, scores, targets, bounds[used])
    positions = formulation.positions(scores, targets, offsets)
    objective = 0.5 * coefs @ scores + total_loss(formulation, positions, bounds[used], offsets)
    decide = theirs.predict if "SVR" in name else theirs.decision_function
    return objective, decide(L[:, used])


def values_of(model, X):
    return model.predict(X) if isinstance(model, AESVR | AENuSVR) else model.decision_function(X)


CASES = {
    "plain": {},
    "weights": {"weighted": True},
    "sparse": {"sparse": True},
    "single": {"dtype": np.float32},
    "duplicates": {"twice": True, "weighted": True},
}


@EACH
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_exact_svm_of_the_kernel_of_the_span(name, case, small_steps):
    how = CASES[case]
    X, y, values = rows()
    y = targets_for(name, y, values)
    if "twice" in how:
        X, y = np.vstack([X, X[:200]]), np.append(y, y[:200])
    weights = None
    if "weighted" in how:
        weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(y))
    X = X.astype(how.get("dtype", float))
    given = sp.csr_array(X) if "sparse" in how else X
    model = fitted(clone(FAMILY[name][0]).set_params(max_vectors=25), given, y, weights)
    assert len(model.support_) <= 25
    dense = X.astype(float)
    vectors = model.support_vectors_
    vectors = vectors.toarray() if sp.issparse(vectors) else vectors
    np.testing.assert_array_equal(vectors, X[model.support_])
    best, decisions = exact_in_span(name, model, dense, y, weights)
    reached = objective_of(model, FAMILY[name][2], dense, y, weights)
    assert model.certificate_.objective == pytest.approx(reached, rel=1e-6)
    assert best - 1e-6 * abs(best) <= reached <= best + SOLVED * abs(best)
    difference = values_of(model, given) - decisions
    assert np.sqrt(np.square(difference).mean()) <= 0.03 * decisions.std()


@EACH
@pytest.mark.parametrize("steps", ["whole", "small_steps"])
def test_bounds_hold_before_and_after_certify(name, steps, request, monkeypatch):
    if steps == "small_steps":
        request.getfixturevalue(steps)
    X, y, values = rows()
    y = targets_for(name, y, values)
    model, _, formulation = FAMILY[name]
    exact = fitted(clone(model).set_params(refine="exact", tol=1e-6), X, y).certificate_
    small = fitted(clone(model).set_params(max_vectors=20), X, y)
    known = small.certificate_
    assert known.proven
    assert known.n_vectors == len(small.support_)
    assert known.n_solved == known.n_rows == len(X)
    slack = 1e-9 * abs(exact.objective)
    for certificate in (known, small.certify(X, y)):
        assert certificate.dual_objective <= exact.objective + slack
        assert exact.dual_objective <= certificate.objective + slack
        assert certificate.objective - certificate.gap <= exact.objective + slack
        assert certificate.reduced_objective == certificate.objective
    monkeypatch.setattr("aesvm.bases.span_machine.FREE", 0.0)
    late = fitted(clone(model).set_params(max_vectors=20), X, y)
    assert not late.certificate_.proven
    assert late.certificate_.gap is None
    assert late.certificate_.objective == pytest.approx(known.objective, rel=1e-5)
    assert "estimated" in str(late.certificate_)
    proven = late.certify(X, y)
    assert proven.proven
    assert proven.objective == pytest.approx(objective_of(late, formulation, X, y), rel=1e-8)
    assert proven.dual_objective == pytest.approx(known.dual_objective, rel=1e-6)


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("estimator", [AESVC(gamma=0.5), AENuSVC(nu=0.5, gamma=0.5)])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_every_pair_of_classes_is_an_exact_svm_in_its_span(
    estimator, kernel, n_classes, small_steps
):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 500)
    X = rng.normal(size=(500, 2)) + 2.5 * np.c_[y % 2, y // 2]
    weights = rng.choice([0.5, 1.0, 2.0], 500)
    model = fitted(clone(estimator).set_params(max_vectors=60, kernel=kernel), X, y, weights)
    assert model.n_support_.sum() == len(model.support_) <= 60
    pairs = list(combinations(range(n_classes), 2))
    expansions = list(model._model().expansions())
    formulation = Hinge() if isinstance(estimator, AESVC) else NuHinge(0.5)
    total = 0.0
    for (first, second), one, record in zip(
        pairs, expansions, TrainedOn.of(model).records, strict=True
    ):
        assert len(one.rows) > 0
        at = np.flatnonzero((y == first) | (y == second))
        K = oracles.kernel(X[at], X[one.rows], kernel=kernel, gamma=0.5)
        within = oracles.kernel(X[one.rows], kernel=kernel, gamma=0.5)
        signs = np.where(y[at] == first, 1.0, -1.0)
        coefs = one.coefs * formulation.decision(record.offsets).scale
        reached = 0.5 * coefs @ within @ coefs + loss(
            model, K @ coefs, signs, weights[at], record.offsets
        )
        total += reached
        L = K @ np.linalg.lstsq(within, K.T, rcond=1e-13)[0]
        theirs = (SVC if isinstance(estimator, AESVC) else NuSVC)(kernel="precomputed", tol=1e-6)
        if isinstance(estimator, AENuSVC):
            theirs.set_params(nu=0.5)
        theirs.fit(L, signs, sample_weight=weights[at])
        alpha = np.zeros(len(at))
        alpha[theirs.support_] = theirs.dual_coef_[0]
        if isinstance(estimator, AENuSVC):
            alpha *= 0.5 * weights[at].sum() / np.abs(alpha).sum()
        offsets = best_offsets(formulation, L @ alpha, signs, weights[at])
        best = 0.5 * alpha @ L @ alpha + loss(model, L @ alpha, signs, weights[at], offsets)
        assert best - 1e-6 * abs(best) <= reached <= best + 2 * SOLVED * abs(best)
    assert model.certificate_.objective == pytest.approx(total, rel=1e-6)


def test_sums_in_single_precision_are_precise_enough():
    X, y, _ = rows(2500)
    model = fitted(AESVC(C=2.0, gamma=1.0, max_vectors=30), X, y)
    best, decisions = exact_in_span("AESVC", model, X, y)
    reached = objective_of(model, Hinge(), X, y)
    assert reached == pytest.approx(model.certificate_.objective, rel=1e-8)
    assert best - 1e-6 * best <= reached <= best + SOLVED * best
    assert np.sqrt(np.square(model.decision_function(X) - decisions).mean()) <= 0.03


@EACH
def test_what_is_estimated_from_all_rows_is_what_is_proven(name, small_steps):
    for seed in range(4):
        X, y, values = rows(500, seed)
        y = targets_for(name, y, values)
        model = fitted(clone(FAMILY[name][0]).set_params(max_vectors=15), X, y)
        certificate = model.certificate_
        assert certificate.estimated_gap_error == 0.0
        assert certificate.estimated_gap == pytest.approx(certificate.relative_gap, abs=2e-5)
        # no more rows have multipliers than positions imply
        assert len(TrainedOn.of(model).multipliers.rows) < 450


@EACH
def test_estimates_are_as_near_as_they_say(name, small_steps, monkeypatch):
    monkeypatch.setattr(span_training, "_LEAST_CANDIDATES", 60)
    monkeypatch.setattr(span_training, "_CANDIDATES", 1)
    near = some = 0
    for seed in range(20):
        X, y, values = rows(500, seed)
        y = targets_for(name, y, values)
        model = fitted(clone(FAMILY[name][0]).set_params(max_vectors=15), X, y)
        certificate = model.certificate_
        off = abs(certificate.estimated_gap - certificate.relative_gap)
        some += certificate.estimated_gap_error > 1e-12
        near += off <= certificate.estimated_gap_error + 1e-6
    assert some >= 18
    assert near >= 16


@EACH
@pytest.mark.parametrize("steps", ["whole", "small_steps"])
def test_more_vectors_come_nearer(name, steps, request):
    if steps == "small_steps":
        request.getfixturevalue(steps)
    X, y, values = rows()
    y = targets_for(name, y, values)
    model = clone(FAMILY[name][0]).set_params(gap_tol=0.0)
    exact = fitted(clone(model).set_params(refine="exact", tol=1e-6), X, y).certificate_
    before = np.inf
    for n in (2, 8, 20, 60, 500):
        found = fitted(clone(model).set_params(max_vectors=n), X, y)
        assert len(found.support_) <= n
        objective = found.certificate_.objective
        assert objective <= before + SOLVED * abs(before) if before < np.inf else objective
        before = objective
    assert objective <= exact.objective + 2 * SOLVED * abs(exact.objective)


@EACH
def test_where_there_are_vectors_enough_the_gap_is_nearly_what_was_asked_for(name, small_steps):
    X, y, values = rows()
    y = targets_for(name, y, values)
    model = clone(FAMILY[name][0]).set_params(max_vectors=400, gap_tol=5e-3)
    found = fitted(model, X, y)
    # it is asked before the last solve, and of objectives that still fall
    assert found.certificate_.relative_gap <= 2 * 5e-3
    fewer = fitted(clone(model).set_params(gap_tol=0.1), X, y)
    assert len(fewer.support_) <= len(found.support_) < 400


def test_a_rare_class_that_no_pilot_has_seen_is_learned(small_steps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.zeros(2000, dtype=int)
    y[:4] = 1
    X[:4] += 5.0
    model = fitted(AESVC(C=100.0, gamma=0.2, max_vectors=30), X, y)
    assert model.score(X, y) > 0.999
    assert (model.predict(X[:4]) == 1).all()


def test_a_class_of_one_row_among_three_is_learned(small_steps):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.arange(600) % 2
    X[:, 0] += 3 * y
    X[0], y[0] = (9.0, 9.0), 2
    model = fitted(AESVC(C=10.0, gamma=0.2, max_vectors=40), X, y)
    assert model.predict(X[:1])[0] == 2
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("kernel", ["precomputed", "callable", "poly", "linear"])
def test_any_definite_kernel_will_do(kernel, small_steps):
    X, y, _ = rows()
    model = AESVC(kernel=kernel, gamma=1.0, coef0=1.0, max_vectors=20)
    given = X
    if kernel == "precomputed":
        given = oracles.kernel(X, gamma=1.0)
    elif kernel == "callable":
        model.set_params(kernel=lambda A, B: oracles.kernel(A, B, gamma=1.0))
    model = fitted(model, given, y)
    whole = fitted(clone(model).set_params(max_vectors=None, refine="exact"), given, y)
    assert len(model.support_) <= 20
    assert whole.certificate_.dual_objective <= model.certificate_.objective
    assert np.mean(model.predict(given) == whole.predict(given)) > 0.97


def test_a_kernel_that_is_not_definite_after_all_gives_a_model():
    X, y, _ = rows()
    model = fitted(AESVC(kernel="precomputed", max_vectors=30), np.tanh(X @ X.T - 1.0), y)
    assert np.isfinite(model.decision_function(np.tanh(X @ X.T - 1.0))).all()


@EACH
@pytest.mark.parametrize("memory_budget", [1, 20_000])
def test_values_that_are_not_held_change_nothing_but_rounding(name, memory_budget, small_steps):
    X, y, values = rows()
    y = targets_for(name, y, values)
    model = clone(FAMILY[name][0]).set_params(max_vectors=20)
    free = fitted(model, X, y)
    bound = fitted(clone(model).set_params(memory_budget=memory_budget), X, y)
    np.testing.assert_array_equal(bound.support_, free.support_)
    np.testing.assert_allclose(values_of(bound, X), values_of(free, X), atol=1e-6)


@EACH
def test_the_number_of_threads_changes_nothing(name, small_steps):
    X, y, values = rows()
    y = targets_for(name, y, values)
    model = clone(FAMILY[name][0]).set_params(max_vectors=20)
    one = fitted(model, X, y)
    for n_jobs in (2, 3):
        other = fitted(clone(model).set_params(n_jobs=n_jobs), X, y)
        np.testing.assert_array_equal(one.support_, other.support_)
        np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(one.intercept_, other.intercept_)
        assert one.certificate_ == other.certificate_


@pytest.mark.parametrize("C", [0.1, 2.0, 50.0])
@pytest.mark.parametrize("n_vectors", [5, 20])
def test_the_gap_is_half_of_what_the_span_lacks_and_rounding_off(C, n_vectors, small_steps):
    X, y, _ = rows()
    model = fitted(AESVC(C=C, gamma=1.0, max_vectors=n_vectors), X, y)
    _, at, coefs = TrainedOn.of(model).multipliers
    assert (np.abs(coefs) <= C * (1 + 1e-12)).all()
    assert abs(coefs.sum()) <= 1e-9 * np.abs(coefs).sum()
    K = oracles.kernel(X, gamma=1.0)
    (one,) = model._model().expansions()
    apart = np.zeros(len(X))
    apart[at] += coefs
    apart[one.rows] -= one.coefs
    lacking = apart @ K @ apart  # |g - w|^2
    certificate = model.certificate_
    assert certificate.gap <= 0.5 * lacking + SOLVED * certificate.objective
    # the dual is that of the best multiple, which is better than that of the multipliers
    if 0.5 * lacking < 0.1 * certificate.objective:
        assert certificate.gap >= 0.45 * lacking - SOLVED * certificate.objective
    outside = coefs @ (K[np.ix_(at, at)] - kernel_of_span(X[at], X[one.rows], 1.0)) @ coefs
    # and w nearly the part of g in the span
    slack = SOLVED * (4 * certificate.objective + outside)
    assert outside * (1 - 1e-6) <= lacking <= outside + slack


@EACH
def test_multipliers_settle_where_kernel_values_are_not_held(name, small_steps, monkeypatch):
    """The part of ``sum_i coef_i phi(x_i)`` in the span is w, but for what a solve may lack."""
    X, y, values = rows()
    y = targets_for(name, y, values)
    monkeypatch.setattr("aesvm.bases.span_machine._LEAST_FIT", 150)
    model = clone(FAMILY[name][0]).set_params(max_vectors=40, memory_budget=100)
    model = fitted(model, X, y)
    known, certificate = TrainedOn.of(model), model.certificate_
    (one,) = model._model().expansions()
    coefs = one.coefs * FAMILY[name][2].decision(next(iter(known.records)).offsets).scale
    within = oracles.kernel(X[one.rows], gamma=1.0)
    at_basis = oracles.kernel(X[one.rows], X[known.multipliers.rows], gamma=1.0)
    left = at_basis @ known.multipliers.coefs - within @ coefs
    assert certificate.n_rows == len(X)
    lacks = 0.5 * left @ np.linalg.lstsq(within, left, rcond=1e-13)[0]
    assert lacks <= SOLVED * abs(certificate.objective)
    best, _ = exact_in_span(name, model, X, y)
    assert certificate.objective <= best + SOLVED * abs(best)


def test_a_fit_that_ends_before_it_has_seen_all_rows_knows_so(small_steps, monkeypatch):
    X, y, _ = rows()
    monkeypatch.setattr("aesvm.bases.span_machine._LEAST_FIT", 150)
    solve = SpanMachine.solve

    def of_some(self, widths, progress, n_rows, to_the_end):
        if n_rows < len(X):
            solve(self, widths, progress, n_rows, to_the_end)

    with monkeypatch.context() as patch:
        patch.setattr(SpanMachine, "solve", of_some)
        model = fitted(AESVC(gamma=1.0, max_vectors=20, memory_budget=100), X, y)
    assert model.certificate_.objective is None
    assert model.certificate_.estimated_gap is None
    certificate = model.certify(X, y)
    assert certificate.objective == pytest.approx(
        fitted(AESVC(gamma=1.0, max_vectors=20), X, y).certificate_.objective, rel=0.05
    )
    assert certificate.dual_objective <= certificate.objective


@pytest.fixture
def eager_auto(small_steps, monkeypatch):
    """Few rows are many: the exact SVM is out of reach, and spans are small."""
    set_limits(monkeypatch, exact=10.0, machine_in_span=0.0)
    set_table(monkeypatch, span_vectors=45, least_vectors=1)
    monkeypatch.setattr(span_training, "_STEP", 15)


def test_auto_trains_in_a_span_where_few_vectors_carry_a_sample(eager_auto, capsys):
    X, y, _ = rows(1500)
    model = fitted(AESVC(gamma=1.0, subset_size=100, verbose=1), X, y)
    assert model.certificate_.n_vectors == len(model.support_) <= 90
    assert "vectors carry" in capsys.readouterr().out
    exact = fitted(AESVC(gamma=1.0, refine="exact"), X, y)
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.98


def test_auto_trains_pairs_of_classes_in_a_span_too(eager_auto, capsys):
    X, y, _ = rows(3000)
    y = (y + (np.arange(3000) % 5 == 0)) % 3
    model = fitted(AESVC(gamma=1.0, subset_size=100, verbose=1), X, y)
    assert model.certificate_.n_vectors == len(model.support_) <= 90
    assert "3 pairs of classes, each of" in capsys.readouterr().out
    exact = fitted(AESVC(gamma=1.0, refine="exact"), X, y)
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.97


def test_auto_does_not_where_every_vector_has_a_direction_of_its_own(eager_auto, capsys):
    X, y, _ = rows(1500)
    model = fitted(AESVC(gamma=3000.0, subset_size=100, verbose=1), X, y)
    assert model.certificate_.n_vectors is None
    assert "few vectors" not in capsys.readouterr().out


def test_auto_judges_a_span_by_what_it_adds_to_the_objective_and_by_what_it_leaves_of_w(
    eager_auto, monkeypatch
):
    X, y, _ = rows(1500)
    model = AESVC(C=0.01, gamma=100.0, subset_size=100)
    assert fitted(model, X, y).certificate_.n_vectors is None
    # of such a C nearly all is losses: hardly anything is added to the objective
    set_table(monkeypatch, left_of_norm=1.0)
    assert fitted(model, X, y).certificate_.n_vectors is not None
    set_table(monkeypatch, left=1e-9)
    assert fitted(model, X, y).certificate_.n_vectors is None


def test_auto_does_not_ask_where_there_is_little_to_each_machine(eager_auto, monkeypatch, capsys):
    X, y, _ = rows(1500)
    set_limits(monkeypatch, machine_in_span=1e8)
    model = fitted(AESVC(gamma=1.0, subset_size=100, verbose=1), X, y)
    assert model.certificate_.n_vectors is None
    assert "few vectors" not in capsys.readouterr().out


def test_auto_does_not_where_the_exact_svm_takes_less_time_than_a_span(
    eager_auto, monkeypatch, capsys
):
    X, y, _ = rows(1500)
    for pays in (20.0, 0.01):
        set_table(monkeypatch, span_pays=pays)
        model = fitted(AESVC(gamma=1.0, subset_size=100, verbose=1), X, y)
        assert (model.certificate_.n_vectors is None) == (pays < 1.0)


def test_a_memory_budget_is_kept(small_steps, monkeypatch):
    """All that a fit takes beside its rows: kernel values held, and what it works with."""
    set_table(monkeypatch, pilot_rows=400)
    for name, value in {"_MOST_ADDED": 150, "_LEAST_CANDIDATES": 600}.items():
        monkeypatch.setattr(span_training, name, value)
    X, y = make_moons(12_000, noise=0.3, random_state=0)
    budget = 20e6  # where all kernel values are held, it takes 24e6
    model = AESVC(gamma=20.0, max_vectors=300, gap_tol=1e-9, memory_budget=int(budget))
    fitted(model, X[:2000], y[:2000])  # what is compiled or imported once is not the fit's
    tracemalloc.start()
    try:
        fitted(model, X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= budget
