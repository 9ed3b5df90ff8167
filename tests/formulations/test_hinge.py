from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from aesvm.formulations.hinge import Hinge
from aesvm.formulations.objective import best_offsets, dual_value, n_support, worst_optimum

HINGE = Hinge()


def best_offset(scores, signs, bounds):
    return best_offsets(HINGE, scores, signs, bounds)[0]


def hinge_losses(margins, bounds):
    return bounds @ HINGE.losses(margins)


def agreeing(margins, signs, bounds):
    """Multipliers, from signed coefficients."""
    return HINGE.alpha(signs, HINGE.agreeing(margins, signs, bounds), bounds)


def count_violators(margins, alpha, bounds, tol):
    return HINGE.violates(margins, alpha, bounds, tol).sum()


def feasible(alpha, signs, bounds):
    return signs * HINGE.feasible(signs * alpha, signs, bounds)


def random_problem(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    signs = rng.choice([-1.0, 1.0], n)
    signs[:2] = 1.0, -1.0
    # whole numbers make ties and flat stretches
    scores = rng.integers(-3, 4, n) / 2 if seed % 2 else rng.normal(size=n)
    bounds = rng.integers(1, 3, n).astype(float) if seed % 3 else 10.0 ** rng.uniform(-4, 4, n)
    return scores, signs, bounds


@given(st.integers(0, 10**6))
def test_no_other_offset_has_less_loss(seed):
    scores, signs, bounds = random_problem(seed)
    # the linear program in b and the losses
    n = len(scores)
    lp = linprog(
        np.r_[0.0, bounds],
        A_ub=np.c_[-signs, -np.eye(n)],
        b_ub=signs * scores - 1.0,
        bounds=[(None, None)] + [(0, None)] * n,
    )
    b = best_offset(scores, signs, bounds)
    assert_allclose(hinge_losses(signs * (scores + b), bounds), lp.fun, rtol=1e-7, atol=1e-9)


def test_the_middle_is_taken_where_all_are_as_good():
    scores, signs = np.array([-2.0, 3.0, -2.5, 4.0]), np.array([-1.0, 1.0, -1.0, 1.0])
    assert best_offset(scores, signs, np.full(4, 0.1)) == pytest.approx(-0.5)


@given(st.integers(0, 10**6))
def test_multipliers_agree_with_margins_and_are_feasible(seed):
    scores, signs, bounds = random_problem(seed)
    margins = signs * (scores + best_offset(scores, signs, bounds))
    alpha = agreeing(margins, signs, bounds)
    assert (alpha >= 0).all()
    assert (alpha <= bounds).all()
    assert_allclose(signs @ alpha, 0.0, atol=1e-9)
    # with the best offset, only rows with a margin of 1 have to give way
    assert count_violators(margins, alpha, bounds, 1e-9) == 0


@given(st.integers(0, 10**6), st.floats(-3, 3))
def test_multipliers_are_feasible_for_any_margins(seed, b):
    scores, signs, bounds = random_problem(seed)
    alpha = agreeing(signs * (scores + b), signs, bounds)
    assert (alpha >= 0).all()
    assert (alpha <= bounds).all()
    assert_allclose(signs @ alpha, 0.0, atol=1e-9)


def test_violators_are_those_that_could_move():
    margins = np.array([0.5, 0.5, 1.5, 1.5, 1.0])
    alpha = np.array([1.0, 0.9, 0.0, 0.1, 0.5])
    assert count_violators(margins, alpha, np.ones(5), 1e-3) == 2
    assert count_violators(margins, alpha, np.ones(5), 0.6) == 0


@given(st.integers(0, 10**6))
def test_what_rounding_moved_is_moved_back(seed):
    scores, signs, bounds = random_problem(seed)
    rng = np.random.default_rng(seed)
    alpha = agreeing(signs * scores, signs, bounds)
    moved = feasible(alpha * (1 + 1e-6 * rng.normal(size=len(alpha))), signs, bounds)
    assert (moved >= 0).all()
    assert (moved <= bounds).all()
    assert_allclose(signs @ moved, 0.0, atol=1e-14 * bounds.sum())
    assert_allclose(moved, alpha, rtol=1e-4, atol=1e-5 * bounds.sum())


def test_bounds_of_very_different_size():
    scores, signs = np.array([0.3, 0.1, -0.2, 5.0]), np.array([1.0, -1.0, 1.0, -1.0])
    bounds = np.array([1.0, 2.0, 1.5, 1e14])
    # the fourth row has to have a margin of 1; the others do what they can
    assert best_offset(scores, signs, bounds) == pytest.approx(-6.0)
    assert best_offset(scores[:3], signs[:3], bounds[:3]) == pytest.approx(0.7)


@given(st.integers(0, 10**6), st.floats(-4, 4))
def test_ramps_are_the_losses_as_functions_of_the_offset(seed, b):
    scores, signs, bounds = random_problem(seed)
    ramps = HINGE.ramps(scores, signs, bounds)
    beyond = np.where(ramps.rising, b - ramps.kinks, ramps.kinks - b)
    losses = HINGE.losses(HINGE.positions(scores, signs, (b,)))
    assert_allclose(ramps.costs * np.maximum(0.0, beyond), bounds * losses, atol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2, 1.0]))
def test_the_loss_is_linear_on_each_piece_and_zero_on_the_flat_one(seed, doubt):
    margins = 3.0 * np.random.default_rng(seed).normal(size=30)
    pieces = HINGE.pieces(margins, doubt)
    assert_allclose(HINGE.losses(margins[pieces == 0]), 1.0 - margins[pieces == 0])
    assert not HINGE.losses(margins[pieces == 1]).any()
    assert (np.abs(margins[pieces < 0] - 1.0) <= doubt).all()
    assert n_support(HINGE, margins) == np.count_nonzero(margins <= 1.0)


@given(st.integers(0, 10**6))
def test_the_dual_is_nowhere_above_the_primal(seed):
    scores, signs, bounds = random_problem(seed)
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(len(scores), 3))
    coefs = HINGE.feasible(signs * bounds * rng.uniform(size=len(bounds)), signs, bounds)
    w = Z.T @ coefs
    dual = dual_value(HINGE, coefs, signs, float(w @ w))
    for v in (w, rng.normal(size=3), np.zeros(3)):
        b = best_offset(Z @ v, signs, bounds)
        primal = 0.5 * v @ v + hinge_losses(signs * (Z @ v + b), bounds)
        assert dual <= primal * (1 + 1e-9) + 1e-9
    assert dual <= worst_optimum(HINGE, signs, bounds) * (1 + 1e-9)


def test_one_class_leaves_nothing_to_learn():
    assert HINGE.constant(np.array([1.0, 1.0])) == (1.0,)
    assert HINGE.constant(np.array([-1.0])) == (-1.0,)
    assert HINGE.constant(np.empty(0)) == (0.0,)
    assert HINGE.constant(np.array([1.0, -1.0])) is None
