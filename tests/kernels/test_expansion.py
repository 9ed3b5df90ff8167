from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.kernels import blocks, expansion, kernel_matrix
from aesvm.runtime.threads import Threads
from tests import oracles


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1, 256, 700])
def test_sums_over_segments_are_those_of_the_formula(size, sparse, monkeypatch):
    monkeypatch.setattr(blocks, "EXPANSION_COLUMNS", 7)
    rng = np.random.default_rng(0)
    X, new, coefs = rng.normal(size=(40, 3)), rng.normal(size=(size, 3)), rng.normal(size=(40, 2))
    edges = np.array([0, 9, 9, 40])
    K = oracles.kernel(new, X, gamma=0.5)
    expected = np.stack([K[:, a:b] @ coefs[a:b] for a, b in pairwise(edges)], axis=1)
    kind = sp.csr_array if sparse else np.asarray
    columns = kernel_matrix(kind(X), gamma=0.5).columns(np.arange(40))
    found = expansion.expand(columns, kind(new), edges, coefs, lambda sums: sums)
    assert_allclose(found, expected, atol=1e-12)
    with Threads(3) as run:
        again = expansion.expand(columns, kind(new), edges, coefs, lambda sums: sums, run)
    assert_array_equal(again, found)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize("n_columns", [1, 7, 512])
def test_many_sums_of_each_row_are_made_of_few_rows_at_a_time(size, n_columns, sparse, monkeypatch):
    monkeypatch.setattr(blocks, "_SUMMED_BYTES", 1)
    monkeypatch.setattr(blocks, "EXPANSION_COLUMNS", n_columns)
    rng = np.random.default_rng(0)
    X, new, coefs = rng.normal(size=(20, 3)), rng.normal(size=(size, 3)), rng.normal(size=(20, 9))
    edges = np.array([0, 0, 3, 4, 4, 11, 20, 20])
    K = oracles.kernel(new, X, gamma=0.5)
    expected = np.stack([K[:, a:b] @ coefs[a:b] for a, b in pairwise(edges)], axis=1)
    kind = sp.csr_array if sparse else np.asarray
    columns = kernel_matrix(kind(X), gamma=0.5).columns(np.arange(20))
    rows_at_once = []

    def combine(sums):
        rows_at_once.append(len(sums))
        return sums.copy()

    found = expansion.expand(columns, kind(new), edges, coefs, combine)
    assert max(rows_at_once) <= 8
    assert_allclose(found, expected, atol=1e-12)
    with Threads(3) as run:
        assert_array_equal(expansion.expand(columns, kind(new), edges, coefs, combine, run), found)
        # also where the result is a part of the sums, whose memory is used again
        again = expansion.expand(columns, kind(new), edges, coefs, lambda sums: sums[:, :, 1:], run)
    assert_array_equal(again, found[:, :, 1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 256, 700])
def test_scores_and_norms_are_those_of_the_formula(size, dtype, monkeypatch):
    monkeypatch.setattr(blocks, "EXPANSION_COLUMNS", 70)
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(900, 3)), np.sort(rng.permutation(900)[:size])
    support, coefs = rng.permutation(900)[:300], rng.normal(size=300)
    K = oracles.kernel(X, gamma=0.5)
    kernel = kernel_matrix(X, gamma=0.5, dtype=dtype)
    tol = 1e-5 if dtype == np.float32 else 1e-11
    with Threads(3) as run:
        found = kernel.scores(support, coefs, rows, run)
        assert_allclose(found, K[np.ix_(rows, support)] @ coefs, atol=tol)
        own = rng.normal(size=size)
        norm = kernel.squared_norm(rows, own, run)
    assert_allclose(norm, own @ K[np.ix_(rows, rows)] @ own, atol=100 * tol)
    assert_array_equal(kernel.scores(rows[:0], coefs[:0], rows), np.zeros(size))
