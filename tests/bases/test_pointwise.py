"""The space in which functions differ by their values at some rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm.bases.compress import PointwiseKernel
from aesvm.kernels import kernel_matrix

ROWS, POINTS = np.array([0, 2, 3, 5, 6, 7]), np.array([1, 3, 4, 6])
X = np.random.default_rng(0).normal(size=(8, 2))


@pytest.fixture
def kernel():
    return PointwiseKernel(kernel_matrix(X, kernel="rbf", gamma=1.0), ROWS, POINTS)


def expected(one, other):
    """By the definition."""
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    C = K[POINTS] - K[POINTS].mean(axis=0)
    unit = np.square(C[:, ROWS]).sum() / len(ROWS)
    return K[np.ix_(one, other)] + C[:, one].T @ C[:, other] / unit


def test_values_are_those_of_the_definition(kernel):
    some = ROWS[[3, 0, 4]]
    assert_allclose(kernel.square(some), expected(some, some), atol=1e-6)
    assert_allclose(kernel.diag(some), np.diag(expected(some, some)), atol=1e-6)
    assert_allclose(kernel.block(ROWS, some), expected(ROWS, some), atol=1e-6)
    assert_allclose(kernel.cross(X[ROWS], some), expected(ROWS, some), atol=1e-6)
    taken = kernel.columns(some).take(np.array([2, 1]))
    assert_allclose(taken.values(taken.lines(ROWS), 6), expected(ROWS, some[[2, 1]]), atol=1e-6)
    assert kernel.bound(ROWS) == pytest.approx(np.diag(expected(ROWS, ROWS)).max(), abs=1e-6)


def test_both_parts_count_the_same(kernel):
    assert kernel.diag(ROWS).sum() == pytest.approx(2.0 * len(ROWS))


def test_functions_are_known_by_scores_and_values_at_the_points(kernel):
    coefs = np.random.default_rng(1).normal(size=(len(ROWS), 2))
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    scores = K[:, ROWS] @ coefs
    inner = expected(ROWS, ROWS) @ coefs
    assert_allclose(kernel.values(scores[ROWS], scores[POINTS]), inner, atol=1e-6)
    squared = np.einsum("ij,ij->j", coefs, scores[ROWS])
    norms = kernel.squared_norms(squared, scores[POINTS])
    assert_allclose(norms, np.einsum("ij,ij->j", coefs, inner), atol=1e-6)


def test_rows_that_the_points_cannot_tell_apart_have_plain_values():
    kernel = kernel_matrix(np.ones((3, 1)), kernel="rbf", gamma=1.0)
    every = np.arange(3)
    assert_allclose(PointwiseKernel(kernel, every, every).square(every), np.ones((3, 3)))
