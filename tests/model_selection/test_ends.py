"""How searches end: interrupted, in time, and with warnings that are errors."""

from __future__ import annotations

import threading
import time
import warnings
from itertools import pairwise

import joblib
import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC, TimeLimit
from aesvm.model_selection import (
    AEGridSearchCV,
    AEHalvingGridSearchCV,
    AERandomizedSearchCV,
    evaluation,
    paths,
    shared_search,
)
from aesvm.model_selection.paths import last_step
from aesvm.model_selection.shared_search import _from_the_middle
from tests.children import LIMIT


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.25, random_state=0)


def test_threads_end_with_an_interrupted_search(moons, monkeypatch):
    plain, evaluate, fits = paths.fit_rows, shared_search._evaluate, []
    begun, released, ended = threading.Event(), threading.Event(), threading.Event()

    def fitted(svm, *rows, **given):
        if svm.gamma == 2.0:
            fits.append(svm)
            begun.set()
            assert released.wait(LIMIT)
        return plain(svm, *rows, **given)

    def evaluated(search, task, n_candidates):
        try:
            return evaluate(search, task, n_candidates)
        finally:
            if task.paths[0].params[0]["gamma"] == 2.0:
                ended.set()

    def interrupted(*_):
        assert begun.wait(LIMIT)
        raise KeyboardInterrupt

    monkeypatch.setattr(paths, "fit_rows", fitted)
    monkeypatch.setattr(shared_search, "_evaluate", evaluated)
    monkeypatch.setattr(shared_search._SearchProgress, "done", interrupted)
    one_fold = [(range(100), range(100, 200))]
    grid = {"C": [1.0, 2.0, 4.0], "gamma": [1.0, 2.0]}
    with joblib.parallel_config("threading"), pytest.raises(KeyboardInterrupt):
        AEGridSearchCV(AESVC(), grid, cv=one_fold, n_jobs=2).fit(*moons)
    released.set()
    assert ended.wait(LIMIT)
    assert len(fits) == 1


def test_what_was_found_is_there_where_warnings_are_errors(moons):
    search = AEGridSearchCV(AESVC(max_iter=1), {"C": [1.0, 10.0]}, cv=3, refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning, match="6 of 6 fits"):
            search.fit(*moons)
    assert len(search.to_frame()) == 2
    assert search.best_params_ in [{"C": 1.0}, {"C": 10.0}]


GRID = {"C": [1.0, 10.0, 100.0], "gamma": [0.1, 1.0, 10.0]}


def searches(svm=None, **options):
    """One search of each kind."""
    svm = AESVC() if svm is None else svm
    drawn = {"C": loguniform(1.0, 100.0), "gamma": GRID["gamma"]}
    return [
        AEGridSearchCV(svm, GRID, cv=2, **options),
        AERandomizedSearchCV(svm, drawn, n_iter=9, cv=2, random_state=0, **options),
        AEHalvingGridSearchCV(svm, GRID, cv=2, random_state=0, **options),
        AEHalvingGridSearchCV(svm, GRID, cv=2, resource="hull_tol", **options),
    ]


EACH = pytest.mark.parametrize("kind", range(4))


class Wall:
    """``time.time`` of a search that ends as it begins fit number ``n``."""

    def __init__(self, monkeypatch, n):
        self.n_fits, self.began = 0, time.time()
        plain = paths.fit_rows

        def counted(*rows, **given):
            self.n_fits += 1
            return plain(*rows, **given)

        monkeypatch.setattr(paths, "fit_rows", counted)
        monkeypatch.setattr(evaluation.time, "time", lambda: self.began + 1e9 * (self.n_fits >= n))


@EACH
def test_a_search_with_time_enough_is_one_without_a_limit(kind, moons):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        limited = searches(time_limit=10**6)[kind].fit(*moons)
    free = searches()[kind].fit(*moons)
    assert limited.cut_short_ == free.cut_short_ == ""
    for name in ("mean_test_score", "split1_test_score", "rank_test_score", "params"):
        np.testing.assert_array_equal(limited.cv_results_[name], free.cv_results_[name])
    assert limited.best_params_ == free.best_params_
    assert limited.best_estimator_.time_limit is None
    np.testing.assert_array_equal(
        limited.best_estimator_.dual_coef_, free.best_estimator_.dual_coef_
    )


@EACH
@pytest.mark.parametrize("n_fits", [1, 4, 11, 18])
def test_a_search_that_ends_at_any_fit_has_the_best_candidate_known_then(
    kind, n_fits, moons, monkeypatch
):
    search = searches(time_limit=1e6, return_train_score=True)[kind]
    Wall(monkeypatch, n_fits)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search.fit(*moons)
    results = search.cv_results_
    scores = results["mean_test_score"]
    known = ~np.isnan(scores)
    assert search.predict(moons[0]).shape == (200,)
    assert known.any()
    said = [str(one.message) for one in told if one.category is ConvergenceWarning]
    assert bool(said) == bool(search.cut_short_)
    assert said or n_fits == 18
    assert not any("non-finite" in str(one.message) for one in told)
    rounds = results.get("iter", np.zeros(len(scores)))
    last = rounds == rounds[known].max()
    assert search.best_score_ == np.nanmax(scores[last])
    splits = np.column_stack([results["split0_test_score"], results["split1_test_score"]])
    np.testing.assert_allclose(scores[known], np.nanmean(splits[known], axis=1))
    np.testing.assert_allclose(results["std_test_score"][known], np.nanstd(splits[known], axis=1))
    for this_round in np.unique(rounds[known]):  # candidates are compared on the same folds
        assert len(np.unique(np.isnan(splits[known & (rounds == this_round)]), axis=0)) == 1


