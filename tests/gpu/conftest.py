"""Devices that stand in for a GPU."""

from __future__ import annotations

import pytest

from aesvm.gpu import cuda, devices, dual, hull
from tests.gpu import emulator, strict
from tests.gpu.stand_in import NumpyDevice, launch_on_the_host


@pytest.fixture(name="stand_in")
def numpy_in_place_of_cupy(monkeypatch):
    """The drivers of a GPU with NumPy's arrays, as ``device="cuda"``."""
    device = NumpyDevice()
    monkeypatch.setattr(hull, "_launch", launch_on_the_host)
    monkeypatch.setattr(dual, "_SHRINK_PRODUCTS", 0.0)  # also of few rows
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    return device


@pytest.fixture(name="strict_device")
def arrays_that_are_not_those_of_numpy(monkeypatch):
    """A device whose arrays fail where they are taken for NumPy's, as ``device="cuda"``."""
    device = strict.StrictDevice("cuda:0")
    monkeypatch.setattr(hull, "_launch", strict.launch_on_the_host)
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    strict.give_linear_algebra(monkeypatch)
    return device


@pytest.fixture(name="emulated")
def device_code_on_this_processor(monkeypatch, tmp_path_factory):
    """The device code itself, as ``device="cuda"``, with small working sets."""
    if emulator.COMPILER is None:
        pytest.skip("there is no C++ compiler to build device code with")
    stand_ins = emulator.in_place(tmp_path_factory.mktemp("device_code"))
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(cuda, name, stand_in)
    monkeypatch.setattr(dual, "_SHRINK_PRODUCTS", 0.0)
    device = NumpyDevice(operations=cuda)
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    return device
