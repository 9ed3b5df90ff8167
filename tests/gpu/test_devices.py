"""Devices by name, and what is said where there is none."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from aesvm import AESVC, AESVR, AEOneClassSVM
from aesvm.gpu import devices
from aesvm.gpu.devices import Device, DeviceMemoryError
from aesvm.machines.processor import processor


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU", "", None, 0])
def test_unknown_devices_are_named(name):
    with pytest.raises(ValueError, match=rf"device={name!r} is unknown: use \"cpu\", \"cuda\""):
        AESVC(device=name).fit([[0.0], [1.0]], [0, 1])


def test_without_cupy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    devices.cuda_device.cache_clear()
    with pytest.raises(
        ImportError, match=r'device="cuda:1" needs CuPy: pip install "aesvm\[gpu\]"'
    ):
        processor("cuda:1")
    model = AESVC().fit([[0.0], [1.0]], [0, 1]).set_params(device="cuda")
    with pytest.raises(ImportError, match=r'of a trained model: set_params\(device="cpu"\)'):
        model.predict([[0.0]])


def product(X, Y):
    return X @ Y.T


@pytest.mark.parametrize("kernel", ["precomputed", product])
@pytest.mark.parametrize("machine", [AESVC, AESVR, AEOneClassSVM])
def test_without_cupy_a_kernel_of_the_host_alone_is_what_is_wrong(kernel, machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    devices.cuda_device.cache_clear()
    X = np.eye(4)
    y = np.array([0, 0, 1, 1])
    wanted = rf"kernel={re.escape(repr(kernel))} cannot be computed with device='cuda': use 'rbf'"
    with pytest.raises(ValueError, match=wanted):
        machine(kernel=kernel, device="cuda").fit(X, y)
    model = machine(kernel=kernel).fit(X, y)
    with pytest.raises(ValueError, match=wanted):
        model.set_params(device="cuda").predict(X)


class FakeCuda:
    """CuPy where there is no driver, or too few GPUs."""

    __version__ = "14"

    def __init__(self, count):
        self.count = count
        self.cuda = self.runtime = self

    class CUDARuntimeError(RuntimeError):
        pass

    def getDeviceCount(self):  # noqa: N802 - CuPy's name
        if self.count is None:
            raise self.CUDARuntimeError("cudaErrorInsufficientDriver")
        return self.count


def test_without_a_gpu_it_says_so(monkeypatch):
    devices.cuda_device.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", FakeCuda(None))
    with pytest.raises(
        RuntimeError, match=r"no GPU .*InsufficientDriver.* driver .*device=\"cpu\""
    ):
        AESVC(device="cuda").fit([[0.0], [1.0]], [0, 1])
    monkeypatch.setitem(sys.modules, "cupy", FakeCuda(1))
    with pytest.raises(RuntimeError, match=r"this process sees 1 GPU, numbered from 0"):
        processor("cuda:3")


def test_too_little_memory_is_said_in_bytes():
    error = MemoryError("Out of memory allocating 2,048 bytes (allocated so far: 1 bytes).")
    found = DeviceMemoryError.of(Device("cuda:0", np, None), error)
    said = str(pickle.loads(pickle.dumps(found)))  # as processes of a search send it
    assert "2,048 bytes more were wanted" in said
    assert "max_vectors" in said


class FakePool:
    """CuPy with a pool of memory, of which so many bytes are free."""

    def __init__(self, free):
        self.free, self.n_freed = free, 0
        memory = SimpleNamespace(OutOfMemoryError=MemoryError)
        self.cuda = SimpleNamespace(Device=lambda number: nullcontext(), memory=memory)

    def get_default_memory_pool(self):
        return self

    def free_bytes(self):
        return self.free

    def free_all_blocks(self):
        self.n_freed += 1


@pytest.mark.parametrize(("free", "n_freed"), [(1e6, 0), (1e10, 1)])
def test_memory_is_given_back_once_and_where_it_is_much(monkeypatch, free, n_freed):
    pool = FakePool(free)
    device = Device("cuda:0", pool, None)
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    with processor("cuda").computing():
        for _ in range(5):
            with device.here():
                pass
        assert pool.n_freed == 0
    assert pool.n_freed == n_freed


def test_all_memory_is_given_back_where_it_was_too_little():
    pool = FakePool(1e6)
    with pytest.raises(DeviceMemoryError), Device("cuda:0", pool, None).here():
        raise MemoryError("Out of memory allocating 2,048 bytes (allocated so far: 1 bytes).")
    assert pool.n_freed == 1


def test_nothing_imports_cuda_unasked():
    code = "import sys, aesvm; aesvm.AESVC().fit([[0.], [1.]], [0, 1]); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    assert "cupy" not in loaded
