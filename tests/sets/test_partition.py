from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from aesvm.kernels import kernel_matrix
from aesvm.sets import partition
from aesvm.sets.partition import fine_subsets, sequence_partitions
from tests import oracles

KERNELS = [
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "rbf", "gamma": 3.0},
    {"kernel": "linear"},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
]


def distance_partitions(matrix, rows, size):
    return partition.distance_partitions(matrix, [rows], size)


def assert_same_subsets(found, expected):
    assert len(found) == len(expected)
    for subset, rows in zip(found, expected, strict=True):
        assert_array_equal(subset, sorted(rows))


@given(
    n=st.integers(2, 60),
    P=st.integers(1, 30),
    V=st.integers(1, 12),
    which=st.integers(0, len(KERNELS) - 1),
    sparse=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_partitions_are_those_of_the_paper(n, P, V, which, sparse, seed):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    K = oracles.kernel(X, **KERNELS[which])
    matrix = kernel_matrix(sp.csr_array(X) if sparse else X, **KERNELS[which])

    def distance(i, j):
        if KERNELS[which]["kernel"] == "rbf":  # monotone in kernel distance, and not saturated
            return ((X[i] - X[j]) ** 2).sum()
        return K[i, i] + K[j, j] - 2 * K[i, j]

    rows = np.arange(n)
    assert_same_subsets(sequence_partitions(rows, P), oracles.fls1(list(rows), P))
    if n > P:
        expected = oracles.fls2(list(rows), P, distance)
        assert_same_subsets(distance_partitions(matrix, rows, P), expected)
    norm = (X**2).sum(axis=1)
    expected = oracles.sls(list(rows), V, distance, norm.__getitem__)
    assert_same_subsets(fine_subsets(matrix, rows, V), expected)


def test_a_class_of_at_most_partition_size_rows_stays_whole():
    matrix = kernel_matrix(np.random.default_rng(0).normal(size=(10, 2)))
    assert_same_subsets(distance_partitions(matrix, np.arange(10), 10), [range(10)])


@pytest.mark.parametrize("name", ["rbf", "poly", "precomputed"])
@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_equal_rows_are_split_by_row_index(n, name):
    matrix = kernel_matrix(np.ones((n, n)), kernel=name)
    partitions = distance_partitions(matrix, np.arange(n), 8)
    assert max(map(len, partitions)) <= 8
    assert_array_equal(np.concatenate(partitions), np.arange(n))
    subsets = fine_subsets(matrix, np.arange(n), 3)
    assert_same_subsets(subsets, [range(s, min(s + 3, n)) for s in range(0, n, 3)])


@given(
    values=st.lists(st.integers(-2, 2), min_size=2, max_size=60),
    V=st.integers(1, 10),
)
def test_every_row_is_in_one_subset_whatever_the_ties(values, V):
    X = np.array(values, dtype=float)[:, None]
    subsets = fine_subsets(kernel_matrix(X), np.arange(len(X)), V)
    assert_array_equal(np.sort(np.concatenate(subsets)), np.arange(len(X)))
    assert [len(s) for s in subsets[:-1]] == [V] * (len(subsets) - 1)
    assert 1 <= len(subsets[-1]) <= V


def test_the_rbf_partition_does_not_depend_on_gamma_nor_the_format():
    X = np.random.default_rng(3).integers(0, 2, (400, 12)).astype(float)  # many ties
    expected = fine_subsets(kernel_matrix(X, gamma=1e-6), np.arange(400), 37)
    halves = distance_partitions(kernel_matrix(X, gamma=1e-6), np.arange(400), 37)
    for gamma in (1.0, 1e6):
        for data in (X, X.astype(np.float32), sp.csr_array(X)):
            matrix = kernel_matrix(data, gamma=gamma)
            assert_same_subsets(fine_subsets(matrix, np.arange(400), 37), expected)
            assert_same_subsets(distance_partitions(matrix, np.arange(400), 37), halves)


@pytest.mark.parametrize("exponent", [-500, -100, 120, 500])
def test_huge_and_tiny_values_are_ranked_as_others(exponent):
    X = np.random.default_rng(4).normal(size=(100, 2))
    scaled = kernel_matrix(X * 2.0**exponent, gamma=1.0)
    expected = fine_subsets(kernel_matrix(X, gamma=1.0), np.arange(100), 9)
    assert_same_subsets(fine_subsets(scaled, np.arange(100), 9), expected)
    expected = distance_partitions(kernel_matrix(X, gamma=1.0), np.arange(100), 9)
    assert_same_subsets(distance_partitions(scaled, np.arange(100), 9), expected)


@pytest.mark.parametrize("data", [np.array, sp.csr_array])
def test_distances_that_overflow_still_give_a_partition(data):
    X = data(np.random.default_rng(4).normal(size=(100, 2)) * 1e200)
    subsets = fine_subsets(kernel_matrix(X, gamma=1.0), np.arange(100), 9)
    assert_array_equal(np.sort(np.concatenate(subsets)), np.arange(100))
