"""Rows that the device has no room for: they stay on the host, and all is as if they did not."""

from __future__ import annotations

import inspect
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons

from aesvm import AESVC, AESVR, AENuSVC, AEOneClassSVM
from aesvm.gpu import devices, dual, hull, matrix, rows
from aesvm.gpu.derive import DeviceSetKernel, subset_blocks
from aesvm.gpu.devices import Device, DeviceMemoryError
from aesvm.gpu.dual import minimize
from aesvm.gpu.matrix import add
from aesvm.gpu.rows import DeviceRows
from aesvm.gpu.vectors import DenseVectors, HostVectors
from aesvm.kernels import KernelSpec
from aesvm.kernels.joint import JointKernel
from aesvm.machines import small_pairs, trainer
from aesvm.runtime.progress import Silence
from aesvm.sets.derive import ReductionSettings
from aesvm.solver import smo
from tests.gpu import plain, strict
from tests.gpu.stand_in import device_kernel
from tests.gpu.test_derive import in_turn
from tests.gpu.test_estimators import OnGPU

#: Bytes of a panel, and those that are free: for some hundred rows of few features.
PANEL, FREE = 4096, 40_000.0


@pytest.fixture(name="many_rounds", autouse=True)
def small_working_sets(monkeypatch):
    monkeypatch.setattr(plain, "WORKING_SET", 32)


