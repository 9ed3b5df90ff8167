"""Kernel values that compiled code computes of the rows of two classes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from aesvm.kernels import kernel_matrix
from aesvm.kernels.tiles import write_columns, write_lines, write_values
from tests import oracles

CASES = [
    ("rbf", {}),
    ("linear", {}),
    ("sigmoid", {"coef0": -0.4}),
    *(("poly", {"degree": degree, "coef0": 0.7}) for degree in (0, 1, 2, 3, 6, 7)),
]


def matrices(rows):
    """The matrix of each class."""
    edges = pairwise(rows.width * np.array([0, *rows.ends]))
    return [rows.factors[a:b].reshape(rows.width, -1) for a, b in edges]


@pytest.mark.parametrize(("kernel", "parameters"), CASES, ids=str)
def test_values_are_the_kernels(kernel, parameters):
    X = np.random.default_rng(0).normal(size=(90, 4)) + 3.0
    parameters = {"kernel": kernel, "gamma": 0.03, **parameters}
    columns = kernel_matrix(X, **parameters).columns(np.arange(90))
    rows = columns.rows_by_class(np.array([50, 50, 90]))
    first, none, second = matrices(rows)
    assert none.shape[1] == 0
    at = np.array([7, 3, 60, 49, 50, 89])
    width = len(first)
    lines, own = np.empty((len(at), width)), np.empty((width, len(at)))
    write_lines(first, second, at, rows.product_map, lines)
    write_columns(first, second, at, own)
    wanted = oracles.kernel(X, **parameters)
    for right, those in ((first, np.arange(50)), (second, np.arange(50, 90)), (own, at)):
        values = np.empty((len(at), right.shape[1]))
        write_values(lines, right, rows.product_map, values)
        assert_allclose(values, wanted[np.ix_(at, those)], rtol=1e-12)


def test_more_lines_than_are_mapped_at_once():
    X = np.random.default_rng(0).normal(size=(100, 2))
    rows = kernel_matrix(X, gamma=0.3).columns(np.arange(100)).rows_by_class(np.array([70, 100]))
    first, second = matrices(rows)
    lines, columns, values = np.empty((100, 4)), np.empty((4, 100)), np.empty((100, 100))
    write_lines(first, second, np.arange(100), rows.product_map, lines)
    write_columns(first, second, np.arange(100), columns)
    write_values(lines, columns, rows.product_map, values)
    assert_allclose(values, oracles.kernel(X, gamma=0.3), rtol=1e-12)


def test_kernels_that_compiled_code_does_not_have():
    X = np.random.default_rng(0).normal(size=(9, 2))
    for given in (kernel_matrix(sp.csr_array(X)), kernel_matrix(X @ X.T, kernel="precomputed")):
        assert given.columns(np.arange(9)).rows_by_class(np.array([5, 9])) is None


def test_rows_that_lie_too_far_apart_for_products():
    X = np.array([[0.0], [1e9], [2e9], [3e9]])
    columns = kernel_matrix(X, gamma=1.0, accuracy=1e-12).columns(np.arange(4))
    assert columns.rows_by_class(np.array([2, 4])) is None
