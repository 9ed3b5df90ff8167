"""With refine="exact" each estimator is its twin of scikit-learn."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from tests import oracles

TWINS = {
    AESVC: svm.SVC,
    AENuSVC: svm.NuSVC,
    AESVR: svm.SVR,
    AENuSVR: svm.NuSVR,
    AEOneClassSVM: svm.OneClassSVM,
}
EACH = pytest.mark.parametrize("ours", TWINS)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def coefficients(model, y):
    """Of every machine, over support vectors."""
    dual = dense(model.dual_coef_)
    if not hasattr(model, "classes_"):
        yield dual[0]
        return
    label = np.searchsorted(model.classes_, y[model.support_])
    for i, j in combinations(range(len(model.classes_)), 2):
        yield np.where(label == i, dual[j - 1], np.where(label == j, dual[i], 0.0))


def objectives(model, K, y):
    """The dual objective of every machine, from the fitted attributes."""
    between = K[np.ix_(model.support_, model.support_)]
    parameters = model.get_params()
    values = []
    for coefs in coefficients(model, y):
        squared_norm = coefs @ between @ coefs
        size = np.abs(coefs).sum()
        if not hasattr(model, "classes_"):
            lost = parameters.get("epsilon", 0.0) * size
            gain = coefs @ y[model.support_] if "C" in parameters else 0.0
            values.append(0.5 * squared_norm - gain + lost)
        elif "nu" in parameters:  # divided by the margin: of multipliers whose sum is one
            values.append(0.5 * squared_norm / size**2)
        else:
            values.append(0.5 * squared_norm - size)
    return np.array(values)


def decisions(model, X):
    if hasattr(model, "decision_function_shape"):
        model.set_params(decision_function_shape="ovo")
    decide = getattr(model, "decision_function", model.predict)
    return decide(X)


def assert_twins(ours, X, y, weights, parameters, new):
    """Both trained on the same rows; ``new`` ones are predicted."""
    settings = {"tol": 1e-6, **parameters}
    mine = ours(refine="exact", **settings).fit(X, y, sample_weight=weights)
    kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    of_kept = None if weights is None else weights[kept]
    theirs = TWINS[ours](**settings).fit(X[kept], y[kept], sample_weight=of_kept)
    kernel = {"gamma": mine.gamma_, "kernel": mine.kernel, "coef0": mine.coef0}
    K = oracles.kernel(dense(X), degree=mine.degree, **kernel)
    best = objectives(theirs, K[np.ix_(kept, kept)], y[kept])
    assert_allclose(objectives(mine, K, y), best, rtol=1e-4, atol=1e-7)
    expected = decisions(theirs, new)
    unit = max(1.0, float(np.std(y))) if ours in (AESVR, AENuSVR) else 1.0
    assert_allclose(decisions(mine, new), expected, atol=1e-3 * max(unit, np.abs(expected).max()))
    if ours not in (AESVR, AENuSVR):
        nearest = np.abs(expected).reshape(new.shape[0], -1).min(axis=1)
        sure = nearest > 1e-3 * max(1.0, np.abs(expected).max())
        assert_array_equal(mine.predict(new)[sure], theirs.predict(new)[sure])
    return mine, theirs


def random_problem(ours, rng, n_classes, n=120, n_new=40):
    X = rng.normal(size=(n + n_new, 3))
    X[np.abs(X) < 0.3] = 0.0
    signal = 0.3 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=len(X))
    if ours is AEOneClassSVM:
        X += 1.5  # with a linear kernel there is nothing to learn of rows around zero
    if ours in (AESVC, AENuSVC):
        edges = np.quantile(signal, np.arange(1, n_classes) / n_classes)
        y = np.array(["ash", "birch", "cedar"])[np.searchsorted(edges, signal)]
    else:
        y = signal
    return X[:n], y[:n], X[n:]


def is_feasible(nu, y, weights):
    """Whether each class has the weight that NuSVC's constraints ask of it, in every pair."""
    totals = [np.sum(weights, where=y == label) for label in np.unique(y)]
    return all(2.0 * min(pair) > nu * sum(pair) for pair in combinations(totals, 2))


