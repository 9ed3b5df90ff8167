"""Every formulation: its dual solved, held against SciPy and against its own mathematics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import NuHinge, OneClass
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.objective import best_offsets, dual_value, total_loss, worst_optimum
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver import smo

SPEC = KernelSpec("rbf", gamma=1.0)
FORMULATIONS = {
    "hinge": Hinge(),
    "tube": Tube(0.1, 1.0),
    "no tube": Tube(0.0, 1.0),
    "nu_hinge": NuHinge(0.4),
    "nu_tube": NuTube(1.0, nu=0.5),
    "one_class": OneClass(0.2),
}
EACH = pytest.mark.parametrize("name", FORMULATIONS)
SEEDS = st.integers(0, 10**6)


def problem(formulation, seed, n=40):
    """Rows, targets and bounds that leave something to learn, and that nu allows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if not formulation.predicts_sign:
        targets = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    elif isinstance(formulation, OneClass):
        targets = np.ones(n)
    else:
        targets = np.where(np.arange(n) % 2, 1.0, -1.0)
    return X, targets, rng.uniform(0.5, 1.5, n) * rng.choice([0.3, 3.0])


def solved(formulation, X, targets, bounds, tol=1e-8):
    kernel = TrainingKernel(SPEC, X, tol)
    variables = formulation.variables(targets, bounds)
    rows = np.arange(len(X))[variables.rows]
    solution = smo.minimize(
        kernel.for_sums(rows, variables.bounds),
        rows,
        variables.signs,
        variables.linear,
        variables.bounds,
        groups=variables.constraints,
        start=variables.start,
        tol=tol,
    )
    coefs = formulation.coefs(targets, solution.alpha)
    K = SPEC.matrix(X).square(np.arange(len(X)))
    scores = K @ coefs
    offsets = best_offsets(formulation, scores, targets, bounds)
    return K, coefs, scores, offsets


def objective(formulation, squared_norm, scores, targets, bounds, offsets):
    positions = formulation.positions(scores, targets, offsets)
    return 0.5 * squared_norm + total_loss(formulation, positions, bounds, offsets)


@EACH
@given(seed=SEEDS)
@settings(max_examples=15)
def test_the_solution_has_no_duality_gap_and_no_violators(name, seed):
    formulation = FORMULATIONS[name]
    X, targets, bounds = problem(formulation, seed)
    _, coefs, scores, offsets = solved(formulation, X, targets, bounds)
    norm = float(coefs @ scores)
    primal = objective(formulation, norm, scores, targets, bounds, offsets)
    dual = dual_value(formulation, coefs, targets, norm)
    assert primal == pytest.approx(dual, rel=1e-5, abs=1e-5)
    assert primal <= worst_optimum(formulation, targets, bounds) + 1e-6
    positions = formulation.positions(scores, targets, offsets)
    assert not formulation.violates(positions, coefs, bounds, 1e-4).any()
    worst = worst_optimum(formulation, targets, bounds)
    largest = formulation.squared_norm_bound(bounds.sum(), worst)
    assert largest is None or norm <= largest * (1 + 1e-6)


@EACH
@given(seed=SEEDS)
@settings(max_examples=10)
def test_no_other_point_has_a_lower_objective(name, seed):
    """SciPy minimises over the offsets; w goes towards random others."""
    formulation = FORMULATIONS[name]
    X, targets, bounds = problem(formulation, seed, n=20)
    K, coefs, scores, offsets = solved(formulation, X, targets, bounds)
    least = objective(formulation, coefs @ scores, scores, targets, bounds, offsets)
    rng = np.random.default_rng(seed)
    for share in (1e-3, 0.03, 1.0):
        other = (1 - share) * coefs + share * rng.normal(size=20) * bounds
        found = minimize(
            lambda at, other=other: objective(
                formulation, other @ K @ other, K @ other, targets, bounds, tuple(at)
            ),
            np.array(offsets),
            method="Nelder-Mead",
        )
        assert found.fun >= least - 1e-6 * max(1.0, abs(least))


