"""Compiling ahead of use."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import aesvm
from aesvm import AESVC, AESVR, AENuSVC
from aesvm import warm_up as function
from aesvm.inspection import shapley_values
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
        AENuSVC(nu=0.4, refine="exact").fit(X, X[:, 0] > 0)
        AESVR(refine=0, hull_tol=0.1).fit(X, X[:, 0])
        shapley_values(AESVC().fit(X, X[:, 0] > 0), X[:3], background=X[:9])
    assert not told


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_of_any_form_compile_nothing_after_it(form, dtype):
    function()
    told: list[str] = []
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(2000, 4)).astype(dtype)
    X, y = form(dense * (np.abs(dense) > 0.5)), dense[:, 0] > 0
    with compiling_reported_to(told.append):
        AESVC(max_vectors=20).fit(X, y)
        AESVC(refine=0, hull_tol=0.1, subset_size=500).fit(X, y)
        AESVC().fit(X, rng.integers(4, size=2000)).predict(X)
    assert not told


def test_kinds_that_were_compiled_are_counted(monkeypatch):
    def double(x):
        return 2.0 * x

    double.__module__ = "aesvm.nowhere"
    compiled = numba.njit(double)

    monkeypatch.setitem(function.__globals__, "_uses", lambda: [("one", lambda: compiled(1.0))])
    assert function() == 1
    assert function() == 0
