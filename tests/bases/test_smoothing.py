"""Rounded kinks: slopes and curvatures are those of the smooth losses, of every formulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from aesvm.bases.descent import best_step, ramps_of, smoothed_losses
from aesvm.formulations.objective import total_loss
from tests.formulations.test_formulations import FORMULATIONS, problem

EACH = pytest.mark.parametrize("name", FORMULATIONS)
SEEDS = st.integers(0, 10**6)
WIDTHS = st.sampled_from([0.01, 0.3, 2.0])


def made(name, seed):
    """Ramps of some rows, and where these are."""
    formulation = FORMULATIONS[name]
    _, targets, bounds = problem(formulation, seed, n=12)
    rng = np.random.default_rng(seed)
    scores = 1.5 * rng.normal(size=12)
    offsets = rng.normal(size=len(formulation.slopes(float(bounds.sum()))))
    return formulation, targets, bounds, scores, offsets


def losses_at(ramps, scores, offsets, width):
    heights = ramps.heights(scores, offsets)
    return smoothed_losses(ramps, heights, width, len(scores), len(offsets))


def difference(function, at, step=1e-6):
    """Numerical derivatives of a function of several numbers, in each of them."""
    found = []
    for number in range(len(at)):
        move = np.zeros(len(at))
        move[number] = step
        found.append((function(at + move) - function(at - move)) / (2 * step))
    return np.array(found)


@EACH
@given(seed=SEEDS, width=WIDTHS)
@settings(max_examples=15)
def test_multipliers_are_the_slopes(name, seed, width):
    formulation, targets, bounds, scores, offsets = made(name, seed)
    ramps = ramps_of(formulation, targets, bounds)
    here = losses_at(ramps, scores, offsets, width)
    by_score = difference(lambda s: losses_at(ramps, s, offsets, width).loss, scores)
    by_offset = difference(lambda b: losses_at(ramps, scores, b, width).loss, offsets)
    atol = 1e-4 * bounds.max()  # within the step of where the curvature changes
    assert_allclose(-here.coefs, by_score, atol=atol)
    assert_allclose(here.by_offset, by_offset, atol=12 * atol)


@EACH
@given(seed=SEEDS, width=WIDTHS)
@settings(max_examples=15)
def test_curvatures_are_the_slopes_of_multipliers(name, seed, width):
    formulation, targets, bounds, scores, offsets = made(name, seed)
    ramps = ramps_of(formulation, targets, bounds)
    heights = ramps.heights(scores, offsets)
    if np.abs(np.abs(heights) - width).min() < 1e-5:
        return  # there the curvature has a step
    here = losses_at(ramps, scores, offsets, width)
    second = difference(lambda s: -losses_at(ramps, s, offsets, width).coefs, scores)
    assert_allclose(second, np.diag(here.curvatures), rtol=1e-4, atol=1e-4)
    crossed = difference(lambda b: -losses_at(ramps, scores, b, width).coefs, offsets)
    assert_allclose(crossed, here.crossed, rtol=1e-4, atol=1e-4)
    corner = difference(lambda b: losses_at(ramps, scores, b, width).by_offset, offsets)
    assert_allclose(corner, np.diag(np.abs(here.crossed).sum(axis=1)), rtol=1e-4, atol=1e-3)


@EACH
@given(seed=SEEDS, width=WIDTHS)
@settings(max_examples=25)
def test_rounding_off_adds_a_quarter_of_the_width_at_most(name, seed, width):
    formulation, targets, bounds, scores, offsets = made(name, seed)
    ramps = ramps_of(formulation, targets, bounds)
    smooth = losses_at(ramps, scores, offsets, width).loss
    positions = formulation.positions(scores, targets, tuple(offsets))
    linear = float(np.array(formulation.slopes(float(bounds.sum()))) @ offsets)
    exact = total_loss(formulation, positions, bounds, tuple(offsets)) - linear
    if name != "nu_tube" or offsets.sum() >= 0:  # a tube of negative width has another loss
        assert exact - 1e-9 <= smooth <= exact + width / 4 * ramps.costs.sum() + 1e-9
    nearly = losses_at(ramps, scores, offsets, 1e-9).loss
    assert nearly <= smooth + 1e-9
    assert smooth <= nearly + width / 4 * ramps.costs.sum() + 1e-9


@EACH
@given(seed=SEEDS, width=WIDTHS)
@settings(max_examples=25)
def test_multipliers_are_within_their_bounds(name, seed, width):
    formulation, targets, bounds, scores, offsets = made(name, seed)
    coefs = losses_at(ramps_of(formulation, targets, bounds), scores, offsets, width).coefs
    assert (np.abs(coefs) <= bounds * (1 + 1e-12)).all()
    if "tube" not in name:
        assert (coefs * targets >= 0).all()


@EACH
@given(seed=SEEDS)
@settings(max_examples=10)
def test_at_the_best_offsets_multipliers_are_feasible(name, seed):
    """Where the slope of F in an offset is zero, sums of multipliers are what the dual wants."""
    formulation, targets, bounds, scores, offsets = made(name, seed)
    ramps = ramps_of(formulation, targets, bounds)
    slopes = np.array(formulation.slopes(float(bounds.sum())))
    for number in range(len(offsets)):

        def objective(b, number=number):
            moved = offsets.copy()
            moved[number] = b
            return losses_at(ramps, scores, moved, 0.5).loss + slopes @ moved

        offsets[number] = minimize_scalar(objective, bracket=(-1.0, 1.0), tol=1e-12).x
    here = losses_at(ramps, scores, offsets, 0.5)
    assert_allclose(here.by_offset + slopes, 0.0, atol=1e-4 * bounds.sum())
    moved = formulation.feasible(here.coefs, targets, bounds)
    assert_allclose(moved, here.coefs, atol=2e-4 * bounds.sum())


@given(SEEDS, WIDTHS, st.sampled_from([0.0, 0.1, 5.0]))
@settings(max_examples=60)
def test_the_best_step_is_where_the_slope_vanishes(seed, width, curvature):
    rng = np.random.default_rng(seed)
    heights, changes = rng.normal(size=(2, 30))
    costs, slope = rng.uniform(size=30), float(rng.normal() - 2.0)
    step = best_step(heights, changes, costs, width, slope, curvature)

    def slope_at(s):
        share = np.clip((heights + s * changes + width) / (2 * width), 0.0, 1.0)
        return slope + curvature * s + float(costs * changes @ share)

    begin = slope_at(0.0)
    if begin >= 0:
        assert step == 0.0
    elif curvature or (costs * np.maximum(changes, 0.0)).sum() + slope > 0.1:
        assert step > 0
        assert abs(slope_at(step)) <= 0.011 * abs(begin)
