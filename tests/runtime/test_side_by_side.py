"""Long work, several pieces at a time."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads, side_by_side
from tests import children


def numbers(n):
    return ((number,) for number in range(n))


@pytest.mark.parametrize("first_alone", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_are_in_order_and_the_caller_is_told_of_each(n_jobs, first_alone):
    gate, told = threading.Barrier(n_jobs, timeout=children.LIMIT), []

    def double(number, progress):
        if 3 <= number < 3 + n_jobs:  # none of these ends without the others
            gate.wait()
        return 2 * number

    def done(number):
        told.append((number, threading.current_thread()))

    with Threads(n_jobs) as run:
        found = side_by_side(run, double, numbers(20), Silence(), done, first_alone=first_alone)
    assert found == list(range(0, 40, 2))
    assert sorted(number for number, _ in told) == list(range(20))
    assert {thread for _, thread in told} == {threading.current_thread()}


def test_items_are_made_when_a_thread_is_free():
    made, ended = [], []

    def items():
        for number in range(10):
            made.append(number)
            yield (number,)

    def work(number, progress):
        assert len(made) <= len(ended) + 2
        ended.append(number)

    with Threads(2) as run:
        side_by_side(run, work, items(), Silence(), lambda number: None)
    assert sorted(ended) == list(range(10))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_ends_what_is_done_beside_it(error):
    begun, ended = threading.Semaphore(0), []

    def work(number, progress):
        if number == 1:
            begun.acquire(timeout=children.LIMIT)
            raise error("of the second")
        begun.release()
        while number > 1 and not progress.is_over():
            pass
        ended.append(number)

    with Threads(3) as run, pytest.raises(error, match="of the second"):
        side_by_side(run, work, numbers(1000), Silence(), lambda number: None)
    assert len(ended) < 5


def test_each_thread_works_in_a_context_of_its_own():
    inside, gate = threading.local(), threading.Barrier(2, timeout=children.LIMIT)

    @contextmanager
    def around():
        inside.depth = getattr(inside, "depth", 0) + 1
        yield
        inside.depth -= 1

    def depth(number, progress):
        if number < 2:
            gate.wait()
        return inside.depth

    with Threads(2) as run:
        found = side_by_side(run, depth, numbers(9), Silence(), lambda number: None, around)
    assert found == [1] * 9