@EACH
def test_a_search_without_any_time_gives_a_model_and_says_what_it_lacks(kind):
    X, y = make_moons(3000, noise=0.25, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"time_limit=0 has cut the search short: "):
        search = searches(time_limit=0)[kind].fit(X, y)
    assert search.score(X, y) > 0.8
    assert "9 of 9 candidates were not tried" in search.cut_short_
    assert np.isnan(search.best_score_)
    assert search.best_index_ == 4
    assert "best_params_ is the one in the middle of the grid" in search.cut_short_


def test_fits_share_the_time_of_a_search_evenly(moons, monkeypatch):
    """Time that a fit leaves is shared by those that follow."""
    plain, limits = paths.fit_rows, []

    def noted(svm, *rows, **given):
        limits.append(svm.time_limit)
        return plain(svm, *rows, **given)

    monkeypatch.setattr(paths, "fit_rows", noted)
    monkeypatch.setattr(evaluation.time, "time", lambda: 0.0)
    AEGridSearchCV(AESVC(), GRID, cv=2, refit=False, time_limit=1800.0).fit(*moons)
    assert limits[0] == pytest.approx(0.75 * 1800.0 / 18, rel=1e-3)
    assert all(after > before for before, after in pairwise(limits))
    assert limits[-1] == pytest.approx(0.75 * 1800.0, rel=1e-3)
    limits.clear()
    AEGridSearchCV(AESVC(time_limit=7.0), GRID, cv=2, refit=False, time_limit=1800.0).fit(*moons)
    assert limits == [7.0] * 18


def test_the_fit_to_all_rows_ends_with_the_search():
    X, y = make_moons(3000, noise=0.25, random_state=0)
    limit = TimeLimit(0)
    for svm, one in ((AESVC(), "C"), (make_pipeline(StandardScaler(), AESVC()), "aesvc__C")):
        search = AEGridSearchCV(svm, {one: [1.0]}, cv=2).set_callbacks(limit)
        with pytest.warns(ConvergenceWarning, match=r"TimeLimit\(0\) ended the fit before"):
            search.fit(X, y)
        last = last_step(search.best_estimator_)[1]
        assert last.certificate_.stopped_after is not None
        assert getattr(last, "_skl_callbacks", []) == []


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("limited", ["time_limit", "TimeLimit"])
def test_a_search_ends_within_its_limit(n_jobs, limited):
    """By the processor's seconds, and with a generous allowance: the machine may be busy."""
    X, y = make_moons(6000, noise=0.3, random_state=0)
    search = AEGridSearchCV(AESVC(), "svm", cv=3, n_jobs=n_jobs)
    if limited == "time_limit":
        search.set_params(time_limit=2.0)
    else:
        search.set_callbacks(TimeLimit(2.0))
    with joblib.parallel_config("threading"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        search.fit(X, y)
    assert time.process_time() - began < 60.0  # without a limit it takes minutes
    assert search.score(X, y) > 0.8


def test_estimators_of_other_packages_are_not_begun_after_the_end(moons, monkeypatch):
    monkeypatch.setattr(shared_search, "SEARCH_SHARE", 0.0)
    search = AEGridSearchCV(SVC(), {"C": [1.0, 10.0, 100.0]}, cv=2, time_limit=100.0)
    with pytest.warns(ConvergenceWarning, match="3 of 3 candidates were not tried"):
        search.fit(*moons)
    assert search.best_params_ == {"C": 10.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.undo()
        found = search.fit(*moons).cv_results_["mean_test_score"]
    wanted = GridSearchCV(SVC(), {"C": [1.0, 10.0, 100.0]}, cv=2).fit(*moons)
    np.testing.assert_array_equal(found, wanted.cv_results_["mean_test_score"])


def test_several_scores_of_candidates_that_were_not_tried_are_missing(moons, monkeypatch):
    Wall(monkeypatch, 3)
    scoring = ["accuracy", "balanced_accuracy"]
    search = AEGridSearchCV(AESVC(), GRID, cv=2, scoring=scoring, refit="accuracy", time_limit=1e6)
    with pytest.warns(ConvergenceWarning, match="6 of 9 candidates were not tried"):
        search.fit(*moons)
    for name in scoring:
        assert np.isnan(search.cv_results_[f"mean_test_{name}"]).sum() == 6
    assert search.best_score_ == np.nanmax(search.cv_results_["mean_test_accuracy"])


def test_fits_that_a_search_has_ended_are_not_remembered(moons, tmp_path, monkeypatch):
    options = {"cv": 2, "refit": False, "memory": tmp_path}
    with monkeypatch.context() as patch:
        Wall(patch, 4)
        with pytest.warns(ConvergenceWarning, match="not tried"):
            AEGridSearchCV(AESVC(), GRID, time_limit=1e6, **options).fit(*moons)
    again = AEGridSearchCV(AESVC(), GRID, **options).fit(*moons).cv_results_["mean_test_score"]
    wanted = AEGridSearchCV(AESVC(), GRID, cv=2, refit=False).fit(*moons)
    np.testing.assert_array_equal(again, wanted.cv_results_["mean_test_score"])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 25])
def test_an_order_from_the_middle_has_every_number_once(n):
    order = _from_the_middle(n)
    assert sorted(order) == list(range(n))
    assert order[:1] == [n // 2][:n]


@EACH
def test_a_limit_is_a_number_of_seconds(kind, moons):
    with pytest.raises(ValueError, match=r"'time_limit'.*\[0\.0, inf\).*-1"):
        searches(time_limit=-1)[kind].fit(*moons)
