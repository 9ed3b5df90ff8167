"""A regression that C holds back says so, and no other does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from aesvm import AESVR, AENuSVR

EACH = pytest.mark.parametrize("estimator", [AESVR, AENuSVR])
SAYS = "is too small for targets with a standard deviation of .*TransformedTargetRegressor"


def prices(n=400, unit=1e5, seed=0):
    """A surface that is easily learned, in a large unit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, unit * np.exp(np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1])


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@EACH
@pytest.mark.parametrize("unit", [1e4, 1e9, 1e100])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_targets_far_larger_than_c_are_said(estimator, unit, kernel):
    X, y = prices(unit=unit)
    with pytest.warns(UserWarning, match=SAYS) as said:
        model = estimator(kernel=kernel).fit(X, y)
    assert len(said) == 1
    assert model.score(X, y) < 0.1


@EACH
@pytest.mark.parametrize("refine", [0, 1])
def test_it_is_said_of_sets_weights_and_streams(estimator, refine):
    X, y = prices(3000)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 3000)
    model = estimator(gamma=1.0, refine=refine)
    with pytest.warns(UserWarning, match=SAYS):
        model.fit(X, y, sample_weight=weights)
    with pytest.warns(UserWarning, match=SAYS):
        model.fit_stream([(X[:1500], y[:1500], None), (X[1500:], y[1500:], None)])


@EACH
def test_what_is_advised_helps(estimator, silent):
    X, y = prices(unit=1e3)
    scaled = TransformedTargetRegressor(estimator(C=10.0), transformer=StandardScaler())
    assert scaled.fit(X, y).score(X, y) > 0.9
    assert estimator(C=1e4, tol=1.0).fit(X, y).score(X, y) > 0.9


@EACH
@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("n_features", [1, 3, 10])
@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_noise_of_unit_scale_is_no_fault_of_c(estimator, n, n_features, signal, silent):
    rng = np.random.default_rng(n + n_features)
    X = rng.normal(size=(n, n_features))
    y = signal * np.sin(X[:, 0]) + rng.normal(size=n)
    tubes = (
        [{"nu": 0.5}, {"nu": 0.99}] if estimator is AENuSVR else [{"epsilon": 0.1}, {"epsilon": 0}]
    )
    for tube in tubes:
        estimator(**tube).fit(X, y)


@EACH
def test_rows_that_are_all_the_same_are_no_fault_of_c(estimator, silent):
    estimator(gamma=1.0).fit(np.ones((50, 2)), 1e5 * np.arange(50.0))
