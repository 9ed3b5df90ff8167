"""Devices by name, errors where there is none, and streams side by side; NumPy stands in."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from aesvm import AESVC, AESVR, AEOneClassSVM
from aesvm.gpu import devices
from aesvm.gpu.devices import Device, DeviceMemoryError, Streams
from aesvm.gpu.rows import DeviceRows
from aesvm.machines.processor import processor
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from tests.children import LIMIT


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


@pytest.mark.parametrize("machine", [AESVC, AESVR, AEOneClassSVM])
def test_without_cupy_a_kernel_of_the_host_alone_is_what_is_wrong(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    devices.cuda_device.cache_clear()
    X = np.eye(4)
    y = np.array([0, 0, 1, 1])
    wanted = rf"kernel={re.escape(repr(product))} cannot be computed with device='cuda': use 'rbf'"
    with pytest.raises(ValueError, match=wanted):
        machine(kernel=product, device="cuda").fit(X, y)
    model = machine(kernel=product).fit(X, y)
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


def on_streams(device, function, items, progress):
    return Streams(DeviceRows(device, np.ones((2, 1)))).each(function, items, progress)


class Counted(Silence):
    """Progress that takes down the threads which report to it."""

    def __init__(self):
        super().__init__()
        self.steps_of = []

    def step(self, name="step"):
        self.steps_of.append(threading.current_thread())


def test_results_are_in_order_and_the_caller_reports_them(stand_in):
    progress = Counted()
    gate = threading.Barrier(2, timeout=LIMIT)

    def double(number, progress):
        if number in (3, 4):  # neither ends without the other: they are done at the same time
            gate.wait()
        return 2 * number

    found = on_streams(stand_in, double, ((n,) for n in range(20)), progress)
    assert found == list(range(0, 40, 2))
    assert progress.steps_of == [threading.current_thread()] * 20


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_ends_what_is_done_beside_it(stand_in, error):
    begun, ended = threading.Semaphore(0), []

    def work(number, progress):
        if number == 1:
            begun.acquire(timeout=LIMIT)
            raise error("of the second")
        begun.release()
        while number > 1 and not progress.is_over():
            pass
        ended.append(number)

    with pytest.raises(error, match="of the second"):
        on_streams(stand_in, work, ((n,) for n in range(1000)), Silence())
    assert len(ended) < devices.STREAMS + 2


def test_an_interrupt_of_the_thread_that_waits_ends_what_is_done_beside_it(stand_in, monkeypatch):
    begun, interrupted, over = threading.Event(), threading.Event(), []

    class Waiting(Threads):
        def together(self, function, n_calls):
            others.append(threading.Thread(target=function))
            others[0].start()
            begun.wait(LIMIT)
            raise KeyboardInterrupt

    def work(number, progress):
        begun.set()
        interrupted.wait(LIMIT)
        over.append(progress.is_over())

    others = []
    monkeypatch.setattr(devices, "_USED", {stand_in.name})  # else the first is done before
    monkeypatch.setattr(devices, "Threads", Waiting)
    with pytest.raises(KeyboardInterrupt):
        on_streams(stand_in, work, ((n,) for n in range(9)), Silence())
    interrupted.set()
    others[0].join(LIMIT)
    assert over == [True]


def test_what_is_done_side_by_side_shares_the_memory_of_the_device(stand_in, monkeypatch):
    # decided at the same time: no one sees what the others are about to take
    monkeypatch.setattr(devices, "_USED", {stand_in.name})
    before, gate = stand_in.free_bytes(), threading.Barrier(devices.STREAMS, timeout=LIMIT)

    def tell(number, progress):
        gate.wait()
        return stand_in.free_bytes()

    items = ((n,) for n in range(devices.STREAMS))
    found = on_streams(stand_in, tell, items, Silence())
    assert sum(found) <= 1.001 * before
    assert stand_in.free_bytes() == before


def test_nothing_to_do(stand_in):
    assert on_streams(stand_in, lambda progress: 1, [], Silence()) == []


def test_work_beside_learns_that_the_fit_is_over(stand_in):
    fit = Silence()
    fit.ending.asked_by = "a limit"

    def tell(progress):
        return progress.is_over(), progress.to_the_end().is_over()

    assert on_streams(stand_in, tell, [()], fit) == [(True, False)]


@pytest.mark.parametrize("refine", [0, 1, "exact"])
def test_pairs_of_classes_are_those_trained_one_by_one(stand_in, monkeypatch, refine):
    rows, y = make_blobs(1500, 3, centers=6, cluster_std=3.0, random_state=0)
    model = AESVC(gamma=0.2, refine=refine, hull_tol=1e-2, device="cuda")
    beside = model.fit(rows, y).decision_function(rows), model.dual_coef_, model.support_
    monkeypatch.setattr(devices, "STREAMS", 1)
    alone = model.fit(rows, y).decision_function(rows), model.dual_coef_, model.support_
    for one, other in zip(beside, alone, strict=True):
        assert_array_equal(one, other)
    labels = model.predict(rows)
    assert np.mean(model.set_params(device="cpu").fit(rows, y).predict(rows) == labels) > 0.99
