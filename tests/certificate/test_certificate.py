"""Certificates are theorems, rounding included: held against optima of independent origin."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification, make_moons
from sklearn.svm import SVC

from aesvm import AESVC, AENuSVC
from aesvm.certificate.certificate import _estimated_gap, certificate_of
from aesvm.certificate.records import Record, Records
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.objective import best_offsets
from aesvm.kernels import DEFINITE, kernel_matrix
from aesvm.machines import rounds
from aesvm.solver.smo import minimize
from tests import oracles


def objective(coefs, vectors, offset, X, signs, bounds, **kernel):
    """F1 in double precision, from the formula."""
    norm = coefs @ oracles.kernel(vectors, **kernel) @ coefs
    values = oracles.kernel(X, vectors, **kernel) @ coefs + offset
    return 0.5 * norm + bounds @ np.maximum(0.0, 1.0 - signs * values)


def objective_of(model, X, y, bounds, **kernel):
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    coefs = model.dual_coef_[0]
    return objective(coefs, model.support_vectors_, model.intercept_[0], X, signs, bounds, **kernel)


@cache
def many_rows():
    """More than are solved in double precision."""
    return make_moons(3000, noise=0.3, random_state=0)


@cache
def optimum(C, gamma):
    """At most this is the least F1: what the solver reaches in double precision at tol=1e-7."""
    X, y = many_rows()
    signs, bounds = np.where(y == 1, 1.0, -1.0), np.full(len(y), C)
    matrix = kernel_matrix(X, gamma=gamma)
    solution = minimize(matrix, np.arange(len(y)), signs, -np.ones(len(y)), bounds, tol=1e-7)
    coefs = signs * solution.alpha
    (offset,) = best_offsets(Hinge(), solution.scores, signs, bounds)
    return objective(coefs, X, offset, X, signs, bounds, gamma=gamma)


@pytest.mark.parametrize("refine", [0, 1, "exact"])
@pytest.mark.parametrize("C", [1.0, 10.0, 300.0])
def test_bounds_hold_though_training_is_in_single_precision(C, refine):
    X, y = many_rows()
    model = AESVC(C=C, gamma=1.0, refine=refine, subset_size=500).fit(X, y)
    certificate = model.certificate_
    true, best = objective_of(model, X, y, np.full(len(y), C), gamma=1.0), optimum(C, 1.0)
    assert certificate.objective == pytest.approx(true, rel=1e-8)
    assert certificate.dual_objective <= best * (1 + 1e-10)
    assert certificate.gap >= true - best - 1e-10 * best


@pytest.mark.parametrize("refine", [0, 1, 2, "exact"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4, 1e8, 1e10, 1e12])
def test_the_objective_is_right_however_large_multipliers_once_were(C, refine):
    X, y = make_moons(1500, noise=0.05, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AESVC(C=C, gamma=5.0, refine=refine, subset_size=300).fit(X, y)
        certificate = model.certify(X, y)
    true = objective_of(model, X, y, np.full(len(y), C), gamma=5.0)
    assert certificate.objective == pytest.approx(true, rel=1e-6)
    assert certificate.gap >= certificate.objective - certificate.dual_objective


@given(
    st.integers(0, 10**6),
    st.sampled_from([1e-3, 1.0, 1e3, 1e6, 1e12]),
    st.sampled_from([0.0, 3.0, 9.0]),
    st.sampled_from(["rbf", "linear", "poly"]),
    st.sampled_from([0, 1, 2, "exact", "auto"]),
)
@settings(max_examples=25)
def test_the_dual_is_nowhere_above_an_attained_objective(seed, C, decades, kernel, refine):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 160))
    X = rng.uniform(size=(n, 2))
    y = (X[:, 0] + 0.15 * rng.normal(size=n) > 0.5).astype(int)
    y[:2] = 0, 1
    weights = 10.0 ** rng.uniform(-decades, 0.0, n)
    parameters = {"kernel": kernel, "gamma": 2.0, "coef0": 1.0}
    model = AESVC(C=C, refine=refine, subset_size=40, hull_tol=1e-2, **parameters)
    model.set_params(max_iter=200_000)  # bounds hold wherever a solve ends
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sample_weight=weights)
        certificate = model.certify(X, y, weights)
        theirs = SVC(C=C, tol=1e-6, max_iter=200_000, **parameters)
        theirs.fit(X, y, sample_weight=weights)
    attained = [objective_of(one, X, y, C * weights, **parameters) for one in (model, theirs)]
    slack = 1 + 1e-9
    assert certificate.dual_objective <= min(attained) * slack
    assert attained[0] - certificate.gap <= min(attained) * slack
    # of sums that cancel, no order of summation gives the digits of another
    rounding = model._trained_on_["records"]["proof_rounding"][0]
    assert abs(certificate.objective - attained[0]) <= 1e-6 * attained[0] + 2.0 * rounding
    assert certificate.gap >= rounding


def test_what_would_take_long_in_double_precision_is_an_estimate_until_certified(monkeypatch):
    X, y = many_rows()
    assert AESVC(gamma=1.0, refine="exact").fit(X, y).certificate_.proven
    monkeypatch.setattr("aesvm.machines.rounds.FREE", 0.0)
    model = AESVC(gamma=1.0, refine="exact").fit(X, y)
    assert model.certificate_.exact
    assert not model.certificate_.proven
    assert model.certificate_.relative_gap < 1e-3
    assert "not proven" in str(model.certificate_)
    certificate = model.certify(X, y)
    assert certificate.proven
    assert "not proven" not in str(certificate)
    assert 0.0 < certificate.relative_gap < 1e-3


def test_rows_are_counted_once_however_many_pairs_of_classes_they_are_in():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 800)
    X = rng.normal(size=(800, 2)) + y[:, None]
    certificate = AESVC(gamma=1.0).fit(np.vstack([X, X]), np.append(y, y)).certificate_
    assert (certificate.n_solved, certificate.n_rows) == (800, 800)
    reduced = AESVC(gamma=1.0, refine=0, subset_size=200).fit(X, y)
    chosen = reduced.representative_set_.sample_indices_
    assert reduced.certificate_.n_solved == len(chosen) < reduced.certificate_.n_rows == 800
    streamed = AESVC(gamma=1.0, refine=0).fit_stream([(X, y, None)]).certificate_
    assert streamed.n_solved <= streamed.n_rows == 800


def test_an_exact_certificate_has_the_hull_tol_that_was_set():
    X, y = make_moons(300, noise=0.2, random_state=0)
    certificate = AESVC(gamma=1.0, hull_tol=0.02).fit(X, y).certificate_
    assert (certificate.exact, certificate.hull_tol) == (True, 0.02)
    assert "hull tolerance" not in str(certificate)  # for every row stands for itself


def test_it_is_said_that_rounds_ended_while_they_still_changed_predictions(monkeypatch):
    monkeypatch.setattr("aesvm.machines.rounds.FREE", 0)  # no gap, as of large data
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    X = rng.normal(size=(3000, 3)) + 0.4 * y[:, None]
    with pytest.warns(UserWarning, match=r"may be far .* the last round changed \d.*refine=2"):
        model = AESVC(gamma=1.0, C=10.0, refine=1, hull_tol=0.05).fit(X, y)
    certificate = model.certificate_
    assert certificate.relative_gap is None
    assert certificate.changed > 0.01
    assert "may be far from the exact SVM" in str(certificate)


def test_a_large_gap_is_warned_of():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    for parameters in (
        {"gamma": 1.0, "refine": 1, "hull_tol": 0.05},
        {"kernel": "linear", "refine": 0},
    ):
        with pytest.warns(UserWarning, match="its objective may be"):
            AESVC(**parameters).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AESVC(gamma=1.0).fit(X, y)


def test_of_the_set_alone_a_gap_that_is_usual_is_said_but_not_warned_of():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AESVC(gamma=1.0, refine=0, hull_tol=1e-3).fit(X, y)
    assert 0.1 < model.certificate_.relative_gap < 0.5
    assert "may be far from the exact SVM" in str(model.certificate_)


def test_of_the_set_alone_an_objective_that_may_be_twice_the_optimum_is_warned_of():
    X, y = make_classification(5000, 20, flip_y=0.2, random_state=0)
    with pytest.warns(UserWarning, match="may be far from the exact SVM: its objective may be"):
        model = AESVC(kernel="linear", refine=0, C=30.0, hull_tol=0.1).fit(X, y)
    assert 0.5 < model.certificate_.relative_gap < 1.0


def test_plain_values_have_the_gap_of_every_step():
    X, y = make_moons(500, noise=0.3, random_state=0)
    certificate = AESVC(gamma=1.0, refine=1, subset_size=50).fit(X, y).certificate_
    steps = certificate.as_dict()["history"]
    assert [one["relative_gap"] for one in steps] == [
        one.relative_gap for one in certificate.history
    ]
    assert len(steps) > 1


def test_a_file_of_a_model_needs_no_types_but_those_of_estimators():
    import skops.io

    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0, refine=1).fit(X, y)
    file = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=file)
    assert types == ["aesvm.representative_set.RepresentativeSet", "aesvm.svc.AESVC"]
    loaded = skops.io.loads(file, trusted=types)
    assert loaded.certificate_ == model.certificate_
    assert loaded.certify(X, y) == model.certify(X, y)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_an_exact_model_that_is_far_from_the_optimum_says_so():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(UserWarning, match='its objective may be .* refine="exact"'):
        model = AESVC(gamma=1.0, C=1e8).fit(X, np.sign(X[:, 0]))
    assert model.certificate_.exact
    assert "may be far" in str(model.certificate_)


def record(objective, dual, rounding=0.0):
    """Of a pair with such numbers."""
    return replace(
        Record.of_nothing(),
        n_rows=10,
        total_cost=10.0,
        loss=objective,
        loss_reduced=objective,
        dual_objective=dual,
        proof_rounding=rounding,
    )


def certificate_of_pairs(*records):
    return certificate_of(Records.of(records), 10, 10, 1e-3, DEFINITE)


def test_a_bad_pair_does_not_hide_among_good_ones():
    good, bad = record(1000.0, 999.99), record(0.5, 0.2)
    certificate = certificate_of_pairs(good, bad, good)
    assert certificate.relative_gap < 1e-3
    assert certificate.worst_pair_gap == pytest.approx(0.6)
    assert "of a pair of classes may be 150% above the exact SVM's" in certificate.caveat()
    assert "gap of the worst pair of classes    0.6" in str(certificate)
    assert certificate.as_dict()["worst_pair_gap"] == certificate.worst_pair_gap
    of_nu = certificate_of_pairs(record(-9.0, -9.001), record(-0.01, -0.02))
    assert of_nu.worst_pair_gap == pytest.approx(1.0)
    assert not certificate_of_pairs(good, good).caveat()


def test_of_one_machine_the_worst_pair_says_nothing_more():
    certificate = certificate_of_pairs(record(10.0, 9.9, rounding=1e-3))
    assert certificate.worst_pair_gap == certificate.relative_gap == pytest.approx(0.0101)
    assert "worst pair" not in str(certificate)
    missing = certificate_of_pairs(record(10.0, None), record(10.0, 9.9))
    assert missing.worst_pair_gap is None
    assert missing.missing["worst_pair_gap"] == missing.missing["gap"]
    assert "worst pair" not in str(missing)


def test_a_pair_that_leaves_nothing_to_learn_is_no_bad_pair():
    good = record(1.0, 0.999)
    for nothing in (Record.of_nothing(), record(-1e-14, -2e-14, rounding=1e-13)):
        assert certificate_of_pairs(good, nothing).worst_pair_gap == pytest.approx(1e-3)
    for unknown in (record(1e-9, -1e-4, rounding=1e-13), record(0.0, -1e-4)):
        assert certificate_of_pairs(good, unknown).worst_pair_gap > 1e3


def test_the_pair_that_nu_leaves_no_margin_is_said():
    """Two of three classes are one cloud, and far from the third: their objective is tiny."""
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    X = rng.normal(size=(900, 2)) + np.where(y == 2, 8.0, 0.0)[:, None]
    with pytest.warns(UserWarning, match="nu=0.2 seems too small .* in 1 of 3 pairs"):
        model = AENuSVC(nu=0.2, gamma=0.1).fit(X, y)
    certificate = model.certificate_
    assert certificate.relative_gap < 0.1 < certificate.worst_pair_gap


def test_a_far_row_does_not_spoil_the_certificate():
    """Its kernel values are computed from differences, and rounded no more than others."""
    X, y = make_moons(300, noise=0.2, random_state=0)
    X[0] = 1e6
    model = AESVC(gamma=1.0, refine="exact").fit(X, y)
    assert model.certificate_.proven
    assert model.certificate_.relative_gap <= 1.01e-3
    svc = SVC(gamma=1.0, tol=1e-6).fit(X, y)
    exact = objective(
        svc.dual_coef_[0],
        svc.support_vectors_,
        svc.intercept_[0],
        X,
        np.where(y == 1, 1.0, -1.0),
        np.ones(300),
        gamma=1.0,
    )
    assert model.certificate_.dual_objective <= exact * (1.0 + 1e-9)


def test_a_gap_that_rounding_hides_is_not_called_zero():
    hidden = record(1.5, 0.0, rounding=1e6)
    gaps = Records.of([hidden, Record.of_nothing()]).relative_gaps()
    assert gaps.tolist() == [pytest.approx((1.5 + 1e6) / 1.5), 0.0]


def exact_objective(model, X, signs, bounds):
    """F1 of a linear model and the best offset for it, free of rounding."""
    vectors = [[Fraction(v) for v in row] for row in model.support_vectors_.tolist()]
    coefs = [Fraction(v) for v in model.dual_coef_[0].tolist()]
    w = [sum(c * v[k] for c, v in zip(coefs, vectors, strict=True)) for k in range(X.shape[1])]
    scores = [sum(a * Fraction(b) for a, b in zip(w, row, strict=True)) for row in X.tolist()]
    half = sum(a * a for a in w) / 2

    def at(offset):
        each = zip(signs, scores, bounds, strict=True)
        return half + sum(c * max(Fraction(0), 1 - s * (f + offset)) for s, f, c in each)

    kinks = [s - f for s, f in zip(signs, scores, strict=True)]
    return at(Fraction(float(model.intercept_[0]))), min(at(kink) for kink in kinks)


@pytest.mark.parametrize("C", [1e-300, 1e-100, 1e-6, 1.0])
@pytest.mark.parametrize("refine", [0, "exact"])
def test_no_bound_is_below_what_rounding_of_its_sums_may_come_to(C, refine):
    for seed in range(4):
        draw = np.random.default_rng(seed)
        X, y = draw.normal(size=(40, 2)), draw.integers(2, size=40)
        weights = draw.random(40) * 10.0 ** draw.integers(-3, 3, size=40)
        options = {"C": C, "kernel": "linear"}
        model = AESVC(**options, refine=refine, hull_tol=1e-2, subset_size=10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, sample_weight=weights)
            other = AESVC(**options, tol=1e-9).fit(X, y, sample_weight=weights)
        signs = [1 if one else -1 for one in y.tolist()]
        bounds = [Fraction(C) * Fraction(weight) for weight in weights.tolist()]
        objective, best = exact_objective(model, X, signs, bounds)
        lowest = min(best, exact_objective(other, X, signs, bounds)[1])
        lowest = min(
            lowest,
            *(
                2 * sum(c for c, s in zip(bounds, signs, strict=True) if s == side)
                for side in (1, -1)
            ),
        )
        for certificate in (model.certificate_, model.certify(X, y, sample_weight=weights)):
            assert certificate.proven
            assert Fraction(certificate.dual_objective) <= lowest
            assert objective - lowest <= Fraction(certificate.gap)
            assert certificate.relative_gap >= np.finfo(float).eps


@pytest.mark.parametrize("refine", [0, "exact"])
def test_the_objective_of_an_indefinite_kernel_is_that_of_the_formula(refine):
    X, y = make_moons(300, noise=0.3, random_state=0)
    kernel = {"kernel": "sigmoid", "gamma": 2.0}
    model = AESVC(**kernel, refine=refine).fit(X, y)
    certificate = model.certify(X, y)
    vectors = model.support_vectors_
    assert model.dual_coef_[0] @ oracles.kernel(vectors, **kernel) @ model.dual_coef_[0] < 0
    expected = objective_of(model, X, y, np.ones(300), **kernel)
    assert certificate.objective == pytest.approx(expected, rel=1e-6)
    if refine == "exact":
        assert certificate.reduced_objective == pytest.approx(expected, rel=1e-6)
        assert certificate.history[-1].objective == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("refine", [0, 1, "exact"])
@pytest.mark.parametrize("scale", [1.0, 10.0, 30.0, 80.0])
def test_theorem_2_counts_the_rounding_of_large_kernel_values(scale, refine):
    """F1, computed with more digits, is at most F2 and the bound: to the last digit."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = scale * rng.normal(size=(150, 2))
        y = (X[:, 0] + 0.5 * scale * rng.normal(size=150) > 0).astype(int)
        kernel = {"kernel": "poly", "degree": 3, "gamma": 0.5, "coef0": 1.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AESVC(refine=refine, subset_size=30, max_iter=2000, **kernel).fit(X, y)
        certificate, wide = model.certificate_, X.astype(np.longdouble)
        vectors, coefs = wide[model.support_], model.dual_coef_[0].astype(np.longdouble)

        def values(rows, vectors=vectors, coefs=coefs):
            return (0.5 * (rows @ vectors.T) + 1.0) ** 3 @ coefs

        losses = 1.0 - np.where(y == 1, 1, -1) * (values(wide) + model.intercept_[0])
        objective = 0.5 * coefs @ values(vectors) + np.maximum(0.0, losses).sum()
        assert objective <= certificate.reduced_objective + np.longdouble(
            certificate.theorem_2_bound
        )


def test_certificates_of_wide_rows_are_computed_where_they_take_as_little_time(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 600)), np.repeat([0, 1], 150)
    X[:, 0] += 2.0 * y
    monkeypatch.setattr(rounds, "FREE", 3.0 * len(y) ** 2)  # of a narrow one, enough for two
    for n_features, is_proven in ((20, True), (600, False)):
        model = AESVC(refine="exact").fit(X[:, :n_features], y)
        assert model.certificate_.proven == is_proven
    assert model.certify(X, y).proven


def test_a_gap_is_estimated_where_some_pairs_are_exact_and_others_of_samples():
    """Objectives are 3 and 5 and the duals 3 and 4, one of them estimated; one pair has no rows."""
    exact = Record(n_rows=10, squared_norm=4.0, loss=1.0, dual_objective=3.0)
    sampled = Record(
        exact=False,
        n_rows=90,
        squared_norm=2.0,
        estimated_loss=4.0,
        estimated_dual=4.0,
        estimated_error=0.8,
    )
    nothing = Record(loss=0.0, dual_objective=0.0)
    gap, error = _estimated_gap(Records.of([exact, sampled, nothing]))
    assert gap == pytest.approx(1.0 / 8.0)
    assert error == pytest.approx(0.1)
