"""Machines in the span of few vectors whose rows are on a device, held against the host's.

NumPy stands in for the device's arrays, in two ways: as it is, and as arrays that refuse to be
taken for those of the host.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.bases import factor, pursuit, solve_in_memory, span_training
from aesvm.bases.descent import best_step, ramps_of, smoothed_losses
from aesvm.bases.factor import (
    Curvature,
    gram,
    half_solved,
    hessian_factor,
    kernel_factor,
    product,
    solve,
    to_host,
)
from aesvm.bases.pursuit import Functions, Pursuit
from aesvm.bases.solve_in_memory import BasisValues
from aesvm.bases.span_training import SpanTraining
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import NuHinge, OneClass
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.objective import best_offsets, dual_value, total_loss
from aesvm.formulations.tube import Tube
from aesvm.gpu import devices, linear_algebra
from aesvm.kernels import KernelSpec
from aesvm.machines.plan import Span
from aesvm.machines.problem import TrainingRows
from aesvm.machines.trainer import SolverOptions, Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Silence
from aesvm.sets.derive import PreparedRows
from tests import oracles
from tests.gpu.stand_in import NumpyDevice, device_kernel
from tests.gpu.strict import StrictDevice, give_linear_algebra
from tests.plans import set_table

FORMULATIONS = {
    "hinge": Hinge(),
    "tube": Tube(0.1, 1.0),
    "one class": OneClass(0.2),
    "nu hinge": NuHinge(0.3),
    "nu tube": NuTube(1.0, nu=0.4),
}
EACH = pytest.mark.parametrize("name", FORMULATIONS)
BOTH = pytest.mark.parametrize("kind", ["numpy", "strict"])


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Several tiles, pieces, rounds of enriching, and pilots of some of the rows."""
    monkeypatch.setattr(solve_in_memory, "_ROWS_THERE", 64)
    monkeypatch.setattr(factor, "_COPIED_THERE", 999)
    monkeypatch.setattr(solve_in_memory, "_COPIED_THERE", 1999)
    monkeypatch.setattr(pursuit, "_PIECE_THERE", 50)
    set_table(monkeypatch, pilot_rows=150, pilot_least=60)
    monkeypatch.setattr(span_training, "_FIRST_ROWS", 100)
    monkeypatch.setattr(span_training, "_FIRST_ROWS_PER_VECTOR", 1)
    monkeypatch.setattr(span_training, "_MOST_ADDED", 20)
    monkeypatch.setattr(devices, "cuda_device", lambda number: list(DEVICES.values())[number])
    give_linear_algebra(monkeypatch)


#: That of a GPU, which tests replace.
SUM_ROWS = linear_algebra.sum_rows

#: Devices by number, as ``device="cuda:0"`` and so on have them.
DEVICES = {"numpy": NumpyDevice(), "strict": StrictDevice("cuda:1")}


def device_of(kind):
    return DEVICES[kind]


def rows_of(name, n=500, seed=0):
    """Rows, and targets as the formulation has them."""
    X, y = make_moons(n, noise=0.3, random_state=seed)
    if "tube" in name:
        return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * np.cos(40 * X[:, 1])
    return X, np.ones(n) if name == "one class" else np.where(y == 0, 1.0, -1.0)


def matrices(X, device, dtype=np.float64, gamma=1.0):
    """The kernel matrix of rows on the host, and on a device."""
    host = KernelSpec("rbf", gamma).matrix(X, dtype=dtype)
    return host, device_kernel(host, device)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("most_bytes", [0, 5000, 1e9])
