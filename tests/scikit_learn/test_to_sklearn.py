"""Models as estimators of scikit-learn, which decide as ours do."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from aesvm import AESVC
from tests.io.fitted_models import MODELS, decide, model, other_rows, rows

TWINS = {"AESVC": SVC, "AENuSVC": NuSVC, "AESVR": SVR, "AENuSVR": NuSVR}
TWINS["AEOneClassSVM"] = OneClassSVM


@pytest.mark.parametrize("name", MODELS)
def test_the_twin_decides_as_the_model(name):
    fitted = model(name)
    twin = fitted.to_sklearn()
    assert type(twin) is TWINS[type(fitted).__name__]
    others = other_rows(fitted)
    scale = 1.0 + np.abs(fitted.dual_coef_).sum()
    np.testing.assert_allclose(decide(twin, others), decide(fitted, others), atol=1e-12 * scale)
    if hasattr(fitted, "decision_function"):
        np.testing.assert_array_equal(twin.predict(others), fitted.predict(others))
    np.testing.assert_array_equal(twin.n_support_, fitted.n_support_)
    assert twin.n_features_in_ == fitted.n_features_in_


@pytest.mark.parametrize(("size", "of_twin"), [("auto", SVC().cache_size), (300, 300)])
def test_a_cache_that_grows_with_the_rows_is_scikit_learns_own(size, of_twin):
    X, two, *_ = rows()
    twin = AESVC(cache_size=size).fit(X, two).to_sklearn()
    assert twin.cache_size == of_twin
    np.testing.assert_array_equal(clone(twin).fit(X, two).classes_, np.unique(two))


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "rbf"])
def test_every_kernel_dense_and_sparse(kernel):
    X, _, four, _, others = rows()
    for data, asked in ((X, others), (sp.csr_array(X), sp.csr_array(others))):
        fitted = AESVC(kernel=kernel, coef0=0.5, degree=2).fit(data, four)
        twin = fitted.to_sklearn()
        np.testing.assert_allclose(decide(twin, asked), decide(fitted, asked), atol=1e-9)
        if kernel == "linear":
            coefs = (
                one.coef_.toarray() if sp.issparse(one.coef_) else one.coef_
                for one in (twin, fitted)
            )
            np.testing.assert_allclose(*coefs, atol=1e-12)


def test_outliers_have_the_scores_of_the_model():
    fitted = model("AEOneClassSVM")
    twin, others = fitted.to_sklearn(), other_rows(fitted)
    np.testing.assert_allclose(twin.score_samples(others), fitted.score_samples(others))


def test_the_twin_works_where_scikit_learns_own_do():
    X, two, *_ = rows()
    twin = model("two classes").to_sklearn()
    again = pickle.loads(pickle.dumps(twin))
    np.testing.assert_array_equal(again.decision_function(X), twin.decision_function(X))
    assert clone(twin).get_params() == twin.get_params()
    found = permutation_importance(twin, X, two, n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() in (0, 1)
    twin.set_params(C=2.0).fit(X, two)


def test_callables_have_no_twin():
    X, two, *_ = rows()
    with pytest.raises(ValueError, match="callable"):
        AESVC(kernel=lambda a, b: a @ b.T).fit(X, two).to_sklearn()


def test_kernels_that_scikit_learn_lacks_have_no_twin():
    X, two, *_ = rows()
    fitted = AESVC().fit(X, two).set_params(kernel="rational")  # as if it had been added
    with pytest.raises(ValueError, match="kernel='rational': scikit-learn"):
        fitted.to_sklearn()
