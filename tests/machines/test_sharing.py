"""What fits to the same rows share leaves their solutions as they are."""

from __future__ import annotations

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from aesvm import AESVC
from aesvm.estimators.trained import fit_rows
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec, kernel_matrix
from aesvm.machines.sharing import SharedWork, Starts, scaled
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver.smo import minimize


def problem(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return kernel_matrix(X, gamma=1.0), y


def solved(kernel, variables, rows, **options):
    return minimize(
        kernel,
        rows,
        variables.signs,
        variables.linear,
        variables.bounds,
        groups=variables.constraints,
        tol=1e-7,
        **options,
    )


def dual(variables, alpha, scores):
    return float(0.5 * (variables.signs * alpha) @ scores + variables.linear @ alpha)


@given(
    seed=st.integers(0, 1000),
    before=st.floats(0.01, 50.0),
    after=st.floats(0.01, 50.0),
    kind=st.sampled_from(["hinge", "tube"]),
)
def test_a_scaled_solution_is_feasible_and_keeps_bounds_or_is_no_worse_than_nothing(
    seed, before, after, kind
):
    kernel, y = problem(seed)
    formulation, targets = (Hinge(), y) if kind == "hinge" else (Tube(0.1, 1.0), y * 0.7)
    first = formulation.variables(targets, np.full(len(y), before))
    rows = np.tile(np.arange(len(y)), len(first.signs) // len(y))
    last = solved(kernel, first, rows)
    variables = formulation.variables(targets, np.full(len(y), after))
    start = scaled(last, first.bounds, variables)
    assert (start.alpha >= 0).all()
    assert (start.alpha <= variables.bounds).all()
    assert abs(variables.signs @ start.alpha) <= 1e-9 * max(1.0, start.alpha.sum())
    values = kernel.square(np.arange(len(y))).astype(float)[np.ix_(rows, rows)]
    scores = values @ (variables.signs * start.alpha)
    assert_allclose(start.known.scores, scores, atol=1e-5 * max(1.0, start.alpha.max()))
    held, bounded = last.alpha > 0, last.alpha >= first.bounds
    stay = start.alpha[bounded] == variables.bounds[bounded]
    are_most = 2 * np.count_nonzero(bounded) > np.count_nonzero(held)
    assert stay.all() or (not are_most and dual(variables, start.alpha, scores) <= 1e-9)
    warm = solved(kernel, variables, rows, start=start.alpha, known=start.known)
    cold = solved(kernel, variables, rows)
    assert warm.converged
    assert_allclose(warm.objective, cold.objective, rtol=1e-5, atol=1e-8)


def test_a_start_is_for_the_same_variables_alone():
    kernel, y = problem(0)
    rows = np.arange(len(y))
    variables = Hinge().variables(y, np.ones(len(y)))
    starts = Starts()
    assert starts.find(0, kernel, rows, variables) is None
    prepared = starts.prepared(0, kernel, rows, variables)
    assert not starts.has(0)
    starts.keep(0, kernel, rows, variables, solved(kernel, variables, rows))
    assert starts.has(0)
    found = starts.find(0, kernel, rows, variables)
    assert found is not None
    assert found.known is not None
    assert starts.prepared(0, kernel, rows, variables) is prepared
    assert starts.prepared(0, kernel, rows[::-1], variables) is not prepared
    assert starts.find(1, kernel, rows, variables) is None
    assert starts.find(0, kernel, rows[::-1], variables) is None
    assert starts.find(0, kernel, rows, Hinge().variables(-y, np.ones(len(y)))) is None
    single = kernel_matrix(kernel.X, gamma=1.0, dtype=np.float32)
    assert starts.find(0, single, rows, variables).known is not None
    assert starts.prepared(0, single, rows, variables) is not prepared
    starts.keep(0, single, rows, variables, solved(single, variables, rows))
    again = starts.find(0, kernel, rows, variables)
    assert again is not None
    assert again.known is None, "scores in single precision are of these very values alone"


def test_a_sum_is_unknown_where_one_amount_was_not_counted():
    shared = SharedWork()
    for amount in (2.0, 3.0):
        shared.count("kernel_values", amount)
    assert shared.spent["kernel_values"] == 5.0
    for amount in (None, 1.0):
        shared.count("kernel_values", amount)
        assert shared.spent["kernel_values"] is None


def test_the_kernel_is_kept_until_another_one_is_asked_for():
    shared = SharedWork(in_search=True)
    made = []

    def kernel(name):
        return lambda: made.append(name) or name

    for name in ("a", "a", "b", "a"):
        assert shared.kernel(name, kernel(name)) == name
    assert made == ["a", "b", "a"]
    shared.of_kernel("set", lambda: 1)
    shared.kernel("b", kernel("b"))
    assert shared.of_kernel("set", lambda: 2) == 2


@pytest.mark.parametrize("options", [{}, {"refine": 0, "subset_size": 50}])
def test_models_of_fits_that_share_are_the_same_to_tol(options):
    estimator = AESVC(gamma=1.0, **options)
    X, y = make_moons(400, noise=0.3, random_state=0)
    shared = SharedWork(in_search=True)
    for C in (0.1, 1.0, 10.0, 100.0):
        alone = estimator.set_params(C=C, tol=1e-6).fit(X, y).decision_function(X)
        together = fit_rows(estimator, X, y, shared=shared).decision_function(X)
        assert_allclose(together, alone, atol=1e-4)
    assert shared.spent["rows_solved"] > 0


def test_a_fit_of_few_iterations_neither_has_a_start_nor_is_one():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    model, shared = AESVC(gamma=5.0), SharedWork(in_search=True)
    whole = model.fit(X, y).predict(X)
    with pytest.warns(ConvergenceWarning):
        cut = model.set_params(max_iter=1).fit(X, y).predict(X)
    assert not np.array_equal(cut, whole)
    for max_iter, expected in ((-1, whole), (1, cut), (-1, whole)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit_rows(model.set_params(max_iter=max_iter), X, y, shared=shared)
        assert_array_equal(model.predict(X), expected)


def test_solves_that_begin_in_single_precision_end_as_precisely():
    X, y = make_moons(2500, noise=0.1, random_state=0)
    model, shared = AESVC(gamma=1.0), SharedWork(in_search=True)
    kernel = TrainingKernel(KernelSpec("rbf", gamma=1.0), X, model.tol)
    rows, bounds = np.arange(len(y)), np.full(len(y), 1e3)
    assert kernel.for_sums(rows, bounds).dtype == np.float64
    assert kernel.for_sums(rows, bounds, 100.0).dtype == np.float32
    for C in (100.0, 1e3):
        alone = model.set_params(C=C).fit(X, y).predict(X)
        together = fit_rows(model, X, y, shared=shared)
        assert together.fit_status_ == 0
        assert together.certify(X, y).relative_gap <= 1e-3
        assert np.mean(together.predict(X) == alone) >= 0.999
