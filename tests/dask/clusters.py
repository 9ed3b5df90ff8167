"""Clusters, rows on them, and what happens in the midst of a fit."""

from __future__ import annotations

import dask.array as da
import distributed
from sklearn.datasets import make_moons


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
