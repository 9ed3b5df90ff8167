"""Pictures of Shapley values show what is there."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_friedman1

from aesvm import AESVC, AESVR
from aesvm.inspection import ShapleyDisplay, shapley_values

mpl.use("Agg")


@pytest.fixture(name="machine", scope="module")
def machine_of_five_features_among_ten():
    X, y = make_friedman1(300, random_state=0)
    return AESVR(C=10.0).fit(X, y), X


def test_bars_are_mean_absolute_values(machine):
    model, X = machine
    display = ShapleyDisplay.from_estimator(model, X[:30], background=20, kind="bar")
    wanted = np.abs(shapley_values(model, X[:30], 20).values).mean(axis=0)
    assert_allclose([bar.get_width() for bar in display.bars_], np.sort(wanted)[::-1])
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == [f"x{feature}" for feature in np.argsort(-wanted)]


def test_a_beeswarm_has_a_dot_for_every_row(machine):
    _, X = machine
    frame = pd.DataFrame(X[:30], columns=[*"abcdefghij"])
    display = ShapleyDisplay.from_estimator(
        AESVR(C=10.0).fit(frame, X[:30, 0]), frame, background=10, max_features=3
    )
    assert len(display.dots_) == 3
    values = display.values
    for dots, feature in zip(display.dots_, display.order_, strict=True):
        where = dots.get_offsets()
        assert_array_equal(where[:, 0], values.values[:, feature])
        shades = dots.get_array()
        assert_array_equal(np.argsort(shades), np.argsort(values.data[:, feature]))
    lines = [dots.get_offsets()[:, 1] for dots in display.dots_]
    assert all(np.abs(own - line).max() < 0.5 for line, own in enumerate(lines))


def test_one_of_several_outputs_is_drawn_by_name():
    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    model = AESVC().fit(iris.data, names)
    display = ShapleyDisplay.from_estimator(model, iris.data, background=30, output="virginica")
    assert display.ax_.get_title() == "virginica"
    assert_array_equal(
        display.dots_[0].get_offsets()[:, 0], display.values.values[:, display.order_[0], 2]
    )
    bars = display.plot(kind="bar").bars_
    wanted = display.values.importances.sum(axis=1).max()
    assert bars[0].get_width() == pytest.approx(wanted)
    with pytest.raises(ValueError, match=r"output=None: pass output=, one of \['setosa'"):
        display.plot()
    with pytest.raises(ValueError, match="kind='pie' cannot be drawn"):
        display.plot(kind="pie")
    with pytest.raises(ValueError, match="max_features=-1: at least one"):
        display.plot(kind="bar", max_features=-1)


def test_columns_of_text_are_grey():
    X, _ = make_friedman1(100, random_state=0)
    values = shapley_values(AESVR().fit(X, X[:, 0]), X[:20], 10)
    text = type(values)(
        values.values, 0.0, np.char.add(values.data.astype(str), "?"), values.feature_names, None, X
    )
    display = ShapleyDisplay(text).plot(max_features=1)
    assert display.dots_[0].get_array() is None


def test_interactions_are_not_drawn(machine):
    model, X = machine
    values = shapley_values(model, X[:3], 2, interactions=True)
    with pytest.raises(ValueError, match="these are interactions"):
        ShapleyDisplay(values).plot()