class LittleMemory:
    """A device with little memory, from ``begin`` on; counts what goes over in panels."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch
        self.lengths = []

    def begin(self, free=FREE, panel=PANEL):
        each_panel = HostVectors.each_panel

        def counted(vectors, function):
            self.lengths.append(len(vectors))
            each_panel(vectors, function)

        self.patch.setattr(HostVectors, "each_panel", counted)
        self.patch.setattr(rows, "PANEL_BYTES", panel)
        self.patch.setattr(Device, "free_bytes", lambda device: free)


@pytest.fixture(name="little_memory")
def device_with_little_memory(monkeypatch):
    return LittleMemory(monkeypatch)


def normal_rows(n, width, seed=0):
    return np.random.default_rng(seed).normal(size=(n, width)) / np.sqrt(width)


def moons(n=600):
    return make_moons(n, noise=0.3, random_state=0)


# ------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize("width", [1, 8, 13])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_sums_and_values_are_those_of_rows_on_the_device(
    stand_in, little_memory, name, dtype, width
):
    """Of 411 rows, which no panel divides; whole, in another order, and of some of them."""
    X = normal_rows(411, width)
    kernel = device_kernel(KernelSpec(name, 0.7, 2, 1.0).matrix(X, dtype=dtype), stand_in)
    order = np.random.default_rng(1).permutation(411)
    random = np.random.default_rng(2)
    tol = 1e-5 if dtype == np.float32 else 1e-12
    selections = {"all": slice(None), "a slice": slice(7, 399), "some": random.permutation(411)[5:]}
    wanted = {which: kernel.vectors(order).take(own) for which, own in selections.items()}
    little_memory.begin()
    whole = kernel.vectors(order)
    assert isinstance(whole, HostVectors)
    numbers = np.array([3, 400, 17, 17, 9], dtype=np.int32)
    coefs, count = random.normal(size=(3, 5)), np.array([4], dtype=np.int32)
    for which, own in selections.items():
        found, plain_ones = whole.take(own), wanted[which]
        assert isinstance(found, HostVectors)
        assert len(found) == len(plain_ones)
        assert_array_equal(found.norms, plain_ones.norms)
        assert_array_equal(found.on_device().rows, plain_ones.rows)
        lines = wanted["some"].take(np.arange(20))
        assert_allclose(found.values(lines), plain_ones.values(lines), rtol=tol, atol=tol)
        assert_allclose(lines.values(found), lines.values(plain_ones), rtol=tol, atol=tol)
        for given in (whole, wanted["all"]):
            for n_lines in (None, count):
                sums, right = np.ones((3, len(found))), np.ones((3, len(found)))
                found.sum_lines(given, numbers, coefs, n_lines, sums)
                plain_ones.sum_lines(wanted["all"], numbers, coefs, n_lines, right)
                assert_allclose(sums, right, rtol=tol, atol=tol)
        sums, right = np.zeros((1, len(found))), np.zeros((1, len(found)))
        every, changes = np.arange(411, dtype=np.int32), random.normal(size=(1, 411))
        add(found, whole, every, changes, sums)
        add(plain_ones, wanted["all"], every, changes, right)
        assert_allclose(sums, right, rtol=tol, atol=100 * tol)
        square, right = np.zeros((2, 5, 5), dtype=whole.form.dtype)
        found.write_square(numbers - 10 * (numbers > 99), count, square)
        plain_ones.write_square(numbers - 10 * (numbers > 99), count, right)
        assert_allclose(square, right, rtol=tol, atol=tol)
    few = whole.take(np.arange(50))
    assert isinstance(few, DenseVectors)
    assert_array_equal(few.rows, wanted["all"].rows[:50])


def test_rows_whose_form_fits_are_on_the_device_though_they_are_not(stand_in, little_memory):
    """In single precision, and once, they take a fourth of what their copies would."""
    X = normal_rows(300, 16)
    host = KernelSpec("rbf").matrix(X, dtype=np.float32)
    wanted = device_kernel(host, stand_in).vectors(np.arange(300))
    n_bytes = 300 * (4 * 16 + 200) + 2 * PANEL
    little_memory.begin(free=float(n_bytes))
    kernel = device_kernel(host, stand_in)
    found = kernel.vectors(np.arange(300))
    assert isinstance(found, DenseVectors)
    assert kernel.rows.there() is None
    assert_array_equal(found.rows, wanted.rows)
    assert_array_equal(found.norms, wanted.norms)
    little_memory.begin(free=n_bytes - 1.0)
    assert isinstance(kernel.vectors(np.arange(300)), HostVectors)


def test_rows_that_are_on_the_device_are_not_copied_beside_themselves(stand_in, little_memory):
    """Where the second copy, in the form of kernel values, has no room, it is on the host."""
    X = normal_rows(500, 4)
    kernel = device_kernel(KernelSpec("rbf").matrix(X), stand_in)
    assert kernel.rows.there() is not None
    little_memory.begin()
    assert isinstance(kernel.vectors(np.arange(500)), HostVectors)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duals_are_those_of_rows_on_the_device(stand_in, little_memory, dtype, groups):
    n = 700
    X = normal_rows(n, 5)
    signs = np.where(X[:, 0] * X[:, 1] + 0.1 * X[:, 2] > 0, 1.0, -1.0)
    kernel = device_kernel(KernelSpec("rbf", 2.0).matrix(X, dtype=dtype), stand_in)
    parameters = {"tol": 1e-4}
    if groups == 2:
        parameters |= {"groups": (signs > 0).astype(int), "start": np.full(n, 0.3)}
    problem = np.arange(n), signs, -np.ones(n), np.full(n, 10.0)
    wanted = minimize(kernel, *problem, **parameters)
    little_memory.begin()
    found = minimize(kernel, *problem, **parameters)
    assert found.converged
    assert found.objective == pytest.approx(wanted.objective, rel=1e-5)
    assert_array_equal(minimize(kernel, *problem, **parameters).alpha, found.alpha)
    assert n in little_memory.lengths
    assert min(little_memory.lengths) < n  # those of variables that are left out stay behind


def separable(stand_in, n=700):
    """A dual most of whose variables rest at zero: shrinking leaves few in play."""
    X = normal_rows(n, 5)
    kernel = device_kernel(KernelSpec("rbf", 2.0).matrix(X), stand_in)
    return kernel, np.arange(n), np.where(X[:, 0] > 0.0, 1.0, -1.0), -np.ones(n), np.full(n, 10.0)


def test_rows_in_play_that_fit_are_not_gathered_again(stand_in, little_memory, monkeypatch):
    problem = separable(stand_in)
    gathered, solved, inside = set(), set(), []
    lines, improve = HostVectors.lines, dual.DeviceDual.improve

    def watched_lines(*given):
        gathered.update(inside)
        return lines(*given)

    def watched_improve(active, *given):
        inside.append(type(active.vectors))
        solved.update(inside)
        found = improve(active, *given)
        inside.pop()
        return found

    monkeypatch.setattr(HostVectors, "lines", watched_lines)
    monkeypatch.setattr(dual.DeviceDual, "improve", watched_improve)
    little_memory.begin(free=1.2e5)
    assert minimize(*problem).converged
    assert solved == {HostVectors, DenseVectors}
    assert gathered == {HostVectors}


def test_rows_in_play_make_room_for_those_after_them(stand_in, little_memory, monkeypatch):
    problem = separable(stand_in)
    enter, take = dual.DeviceDual.enter, HostVectors.take
    in_play, were_there = [], []

    def watched_enter(active, variables):
        enter(active, variables)
        in_play[:] = [weakref.ref(active.vectors)]

    def watched_take(vectors, numbers):
        if inspect.stack()[1].function == "enter":
            there = in_play[0]()
            were_there.append(isinstance(there, DenseVectors))
        return take(vectors, numbers)

    monkeypatch.setattr(dual.DeviceDual, "enter", watched_enter)
    monkeypatch.setattr(HostVectors, "take", watched_take)
    little_memory.begin(free=1.2e5)
    assert minimize(*problem).converged
    assert len(were_there) > 1
    assert not any(were_there)


# ------------------------------------------------------------------------------- estimators


ESTIMATORS = [
    AESVC(gamma=1.0, C=2.0, refine="exact", tol=1e-4),
    AESVC(kernel="poly", degree=2, coef0=1.0, refine="exact", tol=1e-4),
    AENuSVC(nu=0.3, gamma=1.0, tol=1e-5),
    AESVR(gamma=1.0, C=2.0, tol=1e-4, refine="exact"),
    AEOneClassSVM(gamma=1.0, nu=0.2, tol=1e-4, refine="exact"),
    AESVC(gamma=1.0, refine=0, subset_size=100),
    AESVC(gamma=1.0, refine=1, subset_size=100),
    AESVR(gamma=1.0, refine=0, subset_size=100),
    AESVC(gamma=1.0, max_vectors=50),
]


def compared(estimator, little_memory, X, y):
    """The same fit with enough memory, and with little: decision values, and the second model."""
    values = "predict" if isinstance(estimator, AESVR) else "decision_function"
    estimator = clone(estimator).set_params(device="cuda")
    one = clone(estimator).fit(X, y)
    wanted = getattr(one, values)(X)
    little_memory.begin()
    other = estimator.fit(X, y)
    assert_allclose(getattr(other, values)(X), wanted, atol=0.02 * np.abs(wanted).max())
    assert other.dual_objective_ == pytest.approx(one.dual_objective_, rel=1e-3)
    return one, other


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_estimators_are_those_of_rows_on_the_device(stand_in, little_memory, estimator):
    X, y = moons()
    if isinstance(estimator, AESVR):
        y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    one, other = compared(estimator, little_memory, X, y)
    if isinstance(estimator, AESVC):
        found = other.certify(X, y)
        assert found.objective == pytest.approx(one.certify(X, y).objective, rel=0.01)
    assert len(X) in little_memory.lengths


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3])
def test_rows_of_few_features_in_both_precisions(stand_in, little_memory, dtype, width):
    X = normal_rows(530, width).astype(dtype)
    y = np.sign(np.sin(4 * X[:, 0]) + 0.3 * normal_rows(530, 1, seed=1)[:, 0])
    compared(AESVC(gamma=1.0, C=2.0, tol=1e-4, refine="exact"), little_memory, X, y)
    assert little_memory.lengths


@pytest.mark.parametrize("n_bytes", [1, 3000, 1 << 28])
def test_sums_of_several_classes_by_pieces(stand_in, little_memory, monkeypatch, n_bytes):
    X = normal_rows(101, 6)
    y = np.digitize(X[:, 0], [-0.2, 0.2])
    estimator = AESVC(gamma=1.0, device="cuda", decision_function_shape="ovo")
    wanted = estimator.fit(X, y).decision_function(X)
    monkeypatch.setattr(matrix, "_NEW_BYTES", n_bytes)
    assert_allclose(estimator.decision_function(X), wanted, atol=1e-12 * np.abs(wanted).max())
    little_memory.begin(free=1.0, panel=256)
    gathered, lines = [], HostVectors.lines
    monkeypatch.setattr(
        HostVectors, "lines", lambda *given: gathered.append(given) or lines(*given)
    )
    assert_allclose(estimator.decision_function(X), wanted, atol=1e-12 * np.abs(wanted).max())
    assert gathered


def test_pairs_of_classes_are_trained_one_after_another(stand_in, little_memory, monkeypatch):
    """Side by side, none would know what the others are about to take of the memory."""
    X = normal_rows(600, 3)
    y = np.digitize(X[:, 0] + 0.2 * X[:, 1], [-0.2, 0.2])
    inside, most, histories = [], [], []
    whole, history = smo.minimize, trainer.FitHistory

    def watched(*given, **others):
        inside.append(1)
        most.append(len(inside))
        found = whole(*given, **others)
        inside.pop()
        return found

    def kept(*given):
        histories.append(history(*given))
        return histories[-1]

    monkeypatch.setattr(small_pairs, "MOST_ROWS", 0)
    monkeypatch.setattr(smo, "minimize", watched)
    monkeypatch.setattr(trainer, "FitHistory", kept)
    estimator = AESVC(gamma=1.0, device="cuda", refine="exact", tol=1e-4)
    wanted = estimator.fit(X, y).dual_objective_
    most.clear()
    little_memory.begin()
    assert_allclose(estimator.fit(X, y).dual_objective_, wanted, rtol=1e-5)
    assert len(most) >= 3
    assert max(most) == 1
    # every second one is of all machines: those before are of pilots
    assert [one.side_by_side for one in histories[1::2]] == [True, False]
    assert little_memory.lengths


def test_rows_that_were_given_on_the_gpu(stand_in, little_memory):
    X, y = moons()
    compared(AESVC(gamma=1.0, tol=1e-4, refine="exact"), little_memory, X.view(OnGPU), y)
    assert little_memory.lengths


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_nothing_of_the_device_is_taken_for_the_hosts(little_memory, monkeypatch, estimator):
    device = strict.StrictDevice("cuda:0")
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    monkeypatch.setattr(hull, "_launch", strict.launch_on_the_host)
    strict.give_linear_algebra(monkeypatch)
    X, y = moons()
    if isinstance(estimator, AESVR):
        y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    _, found = compared(estimator, little_memory, X, y)
    if isinstance(estimator, AESVC):
        assert found.certify(X, y).relative_gap is not None


def test_device_code_computes_with_panels(emulated, little_memory):
    X, y = moons(400)
    compared(AESVC(gamma=1.0, C=2.0, tol=1e-4, refine="exact"), little_memory, X, y)
    assert little_memory.lengths


def test_rows_are_never_copied_whole(stand_in, little_memory, monkeypatch):
    X, y = moons()
    little_memory.begin()
    longest = []
    array = Device.array

    def watched(self, values, dtype=None):
        widths = 2, rows.padded(2, 4), rows.padded(2, 8)
        if np.ndim(values) > 1 and np.shape(values)[-1] in widths:
            longest.append(np.size(values) // np.shape(values)[-1])
        return array(self, values, dtype)

    monkeypatch.setattr(Device, "array", watched)
    monkeypatch.setattr(matrix, "LINES", 50)
    monkeypatch.setattr(rows, "copied", lambda device, rows: pytest.fail("rows were copied"))
    for parameters in ({"refine": "exact"}, {"refine": 0}, {"refine": 1}, {"max_vectors": 30}):
        model = AESVC(gamma=1.0, device="cuda", subset_size=100, **parameters).fit(X, y)
        model.certify(X, y)
    assert 0 < max(longest) < 200


def test_it_is_said_once_that_rows_stay(stand_in, little_memory, capsys):
    X, y = moons()
    little_memory.begin()
    AESVC(gamma=1.0, device="cuda", refine=1, subset_size=100, verbose=1).fit(X, y)
    said = capsys.readouterr().out
    assert said.count("rows stay on the host, 9,600 bytes: they go to cuda:0 in panels") == 1
    assert said.count("rows stay") == 1
    AESVC(gamma=1.0, device="cuda", refine="exact").fit(X, y)
    assert "stay" not in capsys.readouterr().out


def test_sparse_rows_that_do_not_fit_are_refused_in_bytes(stand_in, little_memory):
    X, y = moons(3000)
    little_memory.begin()
    wanted = r"84,004 bytes were wanted, and 40,000 may be taken.*max_vectors.*device=\"cpu\""
    with pytest.raises(DeviceMemoryError, match=wanted):
        AESVC(gamma=1.0, device="cuda", refine="exact").fit(sp.csr_matrix(X), y)


@pytest.mark.parametrize("with_targets", [False, True])
def test_partitions_are_those_of_rows_on_the_device(stand_in, little_memory, with_targets):
    """Points are made of rows on the host, some at a time; without room they are the host's."""
    X = normal_rows(400, 30)
    kernel = KernelSpec("rbf", 0.1).matrix(X)
    if with_targets:
        kernel = JointKernel(kernel, np.sin(X[:, 0]), 0.1)
    settings = ReductionSettings(1e-2, 60, 150, "distance")

    def blocks_now():
        return subset_blocks(DeviceRows(stand_in, X), kernel)

    def cut():
        return DeviceSetKernel(blocks_now()).cut([np.arange(400)], settings, in_turn, Silence())

    wanted = cut()
    little_memory.begin(free=1.5e5)
    blocks = blocks_now()
    assert (blocks.own if with_targets else blocks).vectors is None
    assert blocks.distances() is not None
    for one, other in zip(cut(), wanted, strict=True):
        assert_array_equal(one, other)
    little_memory.begin(free=1e4)
    assert blocks_now().distances() is None
    assert sorted(np.concatenate(cut())) == list(range(400))


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e200])
def test_partitions_of_rows_whose_squares_are_no_numbers(stand_in, little_memory, scale):
    X = normal_rows(300, 2)
    settings = ReductionSettings(1e-2, 60, 150, "distance")

    def cut(X):
        blocks = subset_blocks(DeviceRows(stand_in, X), KernelSpec("rbf", 1.0).matrix(X))
        return DeviceSetKernel(blocks).cut([np.arange(300)], settings, in_turn, Silence())

    n_subsets = len(cut(X))
    with np.errstate(over="ignore"):
        wanted = cut(X * scale)
        little_memory.begin(free=1e5, panel=1024)
        found = cut(X * scale)
    assert len(found) == n_subsets
    for one, other in zip(found, wanted, strict=True):
        assert_array_equal(one, other)
