"""Grids that centre themselves on the data, and the paper's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import make_friedman1, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.model_selection import (
    AEGridSearchCV,
    AERandomizedSearchCV,
    paper_grid,
    svm_grid,
)


@pytest.fixture(scope="module")
def moons():
    return make_moons(500, noise=0.2, random_state=0)


def test_gamma_follows_the_scale_of_the_rows(moons):
    X, y = moons
    near, far = svm_grid(AESVC(), X, y), svm_grid(AESVC(), 100.0 * X, y)
    assert_allclose(np.array(near["gamma"]), 1e4 * np.array(far["gamma"]), rtol=0.01)
    assert_allclose(near["C"], far["C"], rtol=0.2)
    assert min(near["gamma"]) < 1.0 < max(near["gamma"])


def test_c_follows_the_scale_of_the_targets():
    X, y = make_friedman1(500, n_features=5, random_state=0)
    one, ten = svm_grid(AESVR(), X, y), svm_grid(AESVR(), X, 10.0 * y)
    assert_allclose(10.0 * np.array(one["C"]), ten["C"], rtol=0.01)


def test_other_kernels_have_no_gamma_to_search_and_nu_forms_have_nu(moons):
    X, y = moons
    assert list(svm_grid(AESVC(kernel="linear"), X, y)) == ["C"]
    assert "nu" in svm_grid(AENuSVC(), X, y)
    assert set(svm_grid(AENuSVR(), X, X[:, 0])) == {"C", "gamma"}
    assert "nu" in svm_grid(AEOneClassSVM(), X)
    assert all(0 < nu < 1 for nu in svm_grid(AEOneClassSVM(), X)["nu"])


def test_names_are_those_of_the_pipeline_and_rows_are_transformed(moons):
    X, y = moons
    pipe = make_pipeline(StandardScaler(), AESVC())
    grid = svm_grid(pipe, 1000.0 * X, y)
    assert set(grid) == {"aesvc__C", "aesvc__gamma"}
    scaled = svm_grid(AESVC(), StandardScaler().fit_transform(X), y)
    assert_allclose(grid["aesvc__gamma"], scaled["gamma"], rtol=0.01)


def test_sparse_rows_and_rows_that_are_all_the_same(moons):
    X, y = moons
    assert_allclose(
        svm_grid(AESVC(), sp.csr_array(X), y)["gamma"], svm_grid(AESVC(), X, y)["gamma"]
    )
    for rows in (np.ones((50, 2)), 1e-160 * X[:50], 1e160 * X[:50]):
        grid = svm_grid(AESVC(), rows, np.arange(50) % 2)
        assert all(np.isfinite(values).all() and min(values) > 0 for values in grid.values())
    assert svm_grid(AESVC(), sp.coo_matrix(X), y) == svm_grid(AESVC(), X, y)
    with pytest.raises(ValueError, match="y=None"):
        svm_grid(AESVR(), X)


def test_the_best_gamma_is_inside_the_grid(moons):
    X, y = moons
    for scale in (0.01, 1.0, 100.0):
        search = AEGridSearchCV(AESVC(), "svm", cv=3).fit(scale * X, y)
        assert search.best_score_ > 0.95
        assert len(search.cv_results_["params"]) == 25
        grid, best = search.param_grid_["gamma"], search.best_params_["gamma"]
        assert grid[0] < best < grid[-1]


def test_random_candidates_of_the_svms_ranges(moons):
    search = AERandomizedSearchCV(AESVC(), "svm", n_iter=6, random_state=0, cv=3).fit(*moons)
    assert search.best_score_ > 0.9


def test_the_papers_grid_needs_a_c(moons):
    assert len(paper_grid()["C"]) * len(paper_grid()["gamma"]) == 84
    assert "aesvc__C" in paper_grid(make_pipeline(StandardScaler(), AESVC()))
    for other in (AEOneClassSVM(), LogisticRegression()):
        with pytest.raises(ValueError, match="paper"):
            paper_grid(other)
    with pytest.raises(ValueError, match="svm"):
        AEGridSearchCV(LogisticRegression(), "svm").fit(*moons)


def test_classes_are_needed_for_the_range_of_nu(moons):
    with pytest.raises(ValueError, match="y=None: the range of nu"):
        svm_grid(AENuSVC(), moons[0])
    assert "nu" in svm_grid(AENuSVC(), *moons)
