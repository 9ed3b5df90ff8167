"""AESVC against LIBSVM and the paper's theorems."""

from __future__ import annotations

import copy
import threading
import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, make_blobs, make_classification, make_moons
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC, RepresentativeSet
from aesvm.estimators.fit_warnings import scale_factor, warn_of_scales
from aesvm.solver import host
from tests import oracles


def problem(n_classes, n=360, seed=0):
    X, y = make_classification(
        n,
        6,
        n_informative=4,
        n_classes=n_classes,
        flip_y=0.1,
        n_clusters_per_class=1,
        random_state=seed,
    )
    X[np.abs(X) < 0.2] = 0.0
    return X, np.array(["ash", "birch", "cedar"])[y]


def objectives(model, K, y, C=1.0):
    """The dual objective of every pair of classes, from the fitted attributes."""
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    label = np.searchsorted(model.classes_, y[model.support_])
    values = []
    for i, j in combinations(range(len(model.classes_)), 2):
        coefs = np.where(label == i, dual[j - 1], np.where(label == j, dual[i], 0.0))
        between = K[np.ix_(model.support_, model.support_)]
        values.append(0.5 * coefs @ between @ coefs - np.abs(coefs).sum())
    return np.array(values)


@pytest.mark.parametrize("weighting", ["none", "rows", "classes"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_without_reduction_it_is_svc(kernel, n_classes, sparse, weighting):
    X, y = problem(n_classes)
    train, test = X[:300], X[300:]
    gamma = 0.05 if kernel == "poly" else 0.2  # LIBSVM rounds kernel values to single precision
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 3.0, 300) * (rng.uniform(size=300) > 0.1)
    class_weight = {"ash": 3.0, "birch": 0.4}
    parameters = {"kernel": kernel, "gamma": gamma, "coef0": 1.0, "C": 1.5, "tol": 1e-6}
    if weighting == "classes":
        parameters["class_weight"] = class_weight
    sample_weight = weights if weighting == "rows" else None
    data = [sp.csr_array(part) if sparse else part for part in (train, test)]
    ours = AESVC(hull_tol=0, **parameters).fit(data[0], y[:300], sample_weight=sample_weight)
    theirs = SVC(**parameters).fit(data[0], y[:300], sample_weight=sample_weight)

    K = oracles.kernel(train, kernel=kernel, gamma=gamma, coef0=1.0)
    best = objectives(theirs, K, y[:300])
    assert (objectives(ours, K, y[:300]) <= best + 1e-4 * np.abs(best)).all()
    assert_allclose(ours.dual_objective_, -objectives(ours, K, y[:300]), rtol=1e-6)
    for shape in ("ovr", "ovo"):
        ours.set_params(decision_function_shape=shape)
        theirs.set_params(decision_function_shape=shape)
        expected = theirs.decision_function(data[1])
        assert_allclose(ours.decision_function(data[1]), expected, atol=1e-3)
    sure = np.abs(expected.reshape(len(test), -1)).min(axis=1) > 1e-4
    assert sure.mean() > 0.9
    assert_array_equal(ours.predict(data[1])[sure], theirs.predict(data[1])[sure])
    assert_allclose(ours.class_weight_, theirs.class_weight_)
    if kernel == "linear":
        coefs = [m.coef_.toarray() if sparse else m.coef_ for m in (ours, theirs)]
        assert_allclose(*coefs, atol=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_fitted_attributes_are_those_of_svc(n_classes, sparse):
    X, y = problem(n_classes)
    X = sp.csr_matrix(X) if sparse else X
    ours = AESVC(hull_tol=0, gamma=0.2, tol=1e-6).fit(X, y)
    theirs = SVC(gamma=0.2, tol=1e-6).fit(X, y)
    # which of the rows on the margin have a multiplier above zero is for rounding to decide
    assert abs(len(ours.support_) - len(theirs.support_)) <= 3
    assert len(np.setxor1d(ours.support_, theirs.support_)) <= 6
    of_support = ("support_", "support_vectors_", "dual_coef_")
    for name in (
        "support_",
        "support_vectors_",
        "n_support_",
        "dual_coef_",
        "intercept_",
        "classes_",
        "class_weight_",
        "n_iter_",
    ):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine.ndim == other.ndim, name
        if name not in of_support:
            assert mine.shape == other.shape, name
        assert mine.dtype == other.dtype, name
        assert sp.issparse(mine) == sp.issparse(other), name
    assert ours.fit_status_ == theirs.fit_status_ == 0
    assert ours.shape_fit_ == theirs.shape_fit_
    difference = ours.support_vectors_ - X[ours.support_]
    assert abs(difference).max() == 0
    with pytest.raises(AttributeError, match="linear"):
        _ = ours.coef_
    assert not hasattr(ours, "coef_")


def test_weights_repeat_and_remove_rows():
    X, y = problem(3)
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, len(X))
    parameters = {"gamma": 0.2, "hull_tol": 0, "tol": 1e-8}
    weighted = AESVC(**parameters).fit(X, y, sample_weight=counts)
    repeated = AESVC(**parameters).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    kept = AESVC(**parameters).fit(X[counts > 0], y[counts > 0], sample_weight=counts[counts > 0])
    new = rng.normal(size=(200, X.shape[1]))
    expected = weighted.set_params(decision_function_shape="ovo").decision_function(new)
    for model in (repeated, kept):
        model.set_params(decision_function_shape="ovo")
        assert_allclose(model.decision_function(new), expected, atol=1e-5)


def losses(K, coefs, intercept, signs, rows=None):
    scores = K @ coefs + intercept
    return np.maximum(0.0, 1.0 - signs * (scores if rows is None else scores[rows]))


@given(
    st.integers(0, 10**6),
    st.sampled_from([1e-1, 1e-2, 1e-3]),
    st.sampled_from([0.1, 1.0, 20.0]),
    st.booleans(),
)
@settings(max_examples=60)
def test_the_theorems_of_the_paper_hold(seed, hull_tol, C, weighted):
    """Theorem 1, F3 <= F2; the sharper bound on F1 - F3; Corollary 3 in its weighted form."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 150))
    X = rng.uniform(size=(n, 2))
    signs = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.5, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    weights = rng.uniform(0.1, 4.0, n) if weighted else np.ones(n)
    parameters = {"gamma": 2.0, "hull_tol": hull_tol, "subset_size": 40}
    model = AESVC(C=C, tol=1e-7, refine=0, **parameters).fit(X, signs, sample_weight=weights)
    exact = AESVC(C=C, tol=1e-7, gamma=2.0, hull_tol=0).fit(X, signs, sample_weight=weights)
    chosen = RepresentativeSet(keep_combinations=True, **parameters).fit(X, signs, weights)
    rows, beta = chosen.sample_indices_, chosen.weights_
    assert_array_equal(rows, model.representative_set_.sample_indices_)

    K = oracles.kernel(X, gamma=2.0)
    coefs = np.zeros(n)
    coefs[model.support_] = model.dual_coef_[0]
    bounds = np.zeros(n)
    bounds[rows] = C * beta
    assert (np.abs(coefs) <= bounds * (1 + 1e-12)).all()
    assert (coefs * signs >= 0).all()
    assert_allclose(coefs.sum(), 0.0, atol=1e-9 * bounds.sum())

    G = np.asarray(chosen.combinations_.todense())
    norm2 = coefs @ K @ coefs
    loss = losses(K, coefs, model.intercept_[0], signs)
    loss_u = losses(G @ K[rows], coefs, model.intercept_[0], signs)
    F1 = 0.5 * norm2 + C * weights @ loss
    F2 = 0.5 * norm2 + C * beta @ loss[rows]
    F3 = 0.5 * norm2 + C * weights @ loss_u
    small = 1e-6 * max(1.0, F2)
    assert F2 + small >= F3
    assert_allclose(F2, model.dual_objective_[0], atol=1e-4 * max(1.0, F2))
    distance = np.sqrt(np.maximum(oracles.residuals(K, place(G, rows, n)), 0.0))
    assert np.sqrt(norm2) * C * weights @ distance + small >= F1 - F3
    best = exact.dual_objective_[0]
    assert best <= F1 + small
    assert best - F2 <= (C * weights.sum()) ** 1.5 * np.sqrt(hull_tol) + small


def place(G, rows, n):
    wide = np.zeros((n, n))
    wide[:, rows] = G
    return wide


@pytest.fixture(name="blobs", scope="module")
def three_blobs():
    X, y = make_blobs(4000, 2, centers=3, cluster_std=1.0, random_state=0)
    return StandardScaler().fit_transform(X), y


def test_a_reduced_set_keeps_the_accuracy(blobs):
    X, y = blobs
    model = AESVC(gamma=1.0, subset_size=500, refine=0).fit(X[:3000], y[:3000])
    exact = SVC(gamma=1.0).fit(X[:3000], y[:3000])
    assert len(model.representative_set_.sample_indices_) < 1000
    assert model.representative_set_.reduced_
    assert set(model.support_) <= set(model.representative_set_.sample_indices_)
    assert abs(model.score(X[3000:], y[3000:]) - exact.score(X[3000:], y[3000:])) < 0.02
    agreement = (model.predict(X[3000:]) == exact.predict(X[3000:])).mean()
    assert agreement > 0.97


def test_data_of_one_subset_is_not_reduced(blobs):
    X, y = blobs
    model = AESVC(gamma=1.0, refine=0).fit(X[:1000], y[:1000])
    assert not model.representative_set_.reduced_
    assert model.certificate_.exact
    assert len(model.representative_set_.sample_indices_) == 1000
    model.set_params(subset_size=999).fit(X[:1000], y[:1000])
    assert model.representative_set_.reduced_
    assert not model.certificate_.exact


@pytest.mark.parametrize("sparse", [False, True])
def test_bit_identical_on_any_number_of_threads(blobs, sparse, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 128)
    X, y = blobs
    X = sp.csr_array(X) if sparse else X
    one = AESVC(gamma=2.0, subset_size=200, n_jobs=1).fit(X, y)
    for n_jobs in (2, 4):
        many = AESVC(gamma=2.0, subset_size=200, n_jobs=n_jobs).fit(X, y)
        assert_array_equal(one.support_, many.support_)
        for mine, other in zip(
            (one.dual_coef_, one.intercept_, one.decision_function(X)),
            (many.dual_coef_, many.intercept_, many.decision_function(X)),
            strict=True,
        ):
            assert abs(mine - other).max() == 0


@pytest.mark.parametrize("cache_size", [0, 1, 5, 1000])
def test_any_cache_gives_the_same_model(blobs, cache_size):
    X, y = blobs
    parameters = {"gamma": 1.0, "hull_tol": 0, "tol": 1e-5}
    model = AESVC(cache_size=cache_size, **parameters).fit(X, y)
    default = AESVC(**parameters).fit(X, y)
    assert_allclose(model.dual_objective_, default.dual_objective_, rtol=1e-7)
    assert_allclose(model.decision_function(X[:50]), default.decision_function(X[:50]), atol=1e-3)


def test_shrinking_changes_nothing(blobs):
    X, y = blobs
    parameters = {"gamma": 1.0, "hull_tol": 0, "tol": 1e-5}
    on = AESVC(shrinking=True, **parameters).fit(X, y)
    off = AESVC(shrinking=False, **parameters).fit(X, y)
    assert_allclose(on.dual_objective_, off.dual_objective_, rtol=1e-7)
    assert_allclose(on.decision_function(X[:50]), off.decision_function(X[:50]), atol=1e-3)


def test_two_fits_at_once(blobs):
    X, y = blobs
    alone = AESVC(gamma=1.0).fit(X, y)
    models = [AESVC(gamma=1.0, n_jobs=2) for _ in range(4)]
    workers = [threading.Thread(target=model.fit, args=(X, y)) for model in models]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for model in models:
        assert_array_equal(model.dual_coef_, alone.dual_coef_)


def test_prediction_is_thread_safe_and_changes_nothing(blobs):
    X, y = blobs
    model = AESVC(gamma=1.0, n_jobs=2).fit(X, y)
    before = {name: copy.deepcopy(value) for name, value in vars(model).items()}
    expected = model.decision_function(X)
    found = [np.empty(0)] * 4

    def work(at):
        found[at] = model.decision_function(X)

    workers = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for values in found:
        assert_array_equal(values, expected)
    assert vars(model).keys() == before.keys()
    for name in ("support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_"):
        assert_array_equal(getattr(model, name), before[name])


def test_predictions_do_not_depend_on_what_else_is_predicted(blobs):
    X, y = blobs
    model = AESVC(gamma=1.0).fit(X, y)
    together = model.decision_function(X[:700])
    assert_allclose(np.vstack([model.decision_function(x[None]) for x in X[:50]]), together[:50])


@pytest.mark.parametrize("reduce", [False, True])
def test_weights_with_many_classes_and_sparse_rows(reduce):
    X, y = load_digits(return_X_y=True)
    X = sp.csr_array(X / 16.0)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 2.0, len(y)) * (rng.uniform(size=len(y)) > 0.2)
    parameters = {
        "C": 2.0,
        "gamma": 0.05,
        "class_weight": "balanced",
        "tol": 1e-6,
        "decision_function_shape": "ovo",
    }
    model = AESVC(**parameters, hull_tol=0.05 if reduce else 0, subset_size=200, refine=0, n_jobs=2)
    model.fit(X[:1200], y[:1200], sample_weight=weights[:1200])
    exact = SVC(**parameters).fit(X[:1200], y[:1200], sample_weight=weights[:1200])
    assert_allclose(model.class_weight_, exact.class_weight_)
    agreement = (model.predict(X[1200:]) == exact.predict(X[1200:])).mean()
    assert agreement > (0.95 if reduce else 0.99)  # where two classes have as many votes
    assert model.representative_set_.reduced_ == reduce
    if not reduce:
        assert_allclose(
            model.decision_function(X[1200:]), exact.decision_function(X[1200:]), atol=1e-3
        )


def test_balanced_weights_come_from_the_original_y():
    X, y = make_moons(3000, noise=0.2, random_state=0)
    keep = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:150]]
    X, y = X[keep], y[keep]
    weights = np.where(y == 1, 2.0, 1.0)
    model = AESVC(gamma=1.0, class_weight="balanced").fit(X, y, sample_weight=weights)
    exact = SVC(gamma=1.0, class_weight="balanced").fit(X, y, sample_weight=weights)
    assert_allclose(model.class_weight_, len(y) / (2 * np.bincount(y)))
    assert_allclose(model.class_weight_, exact.class_weight_)
    assert (model.predict(X) == exact.predict(X)).mean() > 0.97


def test_bagging_with_rows_of_weight_zero(blobs):
    X, y = blobs
    bagging = BaggingClassifier(AESVC(gamma=1.0), n_estimators=4, random_state=0)
    assert bagging.fit(X, y).score(X, y) > 0.8


def test_a_class_of_weight_zero_is_never_predicted():
    X, y = load_iris(return_X_y=True)
    for absent in range(3):
        weights = (y != absent).astype(float)
        model = AESVC().fit(X, y, sample_weight=weights)
        assert_array_equal(model.classes_, [0, 1, 2])
        assert model.n_support_[absent] == 0
        assert absent not in model.predict(X)
        assert absent not in model.decision_function(X).argmax(axis=1)
        rest = AESVC(gamma=model.gamma_).fit(X[y != absent], y[y != absent])
        assert_array_equal(model.predict(X), rest.predict(X))


def test_a_model_without_support_vectors_predicts():
    X, y = load_iris(return_X_y=True)
    for parameters in ({"tol": 10.0}, {"class_weight": dict.fromkeys(range(3), 0.0)}):
        model = AESVC(**parameters).fit(X, y)
        assert len(model.support_) == 0
        assert len(set(model.predict(X))) == 1
        assert model.decision_function(X).shape == (150, 3)


def test_ties_are_broken_by_the_decision_function():
    X, y = make_blobs(300, 2, centers=8, cluster_std=3.0, random_state=11)
    X = StandardScaler().fit_transform(X)
    plain = AESVC(gamma=5.0, tol=1e-6).fit(X, y)
    values = plain.decision_function(X).argmax(axis=1)
    broken = AESVC(gamma=5.0, tol=1e-6, break_ties=True).fit(X, y).predict(X)
    assert_array_equal(broken, values)
    assert (plain.predict(X) != values).any()
    theirs = SVC(gamma=5.0, tol=1e-6, decision_function_shape="ovo").fit(X, y)
    sure = np.abs(theirs.decision_function(X)).min(axis=1) > 1e-4
    assert sure.mean() > 0.9
    assert_array_equal(plain.predict(X)[sure], theirs.predict(X)[sure])
    with pytest.raises(ValueError, match=r"break_ties=True.*ovr"):
        plain.set_params(break_ties=True, decision_function_shape="ovo").predict(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_precomputed_matrix_and_a_function_give_the_same_model(blobs, dtype):
    X, y = blobs
    X, y = X[:1500].astype(dtype), y[:1500]

    def function(A, B):
        return rbf_kernel(A, B, gamma=1.0)

    named = AESVC(gamma=1.0).fit(X, y)
    called = AESVC(kernel=function).fit(X, y)
    given_ = AESVC(kernel="precomputed").fit(rbf_kernel(X, gamma=1.0), y)
    expected = named.predict(X)
    assert (called.predict(X) == expected).mean() > 0.99
    assert (given_.predict(rbf_kernel(X, gamma=1.0)) == expected).mean() > 0.99
    assert given_.support_vectors_.shape == (0, 0)


@pytest.mark.parametrize("fitted_sparse", [False, True])
def test_dense_and_sparse_rows_predict_alike(blobs, fitted_sparse):
    X, y = blobs
    model = AESVC(gamma=1.0).fit(sp.csr_array(X) if fitted_sparse else X, y)
    assert_allclose(
        model.decision_function(X), model.decision_function(sp.csr_array(X)), atol=1e-10
    )


def test_read_only_and_memory_mapped_rows(blobs, tmp_path):
    X, y = blobs
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = AESVC(gamma=1.0).fit(mapped, y)
    assert_array_equal(model.predict(mapped), AESVC(gamma=1.0).fit(X, y).predict(X))


def test_stopping_early_warns_and_says_so(blobs):
    X, y = blobs
    model = AESVC(gamma=1.0, max_iter=3)
    with pytest.warns(ConvergenceWarning, match="max_iter=3.*tol=0.001") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.fit_status_ == 1
    assert (model.n_iter_ == 3).all()
    assert (model.kkt_violation_ > 1e-3).any()
    model.predict(X)


def test_an_indefinite_kernel_ends(blobs):
    X, y = blobs
    model = AESVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X[:1500], y[:1500])
    assert model.fit_status_ == 0
    assert np.isfinite(model.decision_function(X)).all()


def test_features_of_very_different_scale_are_warned_of_once():
    X, y = make_moons(500, noise=0.1, random_state=0)
    apart = X * [1.0, 1e4]
    for data in (apart, sp.csr_array(apart)):
        with pytest.warns(UserWarning, match="differ in scale by a factor of") as caught:
            AESVC().fit(data, y)
        assert len(caught) == 1
        assert caught[0].filename == __file__
    rare = np.zeros((500, 1))
    rare[7] = 1.0  # an indicator that is seldom set is no difference in scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AESVC().fit(np.c_[X, rare, np.ones(500)], y)
        AESVC(kernel="linear", C=1e-4).fit(X * [1.0, 1e3], y)


@pytest.mark.parametrize("draw", ["normal", "uniform", "lognormal", "standard_t"])
def test_features_a_hundredfold_apart_are_warned_of(draw):
    df = (3,) if draw == "standard_t" else ()
    X = getattr(np.random.default_rng(0), draw)(*df, size=(500, 6))
    y = np.arange(500) % 2
    with pytest.warns(UserWarning, match="differ in scale by a factor of"):
        AESVC().fit(X * [100.0, 100.0, 100.0, 1.0, 1.0, 1.0], y)


def test_scaled_features_beside_indicators_are_not_warned_of():
    random = np.random.default_rng(0)
    numbers = np.c_[random.normal(size=(2000, 4)), random.lognormal(size=(2000, 2))]
    rare = random.random((2000, 20)) < np.geomspace(0.001, 0.5, 20)
    pixels = random.integers(0, 256, size=(2000, 20)) * (random.random((2000, 20)) < 0.3)
    pixels[:, 0] = rare[:, -1]  # at the edge of images
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in (np.c_[StandardScaler().fit_transform(numbers), rare], pixels):
            warn_of_scales(scale_factor(data))
            warn_of_scales(scale_factor(sp.csr_array(data)))


@pytest.mark.parametrize("offset", [1e2, 1e4, 1e5])
def test_rows_far_from_zero_do_not_spoil_a_linear_kernel(offset):
    """The optimum is that of centred rows, whose intercept alone differs.

    SVC is no measure here: it holds kernel values in single precision, where differences of rows
    are lost. With an offset of 1e4 its objective is 90 times the optimum, with 1e5 1,200 times, and
    its decision values are as large as 1e3; it does not warn.
    """
    X, y = make_moons(300, noise=0.2, random_state=0)
    X += offset
    centred = X - X.mean(axis=0)
    exact = SVC(kernel="linear", tol=1e-8).fit(centred, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rounding leaves the certificate a gap
        model = AESVC(kernel="linear").fit(X, y)
    values, expected = model.decision_function(X), exact.decision_function(centred)
    assert_allclose(values, expected, atol=0.02)
    objectives = [
        0.5 * np.square(one.coef_).sum() + np.maximum(0.0, 1.0 - (2 * y - 1) * f).sum()
        for one, f in ((model, values), (exact, expected))
    ]
    assert objectives[0] <= 1.001 * objectives[1]


def test_a_far_away_row_does_not_spoil_the_others():
    X, y = make_moons(600, noise=0.1, random_state=0)
    X = np.r_[X, [[1e6, 1e6]]]
    y = np.r_[y, 0]
    ours = AESVC(gamma=1.0, hull_tol=0).fit(X, y)
    theirs = SVC(gamma=1.0).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("C", [1e-5, 1e-4, 1e-3])
def test_strong_regularisation_keeps_both_classes(C):
    X, y = make_moons(4000, noise=0.2, random_state=0)
    exact = SVC(gamma=1.0, C=C).fit(X, y).score(X, y)
    assert abs(AESVC(gamma=1.0, C=C).fit(X, y).score(X, y) - exact) < 0.02


def test_single_precision_rows_are_predicted_in_double():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=400) > 0).astype(int)
    X = (X + 1000.0).astype(np.float32)
    model = AESVC(kernel="linear", hull_tol=0).fit(X, y)
    expected = model.decision_function(X.astype(np.float64))
    # products of rows are some 3e6: in single precision their digits would end before the point
    rounding = 3e6 * np.abs(model.dual_coef_).sum() * np.finfo(np.float64).eps
    assert rounding < 1e-6
    assert_allclose(model.decision_function(X), expected, atol=10 * rounding)
    assert model.score(X, y) > 0.85


def test_entries_of_sparse_rows_may_be_listed_in_parts(blobs):
    X, y = blobs
    X, y = X[:500], y[:500]
    halves = sp.coo_array(
        (
            np.r_[0.5 * X.ravel(), 0.5 * X.ravel()],
            (np.tile(np.repeat(np.arange(500), 2), 2), np.tile(np.arange(2), 1000)),
        ),
        shape=X.shape,
    )
    order = np.argsort(halves.row, kind="stable")
    split = sp.csr_matrix(
        (halves.data[order], halves.col[order], np.arange(0, 2001, 4)), shape=X.shape
    )
    assert not split.has_canonical_format
    model = AESVC(gamma=1.0, tol=1e-6).fit(split, y)
    plain = AESVC(gamma=1.0, tol=1e-6).fit(X, y)
    assert_allclose(model.decision_function(split), plain.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("factor", [1e9, 1e160])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_enormous_length_end(sparse, factor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0).astype(int)
    X[0] *= factor
    data = sp.csr_matrix(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AESVC(gamma=0.5, hull_tol=0).fit(data, y)
    assert model.score(data[1:], y[1:]) > 0.95


def test_constructing_takes_keywords_only():
    with pytest.raises(TypeError, match="keyword-only"):
        AESVC(1.0)


def test_the_dual_objective_is_the_certificates_where_the_model_is_exact():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0).fit(X, y + (X[:, 0] > 1.0))
    certificate = model.certificate_
    assert certificate.exact
    assert_allclose(model.dual_objective_.sum(), certificate.dual_objective, rtol=1e-6)
    assert (model.dual_objective_ > 0).all()
    assert model.dual_objective_.sum() <= certificate.objective


def test_a_fit_leaves_nothing_of_the_fit_before():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0).fit(X, y)
    fitted = set(vars(model))
    other = AESVC(gamma=1.0).partial_fit(X, y, classes=[0, 1]).compress(20)
    other.tie_order_, other.target_name_ = np.array([1, 0]), "label"
    assert set(vars(other.fit(X, y))) == fitted
    assert other.tie_order_ is None


def test_the_package_shows_what_there_is_to_use():
    import aesvm

    modules = {
        "accel",
        "dask",
        "inspection",
        "io",
        "model_selection",
        "onnx",
        "plotting",
        "tabular",
    }
    assert {name for name in dir(aesvm) if name[0] != "_"} == {*aesvm.__all__, *modules}
