"""Threads that share out strips, one job after another."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.kernels import crew as crews
from aesvm.kernels import tiles
from aesvm.kernels.crew import DONE, HELPERS, LEAD, LIMIT, SKIP, TAKEN, Crew, KeptRows
from aesvm.kernels.functions import EXPONENTIAL
from aesvm.runtime.threads import Threads
from tests import children


@pytest.fixture(autouse=True)
def threads_for_little_work(monkeypatch):
    monkeypatch.setattr(tiles, "_LEAST_PRODUCTS", 1.0)


def job(seed):
    """An addition, and its coefficients."""
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
def test_jobs_are_done_one_after_another(n_jobs):
    with Threads(n_jobs) as run:
        crew = Crew(run)
        for seed in range(60):
            one, coefs = job(seed)
            found = added(one, coefs, crew)
            assert_allclose(found, coefs @ np.exp(one.lines @ one.right.T), rtol=1e-9, atol=1e-9)
            assert_array_equal(found, added(one, coefs, Crew(map)))


def test_many_may_lead_at_the_same_time():
    jobs = [job(seed) for seed in range(40)]
    alone = [added(*one, Crew(map)) for one in jobs]
    with Threads(4) as run:

        def some(first):
            crew = Crew(run)
            return [added(*one, crew) for one in jobs[first:]]

        for first, found in enumerate(run(some, range(8))):
            for one, other in zip(found, alone[first:], strict=True):
                assert_array_equal(one, other)


@pytest.mark.parametrize("after", range(3))
def test_after_an_interrupt_nothing_is_left_and_the_next_job_is_right(after, monkeypatch):
    work, is_interrupted = tiles._add_strips, False

    def interrupted(numbers, own, mode, *others):
        if not is_interrupted or mode == SKIP:
            work(numbers, own, mode, *others)
        elif mode == LEAD:
            raise KeyboardInterrupt

    monkeypatch.setattr(tiles, "_add_strips", interrupted)
    with Threads(3) as run:
        crew = Crew(run)
        one, coefs = job(1)
        for _ in range(after):
            added(one, coefs, crew)
        is_interrupted = True
        with pytest.raises(KeyboardInterrupt):
            added(one, coefs, crew)
        is_interrupted = False
        assert crew.numbers[DONE] == crew.numbers[TAKEN] == crew.numbers[LIMIT]
        assert_array_equal(added(one, coefs, crew), added(one, coefs, Crew(map)))


def test_who_waits_for_strips_leaves_for_other_work(monkeypatch):
    monkeypatch.setattr(crews, "_LOOKS", 10**9)  # for good, but for such work
    one, coefs = job(1)
    barrier = threading.Barrier(2, timeout=children.LIMIT)
    with Threads(2) as run:
        crew = Crew(run)
        end = time.monotonic() + children.LIMIT
        while not crew.numbers[HELPERS] and time.monotonic() < end:
            added(one, coefs, crew)
        assert sorted(run(lambda _: barrier.wait(), range(2))) == [0, 1]


def test_nobody_comes_to_a_crew_that_is_gone():
    one, coefs = job(1)
    begin = threading.Event()
    with Threads(2) as run:
        run.offer(lambda: begin.wait(children.LIMIT), 1)
        crew = Crew(run)
        added(one, coefs, crew)  # alone: the other thread is busy
        assert len(crew.coming) == 1
        gone = weakref.ref(crew)
        del crew
        gc.collect()
        assert gone() is None
        begin.set()
        assert list(run(abs, [-1, -2])) == [1, 2]


def test_one_half_of_a_symmetric_block_mirrors_the_other():
    n, rng = 700, np.random.default_rng(0)
    X = np.ascontiguousarray(rng.standard_normal((n, 3)))
    out, nothing = np.full((n, n), np.nan), np.empty((0, n))
    kept = KeptRows.none(out.dtype)._replace(rows=out, free=np.arange(n))
    with Threads(2) as run:
        add = tiles.Addition(
            -np.abs(X), np.abs(X), EXPONENTIAL
        )  # not symmetric, but its halves are
        add(nothing, nothing, kept, Crew(run), 32, symmetric=True)
    exact = np.exp(add.lines @ add.right.T)
    strips = np.arange(n) // 32
    below = strips[:, None] > strips
    assert_array_equal(out.T[below], out[below])
    assert_allclose(out[below], exact[below], rtol=1e-12)
    same = strips[:, None] == strips
    assert_allclose(out[same], exact[same], rtol=1e-12)


def test_a_crew_does_one_kind_of_work():
    one, coefs = job(1)
    single = one._replace(lines=one.lines.astype(np.float32), right=one.right.astype(np.float32))
    crew = Crew(map)
    added(one, coefs, crew)
    with pytest.raises(ValueError, match="one kind of work"):
        added(single, coefs, crew)


def test_what_compiled_code_would_misread_is_refused():
    one, coefs = job(1)
    mixed = one._replace(right=one.right.astype(np.float32))
    strided = one._replace(lines=np.repeat(one.lines, 2, axis=1)[:, ::2])
    with pytest.raises(ValueError, match="one precision"):
        added(mixed, coefs, Crew(map))
    with pytest.raises(ValueError, match="contiguous"):
        added(strided, coefs, Crew(map))
    with pytest.raises(ValueError, match="at most"):
        one(coefs, np.zeros((2, len(one.right))), KeptRows.none(one.right.dtype), Crew(map), 10**6)
