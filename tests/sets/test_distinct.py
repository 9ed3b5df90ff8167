from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from aesvm.sets import distinct
from aesvm.sets.distinct import distinct_rows

few_values = hnp.arrays(
    float,
    st.tuples(st.integers(1, 30), st.integers(1, 3)),
    elements=st.sampled_from([0.0, -0.0, 1.0, 0.5, -2.0]),
)


@pytest.fixture(autouse=True, params=[0, 1 << 16], ids=["parts", "at once"])
def rows_sorted_in_parts_or_at_once(monkeypatch, request):
    monkeypatch.setattr(distinct, "_FEW", request.param)


def brute_force(X, labels):
    seen: dict = {}
    keys = [(label, *(row + 0.0)) for row, label in zip(X, labels, strict=True)]
    inverse = [seen.setdefault(key, len(seen)) for key in keys]
    first = [inverse.index(k) for k in range(len(seen))]
    return first, inverse


@given(X=few_values, seed=st.integers(0, 99))
def test_first_occurrences_and_inverse_as_by_brute_force(X, seed):
    labels = np.random.default_rng(seed).integers(0, 2, len(X))
    first, inverse = brute_force(X, labels)
    for data in (X, X.astype(np.float32), sp.csr_array(X)):
        found_first, found_inverse = distinct_rows(data, labels)
        assert_array_equal(found_first, first)
        assert_array_equal(found_inverse, inverse)


@given(X=few_values)
def test_the_answer_does_not_depend_on_the_hash(X):
    labels = np.zeros(len(X), dtype=int)
    expected = brute_force(X, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "row_hashes", lambda X, run: np.zeros(X.shape[0], dtype=np.uint64))
        for found, wanted in zip(distinct_rows(X, labels), expected, strict=True):
            assert_array_equal(found, wanted)


def test_explicit_zeros_of_sparse_rows_do_not_count():
    X = sp.csr_array(([1.0, 0.0, 1.0], [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    first, inverse = distinct_rows(X, np.zeros(2, dtype=int))
    assert_array_equal(first, [0])
    assert_array_equal(inverse, [0, 0])


def test_hashes_of_distinct_rows_hardly_ever_collide():
    X = np.random.default_rng(0).integers(0, 3, (20_000, 12)) / 4.0
    hashes = distinct.row_hashes(X, map)
    assert len(np.unique(hashes)) == len(np.unique(X, axis=0))


def test_a_key_does_not_depend_on_how_many_are_asked_for():
    every = distinct.hash_keys(200)
    for size in (0, 1, 64, 65):
        assert_array_equal(distinct.hash_keys(size), every[:size])


def test_hashes_of_sparse_rows_are_those_of_dense_ones_with_any_number_of_features():
    rng = np.random.default_rng(0)
    for n_features in (3, 64, 65, 100):
        X = rng.normal(size=(5, n_features)) * (rng.random((5, n_features)) < 0.5)
        dense, sparse = distinct.row_hashes(X), distinct.row_hashes(sp.csr_array(X))
        assert_array_equal(dense, sparse)
