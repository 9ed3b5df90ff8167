"""Compiling ahead of use."""

from __future__ import annotations

import numba
import numpy as np

import aesvm
from aesvm import AESVC
from aesvm import warm_up as function
from aesvm.runtime.jit import compiling_reported_to


def test_the_second_call_and_later_fits_compile_nothing(capsys):
    function()
    assert aesvm.warm_up(verbose=1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 8
    assert all(line.endswith("in the cache") for line in lines)
    told: list[str] = []
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 5))
    with compiling_reported_to(told.append):
        AESVC().fit(X, X[:, 0] > 0)
        AESVC().fit(X, rng.integers(3, size=2000)).predict(X)
        AESVC().fit(X[:90], rng.integers(3, size=90))
    assert not told


def test_kinds_that_were_compiled_are_counted(monkeypatch):
    def double(x):
        return 2.0 * x

    double.__module__ = "aesvm.nowhere"
    compiled = numba.njit(double)

    def kernel(a, b):
        compiled(1.0)
        return a @ b.T

    rows = np.arange(6.0)[:, None]
    fits = [("one", AESVC(kernel=kernel), rows, rows[:, 0] > 2.5)]
    monkeypatch.setitem(function.__globals__, "_fits", lambda: iter(fits))
    assert function() == 1
    assert function() == 0
