"""DeriveRS by the device's drivers, with NumPy in place of CuPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from aesvm.gpu import derive as on_device
from aesvm.gpu.derive import DeviceSetKernel, subset_blocks
from aesvm.gpu.rows import DeviceRows
from aesvm.kernels import kernel_matrix
from aesvm.kernels.joint import JointKernel
from aesvm.runtime.progress import Silence
from aesvm.sets.derive import ReductionSettings, SetKernel, derive, reduce
from tests.gpu.stand_in import NumpyDevice

SETTINGS = ReductionSettings(1e-2, 60, 150, "distance")


@pytest.fixture(autouse=True)
def the_hosts_hulls(stand_in):
    """What the device's kernel would find is found by the host."""


def blocks_of(kernel):
    joint = isinstance(kernel, JointKernel)
    own = DeviceRows(NumpyDevice(), kernel.kernel.X if joint else kernel.X)
    return subset_blocks(own, kernel)


def in_turn(function, items):
    return (function(item) for item in items)


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.uniform(0.5, 2.0, size=n)


def kernels():
    X, _ = rows()
    dense = kernel_matrix(X, gamma=0.1)
    return {
        "rbf": dense,
        "single": kernel_matrix(X.astype(np.float32), gamma=0.1),
        "far apart": kernel_matrix(X * 1e9, gamma=1e-19),
        "linear": kernel_matrix(X, kernel="linear"),
        "poly": kernel_matrix(X, kernel="poly", gamma=0.1, degree=2, coef0=1.0),
        "sparse": kernel_matrix(sp.csr_array(X), gamma=0.1),
        "joint": JointKernel(dense, np.sin(X[:, 0]), 0.1),
    }


@pytest.mark.parametrize("name", kernels())
def test_sets_are_as_small_as_the_hosts_and_keep_the_bound(name):
    kernel, (X, weights) = kernels()[name], rows()
    groups = [np.flatnonzero(X[:, 0] < 0.0), np.flatnonzero(X[:, 0] >= 0.0)]
    found, host = (
        derive(own, groups, weights, SETTINGS, in_turn, Silence(), keep_combinations=True).found
        for own in (DeviceSetKernel(blocks_of(kernel)), SetKernel(kernel))
    )
    assert abs(len(found.selected) - len(host.selected)) <= 1 + 0.03 * len(host.selected)
    assert found.residuals.max() <= SETTINGS.hull_tol
    assert found.weights.sum() == pytest.approx(weights.sum())
    np.testing.assert_allclose(found.combinations.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.combinations.T @ weights, found.weights)


def test_blocks_of_sparse_rows_go_over_one_by_one(monkeypatch):
    sent, array = [], NumpyDevice.array

    def noted(device, values, dtype=None):
        sent.append(np.asarray(values).size)
        return array(device, values, dtype)

    monkeypatch.setattr(NumpyDevice, "array", noted)
    kernel = kernels()["sparse"]
    blocks = blocks_of(kernel)
    subsets = np.arange(400).reshape(40, 10)
    found = blocks.squares(subsets)
    assert max(sent) == 100
    for own, values in zip(subsets, found, strict=True):
        np.testing.assert_array_equal(values, kernel.square(own))


def test_batches_are_smaller_where_rows_have_many_features():
    """The device has 2**30 bytes: enough for all values, not for all rows in double precision."""

    def n_batches(n_features):
        kernel = kernel_matrix(np.ones((40, n_features)))
        blocks = blocks_of(kernel)
        reducer = on_device.DeviceReducer(blocks, 1e-3, np.ones(40), False)
        return len(reducer.batches(np.arange(1000), [np.arange(40)] * 1000))

    assert n_batches(2) == 1
    assert n_batches(5000) > 1000 * 40 * 5000 * 8 / 2**30


@pytest.mark.parametrize("name", kernels())
def test_blocks_are_those_of_the_host(name):
    kernel = kernels()[name]
    some = np.array([[0, 5, 9, 9], [7, 1, 3, 2]])
    blocks = blocks_of(kernel).squares(some)
    assert blocks.dtype == kernel.dtype
    for own, block in zip(some, blocks, strict=True):
        np.testing.assert_allclose(block, kernel.square(own), rtol=1e-5, atol=1e-6)


def test_reducing_is_given_up_where_there_is_little_to_gain():
    X = np.random.default_rng(0).normal(size=(300, 20))
    blocks = blocks_of(kernel_matrix(X, gamma=1.0))
    subsets = np.array_split(np.arange(300), 20)
    reducer = DeviceSetKernel(blocks).reducer(SETTINGS.hull_tol, np.ones(300), False)
    settings = SETTINGS._replace(most_kept=0.9, n_probes=8)
    reduced, given_up = reduce(reducer, subsets, settings, in_turn, Silence())
    assert not reduced
    assert given_up.n_kept > 0.9 * given_up.n_rows
    assert given_up.n_rows < 300


def test_subsets_too_large_for_a_thread_block_are_reduced_by_the_host(monkeypatch):
    X, weights = rows()
    kernel = DeviceSetKernel(blocks_of(kernel_matrix(X, gamma=0.1)))
    groups = [np.arange(len(X))]
    usual = derive(kernel, groups, weights, SETTINGS, in_turn, Silence())
    monkeypatch.setattr(on_device, "most_rows", lambda dtype: 0)
    monkeypatch.setattr(on_device, "reduce_batch", None)
    other = derive(kernel, groups, weights, SETTINGS, in_turn, Silence())
    n_usual = len(usual.found.selected)
    assert abs(len(other.found.selected) - n_usual) <= 1 + 0.03 * n_usual
