"""Probabilities by ``CalibratedClassifierCV``, as the example has them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_moons
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from aesvm import AESVC, AENuSVC
from aesvm.dask import DaskAESVC

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "probabilities.py")


def test_calibrated_probabilities_are_better_and_those_of_svc():
    example = runpy.run_path(EXAMPLE)
    y, ways = example["probabilities"]()
    plain, ours, theirs = ways.values()
    assert brier_score_loss(y, ours) < 0.5 * brier_score_loss(y, plain)
    error = example["calibration_error"]
    assert error(y, ours) < 0.04
    assert error(y, ours) < 0.3 * error(y, plain)
    assert abs(brier_score_loss(y, ours) - brier_score_loss(y, theirs)) < 1e-3
    assert abs(error(y, ours) - error(y, theirs)) < 0.01


def test_the_example_shows_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    runpy.run_path(EXAMPLE, run_name="__main__")
    printed = capsys.readouterr().out
    assert "AESVC, calibrated" in printed
    assert "Brier score" in printed


@pytest.mark.parametrize("model", [AESVC(), AENuSVC(nu=0.1)])
def test_many_classes_have_probabilities_that_say_how_often_one_is_right(model):
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X / 16.0, y, random_state=0)
    given = CalibratedClassifierCV(model, ensemble=False).fit(X, y).predict_proba(X_new)
    np.testing.assert_allclose(given.sum(axis=1), 1.0)
    right = given.argmax(axis=1) == y_new
    assert right.mean() > 0.95
    assert abs(given.max(axis=1).mean() - right.mean()) < 0.05


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
@pytest.mark.parametrize("model", [AESVC(), AENuSVC(), DaskAESVC()])
def test_who_asks_a_classifier_for_probabilities_is_told_how_to_have_them(model, method):
    assert not hasattr(model, method)
    message = (
        rf"^{type(model).__name__} has no {method}: .*CalibratedClassifierCV\(.*ensemble=False"
    )
    with pytest.raises(AttributeError, match=message):
        getattr(model, method)


def test_a_fitted_model_is_calibrated_as_its_error_says():
    X, y = make_moons(600, noise=0.3, random_state=0)
    model = AESVC(gamma=1.0).fit(X[:300], y[:300])
    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(X[300:], y[300:])
    assert brier_score_loss(y, calibrated.predict_proba(X)[:, 1]) < 0.1
