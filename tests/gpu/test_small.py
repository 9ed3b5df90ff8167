"""Pairs of classes of few rows that a device solves many at a time."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from aesvm import AESVC, AENuSVC, TimeLimit
from aesvm.gpu.devices import Device
from aesvm.gpu.small import DevicePairs
from aesvm.machines import class_bundles, small_pairs
from aesvm.solver import smo
from tests import oracles

by_itself = smo.minimize


@pytest.fixture(
    params=["stand_in", "strict_device", pytest.param("emulated", marks=pytest.mark.slow)]
)
def device(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def all_at_once(monkeypatch):
    """A pair that is solved by itself is an error."""

    def refuse(*given, **others):
        raise AssertionError("a pair was solved by itself")

    monkeypatch.setattr(smo, "minimize", refuse)


def classes(sizes=(1, 2, 5, 17, 40, 25, 3, 30, 8, 1), seed=0):
    """Overlapping classes of a row to some dozen, some rows there twice; and weights."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sizes), 3))[y] + 0.7 * rng.normal(size=(len(y), 3))
    X, y = np.vstack([X, X[20:35]]), np.concatenate([y, y[20:35]])
    order = rng.permutation(len(y))
    return X[order], y[order], rng.uniform(0.3, 2.0, len(y))


ESTIMATORS = [
    AESVC(gamma=0.5, C=3.0, tol=1e-5),
    AESVC(kernel="linear", tol=1e-5, class_weight="balanced"),
    AENuSVC(gamma=2.0, nu=0.02, tol=1e-6),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_models_are_those_of_the_processor(device, estimator):
    """Of unequal classes, classes of one row, rows that are there twice, and weights."""
    X, y, weights = classes()
    given = (X, y) if isinstance(estimator, AENuSVC) else (X, y, weights)
    here = clone(estimator).fit(*given)
    there = clone(estimator).set_params(device="cuda").fit(*given)
    assert there.device_ == "cuda:0"
    assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-5)
    assert (there.kkt_violation_ <= estimator.tol).all()
    assert there.fit_status_ == 0
    one, other = (model.set_params(decision_function_shape="ovo") for model in (here, there))
    values = one.decision_function(X)
    assert_allclose(other.decision_function(X), values, atol=1e-3 * np.abs(values).max())
    found, wanted = there.certificate_, here.certificate_
    assert found.proven
    assert found.objective == pytest.approx(wanted.objective, rel=1e-4)
    assert found.dual_objective <= wanted.objective * (1 + 1e-9)
    assert wanted.dual_objective <= found.objective * (1 + 1e-9)


def test_kernel_matrices_and_sparse_rows(device):
    X, y, weights = classes()
    K = oracles.kernel(X, gamma=0.5)
    wanted = AESVC(gamma=0.5).fit(X, y, weights).dual_objective_
    for rows, kernel in ((K, "precomputed"), (sp.csr_matrix(X), "rbf")):
        model = AESVC(gamma=0.5, kernel=kernel, device="cuda").fit(rows, y, weights)
        assert_allclose(model.dual_objective_, wanted, rtol=1e-4)


def test_slopes_are_those_of_the_coefficients(device):
    """So that certificates need not be computed anew: the margin of a free vector is one."""
    X, y = load_iris(return_X_y=True)
    model = AESVC(C=1.0, gamma=0.5, tol=1e-6, device="cuda", decision_function_shape="ovo")
    values = model.fit(X, y).set_params(device="cpu").decision_function(X[model.support_])
    labels, n_free = y[model.support_], 0
    for number, (one, other) in enumerate([(0, 1), (0, 2), (1, 2)]):
        for label, row, sign in ((one, other - 1, 1.0), (other, one, -1.0)):
            coefs = np.abs(model.dual_coef_[row])
            is_free = (labels == label) & (coefs > 1e-9) & (coefs < 1.0 - 1e-9)
            assert_allclose(sign * values[is_free, number], 1.0, atol=1e-5)
            n_free += np.count_nonzero(is_free)
    assert n_free


def test_equal_sums_of_both_classes_to_the_last_digits(device):
    X, y, weights = classes((30, 25, 20))
    model = AESVC(gamma=0.5, C=3.0, device="cuda").fit(X, y, weights)
    ends = np.cumsum(model.n_support_)
    parts = np.split(model.dual_coef_, ends[:-1], axis=1)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        sums = parts[one][other - 1].sum(), -parts[other][one].sum()
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)


