"""The descent on functions that are known; and rounded kinks, their slopes and curvatures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from aesvm.bases.descent import Descent, Goal, Here, best_step, ramps_of, smoothed_losses
from aesvm.bases.factor import cholesky
from aesvm.formulations.objective import total_loss
from tests.formulations.test_formulations import FORMULATIONS, problem

WIDTHS = (0.1, 0.03, 0.01)


class Bowl:
    """``1/2 x' H x - b' x``, searched exactly; its factor knows the diagonal of H alone."""

    def __init__(self, n=20, patience=50, n_factors=3, n_narrower=0, longest=np.inf):
        rng = np.random.default_rng(0)
        lines = rng.normal(size=(2 * n, n))
        self.H, self.b = lines.T @ lines / n, rng.normal(size=n)
        self.x = np.zeros(n)
        self.patience, self.n_factors = patience, n_factors
        self.n_narrower, self.longest = n_narrower, longest
        self.lines, self.renewed = [], []
        self.factor = cholesky(np.diag(np.diag(self.H)))

    @property
    def best(self):
        return np.linalg.solve(self.H, self.b)

    def search(self, line):
        self.lines.append(line)
        moved = None
        if line.direction is not None:
            slope = line.direction @ (self.H @ self.x - self.b)
            step = min(-slope / (line.direction @ self.H @ line.direction), self.longest)
            moved = step * line.direction if step > 0 else None
            self.x = self.x if moved is None else self.x + moved
        objective = 0.5 * self.x @ self.H @ self.x - self.b @ self.x
        self.here = Here(objective, self.H @ self.x - self.b, moved)

    def renew_factor(self, worn):
        self.renewed.append(worn)

    def lacks(self):
        left = self.x - self.best
        return 0.5 * left @ self.H @ left

    def narrows(self):
        self.n_narrower -= 1
        return self.n_narrower >= 0


def follow(bowl, goal, last=None, widths=WIDTHS):
    descent = Descent(bowl, widths, goal, goal if last is None else last)
    for line in descent:
        bowl.search(line)
    return descent


def n_steps(bowl):
    return sum(line.direction is not None for line in bowl.lines)


def test_it_ends_at_the_minimum():
    bowl = Bowl()
    descent = follow(bowl, Goal(1e-14))
    assert descent.solved
    assert descent.gain <= 1e-14
    assert_allclose(bowl.x, bowl.best, rtol=1e-5)
    assert n_steps(bowl) < 30


def test_every_width_is_asked_for_and_then_narrower_ones_while_they_matter():
    bowl = Bowl(n_narrower=2)
    follow(bowl, Goal(1e-6))
    here = [line for line in bowl.lines if line.direction is None]
    assert_allclose([line.width for line in here], [0.1, 0.03, 0.01, 0.003, 0.0009])
    # what will follow is known beforehand
    assert [line.narrower for line in here[:-1]] == [line.width for line in here[1:]]
    assert all(line.width in {one.width for one in here} for line in bowl.lines)


def test_widths_end_at_the_narrowest():
    bowl = Bowl(n_narrower=10**6)
    follow(bowl, Goal(1e-6))
    assert 3e-5 < bowl.lines[-1].width <= 1e-4


def test_a_factor_that_has_served_is_renewed_until_there_are_too_many():
    bowl = Bowl(patience=2, n_factors=3, longest=1e-3)
    descent = follow(bowl, Goal(1e-9), widths=(0.1,))
    assert bowl.renewed == [False, True, True]
    assert n_steps(bowl) == 6
    assert not descent.solved


@pytest.mark.parametrize("n_slow", [1, 3])
def test_a_width_is_given_up_after_slow_steps(n_slow):
    bowl = Bowl(longest=1e-6)
    bowl.x = 0.5 * bowl.best
    descent = follow(bowl, Goal(1e-2, n_slow=n_slow), widths=(0.1,))
    assert n_steps(bowl) == n_slow
    assert not descent.solved


def test_steps_that_are_made_in_any_case():
    bowl = Bowl()
    bowl.x = bowl.best + 1e-6
    follow(bowl, Goal(1.0))
    assert n_steps(bowl) == 0
    follow(bowl, Goal(1.0, n_least=1))
    assert n_steps(bowl) == len(WIDTHS)


def test_a_small_gain_is_not_enough_where_the_duality_gap_lacks_more():
    """A factor that is far too large makes any step look small."""
    loose, strict = Bowl(), Bowl()
    for bowl in (loose, strict):
        bowl.factor = cholesky(1e8 * np.eye(len(bowl.x)))
    follow(loose, Goal(1e-3), widths=(0.1,))
    follow(strict, Goal(1e-3, lacking=1e-6), widths=(0.1,))
    assert strict.lacks() <= 1e-6 * abs(strict.here.objective) < loose.lacks()


EACH = pytest.mark.parametrize("name", FORMULATIONS)
SEEDS = st.integers(0, 10**6)
HALF_WIDTHS = st.sampled_from([0.01, 0.3, 2.0])


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
@given(seed=SEEDS, width=HALF_WIDTHS)
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
@given(seed=SEEDS, width=HALF_WIDTHS)
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
@given(seed=SEEDS, width=HALF_WIDTHS)
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
@given(seed=SEEDS, width=HALF_WIDTHS)
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


@given(SEEDS, HALF_WIDTHS, st.sampled_from([0.0, 0.1, 5.0]))
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
