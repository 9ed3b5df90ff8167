"""Searches by halving: by rows, and by how finely rows are represented."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC
from aesvm.model_selection import AEHalvingGridSearchCV, SearchDisplay

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0, 10.0]}


@pytest.fixture(scope="module")
def moons():
    return make_moons(1200, noise=0.25, random_state=0)


def test_halving_by_rows_is_that_of_scikit_learn(moons):
    ours, theirs = (
        kind(AESVC(), GRID, cv=3, random_state=0, min_resources=100).fit(*moons)
        for kind in (AEHalvingGridSearchCV, HalvingGridSearchCV)
    )
    assert ours.n_resources_ == theirs.n_resources_
    assert ours.cv_results_["n_resources"].tolist() == theirs.cv_results_["n_resources"].tolist()
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-2
    )
    assert ours.best_params_ == theirs.best_params_


def test_halving_by_tolerance_ends_with_the_estimators_own(moons):
    model = AESVC(subset_size=100, hull_tol=1e-3, refine="exact")
    search = AEHalvingGridSearchCV(model, GRID, cv=3, resource="hull_tol", factor=3).fit(*moons)
    assert search.n_candidates_ == [9, 3, 1]
    assert search.n_resources_ == [1, 3, 9]
    results = search.cv_results_
    for iteration, (tol, refine) in enumerate([(9e-3, 0), (3e-3, 0), (1e-3, "exact")]):
        tried = [
            params
            for params, at in zip(results["params"], results["iter"], strict=True)
            if at == iteration
        ]
        assert_allclose([params["hull_tol"] for params in tried], tol)
        assert all(params["refine"] == refine for params in tried)
    solved = results["mean_rows_solved"]
    assert solved[results["iter"] == 0].max() < solved[-1] == 800
    assert search.best_estimator_.refine == "exact"
    whole = GridSearchCV(model, GRID, cv=3).fit(*moons)
    assert search.best_score_ >= whole.best_score_ - 0.01


def test_halving_by_tolerance_in_a_pipeline(moons):
    pipe = make_pipeline(StandardScaler(), AESVC(subset_size=100))
    grid = {f"aesvc__{name}": values for name, values in GRID.items()}
    search = AEHalvingGridSearchCV(pipe, grid, cv=3, resource="aesvc__hull_tol").fit(*moons)
    assert search.n_candidates_ == [9, 3, 1]
    assert search.best_estimator_[-1].hull_tol == 1e-3


def test_candidates_that_survive_are_the_best(moons):
    search = AEHalvingGridSearchCV(AESVC(), GRID, cv=3, resource="hull_tol").fit(*moons)
    results = search.cv_results_
    scores, at = results["mean_test_score"], results["iter"]
    key = [(params["C"], params["gamma"]) for params in results["params"]]
    for iteration in range(max(at)):
        left = {key[number] for number in np.flatnonzero(at == iteration + 1)}
        kept = [scores[n] for n in np.flatnonzero(at == iteration) if key[n] in left]
        lost = [scores[n] for n in np.flatnonzero(at == iteration) if key[n] not in left]
        assert min(kept) >= max(lost)


@pytest.mark.parametrize(
    "options",
    [
        {"factor": 2.5},
        {"factor": 1.5},
        {"max_resources": 100},
        {"max_resources": 20, "min_resources": 5},
        {"aggressive_elimination": True, "max_resources": 4},
    ],
)
def test_the_last_round_is_as_the_estimator_says(moons, options):
    model = AESVC(subset_size=100, refine=1)
    search = AEHalvingGridSearchCV(model, GRID, cv=2, resource="hull_tol", **options).fit(*moons)
    assert search.best_params_["hull_tol"] == 1e-3
    assert search.best_params_["refine"] == 1
    assert search.best_estimator_.refine == 1


def test_few_vectors_are_for_the_last_round(moons):
    model = AESVC(subset_size=100, max_vectors=50)
    search = AEHalvingGridSearchCV(model, GRID, cv=2, resource="hull_tol").fit(*moons)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.max_vectors == 50


def test_refine_in_the_grid_is_refused(moons):
    grid = {"C": [1.0, 2.0, 3.0], "refine": [0, 1]}
    with pytest.raises(ValueError, match="sets refine itself until the last round"):
        AEHalvingGridSearchCV(AESVC(), grid, resource="hull_tol").fit(*moons)


def test_a_frame_and_a_heat_map_begin_with_the_best(moons):
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    search = AEHalvingGridSearchCV(AESVC(), GRID, cv=3, random_state=0).fit(*moons)
    best = search.to_frame().iloc[0]
    assert best["params"] == search.best_params_
    shown = SearchDisplay.from_search(search)
    row, column = shown.best
    assert shown.row_values[row] == search.best_params_["gamma"]
    assert shown.column_values[column] == search.best_params_["C"]
    assert shown.scores[shown.best] == search.best_score_
    matplotlib.pyplot.close(shown.figure_)


def test_an_unknown_resource_is_named(moons):
    with pytest.raises(ValueError, match="hull_tolerance"):
        AEHalvingGridSearchCV(AESVC(), GRID, resource="hull_tolerance").fit(*moons)


def test_a_factor_of_one_is_refused(moons):
    with pytest.raises(ValueError, match="factor"):
        AEHalvingGridSearchCV(AESVC(), GRID, factor=1).fit(*moons)


@pytest.mark.parametrize(
    ("estimator", "grid", "message"),
    [
        (AESVC(), {"D": [1]}, "Invalid parameter 'D'"),
        (AESVC(hull_tol=0.0), {"C": [1.0, 10.0]}, "has none, it is 0"),
        (Pipeline([("svc", AESVC())]), {"svc": [SVC()]}, "puts another estimator in its place"),
    ],
)
def test_a_tolerance_that_cannot_be_coarser_is_said(moons, estimator, grid, message):
    resource = "svc__hull_tol" if isinstance(estimator, Pipeline) else "hull_tol"
    with pytest.raises(ValueError, match=message):
        AEHalvingGridSearchCV(estimator, grid, cv=3, resource=resource).fit(*moons)
