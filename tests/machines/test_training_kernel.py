"""The kernel matrix of a fit: one for all who ask, in the precision that each use needs."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm.formulations.hinge import Hinge
from aesvm.kernels import KERNELS, KernelSpec
from aesvm.machines.training_kernel import Precision, TrainingKernel
from aesvm.runtime.threads import Threads
from aesvm.solver import smo
from tests import oracles
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


def solved_in_single(X, labels, bound):
    """A solve in single precision, which is to be made finer; and its sums in double precision."""
    kernel = TrainingKernel(KernelSpec("rbf", gamma=0.5), X, 1e-3)
    rows = np.arange(len(X))
    variables = Hinge().variables(labels, np.full(len(X), bound))
    precision = Precision(kernel, rows, variables, 1e-3, map)
    precision.values = precision.values_of_scores = kernel.matrix(np.float32, 1e-4)
    solution = smo.minimize(
        precision.values, rows, variables.signs, variables.linear, variables.bounds, tol=1e-3
    )
    exact = oracles.kernel(X, gamma=0.5) @ (variables.signs * solution.alpha)
    return precision, solution, exact


@pytest.fixture(name="solved")
def solved_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    return solved_in_single(X, np.where(X[:, 0] + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0), 4.0)


def test_scores_near_the_edge_become_finer_and_the_others_stay(solved):
    precision, solution, exact = solved
    found = precision.go_finer(solution, rounding=0.05).scores
    assert precision.is_double
    is_free = (solution.alpha > 0) & (solution.alpha < precision.variables.bounds)
    stay = found == solution.scores
    assert_allclose(found[~stay], exact[~stay], rtol=1e-12)
    assert not (stay & is_free).any()
    assert 50 < np.count_nonzero(stay) < 290
    n_support = np.count_nonzero(solution.alpha)
    assert 0 < precision.n_values < n_support * len(exact) / 2
    assert precision.rounding(solution._replace(scores=found)) == 0.0
    assert precision.values_of_scores.dtype == np.float32


def test_a_variable_that_comes_near_gets_a_finer_score_as_well(solved):
    precision, solution, exact = solved
    error = 0.05
    found = precision.go_finer(solution, rounding=error).scores
    stay = np.flatnonzero(found == solution.scores)
    # the offset moves to where one of them is
    slopes = found + precision.variables.signs * precision.variables.linear
    moved = solution._replace(scores=found, offsets=slopes[stay[:1]])
    assert precision.rounding(moved) == error
    again = precision.go_finer(moved, error).scores
    assert_allclose(again[stay[0]], exact[stay[0]], rtol=1e-12)
    assert precision.rounding(moved._replace(scores=again)) == 0.0


def test_where_the_errors_are_large_all_scores_become_finer(solved):
    precision, solution, exact = solved
    found = precision.go_finer(solution, rounding=1e9).scores
    assert_allclose(found, exact, rtol=1e-12)
    assert precision.values_of_scores is precision.values


def test_where_a_solve_in_double_precision_falls_short_all_scores_become_finer(solved):
    precision, solution, exact = solved
    found = precision.go_finer(solution, rounding=0.05).scores
    assert precision.finest == 0.05  # no aim below what scores are precise to
    assert not precision.is_finest
    short = solution._replace(scores=found, converged=False)
    assert_allclose(precision.go_finer(short, 0.0).scores, exact, rtol=1e-12)
    assert precision.finest == 0.0
    assert precision.is_finest
    assert precision.values_of_scores is precision.values
