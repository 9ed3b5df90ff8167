"""Clusters, rows on them, and what happens in the midst of a fit."""

from __future__ import annotations

import time

import dask.array as da
import distributed
from sklearn.datasets import make_moons

from tests import children


def wait_until(holds, what, seconds=children.LIMIT / 2):
    """Wait for something that comes to hold, by looking; it must in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"in {seconds:g} seconds there was no {what}"
        time.sleep(0.05)


def is_idle(client):
    """Whether a cluster has nothing left to compute."""
    busy = {"queued", "processing", "waiting", "no-worker"}
    states = client.run_on_scheduler(
        lambda dask_scheduler: {task.state for task in dask_scheduler.tasks.values()}
    )
    return not states & busy


def has_forgotten_all(client):
    """Whether a scheduler knows of no task any more."""
    return not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def cluster_of(n_workers, threads=1):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=threads, processes=True, dashboard_address=":0"
    )


def lazy(*arrays, chunks=1000):
    return [da.from_array(array, chunks=(chunks, *array.shape[1:])) for array in arrays]


def moons(n=6000):
    return make_moons(n, noise=0.25, random_state=0)


class AtStep:
    """Does something when a task is reported for the first time."""

    def __init__(self, name, act):
        self.name, self.act, self.done = name, act, False

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        parent = context.parent.task_name if context.parent else ""
        if not self.done and (parent, context.task_name) == (self.name, "partition"):
            self.done = True
            self.act()

    def teardown(self, estimator, context):
        pass
