"""Small pairs of classes, trained many at a time: against SVC, and against training one by one."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.svm import SVC, NuSVC
from sklearn.utils.multiclass import _ovr_decision_function

from aesvm import AESVC, AENuSVC, TimeLimit
from aesvm.estimators.trained import TrainedOn
from aesvm.machines import class_bundles, one_vs_one, problem, small_pairs
from aesvm.solver import small_working_sets
from tests import oracles


@pytest.fixture(params=["matrices", "working sets"])
def each_way(request, monkeypatch):
    """Small pairs with all kernel values at hand, and most of them by working sets."""
    if request.param == "working sets":
        monkeypatch.setattr(class_bundles, "BUNDLE_ROWS", 6)
        monkeypatch.setattr(small_working_sets, "WORKING_SET", 8)


def classes(n_classes=12, n_features=3, seed=0):
    """Overlapping classes of one row to a dozen, and weights."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 1 + np.arange(n_classes))
    centers = rng.normal(size=(n_classes, n_features))
    X = centers[y] + 0.7 * rng.normal(size=(len(y), n_features))
    order = rng.permutation(len(y))
    return X[order], y[order], rng.uniform(0.3, 2.0, len(y))


def one_by_one(model, X, y, weights=None):
    """The same estimator with no pair small."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(small_pairs, "MOST_ROWS", 0)
        return clone(model).fit(X, y, weights)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "precomputed", "sparse"])
@pytest.mark.parametrize("C", [0.3, 30.0])
def test_decision_values_are_those_of_svc(kernel, C, each_way):
    X, y, weights = classes()
    if kernel == "precomputed":
        X = oracles.kernel(X, gamma=0.5)
    X = sp.csr_array(X) if kernel == "sparse" else X
    parameters = {
        "C": C,
        "kernel": "rbf" if kernel == "sparse" else kernel,
        "gamma": 0.5,
        "coef0": 1.0,
        "class_weight": {3: 2.0, 5: 0.5},
        "decision_function_shape": "ovo",
    }
    model = AESVC(tol=1e-6, **parameters).fit(X, y, weights)
    theirs = SVC(tol=1e-6, **parameters).fit(X, y, weights)
    atol = 1e-4 * np.abs(theirs.decision_function(X)).max()
    assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=atol)
    assert (model.predict(X) == theirs.predict(X)).mean() > 0.97  # votes may be equal
    assert (model.kkt_violation_ <= 1e-6).all()
    assert model.certificate_.proven
    assert model.certificate_.exact


def test_decision_values_are_those_of_nu_svc(each_way):
    X, y, _ = classes()
    X, y = X[y > 5], y[y > 5]
    model = AENuSVC(nu=0.5, gamma=0.5, tol=1e-7, decision_function_shape="ovo").fit(X, y)
    theirs = NuSVC(nu=0.5, gamma=0.5, tol=1e-7, decision_function_shape="ovo").fit(X, y)
    values = theirs.decision_function(X)
    assert_allclose(model.decision_function(X), values, atol=1e-4 * np.abs(values).max())


MODELS = [
    AESVC(gamma=0.5, tol=1e-7),
    AESVC(gamma=0.5, C=100.0, tol=1e-7, refine="exact", class_weight="balanced"),
    AESVC(kernel="sigmoid", gamma=0.1, tol=1e-7),
    AENuSVC(nu=0.3, gamma=0.5, tol=1e-7),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_numbers_are_those_of_pairs_trained_one_by_one(model, each_way):
    X, y, weights = classes()
    if isinstance(model, AENuSVC):
        X, y, weights = X[y > 7], y[y > 7], np.ones(np.count_nonzero(y > 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = clone(model).fit(X, y, weights)
    apart = one_by_one(model, X, y, weights)
    assert_allclose(together.dual_objective_, apart.dual_objective_, rtol=1e-6, atol=1e-9)
    assert_allclose(together.intercept_, apart.intercept_, atol=1e-4)
    assert_array_equal(together.n_support_.shape, apart.n_support_.shape)
    ours, theirs = TrainedOn.of(together), TrainedOn.of(apart)
    assert ours.n_solved == theirs.n_solved
    for name, column in theirs.records.columns.items():
        if name == "proof_rounding":  # which depends on how near to the margin rows come out
            assert ((ours.records[name] > 0) & (ours.records[name] <= 1e-6)).all()
        elif name == "violators":
            assert (ours.records[name] <= 2).all()
        else:
            assert_allclose(ours.records[name], column, rtol=1e-5, atol=1e-4, err_msg=name)
    for name in ("objective", "dual_objective", "norm"):
        value = getattr(apart.certificate_, name)
        assert getattr(together.certificate_, name) == (value and pytest.approx(value, rel=1e-5))


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
def test_a_dual_bounds_the_primal_that_an_oracle_computes(C, each_way):
    X, y, weights = classes(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AESVC(gamma=0.5, C=C).fit(X, y, weights)
    total = 0.0
    for (i, j), one in zip(
        zip(*problem.pair_classes(6), strict=True), model._model().expansions(), strict=True
    ):
        at = np.flatnonzero((y == i) | (y == j))
        signs = np.where(y[at] == i, 1.0, -1.0)
        values = oracles.kernel(X[at], X[one.rows], gamma=0.5) @ one.coefs + one.offset
        norm = one.coefs @ oracles.kernel(X[one.rows], gamma=0.5) @ one.coefs
        total += 0.5 * norm + C * weights[at] @ np.maximum(0.0, 1.0 - signs * values)
    certificate = model.certificate_
    assert certificate.objective == pytest.approx(total, rel=1e-9)
    assert certificate.dual_objective <= total
    assert certificate.gap >= certificate.objective - certificate.dual_objective


def test_one_row_of_each_class():
    X = np.random.default_rng(0).normal(size=(40, 5))
    y = np.arange(40)
    model, theirs = AESVC(gamma=0.2).fit(X, y), SVC(gamma=0.2).fit(X, y)
    assert_array_equal(model.predict(X), theirs.predict(X))
    assert_allclose(model.dual_coef_, theirs.dual_coef_, atol=1e-6)
    assert_allclose(model.intercept_, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("model", [AESVC(gamma=0.5), AENuSVC(nu=0.2, gamma=0.5)], ids=str)
def test_equal_rows_of_two_classes_and_classes_without_weight(model, each_way):
    X, y, weights = classes(8)
    X[y == 6] = X[y == 7][:7]
    X[y == 5] = X[y == 5][0]
    weights[(y == 2) | (y == 4)] = 0.0
    if isinstance(model, AENuSVC):
        weights[y < 5] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = clone(model).set_params(decision_function_shape="ovo").fit(X, y, weights)
    apart = one_by_one(model.set_params(decision_function_shape="ovo"), X, y, weights)
    assert_allclose(together.decision_function(X), apart.decision_function(X), atol=5e-3)
    assert np.isfinite(together.dual_coef_).all()
    ours, theirs = TrainedOn.of(together).records, TrainedOn.of(apart).records
    assert_array_equal(ours["n_rows"], theirs["n_rows"])
    assert ours["proven"].all()


def test_neither_threads_nor_the_cache_change_anything(monkeypatch):
    monkeypatch.setattr(class_bundles, "BUNDLE_ROWS", 24)  # all pairs have fewer rows
    X, y, weights = classes()
    models = [
        AESVC(gamma=0.5, n_jobs=n_jobs, cache_size=size).fit(X, y, weights)
        for n_jobs, size in ((1, 200), (3, 200), (1, 0), (3, 0.006))
    ]
    for model in models[1:]:
        assert_array_equal(model.dual_coef_, models[0].dual_coef_)
        assert_array_equal(model.intercept_, models[0].intercept_)
        assert model.certificate_ == models[0].certificate_


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_working_sets_give_the_same_on_any_threads_and_with_any_cache(kernel, monkeypatch):
    monkeypatch.setattr(class_bundles, "BUNDLE_ROWS", 16)
    monkeypatch.setattr(small_working_sets, "WORKING_SET", 8)
    X, y, weights = classes()
    one, *others = [
        AESVC(kernel=kernel, gamma=0.5, tol=1e-6, n_jobs=n_jobs, cache_size=size).fit(X, y, weights)
        for n_jobs, size in ((1, 200), (3, 200), (1, 0), (3, 0.003))
    ]
    assert_array_equal(others[0].dual_coef_, one.dual_coef_)
    assert_array_equal(others[0].intercept_, one.intercept_)
    for model in others[1:]:  # kernel values within classes come out of other products
        assert_allclose(model.dual_objective_, one.dual_objective_, rtol=1e-6)
        assert_allclose(model.decision_function(X), one.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_pairs_of_hundreds_of_rows_are_solved_as_svc_solves_them(kernel):
    rng = np.random.default_rng(0)
    y: np.ndarray = np.arange(1200) % 4
    X = 1.2 * rng.normal(size=(4, 3))[y] + rng.normal(size=(1200, 3))
    parameters = {"kernel": kernel, "gamma": 0.5, "tol": 1e-6, "decision_function_shape": "ovo"}
    model, theirs = AESVC(refine="exact", **parameters), SVC(**parameters)
    values = theirs.fit(X, y).decision_function(X)
    assert_allclose(model.fit(X, y).decision_function(X), values, atol=1e-3)
    assert (model.kkt_violation_ <= 1e-6).all()
    assert model.certificate_.exact


def test_pairs_that_are_small_and_others_stand_side_by_side(monkeypatch):
    X, y, weights = classes()
    model = AESVC(gamma=0.5, tol=1e-7, decision_function_shape="ovo")
    whole = clone(model).fit(X, y, weights)
    monkeypatch.setattr(small_pairs, "MOST_ROWS", 11)
    mixed = clone(model).fit(X, y, weights)
    assert_allclose(mixed.decision_function(X), whole.decision_function(X), atol=1e-4)
    assert_allclose(mixed.dual_objective_, whole.dual_objective_, rtol=1e-6)
    assert mixed.certificate_.objective == pytest.approx(whole.certificate_.objective, rel=1e-6)
    assert mixed.certify(X, y, weights).proven


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid", "precomputed", "sparse"])
def test_pairs_larger_than_a_bundle_are_small_where_compiled_code_has_the_kernel(
    kernel, monkeypatch
):
    monkeypatch.setattr(class_bundles, "BUNDLE_ROWS", 6)
    X, y, _ = classes()
    found = []

    class Noted(small_pairs.SmallPairs):
        def __init__(self, *args):
            super().__init__(*args)
            found.append(len(self.numbers))

    monkeypatch.setattr(small_pairs, "SmallPairs", Noted)
    if kernel == "precomputed":
        X = oracles.kernel(X, gamma=0.1)
    if kernel == "sparse":  # and too large to be made dense
        X = sp.csr_array(X)
        monkeypatch.setattr(small_pairs, "_DENSE_BYTES", 0)
    AESVC(kernel="rbf" if kernel == "sparse" else kernel, gamma=0.1, refine="exact").fit(X, y)
    n_rows = [i + j for i in range(1, 13) for j in range(1, i)]
    has_kernel = kernel not in ("precomputed", "sparse")
    assert found == [sum(n <= (24 if has_kernel else 6) for n in n_rows)]


def test_few_sparse_rows_give_the_model_of_dense_ones():
    X, y, weights = classes()
    model = AESVC(gamma=0.5, decision_function_shape="ovo")
    dense = clone(model).fit(X, y, weights)
    sparse = clone(model).fit(sp.csr_array(X), y, weights)
    assert_array_equal(sparse.dual_coef_.toarray(), dense.dual_coef_)
    assert_array_equal(sparse.intercept_, dense.intercept_)


def test_batches_that_are_not_held_together_give_the_same_models(monkeypatch):
    X, y, weights = classes()
    together = AESVC(gamma=0.5).fit(X, y, weights)
    monkeypatch.setattr(small_pairs, "_TOGETHER", 1)
    apart = AESVC(gamma=0.5).fit(X, y, weights)
    assert_array_equal(apart.dual_coef_, together.dual_coef_)
    assert_array_equal(apart.intercept_, together.intercept_)


def test_max_iter_ends_each_pair(each_way):
    X, y, _ = classes()
    with pytest.warns(UserWarning, match="max_iter=2"):
        model = AESVC(gamma=0.5, C=1e3, max_iter=2).fit(X, y)
    assert model.fit_status_ == 1
    assert model.n_iter_.max() == 2


def test_a_duality_gap_is_aimed_at_where_it_is_asked_for(each_way):
    X, y, _ = classes()
    model = AESVC(gamma=0.5, C=100.0, tol=0.03).fit(X, y)
    assert TrainedOn.of(model).records.relative_gaps().max() > 1e-2
    model.set_params(refine="exact").fit(X, y)
    assert TrainedOn.of(model).records.relative_gaps().max() <= 1.01e-3
    assert model.fit_status_ == 0


def test_a_fit_that_is_over_has_a_model_of_every_pair(each_way):
    X, y, _ = classes()
    whole = AESVC(gamma=0.5).fit(X, y)
    model = AESVC(gamma=0.5).set_callbacks(TimeLimit(0.0)).fit(X, y)
    assert (model.n_iter_ > 0).all()
    assert model.n_iter_.sum() < 0.7 * whole.n_iter_.sum()
    assert (model.predict(X) == whole.predict(X)).mean() > 0.7


def test_certificates_of_compressed_pairs_can_be_had():
    X, y, weights = classes(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AESVC(gamma=0.5).fit(X, y, weights)
        small = model.compress(len(model.support_))
        certificate = small.certify(X, y, weights)
    assert certificate.objective >= model.certificate_.dual_objective
    assert certificate.dual_objective <= model.certificate_.objective


def test_a_model_keeps_of_pairs_no_more_than_numbers_and_support_vectors():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 2)), np.arange(4000) % 80
    model = AESVC(gamma=0.5, C=1e-3).fit(X + 8.0 * rng.normal(size=(80, 2))[y], y)
    terms = int(np.count_nonzero(model.dual_coef_))
    n_pairs = len(model.intercept_)
    assert len(pickle.dumps(model)) <= 8 * model.dual_coef_.size + 16 * terms + 600 * n_pairs + 1e6


@pytest.mark.parametrize("n_classes", [3, 7])
def test_votes_are_those_of_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    values = rng.integers(-2, 3, (50, n_classes * (n_classes - 1) // 2)) * 0.5
    wanted = _ovr_decision_function(values < 0, -values, n_classes)
    assert_allclose(one_vs_one.one_vs_rest(values, n_classes), wanted, rtol=1e-12)
    votes = np.zeros((50, n_classes), dtype=int)
    for pair, (i, j) in enumerate(zip(*problem.pair_classes(n_classes), strict=True)):
        votes[np.arange(50), np.where(values[:, pair] > 0, i, j)] += 1
    for order in "CF":  # the values of a row one after another, or those of a pair
        winners = one_vs_one.winners(np.asarray(values, order=order), n_classes)
        assert_array_equal(winners, votes.argmax(axis=1))


def test_gaps_count_the_rounding_of_sums(each_way):
    X, y, weights = classes()
    model = AESVC(C=1e-100).fit(X, y, weights)
    certificate = model.certificate_
    assert certificate.proven
    assert certificate.relative_gap >= np.finfo(float).eps
    records = TrainedOn.of(model).records
    eps, n_rows = np.finfo(float).eps, records["n_rows"]
    assert (records.relative_gaps()[n_rows > 0] >= eps).all()
