"""Clusters that tests share."""

from __future__ import annotations

import distributed
import pytest

from tests.dask.clusters import cluster_of


@pytest.fixture(scope="package")
def two_workers():
    """One cluster for all tests that do it no harm: a worker takes seconds to start."""
    with cluster_of(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(two_workers):
    with distributed.Client(two_workers) as client:
        yield client


@pytest.fixture(scope="package")
def one_worker():
    """A cluster of one worker, with two threads."""
    with cluster_of(1, threads=2) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def mortal():
    """The client of a cluster whose workers are killed; others take their place."""
    with cluster_of(2) as cluster, distributed.Client(cluster, set_as_default=False) as mortal:
        yield mortal