def test_the_most_updates_are_kept(device):
    X, y, _ = classes()
    with pytest.warns(ConvergenceWarning):
        model = AESVC(gamma=0.5, max_iter=3, device="cuda").fit(X, y)
    assert model.n_iter_.max() == 3
    assert model.fit_status_ == 1


def test_a_fit_whose_time_is_over_makes_few_updates(stand_in):
    X, y, _ = classes((40, 50, 60))
    model = AESVC(gamma=0.5, C=100.0, device="cuda").set_callbacks(TimeLimit(0.0))
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert (model.n_iter_ <= 10 + 110 // 8).all()
    assert model.certificate_.proven


def test_the_result_does_not_depend_on_threads(stand_in, monkeypatch):
    monkeypatch.setattr(class_bundles, "_DEVICE_ROWS", 40)
    X, y, weights = classes()
    models = [AESVC(gamma=0.5, device="cuda", n_jobs=n).fit(X, y, weights) for n in (1, 3)]
    assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    assert_array_equal(models[0].n_iter_, models[1].n_iter_)


def test_where_there_is_no_room_the_model_is_the_same(stand_in, monkeypatch):
    X, y, weights = classes()
    parameters = {"gamma": 0.5, "tol": 1e-5, "device": "cuda"}
    wanted = AESVC(**parameters).fit(X, y, weights)
    made = []
    monkeypatch.setattr(DevicePairs, "values", made.append)
    monkeypatch.setattr("aesvm.gpu.small.has_room_for", lambda *given: False)
    found = AESVC(**parameters).fit(X, y, weights)
    assert not made
    assert_allclose(found.dual_objective_, wanted.dual_objective_, rtol=1e-6)


def test_kernel_values_are_freed_before_larger_pairs_are_trained(stand_in, monkeypatch):
    values, held, are_held = DevicePairs.values, [], []

    class Noted(np.ndarray):
        pass

    def noted(own):
        found = values(own).view(Noted)
        held.append(weakref.ref(found))
        return found

    def watched(*given, **others):
        are_held.append(held[-1]() is not None)
        return by_itself(*given, **others)

    monkeypatch.setattr(DevicePairs, "values", noted)
    monkeypatch.setattr(smo, "minimize", watched)
    monkeypatch.setattr(small_pairs, "MOST_ROWS", 60)
    X, y, weights = classes((40, 50, 10, 8))
    AESVC(gamma=0.5, device="cuda", refine="exact").fit(X, y, weights)
    assert are_held
    assert not any(are_held)


def test_the_largest_pairs_have_room_in_a_block(emulated):
    most, pairs = small_pairs.MOST_ROWS, np.array([[0, 1]])
    for first, fits in ((1, True), (most // 2 - 1, True), (most + 1000, False)):
        sizes = np.array([first, max(1, most - first)])
        given = np.arange(sizes.sum()), sizes, pairs
        assert DevicePairs(_Kernel(emulated), *given).has_room == fits


def test_room_is_asked_for_the_values_of_small_pairs_alone(stand_in, monkeypatch):
    """Rows of large classes are in none of these."""
    asked = []
    monkeypatch.setattr("aesvm.gpu.small.has_room_for", lambda *given: asked.append(given))
    rows, sizes = np.arange(1000), np.array([900, 3, 97])
    DevicePairs(_Kernel(stand_in), rows, sizes, np.array([[1, 2]])).has_room  # noqa: B018
    ((_, n, row_bytes),) = asked
    assert 100 <= n <= 110
    assert row_bytes >= 8 * n


class _Kernel:
    """What is known of a kernel matrix before values are computed."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.rows = type("Rows", (), {"X": np.zeros((1000, 2))})


@pytest.mark.weekly
@pytest.mark.parametrize("size", [150, 520])
def test_duals_of_several_warps(emulated, size):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), size)
    X = rng.normal(size=(3, 2))[y] + rng.normal(size=(3 * size, 2))
    here = AESVC(gamma=0.5, tol=1e-2).fit(X, y)
    there = AESVC(gamma=0.5, tol=1e-2, device="cuda").fit(X, y)
    assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-3)


@pytest.mark.weekly
def test_nothing_depends_on_which_thread_comes_first(emulated, monkeypatch):
    X, y, weights = classes((150, 170, 20))
    model = AESVC(gamma=0.5, tol=1e-2, device="cuda")
    first = model.fit(X, y, weights).dual_coef_
    monkeypatch.setenv("BACKWARDS", "1")
    assert_array_equal(model.fit(X, y, weights).dual_coef_, first)
