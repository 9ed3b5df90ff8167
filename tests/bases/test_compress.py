"""Models on fewer of their vectors: the bound, what is refused, and the space of pointwise fits."""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.bases.compress import Landmarks
from aesvm.bases.pursuit import Functions, Pursuit
from aesvm.kernels import kernel_matrix
from tests import oracles
from tests.bases.test_span_training import FAMILY, objective_of, targets_for

MODELS = {name: case[0] for name, case in FAMILY.items()}
EACH = pytest.mark.parametrize("name", MODELS)
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 1.0},
    "poly": {"kernel": "poly", "gamma": 0.5, "coef0": 1.0},
    "linear": {"kernel": "linear"},
}


@cache
def trained(name, kernel="rbf", n_classes=2):
    rng = np.random.default_rng(0)
    X, y = make_moons(400, noise=0.3, random_state=0)
    if n_classes > 2:
        y = rng.integers(0, n_classes, 400)
        X = rng.normal(size=(400, 2)) + np.c_[y % 2, y // 2]
    y = targets_for(name, y, np.sin(2 * X[:, 0]) + X[:, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(MODELS[name]).set_params(**KERNELS[kernel]).fit(X, y), X, y


def pair_values(model, X):
    values = model._model().pair_values(X)
    return values if values.ndim > 1 else values[:, None]


def sizes(X, kernel):
    return np.array([oracles.kernel(x[None], **KERNELS[kernel])[0, 0] for x in X])


def held(before, now, X, kernel):
    """Whether no decision value has changed by more than the bound says."""
    change = np.abs(pair_values(before, X) - pair_values(now, X)).max(axis=1)
    found = now.compression_
    allowed = found.bound * np.sqrt(sizes(X, kernel)) + abs(found.shift)
    return (change <= allowed * (1 + 1e-9) + 1e-12).all()


@EACH
@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=st.integers(0, 10**6), n_vectors=st.integers(1, 60))
@settings(max_examples=6)
def test_no_value_changes_by_more_than_the_bound(name, kernel, seed, n_vectors):
    model, _, _ = trained(name, kernel)
    small = model.compress(n_vectors)
    assert small.compression_.n_vectors == len(small.support_) <= n_vectors
    assert small.compression_.n_before == len(model.support_)
    anywhere = np.random.default_rng(seed).normal(scale=2.0, size=(50, 2))
    assert held(model, small, np.vstack([anywhere, model.support_vectors_]), kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["AESVC", "AENuSVC"])
@pytest.mark.parametrize("n_vectors", [3, 30])
def test_the_bound_is_that_of_every_pair_of_classes(name, kernel, n_vectors):
    model, X, _ = trained(name, kernel, n_classes=4)
    small = model.compress(n_vectors, X=X)
    assert small.n_support_.sum() == len(small.support_) <= n_vectors
    assert held(model, small, X, kernel)
    change = np.abs(pair_values(model, X) - pair_values(small, X))
    found = small.compression_
    assert found.n_measured == len(X)
    assert found.largest_change == pytest.approx(change.max())
    assert found.typical_change == pytest.approx(np.sqrt(np.square(change).mean()))
    assert found.labels_changed == np.mean(model.predict(X) != small.predict(X))


@EACH
@pytest.mark.parametrize("tol", [1.0, 0.05, 1e-3, 1e-12])
def test_a_tolerance_is_kept(name, tol):
    model, X, _ = trained(name)
    small = model.compress(tol=tol, X=X)
    assert small.compression_.bound <= tol
    assert small.compression_.largest_change <= tol
    assert held(model, small, X, "rbf")
    if tol == 1.0 and name != "AESVR":  # which has few
        assert len(small.support_) < len(model.support_)


def test_the_number_of_vectors_goes_before_the_tolerance():
    model, _, _ = trained("AESVC")
    small = model.compress(5, tol=1e-6)
    assert len(small.support_) == 5
    assert small.compression_.bound > 1e-6


@pytest.mark.parametrize("tol", [None, 1e-6])
def test_the_bound_is_the_distance_of_the_machines(tol):
    model, _, _ = trained("AESVC")
    small = model.compress(10, tol=tol)
    (before,), (now,) = model._model().at_vectors(), small._model().at_vectors()
    vectors = np.vstack([model.support_vectors_, small.support_vectors_])
    coefs = np.append(before.coefs, -now.coefs)
    K = oracles.kernel(vectors, gamma=1.0)
    assert small.compression_.bound == pytest.approx(np.sqrt(coefs @ K @ coefs), rel=1e-6)
    assert small.compression_.shift == now.offset - before.offset
    left = oracles.kernel(small.support_vectors_, vectors, gamma=1.0) @ coefs
    if tol is None:  # no other machine on these vectors changes less, as the criterion has it
        change = K[: len(before.rows)] @ coefs + before.offset - now.offset
        lines = K[: len(before.rows), len(before.rows) :]
        assert_allclose(change @ lines + left, 0.0, atol=1e-8)
        assert change.sum() == pytest.approx(0.0, abs=1e-8)
    else:  # a projection: what is left is orthogonal to what is kept
        assert_allclose(left, 0.0, atol=1e-8)
        assert small.compression_.shift == 0.0


def test_labels_are_kept_where_vectors_are_far_apart():
    X, y = load_digits(return_X_y=True)
    X, unseen = X[:900] / 16, X[900:] / 16
    model = AESVC(C=10.0, gamma=1.0, refine="exact").fit(X, y[:900])
    n = len(model.support_) // 10
    small, projected = model.compress(n, X=unseen), model.compress(n, tol=1e-6, X=unseen)
    assert len(small.support_) == len(projected.support_) == n
    changed = small.compression_.labels_changed
    assert changed < 0.75 * projected.compression_.labels_changed
    assert held(model, small, unseen, "rbf")


def test_a_pair_without_vectors_is_the_mean_of_what_it_was():
    model, X, _ = trained("AESVC", "rbf", 4)
    small = model.compress(1)
    groups, values = model._model().groups, pair_values(model, model.support_vectors_)
    pairs = list(combinations(range(4), 2))
    for number, (pair, one) in enumerate(zip(pairs, small._model().at_vectors(), strict=True)):
        if not len(one.rows):
            own = values[np.isin(groups, pair), number]
            assert one.offset == pytest.approx(own.mean(), abs=1e-6)
    assert held(model, small, X, "rbf")


@EACH
def test_the_model_before_stays_as_it_is(name):
    model, X, y = trained(name)
    before, values = pickle.dumps(model), pair_values(model, X)
    small = model.compress(10, X=X)
    assert pickle.dumps(model) == before
    small.certify(X, y)
    assert pickle.dumps(model) == before
    assert not hasattr(model, "compression_")
    assert_array_equal(pair_values(model, X), values)


@EACH
def test_it_is_an_estimator_like_others(name):
    model, X, y = trained(name)
    small = model.compress(10)
    kept = pickle.loads(pickle.dumps(small))
    assert_array_equal(kept.predict(X), small.predict(X))
    assert kept.compression_ == small.compression_
    assert_allclose(pair_values(small, sp.csr_array(X)), pair_values(small, X), atol=1e-12)
    fresh = clone(small)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "support_")
    again = small.fit(X, y)
    assert not hasattr(again, "compression_")
    assert len(again.support_) == len(model.support_)


def test_a_model_of_sparse_rows_stays_sparse():
    _, X, y = trained("AESVC")
    model = AESVC(gamma=1.0).fit(sp.csr_array(X), y)
    small = model.compress(10, X=sp.csr_array(X))
    assert type(small.dual_coef_) is type(model.dual_coef_)
    assert sp.issparse(small.support_vectors_)
    dense = AESVC(gamma=1.0).fit(X, y).compress(10)
    assert_allclose(small.decision_function(X), dense.decision_function(X), atol=1e-3)


@EACH
def test_certify_looks_at_the_small_model(name):
    model, X, y = trained(name)
    small = model.compress(8)
    known = small.certificate_
    assert known.objective is None
    assert known.gap is None
    assert known.n_vectors == 8
    assert not known.exact
    certificate = small.certify(X, y)
    assert certificate.proven
    assert certificate.objective == pytest.approx(objective_of(small, FAMILY[name][2], X, y))
    before = model.certificate_
    slack = 1e-8 * abs(before.dual_objective)
    assert certificate.dual_objective == pytest.approx(before.dual_objective, rel=1e-8)
    assert certificate.objective >= before.objective - before.gap - slack


@EACH
def test_twice_is_as_good_as_once(name):
    model, X, _ = trained(name)
    once = model.compress(12)
    twice = once.compress(12)
    assert_array_equal(np.sort(twice.support_), np.sort(once.support_))
    assert_allclose(pair_values(twice, X), pair_values(once, X), atol=1e-6)
    fewer = once.compress(5)
    assert len(fewer.support_) == 5
    assert fewer.compression_.n_before == 12


def test_a_model_in_a_span_is_compressed_as_well():
    X, y = make_moons(400, noise=0.3, random_state=0)
    model = AESVC(gamma=1.0, max_vectors=40).fit(X, y)
    small = model.compress(20, X=X)
    assert held(model, small, X, "rbf")
    certificate = small.certify(X, y)
    assert certificate.n_vectors == 20
    assert certificate.gap >= model.certificate_.gap - 1e-3 * model.certificate_.objective


def test_one_direction_that_a_pair_needs_is_not_lost_to_another():
    X, y = load_iris(return_X_y=True)
    model = AESVC(kernel="linear").fit(X, y)
    small = model.compress(27)
    assert small.compression_.bound < 1e-3
    assert_array_equal(small.predict(X), model.predict(X))


@pytest.mark.parametrize("estimator", [AESVR(), AENuSVR(), AEOneClassSVM(nu=0.5), AENuSVC()])
def test_models_of_next_to_nothing(estimator):
    X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 1.0, 1.0, 1.0]
    if isinstance(estimator, AENuSVC):
        y = [0, 1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).fit(X, y)
    small = model.compress(3, X=X)
    assert len(small.support_) <= 3
    assert np.isfinite(small.predict(X)).all()
    assert "support vectors" in str(small.compression_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "compress needs n_vectors"),
        *(({"n_vectors": n}, f"n_vectors={n!r}") for n in (0, -1, 1.5, True, "a")),
        *(({"tol": tol}, f"tol={tol!r}") for tol in (np.nan, -1, 0, 0.0, np.inf, "a")),
        ({"n_vectors": 5, "tol": -1.0}, r"tol=-1\.0"),
        ({"n_vectors": 5, "X": [[1.0]]}, "1 features"),
    ],
)
def test_what_says_nothing_is_refused(arguments, message):
    model, _, _ = trained("AESVC")
    with pytest.raises(ValueError, match=message):
        model.compress(**arguments)


