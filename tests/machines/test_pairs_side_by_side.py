"""Pairs of classes that are trained side by side, a thread each."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from aesvm import AESVC, TimeLimit
from aesvm.kernels import blocks
from aesvm.machines import fit, small_pairs
from aesvm.solver import host
from tests.runtime.test_progress import Recorder

X, Y = make_blobs(2400, 4, centers=5, cluster_std=4.0, random_state=0)


@pytest.fixture(autouse=True)
def no_pair_is_small(monkeypatch):
    monkeypatch.setattr(small_pairs, "MOST_ROWS", 0)


@pytest.fixture(name="calls")
def calls_of_side_by_side(monkeypatch):
    """How many threads each fit has that trains pairs side by side."""
    found, whole = [], fit.side_by_side

    def side_by_side(threads, *others):
        found.append(threads.n_threads)
        return whole(threads, *others)

    monkeypatch.setattr(fit, "side_by_side", side_by_side)
    return found


@pytest.mark.parametrize("refine", [0, 1, "exact"])
def test_the_model_is_that_of_pairs_one_after_another(refine, calls, monkeypatch):
    monkeypatch.setattr(blocks, "MANY_COLUMNS", 100)
    models = [
        AESVC(gamma=0.1, refine=refine, hull_tol=1e-2, subset_size=200, n_jobs=n_jobs).fit(X, Y)
        for n_jobs in (1, 2, 3)
    ]
    assert calls == [2, 3]
    for other in models[1:]:
        for name in ("support_", "dual_coef_", "intercept_", "n_iter_"):
            assert_array_equal(getattr(other, name), getattr(models[0], name))
        assert other.certificate_ == models[0].certificate_
        assert_array_equal(other.decision_function(X), models[0].decision_function(X))
    if refine == "exact":
        svc = SVC(gamma=0.1, tol=1e-4).fit(X, Y)
        assert np.mean(models[0].predict(X) == svc.predict(X)) > 0.998


def test_few_pairs_are_trained_one_after_another(calls):
    few = Y < 3
    AESVC(gamma=0.1, refine="exact", n_jobs=2).fit(X[few], Y[few])
    AESVC(gamma=0.1, refine="exact", n_jobs=6).fit(X, Y)
    assert not calls


def test_pairs_of_very_different_sizes_are_trained_one_after_another(calls):
    rare = (Y > 1) & (np.arange(len(Y)) % 20 > 0)
    AESVC(gamma=0.1, refine="exact", n_jobs=2).fit(X[~rare], Y[~rare])
    assert not calls


@pytest.mark.parametrize("kind", ["many features", "far apart", "no compiled kernel"])
def test_solves_that_keep_kernel_rows_are_not_made_side_by_side(kind, calls):
    rows, kernel = X, "rbf"
    if kind == "many features":
        rows = np.hstack([X, np.zeros((len(X), blocks.CHEAP_FEATURES - X.shape[1] + 1))])
    elif kind == "far apart":
        rows = np.where(np.arange(len(X))[:, None] % 3 == 1, 3e6 * X, X)
    else:
        kernel = "sigmoid"
    AESVC(gamma=0.1, kernel=kernel, refine="exact", n_jobs=2).fit(rows, Y)
    assert not calls


def test_the_same_is_reported(calls):
    recorders = [Recorder(), Recorder()]
    for n_jobs, recorder in enumerate(recorders, 1):
        AESVC(gamma=0.1, refine="exact", n_jobs=n_jobs).set_callbacks(recorder).fit(X, Y)
        assert recorder.begun == recorder.ended
    assert calls == [2]
    assert recorders[0].begun.keys() == recorders[1].begun.keys()


def test_a_time_limit_ends_all_pairs(calls, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 16)  # so that solves have many rounds
    limit = TimeLimit(0.0)
    model = AESVC(gamma=0.1, C=10.0, refine="exact", n_jobs=2).set_callbacks(limit)
    with pytest.warns(ConvergenceWarning, match="TimeLimit"):
        model.fit(X, Y)
    assert calls == [2]
    assert model.decision_function(X).shape == (len(X), 5)
    assert np.count_nonzero(model.kkt_violation_ > 1e-3) == 10
