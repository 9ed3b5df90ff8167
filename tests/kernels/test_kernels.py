"""Kernels against their formulas and scikit-learn, and the exponential of compiled code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from aesvm.kernels import KERNELS, KernelSpec, blocks, kernel_matrix, resolve_gamma
from aesvm.kernels.functions import take_exponential
from aesvm.kernels.gamma import Variance
from tests import oracles

PARAMETERS = {"gamma": 0.7, "degree": 3, "coef0": 0.5}
ROWS, COLS = np.array([3, 0, 17, 3]), np.array([9, 3, 24])


@pytest.fixture(name="X", scope="module")
def rows():
    values = np.random.default_rng(0).normal(size=(40, 6))
    values[np.abs(values) < 0.5] = 0.0
    return values


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_blocks_agree_with_the_formulas(X, name, sparse, dtype):
    K = oracles.kernel(X.astype(dtype), kernel=name, **PARAMETERS)
    data = (sp.csr_array(X) if sparse else X).astype(dtype)
    matrix = kernel_matrix(data, kernel=name, **PARAMETERS)
    close = {"rtol": 1e-12, "atol": 1e-13} if dtype == np.float64 else {"rtol": 2e-4, "atol": 2e-5}
    assert matrix.block(ROWS, COLS).dtype == dtype
    assert_allclose(matrix.block(ROWS, COLS), K[np.ix_(ROWS, COLS)], **close)
    assert_allclose(matrix.square(ROWS), K[np.ix_(ROWS, ROWS)], **close)
    assert_allclose(matrix.diag(ROWS), K[ROWS, ROWS], **close)
    assert_allclose(matrix.cross(data[5:9], COLS), K[np.ix_(range(5, 9), COLS)], **close)
    out = np.empty((len(ROWS), len(ROWS)), dtype=dtype)
    assert matrix.square(ROWS, out=out) is out
    assert_allclose(out, K[np.ix_(ROWS, ROWS)], **close)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_rows_in_single_precision_have_values_in_double(X, name, sparse):
    single = (X + 3.0).astype(np.float32)  # from a centre that is not zero
    K = oracles.kernel(single, kernel=name, **PARAMETERS)
    data = sp.csr_array(single) if sparse else single
    matrix = kernel_matrix(data, kernel=name, dtype=np.float64, accuracy=1e-12, **PARAMETERS)
    assert_allclose(matrix.block(ROWS, COLS), K[np.ix_(ROWS, COLS)], rtol=1e-11)
    assert_allclose(matrix.square(ROWS), K[np.ix_(ROWS, ROWS)], rtol=1e-11)
    assert_allclose(matrix.cross(data[5:9], COLS), K[np.ix_(range(5, 9), COLS)], rtol=1e-11)


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8])
def test_polynomial_kernel_of_every_degree(X, degree):
    matrix = kernel_matrix(X, kernel="poly", gamma=0.3, degree=degree, coef0=1.0)
    expected = oracles.kernel(X, kernel="poly", gamma=0.3, degree=degree, coef0=1.0)
    assert_allclose(matrix.square(np.arange(40)), expected, rtol=1e-11, atol=1e-13)


def test_large_symmetric_blocks_are_symmetric_and_right(X):
    data = np.random.default_rng(1).normal(size=(700, 9))
    data[:, 2:8] = 1.0  # constant features
    rows = np.random.default_rng(2).permutation(700)
    block = kernel_matrix(data, gamma=0.4).square(rows)
    assert_allclose(block, oracles.kernel(data[rows], gamma=0.4), rtol=1e-12)
    assert_allclose(block, block.T, rtol=1e-12)


def test_sparse_rows_are_made_dense_in_pieces(X, monkeypatch):
    data = sp.csr_array(X)
    rows = np.arange(40)
    expected = kernel_matrix(data, gamma=0.7).square(rows)
    monkeypatch.setattr("aesvm.kernels.blocks.copied_bytes", lambda: 8 * 6 * 7)
    columns = kernel_matrix(data, gamma=0.7).columns(rows)
    assert max(lines.dense.size for lines in columns.lines(rows)) <= 6 * 7
    assert_allclose(kernel_matrix(data, gamma=0.7).square(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_columns_are_written_in_any_cut_and_order(X, name, sparse, dtype):
    K = oracles.kernel(X, kernel=name, **PARAMETERS)
    data = (sp.csr_array(X) if sparse else X).astype(np.float64)
    columns = kernel_matrix(data, kernel=name, **PARAMETERS, dtype=dtype).columns(np.arange(30))
    chosen = np.array([4, 29, 3, 0, 17, 5])
    some = columns.take(chosen)
    out = np.empty((len(ROWS), 3), dtype=dtype)
    some.write(some.lines(ROWS), 2, 5, out)
    close = {"rtol": 1e-12, "atol": 1e-13} if dtype == np.float64 else {"rtol": 2e-4, "atol": 2e-5}
    assert_allclose(out, K[np.ix_(ROWS, chosen[2:5])], **close)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e8])
def test_blocks_of_clusters_far_apart_keep_their_digits(distance, dtype):
    X = np.random.default_rng(0).uniform(size=(60, 3))
    X[30:] += distance
    X = X.astype(dtype)
    rows, cols = np.arange(10, 50), np.arange(5, 60)
    block = kernel_matrix(X, gamma=1.0, accuracy=1e-5).block(rows, cols)
    assert_allclose(block, oracles.kernel(X[rows], X[cols]), atol=2e-5)


def test_precomputed_and_callable_kernels_fill_the_same_blocks(X):
    K = oracles.kernel(X, gamma=0.7)

    def rbf(A, B):
        return pairwise_kernels(A, B, metric="rbf", gamma=0.7)

    for matrix, new in (
        (kernel_matrix(K, kernel="precomputed"), K[5:9]),
        (kernel_matrix(X, kernel=rbf), X[5:9]),
    ):
        assert_allclose(matrix.block(ROWS, COLS), K[np.ix_(ROWS, COLS)], rtol=1e-12)
        assert_allclose(matrix.square(ROWS), K[np.ix_(ROWS, ROWS)], rtol=1e-12)
        assert_allclose(matrix.diag(np.arange(40)), np.ones(40), rtol=1e-12)
        assert_allclose(matrix.cross(new, COLS), K[np.ix_(range(5, 9), COLS)], rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
def test_gamma_is_the_one_of_scikit_learn(X, gamma, sparse):
    data = sp.csr_array(X) if sparse else X
    model = SVC(gamma=gamma).fit(data, np.arange(40) % 2)
    assert_allclose(resolve_gamma(gamma, data), model._gamma, rtol=1e-12)


def test_gamma_of_constant_data_is_one():
    assert resolve_gamma("scale", np.ones((3, 2))) == 1.0


def test_distances_far_from_the_origin_keep_their_digits():
    near = np.random.default_rng(0).uniform(size=(50, 4))
    far = near + 1e4
    block = kernel_matrix(far, gamma=1.0).square(np.arange(50))
    assert_allclose(block, oracles.kernel(far), rtol=1e-11)
    far32 = far.astype(np.float32)
    block = kernel_matrix(far32, gamma=1.0).square(np.arange(50))
    assert_allclose(block, oracles.kernel(far32), rtol=1e-5)


def test_an_unknown_kernel_is_named(X):
    with pytest.raises(ValueError, match="'cosine' is unknown: use 'rbf'"):
        kernel_matrix(X, kernel="cosine")


def test_copies_stay_within_a_share_of_the_working_memory():
    with config_context(working_memory=16):
        assert blocks.copied_bytes() == 2**20
        assert blocks.copied_rows(2**18) == 4
        assert blocks.cached_rows(2**18) == 4
    with config_context(working_memory=0.001):
        assert blocks.copied_rows(10**9) == blocks.cached_rows(10**9) == 1


@pytest.mark.parametrize(
    ("parameters", "definite"),
    [
        ({"kernel": "rbf"}, "positive semidefinite"),
        ({"kernel": "poly", "coef0": 0.0}, "positive semidefinite"),
        ({"kernel": "poly", "coef0": -1.0}, "not positive semidefinite"),
        ({"kernel": "sigmoid"}, "not positive semidefinite"),
        ({"kernel": "precomputed"}, "taken to be positive semidefinite"),
        ({"kernel": np.dot}, "taken to be positive semidefinite"),
    ],
)
def test_what_is_known_of_a_kernel(parameters, definite):
    spec = KernelSpec(**parameters)
    assert spec.definiteness == definite
    assert spec.is_definite == (definite != "not positive semidefinite")
    assert spec == KernelSpec(**parameters)


@pytest.mark.parametrize("n", [7, 1000])
def test_the_scale_of_rows_that_are_all_the_same_is_one(n):
    X = np.full((n, 1), 0.15226002)  # whose sum is rounded
    whole = Variance.of(X)
    parts = Variance.of(X[: n // 3]) | Variance.of(X[n // 3 :])
    assert whole.gamma("scale") == parts.gamma("scale") == 1.0
    assert Variance.of(X + 1e-9 * np.arange(n)[:, None]).gamma("scale") > 1.0


DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exponential_is_right_to_a_few_units_of_rounding(dtype):
    least = -86.9 if dtype == np.float32 else -700.0
    x = np.concatenate([np.linspace(least, 3.0, 100_001), -np.geomspace(1e-30, 1.0, 1000), [0.0]])
    x = x.astype(dtype)
    found = x.copy()
    take_exponential(found)
    exact = np.exp(x.astype(np.longdouble))
    unit = np.finfo(dtype).eps
    # n ln(2) is rounded, as x itself was
    assert np.all(np.abs(found - exact) <= unit * exact * (4.0 + np.abs(x)))
    assert found[-1] == 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exponential_of_what_is_far_below_zero_is_zero(dtype):
    values = np.array([-1e3, -1e30, -np.finfo(dtype).max], dtype=dtype)
    take_exponential(values)
    assert_array_equal(values, 0.0)
