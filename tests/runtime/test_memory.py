"""The memory that is free, and fits that say or refuse what they take of it."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons

from aesvm import AESVC, AESVR, AEOneClassSVM
from aesvm.bases import span_training
from aesvm.machines import fit_memory, forecast
from aesvm.runtime import memory
from aesvm.runtime.memory import free_memory, machine_memory
from aesvm.solver import row_cache, smo


def test_memory_is_known(monkeypatch):
    assert machine_memory() > 2**28
    monkeypatch.delattr(os, "sysconf", raising=False)  # as on Windows
    assert machine_memory() == 8 * 2**30


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    limit, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(memory, "_CONTAINER", ((str(limit), str(used)),))
    free = free_memory()
    assert 0 < free <= machine_memory()
    limit.write_text("5000000\n")
    used.write_text("2000000\n")
    assert free_memory() == 3e6
    limit.write_text("max\n")
    assert free_memory() > 0.5 * free


@pytest.fixture
def moons():
    return make_moons(3000, noise=0.3, random_state=0)


def no_solves(monkeypatch):
    def solve(*_, **__):
        raise AssertionError("the work has begun")

    monkeypatch.setattr(smo, "minimize", solve)


def test_fits_of_few_rows_do_not_ask_how_much_memory_is_free(moons, monkeypatch):
    def asked():
        raise AssertionError("the machine was asked")

    monkeypatch.setattr(fit_memory, "free_memory", asked)
    X, y = moons
    AESVC().fit(X[:200], y[:200])
    with pytest.raises(AssertionError, match="the machine was asked"):
        AESVC(refine="exact").fit(X, y)


@pytest.mark.parametrize("rows", [sp.csr_array, np.asarray])
def test_a_cache_that_cannot_fit_is_refused_before_the_work(rows, moons, monkeypatch):
    monkeypatch.setattr(fit_memory, "free_memory", lambda: 20e6)
    no_solves(monkeypatch)
    X = rows(np.repeat(moons[0], 100, axis=1))  # many features: kernel values are kept
    with pytest.raises(MemoryError, match=r"cache_size='auto' .* 36 MB .*20 MB are free: lower"):
        AESVC(gamma=0.01).fit(X, moons[1])
    with pytest.raises(AssertionError, match="the work has begun"):
        AESVC(gamma=0.01, cache_size=10).fit(X, moons[1])


@pytest.mark.parametrize("estimator", [AESVC(), AESVR(), AEOneClassSVM()])
def test_rows_that_are_too_many_are_refused_before_the_work(estimator, moons, monkeypatch):
    monkeypatch.setattr(fit_memory, "free_memory", lambda: 1e6)
    no_solves(monkeypatch)
    with pytest.raises(MemoryError, match=r"of 3,000 rows needs .* MB are free: use fewer rows"):
        estimator.fit(*moons)
    assert not hasattr(estimator, "support_")


def test_vectors_that_are_too_many_are_refused_before_the_work(moons, monkeypatch):
    monkeypatch.setattr(span_training, "free_memory", lambda: 50e6)
    no_solves(monkeypatch)
    with pytest.raises(MemoryError, match=r"on 2,000 vectors .* 50 MB are free: lower max_vectors"):
        AESVC(max_vectors=2000).fit(*moons)


@pytest.mark.parametrize(
    ("parameters", "least"), [({}, 1.8e6), ({"max_vectors": 100}, 1.2e6)], ids=["exact", "few"]
)
def test_memory_is_said_where_lines_are_asked_for(parameters, least, moons, monkeypatch, capsys):
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    model = AESVC(gamma=1.0, **parameters)
    silent = clone(model).fit(*moons)
    assert not capsys.readouterr().out
    told = clone(model).set_params(verbose=1).fit(*moons)
    said = capsys.readouterr().out
    (line,) = re.findall(r"memory: some ([\d.]+) MB beside the rows", said)
    assert ("; time: " in said) == ("max_vectors" not in parameters)
    assert least <= 1e6 * float(line) < 100e6
    assert_array_equal(told.dual_coef_, silent.dual_coef_)


def test_the_memory_that_is_said_counts_a_cache_that_grows_with_the_rows(
    moons, monkeypatch, capsys
):
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    monkeypatch.setattr(fit_memory, "WORKING_SET", 0)
    for module in (fit_memory, row_cache):
        monkeypatch.setattr(module, "LEAST_BYTES", 10**6)
    monkeypatch.setattr(row_cache, "_BYTES_PER_VALUE", 30e6 / len(moons[1]) ** 2)
    said = []
    for size in (1, "auto"):
        AESVC(gamma=1.0, cache_size=size, verbose=1).fit(*moons)
        said += re.findall(r"memory: some ([\d.]+) MB", capsys.readouterr().out)
    least, grown = map(float, said)
    assert 28.0 <= grown - least <= 30.0  # 30 MB in place of one, to two digits


def test_few_rows_need_no_estimate(moons, capsys):
    AESVC(gamma=1.0, verbose=1).fit(*moons)
    said = capsys.readouterr().out
    assert "memory:" not in said
    assert "time:" not in said
