"""A process that is forked while other threads work can itself fit and predict."""

from __future__ import annotations

import os

import pytest

from tests import children

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

BEGIN = """
import os, signal, threading, time
import numba
import numpy as np
import threadpoolctl
from aesvm import AESVC
from aesvm.kernels import KernelSpec
from aesvm.runtime.threads import one_blas_thread

def outcome_of(work, limit=60.0):
    "What becomes of a forked process that does some work."
    child = os.fork()
    if not child:
        ended = 1
        try:
            ended = 0 if work() is not False else 2
        finally:
            os._exit(ended)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it hangs"

def in_a_loop(work):
    def loop():
        while True:
            work()
    threading.Thread(target=loop, daemon=True).start()
"""

FITS = """
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = X[:, 0] > 0
many = rng.normal(size=(100_000, 10))
far = np.arange(0, 100_000, 1000)

def fit():
    AESVC(gamma=0.5, n_jobs=2).fit(X, y).predict(X)

def limit():
    with one_blas_thread():
        pass

fit()
in_a_loop(fit)
in_a_loop(limit)
in_a_loop(lambda: KernelSpec("rbf", gamma=0.1).matrix(many).columns(far))
for _ in range(12):
    time.sleep(0.01 * rng.random())
    if (found := outcome_of(fit)) != 0:
        break
print(found)
"""


def test_a_process_forked_during_fits_and_predictions_fits_and_predicts():
    assert children.run(children.code(BEGIN + FITS)).split() == ["0"]


COMPILING = """
def compile_one():
    assert numba.njit(lambda x: 2.0 * x)(1.0) == 2.0

compile_one()
in_a_loop(compile_one)
for _ in range(5):
    if (found := outcome_of(compile_one)) != 0:
        break
print(found)
"""


def test_a_process_forked_while_a_thread_compiles_can_compile():
    assert children.run(children.code(BEGIN + COMPILING)).split() == ["0"]


BLAS = """
def counts():
    found = threadpoolctl.threadpool_info()
    return {one["num_threads"] for one in found if one["user_api"] == "blas"}

entered, forked = threading.Event(), threading.Event()

def elsewhere():
    with one_blas_thread():
        entered.set()
        forked.wait()

before = counts()
thread = threading.Thread(target=elsewhere)
thread.start()
entered.wait()
print(outcome_of(lambda: counts() == before))

context = one_blas_thread()
context.__enter__()

def leave():
    inside = counts()
    context.__exit__()
    return (inside, counts()) == ({1}, before)

print(outcome_of(leave))
context.__exit__()
print(int(counts() != {1}))
forked.set()
thread.join()
print(int(counts() != before))
"""


def test_a_forked_process_keeps_no_limit_of_blas_but_its_own():
    two = dict.fromkeys(children.BLAS_THREADS, "2")
    assert children.run(children.code(BEGIN + BLAS), env=two).split() == ["0"] * 4
