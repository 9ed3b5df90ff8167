"""With the accelerator on, models of scikit-learn are those of LIBSVM, to its tolerance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

from aesvm import accel
from aesvm.accel.seam import OURS
from tests.scikit_learn.test_twins import (
    TWINS,
    decisions,
    dense,
    is_feasible,
    objectives,
    random_problem,
)

EACH = pytest.mark.parametrize("ours", TWINS)
OF_FUNCTION = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
)

pytestmark = pytest.mark.usefixtures("no_size_is_small")


def both(model, X, y, weights=None):
    """A model by LIBSVM, and one by aesvm, which has taken it over."""
    theirs = clone(model).fit(X, y, sample_weight=weights)
    with accel.install(strict=True):
        mine = clone(model).fit(X, y, sample_weight=weights)
        (call,) = accel.calls.so_far().counts
    assert call.where == OURS
    return mine, theirs


def assert_same_layout(mine, theirs):
    """Attributes, their types and shapes, and the order of support vectors."""
    assert vars(mine).keys() == vars(theirs).keys()
    for name, value in vars(theirs).items():
        found = vars(mine)[name]
        assert type(found) is type(value), name
        if isinstance(value, np.ndarray):
            assert (found.dtype, found.ndim) == (value.dtype, value.ndim), name
            assert found.flags.c_contiguous == value.flags.c_contiguous, name
    assert mine.dual_coef_.shape == (theirs.dual_coef_.shape[0], len(mine.support_))
    assert_array_equal(np.shape(mine.n_support_), np.shape(theirs.n_support_))
    assert mine.n_support_.sum() == len(mine.support_)
    assert mine.fit_status_ == theirs.fit_status_ == 0


@EACH
@given(data=st.data())
@OF_FUNCTION
def test_random_problems_have_libsvms_solution(ours, data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 10**6), label="seed"))
    X, y, new = random_problem(ours, rng, draw(st.sampled_from([2, 3]), label="classes"))
    if draw(st.booleans(), label="copies"):
        X[:30], y[:30] = X[30:60], y[30:60]
    kernel = draw(st.sampled_from(["rbf", "poly", "linear"]), label="kernel")
    gamma = 0.1 if kernel == "poly" else draw(st.sampled_from([0.3, 1.0]), label="gamma")
    parameters = {"kernel": kernel, "gamma": gamma, "coef0": 1.0, "tol": 1e-6}
    twin = TWINS[ours]
    if twin in (svm.SVC, svm.SVR, svm.NuSVR):
        parameters["C"] = draw(st.sampled_from([0.1, 1.0, 10.0]), label="C")
    if twin is svm.SVR:
        parameters["epsilon"] = draw(st.sampled_from([0.0, 0.1, 0.5]), label="epsilon")
    if twin not in (svm.SVC, svm.SVR):
        nus = [0.61, 0.71] if twin is svm.NuSVC else [0.23, 0.47]
        parameters["nu"] = draw(st.sampled_from(nus), label="nu")
    if twin in (svm.SVC, svm.NuSVC) and draw(st.booleans(), label="class weights"):
        parameters["class_weight"] = {"ash": 0.5, "birch": 2.0}
    weights = None
    if draw(st.booleans(), label="weighted"):
        weights = rng.uniform(0.5, 2.0, len(X)) * (rng.uniform(size=len(X)) > 0.1)
    if twin is svm.NuSVC:
        assume(is_feasible(parameters["nu"], y, np.ones(len(y)) if weights is None else weights))
    if draw(st.booleans(), label="sparse"):
        X, new = sp.csr_matrix(X), sp.csr_matrix(new)
    mine, theirs = both(twin(**parameters), X, y, weights)
    assert_same_layout(mine, theirs)
    K = _kernel(mine, X)
    # LIBSVM counts rows without those of weight zero; ours are rows of X
    kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    best = objectives(theirs, K[np.ix_(kept, kept)], y[kept])
    assert_allclose(objectives(mine, K, y), best, rtol=1e-4, atol=1e-7)
    assert_array_equal(dense(X)[mine.support_], dense(mine.support_vectors_))
    expected = decisions(theirs, new)
    unit = max(1.0, float(np.std(y))) if twin in (svm.SVR, svm.NuSVR) else 1.0
    close = 1e-3 * max(unit, np.abs(expected).max())
    assert_allclose(decisions(mine, new), expected, atol=close)
    _check_bounds(mine, y, weights)


def _kernel(model, X):
    from tests import oracles

    return oracles.kernel(
        dense(X), kernel=model.kernel, gamma=model._gamma, coef0=model.coef0, degree=model.degree
    )


def _check_bounds(model, y, weights):
    """No coefficient is beyond C times its row's weight, also where rows are equal."""
    if isinstance(model, svm.NuSVC):
        return  # its coefficients are divided by the margin
    C = 1.0 if isinstance(model, svm.OneClassSVM) else model.C
    bounds = C * (np.ones(len(y)) if weights is None else weights)[model.support_]
    if model._impl == "c_svc":
        bounds = bounds * model.class_weight_[np.searchsorted(model.classes_, y[model.support_])]
    assert (np.abs(dense(model.dual_coef_)) <= bounds * (1 + 1e-6)).all()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("load", [load_iris, load_digits])
