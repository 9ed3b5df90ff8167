"""Shapley values on a GPU are those of the processor."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from aesvm import AESVC, AESVR
from aesvm.gpu import shapley
from aesvm.gpu.devices import DeviceMemoryError
from aesvm.inspection import shapley_values


def problem(width=7):
    random = np.random.default_rng(0)
    X = random.normal(size=(90, width))
    X[np.abs(X) < 0.3] = 0.0
    return X, (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)


@pytest.mark.parametrize("gamma", [0.01, 0.5, 200.0])
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
def test_device_code_has_the_values_of_the_processor(emulated, gamma, rows):
    X, y = problem()
    model = AESVC(gamma=gamma).fit(rows(X), y)
    given = rows(X[:5]), rows(np.vstack([X[:1], X[60:66]]))
    groups = [[0, 6]]
    found = shapley_values(model, *given, groups=groups, device="cuda")
    wanted = shapley_values(model, *given, groups=groups)
    assert found.values.shape == (5, 6, 3)
    size = np.abs(model.dual_coef_).sum()
    assert_allclose(found.values, wanted.values, rtol=0, atol=1e-14 * size)


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_rows_and_background_in_parts(emulated, monkeypatch, spread):
    X, _ = problem(40)
    model = AESVR(gamma=spread / 40).fit(X, X[:, 0])
    wanted = shapley_values(model, X[:6], X[60:67])
    row_bytes = 8 * 40 * len(model.support_)
    held = 8 * len(model.support_) * 41
    monkeypatch.setattr(type(emulated), "free_bytes", lambda self: held + 8.0 * row_bytes)
    launched = []
    kernel = shapley._kernel
    monkeypatch.setattr(shapley, "_kernel", lambda name: launched.append(name) or kernel(name))
    found = shapley_values(model, X[:6], X[60:67], device="cuda")
    assert launched.count("add_values") == 6  # four background rows, then three; rows by twos
    assert_allclose(found.values, wanted.values, rtol=0, atol=1e-13)
    monkeypatch.setattr(type(emulated), "free_bytes", lambda self: held + 3.0 * row_bytes)
    with pytest.raises(DeviceMemoryError, match="too little free memory"):
        shapley_values(model, X[:6], X[60:67], device="cuda")
