"""CPSP against the exact SVM without an offset, and what scikit-learn expects of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aesvm.kernels import kernel_matrix
from experiments.rivals import CPSP
from experiments.rivals.cpsp import _solve
from experiments.rivals.preimage import Residual, Side, Subspace, fixed_points, pursue
from tests import oracles
from tests.runtime.test_progress import Recorder


@pytest.mark.weekly
@parametrize_with_checks([CPSP(n_basis=20)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(3000, noise=0.25, random_state=0)
    return X, y


def svm_without_offset(K, signs, C):
    """Its optimal value: a dual without an equation."""
    n = len(signs)
    no_groups = np.empty(0)
    return -oracles.svm_dual(K, signs, -np.ones(n), np.full(n, C), no_groups, np.full(n, C / 2))


def primal(model, X, y, **kernel):
    """The objective, from the fitted attributes alone."""
    coefs = model.basis_coef_[0]
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    values = oracles.kernel(X, model.basis_, **kernel) @ coefs
    norm = coefs @ oracles.kernel(model.basis_, **kernel) @ coefs
    return 0.5 * norm + model.C * np.maximum(0.0, 1.0 - signs * values).sum()


@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "rbf", "gamma": 2.0},
        {"kernel": "poly", "gamma": 1.0, "degree": 3, "coef0": 1.0},
        {"kernel": "linear"},
    ],
    ids=lambda kernel: kernel["kernel"],
)
@pytest.mark.parametrize("basis", ["fixed_point", "rows"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_with_as_many_basis_vectors_as_rows_it_is_the_exact_svm(moons, kernel, basis, C):
    X, y = moons[0][:50], moons[1][:50]
    tol = 1e-4
    model = CPSP(C=C, n_basis=50, basis=basis, tol=tol, random_state=0, **kernel).fit(X, y)
    exact = svm_without_offset(oracles.kernel(X, **kernel), np.where(y == 1, 1.0, -1.0), C)
    assert model.fit_status_ == 0
    assert exact * (1 - 1e-6) <= model.objective_[0] <= exact + 3 * tol * C * len(y)
    assert_allclose(model.objective_[0], primal(model, X, y, **kernel), rtol=1e-6)


@pytest.mark.parametrize("basis", ["fixed_point", "rows"])
def test_the_objective_falls_as_the_basis_grows(moons, basis):
    X, y = moons
    objectives = []
    for n_basis in (2, 5, 10, 20, 40):
        model = CPSP(gamma=5.0, n_basis=n_basis, basis=basis, random_state=0).fit(X, y)
        assert model.n_basis_ <= n_basis
        assert_allclose(model.objective_[0], primal(model, X, y, gamma=5.0), rtol=1e-3)
        objectives.append(model.objective_[0])
    assert (np.diff(objectives) < model.tol * model.C * len(y)).all()
    assert objectives[-1] < 0.8 * objectives[0]


def test_few_fixed_points_are_worth_more_than_as_many_rows(moons):
    X, y = moons
    objectives = {
        basis: np.mean(
            [
                CPSP(gamma=5.0, n_basis=8, basis=basis, random_state=seed).fit(X, y).objective_[0]
                for seed in range(3)
            ]
        )
        for basis in ("fixed_point", "rows")
    }
    assert objectives["fixed_point"] < objectives["rows"]


@pytest.mark.parametrize("sparse", [False, True])
def test_fixed_points_hold_more_of_the_residual_than_their_starts(sparse):
    rng = np.random.default_rng(0)
    X, basis, starts = rng.normal(size=(300, 4)), rng.normal(size=(5, 4)), rng.normal(size=(40, 4))
    weights, coefs = rng.normal(size=300) + 0.3, rng.normal(size=5)

    def r(points):
        return oracles.kernel(points, X) @ weights + oracles.kernel(points, basis) @ coefs

    def side(vectors, weights):
        columns = kernel_matrix(vectors, gamma=1.0).columns(np.arange(len(weights)))
        return Side(columns, vectors, weights)

    residual = Residual(side(sp.csr_array(X) if sparse else X, weights), side(basis, coefs))
    assert_allclose(residual.at(starts), r(starts), atol=1e-10)
    found = fixed_points(residual, starts)
    before, after = r(starts), r(found)
    assert (before * after > 0).all()
    assert (np.abs(after) >= np.abs(before)).all()
    assert np.median(after / before) > 1.2
    values, pulls = residual.pull(found)
    moves = np.linalg.norm(pulls / values[:, None] - found, axis=1)
    assert np.median(moves) < 0.1 * np.median(np.linalg.norm(found - starts, axis=1))


def test_pursuit_takes_what_gains_most_and_never_the_same_twice():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    X = np.vstack([X, X[:4]])
    K = oracles.kernel(X, gamma=0.5)
    target = rng.normal(size=16)
    values = K @ target
    chosen, factor = pursue(values, np.empty((0, 16)), K, 16, 1e-10)
    assert len(chosen) == len({at % 12 for at in chosen}) == 12
    assert_allclose(factor @ factor.T, K[np.ix_(chosen, chosen)], atol=1e-10)

    def rest(members):
        coefs = np.linalg.lstsq(K[np.ix_(members, members)], values[members], rcond=None)[0]
        return target @ K @ target - coefs @ values[members]

    for size in range(1, 5):
        others = [rest([*chosen[: size - 1], at]) for at in range(12) if at not in chosen[:size]]
        assert rest(chosen[:size]) <= min(others) + 1e-9


def test_coordinates_in_the_span_are_products():
    X = make_moons(60, noise=0.1, random_state=0)[0]
    random = np.random.RandomState(0)
    span = Subspace(lambda V, dtype: kernel_matrix(V, gamma=1.0, dtype=dtype), X, 10, True)
    weights = random.normal(size=60)
    for _ in range(3):
        projection = span.solved(span.products([weights])[:, 0]) if span.size else np.zeros(0)
        assert span.grow(weights, projection, 3, random)
    assert span.size == 9
    gram = oracles.kernel(span.vectors, gamma=1.0)
    assert_allclose(span.factor[:9, :9] @ span.factor[:9, :9].T, gram, atol=1e-10)
    w = random.normal(size=9)
    assert_allclose(w @ w, span.coefs(w) @ gram @ span.coefs(w))
    values = oracles.kernel(X, span.vectors, gamma=1.0)
    assert_allclose(span.scores(w), values @ span.coefs(w), atol=1e-8)
    assert_allclose(span.products([weights], 4)[:, 0], values[:, 4:].T @ weights, atol=1e-8)
    projection = span.solved(span.products([weights])[:, 0])
    assert not span.grow(weights, projection, 1, random, negligible=np.inf)


@pytest.mark.parametrize("seed", range(5))
def test_the_working_set_is_solved(seed):
    rng = np.random.default_rng(seed)
    planes = np.vstack([np.zeros(4), rng.normal(size=(9, 4)) + 0.5])
    offsets = np.r_[0.0, rng.uniform(size=9)]
    gram = planes @ planes.T
    multipliers = np.zeros(10)
    multipliers[0] = budget = 3.0
    assert _solve(gram, offsets, multipliers, 1e-9, 1_000_000) < 1_000_000
    assert (multipliers >= 0).all()
    assert_allclose(multipliers.sum(), budget)
    result = minimize(
        lambda a: 0.5 * a @ gram @ a - offsets @ a,
        np.full(10, budget / 10),
        jac=lambda a: gram @ a - offsets,
        bounds=[(0.0, budget)] * 10,
        constraints={"type": "eq", "fun": lambda a: a.sum() - budget, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    value = 0.5 * multipliers @ gram @ multipliers - offsets @ multipliers
    assert_allclose(value, result.fun, atol=1e-7)


@pytest.mark.parametrize("basis", ["fixed_point", "rows"])
def test_labels_agree_with_svc(basis):
    X, y = make_moons(2500, noise=0.15, random_state=1)
    y = np.array(["left", "right"])[y]
    model = CPSP(gamma=2.0, n_basis=30, basis=basis, random_state=0).fit(X, y)
    exact = SVC(gamma=2.0).fit(X, y)
    assert (model.predict(X) == exact.predict(X)).mean() > 0.98
    assert_array_equal(model.predict(X) == "right", model.decision_function(X) > 0)


def test_classes_are_told_from_all_others():
    X, y = load_iris(return_X_y=True)
    model = CPSP(n_basis=12, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.93
    assert model.decision_function(X).shape == (150, 3)
    assert model.basis_coef_.shape == (3, model.n_basis_)
    assert model.basis_.shape == (model.n_basis_, 4)
    assert ((model.basis_coef_ != 0).sum(axis=0) <= 1).all()
    assert len(model.objective_) == len(model.n_iter_) == 3
    assert_allclose(
        model.decision_function(X),
        oracles.kernel(X, model.basis_, gamma=model.gamma_) @ model.basis_coef_.T,
        atol=1e-6,
    )
    two = CPSP(n_basis=12, random_state=0).fit(X, y == 0)
    assert_array_equal(two.decision_function(X) > 0, y == 0)


@pytest.mark.parametrize("basis", ["fixed_point", "rows"])
def test_sparse_rows_give_the_same_model(moons, basis):
    X, y = moons
    model = CPSP(gamma=5.0, n_basis=15, basis=basis, random_state=0)
    dense = model.fit(X, y).decision_function(X)
    objective = model.objective_[0]
    sparse = model.fit(sp.csr_array(X), y).decision_function(sp.csr_array(X))
    assert sp.issparse(model.basis_) == (basis == "rows")
    assert_allclose(model.objective_[0], objective, rtol=5e-2)
    assert ((dense > 0) == (sparse > 0)).mean() > 0.97
    assert_allclose(model.decision_function(X), sparse, atol=1e-8)


def test_basis_vectors_are_rows_where_they_are_asked_to_be_or_must_be(moons):
    X, y = moons
    rows = {tuple(x) for x in X}
    for parameters, kind in [
        ({"basis": "rows"}, "rows"),
        ({"kernel": "poly", "gamma": 1.0}, "rows"),
        ({}, "fixed_point"),
    ]:
        model = CPSP(n_basis=10, random_state=0, **parameters).fit(X, y)
        assert model.basis_kind_ == kind
        assert all(tuple(b) in rows for b in model.basis_) == (kind == "rows")


def test_the_basis_ends_where_it_spans_everything(moons):
    X, y = moons
    model = CPSP(kernel="linear", n_basis=50, random_state=0).fit(X, y)
    assert model.n_basis_ == 2
    assert model.fit_status_ == 0
    model = CPSP(kernel="linear", n_basis=50).fit(np.zeros((40, 2)), np.arange(40) % 2)
    assert model.basis_.shape == (0, 2)
    assert_array_equal(model.decision_function(X), 0.0)


def test_a_kernel_that_is_not_definite_ends(moons):
    X, y = moons
    model = CPSP(kernel="sigmoid", gamma=1.0, coef0=-0.5, n_basis=20, random_state=0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_fits_are_repeatable_whatever_the_threads(moons):
    X, y = moons
    first = CPSP(n_basis=15, random_state=3).fit(X, y)
    again = CPSP(n_basis=15, random_state=3, n_jobs=2).fit(X, y)
    assert_array_equal(first.basis_, again.basis_)
    assert_array_equal(first.basis_coef_, again.basis_coef_)
    other = CPSP(n_basis=15, random_state=4).fit(X, y)
    assert not np.array_equal(first.basis_, other.basis_)


def test_stopping_early_warns_and_says_so(moons):
    X, y = moons
    with pytest.warns(ConvergenceWarning, match=r"before tol=0.001"):
        model = CPSP(gamma=5.0, max_iter=3, random_state=0).fit(X, y)
    assert model.fit_status_ == 1
    assert_array_equal(model.n_iter_, [3])


def test_a_tolerance_beyond_rounding_ends(moons):
    X, y = moons
    with pytest.warns(ConvergenceWarning):
        CPSP(gamma=5.0, n_basis=10, tol=1e-12, random_state=0).fit(X, y)


def test_planes_are_reported(moons, capsys):
    X, y = moons
    recorder = Recorder()
    model = CPSP(gamma=5.0, n_basis=10, random_state=0, verbose=1)
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.begun == recorder.ended
    assert recorder.begun["machine"] == 1
    assert recorder.begun["planes"] == model.n_iter_[0] // 10 > 0
    assert capsys.readouterr().out.startswith(f"[CPSP] {model.n_iter_[0]} planes, 10 basis vectors")


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.0},
        {"kernel": "precomputed"},
        {"kernel": oracles.kernel},
        {"n_basis": 0},
        {"basis": "random"},
        {"tol": 0.0},
        {"max_iter": -2},
        {"gamma": -1.0},
        {"random_state": "now"},
    ],
    ids=lambda parameters: next(iter(parameters)),
)
def test_bad_parameters_are_named(moons, parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"The '{name}' parameter of CPSP must be"):
        CPSP(**parameters).fit(*moons)


def test_one_class_is_refused(moons):
    with pytest.raises(ValueError, match="needs at least two classes"):
        CPSP().fit(moons[0], np.zeros(3000))


@pytest.mark.parametrize("seed", range(6))
def test_many_equal_rows_do_not_hide_the_others(seed):
    rng = np.random.default_rng(0)
    X = np.r_[np.zeros((2000, 2)), 0.3 * rng.normal(size=(20, 2)) + 3.0]
    y = np.r_[np.zeros(2000), np.ones(20)]
    model = CPSP(gamma=1.0, C=10.0, random_state=seed).fit(X, y)
    assert model.predict(X[2000:]).mean() == 1.0
    assert model.objective_[0] < 30.0  # tol allows 20.2 above the least, some 9


def test_a_c_beyond_all_numbers_is_refused():
    X, y = make_moons(60, random_state=0)
    with pytest.raises(ValueError, match=r"C=1e\+308 times 60 rows is not a finite number"):
        CPSP(C=1e308).fit(X, y)
