"""What may be wrong with a cluster or a client is said, with what would do."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
from contextlib import contextmanager

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from distributed.core import Status
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from aesvm.dask import DaskAESVC, DaskRepresentativeSet, waiting
from tests import children
from tests.dask.clusters import AtStep, cluster_of, lazy, moons

HERE = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}

ELSEWHERE = """
import sys
from distributed import LocalCluster
cluster = LocalCluster(
    n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0"
)
print(cluster.scheduler_address, flush=True)
sys.stdin.readline()
cluster.close()
"""


@contextmanager
def cluster_elsewhere():
    """A cluster that is a process: the process, and a client."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with children.started(children.code(ELSEWHERE), **pipes) as process:
        address = children.line(process).strip()
        with distributed.Client(address) as client:
            yield process, client


def test_what_never_comes_fails_a_test_in_time(request):
    assert request.node.get_closest_marker("timeout")  # as all tests in this folder have


def at_step(act, name="reduce"):
    return DaskAESVC(gamma=1.0, refine=1).set_callbacks(AtStep(name, act))


def test_an_asynchronous_client_is_refused_where_its_loop_would_stop():
    rows, classes = lazy(*moons(2000))
    model = DaskAESVC(gamma=1.0)
    message = r"client is asynchronous.*pass client=Client\(address\).*asyncio.to_thread"

    async def inside():
        async with distributed.Client(n_workers=1, asynchronous=True, **HERE) as client:
            for other in (model, DaskRepresentativeSet()):
                with pytest.raises(ValueError, match=message):
                    other.fit(rows, classes)
            assert not client.cluster.scheduler.tasks
            await asyncio.to_thread(model.fit, rows, classes)
            with pytest.raises(ValueError, match=message):
                model.certify(rows, classes)
            with pytest.raises(RuntimeError, match="asynchronous Client"):  # Dask's own words
                model.score(rows, classes)
            assert await asyncio.to_thread(model.score, rows, classes) > 0.9
            labels = await client.compute(model.predict(rows))
            assert_array_equal(labels, model.predict(rows.compute(scheduler="threads")))

    asyncio.run(inside())


@pytest.mark.parametrize(("step", "violently"), [("reduce", True), ("look", False)])
def test_a_scheduler_that_ends_is_named(step, violently):
    with cluster_elsewhere() as (process, client):
        address = client.scheduler.address

        def end():
            if violently:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.stdin.write("\n")
                process.stdin.close()
            process.wait(timeout=children.LIMIT)

        message = rf"is lost: the connection to the scheduler at {address} broke.*fit again"
        with pytest.raises(RuntimeError, match=r"^(partition \d of X|the task '\w+') " + message):
            at_step(end, step).fit(*lazy(*moons()))


@pytest.fixture(scope="module")
def cluster_of_one():
    with cluster_of(1) as cluster:
        yield cluster


@pytest.mark.parametrize("step", ["reduce", "look"])
def test_a_client_that_is_closed_midway_is_named(cluster_of_one, step):
    client = distributed.Client(cluster_of_one)
    model = at_step(client.close, step)
    with pytest.raises(RuntimeError, match=r"is lost: the client .* was closed meanwhile"):
        model.fit(*lazy(*moons()))
    with pytest.raises(ValueError, match=r"the dask.distributed client is closed: pass"):
        model.set_params(client=client).fit(*lazy(*moons()))


def test_a_cluster_that_is_restarted_and_tasks_that_are_cancelled_are_named(cluster_of_one):
    with distributed.Client(cluster_of_one) as client:

        def cancel():
            client.cancel([distributed.Future(key, client) for key in list(client.futures)])

        with pytest.raises(RuntimeError, match=r"is lost: it was cancelled \(client.cancel"):
            at_step(cancel, "look").fit(*lazy(*moons()))

        def restart():
            client.restart(wait_for_workers=False)  # which a busy machine starts late

        with pytest.raises(RuntimeError, match=r"is lost: the cluster was restarted meanwhile"):
            at_step(restart, "look").fit(*lazy(*moons()))


