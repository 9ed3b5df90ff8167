from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def closed():
    """No figure outlasts its test."""
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
