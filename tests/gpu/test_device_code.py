"""What the code for GPUs computes: built for this processor, with fibers for its threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.gpu import cuda, linear_algebra
from aesvm.gpu.cuda import DeviceVariables, Summary, Work
from aesvm.gpu.dual import DeviceDual, minimize
from aesvm.gpu.forms import form_of
from aesvm.gpu.vectors import DenseVectors
from aesvm.kernels import KernelSpec, expansion
from aesvm.solver import smo
from aesvm.solver.stagnation import Stagnation
from aesvm.solver.state import DualState, Known, PreparedVariables
from tests.gpu import plain
from tests.gpu.stand_in import device_kernel

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
    device = device_kernel(host, emulated)
    edges = np.array([0, 140, 150])
    every = np.arange(150)
    tol = 1e-4 if dtype == np.float32 else 1e-12
    for n_outputs in (1, 3):
        coefs = np.random.default_rng(2).normal(size=(150, n_outputs))
        found = expansion.expand(device.columns(every), new, edges, coefs, lambda sums: sums)
        wanted = expansion.expand(host.columns(every), new, edges, coefs, lambda sums: sums)
        assert_allclose(found, wanted, rtol=tol, atol=tol)
    some = np.arange(3, 140)
    assert_allclose(device.square(some), host.square(some), rtol=tol, atol=tol)


@pytest.mark.weekly
@pytest.mark.parametrize(("n_lines", "width", "n_outputs"), [(1, 1, 1), (65, 8, 33), (130, 9, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_blocks", [1, 1024])
def test_tiles_of_any_shape(emulated, monkeypatch, n_blocks, dtype, n_lines, width, n_outputs):
    """Of one row and one feature; around the edges of tiles, and of outputs summed up together."""
    monkeypatch.setattr(cuda, "_ENOUGH_BLOCKS", n_blocks)
    host = KernelSpec("rbf", 0.7).matrix(rows(n_lines, width), dtype=dtype)
    device = device_kernel(host, emulated)
    every, edges = np.arange(n_lines), np.array([0, n_lines])
    coefs = np.random.default_rng(2).normal(size=(n_lines, n_outputs))
    tol = 1e-4 if dtype == np.float32 else 1e-12
    for n_columns in (1, 63, 64, 65, 129):
        new = rows(n_columns, width, 1)
        found = expansion.expand(device.columns(every), new, edges, coefs, lambda sums: sums)
        wanted = expansion.expand(host.columns(every), new, edges, coefs, lambda sums: sums)
        assert_allclose(found, wanted, rtol=tol, atol=tol)
    assert_allclose(device.square(every), host.square(every), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_made_dense(emulated, dtype):
    """Also of rows without an entry, and of features that no row has."""
    dense = sp.random(40, 70, 0.1, dtype=dtype, random_state=0).toarray()
    dense[[0, 7]] = 0.0
    sparse = sp.csr_matrix(dense)
    numbers = np.array([39, 0, 5, 5, 7], dtype=np.int32)
    found = cuda.dense_columns(sparse, numbers)
    assert_array_equal(found, dense[numbers].T)
    assert cuda.dense_columns(sparse, numbers[:0]).shape == (70, 0)


def test_rows_whose_numbers_are_over_two_to_the_thirty_first(emulated):
    """Of them all but a few are never touched, so that they take no memory."""
    own = rows(3, 8).astype(np.float32)
    form = form_of(KernelSpec("linear").matrix(own), np.dtype(np.float32))
    columns = DenseVectors.of(emulated, form, own, None)
    try:
        far = np.zeros((2**27 + 2, *columns.rows.shape[1:]), dtype=columns.rows.dtype)
        norms = np.zeros((len(far), *columns.norms.shape[1:]), dtype=np.float32)
    except MemoryError:
        pytest.skip("there is too little address space")
    far[-2:], norms[-2:] = columns.rows[:2], columns.norms[:2]
    lines = DenseVectors(emulated, form, far, norms)
    numbers = np.array([len(far) - 2, len(far) - 1], dtype=np.int32)
    sums = np.zeros((1, 3))
    columns.sum_lines(lines, numbers, np.array([[1.0, -2.0]]), None, sums)
    assert_allclose(sums[0], (own[0] - 2.0 * own[1]) @ own.T, rtol=1e-5)
    found = np.empty((2, 2), dtype=np.float32)
    lines.write_square(numbers, np.array([2], dtype=np.int32), found)
    assert_allclose(found, own[:2] @ own[:2].T, rtol=1e-5)


@pytest.mark.parametrize("width", [3, 70, 150])
def test_products_in_single_precision_are_right_to_a_few_units(emulated, width):
    """Of rows from 1e-18 to 1e18, whose features differ in size, too; of one that is zero."""
    random = np.random.default_rng(0)
    sizes = 10.0 ** np.linspace(-18, 18, 90)[:, None]
    X = sizes * random.normal(size=(90, width)) * 10.0 ** random.uniform(-8, 0, size=width)
    X[7] = 0.0
    X = X.astype(np.float32)
    device = device_kernel(KernelSpec("linear").matrix(X, dtype=np.float32), emulated)
    exact, lengths = X.astype(float) @ X.T.astype(float), np.linalg.norm(X.astype(float), axis=1)
    unit = 6.0 * np.finfo(np.float32).eps
    allowed = unit * np.outer(lengths, lengths) + np.finfo(np.float32).tiny
    assert (np.abs(device.square(np.arange(90)) - exact) <= allowed).all()


def test_distances_of_far_rows_do_not_cancel(emulated):
    X = 1e6 * rows(80, 3)
    host = KernelSpec("rbf", 1e-9).matrix(X, dtype=np.float64, accuracy=1e-14)
    device = device_kernel(host, emulated)
    every = np.arange(80)
    columns = device.columns(every)
    assert columns.vectors.form.differences
    coefs = np.ones((80, 1))
    edges = np.array([0, 80])
    found = expansion.expand(columns, X, edges, coefs, lambda sums: sums)
    assert_allclose(
        found, expansion.expand(host.columns(every), X, edges, coefs, lambda sums: sums)
    )


@pytest.mark.parametrize("spec", [KernelSpec("rbf", 4.0), KernelSpec("poly", 1.0, 9)], ids=str)
def test_rows_that_are_no_lines_add_nothing_however_large_their_values(emulated, spec):
    """The first row is far away, and 150 lines are no whole tile."""
    X = rows(151)
    X[0] *= 1e4 if spec.kernel == "poly" else 30.0
    host = spec.matrix(X, dtype=np.float32, accuracy=1e-1)
    device = device_kernel(host, emulated)
    vectors = device.vectors(np.arange(151))
    assert vectors.form.dtype == np.float32
    lines = np.arange(1, 151, dtype=np.int32)
    values = host.block(np.arange(1, 151), np.arange(151)).astype(float)
    for n_outputs in (1, 3):
        coefs = np.random.default_rng(n_outputs).normal(size=(n_outputs, 150))
        sums = np.zeros((n_outputs, 151))
        vectors.sum_lines(vectors, lines, coefs, None, sums)
        assert_allclose(sums, coefs @ values, rtol=1e-3, atol=1e-2 * np.abs(values).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("groups", "n"), [(1, 60), (1, 100), (1, 200), (2, 60), (2, 80), ("the second alone", 60)]
)
def test_duals_are_those_of_the_host(emulated, groups, n, dtype):
    """Of fewer variables than a subset has, of more, and of more than a working set has."""
    X = rows(n, 4)
    signs = np.where(X[:, 0] * X[:, 1] + 0.05 * rows(n, 1, 3)[:, 0] > 0, 1.0, -1.0)
    host = KernelSpec("rbf", 3.0).matrix(X, dtype=dtype)
    device = device_kernel(host, emulated)
    parameters = {"tol": 1e-3}
    if groups == 2:
        parameters |= {"groups": (signs > 0).astype(int), "start": np.full(n, 0.3)}
    elif groups != 1:
        parameters |= {"groups": np.ones(n, dtype=int)}
    problem = np.arange(n), signs, -np.ones(n), np.ones(n)
    found = minimize(device, *problem, **parameters)
    wanted = smo.minimize(host, *problem, **parameters)
    assert found.converged
    assert found.objective == pytest.approx(wanted.objective, rel=1e-5)


def test_bounds_too_small_for_single_precision_are_reached(emulated):
    """As those of rows whose weights are nearly zero."""
    n = 60
    X = rows(n, 2)
    signs, bounds = np.where(X[:, 0] > 0, 1.0, -1.0), np.where(np.arange(n) < 6, 1e-60, 1.0)
    host = KernelSpec("rbf", 1.0).matrix(X)
    problem = np.arange(n), signs, -np.ones(n), bounds
    found = minimize(device_kernel(host, emulated), *problem, tol=1e-3)
    assert found.converged
    assert found.objective == pytest.approx(smo.minimize(host, *problem).objective, rel=1e-3)


@pytest.mark.parametrize("C", [1e10, 1e13])
def test_moves_are_seen_however_far_the_other_bound_is(emulated, C):
    """Rows that can be separated: multipliers are a thousandth of a unit in the last place of C."""
    X = rows(80, 2, 1)
    signs = np.where(X.sum(axis=1) > 0, 1.0, -1.0)
    host = KernelSpec("linear").matrix(100.0 * (X + 0.3 * signs[:, None]))
    problem = np.arange(80), signs, -np.ones(80)
    found = minimize(device_kernel(host, emulated), *problem, np.full(80, C), tol=1e-3)
    wanted = smo.minimize(host, *problem, np.ones(80))  # no multiplier is at that bound
    assert found.converged
    assert found.objective == pytest.approx(wanted.objective, rel=1e-3)
    assert abs(signs @ found.alpha) < 1e-12 * found.alpha.sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_working_set_lowers_is_told(emulated, dtype):
    """Also which of its variables moved, and by how much."""
    n = 120
    X = rows(n, 4)
    signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    kernel = device_kernel(KernelSpec("rbf", 3.0).matrix(X, dtype=dtype), emulated)
    prepared = PreparedVariables.of(kernel, np.arange(n), None)
    state = DualState(kernel, prepared, signs, -np.ones(n), np.ones(n), None, None, map)
    dual = DeviceDual(state, Stagnation(n, state.unit))
    dual.measure()
    dual.improve(1e-3, 10**6, False, lambda: False)
    dual.measure()
    coefs, slopes, _ = dual.state()
    linear = dual.now.linear
    objective = 0.5 * coefs @ (slopes + linear)
    assert dual.fell > 0.0
    assert dual.fell == pytest.approx(-objective, rel=1e-4)
    assert dual.n_moved == np.count_nonzero(coefs)
    assert dual.moved == pytest.approx(np.abs(coefs).sum())
    assert dual.n_updates >= dual.n_moved / 2


@pytest.mark.weekly
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_depends_on_which_thread_comes_first(emulated, monkeypatch, dtype):
    monkeypatch.setattr(cuda, "_ENOUGH_BLOCKS", 1)  # several tiles to a block
    n = 200
    X, new = rows(n, 5), rows(140, 5, 1)
    signs = np.where(X[:, 0] * X[:, 1] + 0.1 * rows(n, 1, 3)[:, 0] > 0, 1.0, -1.0)
    device = device_kernel(KernelSpec("rbf", 3.0).matrix(X, dtype=dtype), emulated)
    problem = np.arange(n), signs, -np.ones(n), np.ones(n)
    groups = (signs > 0).astype(int)
    coefs = np.random.default_rng(0).normal(size=(n, 5))
    found = []
    for _ in range(2):
        solution = minimize(device, *problem, groups=groups, start=np.full(n, 0.3))
        columns = device.columns(np.arange(n))
        sums = expansion.expand(columns, new, np.array([0, 90, n]), coefs, lambda own: own)
        weighted = linear_algebra.sum_rows(device.square(np.arange(n)), None, coefs[:, 0].copy())
        found.append([solution.alpha, solution.scores, sums, weighted])
        monkeypatch.setenv("BACKWARDS", "1")
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("operations", [cuda, plain], ids=["device", "plain"])
def test_the_worst_violators_are_chosen_even_where_one_may_rise_and_fall(emulated, operations):
    """The others rest at their lower bounds: of its chunk it is the best to rise, and to fall."""
    n = 320
    scores, coefs = np.full(n, 5.0), np.zeros(n)
    scores[[7, 100]], coefs[[7, 100]] = [1.0, 0.0], 0.5
    every, groups = np.arange(n, dtype=np.int32), np.zeros(n, dtype=np.int8)
    bounds = np.zeros(n), np.ones(n)
    variables = DeviceVariables(scores, every, coefs, np.zeros(n), *bounds, groups)
    work = Work.of(n, operations.WORKING_SET, 32, np.dtype(np.float64), np)
    operations.choose(work, variables, [slice(0, n)], 0, 1)
    assert set(work.chosen[: work.n_chosen[0]]) == {7, 100}


@pytest.mark.parametrize("operations", [cuda, plain], ids=["device", "plain"])
@pytest.mark.parametrize("where", [0, 7, 100, 319])
def test_a_slope_that_is_no_number_is_told(emulated, operations, where):
    n = 320
    scores = np.arange(n, dtype=float)
    scores[where] = np.nan
    every, zeros = np.arange(n, dtype=np.int32), np.zeros(n)
    bounds = zeros - 1.0, zeros + 1.0
    groups = np.zeros(n, dtype=np.int8)
    variables = DeviceVariables(scores, every, zeros, zeros, *bounds, groups)
    work = Work.of(n, operations.WORKING_SET, 32, np.dtype(np.float64), np)
    operations.choose(work, variables, [slice(0, n)], 0, 1)
    assert np.isnan(work.summary[[Summary.LOWEST, Summary.HIGHEST]]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("max_iter", [-1, 0])
@pytest.mark.parametrize("on_device", [True, False])
def test_scores_that_are_no_numbers_are_refused(stand_in, value, max_iter, on_device):
    """As on the host; also where the variable is at a bound, at which its slope tells nothing."""
    kernel = KernelSpec("linear").matrix(np.eye(6))
    solve = smo.minimize
    if on_device:
        kernel, solve = device_kernel(kernel, stand_in), minimize
    scores, ones = np.zeros(6), np.ones(6)
    scores[3] = value
    signs = np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    for start in (np.zeros(6), np.array([1, 0, 0, 1, 1, 1])):
        with pytest.raises(ValueError, match="not finite numbers: scale the data"):
            solve(
                kernel,
                np.arange(6),
                signs,
                -ones,
                ones,
                start=start,
                known=Known(scores, 1.0),
                max_iter=max_iter,
            )


@pytest.mark.parametrize("device", ["stand_in", "emulated"])
def test_no_variables(request, device):
    kernel = KernelSpec("linear").matrix(np.eye(3))
    none = np.empty(0, dtype=np.intp)
    device = device_kernel(kernel, request.getfixturevalue(device))
    found = minimize(device, none, np.empty(0), np.empty(0), np.empty(0))
    assert found.converged
    assert len(found.alpha) == 0


def test_violators_are_taken_up_again_where_those_in_play_can_only_rise(stand_in):
    """Slopes are 5 in play, at the lower bound; and 0 and 1 of two that were left out."""
    host = KernelSpec("linear").matrix(np.eye(6))
    device = device_kernel(host, stand_in)
    start, slopes = np.array([0.5, 0.5, 0, 0, 0, 0]), np.array([0.0, 1.0, 5.0, 5.0, 5.0, 5.0])
    prepared = PreparedVariables.of(device, np.arange(6), None)
    known = Known(slopes, 1.0)
    ones = np.ones(6)
    state = DualState(device, prepared, ones, np.zeros(6), ones, start, known, map)
    dual = DeviceDual(state, Stagnation(6, state.unit))
    out = prepared.order < 2
    dual.enter(np.flatnonzero(~out))
    dual.left_out = [(np.flatnonzero(out), dual.all.by_row())]
    assert dual.rejoin(1e-3)
    assert set(prepared.order[dual.variables]) >= {0, 1}
    assert not dual.rejoin(1e-3)