def test_sums_are_those_of_the_whole_matrix(kind, dtype, most_bytes):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    device = device_of(kind)
    _, matrix = matrices(X, device, dtype)
    rows, basis = rng.permutation(300)[:250], rng.permutation(300)[:30]
    found = BasisValues(matrix, rows, most_bytes)
    found.add(basis[:20])
    found.add(basis[20:])
    K = oracles.kernel(X[rows], X[basis], gamma=1.0)
    atol = 1e-4 if dtype == np.float32 else 1e-11
    for n_rows in (100, 250):
        found.n_rows = n_rows
        coefs = rng.normal(size=30)
        assert_allclose(to_host(found.products(device.array(coefs))), K[:n_rows] @ coefs, atol=atol)
        for share in (0.0, 0.1, 1.0):
            weights = rng.normal(size=n_rows) * (rng.uniform(size=n_rows) < share)
            sums = to_host(found.sums(device.array(weights)))
            assert_allclose(sums, weights @ K[:n_rows], atol=atol)
        at = np.flatnonzero(rng.uniform(size=n_rows) < 0.4)
        lines = found.lines(at)
        assert lines.dtype == dtype
        assert_allclose(to_host(lines), K[at], atol=atol)
    assert sum(block.nbytes for block in found.held.values()) <= most_bytes
    assert bool(found.held) == (most_bytes > 0)


def test_linear_algebra_is_that_of_the_host():
    rng = np.random.default_rng(1)
    lines, weights = rng.normal(size=(70, 40)), rng.uniform(size=70)
    crossed = rng.normal(size=(2, 70))
    there = device_of("strict").array
    matrix = gram(lines, weights)
    assert_allclose(gram(there(lines), there(weights)).get(), matrix, rtol=1e-10, atol=1e-12)
    vector = rng.normal(size=40)
    assert_allclose(product(there(matrix), there(vector)).get(), matrix @ vector, rtol=1e-10)
    factor, factor_there = kernel_factor(matrix), kernel_factor(there(matrix))
    assert_allclose(factor_there.lower.get(), factor, rtol=1e-7, atol=1e-10)
    assert_allclose(
        solve(factor_there, there(vector)).get(), solve(factor, vector), rtol=1e-6, atol=1e-9
    )
    several = rng.normal(size=(40, 3))
    assert_allclose(
        half_solved(factor_there, there(several)).get(),
        half_solved(factor, several.copy()),
        rtol=1e-6,
        atol=1e-9,
    )
    curved = Curvature.of_rows(there(lines), there(weights), there(crossed))
    on_host = Curvature.of_rows(lines, weights, crossed)
    for one, other in zip(curved, on_host, strict=True):
        assert_allclose(one.get(), other, rtol=1e-9, atol=1e-12)
    hessian = hessian_factor(there(matrix), curved, 5.0)
    assert_allclose(hessian.lower.get(), hessian_factor(matrix, on_host, 5.0), rtol=1e-6, atol=1e-9)


def test_a_matrix_without_a_factor_gets_a_larger_diagonal():
    """Rank one: its diagonal must be raised, however often that takes."""
    ones = np.ones((5, 5))
    factor = kernel_factor(device_of("strict").array(ones))
    assert_allclose(factor.lower.get() @ factor.lower.get().T, ones, atol=1e-6)


@EACH
def test_losses_are_those_of_the_host(name):
    formulation = FORMULATIONS[name]
    rng = np.random.default_rng(2)
    _, targets = rows_of(name, 200)
    bounds, scores = rng.uniform(0.5, 2.0, 200), rng.normal(size=200)
    change = rng.normal(size=200)
    there = device_of("strict").array
    given = there(scores), there(targets), there(bounds)
    offsets = best_offsets(formulation, scores, targets, bounds)
    assert best_offsets(formulation, *given) == pytest.approx(offsets)
    positions = formulation.positions(scores, targets, offsets)
    positions_there = formulation.positions(*given[:2], offsets)
    assert total_loss(formulation, positions_there, given[2], offsets) == pytest.approx(
        total_loss(formulation, positions, bounds, offsets)
    )
    coefs = formulation.feasible(0.4 * scores, targets, bounds)
    feasible = formulation.feasible(0.4 * given[0], *given[1:])
    assert_allclose(feasible.get(), coefs, atol=1e-12)
    assert dual_value(formulation, feasible, given[1], 3.0) == pytest.approx(
        dual_value(formulation, coefs, targets, 3.0)
    )
    ramps, ramps_there = ramps_of(formulation, targets, bounds), ramps_of(formulation, *given[1:])
    own, own_there = np.array(offsets), there(np.array(offsets))
    heights, heights_there = (
        ramps.heights(scores, own),
        ramps_there.heights(given[0], own_there),
    )
    assert_allclose(heights_there.get(), heights, atol=1e-12)
    losses = smoothed_losses(ramps, heights, 0.2, 200, len(own))
    losses_there = smoothed_losses(ramps_there, heights_there, 0.2, 200, len(own))
    assert losses_there.loss == pytest.approx(losses.loss)
    for one, other in zip(losses_there[1:], losses[1:], strict=True):
        assert_allclose(one.get(), other, atol=1e-11)
    changes = ramps.changes(change, own)
    changes_there = ramps_there.changes(there(change), own_there)
    slope = -2.0 * float(bounds @ np.abs(change))
    steps = [
        best_step(heights, changes, ramps.costs, 0.2, slope, 3.0),
        best_step(heights_there, changes_there, ramps_there.costs, 0.2, slope, 3.0),
    ]
    assert steps[0] > 0
    assert steps[1] == pytest.approx(steps[0])


