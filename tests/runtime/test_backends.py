"""The estimators inside joblib's backends: the same result, whoever runs them."""

from __future__ import annotations

import distributed
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV

from aesvm import AESVC, RepresentativeSet
from aesvm.model_selection import AEGridSearchCV
from aesvm.model_selection.evaluation import Search


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.weekly
@pytest.mark.parametrize("backend", ["threading", "loky", "dask"])
def test_a_grid_search_finds_the_same_under_every_backend(backend, client):
    X, y = make_moons(1500, noise=0.25, random_state=0)
    search = GridSearchCV(AESVC(gamma=1.0, refine=0), {"C": [0.1, 10.0]}, cv=2)
    alone = search.fit(X, y).cv_results_["mean_test_score"]
    with parallel_config(backend=backend, n_jobs=2):
        together = search.fit(X, y).cv_results_["mean_test_score"]
    assert_array_equal(alone, together)


@pytest.mark.parametrize("backend", ["threading", "loky", "dask"])
def test_a_search_that_shares_work_finds_the_same_under_every_backend(backend, client):
    X, y = make_moons(600, noise=0.25, random_state=0)
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.5, 1.0, 2.0]}
    search = AEGridSearchCV(AESVC(), grid, cv=3, refit=False)
    alone = search.fit(X, y).cv_results_["mean_test_score"]
    with parallel_config(backend=backend, n_jobs=2):
        together = search.fit(X, y).cv_results_["mean_test_score"]
    assert_array_equal(alone, together)


def kind_of_rows(search):
    return type(search.X).__name__, type(search.y).__name__


def test_workers_are_given_rows_through_a_memory_map():
    X, y = make_moons(200_000, noise=0.25, random_state=0)
    search = Search(AESVC(), X, y, None, {}, {}, False, 0.0, 0)
    (found,) = Parallel(n_jobs=2)([delayed(kind_of_rows)(search)])
    assert found == ("memmap", "memmap")


@pytest.mark.parametrize("backend", ["threading", "loky", "dask"])
def test_threads_of_a_fit_follow_the_backend(backend, client):
    X, y = make_moons(3000, noise=0.1, random_state=0)
    alone = RepresentativeSet(gamma=1.0).fit(X, y)
    with parallel_config(backend=backend, n_jobs=2):
        inside = RepresentativeSet(gamma=1.0).fit(X, y)
    assert_array_equal(alone.sample_indices_, inside.sample_indices_)
    assert_array_equal(alone.weights_, inside.weights_)
