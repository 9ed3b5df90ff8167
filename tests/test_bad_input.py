"""Bad input is refused with a message that says what would do, and leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from aesvm import RepresentativeSet

X = np.random.default_rng(0).normal(size=(20, 2))
Y = np.arange(20) % 2


def changed(row, value):
    rows = X.copy()
    rows[row, 0] = value
    return rows


def asymmetric():
    K = X @ X.T
    K[3, 5] += 1.0
    return K


CASES = {
    "NaN": ({}, {"X": changed(3, np.nan)}, "NaN"),
    "infinity": ({}, {"X": changed(3, np.inf)}, "infinity"),
    "zero rows": ({}, {"X": X[:0], "y": None}, "0 sample"),
    "zero features": ({}, {"X": X[:, :0]}, "0 feature"),
    "one dimension": ({}, {"X": X[:, 0]}, "2D array"),
    "complex": ({}, {"X": X + 1j}, "[Cc]omplex"),
    "strings": ({}, {"X": np.full((20, 2), "a")}, "could not convert|Unable to convert"),
    "hull_tol": ({"hull_tol": -1.0}, {}, r"'hull_tol'.*\[0.0, inf\).*-1.0"),
    "hull_tol NaN": ({"hull_tol": np.nan}, {}, "'hull_tol'.*nan"),
    "subset_size": ({"subset_size": 0}, {}, r"'subset_size'.*\[1, inf\).*0"),
    "partition_size": ({"partition_size": 0}, {}, r"'partition_size'.*\[1, inf\).*0"),
    "sizes": (
        {"subset_size": 11, "partition_size": 10},
        {},
        "subset_size=11 is larger than partition_size=10",
    ),
    "partition": ({"partition": "random"}, {}, "'partition'.*'distance'.*'random'"),
    "gamma 0": ({"gamma": 0.0}, {}, r"'gamma'.*\(0.0, inf\).*0.0"),
    "gamma -1": ({"gamma": -1.0}, {}, "'gamma'.*-1.0"),
    "gamma name": ({"gamma": "large"}, {}, "'gamma'.*'auto'.*'large'"),
    "kernel": ({"kernel": "cosine"}, {}, "'kernel'.*'rbf'.*'cosine'"),
    "degree": ({"kernel": "poly", "degree": -2}, {}, "'degree'.*-2"),
    "coef0": ({"coef0": np.nan}, {}, "'coef0'.*nan"),
    "not square": ({"kernel": "precomputed"}, {}, r"shape \(20, 2\).*square"),
    "asymmetric": ({"kernel": "precomputed"}, {"X": asymmetric()}, r"not symmetric: X\[3, 5\]"),
    "callable shape": (
        {"kernel": lambda A, B: np.ones((len(A), 1))},
        {},
        r"shape \(\d+, 1\).*must return shape",
    ),
    "callable NaN": (
        {"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)},
        {},
        "returned NaN or infinity",
    ),
    "callable type": (
        {"kernel": lambda A, B: np.full((len(A), len(B)), "a")},
        {},
        "real numbers",
    ),
    "overflowing poly": ({"kernel": "poly", "gamma": 1.0}, {"X": X * 1e6}, "kernel='poly'.*scale"),
    "overflowing linear": ({"kernel": "linear"}, {"X": X * 1e200}, "kernel='linear'.*scale"),
    "overflowing values": ({"kernel": "precomputed"}, {"X": X @ X.T * 1e35}, "scale the data"),
    "overflowing callable": (
        {"kernel": lambda A, B: 1e35 * A @ B.T},
        {},
        "beyond 1e\\+15: scale the data",
    ),
    "missing group": ({}, {"groups": [None, "a"] * 10}, "groups has values"),
    "negative weight": ({}, {"sample_weight": np.r_[-1.0, np.ones(19)]}, "[Nn]egative"),
    "zero weights": ({}, {"sample_weight": np.zeros(20)}, "sample_weight|[Ww]eights"),
    "NaN weight": ({}, {"sample_weight": np.full(20, np.nan)}, "NaN"),
    "short weights": ({}, {"sample_weight": np.ones(19)}, r"\(19,\).*\(20,\)"),
    "short y": ({}, {"y": Y[:19]}, r"\[20, 19\]"),
    "short groups": ({}, {"groups": Y[:19]}, r"\[20, 19\]"),
    "continuous y": ({}, {"y": X[:, 0]}, "[Uu]nknown label type"),
    "n_jobs": ({"n_jobs": 0}, {}, "n_jobs"),
    "n_jobs name": ({"n_jobs": "all"}, {}, "'n_jobs'.*'all'"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_and_leaves_nothing_half_fitted(case):
    parameters, data, message = CASES[case]
    rs = RepresentativeSet(**parameters)
    with pytest.raises(ValueError, match=message):
        rs.fit(**{"X": X, "y": Y, **data})
    assert vars(rs) == RepresentativeSet(**parameters).get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(rs)


def test_a_failed_fit_leaves_the_last_one_as_it_was():
    rs = RepresentativeSet(gamma=1.0).fit(X, Y)
    before = dict(vars(rs))
    with pytest.raises(ValueError, match="NaN"):
        rs.fit(np.c_[changed(1, np.nan), X[:, 0]], Y)
    assert vars(rs) == before
    check_is_fitted(rs)