@BOTH
def test_a_pursuit_takes_as_much_off_the_functions(kind):
    """In blocks, of two functions that use different candidates, begun with a basis."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 3))
    candidates = np.sort(rng.permutation(400)[:300])
    weights = rng.normal(size=(400, 2))
    groups = rng.integers(0, 3, 300)
    shares = np.array([[True, True, False], [True, False, True]])
    host, matrix = matrices(X, device_of(kind))
    taken = []
    for kernel in (host, matrix):
        K = host.block(candidates, np.arange(400))
        found = Pursuit(kernel, candidates, Functions(K @ weights, groups, shares))
        chosen = found.choose(150)
        assert len(np.unique(chosen)) == len(chosen)
        begun = Pursuit(kernel, candidates, Functions(K @ weights, groups, shares))
        bases = [rows[:20] for rows in found.bases]
        factors = [
            kernel_factor(kernel.square_there(rows).astype(np.float64, copy=False))
            for rows in bases
        ]
        begun.begin_with(bases, factors)
        assert not np.isin(begun.choose(30), np.concatenate(bases)).any()
        taken.append([found.taken, begun.taken])
    assert_allclose(taken[1], taken[0], rtol=0.02)


class PilotsOnHost(Trainer):
    """Pilots are solved for on the host: what is tested here is what follows."""

    def __init__(self, kernel, *args):
        super().__init__(*args)
        self.kernel = kernel

    def train(self, number, kernel, own, progress):
        return super().train(number, self.kernel, own, progress)


def trained(data, formulation, device, max_vectors=120, bytes_held=None):
    """Machines in the span of few vectors, as an estimator trains them."""
    host = TrainingKernel(KernelSpec("rbf", 1.0), data.X)
    kernel = host
    if device is not None:
        kernel = TrainingKernel(KernelSpec("rbf", 1.0, device=device.name), data.X)
    every = np.arange(data.X.shape[0])
    members = [every[data.groups == group] for group in np.unique(data.groups)]
    prepared = PreparedRows(every, every, data.weights, members)
    options = SolverOptions(1e-3, -1, 50_000_000, True)
    trainer = PilotsOnHost(host, formulation, options, data.n_machines, map, Silence())
    span = Span("max_vectors", max_vectors, 1e-6, bytes_held)
    return SpanTraining(data, kernel, prepared, trainer).train(span)


def values_of(machine, X, formulation):
    """Scores and decision values of rows, in double precision."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
    assert type(machine.coefs) is np.ndarray
    scores = oracles.kernel(X, X[machine.set.rows], gamma=1.0) @ machine.coefs
    decision = formulation.decision(machine.offsets)
    return scores, scores / decision.scale + decision.intercept


