from __future__ import annotations

import pytest

from aesvm import accel
from aesvm.accel import seam


@pytest.fixture(autouse=True)
def nothing_is_left():
    """However a test ends, scikit-learn has its functions back."""
    yield
    if accel._state.settings is not None:
        accel.uninstall()
        pytest.fail("the test has left aesvm.accel installed")


@pytest.fixture
def no_size_is_small(monkeypatch):
    """Small problems are taken over, too."""
    monkeypatch.setattr(seam, "SMALL_FIT", 0.0)
    monkeypatch.setattr(seam, "SMALL_PREDICTION", 0.0)
