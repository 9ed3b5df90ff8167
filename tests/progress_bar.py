"""scikit-learn's ProgressBar; a test that makes one is skipped before scikit-learn 1.9."""

from __future__ import annotations

from typing import Any

import pytest

try:
    from sklearn.callback import ProgressBar
except ImportError:

    class ProgressBar:  # type: ignore[no-redef]
        def __init__(self, **_: Any) -> None:
            pytest.skip("needs scikit-learn 1.9, the first with callbacks.")


__all__ = ["ProgressBar"]
