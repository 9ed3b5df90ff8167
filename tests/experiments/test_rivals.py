"""The rivals: against brute-force programs, LIBSVM, and what their papers promise."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aesvm.kernels import kernel_matrix
from experiments.rivals import BVM, CVM, NystroemSVM, RandomFeatureSVM, SubsampleSVM
from experiments.rivals.ball_kernel import BallKernel, Sampler, default_epsilon, finer_and_finer
from experiments.rivals.base import Pair
from experiments.rivals.growing_gram import GrowingGram
from tests import oracles
from tests.progress_bar import ProgressBar

RIVALS = [
    CVM(),
    BVM(),
    SubsampleSVM(sample_size=0.9),
    NystroemSVM(n_components=20),
    RandomFeatureSVM(),
]


@parametrize_with_checks([*RIVALS, SubsampleSVM(kernel="precomputed")])
def test_each_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def moons(n=300, seed=0):
    return make_moons(n, noise=0.2, random_state=seed)


def squared_hinge_matrix(X, y, C, gamma):
    """Q of the dual, from its formula."""
    signs = np.where(y == y.max(), 1.0, -1.0)
    K = oracles.kernel(X, gamma=gamma)
    return np.outer(signs, signs) * (K + 1.0) + np.eye(len(y)) / C, signs


@pytest.mark.parametrize("C", [0.5, 10.0])
def test_cvm_with_a_small_epsilon_is_the_smallest_enclosing_ball(C):
    X, y = moons(60)
    Q, signs = squared_hinge_matrix(X, y, C, 1.0)
    radius2, alpha = oracles.enclosing_ball(Q)
    expected = rbf_kernel(X, X, gamma=1.0) @ (alpha * signs) + alpha @ signs
    model = CVM(C=C, gamma=1.0, epsilon=1e-7, random_state=0).fit(X, y)
    assert_allclose(model.decision_function(X), expected, atol=1e-4 * np.abs(expected).max())
    found = np.zeros(len(y))
    found[model.support_] = np.abs(model.dual_coef_[0])
    assert Q[0, 0] - found @ Q @ found == pytest.approx(radius2, rel=1e-6)


@given(seed=st.integers(0, 1000), C=st.sampled_from([0.1, 1.0, 30.0]), epsilon=st.floats(1e-3, 0.3))
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("kind", [CVM, BVM])
def test_nearly_all_rows_lie_in_the_enlarged_ball(kind, seed, C, epsilon):
    X, y = moons(400, seed)
    Q, _ = squared_hinge_matrix(X, y, C, 1.0)
    model = kind(C=C, gamma=1.0, epsilon=epsilon, random_state=seed).fit(X, y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    distances = alpha @ Q @ alpha + Q[0, 0] - 2.0 * Q @ alpha
    norm = alpha @ Q @ alpha
    radius2 = Q[0, 0] - norm if kind is CVM else Q[0, 0]
    # ten draws of 59 rows leave one in twenty outside with a probability of 1e-13
    assert np.mean(distances <= (1.0 + epsilon) ** 2 * radius2 * (1 + 1e-6)) > 0.95
    assert alpha.sum() == pytest.approx(1.0)


def test_cvm_and_bvm_agree_with_libsvm_on_an_easy_problem():
    X, y = make_moons(1500, noise=0.1, random_state=0)
    labels = SVC(gamma=2.0, C=10.0).fit(X, y).predict(X)
    for kind in (CVM, BVM):
        model = kind(gamma=2.0, C=10.0, random_state=0).fit(X, y)
        assert np.mean(model.predict(X) == labels) > 0.97
        assert len(model.support_) < 500


@pytest.mark.parametrize("kind", [CVM, BVM])
@pytest.mark.parametrize(
    "kernel", [{"kernel": "linear"}, {"kernel": "sigmoid", "gamma": 1e-9, "coef0": -1.0}]
)
def test_a_kernel_without_a_constant_diagonal_is_refused(kind, kernel):
    with pytest.raises(ValueError, match="positive and the same for all rows"):
        kind(**kernel).fit(*moons(50))


@pytest.mark.parametrize("kind", [CVM, BVM])
def test_a_kernel_too_small_for_the_default_epsilon_is_refused(kind):
    with pytest.raises(ValueError, match="epsilon=None would be"):
        kind(kernel="precomputed").fit(1e-7 * np.eye(50), moons(50)[1])


@pytest.mark.parametrize("kind", [CVM, BVM])
def test_a_precomputed_kernel_gives_what_the_kernel_gives(kind):
    X, y = moons(200)
    K = rbf_kernel(X, X, gamma=1.0)
    direct = kind(gamma=1.0, random_state=0).fit(X, y)
    given_ = kind(kernel="precomputed", random_state=0).fit(K, y)
    assert_allclose(given_.decision_function(K), direct.decision_function(X), atol=1e-3)


def test_a_program_that_gains_nothing_any_more_ends():
    X, y = moons(20)
    model = CVM(epsilon=1e-12, C=1.0, gamma=1.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("kind", [CVM, BVM])
def test_a_limit_on_iterations_is_said(kind):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    for limit in (3, 700):  # BVM moves in another way once it has 400 rows
        with pytest.warns(ConvergenceWarning, match="stopped before it had converged"):
            model = kind(gamma=5.0, C=10.0, max_iter=limit).fit(X, y)
        assert model.fit_status_ == 1
        assert model.n_iter_[0] == limit


def test_a_core_set_of_all_rows_has_converged():
    X, y = moons(20)
    assert CVM(gamma=1.0, max_iter=0).fit(X, y).fit_status_ == 0


def test_the_default_epsilon_is_that_of_the_authors_program():
    X, y = moons(20)
    pair = Pair(
        kernel_matrix(X, gamma=1.0), np.arange(20), np.where(y == 1, 1.0, -1.0), *[None] * 4
    )
    ball = BallKernel(pair, C=4.0)
    expected = (4e-6 / 1.0 + 2.0 / 4.0 / 15000) / 2.0 / (1.0 + 1.0 + 0.25)
    assert default_epsilon(ball, 4.0) == pytest.approx(expected)


def test_tolerances_are_halved_down_to_the_one_asked_for():
    assert finer_and_finer(0.03) == [0.1, 0.05, 0.03]
    assert finer_and_finer(0.5) == [0.5]


def test_the_ball_kernel_is_its_formula_in_every_block():
    X, y = moons(30)
    Q, signs = squared_hinge_matrix(X, y, 2.0, 0.7)
    rows = np.arange(30)
    ball = BallKernel(Pair(kernel_matrix(X, gamma=0.7), rows, signs, *[None] * 4), C=2.0)
    assert_allclose(ball.square(rows), Q, atol=1e-12)
    assert_allclose(ball.block(rows[5:9], rows[3:20]), Q[5:9, 3:20], atol=1e-12)
    taken = ball.columns(rows).take(rows[4:6])
    assert_allclose(taken.values(taken.lines(rows[3:9]), 6), Q[3:9, 4:6], atol=1e-12)
    assert_allclose(ball.diag(rows), Q.diagonal())
    assert ball.bound(rows) >= np.abs(Q).max()


def test_samples_are_half_of_either_class():
    signs = np.r_[np.ones(990), -np.ones(10)]
    drawn = Sampler(signs, np.random.RandomState(0))()
    assert np.sum(signs[drawn] > 0) == 30
    assert np.sum(signs[drawn] < 0) == 29


@pytest.mark.parametrize(("positive", "negative"), [(100, 100), (3, 100), (100, 3), (4, 5)])
def test_the_first_rows_are_different_and_of_both_classes(positive, negative):
    signs = np.r_[np.ones(positive), -np.ones(negative)]
    rows = Sampler(signs, np.random.RandomState(0)).first(min(20, positive + negative))
    assert len(np.unique(rows)) == min(20, positive + negative)
    assert set(signs[rows]) == {1.0, -1.0}


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_growing_gram_matrix_is_the_kernel_matrix_of_its_members(data):
    X = np.random.default_rng(0).normal(size=(400, 3))
    K = oracles.kernel(X, gamma=0.5)
    gram, members = GrowingGram(kernel_matrix(X, gamma=0.5)), np.empty(0, dtype=np.intp)
    for _ in range(data.draw(st.integers(1, 6))):
        new = np.array(data.draw(st.lists(st.integers(0, 399), min_size=1, max_size=150)))
        gram.extend(new)
        members = np.r_[members, new]
        if data.draw(st.booleans()):
            kept = np.flatnonzero(np.arange(len(members)) % 3)
            gram.keep(kept)
            members = members[kept]
        n = len(members)
        assert_array_equal(gram.rows[:n], members)
        assert_allclose(gram.values[:n, :n], K[np.ix_(members, members)], atol=1e-10)
        assert not gram.values[n:].any()
        assert not gram.values[:, n:].any()
        assert_allclose(gram.against(np.array([7, 3])), K[np.ix_([7, 3], members)], atol=1e-10)


def test_a_subsample_of_all_rows_is_the_svm():
    X, y = moons(400)
    exact = SVC(gamma=1.0, tol=1e-5).fit(X, y)
    model = SubsampleSVM(gamma=1.0, sample_size=1.0, tol=1e-5).fit(X, y)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)


def test_a_drawn_row_stands_for_as_many_as_there_are_to_one():
    X, y = moons(400)
    model = SubsampleSVM(C=2.0, gamma=1.0, sample_size=100, tol=1e-6)
    model.set_params(random_state=3).fit(X, y)
    assert np.abs(model.dual_coef_).max() == pytest.approx(8.0)
    assert len(model.support_) <= 100


def test_a_subsample_has_its_share_of_every_class_and_the_weight_of_all_of_it():
    X, y = np.random.default_rng(0).normal(size=(100, 2)), np.r_[np.zeros(99), np.ones(1)]
    model = SubsampleSVM(C=1e-3, sample_size=0.1).fit(X, y)
    # with so small a C the rows of both classes are at their bounds, as far as they balance
    assert model.n_support_.tolist()[1] == 1
    assert np.abs(model.dual_coef_).max() == pytest.approx(1e-3)


@pytest.mark.parametrize(("size", "n"), [(14, 14), (0.1, 10), (1000, 100), (1, 2)])
def test_as_many_rows_are_drawn_as_asked(size, n):
    X, y = moons(100)
    model = SubsampleSVM(C=1e-6, sample_size=size).fit(X, y)
    assert len(model.support_) == n  # at so small a C all of them


def test_all_pairs_of_classes_have_the_same_rows():
    X, y = load_digits(return_X_y=True)
    model = SubsampleSVM(gamma=1e-3, sample_size=100, random_state=0).fit(X, y)
    assert len(model.support_) <= 100
    assert model.score(X, y) > 0.7


def test_random_features_come_near_the_kernel_as_they_grow():
    X, y = moons(200)
    K = rbf_kernel(X, X, gamma=1.0)
    errors = []
    for n in (50, 5000):
        model = RandomFeatureSVM(gamma=1.0, n_components=n, random_state=0).fit(X, y)
        features = model.map_.transform(X)
        assert features.shape == (200, n)
        errors.append(np.abs(features @ features.T - K).mean())
    assert errors[1] < 0.2 * errors[0]


def test_nystroem_with_all_rows_is_the_svm():
    X, y = moons(150)
    exact = SVC(gamma=1.0, tol=1e-6).fit(X, y)
    model = NystroemSVM(gamma=1.0, n_components=1000, loss="exact", tol=1e-6).fit(X, y)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("estimator", RIVALS, ids=lambda e: type(e).__name__)
def test_sparse_rows_give_what_dense_rows_give(estimator):
    X, y = moons(200)
    X[X < 0.3] = 0.0
    one, other = (clone(estimator).set_params(gamma=1.0, random_state=0) for _ in range(2))
    dense, sparse = one.fit(X, y), other.fit(sp.csr_array(X), y)
    assert np.mean(dense.predict(X) == sparse.predict(sp.csr_array(X))) > 0.97


@pytest.mark.parametrize("estimator", RIVALS, ids=lambda e: type(e).__name__)
def test_three_classes_are_told_apart(estimator):
    X, y = load_iris(return_X_y=True)
    model = clone(estimator).set_params(random_state=0, gamma=0.5, C=10.0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.decision_function(X).shape == (150, 3)


@pytest.mark.parametrize("estimator", RIVALS, ids=lambda e: type(e).__name__)
def test_the_same_seed_gives_the_same_model(estimator):
    X, y = moons(300)
    one, other = (clone(estimator).set_params(random_state=5).fit(X, y) for _ in range(2))
    assert_array_equal(one.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("estimator", RIVALS, ids=lambda e: type(e).__name__)
def test_a_single_class_is_refused(estimator):
    with pytest.raises(ValueError, match=r"y has 1 class \(\[3\]\)"):
        clone(estimator).fit(np.random.default_rng(0).normal(size=(10, 2)), np.full(10, 3))


@pytest.mark.parametrize("estimator", RIVALS, ids=lambda e: type(e).__name__)
def test_a_progress_bar_can_be_attached(estimator, capsys):
    X, y = moons(200)
    model = clone(estimator).set_callbacks(ProgressBar()).fit(X, y)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CVM(epsilon=0.0), "epsilon"),
        (BVM(C=-1.0), "C"),
        (SubsampleSVM(sample_size=1.5), "sample_size"),
        (SubsampleSVM(sample_size=0), "sample_size"),
        (NystroemSVM(n_components=0), "n_components"),
        (RandomFeatureSVM(loss="log"), "loss"),
    ],
)
def test_a_bad_parameter_is_named(estimator, message):
    X, y = moons(50)
    with pytest.raises(ValueError, match=f"The '{message}' parameter"):
        estimator.fit(X, y)
