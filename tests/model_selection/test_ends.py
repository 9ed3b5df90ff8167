"""How searches end: interrupted, and with warnings that are errors."""

from __future__ import annotations

import threading
import warnings

import joblib
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, fit_path, shared_search
from tests.children import LIMIT


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.25, random_state=0)


def test_threads_end_with_an_interrupted_search(moons, monkeypatch):
    plain, evaluate, fits = fit_path.fit_rows, shared_search._evaluate, []
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

    monkeypatch.setattr(fit_path, "fit_rows", fitted)
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