def check_same(data, formulation, device, **options):
    """One machine, trained on the host and on a device: as good, and the same labels."""
    found = []
    for place in (None, device):
        (one,) = trained(data, formulation, place, **options)
        machine, offsets = one.machine, one.machine.offsets
        scores, decisions = values_of(machine, data.X, formulation)
        bounds = data.selections[0].cost * data.weights
        positions = formulation.positions(scores, data.given, offsets)
        loss = total_loss(formulation, positions, bounds, offsets)
        norm = float(machine.coefs @ scores[machine.set.rows])
        found.append((0.5 * norm + loss, decisions))
        assert one.record.loss == pytest.approx(loss, rel=1e-4)
        assert one.record.estimated_dual <= found[-1][0] + 1e-9 * abs(found[-1][0])
        assert type(one.multipliers[1]) is np.ndarray
    (objective, decisions), (there, decisions_there) = found
    assert there == pytest.approx(objective, rel=1e-4)
    sure = np.abs(decisions) > 1e-3
    assert (np.sign(decisions) == np.sign(decisions_there))[sure].all()


def target_rows(name, X, targets):
    return TrainingRows.of_targets(X, targets, np.ones(len(targets)), 2.0)


@BOTH
@EACH
def test_a_machine_is_the_hosts(name, kind):
    check_same(target_rows(name, *rows_of(name)), FORMULATIONS[name], device_of(kind))


@pytest.mark.parametrize("name", ["hinge", "tube", "one class"])
def test_values_that_there_is_no_room_for_are_computed_anew(name):
    data = target_rows(name, *rows_of(name))
    check_same(data, FORMULATIONS[name], device_of("strict"), bytes_held=30_000.0)


def test_single_precision_is_enough():
    X, targets = rows_of("hinge", 2500)
    check_same(target_rows("hinge", X.astype(np.float32), targets), Hinge(), device_of("strict"))


def test_sparse_rows():
    X, targets = rows_of("hinge")
    check_same(target_rows("hinge", sp.csr_matrix(X), targets), Hinge(), device_of("numpy"))


@BOTH
def test_pairs_of_classes_share_the_vectors(kind):
    X, _ = make_moons(600, noise=0.3, random_state=1)
    groups = (np.arange(600) + (X[:, 0] > 0.5)) % 3
    data = TrainingRows.of_classes(X, groups, np.ones(600), np.full(3, 2.0))
    on_host = trained(data, Hinge(), None)
    there = trained(data, Hinge(), device_of(kind))
    for one, other in zip(on_host, there, strict=True):
        decisions = values_of(one.machine, X, Hinge())[1]
        assert other.record.loss == pytest.approx(one.record.loss, rel=1e-3)
        sure = np.abs(decisions) > 1e-2
        same = np.sign(decisions) == np.sign(values_of(other.machine, X, Hinge())[1])
        assert same[sure].mean() > 0.99


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 200, 1000])
def test_device_code_sums_weighted_rows(emulated, dtype, n_rows):
    """Of some rows and of all; of more columns than a block has, in several runs."""
    rng = np.random.default_rng(n_rows)
    matrix, weights = rng.normal(size=(n_rows, 700)).astype(dtype), rng.normal(size=n_rows)
    exact = weights @ matrix.astype(float)
    assert_allclose(SUM_ROWS(matrix, None, weights), exact, atol=1e-11)
    at = np.sort(rng.permutation(n_rows)[: n_rows // 3])
    exact = weights[at] @ matrix[at].astype(float)
    assert_allclose(SUM_ROWS(matrix, at, weights[at]), exact, atol=1e-11)


def test_estimators_train_in_a_span_on_a_device():
    """All of a fit: the pilot as well, in the order that a user would call it in."""
    X, y = make_moons(500, noise=0.3, random_state=0)
    on_host = AESVC(C=2.0, gamma=1.0, max_vectors=120).fit(X, y)
    there = AESVC(C=2.0, gamma=1.0, max_vectors=120, device="cuda").fit(X, y)
    assert there.certificate_.objective == pytest.approx(on_host.certificate_.objective, rel=1e-3)
    assert np.mean(there.predict(X) == on_host.predict(X)) > 0.99