@EACH
@given(data=st.data())
@settings(max_examples=25)
def test_it_is_its_twin_on_random_rows(ours, data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 10**6), label="seed"))
    X, y, new = random_problem(ours, rng, draw(st.sampled_from([2, 3]), label="classes"))
    kernel = draw(st.sampled_from(["rbf", "poly", "linear"]), label="kernel")
    gamma = 0.1 if kernel == "poly" else draw(st.sampled_from([0.3, 1.0]), label="gamma")
    parameters = {"kernel": kernel, "gamma": gamma, "coef0": 1.0}
    if ours in (AESVC, AESVR, AENuSVR):
        parameters["C"] = draw(st.sampled_from([0.1, 1.0, 10.0]), label="C")
    if ours is AESVR:
        parameters["epsilon"] = draw(st.sampled_from([0.0, 0.1, 0.5]), label="epsilon")
    if ours not in (AESVC, AESVR):
        # neither too small to leave a margin, nor a share of rows that leaves the offset a choice
        nus = [0.61, 0.71] if ours is AENuSVC else [0.23, 0.47]
        parameters["nu"] = draw(st.sampled_from(nus), label="nu")
    weights = None
    if draw(st.booleans(), label="weighted"):
        weights = rng.uniform(0.5, 2.0, len(X)) * (rng.uniform(size=len(X)) > 0.1)
        assume(ours is not AENuSVC or is_feasible(parameters["nu"], y, weights))
    if draw(st.booleans(), label="sparse"):
        X, new = sp.csr_array(X), sp.csr_array(new)
    assert_twins(ours, X, y, weights, parameters, new)


REAL = {
    "diabetes": load_diabetes,
    "iris": load_iris,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}


@EACH
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_it_is_its_twin_on_real_rows(ours, name, sparse, weighted):
    if name == "diabetes" and ours in (AESVC, AENuSVC):
        pytest.skip("its targets are no classes")
    X, y = (part[:500] for part in REAL[name](return_X_y=True))
    X = scale(X)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, len(X)) if weighted else None
    parameters = {"gamma": 1.0 / X.shape[1]}
    if ours not in (AESVC, AESVR):
        parameters["nu"] = 0.2
    X = sp.csr_array(X) if sparse else X
    assert_twins(ours, X, y, weights, parameters, X)


@EACH
def test_weights_repeat_and_remove_rows(ours):
    rng = np.random.default_rng(1)
    X, y, new = random_problem(ours, rng, n_classes=3)
    counts = rng.integers(0, 4, len(X))
    model = ours(gamma=0.3, refine="exact", tol=1e-8)
    weighted = decisions(model.fit(X, y, sample_weight=counts), new)
    repeated = decisions(model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)), new)
    assert_allclose(repeated, weighted, atol=1e-5)


def test_class_weights_count_with_nu():
    """In NuSVC they do not: LIBSVM has no C there to multiply."""
    X, y, new = random_problem(AENuSVC, np.random.default_rng(0), n_classes=2)
    class_weight = {"ash": 1.5}
    parameters = {"gamma": 0.3, "tol": 1e-6}
    theirs = svm.NuSVC(class_weight=class_weight, **parameters).fit(X, y)
    assert_array_equal(
        theirs.decision_function(new), svm.NuSVC(**parameters).fit(X, y).decision_function(new)
    )
    ours = AENuSVC(class_weight=class_weight, **parameters).fit(X, y)
    as_rows = AENuSVC(**parameters).fit(X, y, sample_weight=np.where(y == "ash", 1.5, 1.0))
    assert_allclose(ours.decision_function(new), as_rows.decision_function(new), atol=1e-4)
    moved = ours.decision_function(new) - theirs.decision_function(new)
    assert np.abs(moved).max() > 0.1


@pytest.mark.parametrize("ours", [AENuSVC, AEOneClassSVM])
def test_where_nothing_is_left_to_learn_a_larger_nu_is_advised(ours):
    """Below a least nu, which the rows decide, the best w is zero; scikit-learn's is then noise."""
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = np.arange(120) % 2
    with pytest.warns(ConvergenceWarning, match=r"or raise nu\.$"):
        ours(kernel="linear", nu=0.2, refine="exact", tol=1e-6).fit(X, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.13, 0.47, 0.93])
def test_the_fitted_tube_leaves_a_share_of_nu_outside(nu, weighted):
    rng = np.random.default_rng(2)
    X, y, new = random_problem(AENuSVR, rng, n_classes=2, n=300)
    weights = rng.uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    model = AENuSVR(nu=nu, gamma=0.3, refine="exact", tol=1e-7)
    model.fit(X, y, sample_weight=weights)
    width, hair = model.epsilon_, 1e-5
    away = np.abs(model.predict(X) - y)
    assert width > 0
    assert weights[away > width + hair].sum() <= nu * weights.sum()
    assert weights[away >= width - hair].sum() >= nu * weights.sum()
    same = AESVR(epsilon=width, gamma=0.3, refine="exact", tol=1e-7)
    same.fit(X, y, sample_weight=weights)
    assert_allclose(same.predict(new), model.predict(new), atol=1e-4)


def test_the_fitted_tube_around_targets_that_are_all_the_same_has_no_width():
    model = AENuSVR()
    assert not hasattr(model, "epsilon_")
    assert model.fit(np.arange(20.0)[:, None], np.full(20, 3.0)).epsilon_ == 0.0