def test_kernels_without_distances_are_refused():
    _, X, y = trained("AESVC")
    precomputed = AESVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match=r'kernel="precomputed": compress needs'):
        precomputed.compress(5)
    sigmoid = AESVC(kernel="sigmoid", gamma=0.1).fit(X, y)
    with pytest.raises(ValueError, match="kernel='sigmoid': compress needs a positive"):
        sigmoid.compress(5)


def test_a_model_of_a_stream_is_compressed_and_certified_before():
    _, X, y = trained("AESVC")
    model = AESVC(gamma=1.0).fit_stream([(X, y, None)])
    small = model.compress(10, X=X)
    assert held(model, small, X, "rbf")
    with pytest.raises(ValueError, match="certify_stream before compress"):
        small.certify_stream([(X, y, None)])
    with pytest.raises(ValueError, match="certify_stream before compress"):
        small.certify(X, y)
    assert not hasattr(small.fit_stream([(X, y, None)]), "compression_")


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_threads_changes_nothing(n_jobs):
    model, _, _ = trained("AESVC", "rbf", 4)
    one = model.compress(30)
    other = pickle.loads(pickle.dumps(model)).set_params(n_jobs=n_jobs).compress(30)
    assert_array_equal(one.support_, other.support_)
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert one.compression_ == other.compression_


