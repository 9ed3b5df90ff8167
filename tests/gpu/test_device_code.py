"""What the code for GPUs computes: built for this processor, with fibers for its threads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm.gpu import cuda, plain
from aesvm.gpu.matrix import DeviceKernel
from aesvm.gpu.smo import _Active, _Everything, minimize
from aesvm.gpu.steps import Variables, Work
from aesvm.kernels import KernelSpec
from aesvm.solver import smo
from aesvm.solver.state import DualState, Known, Prepared

pytestmark = pytest.mark.slow


def rows(n, width=11, seed=0):
    return np.random.default_rng(seed).normal(size=(n, width)) / np.sqrt(width)


SPECS = [
    KernelSpec("rbf", 0.7),
    KernelSpec("linear"),
    KernelSpec("poly", 0.3, 3, 1.0),
    KernelSpec("sigmoid", 0.3, 3, 0.1),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kernel)
def test_sums_and_blocks_are_those_of_the_host(emulated, spec, dtype):
    X, new = rows(150), rows(70, seed=1)
    host = spec.matrix(X, dtype=dtype)
    device = DeviceKernel(host, emulated)
    edges = np.array([0, 140, 150])
    every = np.arange(150)
    tol = 1e-4 if dtype == np.float32 else 1e-12
    for n_outputs in (1, 3):
        coefs = np.random.default_rng(2).normal(size=(150, n_outputs))
        found = device.columns(every).expand(new, edges, coefs, lambda sums: sums)
        wanted = host.columns(every).expand(new, edges, coefs, lambda sums: sums)
        assert_allclose(found, wanted, rtol=tol, atol=tol)
    some = np.arange(3, 140)
    assert_allclose(device.square(some), host.square(some), rtol=tol, atol=tol)


def test_distances_of_far_rows_do_not_cancel(emulated):
    X = 1e6 * rows(80, 3)
    host = KernelSpec("rbf", 1e-9).matrix(X, dtype=np.float64, accuracy=1e-14)
    device = DeviceKernel(host, emulated)
    every = np.arange(80)
    columns = device.columns(every)
    assert columns.vectors.form.differences
    coefs = np.ones((80, 1))
    edges = np.array([0, 80])
    found = columns.expand(X, edges, coefs, lambda sums: sums)
    assert_allclose(found, host.columns(every).expand(X, edges, coefs, lambda sums: sums))


@pytest.mark.parametrize("groups", [1, 2, "the second alone"])
def test_duals_are_those_of_the_host(emulated, groups):
    n = 60
    X = rows(n, 4)
    signs = np.where(X[:, 0] * X[:, 1] + 0.05 * rows(n, 1, 3)[:, 0] > 0, 1.0, -1.0)
    host = KernelSpec("rbf", 3.0).matrix(X, dtype=np.float64)
    device = DeviceKernel(host, emulated)
    parameters = {"tol": 1e-3}
    if groups == 2:
        parameters |= {"groups": (signs > 0).astype(int), "start": np.full(n, 0.3)}
    elif groups != 1:
        parameters |= {"groups": np.ones(n, dtype=int)}
    problem = np.arange(n), signs, -np.ones(n), np.ones(n)
    found = minimize(device, *problem, **parameters)
    wanted = smo.minimize(host, *problem, **parameters)
    assert found.converged
    assert found.objective == pytest.approx(wanted.objective, rel=1e-4)


@pytest.mark.parametrize("operations", [cuda, plain], ids=["device", "plain"])
def test_the_worst_violators_are_chosen_even_where_one_may_rise_and_fall(emulated, operations):
    """The others rest at their lower bounds: of its chunk it is the best to rise, and to fall."""
    n = 320
    scores, coefs = np.full(n, 5.0), np.zeros(n)
    scores[[7, 100]], coefs[[7, 100]] = [1.0, 0.0], 0.5
    every, groups = np.arange(n, dtype=np.int32), np.zeros(n, dtype=np.int8)
    bounds = np.zeros(n), np.ones(n)
    variables = Variables(scores, every, every, coefs, np.zeros(n), *bounds, groups)
    work = Work.of(n, 64, np.dtype(np.float64), np)
    operations.choose(work, variables, [slice(0, n)], 0, 1)
    assert set(work.chosen[: work.n_chosen[0]]) == {7, 100}


def test_violators_are_taken_up_again_where_those_in_play_can_only_rise(stand_in):
    """Slopes are 5 in play, at the lower bound; and 0 and 1 of two that were left out."""
    host = KernelSpec("linear").matrix(np.eye(6))
    device = DeviceKernel(host, stand_in)
    start, slopes = np.array([0.5, 0.5, 0, 0, 0, 0]), np.array([0.0, 1.0, 5.0, 5.0, 5.0, 5.0])
    prepared = Prepared.of(device, np.arange(6), None)
    known = Known(slopes, 1.0)
    ones = np.ones(6)
    state = DualState(device, prepared, ones, np.zeros(6), ones, start, known, map)
    everything = _Everything(state, stand_in)
    active = _Active(everything)
    out = prepared.order < 2
    active.enter(np.flatnonzero(~out))
    active.left_out = [(np.flatnonzero(out), everything.by_point())]
    assert active.rejoin(1e-3)
    assert set(prepared.order[active.variables]) >= {0, 1}
    assert not active.rejoin(1e-3)
