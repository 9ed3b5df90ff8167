"""The space in which functions differ by their values at some rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm.bases.seen import SeenKernel
from aesvm.kernels import kernel_matrix

ROWS, POINTS = np.array([0, 2, 3, 5, 6, 7]), np.array([1, 3, 4, 6])
X = np.random.default_rng(0).normal(size=(8, 2))


@pytest.fixture
def seen():
    return SeenKernel(kernel_matrix(X, kernel="rbf", gamma=1.0), ROWS, POINTS)


def expected(one, other):
    """By the definition."""
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    C = K[POINTS] - K[POINTS].mean(axis=0)
    unit = np.square(C[:, ROWS]).sum() / len(ROWS)
    return K[np.ix_(one, other)] + C[:, one].T @ C[:, other] / unit


def test_values_are_those_of_the_definition(seen):
    some = ROWS[[3, 0, 4]]
    assert_allclose(seen.square(some), expected(some, some), atol=1e-6)
    assert_allclose(seen.diag(some), np.diag(expected(some, some)), atol=1e-6)
    assert_allclose(seen.block(ROWS, some), expected(ROWS, some), atol=1e-6)
    assert_allclose(seen.cross(X[ROWS], some), expected(ROWS, some), atol=1e-6)
    taken = seen.columns(some).take(np.array([2, 1]))
    assert_allclose(taken.values(taken.lines(ROWS), 6), expected(ROWS, some[[2, 1]]), atol=1e-6)
    assert seen.bound(ROWS) == pytest.approx(np.diag(expected(ROWS, ROWS)).max(), abs=1e-6)


def test_both_parts_count_the_same(seen):
    assert seen.diag(ROWS).sum() == pytest.approx(2.0 * len(ROWS))


def test_functions_are_known_by_scores_and_values_at_the_points(seen):
    coefs = np.random.default_rng(1).normal(size=(len(ROWS), 2))
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    scores = K[:, ROWS] @ coefs
    inner = expected(ROWS, ROWS) @ coefs
    assert_allclose(seen.values(scores[ROWS], scores[POINTS]), inner, atol=1e-6)
    squared = np.einsum("ij,ij->j", coefs, scores[ROWS])
    norms = seen.squared_norms(squared, scores[POINTS])
    assert_allclose(norms, np.einsum("ij,ij->j", coefs, inner), atol=1e-6)


def test_rows_that_the_points_cannot_tell_apart_have_plain_values():
    kernel = kernel_matrix(np.ones((3, 1)), kernel="rbf", gamma=1.0)
    every = np.arange(3)
    assert_allclose(SeenKernel(kernel, every, every).square(every), np.ones((3, 3)))
