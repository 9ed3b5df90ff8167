"""What the heat map of a search shows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV, SearchDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

GRID = {"C": [0.1, 10.0, 1.0], "gamma": [3.0, 0.3]}


@pytest.fixture(scope="module")
def search():
    X, y = make_moons(200, noise=0.25, random_state=0)
    return AEGridSearchCV(AESVC(), GRID, cv=3, scoring=["accuracy", "f1"], refit="f1").fit(X, y)


def test_scores_are_drawn_in_order_of_the_parameters(search):
    shown = SearchDisplay.from_search(search, score="f1")
    assert (shown.row_name, shown.column_name) == ("gamma", "C")
    assert shown.row_values == [0.3, 3.0]
    assert shown.column_values == [0.1, 1.0, 10.0]
    for params, value in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_f1"], strict=True
    ):
        at = shown.row_values.index(params["gamma"]), shown.column_values.index(params["C"])
        assert shown.scores[at] == value
        assert shown.text_[at].get_text() == format(value, ".3g")
    assert_array_equal(shown.image_.get_array(), shown.scores)
    assert [label.get_text() for label in shown.ax_.get_yticklabels()] == ["0.3", "3"]
    shown.row_values = [1467.8, 2.5e7]
    again = shown.plot()
    assert [label.get_text() for label in again.ax_.get_yticklabels()] == ["1,470", "2.5e+07"]
    shown.row_values = [0.3, 3.0]
    assert shown.ax_.get_xlabel() == "C"
    row, column = shown.best
    assert shown.row_values[row] == search.best_params_["gamma"]
    assert shown.column_values[column] == search.best_params_["C"]


def test_axes_and_other_searches(search):
    figure, ax = matplotlib.pyplot.subplots()
    shown = SearchDisplay.from_search(
        search, x="gamma", y="C", score="accuracy", ax=ax, include_values=False
    )
    assert shown.figure_ is figure
    assert shown.scores.shape == (3, 2)
    assert shown.text_ is None
    X, y = make_moons(100, noise=0.25, random_state=0)
    theirs = GridSearchCV(AESVC(), GRID, cv=2).fit(X, y)
    assert SearchDisplay.from_estimator(theirs).scores.shape == (2, 3)


def test_one_axis_that_is_given_leaves_the_other_to_the_usual(search):
    shown = SearchDisplay.from_search(search, x="gamma", score="f1")
    assert (shown.row_name, shown.column_name) == ("C", "gamma")
    shown = SearchDisplay.from_search(search, y="C", score="f1")
    assert (shown.row_name, shown.column_name) == ("C", "gamma")
    with pytest.raises(ValueError, match="the same parameter"):
        SearchDisplay.from_search(search, x="C", y="C", score="f1")


def test_the_best_of_what_is_not_drawn_is_shown():
    X, y = make_moons(200, noise=0.25, random_state=0)
    grid = {"C": [1.0, 10.0], "gamma": [1.0, 2.0], "class_weight": [None, {0: 50.0}]}
    search = AEGridSearchCV(AESVC(), grid, cv=2).fit(X, y)
    shown = SearchDisplay.from_search(search)
    assert np.nanmax(shown.scores) == search.best_score_


def test_what_cannot_be_drawn_is_named(search):
    with pytest.raises(ValueError, match=r"score='auc' .* \['accuracy', 'f1'\]"):
        SearchDisplay.from_search(search, score="auc")
    with pytest.raises(ValueError, match="'degree' is none of the search's parameters"):
        SearchDisplay.from_search(search, x="degree", score="f1")
    with pytest.raises(NotFittedError):
        SearchDisplay.from_search(AEGridSearchCV(AESVC(), GRID))
    X, y = make_moons(60, random_state=0)
    one = AEGridSearchCV(AESVC(), {"C": [1.0, 2.0]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="A heat map needs two parameters"):
        SearchDisplay.from_search(one)


def test_what_is_no_search_is_said_to_be_none():
    X, y = make_moons(60, random_state=0)
    with pytest.raises(TypeError, match=r"draws searches, .* and AESVC is none"):
        SearchDisplay.from_search(AESVC().fit(X, y))
    search = AEGridSearchCV(AESVC(), {"C": [1.0, 2.0], "gamma": [1.0]}, cv=2)
    with pytest.raises(NotFittedError):
        SearchDisplay.from_search(search)
    shown = SearchDisplay.from_search(Pipeline([("search", search.fit(X, y))]))
    assert shown.scores.shape == (1, 2)


def test_scores_of_fewer_rows_are_not_drawn_beside_those_of_the_last_round():
    X, y = make_moons(300, noise=0.25, random_state=0)
    grid = {"C": [0.01, 0.1, 1.0, 10.0], "gamma": [0.1, 1.0, 10.0]}
    halved = AEHalvingGridSearchCV(AESVC(), grid, cv=3, random_state=0).fit(X, y)
    results = halved.cv_results_
    last = results["n_resources"] == halved.n_resources_[-1]
    assert 0 < last.sum() < 12
    # a candidate that was dropped has the highest score of all
    results["mean_test_score"][np.flatnonzero(~last)[0]] = 2.0
    shown = SearchDisplay.from_search(halved, x="C", y="gamma")
    there = ~np.isnan(shown.scores)
    assert sorted(shown.scores[there]) == sorted(results["mean_test_score"][last])
    assert_array_equal(shown.eliminated, ~there)
    assert there[shown.best]
    grey, image = shown.ax_.images
    assert_array_equal(~np.ma.getmaskarray(grey.get_array()), ~there)
    assert image is shown.image_
    assert "grey: dropped before" in shown.ax_.get_title()


def test_nothing_is_grey_where_all_candidates_had_the_same_rows(search):
    shown = SearchDisplay.from_search(search, score="f1")
    assert shown.eliminated is None
    assert len(shown.ax_.images) == 1
    assert not shown.ax_.get_title()
