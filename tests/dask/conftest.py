"""Tests of clusters end: each has a time limit, and so have its preparations and what follows."""

from __future__ import annotations

import pytest

from tests.dask.clusters import time_limit


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
