"""Panels of rows that are copied while the device computes: streams in the place of CuPy's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from aesvm import AESVC, AENuSVC
from aesvm.gpu import devices, hull
from aesvm.gpu import rows as device_rows
from aesvm.gpu.devices import Device, DeviceMemoryError
from aesvm.gpu.vectors import HostVectors
from tests.gpu import strict
from tests.gpu.test_vectors import LittleMemory, compared, moons


class Stream:
    """Work that is done in order: at once if it is eager, or else when someone waits for it."""

    def __init__(self, eager):
        self.eager = eager
        self.work, self.n_done = [], 0

    def ask(self, what):
        self.work.append(what)
        if self.eager:
            self.synchronize()

    def run_until(self, n):
        while self.n_done < n:
            self.n_done += 1
            self.work[self.n_done - 1]()

    def synchronize(self):
        self.run_until(len(self.work))

    def record(self, event=None):
        event = Event() if event is None else event
        event.stream, event.n = self, len(self.work)
        return event

    def wait_event(self, event):
        stream, n = event.stream, event.n
        self.ask(lambda: stream.run_until(n))


class Event:
    def __init__(self, disable_timing=False):
        self.stream = None

    def synchronize(self):
        self.stream.run_until(self.n)


class FakeCuda:
    """CuPy's ``cuda``, as far as panels are concerned."""

    PinnedMemory = alloc_pinned_memory = bytearray
    PinnedMemoryPointer = staticmethod(lambda memory, offset: memory)
    Event = Event

    def __init__(self, eager):
        self.computing, self.copying = (Stream(one in eager) for one in ("computing", "copying"))

    def Stream(self, non_blocking):  # noqa: N802 - CuPy's name
        assert non_blocking
        return self.copying

    def get_current_stream(self):
        return self.computing


class StreamingDevice(strict.StrictDevice):
    page_locked, panel_copies = Device.page_locked, Device.panel_copies

    def __init__(self, eager):
        super().__init__("cuda:0")
        self.xp.cuda = FakeCuda(eager)


@pytest.fixture(autouse=True)
def arrays_that_are_set_on_streams(monkeypatch):
    def set_on_stream(there, host, stream):
        assert host.flags.c_contiguous
        stream.ask(lambda: np.copyto(there.own, host))

    monkeypatch.setattr(strict.There, "set", set_on_stream, raising=False)


def host_vectors(monkeypatch, eager, rows, numbers, n):
    """Vectors of which 16 are a panel, on a device whose streams have work to do."""
    monkeypatch.setattr(device_rows, "PANEL_BYTES", 16 * 8 * 8)
    device = StreamingDevice(eager)
    form = SimpleNamespace(dtype=np.dtype(np.float64))
    norms = strict.There(np.arange(float(n)))
    return device.xp.cuda, HostVectors(device, form, rows, numbers, norms)


@pytest.mark.parametrize("eager", ["", "computing", "copying"])
@pytest.mark.parametrize("n", [0, 1, 16, 17, 50, 128])
@pytest.mark.parametrize("gathered", [False, True])
def test_panels_are_copied_beside_what_is_computed(monkeypatch, gathered, n, eager):
    """Whichever stream is ahead of the other: no panel is used too soon, or changed too soon."""
    rows = np.arange(128.0 * 8).reshape(128, 8)
    numbers = np.random.default_rng(0).permutation(128)[:n] if gathered else None
    wanted = rows[numbers] if gathered else rows[:n]
    source = rows if gathered else rows[:n]
    cuda, vectors = host_vectors(monkeypatch, eager, source, numbers, n)
    out = np.zeros((n, 8))
    most = []

    def compute(part, panel):
        assert_array_equal(panel.norms.own, np.arange(float(n))[part])
        cuda.computing.ask(lambda: np.copyto(out[part], panel.rows.own))
        most.append(len(cuda.computing.work) - cuda.computing.n_done)

    vectors.each_panel(compute)
    assert len(cuda.copying.work) == cuda.copying.n_done  # rows of the host can be given back
    cuda.computing.synchronize()
    assert_array_equal(out, wanted)
    assert max(most, default=0) <= 5  # never more than two panels are waited for


@pytest.mark.parametrize(
    "estimator",
    [
        AESVC(gamma=1.0, C=2.0, refine="exact", tol=1e-4),
        AESVC(gamma=1.0, refine=1, subset_size=100),
        AESVC(gamma=1.0, max_vectors=50),
        AENuSVC(nu=0.3, gamma=1.0, tol=1e-5),
    ],
    ids=repr,
)
def test_estimators_are_those_of_rows_on_the_device(monkeypatch, estimator):
    """Computing is done when it is asked for, and copying when that waits for it."""
    device = StreamingDevice("computing")
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    monkeypatch.setattr(hull, "_launch", strict.launch_on_the_host)
    strict.give_linear_algebra(monkeypatch)
    X, y = moons()
    compared(estimator, LittleMemory(monkeypatch), X, y)
    assert device.xp.cuda.copying.n_done > 0


def test_nothing_is_copied_any_more_after_an_interrupt(monkeypatch):
    cuda, vectors = host_vectors(monkeypatch, "", np.ones((128, 8)), None, 128)

    def interrupt(part, panel):
        if part.start:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vectors.each_panel(interrupt)
    assert cuda.copying.n_done == len(cuda.copying.work) > 0


def test_page_locked_memory_that_is_not_there_is_said_in_bytes():
    class NoMemoryError(RuntimeError):
        pass

    def refuse(n_bytes):
        raise NoMemoryError("cudaErrorMemoryAllocation")

    runtime = SimpleNamespace(CUDARuntimeError=NoMemoryError)
    cuda = SimpleNamespace(runtime=runtime, PinnedMemoryPointer=lambda memory, offset: memory)
    cuda.PinnedMemory = cuda.alloc_pinned_memory = refuse
    device = Device("cuda:0", SimpleNamespace(cuda=cuda), None)
    for pooled in (False, True):
        with pytest.raises(DeviceMemoryError, match=r"page-lock 8,000 bytes .*Give fewer rows"):
            device.page_locked((100, 10), np.float64, pooled)
