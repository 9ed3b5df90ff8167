"""Tests of clusters end: each has a time limit, and so have its preparations and what follows."""

from __future__ import annotations

import distributed
import pytest

from tests.dask.clusters import cluster_of, time_limit


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with time_limit():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with time_limit():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    with time_limit():
        return (yield)
