"""A search with a memory goes on where it was interrupted, and ends as an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import warnings
from pathlib import Path
from threading import Lock

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV, paths
from tests import children

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.3, 1.0, 3.0]}

#: Prints how many fits there were, and the scores; after ``pause`` fits it waits to be killed.
PROGRAM = """
import sys, time
from sklearn.datasets import make_moons
from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, paths

folder, pause = sys.argv[1], int(sys.argv[2])
plain, fits = paths.fit_rows, []
def counted(*args, **given):
    if len(fits) == pause:
        time.sleep(3600)
    fits.append(1)
    return plain(*args, **given)
paths.fit_rows = counted
X, y = make_moons(300, noise=0.25, random_state=0)
grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.3, 1.0, 3.0]}
search = AEGridSearchCV(AESVC(), grid, cv=3, memory=folder, refit=False).fit(X, y)
print(len(fits), search.cv_results_["mean_test_score"].tolist())
"""


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.25, random_state=0)


@pytest.fixture
def fits(monkeypatch):
    """The SVMs that are fitted in paths."""
    plain, found = paths.fit_rows, []

    def counted(svm, *rows, **given):
        found.append(svm)
        return plain(svm, *rows, **given)

    monkeypatch.setattr(paths, "fit_rows", counted)
    return found


def search(folder, **options):
    options = {"cv": 3, "refit": False, **options}
    return AEGridSearchCV(AESVC(), GRID, memory=folder, **options)


def n_kept(folder):
    return len(list(Path(folder).rglob("output.pkl")))


@pytest.mark.slow
def test_a_killed_search_ends_with_the_scores_of_an_undisturbed_one(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    n_fits, _, scores = children.run(children.code(PROGRAM, whole, -1)).partition(" ")
    assert n_fits == "27"
    with children.started(
        children.code(PROGRAM, folder, 10), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        ends = time.monotonic() + children.LIMIT
        while n_kept(folder) < 3:
            assert process.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    n_fits, _, again = children.run(children.code(PROGRAM, folder, -1)).partition(" ")
    assert again == scores
    assert n_fits == "18"  # three paths of three candidates were known
    assert n_kept(folder) == 9


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_what_is_known_is_not_fitted_again(moons, tmp_path, fits, n_jobs):
    first = search(tmp_path, return_train_score=True, n_jobs=n_jobs).fit(*moons)
    fits.clear()
    kept = joblib.Memory(str(tmp_path), verbose=0)
    for memory in (str(tmp_path), kept):
        again = search(memory, return_train_score=True).fit(*moons)
        for name in first.cv_results_:
            if name != "params":
                assert_array_equal(
                    np.ma.getdata(first.cv_results_[name]), np.ma.getdata(again.cv_results_[name])
                )
    assert not fits


def test_an_interrupted_search_keeps_every_path_that_is_done(moons, tmp_path, monkeypatch):
    plain, calls = paths.fit_rows, []

    def interrupted(*args, **given):
        calls.append(args)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return plain(*args, **given)

    monkeypatch.setattr(paths, "fit_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path).fit(*moons)
    assert n_kept(tmp_path) == 2
    resumed = search(tmp_path).fit(*moons)
    assert len(calls) == 8 + 21
    whole = search(None).fit(*moons)
    assert_array_equal(resumed.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"])


def test_candidates_may_be_added(moons, tmp_path, fits):
    search(tmp_path).fit(*moons)
    fits.clear()
    wider = search(tmp_path).set_params(param_grid={**GRID, "gamma": [*GRID["gamma"], 100.0]})
    assert len(wider.fit(*moons).cv_results_["params"]) == 12
    assert {svm.gamma for svm in fits} == {100.0}
    assert len(fits) == 9


@pytest.mark.parametrize(
    "change",
    [
        {"estimator__tol": 1e-5},
        {"scoring": "roc_auc"},
        {"return_train_score": True},
        {"error_score": 0.0},
        {"cv": KFold(3, shuffle=True, random_state=0)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_search_is_fitted_anew(moons, tmp_path, fits, change):
    search(tmp_path).fit(*moons)
    fits.clear()
    other = search(tmp_path).set_params(**change).fit(*moons)
    assert len(fits) == 27
    alone = search(None).set_params(**change).fit(*moons)
    assert_array_equal(other.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_other_rows_targets_and_weights_are_fitted_anew(moons, tmp_path, fits):
    X, y = moons
    search(tmp_path).fit(X, y)
    for rows, params in [
        ((X + 1e-9, y), {}),
        ((X, 1 - y), {}),
        ((X, y), {"sample_weight": np.ones(len(y))}),
    ]:
        fits.clear()
        search(tmp_path).fit(*rows, **params)
        assert len(fits) == 27


def test_folds_that_differ_in_their_test_rows_alone_are_told_apart(moons, tmp_path):
    train = np.arange(100)
    cv = [(train, np.arange(100, 200)), (train, np.arange(200, 260))]
    whole = search(None, cv=cv).fit(*moons).cv_results_
    for _ in range(2):  # fitted, and from the memory
        found = search(tmp_path, cv=cv).fit(*moons).cv_results_
        for name in ("split0_test_score", "split1_test_score"):
            assert_array_equal(found[name], whole[name])
    assert (whole["split0_test_score"] != whole["split1_test_score"]).any()


def test_threads_may_change(moons, tmp_path, fits):
    search(tmp_path).fit(*moons)
    fits.clear()
    search(tmp_path).set_params(estimator__n_jobs=2, estimator__verbose=1).fit(*moons)
    pipe = make_pipeline(StandardScaler(), AESVC())
    grid = {"aesvc__C": [1.0, 2.0]}
    for n_jobs in (None, 2):
        fits.clear()
        pipe[-1].n_jobs = n_jobs
        AEGridSearchCV(pipe, grid, cv=3, refit=False, memory=tmp_path).fit(*moons)
    assert not fits


def test_halving_goes_on_too(moons, tmp_path, fits):
    options = {"cv": 3, "refit": False, "memory": tmp_path, "random_state": 0}
    first = AEHalvingGridSearchCV(AESVC(), GRID, **options).fit(*moons)
    fits.clear()
    again = AEHalvingGridSearchCV(AESVC(), GRID, **options).fit(*moons)
    assert_array_equal(first.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])
    assert not fits


def test_other_estimators_are_kept_too(moons, tmp_path, monkeypatch):
    options = {"cv": 3, "refit": False, "memory": tmp_path}
    grid = {"C": [0.1, 1.0]}
    first = AEGridSearchCV(LogisticRegression(), grid, **options).fit(*moons)
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_: pytest.fail("it was fitted again"))
    again = AEGridSearchCV(LogisticRegression(), grid, **options).fit(*moons)
    assert_array_equal(first.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])


def test_fits_that_failed_are_tried_again(moons, tmp_path, monkeypatch):
    plain = AESVC.fit
    options = {"cv": 3, "refit": False, "memory": tmp_path}

    def short_of_memory(self, *args, **params):
        if self.C == 1.0:
            raise MemoryError("for a while")
        return plain(self, *args, **params)

    monkeypatch.setattr(AESVC, "fit", short_of_memory)
    grid = {"C": [0.1, 1.0], "gamma": [1.0]}
    with pytest.warns(FitFailedWarning, match="3 fits failed"):
        found = AEGridSearchCV(AESVC(), grid, **options).fit(*moons)
    assert_array_equal(np.isnan(found.cv_results_["mean_test_score"]), [False, True])
    monkeypatch.setattr(AESVC, "fit", plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = AEGridSearchCV(AESVC(), grid, **options).fit(*moons)
    assert not np.isnan(found.cv_results_["mean_test_score"]).any()


def test_a_damaged_result_is_computed_again(moons, tmp_path, fits):
    first = search(tmp_path).fit(*moons)
    for kept in tmp_path.rglob("output.pkl"):
        kept.write_bytes(kept.read_bytes()[:20])
    fits.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joblib tells which ones
        again = search(tmp_path).fit(*moons)
    assert len(fits) == 27
    assert_array_equal(first.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])


def test_rows_are_hashed_once(moons, tmp_path, monkeypatch):
    plain, hashed = joblib.hash, []

    def counted(value, **options):
        hashed.append(_n_arrays(value, moons[0]))
        return plain(value, **options)

    monkeypatch.setattr(joblib, "hash", counted)
    search(tmp_path).fit(*moons)
    assert sum(hashed) == 1


def _n_arrays(value, X):
    """How often the rows stand in a value."""
    if isinstance(value, (tuple, list)):
        return sum(_n_arrays(one, X) for one in value)
    return int(isinstance(value, np.ndarray) and np.shares_memory(value, X))


def test_what_cannot_be_hashed_is_named(moons, tmp_path):
    lock = Lock()
    with pytest.raises(ValueError, match=r"memory=.* needs to pickle scoring"):
        search(tmp_path, scoring=lambda *_: lock).fit(*moons)


def test_fits_with_a_time_limit_are_not_remembered_as_fits_without(tmp_path, fits):
    X, y = make_moons(2500, noise=0.3, random_state=0)
    half = [(range(2100), range(2100, 2500))]
    scores = {}
    for limit in (1e-3, None, 1e-3):
        options = {"cv": half, "refit": False, "memory": tmp_path}
        svm = AESVC(gamma=1.0, time_limit=limit)
        found = AEGridSearchCV(svm, {"C": [0.1, 1.0]}, **options).fit(X, y)
        assert np.isfinite(found.cv_results_["mean_test_score"]).all()
        again = scores.setdefault(limit, found.cv_results_["mean_test_score"])
        np.testing.assert_array_equal(found.cv_results_["mean_test_score"], again)
    assert [svm.time_limit for svm in fits] == [1e-3, 1e-3, None, None]
    assert max(len(svm.support_) for svm in fits[:2]) <= 502
