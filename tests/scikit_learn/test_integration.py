"""What estimators owe: kinds of input, copies, metadata, and scikit-learn's tools around them."""

from __future__ import annotations

import copy
import pickle

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.datasets import load_iris, make_moons
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.inspection import DecisionBoundaryDisplay, permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.estimators import validation

matplotlib.use("Agg")

FAMILY = (AESVC, AENuSVC, AESVR, AENuSVR, AEOneClassSVM)
EACH = pytest.mark.parametrize("estimator", FAMILY)
OF_CLASSES = pytest.mark.parametrize("estimator", [AESVC, AENuSVC])
OF_VALUES = pytest.mark.parametrize("estimator", [AESVR, AENuSVR])
PREDICTORS = pytest.mark.parametrize("estimator", [AESVC, AENuSVC, AESVR, AENuSVR])

X, LABELS = make_moons(300, noise=0.2, random_state=0)
Y = {AESVR: np.sin(X[:, 0]) + X[:, 1], AENuSVR: np.sin(X[:, 0]) + X[:, 1]}


def target(estimator):
    return Y.get(estimator, LABELS)


def fitted(estimator, rows=X, **parameters):
    return estimator(gamma=1.0, **parameters).fit(rows, target(estimator))


def decide(model, rows=X):
    return getattr(model, "decision_function", model.predict)(rows)


@EACH
def test_its_kind_is_known(estimator):
    kinds = is_classifier(estimator()), is_regressor(estimator()), is_outlier_detector(estimator())
    assert sum(kinds) == 1
    assert kinds.index(True) == {AESVR: 1, AENuSVR: 1, AEOneClassSVM: 2}.get(estimator, 0)


@pytest.mark.filterwarnings("error:X .* feature names:UserWarning")
@EACH
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_dataframe_are_known_by_name(estimator, library):
    frame = pytest.importorskip(library).DataFrame({"width": X[:, 0], "height": X[:, 1]})
    model = fitted(estimator, frame)
    assert_array_equal(model.feature_names_in_, ["width", "height"])
    assert_array_equal(decide(model, frame), decide(fitted(estimator)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["height", "width"]])


@OF_VALUES
def test_targets_may_be_a_column(estimator):
    y = target(estimator)
    model = estimator(gamma=1.0).fit(X, pd.Series(y, index=np.arange(len(y))[::-1]))
    assert_array_equal(model.predict(X), fitted(estimator).predict(X))


@EACH
@pytest.mark.parametrize("how", ["pickle", "deepcopy", "clone"])
def test_copies_predict_the_same(estimator, how):
    model = fitted(estimator, hull_tol=0.01)
    if how == "clone":
        again = clone(model)
        assert again.get_params() == model.get_params()
        with pytest.raises(NotFittedError):
            again.predict(X)
        again.fit(X, target(estimator))
    else:
        again = pickle.loads(pickle.dumps(model)) if how == "pickle" else copy.deepcopy(model)
    assert_array_equal(decide(again), decide(model))


@EACH
def test_single_precision_stays_single(estimator):
    model = fitted(estimator, X.astype(np.float32))
    assert model.support_vectors_.dtype == np.float32
    double = fitted(estimator, X.astype(np.float32).astype(np.float64))
    assert_allclose(decide(model), decide(double), atol=0.02)


@EACH
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("container", ["array", "matrix"])
def test_sparse_rows_of_any_kind(estimator, kind, container):
    rows = getattr(sp, f"{kind}_{container}")(X)
    model = fitted(estimator, rows, tol=1e-6)
    assert sp.issparse(model.support_vectors_)
    assert sp.issparse(model.dual_coef_)
    expected = decide(fitted(estimator, tol=1e-6))
    assert_allclose(decide(model, rows), expected, atol=1e-4)


@EACH
def test_sparse_rows_may_have_wide_indices(estimator):
    rows = sp.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    assert_array_equal(
        decide(fitted(estimator, rows), rows), decide(fitted(estimator, sp.csr_array(X)), rows)
    )


@EACH
def test_it_is_shown_with_what_was_changed(estimator):
    model = estimator(hull_tol=0.25)
    assert f"{estimator.__name__}(hull_tol=0.25)" in repr(model)
    for shown in (model, fitted(estimator, hull_tol=0.25)):
        page = shown._repr_html_()
        assert estimator.__name__ in page
        assert "0.25" in page


