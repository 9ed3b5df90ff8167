from __future__ import annotations

import pytest

from aesvm.accel import installing, seam


@pytest.fixture(autouse=True)
def nothing_is_left():
    """However a test ends, scikit-learn has its functions back."""
    yield
    if installing._state.settings is not None:
        installing.uninstall()
        pytest.fail("the test has left aesvm.accel installed")


@pytest.fixture
def no_size_is_small(monkeypatch):
    """Small problems are taken over, too."""
    monkeypatch.setattr(seam, "SMALL_FIT", 0.0)
    monkeypatch.setattr(seam, "SMALL_PREDICTION", 0.0)