@EACH
@given(seed=SEEDS, scale=st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=20)
def test_the_best_offsets_are_nowhere_improved(name, seed, scale):
    formulation = FORMULATIONS[name]
    _, targets, bounds = problem(formulation, seed)
    rng = np.random.default_rng(seed)
    scores = scale * rng.normal(size=len(targets))
    offsets = best_offsets(formulation, scores, targets, bounds)
    least = objective(formulation, 0.0, scores, targets, bounds, offsets)
    for _ in range(30):
        step = rng.normal(size=len(offsets)) * rng.choice([1e-3, 0.1, 1.0]) * scale
        others = tuple((np.array(offsets) + step).tolist())
        if name == "nu_tube" and sum(others) < 0:
            continue  # no tube is narrower than nothing
        assert objective(formulation, 0.0, scores, targets, bounds, others) >= least - 1e-9 * abs(
            least
        )


@EACH
@given(seed=SEEDS, shift=st.sampled_from([0.0, 0.3]))
@settings(max_examples=10)
def test_predictions_that_stay_have_not_changed_whatever_the_offsets(name, seed, shift):
    """Another threshold, and the same decision: neither a wider tube nor margin is a change."""
    formulation = FORMULATIONS[name]
    if name == "nu_tube":
        formulation = NuTube(
            5.0, nu=0.5
        )  # wider than any tube here: within its spread, none is lost
    _, targets, bounds = problem(formulation, seed)
    scores = np.random.default_rng(seed).normal(size=len(targets))
    then = best_offsets(formulation, scores, targets, bounds)
    now = tuple(one + shift for one in then) if len(then) > 1 else then
    if name == "nu_hinge":
        now = tuple(one - shift for one in then)  # a larger margin
    before, after = (formulation.positions(scores, targets, at) for at in (then, now))
    assert not formulation.changed(before, after, then, now).any()


def is_feasible(formulation, coefs, targets, bounds):
    alpha = formulation.alpha(targets, coefs, bounds)
    variables = formulation.variables(targets, bounds)
    assert (alpha >= 0).all()
    assert (alpha <= variables.bounds * (1 + 1e-12)).all()
    start = np.zeros(len(alpha)) if variables.start is None else variables.start
    groups = np.zeros(len(alpha), int) if variables.constraints is None else variables.constraints
    for group in np.unique(groups):
        own = groups == group
        sums = [float(variables.signs[own] @ values[own]) for values in (alpha, start)]
        np.testing.assert_allclose(*sums, atol=1e-9 * bounds.sum())
    np.testing.assert_allclose(formulation.coefs(targets, alpha), coefs, atol=1e-12)


@EACH
@given(seed=SEEDS, scale=st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=20)
def test_coefficients_are_made_feasible_and_agree_with_positions(name, seed, scale):
    formulation = FORMULATIONS[name]
    _, targets, bounds = problem(formulation, seed)
    rng = np.random.default_rng(seed)
    wild = rng.normal(size=len(targets)) * bounds
    is_feasible(formulation, formulation.feasible(wild, targets, bounds), targets, bounds)
    offsets = best_offsets(formulation, scale * wild, targets, bounds)
    positions = formulation.positions(scale * wild, targets, offsets)
    coefs = formulation.agreeing(positions, targets, bounds)
    is_feasible(formulation, coefs, targets, bounds)
    # only rows whose position is the same as another's may be off, or the one that makes up the sum
    assert formulation.violates(positions, coefs, bounds, 1e-9).sum() <= 3


@EACH
@given(seed=SEEDS)
@settings(max_examples=20)
def test_losses_are_ramps_in_the_offsets_and_flat_where_said(name, seed):
    formulation = FORMULATIONS[name]
    _, targets, bounds = problem(formulation, seed)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=len(targets))
    offsets = best_offsets(formulation, scores, targets, bounds)
    positions = formulation.positions(scores, targets, offsets)
    losses = formulation.losses(positions)
    ramps = formulation.ramps(scores, targets, bounds)
    at = np.array(offsets)[ramps.which]
    sign = np.where(ramps.rising, 1.0, -1.0)
    total = float(ramps.costs @ np.maximum(0.0, sign * (at - ramps.kinks)))
    assert total == pytest.approx(float(bounds @ losses), rel=1e-9, abs=1e-9)
    flat = np.array([*formulation.flat_pieces, False])[formulation.pieces(positions, 0.0)]
    np.testing.assert_allclose(losses[flat], 0.0, atol=1e-12)
    assert (losses[~flat & (formulation.pieces(positions, 0.0) >= 0)] > 0).all()
