"""The kernel matrix of a fit: one for all who ask, in the precision that each use needs."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np
import pytest

from aesvm.kernels import KERNELS, KernelSpec
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.threads import Threads
from tests.kernels.test_kernels import PARAMETERS


@pytest.fixture(name="X", scope="module")
def rows():
    values = np.random.default_rng(0).normal(size=(40, 6))
    values[np.abs(values) < 0.5] = 0.0
    return values


@pytest.mark.parametrize("name", KERNELS)
def test_single_precision_is_used_where_it_will_do(X, name, monkeypatch):
    monkeypatch.setattr("aesvm.machines.training_kernel._FEW", 39)
    spec = KernelSpec(name, **PARAMETERS)

    def kernel(coefs, tol):
        return TrainingKernel(spec, X, tol).for_sums(rows, coefs)

    rows, coefs = np.arange(40), np.full(40, 2.0)
    assert kernel(1e-2 * coefs, 1e-3).dtype == np.float32
    assert kernel(coefs, 1e-9).dtype == np.float64
    assert kernel(1e6 * coefs, 1e-2).dtype == np.float64
    exact = spec.matrix(X).square(rows)
    tol = 1e-4
    # the error is foreseen from some rows, and may be several times that in others
    assert np.abs((kernel(coefs, tol).square(rows) - exact) @ coefs).max() <= 10 * tol


def test_few_rows_get_double_precision(X):
    kernel = TrainingKernel(KernelSpec(), X.astype(np.float32))
    assert kernel.for_sums(np.arange(40), np.full(40, 1e-9)).dtype == np.float64


def test_a_kernel_matrix_has_one_owner(X):
    kernel = TrainingKernel(KernelSpec("rbf", gamma=0.7), X)
    rows = np.arange(40)
    assert kernel.for_sums(rows, np.ones(40)) is kernel.for_sums(rows[:9], np.ones(9))
    one, other = (kernel.for_residuals(own, 1e-3).kernel for own in (rows, rows[:9]))
    assert one is other


def test_threads_that_ask_for_the_same_matrix_are_given_one(X, monkeypatch):
    make, both = KernelSpec.matrix, threading.Barrier(2)

    def made(spec, *given, **others):
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # as long as another thread may take to come here as well
        return make(spec, *given, **others)

    monkeypatch.setattr(KernelSpec, "matrix", made)
    kernel = TrainingKernel(KernelSpec("rbf", 0.7), X)
    with Threads(2) as run:
        one, other = run(lambda _: kernel.matrix(np.float64, 1e-5), range(2))
    assert one is other