@EACH
def test_weights_are_routed_through_a_pipeline_and_a_search(estimator):
    y = target(estimator)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = estimator(gamma=1.0).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
        directly = estimator(gamma=1.0).fit(scaler.fit_transform(X), y, sample_weight=weights)
        assert_array_equal(decide(pipeline), decide(directly, scaler.transform(X)))
        assert not np.array_equal(decide(pipeline), decide(clone(pipeline).fit(X, y)))
        if estimator is not AEOneClassSVM:
            model.set_score_request(sample_weight=True)
            search = GridSearchCV(model, {"hull_tol": [0.0, 0.1]}, cv=2)
            search.fit(X, y, sample_weight=weights)
            best = clone(search.best_estimator_).fit(X, y, sample_weight=weights)
            assert_array_equal(search.predict(X), best.predict(X))


@PREDICTORS
def test_pipelines_and_searches(estimator):
    y = target(estimator)
    assert cross_val_score(make_pipeline(StandardScaler(), estimator()), X, y, cv=3).min() > 0.7
    grid = {"gamma": [1e-6, 1.0], "nu" if hasattr(estimator(), "nu") else "C": [0.2, 0.5]}
    search = GridSearchCV(estimator(), grid, cv=3).fit(X, y)
    assert search.best_params_["gamma"] == 1.0
    assert search.best_score_ > 0.8


def test_outliers_are_searched_for_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), AEOneClassSVM(nu=0.1))
    assert 0.05 < np.mean(pipeline.fit_predict(X) == -1) < 0.15
    far = pipeline.score_samples(X + 100.0)
    assert far.max() < pipeline.score_samples(X).min()

    def share(model, rows, y=None):
        return -abs(np.mean(model.predict(rows) == -1) - 0.2)

    search = GridSearchCV(AEOneClassSVM(gamma=1.0), {"nu": [0.05, 0.2, 0.6]}, scoring=share, cv=3)
    assert search.fit(X).best_params_ == {"nu": 0.2}


@OF_CLASSES
def test_one_versus_the_rest(estimator):
    rows, labels = load_iris(return_X_y=True)
    parameters = {"nu": 0.2} if estimator is AENuSVC else {}
    model = OneVsRestClassifier(estimator(**parameters)).fit(rows, labels)
    assert model.score(rows, labels) > 0.9
    assert model.decision_function(rows).shape == (150, 3)


@PREDICTORS
def test_bagging(estimator):
    y = target(estimator)
    bagging = BaggingClassifier if is_classifier(estimator()) else BaggingRegressor
    model = bagging(estimator(gamma=1.0), n_estimators=4, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85


@PREDICTORS
def test_stacking(estimator):
    y = target(estimator)
    of_classes = is_classifier(estimator())
    stacking, final = (
        (StackingClassifier, LogisticRegression()) if of_classes else (StackingRegressor, Ridge())
    )
    models = [("one", estimator(gamma=0.1)), ("other", estimator(gamma=2.0))]
    assert stacking(models, final, cv=3).fit(X, y).score(X, y) > 0.85


@PREDICTORS
def test_permutation_importance(estimator):
    y = target(estimator)
    rows = np.c_[X, np.zeros(len(X))]
    model = estimator(gamma=1.0).fit(rows, y)
    importances = permutation_importance(model, rows, y, n_repeats=3, random_state=0)
    assert (importances.importances_mean[:2] > 0.05).all()
    assert importances.importances_mean[2] == 0.0


@EACH
def test_a_boundary_is_drawn(estimator):
    model = fitted(estimator)
    method = "predict" if is_regressor(model) else "decision_function"
    display = DecisionBoundaryDisplay.from_estimator(
        model, X, response_method=method, grid_resolution=20
    )
    assert display.response.shape == (20, 20)
    assert np.ptp(display.response) > 0.5
    matplotlib.pyplot.close(display.figure_)


class OfAnotherLibrary:
    """An array as torch's are: in memory, and of other types than NumPy's."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **keywords):
        raise AssertionError("NumPy's own protocol is enough")

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_scikit_learn_does_not_look_for_types_in_arrays_of_other_libraries(monkeypatch):
    given = [OfAnotherLibrary(part) for part in load_iris(return_X_y=True)]
    monkeypatch.setattr(validation, "get_config", lambda: {"array_api_dispatch": True})
    seen = []
    monkeypatch.setattr(
        validation,
        "validate_data",
        lambda model, X, **kw: seen.append(X) or validate_data(model, X, **kw),
    )
    model = AESVC().fit(*given)
    assert model.score(*given) > 0.9
    assert {*map(type, seen)} == {np.ndarray}