def test_support_vectors_of_real_rows_are_libsvms(load, container):
    X, y = (part[:600] for part in load(return_X_y=True))
    mine, theirs = both(svm.SVC(gamma=0.001, C=10.0, tol=1e-8), container(X), y)
    assert_same_layout(mine, theirs)
    # rows of hardly any weight are at the mercy of rounding
    union = np.union1d(mine.support_, theirs.support_)
    sizes = np.zeros((2, len(y)))
    for line, model in zip(sizes, (mine, theirs), strict=True):
        line[model.support_] = np.abs(dense(model.dual_coef_)).sum(axis=0)
    assert_allclose(sizes[0, union], sizes[1, union], atol=1e-3 * sizes.max())
    assert_array_equal(np.sort(y[mine.support_]), y[mine.support_])
    assert_array_equal(mine.predict(container(X)), theirs.predict(container(X)))


@EACH
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_are_libsvms_to_rounding(ours, container, kernel, n_classes):
    rng = np.random.default_rng(0)
    X, y, new = random_problem(ours, rng, n_classes)
    X, new = container(X), container(new)
    model = TWINS[ours](kernel=kernel, gamma=0.1, **({"nu": 0.3} if "Nu" in ours.__name__ else {}))
    model.fit(X, y)
    labels, values = model.predict(new), decisions(model, new)
    with accel.install(strict=True):
        now, found = model.predict(new), decisions(model, new)
        assert {call.where for call in accel.calls.so_far().counts} == {OURS}
    size = np.abs(dense(model.dual_coef_)).sum() * max(1.0, np.abs(_kernel(model, X)).max())
    assert_allclose(found, values, rtol=0.0, atol=1e-8 * size)
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    if hasattr(model, "classes_"):
        sure = np.abs(values).reshape(len(values), -1).min(axis=1) > 1e-8 * size
        assert_array_equal(now[sure], labels[sure])
    assert now.dtype == labels.dtype


def test_a_model_predicts_one_row_and_none_of_the_features():
    X, y = load_iris(return_X_y=True)
    with accel.install():
        model = svm.SVC().fit(sp.csr_matrix(X), y)
        assert model.predict(sp.csr_matrix((2, 4))).shape == (2,)
        assert model.predict(sp.csr_matrix(X[:1])) == y[0]


def test_results_do_not_depend_on_the_number_of_threads():
    X, y = load_digits(return_X_y=True)
    found = []
    for n_jobs in (1, 2):
        with accel.install(n_jobs=n_jobs):
            found.append(svm.SVC().fit(X, y))
    assert_array_equal(found[0].dual_coef_, found[1].dual_coef_)
