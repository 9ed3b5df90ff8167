"""Pursuit against explicit projections: which rows are chosen, and what they take."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.bases import pursuit
from aesvm.bases.pursuit import Functions, Pursuit
from aesvm.kernels import kernel_matrix
from aesvm.runtime.threads import Threads
from tests import oracles

SEEDS = st.integers(0, 10**6)
#: Gains that differ by less are the same, up to rounding.
SAME = 1e-6


def problem(seed, n=50, n_functions=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, int(rng.integers(1, 4))))
    gamma = float(rng.choice([0.1, 1.0, 5.0]))
    return X, gamma, rng.normal(size=(n, n_functions)) * rng.choice([0.0, 1.0], (n, 1))


def everywhere(values):
    groups = np.zeros(len(values), dtype=np.intp)
    return Functions(values, groups, np.ones((values.shape[1], 1), dtype=bool))


def begun(X, gamma, coefs, **options):
    values = oracles.kernel(X, gamma=gamma) @ coefs
    return Pursuit(kernel_matrix(X, gamma=gamma), np.arange(len(X)), everywhere(values), **options)


def features(K):
    """Vectors whose inner products are K, one for each row."""
    sizes, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(sizes, 0.0))


def outside(Z, basis, vectors):
    """What projecting some vectors, as columns, onto the span of rows of Z leaves."""
    if not len(basis):
        return vectors
    B = Z[basis].T
    return vectors - B @ np.linalg.lstsq(B, vectors, rcond=1e-12)[0]


def gains(Z, basis, w, least=1e-10):
    """What every row would take off the squared norms of the functions w; none in the span."""
    left, apart = outside(Z, basis, w), outside(Z, basis, Z.T)
    distances = np.square(apart).sum(axis=0)
    able = distances > least * np.square(Z).sum(axis=1)
    return np.where(able, np.square(Z @ left).sum(axis=1) / np.where(able, distances, 1.0), 0.0)


def greedy(Z, w, n):
    basis = []
    for _ in range(n):
        basis.append(int(np.argmax(gains(Z, basis, w))))
    return basis


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=40)
def test_each_choice_takes_most_among_few_candidates(seed, n_functions):
    X, gamma, coefs = problem(seed, n_functions=n_functions)
    chosen = begun(X, gamma, coefs, least=1e-6).choose(8)
    Z = features(oracles.kernel(X, gamma=gamma))
    w = Z.T @ coefs
    size = np.square(w).sum()
    for step, row in enumerate(chosen):
        # of rows that are told from the span beyond doubt
        best = gains(Z, chosen[:step], w, 2e-6).max()
        assert gains(Z, chosen[:step], w, 5e-7)[row] >= best * (1 - SAME) - 1e-9 * size


@given(SEEDS)
@settings(max_examples=40)
def test_in_blocks_three_are_as_good_as_two_one_by_one(seed):
    X, gamma, coefs = problem(seed, n=120)
    Z = features(oracles.kernel(X, gamma=gamma))
    w = Z.T @ coefs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pursuit, "_COMPARED", 16)
        patch.setattr(pursuit, "BLOCK", 8)
        chosen = begun(X, gamma, coefs).choose(24)
    first = gains(Z, [], w)
    assert first[chosen[0]] >= first.max() * (1 - SAME)
    left = np.square(outside(Z, chosen, w)).sum()
    best = np.square(outside(Z, greedy(Z, w, 2 * len(chosen) // 3), w)).sum()
    assert left <= best + 1e-6 * np.square(w).sum()


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=40)
def test_what_was_taken_is_the_norm_of_the_projection(seed, n_functions):
    X, gamma, coefs = problem(seed, n_functions=n_functions)
    found = begun(X, gamma, coefs, least=1e-6)
    chosen = found.choose(10)
    Z = features(oracles.kernel(X, gamma=gamma))
    w = Z.T @ coefs
    left = outside(Z, chosen, w)
    inside = np.square(w).sum(axis=0) - np.square(left).sum(axis=0)
    size = 1.0 + np.square(w).sum()
    assert_allclose(found.taken, inside, atol=1e-6 * size)
    distances = np.square(outside(Z, chosen, Z.T)).sum(axis=0)
    for one, values in zip(found.functions, (Z @ left).T, strict=True):
        assert_allclose(one.values, values, atol=1e-5 * size)
        assert_allclose(one.distances, distances, atol=1e-6)
        assert_array_equal(one.rows, chosen)
    assert len(set(chosen.tolist())) == len(chosen)


def test_candidates_in_the_span_are_never_chosen():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 3)), 3, axis=0)
    coefs = rng.normal(size=(60, 1))
    values = oracles.kernel(X, gamma=1.0) @ coefs
    twice = Pursuit(kernel_matrix(X, gamma=1.0), np.arange(60), everywhere(values), 1e-8)
    chosen = twice.choose(60)
    assert len(np.unique(X[chosen], axis=0)) == len(chosen) <= 20
    linear = Pursuit(
        kernel_matrix(X, kernel="linear"),
        np.arange(60),
        everywhere(oracles.kernel(X, kernel="linear") @ coefs),
    )
    assert len(linear.choose(60)) <= 3
    assert not len(linear.choose(60))


def test_no_candidates_no_function_and_rows_of_zero_give_nothing():
    kernel = kernel_matrix(np.zeros((4, 2)), kernel="linear")
    assert not len(Pursuit(kernel, np.arange(4), everywhere(np.ones((4, 1)))).choose(3))
    none = np.empty(0, dtype=np.intp)
    assert not len(Pursuit(kernel, none, everywhere(np.empty((0, 1)))).choose(3))
    X = np.random.default_rng(0).normal(size=(10, 2))
    nothing = Pursuit(kernel_matrix(X, gamma=1.0), np.arange(10), everywhere(np.zeros((10, 1))))
    assert not len(nothing.choose(3))


@given(SEEDS)
@settings(max_examples=20)
def test_it_goes_on_from_a_basis_as_it_would_by_itself(seed):
    X, gamma, coefs = problem(seed)
    kernel, whole = kernel_matrix(X, gamma=gamma), begun(X, gamma, coefs, least=1e-4)
    first = whole.choose(5)
    left = whole.functions[0].values[:, None].copy()
    factor = scipy.linalg.cholesky(kernel.square(first), lower=True)
    other = Pursuit(kernel, np.arange(len(X)), everywhere(left), 1e-4)
    other.begin_with([first], [factor])
    assert_allclose(other.functions[0].distances, whole.functions[0].distances, atol=1e-9)
    more = other.choose(5)
    assert_array_equal(other.bases[0], np.append(first, more))
    assert not set(more.tolist()) & set(first.tolist())
    Z = features(oracles.kernel(X, gamma=gamma))
    w = Z.T @ coefs
    for step, row in enumerate(more):
        basis = [*first, *more[:step]]
        best = gains(Z, basis, w, 2e-4).max()
        assert gains(Z, basis, w, 5e-5)[row] >= best * (1 - SAME) - 1e-9 * np.square(w).sum()


@given(SEEDS, st.sampled_from(["rbf", "linear"]))
@settings(max_examples=40)
def test_each_function_is_projected_onto_what_it_may_use(seed, kernel):
    rng = np.random.default_rng(seed)
    X, coefs = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))
    groups = rng.integers(0, 3, 60)
    may_use = np.array([[True, True, False], [True, False, True], [False, True, True]])
    coefs *= may_use.T[groups]
    K = oracles.kernel(X, kernel=kernel)
    targets = Functions(K @ coefs, groups, may_use)
    found = Pursuit(kernel_matrix(X, kernel=kernel), np.arange(60), targets, 1e-6)
    chosen = found.choose(12)
    Z = features(K)
    w = Z.T @ coefs
    size = np.square(w).sum()
    for number, (own, basis) in enumerate(zip(found.functions, found.bases, strict=True)):
        assert set(basis.tolist()) <= set(chosen[may_use[number, groups[chosen]]].tolist())
        left = outside(Z, basis, w[:, [number]])[:, 0]
        assert_allclose(own.values, (Z @ left)[own.own], atol=1e-6 * (1 + size))
        assert own.taken == pytest.approx(
            w[:, number] @ w[:, number] - left @ left, abs=1e-6 * size
        )
    steps = [[] for _ in may_use]
    for row in chosen:  # each takes most off all that may use it, together
        worth, sure = np.zeros(60), np.zeros(60)
        for number, basis in enumerate(steps):
            may = may_use[number, groups]
            worth += may * gains(Z, basis, w[:, [number]], 5e-7)
            sure += may * gains(Z, basis, w[:, [number]], 2e-6)
        assert worth[row] >= sure.max() * (1 - SAME) - 1e-9 * size
        for basis, own in zip(steps, found.bases, strict=True):
            if row in own:
                basis.append(row)


def test_every_function_is_reached_where_one_spans_all_that_there_is():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(90, 2)), np.arange(90) % 3
    may_use = np.array([[True, True, False], [True, False, True], [False, True, True]])
    coefs = rng.normal(size=(90, 3)) * may_use.T[groups]
    targets = Functions(oracles.kernel(X, kernel="linear") @ coefs, groups, may_use)
    found = Pursuit(kernel_matrix(X, kernel="linear"), np.arange(90), targets)
    assert len(found.choose(20)) <= 6
    norms = np.square(X.T @ coefs).sum(axis=0)
    assert_allclose(found.taken, norms, rtol=1e-9)  # two vectors each, of its own groups
    assert [len(basis) for basis in found.bases] == [2, 2, 2]


def test_a_function_without_rows_chosen_from_its_groups_stays_as_it_is():
    X, gamma, coefs = problem(0, n=40, n_functions=2)
    groups = np.arange(40) % 2
    values = oracles.kernel(X, gamma=gamma) @ coefs
    values[:, 1] *= 1e-3
    may_use = np.array([[True, False], [False, True]])
    found = Pursuit(
        kernel_matrix(X, gamma=gamma), np.arange(40), Functions(values, groups, may_use)
    )
    chosen = found.choose(3)
    assert (groups[chosen] == 0).all()
    assert_array_equal(found.functions[1].values, values[groups == 1, 1])
    assert found.taken[1] == 0.0 < found.taken[0]
    assert not len(found.bases[1])


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_threads_changes_nothing(n_jobs, monkeypatch):
    monkeypatch.setattr(pursuit, "_PIECE", 64)
    X, gamma, coefs = problem(3, n=700, n_functions=2)
    found = []
    for jobs in (1, n_jobs, n_jobs):
        with Threads(jobs) as run:
            one = begun(X, gamma, coefs, run=run)
            rows, (first, second) = one.choose(100), one.functions
            found.append((rows, first.values, second.values, one.taken, first.distances))
    for one in found[1:]:
        for own, first in zip(one, found[0], strict=True):
            assert_array_equal(own, first)


@pytest.mark.parametrize("least", [0.0, 1e-14])
@pytest.mark.parametrize("n_functions", [1, 2])
def test_it_ends_where_vectors_are_dependent_to_within_rounding(least, n_functions):
    rng = np.random.default_rng(0)
    X, coefs = rng.normal(size=(400, 2)), rng.normal(size=(400, n_functions))
    found = begun(X, 0.01, coefs, least=least)
    chosen = found.choose(400)
    assert 0 < len(chosen) < 400
    assert not len(found.choose(5))
    norms = (coefs * (oracles.kernel(X, gamma=0.01) @ coefs)).sum(axis=0)
    assert (found.taken <= norms * (1 + 1e-3)).all()
    assert all(np.isfinite(one.values).all() for one in found.functions)
