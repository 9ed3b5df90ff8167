"""Values of rows and a basis against the whole matrix, whatever is held."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.bases import factor, solve_in_memory
from aesvm.bases.factor import gram
from aesvm.bases.solve_in_memory import BasisValues
from aesvm.kernels import kernel_matrix
from aesvm.runtime.threads import Threads
from tests import oracles

ROUNDING = {np.float32: 2e-5, np.float64: 1e-12}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(solve_in_memory, "BLOCK_ROWS", 16)
    monkeypatch.setattr(factor, "_PANEL", 3)


def made(seed, dtype, most_bytes, run=map):
    """Values of rows in some order against a basis that came in three parts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 2)).astype(dtype)
    rows = rng.permutation(90)[:70]
    basis = rng.permutation(90)[:12]
    found = BasisValues(kernel_matrix(X, gamma=0.7), rows, most_bytes, run)
    found.add(basis[:5])
    found.add(basis[:0])
    found.products(np.ones(5))  # some are held before others come
    found.add(basis[5:])
    return found, oracles.kernel(X[rows], X[basis], gamma=0.7), rng


@given(
    st.integers(0, 10**6),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0, 700, 3000, 1e9]),
    st.integers(1, 70),
    st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(max_examples=60)
def test_sums_are_those_of_the_whole_matrix(seed, dtype, most_bytes, n_rows, share):
    found, K, rng = made(seed, dtype, most_bytes)
    found.n_rows = n_rows
    K, atol = K[:n_rows], ROUNDING[dtype]
    coefs = rng.normal(size=12)
    assert_allclose(found.products(coefs), K @ coefs, atol=20 * atol)
    weights = rng.normal(size=n_rows) * (rng.uniform(size=n_rows) < share)
    assert_allclose(found.sums(weights), weights @ K, atol=70 * atol)
    at = np.flatnonzero(rng.uniform(size=n_rows) < 0.5)
    assert_allclose(found.lines(at), K[at], atol=atol)
    assert found.lines(at).dtype == dtype
    assert sum(block.nbytes for block in found.held.values()) <= most_bytes


def test_rows_come_into_use_and_what_is_held_serves_them():
    found, K, _ = made(1, np.float64, 1e9)
    found.n_rows = 20
    found.products(np.ones(12))
    found.n_rows = 70
    assert_allclose(found.products(np.ones(12)), K.sum(axis=1), atol=1e-12)
    before = found.n_values
    assert before == 70 * 12
    found.sums(np.ones(70))
    found.lines(np.arange(70))
    assert found.n_values == before


def test_what_is_not_held_is_computed_anew():
    found, _, _ = made(1, np.float64, 0)
    before = found.n_values
    found.products(np.ones(12))
    found.products(np.ones(12))
    assert found.n_values == before + 2 * 70 * 12
    assert not found.held


@pytest.mark.parametrize("most_bytes", [3000, 1e9])
def test_values_of_another_precision_take_the_place_of_those_that_are_held(most_bytes):
    found, K, rng = made(2, np.float32, most_bytes)
    found.sums(np.ones(70))
    basis = found.basis.copy()
    found.compute_by(kernel_matrix(found.kernel.X.astype(np.float64), gamma=0.7))
    assert_array_equal(found.basis, basis)
    coefs = rng.normal(size=12)
    assert_allclose(found.products(coefs), K @ coefs, atol=1e-12)
    assert found.lines(np.arange(3)).dtype == np.float64
    assert sum(block.nbytes for block in found.held.values()) <= most_bytes


def test_a_basis_without_vectors_has_no_values():
    found = BasisValues(kernel_matrix(np.eye(3)), np.arange(3), 1e9)
    assert_array_equal(found.products(np.empty(0)), np.zeros(3))
    assert found.sums(np.ones(3)).shape == (0,)
    assert found.lines(np.arange(2)).shape == (2, 0)


@pytest.mark.parametrize("most_bytes", [0, 3000, 1e9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_nothing(dtype, most_bytes):
    results = []
    for n_jobs in (1, 2, 3):
        with Threads(n_jobs) as run:
            found, _, rng = made(5, dtype, most_bytes, run)
            weights = rng.normal(size=70)
            results.append(
                (
                    found.products(rng.normal(size=12)),
                    found.sums(weights),
                    found.sums(np.where(weights > 1.5, weights, 0.0)),
                    gram(found.lines(np.arange(50)), np.abs(weights[:50]), run),
                    np.array(sorted(found.held)),
                )
            )
    for own in results[1:]:
        for value, first in zip(own, results[0], strict=True):
            assert_array_equal(value, first)


@given(st.integers(0, 10**6), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=30)
def test_a_gram_is_in_double_precision(seed, dtype):
    rng = np.random.default_rng(seed)
    lines = rng.normal(size=(int(rng.integers(0, 40)), int(rng.integers(1, 11)))).astype(dtype)
    weights = rng.uniform(size=len(lines)) * 10.0 ** rng.integers(-8, 8, len(lines))
    exact = (lines.T.astype(float) * weights) @ lines.astype(float)
    assert_allclose(gram(lines, weights), exact, rtol=1e-9, atol=1e-12 * weights.sum())
