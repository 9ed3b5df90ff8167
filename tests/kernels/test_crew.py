"""Threads that share out tiles, one task after another."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.kernels import crew as crews
from aesvm.kernels import kernel_matrix, tiles
from aesvm.kernels.accumulate import KeptRows
from aesvm.kernels.crew import DONE, HELPERS, LEAD, LIMIT, TAKEN, Crew
from aesvm.kernels.functions import EXPONENTIAL
from aesvm.runtime.threads import Threads
from tests import children


@pytest.fixture(autouse=True)
def threads_for_little_work(monkeypatch):
    monkeypatch.setattr(tiles, "_LEAST_PRODUCTS", 1.0)


def task(seed):
    """An addition and what it should come to, roughly."""
    rng = np.random.default_rng(seed)
    n_lines, n_columns = rng.integers(1, 400), rng.integers(1, 3000)
    lines, right = rng.standard_normal((n_lines, 3)), rng.standard_normal((n_columns, 3))
    coefs = rng.standard_normal((2, n_lines))
    return tiles.Addition(-np.abs(lines), np.abs(right), EXPONENTIAL), coefs


def added(one, coefs, crew):
    scores = np.zeros((len(coefs), len(one.right)))
    one(coefs, scores, KeptRows.none(one.right.dtype), crew)
    return scores


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_tasks_are_done_one_after_another(n_jobs):
    with Threads(n_jobs) as run:
        crew = Crew(run)
        for seed in range(60):
            one, coefs = task(seed)
            found = added(one, coefs, crew)
            assert_allclose(found, coefs @ np.exp(one.lines @ one.right.T), rtol=1e-9, atol=1e-9)
            assert_array_equal(found, added(one, coefs, Crew(map)))


def test_many_may_lead_at_the_same_time():
    tasks = [task(seed) for seed in range(40)]
    alone = [added(*one, Crew(map)) for one in tasks]
    with Threads(4) as run:

        def some(first):
            crew = Crew(run)
            return [added(*one, crew) for one in tasks[first:]]

        for first, found in enumerate(run(some, range(8))):
            for one, other in zip(found, alone[first:], strict=True):
                assert_array_equal(one, other)


@pytest.mark.parametrize("after", range(3))
def test_after_an_interrupt_nothing_is_left_and_the_next_task_is_right(after, monkeypatch):
    work = tiles._add_tiles

    def interrupted(numbers, task, mode, *others):
        if mode == LEAD:
            raise KeyboardInterrupt
        work(numbers, task, mode, *others)

    with Threads(3) as run:
        crew = Crew(run)
        one, coefs = task(1)
        for _ in range(after):
            added(one, coefs, crew)
        monkeypatch.setattr(tiles, "_add_tiles", interrupted)
        with pytest.raises(KeyboardInterrupt):
            added(one, coefs, crew)
        monkeypatch.setattr(tiles, "_add_tiles", work)
        assert crew.numbers[DONE] == crew.numbers[TAKEN] == crew.numbers[LIMIT]
        assert_array_equal(added(one, coefs, crew), added(one, coefs, Crew(map)))


def test_who_waits_for_tiles_leaves_for_other_work(monkeypatch):
    monkeypatch.setattr(crews, "_LOOKS", 10**9)  # for good, but for such work
    one, coefs = task(1)
    barrier = threading.Barrier(2, timeout=children.LIMIT)
    with Threads(2) as run:
        crew = Crew(run)
        while not crew.numbers[HELPERS]:
            added(one, coefs, crew)
        assert sorted(run(lambda _: barrier.wait(), range(2))) == [0, 1]


def test_nobody_comes_to_a_crew_that_is_gone():
    one, coefs = task(1)
    begin = threading.Event()
    with Threads(2) as run:
        run.lend(lambda: begin.wait(children.LIMIT), 1)
        crew = Crew(run)
        added(one, coefs, crew)  # alone: the other thread is busy
        assert len(crew.coming) == 1
        gone = weakref.ref(crew)
        del crew
        gc.collect()
        assert gone() is None
        begin.set()
        assert list(run(abs, [-1, -2])) == [1, 2]


def test_a_symmetric_block_is_computed_by_half_of_it():
    X = np.random.default_rng(0).standard_normal((700, 3))
    matrix = kernel_matrix(X, gamma=0.5, dtype=np.float64)
    rows = np.arange(700)
    out = np.full((700, 700), np.nan)
    with Threads(2) as run:
        n_values = matrix.columns(rows).write_square(rows, out, Crew(run))
    assert n_values == 700**2 // 2
    assert_allclose(out, matrix.block(rows, rows), atol=1e-14)
