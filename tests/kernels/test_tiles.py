"""Kernel values by compiled tiles, of all rows and of the rows of two classes, beside NumPy's."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.kernels import blocks, expansion, kernel_matrix
from aesvm.kernels.crew import Crew, KeptRows
from aesvm.kernels.expansion import n_additions
from aesvm.kernels.tiles import write_columns, write_lines, write_values
from aesvm.runtime.threads import Threads
from tests import oracles


@pytest.fixture(autouse=True)
def tiles_of_every_size(monkeypatch):
    monkeypatch.setattr(blocks, "TILE_PRODUCTS", -1.0)


DTYPES = [np.float32, np.float64]


def accumulated(columns, lines, coefs, start, kept, run):
    scores = start.copy()
    columns.accumulate(lines, coefs, scores, kept, Crew(run))
    return scores


@given(st.integers(0, 2**31), st.sampled_from(["rbf", "linear", "poly"]), st.sampled_from(DTYPES))
def test_lines_are_added_and_kept(seed, kernel, dtype):
    rng = np.random.default_rng(seed)
    n, n_lines = int(rng.integers(1, 700)), int(rng.integers(0, 300))
    X = rng.standard_normal((n, 3))
    matrix = kernel_matrix(X, kernel=kernel, gamma=0.3, dtype=dtype)
    columns = matrix.columns(np.arange(n))
    rows = rng.integers(0, n, n_lines)
    values = matrix.block(rows, np.arange(n)).astype(np.float64)
    coefs, start = rng.standard_normal(n_lines), rng.standard_normal(n)
    store = rng.standard_normal((5, n)).astype(dtype)
    before, free = store.astype(np.float64), np.array([3, 0, 4])[: min(3, n_lines)]
    kept = KeptRows(store, np.array([1, 2]), np.array([2.0, -1.0]), free)
    expected = start + coefs @ values + 2.0 * before[1] - before[2]
    scale = np.abs(values).max(initial=1.0) * (1.0 + np.abs(coefs).sum())
    found = accumulated(columns, columns.own_lines(rows, rows), coefs, start, kept, map)
    assert_allclose(found, expected, atol=50 * np.finfo(dtype).eps * scale)
    assert_allclose(store[free], values[: len(free)], atol=50 * np.finfo(dtype).eps * scale)
    assert_array_equal(store[[1, 2]], before[[1, 2]].astype(dtype))
    with Threads(3) as run:
        again = accumulated(columns, columns.own_lines(rows, rows), coefs, start, kept, run)
    assert_array_equal(again, found)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 127, 128, 129, 400])
def test_a_square_has_all_kernel_values(n, dtype, kernel):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((500, 4))
    matrix = kernel_matrix(X, kernel=kernel, gamma=0.5, dtype=dtype)
    rows = rng.permutation(500)[:n]
    columns = matrix.columns(rows)
    squares = []
    for n_jobs in (1, 3):
        out = np.full((n, n), np.nan, dtype=dtype)
        with Threads(n_jobs) as run:
            columns.write_square(rows, out, Crew(run))
        squares.append(out)
    assert_array_equal(*squares)
    exact = matrix.block(rows, rows)
    scale = np.abs(exact).max()
    assert_allclose(squares[0], exact, atol=50 * np.finfo(dtype).eps * scale)


@pytest.mark.parametrize("n_features", [3, 130])
@pytest.mark.parametrize("n", [2048, 2049])
def test_many_columns_are_added_to_by_tiles_however_few_the_lines(n, n_features, monkeypatch):
    monkeypatch.setattr(blocks, "TILE_PRODUCTS", np.inf)
    n_calls, lead = [], Crew.lead
    monkeypatch.setattr(Crew, "lead", lambda *args: n_calls.append(lead(*args)))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features))
    matrix = kernel_matrix(X, gamma=0.1, dtype=np.float64)
    columns, rows, coefs = matrix.columns(np.arange(n)), np.arange(5), rng.standard_normal(5)
    kept = KeptRows.none(np.dtype(np.float64))
    found = accumulated(columns, columns.own_lines(rows, rows), coefs, np.zeros(n), kept, map)
    assert len(n_calls) == (n > 2048)
    assert_allclose(found, coefs @ matrix.block(rows, np.arange(n)), atol=1e-12)


@pytest.mark.parametrize("least", [-1.0, np.inf])
def test_rows_too_far_for_a_squared_distance_have_kernel_values_of_zero(least, monkeypatch):
    monkeypatch.setattr(blocks, "TILE_PRODUCTS", least)
    X = np.random.default_rng(0).standard_normal((20, 2))
    columns = kernel_matrix(X, gamma=1.0, dtype=np.float64).columns(np.arange(20))
    new = np.array([[1e200, 0.0], [-1e308, 1e308], X[3]])
    found = expansion.expand(
        columns, new, np.array([0, 20]), np.eye(20)[:, 3:4], lambda sums: sums[:, 0, 0]
    )
    assert_allclose(found, [0.0, 0.0, 1.0])


@pytest.mark.parametrize("least", [-1.0, np.inf])
@pytest.mark.parametrize("n", [300, 20_000, 200_000])
def test_sums_are_rounded_no_more_often_than_they_say(n, least, monkeypatch):
    """Equal rows and coefficients: every addition is rounded the same way."""
    monkeypatch.setattr(blocks, "TILE_PRODUCTS", least)
    matrix = kernel_matrix(np.ones((n, 1)), gamma=1.0, dtype=np.float64)
    every = np.arange(n)
    for coef in (0.1, 1 / 3, 0.7):
        (found,) = matrix.scores(every, np.full(n, coef), every[:1])
        exact = n * Fraction(coef)
        unit = Fraction(np.finfo(np.float64).eps) / 2
        assert abs(Fraction(float(found)) - exact) <= n_additions(n) * unit * exact


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
    for matrix in (kernel_matrix(sp.csr_array(X)), kernel_matrix(X @ X.T, kernel="precomputed")):
        assert matrix.columns(np.arange(9)).rows_by_class(np.array([5, 9])) is None


def test_rows_that_lie_too_far_apart_for_products():
    X = np.array([[0.0], [1e9], [2e9], [3e9]])
    columns = kernel_matrix(X, gamma=1.0, accuracy=1e-12).columns(np.arange(4))
    assert columns.rows_by_class(np.array([2, 4])) is None
