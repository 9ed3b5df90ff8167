"""Newton steps in free variables on a device."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm.gpu import dual
from aesvm.gpu.dual import FreeVariables
from aesvm.kernels import KernelSpec
from aesvm.solver import smo
from tests.gpu import plain
from tests.gpu.stand_in import device_kernel
from tests.gpu.strict import StrictDevice, There


def problem(n=30, n_groups=2, seed=0):
    """Kernel values, slopes, and which variables are of each group."""
    random = np.random.default_rng(seed)
    factor = random.normal(size=(n, 2 * n))
    group = np.arange(n) % n_groups
    return (
        factor @ factor.T / n,
        random.normal(size=n),
        [1.0 * (group == g) for g in range(n_groups)],
    )


def free(K, slopes, low, high, groups, unit=1e-16):
    return FreeVariables(np, plain.solve_definite, K, slopes, low, high, groups, unit)


@pytest.mark.parametrize("n_groups", [1, 2])
def test_without_bounds_it_is_the_minimum(n_groups):
    K, slopes, groups = problem(n_groups=n_groups)
    n, A = len(slopes), np.stack(groups)
    system = np.block([[K, A.T], [A, np.zeros((n_groups, n_groups))]])
    wanted = np.linalg.solve(system, np.append(-slopes, np.zeros(n_groups)))[:n]
    far = np.full(n, 1e3)
    change, fall = free(K, slopes, -far, far, groups).best_change()
    assert_allclose(change, wanted, atol=1e-9)
    assert fall == pytest.approx(-0.5 * slopes @ wanted)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("room", [1e-3, 0.1, 1.0])
def test_within_bounds_the_objective_falls_and_sums_are_held(room, seed):
    K, slopes, groups = problem(seed=seed)
    low, high = np.random.default_rng(seed).uniform(0.0, room, (2, len(slopes))) * [[-1], [1]]
    change, fall = free(K, slopes, low, high, groups).best_change()
    assert fall > 0.0
    assert 0.5 * change @ K @ change + slopes @ change == pytest.approx(-fall)
    assert (low <= change).all()
    assert (change <= high).all()
    assert_allclose([group @ change for group in groups], 0.0, atol=1e-12)


def test_a_matrix_that_is_singular_but_for_rounding():
    K, slopes, groups = problem()
    K = (np.outer(slopes, slopes) + 1.0).astype(np.float32).astype(float)
    far = np.ones(len(slopes))
    change, _ = free(K, slopes, -far, far, groups, 6e-8).best_change()
    assert 0.5 * change @ K @ change + slopes @ change < 0.0


def test_there_is_none_where_the_matrix_is_not_semidefinite():
    K, slopes, groups = problem()
    far = np.ones(len(slopes))
    assert free(-K, slopes, -far, far, groups).best_change() == (None, 0.0)


def test_arrays_are_the_device_s():
    K, slopes, groups = problem()
    room = np.full(len(slopes), 0.1)
    given = K, slopes, -room, room
    device = StrictDevice("cuda:0")
    there = [There(group) for group in groups]
    found, _ = FreeVariables(
        device.xp, device.operations.solve_definite, *map(There, given), there, 1e-16
    ).best_change()
    assert_allclose(found.get(), free(*given, groups).best_change()[0])


@pytest.mark.parametrize("n_groups", [1, 2])
def test_duals_with_a_large_cost_are_those_of_the_host(stand_in, monkeypatch, n_groups):
    """Newton steps are made as often as they can be."""
    monkeypatch.setattr(dual, "_UPDATES", 0)
    monkeypatch.setattr(dual, "_PATIENCE", 1e-3)
    n, made = 300, []
    leap = dual.DeviceDual._leap
    monkeypatch.setattr(dual.DeviceDual, "_leap", lambda own: made.append(leap(own)) or made[-1])
    X = np.random.default_rng(0).normal(size=(n, 3))
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0, 1.0, -1.0)
    signs[::11] *= -1
    host = KernelSpec("rbf", 0.1).matrix(X, dtype=np.float64)
    parameters = {"tol": 1e-4}
    if n_groups == 2:
        parameters |= {"groups": (signs > 0).astype(int), "start": np.full(n, 30.0)}
    given = np.arange(n), signs, -np.ones(n), np.full(n, 100.0)
    found = dual.minimize(device_kernel(host, stand_in), *given, **parameters)
    wanted = smo.minimize(host, *given, **parameters)
    assert any(made)
    assert found.converged
    assert found.objective == pytest.approx(wanted.objective, rel=1e-7)
    assert_allclose(
        found.scores, host.block(np.arange(n), np.arange(n)) @ (signs * found.alpha), atol=1e-6
    )
