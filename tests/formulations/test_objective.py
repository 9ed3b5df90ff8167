"""Many machines are segments of arrays: each has what it has alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from aesvm.formulations.objective import (
    Objective,
    Segments,
    best_offsets,
    only,
)
from tests.formulations.test_formulations import EACH, FORMULATIONS, SEEDS, problem


def machines(formulation, seed):
    """Targets, bounds and scores of some machines; whole numbers make ties and flat stretches."""
    rng = np.random.default_rng(seed)
    for _ in range(int(rng.integers(2, 6))):
        n = int(rng.integers(2, 30))
        _, targets, bounds = problem(formulation, int(rng.integers(10**6)), n)
        bounds = bounds if rng.random() < 0.5 else np.ceil(bounds)
        scores = rng.normal(size=len(targets))
        yield targets, bounds, scores if rng.random() < 0.5 else np.round(2.0 * scores) / 2.0


def together(formulation, each):
    targets, bounds, scores = (np.concatenate(parts) for parts in zip(*each, strict=True))
    segments = Segments.of(np.array([len(one[0]) for one in each]))
    return Objective(formulation, targets, bounds, segments), scores


@EACH
@given(seed=SEEDS)
@settings(max_examples=40)
def test_offsets_of_many_machines_are_those_of_each(name, seed):
    formulation = FORMULATIONS[name]
    each = list(machines(formulation, seed))
    objective, scores = together(formulation, each)
    alone = [best_offsets(formulation, s, t, b) for t, b, s in each]
    assert_allclose(np.transpose(objective.best_offsets(scores)), alone, atol=1e-12)
    norms, violations = np.full(len(each), 1e4), np.full(len(each), 0.3)
    alone = [only(Objective(formulation, t, b).unbiased_offsets(s, 1e4, 0.3)) for t, b, s in each]
    found = objective.unbiased_offsets(scores, norms, violations)
    assert_allclose(np.transpose(found), alone, atol=1e-12)


@EACH
@given(seed=SEEDS)
@settings(max_examples=10)
def test_losses_and_multiples_of_many_machines_are_those_of_each(name, seed):
    formulation = FORMULATIONS[name]
    each = list(machines(formulation, seed))
    objective, scores = together(formulation, each)
    norms = np.random.default_rng(seed).uniform(0.1, 10.0, len(each))
    norms[0] = -1.0  # of a kernel that is not positive semidefinite
    multiples = objective.best_multiples_of_w(scores, norms)
    assert multiples[0] == 1.0
    scaled = objective.segments.spread(multiples) * scores
    losses = objective.loss(scaled, objective.best_offsets(scaled))
    for (targets, bounds, own), norm, t, loss in zip(each, norms, multiples, losses, strict=True):
        one = Objective(formulation, targets, bounds)

        def value(t, one=one, own=own, norm=norm):
            return 0.5 * t * t * norm + one.loss(t * own, one.best_offsets(t * own))[0]

        assert value(t) == pytest.approx(0.5 * t * t * norm + loss, rel=1e-12, abs=1e-12)
        (alone,) = one.best_multiples_of_w(own, float(norm))
        assert value(t) <= value(alone) + 1e-5 * abs(value(alone))


@EACH
@given(seed=SEEDS)
@settings(max_examples=10)
def test_some_rows_tell_the_multiples_of_machines_of_many(name, seed):
    formulation = FORMULATIONS[name]
    rng, each = np.random.default_rng(seed), []
    for n in (2, 1000, 1500):
        _, targets, bounds = problem(formulation, int(rng.integers(10**6)), n)
        order = np.argsort(targets)  # class by class, as in pairs
        noisy = targets + rng.normal(size=len(targets))
        each.append((targets[order], bounds[order], 3.0 * noisy[order]))
    objective, scores = together(formulation, each)
    multiples = objective.best_multiples_of_w(scores, np.full(3, 50.0))

    def values(t):
        scaled = objective.segments.spread(t) * scores
        return 25.0 * t * t + objective.loss(scaled, objective.best_offsets(scaled))

    found, usual = values(multiples), values(np.ones(3))
    assert (found <= usual).all()
    for number, (targets, bounds, own) in enumerate(each):
        (best,) = Objective(formulation, targets, bounds).best_multiples_of_w(own, 50.0)
        lowest = values(np.full(3, best))[number]
        gain = usual[number] - lowest
        assert found[number] - lowest <= 0.25 * gain + 0.05 * abs(lowest)


@given(seed=SEEDS)
def test_the_lowest_point_is_nowhere_improved_of_any_ramps(seed):
    rng = np.random.default_rng(seed)
    formulation = FORMULATIONS["hinge"]
    n = int(rng.integers(1, 30))
    targets = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    bounds = rng.integers(0, 3, n) * 1.0 if seed % 3 else 10.0 ** rng.uniform(-7, 7, n)
    scores = rng.integers(-3, 4, n) * 0.5 if seed % 2 else rng.normal(size=n)
    objective = Objective(formulation, targets, bounds)
    offsets = objective.best_offsets(scores)
    least = objective.loss(scores, offsets)[0]
    for kink in targets - scores:
        assert least <= objective.loss(scores, (np.array([kink]),))[0] * (1 + 1e-9) + 1e-300
    assert only(offsets) == best_offsets(formulation, scores, targets, bounds)
