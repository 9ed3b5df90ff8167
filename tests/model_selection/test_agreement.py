"""A search whose fits share their work finds what GridSearchCV finds, at every point."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_friedman1, make_moons
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.model_selection import AEGridSearchCV

COSTS, GAMMAS = [0.05, 0.5, 5.0, 50.0, 500.0], [0.1, 0.5, 8.0]
NUS = [0.05, 0.1, 0.2, 0.3, 0.4]
N_FOLDS, N_ROWS = 3, 300


def moons():
    return make_moons(N_ROWS, noise=0.3, random_state=0)


def blobs():
    X, y = make_blobs(N_ROWS, centers=5, n_features=3, cluster_std=3.0, random_state=1)
    return X / 5.0, np.array(["a", "b", "c", "d", "e"])[y]


def friedman():
    X, y = make_friedman1(N_ROWS, n_features=5, noise=1.0, random_state=2)
    return X, y


def outliers():
    X, _ = moons()
    return X, np.r_[np.ones(N_ROWS - 30), -np.ones(30)]


KINDS = {
    "two classes": (AESVC(), {"C": COSTS, "gamma": GAMMAS}, moons),
    "many classes": (AESVC(), {"C": COSTS, "gamma": GAMMAS}, blobs),
    "regression": (AESVR(), {"C": COSTS, "gamma": GAMMAS}, friedman),
    "one class": (AEOneClassSVM(), {"nu": NUS, "gamma": GAMMAS}, outliers),
    "a pipeline": (
        make_pipeline(MinMaxScaler((-1, 1)), StandardScaler(), AESVC()),
        {"aesvc__C": COSTS, "aesvc__gamma": GAMMAS},
        moons,
    ),
    "nu, classes": (AENuSVC(), {"nu": NUS[1:], "gamma": GAMMAS[:2]}, blobs),
    "nu, regression": (AENuSVR(C=10.0), {"nu": NUS[1:], "gamma": GAMMAS[:2]}, friedman),
    "representatives": (AESVC(refine=0, subset_size=50), {"C": COSTS, "gamma": GAMMAS[:2]}, moons),
    "representatives of targets": (
        AESVR(refine=0, subset_size=50),
        {"C": COSTS[:4], "epsilon": [0.1, 0.5], "gamma": GAMMAS[:1]},
        friedman,
    ),
    "rounds": (AESVC(refine=1, subset_size=50), {"C": COSTS, "gamma": GAMMAS[:2]}, moons),
    "polynomials": (
        AESVC(kernel="poly", coef0=1.0),
        {"C": COSTS[:4], "degree": [1, 2, 3], "gamma": [0.5, 1.0]},
        moons,
    ),
    "few vectors": (AESVC(max_vectors=40), {"C": COSTS[:3], "gamma": GAMMAS[:2]}, moons),
    "weights of classes": (
        AESVC(class_weight="balanced"),
        {"C": COSTS, "gamma": GAMMAS[:2], "class_weight": [None, {0: 5.0}]},
        moons,
    ),
}


def nth(y_true, y_pred, at):
    return float(y_pred[at])


def codes_nth(y_true, y_pred, at):
    return float(ord(y_pred[at]))


def predictions(search, y):
    """What models of the search predict, for every candidate and row."""
    kind = codes_nth if y.dtype.kind == "U" else nth
    scoring = {f"row {at}": make_scorer(kind, at=at) for at in range(N_ROWS // N_FOLDS)}
    return scoring, lambda: np.array(
        [
            search.cv_results_[f"split{fold}_test_{name}"]
            for fold in range(N_FOLDS)
            for name in scoring
        ]
    )


@pytest.mark.weekly
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_fold_are_those_of_fits_that_share_nothing(kind):
    estimator, grid, rows = KINDS[kind]
    X, y = rows()
    found = []
    order = np.random.default_rng(3).permutation(N_ROWS)
    folds = [(np.setdiff1d(order, test), np.sort(test)) for test in np.array_split(order, N_FOLDS)]
    for kind_of_search in (AEGridSearchCV, GridSearchCV):
        search = kind_of_search(clone(estimator), grid, cv=folds, refit=False)
        search.scoring, of_rows = predictions(search, y)
        search.fit(X, y)
        found.append(of_rows())
    shared, plain = found
    assert shared.shape == (N_ROWS, len(search.cv_results_["params"]))
    if y.dtype.kind == "f" and len(np.unique(y)) > 2:  # targets
        assert_allclose(shared, plain, atol=0.01 * np.std(y))
    else:
        # but for one row, whose decision value is zero to within tol
        assert ((shared == plain).sum(axis=0) >= N_ROWS - 1).all()
        assert (shared == plain).mean() >= 0.999


@pytest.mark.parametrize("break_ties", [False, True])
@pytest.mark.parametrize("n_features", [2, 10, 20])
def test_rows_far_from_all_others_are_classed_alike(n_features, break_ties):
    """Their decision values are intercepts, which of equal classes are zero but for ``tol``."""
    X, y = make_blobs([100] * 4, n_features=n_features, random_state=0)
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [1.0, 10.0, 100.0]}
    found = [
        kind(AESVC(break_ties=break_ties), grid, cv=4).fit(X, y).cv_results_["mean_test_score"]
        for kind in (AEGridSearchCV, GridSearchCV)
    ]
    assert_array_equal(*found)


@pytest.mark.parametrize("model", [AESVC(gamma=10.0, C=10.0), AENuSVC(gamma=10.0)])
def test_equal_classes_have_no_bias_however_they_are_trained(model):
    X, y = make_blobs([100] * 4, n_features=10, random_state=0)
    chunks = [(X[::2], y[::2], None), (X[1::2], y[1::2], None)]
    expected = clone(model).fit(X, y)
    assert not expected.intercept_.any()
    streamed = clone(model).fit_stream(chunks)
    assert not streamed.intercept_.any()
    new = X + 0.5
    assert_array_equal(streamed.predict(new), expected.predict(new))


@pytest.mark.parametrize("C", [1e-7, 1e-5, 1e-3])
def test_small_intercepts_that_are_known_are_kept(C):
    """Decision values below ``tol`` decide where all multipliers are at their bounds."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    ours, theirs = AESVC(C=C, gamma=1.0).fit(X, y), SVC(C=C, gamma=1.0).fit(X, y)
    assert abs(theirs.intercept_[0]) < 1e-2
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3)
    assert_array_equal(ours.predict(X), theirs.predict(X))


class Opposite(AESVC):
    def predict(self, X):
        return 1 - super().predict(X)


def test_predictions_of_a_subclass_are_its_own():
    X, y = make_moons(300, noise=0.3, random_state=0)
    grid = {"C": [0.1, 1.0]}
    ours = AEGridSearchCV(Opposite(), grid, cv=3, error_score="raise").fit(X, y)
    theirs = GridSearchCV(Opposite(), grid, cv=3).fit(X, y)
    assert_array_equal(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
