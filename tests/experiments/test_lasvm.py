"""LASVM against the exact SVM, and its state against what it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aesvm.kernels import kernel_matrix
from experiments.rivals import LASVM
from experiments.rivals.base import Pair
from experiments.rivals.online_set import CurrentSet, _Members
from tests import oracles


@parametrize_with_checks([LASVM()])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    """Two classes that overlap: margins have support vectors on either side of them."""
    X, y = make_blobs(1500, 2, centers=6, cluster_std=1.5, random_state=3)
    return X / 3.0, y % 2


@pytest.fixture
def current(blobs):
    """A set that has met no row yet beside those it begins with."""
    X, y = blobs
    rows = np.arange(100, 1500)
    signs = np.where(y[rows] == 0, 1.0, -1.0)
    kernel = kernel_matrix(X, kernel="rbf", gamma=1.0)
    pair = Pair(kernel, rows, signs, np.ones(len(rows)), np.random.RandomState(0), map, None)
    return CurrentSet(pair, 10.0, 1e-3)


def met(current):
    assert list(current.meet_all())[-1] == 1.0
    return current


def gram(current):
    X = current.kernel.X[current.rows[: current.n]]
    return oracles.kernel(X, gamma=1.0)


@pytest.mark.weekly
@pytest.mark.parametrize(
    "parameters",
    [
        {"gamma": 1.0},
        {"gamma": 0.5, "C": 5.0},
        {"kernel": "poly", "gamma": 0.2, "coef0": 1.0},
        {"kernel": "linear", "C": 0.1},
    ],
    ids=str,
)
def test_after_some_epochs_it_is_the_exact_svm(blobs, parameters):
    X, y = blobs
    X, y = X[:400], y[:400]
    ours = LASVM(epochs=40, tol=1e-5, random_state=0, **parameters)
    ours.fit(X, y)
    theirs = SVC(tol=1e-5, **parameters).fit(X, y)
    values = theirs.decision_function(X)
    assert_allclose(ours.decision_function(X), values, atol=5e-3)
    # rows within the margin are support vectors and rows beyond it are not; on it they may be
    margins = np.where(y == 1, 1.0, -1.0) * values
    clear = np.flatnonzero(np.abs(margins - 1.0) > 2e-2)
    assert len(clear) > 300
    assert_array_equal(np.isin(clear, ours.support_), margins[clear] < 1.0)


def test_one_epoch_is_nearly_as_accurate(blobs):
    X, y = blobs
    ours = LASVM(gamma=1.0, random_state=0).fit(X, y)
    # which rows are met when depends on the last digit of a sum, and the model with it: of fifty
    # random states the worst loses 0.02
    assert ours.score(X, y) > SVC(gamma=1.0).fit(X, y).score(X, y) - 0.05
    assert ours.fit_status_ == 0


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_coefficients_are_feasible(blobs, C):
    X, y = blobs
    model = LASVM(gamma=1.0, C=C, tol=1e-6, random_state=0).fit(X, y)
    signs = np.where(y[model.support_] == 1, 1.0, -1.0)
    alphas = model.dual_coef_[0] * signs
    assert alphas.min() > 0.0
    assert alphas.max() <= C
    assert abs(model.dual_coef_.sum()) < 1e-9 * C * len(y)


def test_gradients_are_kept_while_rows_enter_and_leave(current, monkeypatch):
    sizes = []

    def keep(positions):
        sizes.append((current.n, len(positions)))
        CurrentSet.keep(current, positions)

    monkeypatch.setattr(current, "keep", keep)
    met(current)
    online = current.n_steps
    for _ in current.finish(100_000):
        pass
    assert current.n_steps > online
    assert sizes
    assert all(after < before for before, after in sizes)
    n, K = current.n, gram(current)
    members = _Members(*current.state[:, :n])
    places = np.searchsorted(current.pair.rows, current.rows[:n])
    signs = current.pair.signs[places]
    assert_allclose(current.values[:n, :n], K, atol=1e-12)
    assert not current.values[n:].any()
    assert not current.values[:, n:].any()
    assert_allclose(members.gradients, signs - K @ members.coefs, atol=1e-10)
    alive = current.alive()
    assert n - len(alive) == current.account[3]
    assert len(set(places[alive])) == len(alive)
    dead = np.setdiff1d(np.arange(n), alive)
    assert not members.coefs[dead].any()
    assert_array_equal(members.lower[alive], np.minimum(10.0 * signs[alive], 0.0))
    assert_array_equal(members.upper[alive], np.maximum(10.0 * signs[alive], 0.0))
    assert (members.no_rise == 0.0).tolist() == (members.coefs < members.upper).tolist()
    assert (members.no_fall == 0.0).tolist() == (members.coefs > members.lower).tolist()
    high = members.gradients[members.coefs < members.upper].max()
    low = members.gradients[members.coefs > members.lower].min()
    idle = alive[members.coefs[alive] == 0.0]
    assert (members.gradients[idle[signs[idle] > 0]] > low).all()
    assert (members.gradients[idle[signs[idle] < 0]] < high).all()
    assert current.gap == pytest.approx(high - low)
    assert current.gap <= 1e-3
    assert current.offset == pytest.approx((high + low) / 2)


def test_every_row_is_met_once_in_an_epoch(current, monkeypatch):
    batches = []

    def meet(batch):
        batches.append(batch)
        CurrentSet.meet(current, batch)

    monkeypatch.setattr(current, "meet", meet)
    begun = current.rows[:10].copy()
    met(current)
    rows = np.concatenate([begun, current.pair.rows[np.concatenate(batches)]])
    assert_array_equal(np.sort(rows), current.pair.rows)


def test_small_coefficients_are_dropped_where_they_do_not_count(current):
    met(current)
    coefs = current.state[0, : current.n]
    coefs[np.abs(coefs) < 0.1] = 0.0
    slots = np.flatnonzero(coefs)
    coefs[slots[0]] = 9e-4  # of 10 the largest: less than a thousandth, and than tol
    current.prune()
    assert_array_equal(np.flatnonzero(coefs), slots[1:])
    coefs[slots[0]] = 2e-3
    current.prune()
    assert_array_equal(np.flatnonzero(coefs), slots)


def test_sparse_precomputed_and_called_kernels_give_the_same_model(blobs):
    X, y = np.round(blobs[0] * 8.0), blobs[1]  # no rounding in kernel values: steps are the same
    parameters = {"random_state": 0, "C": 0.1}
    formula = {"gamma": 2.0**-8, "degree": 2, "coef0": 1.0}
    plain = LASVM(kernel="poly", **formula, **parameters).fit(X, y)
    expected = plain.decision_function(X)
    sparse = LASVM(kernel="poly", **formula, **parameters).fit(sp.csr_array(X), y)
    assert_allclose(sparse.decision_function(X), expected, atol=1e-9)
    assert sp.issparse(sparse.support_vectors_)
    K = oracles.kernel(X, kernel="poly", **formula)
    given = LASVM(kernel="precomputed", **parameters).fit(K, y)
    assert_allclose(given.decision_function(K), expected, atol=1e-9)
    called = LASVM(kernel=lambda A, B: oracles.kernel(A, B, kernel="poly", **formula), **parameters)
    assert_allclose(called.fit(X, y).decision_function(X), expected, atol=1e-9)


def test_single_precision_is_enough_for_many_rows():
    X, y = make_moons(5000, noise=0.2, random_state=0)
    ours = LASVM(gamma=1.0, random_state=0).fit(X, y)
    theirs = SVC(gamma=1.0).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    K = oracles.kernel(X, gamma=1.0)

    def dual(model):
        coefs = np.zeros(len(y))
        coefs[model.support_] = model.dual_coef_[0]
        assert (coefs * signs >= 0.0).all()
        assert np.abs(coefs).max() <= 1.0
        assert abs(coefs.sum()) < 1e-9 * len(y)
        return np.abs(coefs).sum() - 0.5 * coefs @ K @ coefs

    # in double precision: no feasible point has more, and an epoch leaves little to gain
    assert 0.95 * dual(theirs) < dual(ours) < (1.0 + 1e-4) * dual(theirs)
    # and what is in the set is solved to the tolerance
    coefs = np.abs(ours.dual_coef_[0])
    free = ours.support_[(coefs > 0.0) & (coefs < 1.0)]
    values = K[np.ix_(free, ours.support_)] @ ours.dual_coef_[0] + ours.intercept_[0]
    assert_allclose(values, signs[free], atol=5 * ours.tol)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.97
    assert len(ours.support_) == pytest.approx(len(theirs.support_), rel=0.15)


def test_more_classes_are_told_apart_in_pairs():
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    ours = LASVM(random_state=0, epochs=3).fit(X, y)
    theirs = SVC().fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.95
    assert ours.dual_coef_.shape == (2, len(ours.support_))
    assert ours.n_iter_.shape == ours.intercept_.shape == (3,)


def test_the_random_state_decides_and_threads_do_not(blobs):
    X, y = blobs
    model = LASVM(gamma=1.0, random_state=5)
    first = model.fit(X, y).decision_function(X)
    assert_array_equal(model.fit(X, y).decision_function(X), first)
    assert_array_equal(model.set_params(n_jobs=2).fit(X, y).decision_function(X), first)
    assert (model.set_params(random_state=6).fit(X, y).decision_function(X) != first).any()


def test_a_class_of_one_row_is_learnt(blobs):
    X, _ = blobs
    X = np.r_[X, [[9.0, 9.0]]]
    model = LASVM(gamma=1.0, C=100.0, random_state=0).fit(X, np.arange(len(X)) == len(X) - 1)
    assert_array_equal(np.flatnonzero(model.predict(X)), [len(X) - 1])
    pair = LASVM().fit(X[:2], [0, 1])
    assert_array_equal(pair.predict(X[:2]), [0, 1])


def test_an_indefinite_kernel_ends(blobs):
    X, y = blobs
    model = LASVM(kernel="sigmoid", gamma=1.0, coef0=-1.0, random_state=0).fit(X, y)
    assert model.fit_status_ == 0
    assert np.isfinite(model.decision_function(X)).all()


def test_equal_rows_of_both_classes_end():
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    y = np.tile([0, 1], 50)
    model = LASVM(random_state=0).fit(X, y)
    assert model.fit_status_ == 0
    assert model.dual_coef_.size


def test_stopping_early_warns_and_says_so(blobs):
    X, y = blobs
    online = LASVM(gamma=1.0, C=100.0, max_iter=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="LASVM stopped.*max_iter"):
        online.fit(X, y)
    assert online.fit_status_ == 1
    some = LASVM(gamma=1.0, C=100.0, max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning):
        some.fit(X, y)
    assert some.n_iter_[0] == online.n_iter_[0] + 3


def test_progress_is_reported(blobs, capsys):
    class Recorder:
        def __init__(self):
            self.begun, self.ended = {}, {}

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            self.begun[context.task_name] = self.begun.get(context.task_name, 0) + 1

        def on_fit_task_end(self, estimator, context):
            self.ended[context.task_name] = self.ended.get(context.task_name, 0) + 1

        def teardown(self, estimator, context):
            pass

    recorder = Recorder()
    model = LASVM(gamma=1.0, epochs=2, random_state=0, verbose=1).set_callbacks(recorder)
    model.fit(*blobs)
    assert recorder.begun == recorder.ended
    assert recorder.begun["rows"] == 40
    assert recorder.begun["process"] == recorder.begun["finish"] == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert f"{len(model.support_)} support vectors" in lines[0]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("C", 0.0),
        ("epochs", 0),
        ("tol", 0.0),
        ("max_iter", -2),
        ("kernel", "rbg"),
    ],
)
def test_a_bad_parameter_is_named(blobs, parameter, value):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of LASVM.*{value}"):
        LASVM(**{parameter: value}).fit(*blobs)


@pytest.mark.parametrize("C", [1e-4, 1e-2])
def test_with_a_small_c_rows_without_a_partner_wait_for_one(C):
    X, y = make_moons(1000, noise=0.2, random_state=0)
    exact = SVC(C=C, gamma=1.0).fit(X, y)
    model = LASVM(C=C, gamma=1.0, random_state=0).fit(X, y)
    # one epoch does not meet every row at the right moment: of fifteen random states the worst
    # has 0.85 of them
    assert len(model.support_) > 0.7 * len(exact.support_)
