"""Subsets cut by the device's driver, with NumPy in place of CuPy."""

import numpy as np
import pytest

from aesvm.gpu import partition as on_device
from aesvm.gpu.partition import DeviceDistances, subsets_on_device
from aesvm.kernels import kernel_matrix
from aesvm.sets.partition import distance_partitions, fine_subsets
from tests.gpu.stand_in import NumpyDevice


def host_subsets(kernel, groups, partition_size, subset_size):
    partitions = distance_partitions(kernel, groups, partition_size)
    return [s for rows in partitions for s in fine_subsets(kernel, rows, subset_size)]


def grid(n, seed=0):
    """Whole numbers: distances have no rounding, and many ties."""
    return np.random.default_rng(seed).integers(0, 6, size=(n, 3)).astype(float)


@pytest.mark.parametrize("partition_size", [40, 70, 1000])
@pytest.mark.parametrize("subset_size", [1, 10, 33])
def test_whole_numbers_are_cut_as_on_the_host(partition_size, subset_size):
    X = grid(300)
    groups = [np.arange(0, 300, 2), np.arange(1, 201, 2), np.arange(201, 300, 2)]
    kernel = kernel_matrix(X)
    distances = DeviceDistances(NumpyDevice(), X, kernel.center)
    found = subsets_on_device(distances, groups, partition_size, subset_size, True)
    expected = host_subsets(kernel, groups, partition_size, subset_size)
    assert [own.tolist() for own in found] == [own.tolist() for own in expected]


def test_subsets_of_points_on_a_line():
    X = np.array([[0.0], [5.0], [1.0], [4.0], [2.0]])
    distances = DeviceDistances(NumpyDevice(), X, np.zeros(1))
    found = subsets_on_device(distances, [np.arange(5)], 100, 2, True)
    assert [own.tolist() for own in found] == [[1, 3], [2, 4], [0]]


def test_rows_may_be_gathered_a_few_at_a_time():
    X = grid(100)
    distances = DeviceDistances(NumpyDevice(), X, np.zeros(3))
    whole = subsets_on_device(distances, [np.arange(100)], 30, 7, True)
    distances.step = 9
    parts = subsets_on_device(distances, [np.arange(100)], 30, 7, True)
    assert [own.tolist() for own in parts] == [own.tolist() for own in whole]


def test_pieces_of_one_row_each():
    distances = DeviceDistances(NumpyDevice(), grid(7), np.zeros(3))
    subsets = subsets_on_device(distances, [np.arange(3), np.arange(3, 7)], 1, 1, True)
    assert sorted(own.tolist() for own in subsets) == [[row] for row in range(7)]


def test_pieces_that_do_not_fit_into_one_number_are_cut_in_turn(monkeypatch):
    X = grid(300)
    groups = np.array_split(np.arange(300), 7)
    distances = DeviceDistances(NumpyDevice(), X, np.zeros(3))
    whole = subsets_on_device(distances, groups, 20, 8, True)
    monkeypatch.setattr(on_device, "_together", lambda lengths, some: list(some[:, None]))
    in_turn = subsets_on_device(distances, groups, 20, 8, True)
    assert [own.tolist() for own in in_turn] == [own.tolist() for own in whole]


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_every_row_is_in_one_subset_whatever_the_unit(scale):
    X = np.random.default_rng(1).normal(size=(100, 4)) * scale
    distances = DeviceDistances(NumpyDevice(), X, X[0])
    subsets = subsets_on_device(distances, [np.arange(100)], 50, 20, True)
    assert sorted(np.concatenate(subsets)) == list(range(100))
    assert [len(own) for own in subsets] == [20, 20, 10] * 2
    assert all((np.diff(own) > 0).all() for own in subsets)
    near = X[subsets[0]]
    assert np.ptp(near / scale, axis=0).max() < np.ptp(X / scale, axis=0).max()
