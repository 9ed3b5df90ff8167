"""Sparse rows on a device that something stands in for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from aesvm import AESVC


@pytest.mark.parametrize("device", ["stand_in", "emulated"])
@pytest.mark.parametrize("gamma", [100.0, 1e12])
def test_rows_so_far_apart_that_products_cancel(request, device, gamma):
    # products are not precise enough for a certificate; with the second gamma, for nothing at all
    request.getfixturevalue(device)
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(0.4, (40, 30)).astype(float))
    y = np.arange(40) % 2
    here = AESVC(gamma=gamma, refine="exact").fit(X, y)
    there = AESVC(gamma=gamma, refine="exact", device="cuda").fit(X, y)
    for name in ("objective", "dual_objective"):
        one, other = (getattr(model.certificate_, name) for model in (here, there))
        assert_allclose(one, other, rtol=1e-3)
    assert_allclose(here.decision_function(X), there.decision_function(X), atol=5e-3)
