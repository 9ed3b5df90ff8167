"""The statements of docs/formulations.md, one by one, at random points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aesvm.formulations.nu_hinge import NuHinge, OneClass
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.tube import Tube
from aesvm.kernels import KernelSpec
from aesvm.kernels.joint import TargetScale
from aesvm.machines.represent import represent
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from aesvm.sets.derive import ReductionSettings
from tests import oracles

EPSILON, NU = 0.1, 0.3
NAMES = ("svr", "nu_svr", "nu_svc", "one_class")
EACH = pytest.mark.parametrize("name", NAMES)
SEEDS = st.integers(0, 10**6)
TOLERANCES = st.sampled_from([1e-3, 1e-2, 0.1, 0.5])


def losses(name, scores, targets, offsets):
    """The loss of each row, by its formula; offsets are (b, epsilon), (b, rho), or (b,)."""
    b, *other = offsets
    if name == "svr":
        return np.maximum(0.0, np.abs(scores + b - targets) - EPSILON)
    if name == "nu_svr":
        return np.maximum(0.0, np.abs(scores + b - targets) - other[0])
    if name == "nu_svc":
        return np.maximum(0.0, other[0] - targets * (scores + b))
    return np.maximum(0.0, -(scores + b))


def linear(name, total, offsets):
    """What F has beside the norm and the losses."""
    b, *other = offsets
    return {
        "svr": 0.0,
        "nu_svr": NU * total * sum(other),
        "nu_svc": -NU * total * sum(other),
        "one_class": NU * total * b,
    }[name]


class Case:
    """Rows, who stands for whom, and the spread of the targets where these count."""

    def __init__(self, name, seed, hull_tol):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(30, 90))
        self.X = rng.uniform(-1.5, 1.5, (n, 2))
        self.costs = 10.0 ** rng.uniform(-1.0, 1.0, n)
        self.joint = name in ("svr", "nu_svr")
        if self.joint:
            self.targets = 10.0 ** rng.uniform(-2, 2) * (np.sin(2 * self.X[:, 0]) + rng.normal())
        else:
            self.targets = np.where((np.arange(n) % 2) & (name == "nu_svc"), -1.0, 1.0)
        scale = TargetScale.of(self.targets, self.costs)
        self.spread = scale.spread if self.joint else 0.0
        scaled = scale.scaled(self.targets) if self.joint else None
        kernel = TrainingKernel(KernelSpec("rbf", gamma=1.0), self.X, joint_targets=scaled)
        found = represent(
            kernel,
            (self.targets < 0).astype(int) if name == "nu_svc" else np.zeros(n, dtype=int),
            self.costs,
            ReductionSettings(hull_tol, 30, 1000, "distance", most_kept=1.0),
            Threads(None),
            Silence(),
            keep_combinations=True,
        ).derived.found
        self.chosen, self.bounds = found.selected, found.weights
        self.gamma = found.combinations.toarray()
        self.K = oracles.kernel(self.X)
        # squared distances in kernel space, and of targets
        tau = oracles.residuals(self.K, self._padded())
        delta = self.targets - self.gamma @ self.targets[self.chosen]
        apart = np.square(delta / self.spread) if self.joint else 0.0
        self.distances = np.sqrt(np.maximum(tau + apart, 0.0))
        self.hull_tol = hull_tol

    def _padded(self):
        wide = np.zeros((len(self.X), len(self.X)))
        wide[:, self.chosen] = self.gamma
        return wide

    def objectives(self, name, coefs, offsets):
        """|w|, F1, F2 and F3 at ``w = sum_i coefs_i z_i``."""
        scores = self.K @ coefs
        here, targets = scores[self.chosen], self.targets[self.chosen]
        total = self.costs.sum()
        rest = 0.5 * coefs @ scores + linear(name, total, offsets)
        F1 = rest + self.costs @ losses(name, scores, self.targets, offsets)
        F2 = rest + self.bounds @ losses(name, here, targets, offsets)
        combined = self.gamma @ here, self.gamma @ targets
        F3 = rest + self.costs @ losses(name, *combined, offsets)
        return np.sqrt(max(coefs @ scores, 0.0)), F1, F2, F3


def hyperplane(name, case, rng):
    """Any w and offsets: the theorems ask for no optimum."""
    size = 10.0 ** rng.uniform(-2, 1) * (case.spread or 1.0)
    coefs = size * rng.normal(size=len(case.X)) * (rng.uniform(size=len(case.X)) < 0.3)
    b = size * rng.normal() + (case.targets.mean() if case.joint else 0.0)
    return coefs, (b, abs(size * rng.normal())) if name.startswith("nu") else (b,)


@EACH
@given(seed=SEEDS, hull_tol=TOLERANCES)
@settings(max_examples=40)
def test_theorem_1_and_2_hold_at_any_hyperplane(name, seed, hull_tol):
    case, rng = Case(name, seed, hull_tol), np.random.default_rng(seed)
    assert case.distances.max() ** 2 <= hull_tol * (1 + 1e-6) + 1e-9
    np.testing.assert_allclose(case.bounds.sum(), case.costs.sum())
    for _ in range(5):
        coefs, offsets = hyperplane(name, case, rng)
        norm, F1, F2, F3 = case.objectives(name, coefs, offsets)
        small = 1e-9 * (abs(F1) + abs(F2) + abs(F3)) + 1e-12
        assert F2 + small >= F3
        reach = np.hypot(norm, case.spread)
        assert abs(F1 - F3) <= reach * (case.costs @ case.distances) + small
        furthest = reach * case.costs.sum() * np.sqrt(hull_tol)
        assert F2 + furthest * (1 + 1e-6) + small >= F1


FORMULATIONS = {
    "svr": lambda case: Tube(EPSILON, case.spread),
    "nu_svr": lambda case: NuTube(case.spread, nu=NU),
    "nu_svc": lambda case: NuHinge(NU),
    "one_class": lambda case: OneClass(NU),
}


def feasible_point(name, case, rng):
    """Any feasible coefficients of the representatives."""
    wild = rng.normal(size=len(case.chosen)) * case.bounds * 10.0 ** rng.uniform(-2, 1)
    formulation = FORMULATIONS[name](case)
    return formulation.feasible(wild, case.targets[case.chosen], case.bounds)


def check_feasible(name, coefs, targets, bounds):
    hair = 1e-9 * bounds.sum()
    half = 0.5 * NU * bounds.sum()
    if name in ("svr", "nu_svr"):
        assert (np.abs(coefs) <= bounds + hair).all()
        assert abs(coefs.sum()) <= hair
        if name == "nu_svr":
            assert np.abs(coefs).sum() <= 2 * half + hair
        return
    alpha = targets * coefs
    assert (alpha >= -hair).all()
    assert (alpha <= bounds + hair).all()
    sums = [alpha[targets > 0].sum(), alpha[targets < 0].sum()]
    np.testing.assert_allclose(sums, [half, half] if name == "nu_svc" else [2 * half, 0], atol=hair)


def dual(name, coefs, targets, K):
    """The dual objective of a feasible point, by its formula."""
    norm = coefs @ K @ coefs
    if name == "svr":
        return coefs @ targets - EPSILON * np.abs(coefs).sum() - 0.5 * norm
    return (coefs @ targets if name == "nu_svr" else 0.0) - 0.5 * norm


@EACH
@given(seed=SEEDS, hull_tol=TOLERANCES)
@settings(max_examples=40)
def test_multipliers_lifted_to_all_rows_are_feasible_and_bound_every_objective(
    name, seed, hull_tol
):
    case, rng = Case(name, seed, hull_tol), np.random.default_rng(seed)
    few = feasible_point(name, case, rng)
    check_feasible(name, few, case.targets[case.chosen], case.bounds)
    lifted = case.costs * (case.gamma @ (few / case.bounds))
    check_feasible(name, lifted, case.targets, case.costs)
    value = dual(name, lifted, case.targets, case.K)
    for _ in range(5):
        coefs, offsets = hyperplane(name, case, rng)
        _, F1, *_ = case.objectives(name, coefs, offsets)
        assert value <= F1 + 1e-9 * (abs(F1) + abs(value)) + 1e-12


@EACH
@given(seed=SEEDS, hull_tol=TOLERANCES)
@settings(max_examples=30)
def test_nothing_is_lost_where_all_that_stand_for_a_row_are_on_its_piece(name, seed, hull_tol):
    """Jensen's inequality is an equality there: what remains is the distance."""
    case, rng = Case(name, seed, hull_tol), np.random.default_rng(seed)
    coefs, offsets = hyperplane(name, case, rng)
    scores = case.K @ coefs
    at = FORMULATIONS[name](case)
    b, *other = offsets
    if name == "nu_svr":
        own = other[0] - b, other[0] + b
    elif name == "nu_svc":
        own = b - other[0], -b - other[0]
    else:
        own = (b,)
    pieces = at.pieces(at.positions(scores, case.targets, own), 0.0)
    members = pieces[case.chosen]
    loss = losses(name, scores, case.targets, offsets)
    paid = case.gamma @ loss[case.chosen]
    reach = np.hypot(np.sqrt(max(coefs @ scores, 0.0)), case.spread)
    for row, combination in enumerate(case.gamma):
        if pieces[row] >= 0 and (members[combination > 0] == pieces[row]).all():
            assert abs(paid[row] - loss[row]) <= reach * case.distances[row] + 1e-8 * (
                1 + paid[row]
            )


@pytest.mark.parametrize("name", ["nu_svr", "nu_svc"])
@given(seed=SEEDS)
@settings(max_examples=30)
def test_with_two_offsets_the_sides_are_apart(name, seed):
    """F in the offsets (b, width) is a sum of two functions of one number each."""
    case, rng = Case(name, seed, 1e-2), np.random.default_rng(seed)
    coefs, _ = hyperplane(name, case, rng)
    sign = 1.0 if name == "nu_svr" else -1.0

    def objective(first, second):
        b = 0.5 * (second - first) if name == "nu_svr" else 0.5 * (first - second)
        width = sign * 0.5 * (first + second)
        return case.objectives(name, coefs, (b, width))[1]

    size = np.abs(case.K @ coefs).max() + np.abs(case.targets).max()
    one, two, three, four = sign * size * rng.uniform(size=4)
    ends = objective(one, two), objective(three, four)
    mixed = sum(ends) - objective(one, four) - objective(three, two)
    assert abs(mixed) <= 1e-9 * (abs(ends[0]) + abs(ends[1]))
