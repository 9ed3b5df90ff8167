"""Shapley values are those of the definition, and add up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.inspection import products, shapley_values
from aesvm.inspection.products import Game, shapley_products
from tests.inspection.coalitions import by_coalitions, decisions


def classes(n_classes=2, width=6):
    X, y = make_classification(
        150, width, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )
    return X, y


def check(model, X, background, found, players=None, tol=1e-10):
    """Values are those of all coalitions, and add up to the decision value."""
    players = [[column] for column in range(X.shape[1])] if players is None else players
    decide = decisions(model)
    wanted, _ = by_coalitions(decide, X, background, players)
    values = found.values if found.values.ndim == 3 else found.values[:, :, None]
    size = max(1.0, np.abs(wanted).max())
    assert_allclose(values, wanted, rtol=0, atol=tol * size)
    assert_allclose(found.base_values, np.squeeze(decide(background).mean(axis=0)), atol=tol * size)
    assert_allclose(values.sum(axis=1) + found.base_values, decide(X), rtol=0, atol=tol * 10 * size)


@pytest.mark.parametrize(
    "model",
    [
        AESVC(gamma=0.2),
        AESVC(gamma=0.2, refine=0, class_weight="balanced"),
        AESVC(max_vectors=20),
        AENuSVC(nu=0.3),
        AESVR(gamma=0.5),
        AENuSVR(C=5.0),
        AEOneClassSVM(nu=0.3, gamma=0.1),
        AESVC(kernel="linear"),
        AESVR(kernel="linear"),
    ],
    ids=repr,
)
def test_every_machine_has_the_values_of_all_coalitions(model):
    X, y = classes()
    if not isinstance(model, AEOneClassSVM):
        model.fit(X, y, sample_weight=1.0 + np.arange(len(y)) % 3)
    else:
        model.fit(X)
    check(model, X[:5], X[100:120], shapley_values(model, X[:5], X[100:120]))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_pairs_of_classes_are_explained_one_by_one(kernel):
    X, y = classes(4)
    model = AESVC(kernel=kernel, gamma=0.2, decision_function_shape="ovo").fit(X, y)
    found = shapley_values(model, X[:4], X[50:60])
    assert found.values.shape == (4, 6, 6)
    assert found.output_names[:2] == ["0 or 1", "0 or 2"]
    check(model, X[:4], X[50:60], found)
    assert_allclose(
        found.values.sum(axis=1) + found.base_values, model.decision_function(X[:4]), atol=1e-9
    )


def test_classes_are_explained_by_the_sums_of_their_pairs():
    X, y = classes(3)
    model = AESVC(gamma=0.2).fit(X, y)
    pairs = shapley_values(model.set_params(decision_function_shape="ovo"), X[:4], X[50:60])
    found = shapley_values(model.set_params(decision_function_shape="ovr"), X[:4], X[50:60])
    first, second, third = np.moveaxis(pairs.values, 2, 0)
    wanted = np.stack([first + second, third - first, -second - third], axis=2)
    assert_allclose(found.values, wanted, atol=1e-12)
    # what scikit-learn's values add to the votes is a function of the sums
    sums = found.values.sum(axis=1) + found.base_values
    votes = model.decision_function(X[:4]) - sums / (3 * (np.abs(sums) + 1))
    assert_allclose(votes, np.rint(votes), atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("rows", [sp.csr_matrix, sp.csr_array, np.asarray])
def test_sparse_rows(kernel, rows):
    X, y = classes(width=8)
    X[np.abs(X) < 0.8] = 0.0
    model = AESVC(kernel=kernel, gamma=0.3).fit(sp.csr_matrix(X), y)
    found = shapley_values(model, rows(X[:4]), rows(X[60:75]))
    check(model, X[:4], X[60:75], found)
    assert_array_equal(found.data, X[:4])
    few = shapley_values(model, rows(X[:4]), 2)
    assert few.background.shape == (2, 8)


@pytest.mark.parametrize(
    ("groups", "names", "players"),
    [
        ({"ends": [0, 5]}, ["ends", "x1", "x2", "x3", "x4"], [[0, 5], [1], [2], [3], [4]]),
        ([["x1", "x2"], [4]], ["x0", "x1 + x2", "x3", "x4", "x5"], [[0], [1, 2], [3], [4], [5]]),
        ([range(6)], ["x0 + x1 + x2 + x3 + x4 + x5"], [[*range(6)]]),
    ],
    ids=["names", "lists", "all"],
)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_groups_play_together(kernel, groups, names, players):
    X, y = classes()
    model = AESVC(kernel=kernel, gamma=0.2).fit(X, y)
    found = shapley_values(model, X[:3], X[50:65], groups=groups)
    assert found.feature_names == names
    check(model, X[:3], X[50:65], found, players)


@pytest.mark.parametrize("gamma", [1e-4, 0.5, 50.0])
def test_interactions_are_those_of_all_coalitions(gamma):
    X, y = classes()
    model = AESVC(gamma=gamma, C=10.0).fit(X, y)
    rows, background = X[:3], X[50:62]
    found = shapley_values(model, rows, background, interactions=True)
    values, indices = by_coalitions(decisions(model), rows, background, [[j] for j in range(6)])
    size = np.abs(values).max()
    off = ~np.eye(6, dtype=bool)
    assert_allclose(found.values[:, off], indices[:, off, 0] / 2, rtol=0, atol=1e-10 * size)
    assert_allclose(found.values.sum(axis=2), values[:, :, 0], rtol=0, atol=1e-10 * size)


def test_a_linear_machine_has_main_effects_alone():
    X, y = classes()
    model = AESVC(kernel="linear").fit(X, y)
    found = shapley_values(model, X[:3], X[50:60], interactions=True).values
    values = shapley_values(model, X[:3], X[50:60]).values
    assert_array_equal(found, values[:, :, None] * np.eye(6))


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10_000),
    st.integers(1, 7),
    st.floats(-6.0, 8.0),
    st.integers(1, 70),
)
def test_any_game_of_products(seed, width, exponent, n_vectors):
    """Of factors near one and near zero, few and many vectors, equal features and equal rows."""
    random = np.random.default_rng(seed)
    X, background, vectors = (
        np.round(random.normal(size=(n, width)), random.integers(0, 4)) for n in (3, 4, n_vectors)
    )
    background[0] = X[0]
    coefs = random.normal(size=(n_vectors, 2))
    gamma = float(np.exp(exponent))
    every = np.arange(width)
    game = Game(vectors, coefs, gamma, every, every + 1)

    def decide(rows):
        return np.exp(-gamma * ((rows[:, None] - vectors) ** 2).sum(axis=2)) @ coefs

    values, indices = by_coalitions(decide, X, background, [[j] for j in range(width)])
    found = shapley_products(game, X, background, False, map, lambda share: None)
    assert_allclose(found, values, rtol=0, atol=1e-13 * np.abs(coefs).sum())
    found = shapley_products(game, X, background, True, map, lambda share: None)
    assert_allclose(found, indices, rtol=0, atol=1e-12 * np.abs(coefs).sum())


@pytest.mark.parametrize("width", [30, 100, 300])
@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_values_of_many_features_add_up(width, spread):
    """Few nodes where factors are close to each other, all of them where they are far apart."""
    random = np.random.default_rng(width)
    X, y = random.normal(size=(200, width)), random.normal(size=200)
    model = AESVR(gamma=spread / width).fit(X, y)
    found = shapley_values(model, X[:3], X[150:155])
    wanted = model.predict(X[:3])
    assert_allclose(found.values.sum(axis=1) + found.base_values, wanted, rtol=1e-9, atol=1e-9)


def test_far_rows_have_values():
    """Of rows so far away that every factor underflows."""
    X, y = make_regression(100, 5, random_state=0)
    model = AESVR(gamma=1.0, C=100.0).fit(X, y)
    far = np.vstack([X[:2], np.full((1, 5), 1e5), np.full((1, 5), -1e200)])
    found = shapley_values(model, far, X[50:60])
    assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(far), atol=1e-9)
    assert np.isfinite(found.values).all()


def test_threads_and_blocks_change_nothing(monkeypatch):
    X, y = classes()
    model = AESVC(gamma=0.2).fit(X, y)
    wanted = shapley_values(model, X[:20], X[50:90]).values
    assert_array_equal(shapley_values(model, X[:20], X[50:90], n_jobs=3).values, wanted)
    monkeypatch.setattr(products, "_TASK_FACTORS", 1.0)
    found = shapley_values(model, X[:20], X[50:90], n_jobs=2).values
    assert_allclose(found, wanted, rtol=0, atol=1e-13)
    assert_array_equal(shapley_values(model, X[:20], X[50:90]).values, found)


def test_a_number_draws_background_rows_from_those_given():
    X, y = classes()
    model = AESVC(gamma=0.2).fit(X, y)
    found = shapley_values(model, X)
    assert found.background.shape == (100, 6)
    assert {*map(tuple, found.background)} <= {*map(tuple, X)}
    assert_array_equal(shapley_values(model, X, found.background).values, found.values)
    with pytest.raises(ValueError, match="background=100 draws this many rows of X, which has 50"):
        shapley_values(model, X[:50])


def test_searches_and_pipelines_of_one_scaler():
    X, y = classes()
    pipe = make_pipeline(StandardScaler(), AESVC(gamma=0.2))
    search = GridSearchCV(pipe, {"aesvc__C": [1.0]}, cv=2).fit(3.0 * X + 1.0, y)
    found = shapley_values(search, 3.0 * X[:4] + 1.0, 3.0 * X[50:60] + 1.0)
    scaled = search.best_estimator_[0].transform(3.0 * X + 1.0)
    check(search.best_estimator_[1], scaled[:4], scaled[50:60], found)
    assert_array_equal(found.data, 3.0 * X[:4] + 1.0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"groups": {"a": [9]}}, "groups: 9 is none of the columns x0, x1"),
        ({"groups": [[0, 1], [1]]}, "column 'x1' is in more than one group"),
        ({"groups": "x0"}, "groups='x0': a dict"),
        ({"groups": {"a": []}}, "groups: 'a' has no columns"),
        ({"groups": {"a": None}}, "groups: None is no list of columns"),
        ({"groups": {"x3": [0, 1]}}, "groups: 'x3' is the name of another player"),
        ({"groups": {"a": [True, False]}}, "a mask needs 6 values, .*and has 2"),
        ({"X": np.ones(6), "background": np.ones((3, 6))}, "Expected 2D array"),
        ({"background": np.full((3, 6), np.nan)}, "background: Input X contains NaN"),
        ({"background": "all"}, "background='all': rows like X, or their number"),
        ({"background": 0}, "background=0 draws"),
        ({"background": np.empty((0, 6))}, "background has no rows"),
        ({"background": np.ones((3, 2))}, "2 features"),
        ({"X": np.empty((0, 6)), "background": np.ones((3, 6))}, "X has no rows"),
        ({"n_jobs": 0}, "n_jobs=0 must be None or a whole number"),
        ({"n_jobs": "two"}, "n_jobs='two' must be None or a whole number"),
        ({"device": "tpu"}, "device='tpu' is unknown"),
        ({"device": "cuda", "interactions": True}, "interactions=True needs device"),
    ],
    ids=str,
)
def test_what_cannot_be_explained_is_refused(change, match):
    X, y = classes()
    model = AESVC(gamma=0.2).fit(X, y)
    with pytest.raises(ValueError, match=match):
        shapley_values(model, **{"X": X, "background": 5, **change})


def test_kernels_that_are_no_products_are_refused():
    X, y = classes()
    with pytest.raises(ValueError, match="kernel='poly' has no Shapley values in closed form"):
        shapley_values(AESVC(kernel="poly").fit(X, y), X)
    with pytest.raises(TypeError, match="StandardScaler is no estimator of aesvm"):
        shapley_values(StandardScaler().fit(X), X)
    calibrated = CalibratedClassifierCV(AESVC(), ensemble=False).fit(X, y)
    with pytest.raises(TypeError, match=r"Pass .*: calibrated_classifiers_\[0\]\.estimator\."):
        shapley_values(calibrated, X)
    inside = calibrated.calibrated_classifiers_[0].estimator
    assert len(shapley_values(inside, X[:2], X[:5])) == 2


@pytest.mark.parametrize("interactions", [False, True])
def test_a_model_without_support_vectors_is_a_constant(interactions):
    X, y = classes()
    model = AESVR(epsilon=10.0).fit(X, y)
    assert not len(model.support_)
    found = shapley_values(model, X[:5], X[:20], interactions=interactions)
    assert found.values.shape == ((5, 6, 6) if interactions else (5, 6))
    assert not found.values.any()
    assert_allclose(found.base_values, model.predict(X[:1]))


def test_progress_is_said(monkeypatch, capsys):
    X, y = classes()
    monkeypatch.setattr("aesvm.runtime.progress._EVERY", 0.0)
    shapley_values(AESVC(gamma=0.2, verbose=1).fit(X, y), X[:10], 5)
    assert "Shapley values: 100%" in capsys.readouterr().out
