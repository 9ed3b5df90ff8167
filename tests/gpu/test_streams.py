"""Work side by side on streams of a device, which NumPy stands in for."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from aesvm import AESVC
from aesvm.gpu import devices
from aesvm.gpu.devices import Streams
from aesvm.gpu.rows import DeviceRows
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from tests.children import LIMIT


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
