"""Whole fits with arrays that refuse to be taken for those of the host, as CuPy's do."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVC, AESVR, AENuSVC, AEOneClassSVM
from aesvm.gpu import devices, hull
from tests.gpu import strict


@pytest.fixture(autouse=True)
def strict_device(monkeypatch):
    device = strict.StrictDevice("cuda:0")
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    monkeypatch.setattr(hull, "_launch", strict.launch_on_the_host)
    strict.give_linear_algebra(monkeypatch)
    return device


@pytest.mark.parametrize(
    "estimator",
    [
        AESVC(gamma=1.0, C=2.0, refine="exact"),
        AESVC(gamma=1.0, refine=0, subset_size=100),
        AESVC(gamma=1.0, refine=1, subset_size=100),
        AESVC(gamma=1.0, max_vectors=50),
        AESVC(kernel="linear"),
        AESVC(kernel="poly", degree=2, coef0=1.0),
        AENuSVC(nu=0.3, gamma=1.0, tol=1e-5),
        AESVR(gamma=1.0, C=2.0),
        AESVR(gamma=1.0, refine=1, subset_size=100),
        AEOneClassSVM(gamma=1.0, nu=0.2),
    ],
    ids=repr,
)
def test_estimators_are_those_of_the_processor(estimator):
    X, y = make_moons(600, noise=0.3, random_state=0)
    if isinstance(estimator, AESVR):
        y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    here = clone(estimator).fit(X, y)
    there = clone(estimator).set_params(device="cuda").fit(X, y)
    values = "predict" if isinstance(estimator, AESVR) else "decision_function"
    one, other = getattr(here, values)(X), getattr(there, values)(X)
    assert_allclose(other, one, atol=0.03 * np.abs(one).max())
    if isinstance(estimator, AESVC):
        found = there.certify(X, y)
        assert found.dual_objective <= here.certify(X, y).objective * (1 + 1e-9)


def test_several_classes_and_far_rows():
    X, y = make_classification(400, 12, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    X[0] = 1e8
    here = AESVC(gamma=0.1).fit(X, y)
    there = AESVC(gamma=0.1, device="cuda").fit(X, y)
    assert np.mean(here.predict(X) == there.predict(X)) > 0.99