def dies(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.weekly
def test_a_partition_that_kills_workers_is_named():
    X, y = moons()
    rows, classes = lazy(X, y)
    once = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    # what else the worker was about to do is blamed as well
    message = r"partition \d of X failed: 1 worker that had it died\. .*memory_limit: \d.*fit again"
    says = pytest.raises(RuntimeError, match=message)
    with once, cluster_of(1) as cluster, distributed.Client(cluster), says:
        DaskAESVC(gamma=1.0).fit(rows.map_blocks(dies, dtype=float, meta=X[:0]), classes)


def pause(dask_worker):
    dask_worker.status = Status.paused


def resume(dask_worker):
    dask_worker.status = Status.running


@pytest.fixture
def impatient(monkeypatch):
    """Warnings come at once, and are handed to a function that puts things right."""
    monkeypatch.setattr(waiting, "_CHECK_EVERY", 0.0)
    monkeypatch.setattr(waiting, "_TICK", 0.05)
    said = []

    def then(act):
        def warn(message):
            said.append(message)
            act()

        monkeypatch.setattr(waiting, "warn", warn)
        return said

    return then


def test_workers_that_are_paused_are_named(impatient):
    with distributed.Client(n_workers=2, memory_limit=0, **HERE) as client:
        client.run(pause)
        said = impatient(lambda: client.run(resume))
        model = DaskAESVC(gamma=1.0, refine=0).fit(*lazy(*moons(2000)))
        addresses = list(client.scheduler_info()["workers"])
    assert model.classes_.tolist() == [0, 1]
    assert len(said) == 1
    assert "2 of 2 workers are paused" in said[0]
    assert all(address in said[0] for address in addresses)
    assert "memory_limit" in said[0]


def test_a_cluster_without_workers_is_named(impatient, monkeypatch):
    monkeypatch.setattr(waiting, "_COME_BACK", 0.0)  # which is for workers that have died
    with distributed.LocalCluster(n_workers=0, **HERE) as cluster, distributed.Client(cluster):
        said = impatient(lambda: cluster.scale(1))
        DaskRepresentativeSet(gamma=1.0).fit(*lazy(*moons(2000)))
        address = cluster.scheduler_address
    assert f"no worker is connected to the scheduler at {address}" in said[0]


@pytest.mark.weekly
@pytest.mark.usefixtures("impatient")
def test_workers_that_die_and_do_not_come_back_end_the_fit(monkeypatch):
    monkeypatch.setattr(waiting, "_COME_BACK", 0.0)
    with cluster_of(1) as cluster, distributed.Client(cluster):

        def end():
            for nanny in cluster.workers.values():
                nanny.auto_restart = False
                os.kill(nanny.pid, signal.SIGKILL)

        message = r"the step 'reduce' failed: 1 worker died, 0 are connected.*memory_limit: \d"
        with pytest.raises(RuntimeError, match=message):
            at_step(end).fit(*lazy(*moons()))


@pytest.mark.weekly
@pytest.mark.usefixtures("impatient")
def test_workers_that_die_again_and_again_end_the_fit():
    X, y = moons()
    rows, classes = lazy(X, y)
    failures = "distributed.scheduler.allowed-failures"
    with dask.config.set({failures: 1000}), cluster_of(1) as cluster:  # no task is given up
        says = pytest.raises(RuntimeError, match=r"the step '\w+' failed: \d workers? died")
        with dask.config.set({failures: 0}), distributed.Client(cluster), says:
            DaskAESVC(gamma=1.0).fit(rows.map_blocks(dies, dtype=float, meta=X[:0]), classes)


class Dying:
    """A client, as far as it is looked at, whose workers die as often as is said."""

    status = "running"
    scheduler = None
    cluster = None
    n_died = 0
    n_ended = 0
    are_retired = False
    workers = ("a",)

    def scheduler_info(self, n_workers):
        one = {"status": "running", "memory_limit": 250_000_000}
        return {"workers": dict.fromkeys(self.workers, one)}

    def get_events(self, topic):
        if topic == "worker-restart-memory":
            return [(float(n), {}) for n in range(1, self.n_ended + 1)]
        died = {"action": "remove-worker", "expected": self.are_retired}
        return [(float(n), died) for n in range(1, self.n_died + 1)]


def test_as_many_deaths_end_a_fit_as_dask_allows_a_task():
    client = Dying()
    watch, deaths = waiting.Watch(client), waiting._Deaths()
    watch._check("reduce", 10.0, deaths)
    client.workers, client.n_died = ("b",), 3
    watch._check("reduce", 20.0, deaths)
    client.n_died, client.n_ended, client.workers = 4, 4, ("a", "c")
    watch._check("reduce", 30.0, deaths)  # one of the first is at work
    client.workers = ("c",)
    message = r"'reduce' failed: 4 workers died, 1 are connected .*ended 4 workers .*: 238\.\d+ MiB"
    with pytest.raises(RuntimeError, match=message):
        watch._check("reduce", 40.0, deaths)


def test_workers_that_were_retired_are_waited_for(impatient, monkeypatch):
    monkeypatch.setattr(waiting, "_COME_BACK", 0.0)
    said = impatient(lambda: None)
    client = Dying()
    watch, deaths = waiting.Watch(client), waiting._Deaths()
    watch._check("reduce", 10.0, deaths)
    client.workers, client.n_died, client.are_retired = (), 9, True
    watch._check("reduce", 20.0, deaths)
    assert len(said) == 1


def test_an_adaptive_cluster_is_waited_for(impatient, monkeypatch):
    monkeypatch.setattr(waiting, "_COME_BACK", 0.0)
    said = impatient(lambda: None)
    client = Dying()
    watch, deaths = waiting.Watch(client), waiting._Deaths()
    client.workers, client.n_died = (), 9
    client.cluster = type("Cluster", (), {"_adaptive": object()})()
    watch._check("reduce", 10.0, deaths)
    assert len(said) == 1
    client.cluster = None
    with pytest.raises(RuntimeError, match="9 workers died, 0 are connected"):
        watch._check("reduce", 10.0, deaths)


def test_warnings_are_few(impatient):
    said = impatient(lambda: None)
    client = Dying()
    client.workers = ()
    watch, deaths = waiting.Watch(client), waiting._Deaths()
    for _ in range(5):
        watch._check("reduce", 10.0, deaths)
    assert len(said) == 1


def test_a_client_may_be_given():
    rows, classes = lazy(*moons(2000))
    with (
        distributed.Client(n_workers=1, **HERE) as ours,
        distributed.Client(n_workers=0, **HERE) as current,
    ):
        model = DaskAESVC(gamma=1.0, refine=1, client=ours).fit(rows, classes)
        assert model.score(rows, classes) > 0.9
        assert model.certify(rows, classes).objective > 0
        chosen = DaskRepresentativeSet(gamma=1.0, client=ours).fit(rows, classes)
        assert len(chosen.sample_indices_)
        assert not current.cluster.scheduler.transition_log
        for estimator in (model, chosen):
            copied = clone(estimator)
            assert copied.client is ours
            assert copied.get_params() == estimator.get_params()
            assert not hasattr(copied, "n_features_in_")
            assert clone(make_pipeline(estimator)).steps[0][1].client is ours
            assert pickle.loads(pickle.dumps(estimator)).client is None
            assert estimator.client is ours
            assert "client=<Client" in repr(estimator)
            assert estimator.set_params(client=None).get_params()["client"] is None
        X = rows.compute(scheduler="threads")
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"'client' parameter of DaskAESVC must be"):
        DaskAESVC(client="tcp://127.0.0.1:8786").fit(rows, classes)


