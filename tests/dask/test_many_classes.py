"""Many classes on a cluster: all small pairs at once, and what looks at their rows send."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm import AESVC
from aesvm.dask import DaskAESVC
from aesvm.out_of_core import many_pairs

N_CLASSES, N_ROWS = 16, 30


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), N_ROWS)
    X = 2.0 * rng.normal(size=(N_CLASSES, 3))[y] + rng.normal(size=(len(y), 3))
    order = rng.permutation(len(y))
    return X[order], y[order]


@pytest.mark.weekly
@pytest.mark.parametrize("by_rounds", [False, True], ids=["all rows", "rounds"])
def test_many_small_classes_are_as_in_memory(client, rows, by_rounds, monkeypatch):
    if by_rounds:
        monkeypatch.setattr(many_pairs, "_ROOM", 1e6)
    X, y = rows
    assert N_CLASSES * (N_CLASSES - 1) // 2 >= many_pairs.FEWEST_PAIRS
    model = DaskAESVC(gamma=0.1, C=10.0, hull_tol=0.02, refine=2, tol=1e-5, memory_budget=10**8)
    model.fit(da.from_array(X, chunks=(130, 3)), da.from_array(y, chunks=130))
    whole = AESVC(gamma=0.1, C=10.0, refine="exact", tol=1e-5).fit(X, y)
    assert model.certificate_.exact is not by_rounds
    assert (model.certificate_.rounds > 0) is by_rounds
    largest = whole.certificate_.objective * (1.1 if by_rounds else 1.001)
    assert model.certificate_.objective <= largest
    if not by_rounds:
        assert model.certificate_.proven
        assert_allclose(model.dual_objective_, whole.dual_objective_, rtol=1e-4)