ROWS, POINTS = np.array([0, 2, 3, 5, 6, 7]), np.array([1, 3, 4, 6])
X = np.random.default_rng(0).normal(size=(8, 2))


@pytest.fixture
def space():
    return Landmarks.of(kernel_matrix(X, kernel="rbf", gamma=1.0), ROWS, POINTS, map)


def expected(one, other):
    """By the definition."""
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    C = K[POINTS] - K[POINTS].mean(axis=0)
    unit = np.square(C[:, ROWS]).sum() / len(ROWS)
    return K[np.ix_(one, other)] + C[:, one].T @ C[:, other] / unit


def test_values_are_those_of_the_definition(space):
    K = np.exp(-np.square(X[ROWS][:, None] - X[ROWS]).sum(axis=2))
    values = K + space.features @ space.features.T
    assert_allclose(values, expected(ROWS, ROWS), atol=1e-6)


def test_both_parts_count_the_same(space):
    assert np.square(space.features).sum() == pytest.approx(len(ROWS))


def test_functions_are_known_by_scores_and_values_at_the_points(space):
    coefs = np.random.default_rng(1).normal(size=(len(ROWS), 2))
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    scores = K[:, ROWS] @ coefs
    inner = expected(ROWS, ROWS) @ coefs
    assert_allclose(space.values(scores[ROWS], scores[POINTS]), inner, atol=1e-6)
    squared = np.einsum("ij,ij->j", coefs, scores[ROWS])
    norms = space.squared_norms(squared, scores[POINTS])
    assert_allclose(norms, np.einsum("ij,ij->j", coefs, inner), atol=1e-6)


def test_rows_that_the_points_cannot_tell_apart_have_plain_values():
    kernel = kernel_matrix(np.ones((3, 1)), kernel="rbf", gamma=1.0)
    every = np.arange(3)
    assert_allclose(Landmarks.of(kernel, every, every, map).features, np.zeros((3, 3)))


def test_a_pursuit_chooses_in_the_space_of_kernel_and_features(space):
    values = np.random.default_rng(2).normal(size=(len(ROWS), 1))
    targets = Functions(values, np.zeros(len(ROWS), dtype=np.intp), np.ones((1, 1), dtype=bool))
    kernel = kernel_matrix(X, kernel="rbf", gamma=1.0)
    chosen = Pursuit(kernel, ROWS, targets, features=space.features).choose(3)
    whole = kernel_matrix(expected(ROWS, ROWS), kernel="precomputed")
    assert_array_equal(chosen, ROWS[Pursuit(whole, np.arange(len(ROWS)), targets).choose(3)])
