"""What the targets and weights of all rows of a stream say, whatever is held of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from aesvm import AESVR, AENuSVC, AENuSVR


@pytest.mark.parametrize("refine", [0, 1])
def test_nu_must_be_feasible_for_class_weights(refine):
    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = AENuSVC(nu=0.5, gamma=1.0, refine=refine, class_weight={1: 20.0})
    with pytest.raises(ValueError, match=r"nu=0\.5 is more than 0\.0952"):
        model.fit_stream([(X, y, None)])
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        model.partial_fit(X, y, classes=[0, 1]).partial_fit()
    model.set_params(class_weight=None).fit_stream([(X, y, None)])
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("refine", [1, "auto"])
@pytest.mark.parametrize("estimator", [AESVR, AENuSVR])
def test_targets_that_are_all_the_same_make_no_rounds(estimator, refine):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    chunks = [(X[:1000], np.full(1000, 0.1), None), (X[1000:], np.full(1000, 0.1), None)]
    model = estimator(gamma=1.0, refine=refine).fit_stream(chunks)
    assert model.certificate_.rounds == 0
    assert_allclose(model.predict(X), 0.1)
    assert model.certify_stream(chunks).objective == pytest.approx(0.0, abs=1e-9)
