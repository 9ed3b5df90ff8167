"""Few rows far from the centre, beside kernel values from differences in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from aesvm.kernels import blocks, expansion, kernel_matrix
from aesvm.kernels.crew import Crew, KeptRows
from aesvm.kernels.vectors import MOST_FAR

GAMMA = 0.7

#: Precision, accuracy that is asked for, and about how large ``g|x|^2`` of far rows is.
CASES = [(np.float32, 1e-4, 3e3), (np.float64, 1e-12, 3e4)]


def with_far_rows(seed, n_rows, squared, n_features=5):
    """Rows of which a twentieth lies far off, some of them next to each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    n_far = n_rows // 20
    far = np.arange(n_far)
    directions = rng.normal(size=(4, n_features))
    directions *= np.sqrt(squared / GAMMA) / np.linalg.norm(directions, axis=1)[:, None]
    X[far] = directions[far % 4] * rng.uniform(0.2, 1.0, n_far).round(1)[:, None]
    X[far] += 0.3 * rng.normal(size=(n_far, n_features))
    order = rng.permutation(n_rows)
    return X[order]


def exact(X, Y):
    return np.exp(-GAMMA * cdist(X, Y, "sqeuclidean"))


@pytest.mark.parametrize(("dtype", "accuracy", "squared"), CASES)
@given(seed=st.integers(0, 2**31))
def test_products_do_for_values_of_all_rows(dtype, accuracy, squared, seed):
    X = with_far_rows(seed, 400, squared)
    matrix = kernel_matrix(X, gamma=GAMMA, dtype=dtype, accuracy=accuracy)
    rows = np.random.default_rng(seed).permutation(len(X))
    dtype_of_products, limit = matrix.products(rows)
    assert dtype_of_products == dtype
    assert limit.exists
    expected = exact(X, X[rows])
    columns = matrix.columns(rows)
    found = columns.values(columns.lines(np.arange(len(X))), len(X))
    rounding = matrix.rounding(rows)
    assert rounding < 1e-9 if dtype == np.float64 else rounding < 2e-3
    assert np.abs(found - expected).max() < max(2.0 * accuracy, 1e-15)
    assert np.abs(found - expected).max() < rounding


@pytest.mark.parametrize(("dtype", "accuracy", "squared"), CASES)
def test_tiles_mend_values_of_far_rows(monkeypatch, dtype, accuracy, squared):
    monkeypatch.setattr(blocks, "TILE_PRODUCTS", -1.0)
    X = with_far_rows(0, 700, squared)
    matrix = kernel_matrix(X, gamma=GAMMA, dtype=dtype, accuracy=accuracy)
    every, rng = np.arange(len(X)), np.random.default_rng(1)
    columns, expected, atol = matrix.columns(every), exact(X, X), max(2.0 * accuracy, 1e-14)
    out = np.empty(expected.shape, dtype=dtype)
    columns.write_square(every, out, Crew(map))
    assert_allclose(out, expected, atol=atol)
    coefs, scores = rng.normal(size=len(X)), np.zeros(len(X))
    store = np.empty((3, len(X)), dtype=dtype)
    kept = KeptRows.none(np.dtype(dtype))._replace(rows=store, free=np.arange(3))
    columns.accumulate(columns.own_lines(every, every), coefs, scores, kept, Crew(map))
    assert_allclose(scores, coefs @ expected, atol=20 * atol)
    assert_allclose(store, expected[:3], atol=atol)
    sums = expansion.expand(
        columns, X, np.array([0, len(X)]), coefs[:, None], lambda sums: sums[:, 0, 0]
    )
    assert_allclose(sums, coefs @ expected, atol=20 * atol)


def test_many_far_rows_are_left_to_double_precision():
    X = with_far_rows(0, 200, 3e3)
    X[: int(2 * MOST_FAR * len(X))] *= 100.0
    matrix = kernel_matrix(X, gamma=GAMMA, dtype=np.float32, accuracy=1e-4)
    found = matrix.products(np.arange(len(X)))
    assert found is None or found[0] == np.float64
    assert_allclose(matrix.block(np.arange(200), np.arange(200)), exact(X, X), atol=1e-4)
