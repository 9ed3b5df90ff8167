"""A map on threads, and long tasks side by side."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import threadpoolctl

from aesvm.runtime import threads
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads, one_blas_thread, side_by_side
from tests import children


def square(x):
    return x * x


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_results_come_in_order(n, n_jobs):
    with Threads(n_jobs) as run:
        assert list(run(square, range(n))) == [x * x for x in range(n)]
        assert list(run(square, iter(range(n)))) == [x * x for x in range(n)]


def test_items_are_done_at_the_same_time():
    barrier = threading.Barrier(3, timeout=children.LIMIT)
    with Threads(3) as run:
        assert sorted(run(lambda _: barrier.wait(), range(3))) == [0, 1, 2]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_exception_is_raised_where_its_result_is_waited_for(n_jobs):
    def fails(x):
        if x == 5:
            raise KeyError("five")
        return x

    with Threads(n_jobs) as run:
        with pytest.raises(KeyError, match="five"):
            list(run(fails, range(1000)))
        assert list(run(square, range(4))) == [0, 1, 4, 9]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_nobody_waits_for_is_not_begun(n_jobs):
    begun, closed = [], threading.Event()

    def slow(x):
        begun.append(x)
        if x:
            closed.wait(children.LIMIT)

    with Threads(n_jobs) as run:
        results = run(slow, range(1000))
        next(results)
        results.close()
        closed.set()
        list(run(slow, range(10)))  # after whatever is left of the first
    assert len(begun) <= n_jobs + 1 + 10


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_a_function_that_is_mapped_may_map(n_jobs):
    with Threads(n_jobs) as run:

        def inner(x):
            calls = []
            run.together(lambda: calls.append(1), 3)
            assert calls
            return sum(run(square, range(x)))

        expected = [sum(map(square, range(x))) for x in range(20)]
        assert list(run(inner, range(20))) == expected


def test_threads_end_with_the_context():
    before = set(threading.enumerate())
    with Threads(4) as run:
        list(run(square, range(10)))
        ours = set(threading.enumerate()) - before
        assert len(ours) == 3  # and this one
    for thread in ours:
        thread.join(children.LIMIT)
        assert not thread.is_alive()


def test_no_thread_is_started_for_one_item():
    before = set(threading.enumerate())
    with Threads(4) as run:
        assert list(run(lambda _: threading.current_thread(), [0])) == [threading.current_thread()]
    assert set(threading.enumerate()) <= before  # those of other tests may end meanwhile


@pytest.mark.parametrize("n_calls", [0, 1, 3, 9])
def test_a_function_is_called_together(n_calls):
    barrier = threading.Barrier(max(1, min(n_calls, 3)), timeout=children.LIMIT)
    callers = []

    def wait():
        barrier.wait()
        callers.append(threading.current_thread())

    with Threads(3) as run:
        run.together(wait, n_calls)
    assert len(set(callers)) == len(callers) == max(1, min(n_calls, 3))
    assert threading.current_thread() in callers


def test_an_exception_of_any_call_is_raised():
    barrier = threading.Barrier(2, timeout=children.LIMIT)

    def fails():
        barrier.wait()
        if threading.current_thread() is not threading.main_thread():
            raise KeyError("elsewhere")

    with Threads(2) as run, pytest.raises(KeyError, match="elsewhere"):
        run.together(fails, 2)


LEFT_AT_WORK = """
import threading, time
from aesvm.runtime.threads import Threads
begun = threading.Event()
def work():
    if threading.current_thread() is threading.main_thread():
        begun.wait()
        raise KeyboardInterrupt
    begun.set()
    time.sleep(0.3)
    print("ended", flush=True)
try:
    with Threads(2) as run:
        run.together(work, 2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_the_end_of_the_process_waits_for_what_an_interrupt_has_left():
    child = [sys.executable, "-c", LEFT_AT_WORK]
    found = subprocess.run(
        child, capture_output=True, text=True, timeout=children.LIMIT, check=True
    )
    assert found.stdout.split() == ["interrupted", "ended"]


def blas_threads():
    found = threadpoolctl.threadpool_info()
    return [one["num_threads"] for one in found if one["user_api"] == "blas"]


@pytest.mark.parametrize("interrupted", ["set", "lift"])
@pytest.mark.parametrize("after", [0, 1])
def test_an_interrupt_leaves_blas_as_it_was(interrupted, after, monkeypatch):
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert set(before) == {2}
        assert threads._limit.inside == {}
        whole, calls = threads._Limit._set, []

        def interrupted_once(limit, counts):
            calls.append(counts)
            if len(calls) == (1 if interrupted == "set" else 2):
                if after:
                    whole(limit, counts)
                raise KeyboardInterrupt
            whole(limit, counts)

        monkeypatch.setattr(threads._Limit, "_set", interrupted_once)
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            pass
        gc.collect()
        assert blas_threads() == before
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before
        assert threads._limit.inside == {}


def test_an_interrupt_while_threads_start_leaves_none(monkeypatch):
    before, start = set(threading.enumerate()), threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), Threads(3) as run:
        list(run(square, range(9)))
    for thread in set(threading.enumerate()) - before:
        thread.join(children.LIMIT)
        assert not thread.is_alive()


def test_threads_work_in_the_context_that_is_asked_for():
    inside, meet = threading.local(), threading.Barrier(2, timeout=children.LIMIT)

    @contextmanager
    def around():
        inside.value = "inside"
        yield

    def tell(number):
        meet.wait()  # one is this thread, which has no context of theirs
        return getattr(inside, "value", "outside")

    with Threads(2, around) as run:
        assert sorted(run(tell, range(2))) == ["inside", "outside"]


@pytest.mark.parametrize("kind", [Threads, one_blas_thread])
def test_what_an_interrupt_left_before_it_was_made_goes_silently(kind):
    made = kind.__new__(kind)  # the interrupt fell into __init__
    made.__del__()


def test_the_end_of_the_process_does_not_wait_for_a_thread_that_was_not_started(monkeypatch):
    left = threading.Thread(target=square, args=(1,))
    monkeypatch.setattr(threads, "_ALIVE", {left})
    threads._wait_for_threads()


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