def fit_with_a_client():
    rows, classes = lazy(*moons(2000))
    model = DaskAESVC(gamma=1.0, refine=0, client=distributed.get_client()).fit(rows, classes)
    return model.support_


def test_a_client_given_inside_a_task_leaves_room_for_others():
    with distributed.Client(n_workers=1, **HERE) as client:
        assert len(client.submit(fit_with_a_client).result(timeout=children.LIMIT))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_said_with_their_partition(missing):
    X, y = moons(2000)
    names = np.array(["left", "right"], dtype=object)[y]
    names[1500] = missing
    rows, classes = lazy(X, names, chunks=500)
    message = "y has missing labels .*: 1 of 500, the first at place 0"
    with distributed.Client(n_workers=1, **HERE):
        with pytest.raises(ValueError, match=f"in partition 3 of X: {message}"):
            DaskAESVC(gamma=1.0).fit(rows, classes)
        model = DaskAESVC(gamma=1.0, refine=0).fit(*lazy(X, np.array(["left", "right"])[y]))
        with pytest.raises(ValueError, match=message):
            model.score(rows, classes)


@pytest.mark.parametrize("dtype", ["string", "str", "category"])
def test_missing_labels_of_a_dataframe_are_said(dtype):
    X, y = moons(2000)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["class"] = pd.Series(np.array(["left", "right"])[y], dtype=dtype)
    frame.loc[1500, "class"] = None
    rows = dd.from_pandas(frame, npartitions=4)
    with (
        distributed.Client(n_workers=1, **HERE),
        pytest.raises(ValueError, match="in partition 3 of X: y has missing labels"),
    ):
        DaskAESVC(gamma=1.0).fit(rows[["a", "b"]], rows["class"])
