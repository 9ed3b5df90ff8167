"""What searches warn of, and what they do not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV


def test_of_candidates_no_gap_is_warned_of():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.sign(X[:, 0])
    with pytest.warns(UserWarning, match="may be far from the exact SVM"):
        AESVC(gamma=1.0, C=1e8).fit(X, y)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search = AEGridSearchCV(AESVC(gamma=1.0), {"C": [1.0, 1e8]}, cv=2, refit=False).fit(X, y)
        assert not [one for one in said if "far from the exact SVM" in str(one.message)]
        search.set_params(param_grid={"C": [1e8]}, refit=True).fit(X, y)
    assert [one for one in said if "far from the exact SVM" in str(one.message)]
