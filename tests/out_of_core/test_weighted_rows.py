"""Where a budget cannot hold a set: a sample whose sums are right, said to be one."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from aesvm import AESVC, RepresentativeSet
from aesvm.out_of_core.merge_tree import MergeTree
from aesvm.out_of_core.weighted_rows import WeightedRows, sample


def weighted(weights, groups):
    n = len(weights)
    return WeightedRows(np.arange(n)[:, None] * 1.0, groups, groups, weights, np.arange(n), 0.1)


@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 60), st.sampled_from([0.0, 8.0]))
def test_the_weight_of_every_group_is_kept(seed, n, n_drawn, decades):
    rng = np.random.default_rng(seed)
    weights, groups = 10.0 ** rng.uniform(-decades, 0.0, n), rng.integers(0, 3, n)
    few = sample(weighted(weights, groups), n_drawn, seed)
    assert len(few) <= n_drawn + len(np.unique(groups))
    assert_array_equal(few.groups, groups[few.indices])
    assert (few.weights > 0).all()
    for group in np.unique(groups):
        total = weights[groups == group].sum()
        assert few.weights[few.groups == group].sum() == pytest.approx(total, rel=1e-9)
    assert few.reach == np.inf
    assert (np.diff(few.indices) > 0).all()


def test_a_row_is_drawn_as_often_as_its_weight_says():
    weights = np.array([1.0, 2.0, 3.0, 4.0, 50.0])
    rows = weighted(weights, np.zeros(5, dtype=int))
    mean = np.zeros(5)
    for seed in range(4000):
        few = sample(rows, 3, seed)
        mean[few.indices] += few.weights / 4000
    assert_allclose(mean, weights, rtol=0.1)


def streamed(model, X, y, size=2000):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit_stream(
            [(X[i : i + size], y[i : i + size], None) for i in range(0, len(y), size)]
        )


@pytest.mark.parametrize("budget", [5_000, 20_000, 200_000])
def test_a_loosened_stream_is_about_as_good_as_random_rows(budget):
    X, y = make_moons(40_000, noise=0.2, random_state=0)
    X_test, y_test = make_moons(5_000, noise=0.2, random_state=1)
    model = AESVC(gamma=1.0, refine=0, memory_budget=budget, on_overflow="loosen")
    streamed(model, X, y)
    n_held = len(model.representative_set_.sample_indices_)
    accuracies = []
    for seed in range(5):
        at = np.random.default_rng(seed).permutation(len(y))[:n_held]
        plain = SVC(gamma=1.0, C=len(y) / n_held).fit(X[at], y[at])
        accuracies.append(plain.score(X_test, y_test))
    assert model.score(X_test, y_test) > np.mean(accuracies) - 0.03
    tree = model._stream_.stream.tree
    assert tree.n_bytes <= budget
    assert tree.hull_tol <= 0.02


def test_of_a_sample_no_bound_is_told():
    X, y = make_moons(20_000, noise=0.2, random_state=0)
    model = AESVC(gamma=5.0, memory_budget=5_000, on_overflow="loosen", refine=0)
    with pytest.warns(UserWarning, match="is a weighted random sample, and no bound holds"):
        model.fit_stream([(X[i : i + 2000], y[i : i + 2000], None) for i in range(0, 20_000, 2000)])
    certificate = model.certificate_
    assert certificate.theorem_2_bound is None
    assert certificate.paper_bound is None
    assert "sampled" in certificate.missing["theorem_2_bound"]
    assert certificate.max_residual == np.inf
    assert model.representative_set_.weights_.sum() == pytest.approx(20_000, rel=1e-9)
    assert str(certificate)


def test_a_set_may_be_sampled_too():
    X = 100.0 * np.random.default_rng(0).normal(size=(3000, 3))
    stream = RepresentativeSet(gamma=1.0, memory_budget=4_000, on_overflow="loosen")
    with pytest.warns(UserWarning, match="a weighted random sample"):
        stream.partial_fit(X)
    assert stream.max_residual_ == np.inf
    assert stream.weights_.sum() == pytest.approx(3000, rel=1e-9)


@pytest.mark.parametrize("size", [7, 100, 2000])
def test_rows_of_a_sample_weigh_the_same_whatever_the_chunks(size):
    X = 100.0 * np.random.default_rng(0).normal(size=(6000, 3))
    y = np.arange(6000) % 3 == 0
    model = AESVC(gamma=1.0, refine=0, memory_budget=6_000, on_overflow="loosen")
    streamed(model, X, y, size)
    _, held, weights = model.select()
    # 24 + 17 bytes a row, three quarters of the budget; the last draw may have left less
    assert 0.6 * 6_000 < len(weights) * 41 <= 6_000
    for label in (False, True):
        own = weights[held == label]
        assert_allclose(own, own[0], rtol=1e-9)


class KeepsEven:
    """Reduces rows to every other one, whatever the tolerance."""

    def __call__(self, rows, hull_tol, level):
        kept = np.flatnonzero(rows.indices % 2 == 0)
        return rows.represented_by(
            kept, np.full(len(kept), rows.weights.sum() / len(kept)), 0.0, 0.0, len(rows)
        )

    def squared_diameter(self, rows):
        return 2.0


def test_a_sample_is_drawn_from_rows_and_not_from_representatives():
    rows = weighted(np.ones(400), np.zeros(400, dtype=int))
    tree = MergeTree(1e-3, budget=4_000, loosen=True).add(rows, 400, KeepsEven())
    assert tree.sampled
    held = tree.everything().indices
    assert 0.3 < np.mean(held % 2) < 0.7
    assert tree.hull_tol == 0.02
    assert len(held) == 93  # of 32 bytes each, in three quarters of the budget


def test_a_sample_goes_on_as_one_unless_that_is_refused():
    tree = MergeTree(1e-3, budget=4_000, loosen=True)
    rows = weighted(np.ones(400), np.zeros(400, dtype=int))
    tree = tree.add(rows, 400, KeepsEven()).add(
        replace(rows, indices=rows.indices + 400), 400, None
    )
    assert tree.everything().weights == pytest.approx(800 / 93)
    with pytest.raises(ValueError, match="memory_budget=4,000 bytes cannot hold the set"):
        tree._replace(loosen=False).add(rows, 400, None)
    more = tree._replace(budget=1e6).add(replace(rows, indices=rows.indices + 800), 400, None)
    assert len(more.everything()) == 93 + 400


@pytest.mark.parametrize("heavy", [1.0, 1e4, 1e9])
def test_one_heavy_row_takes_one_place(heavy):
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], [40, 60])
    weights = np.ones(100)
    weights[7] = heavy
    rows = WeightedRows(
        rng.normal(size=(100, 2)), classes, classes, weights, np.arange(100), 0.0, whole=True
    )
    few = sample(rows, 20, seed=0)
    assert len(few) <= 20
    assert min(np.bincount(few.groups)) >= 6
    for group in (0, 1):
        own = few.weights[few.groups == group].sum()
        assert own == pytest.approx(weights[classes == group].sum(), rel=1e-12)
