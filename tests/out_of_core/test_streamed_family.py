"""Streams of every estimator: their sets, models and certificates, against the exact SVMs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVR, NuSVC, NuSVR, OneClassSVM

from aesvm import AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.kernels.gamma import Moments
from aesvm.kernels.joint import TargetScale
from aesvm.out_of_core import merge_tree
from tests import oracles

OURS = {
    "AESVR": AESVR(C=5.0, gamma=1.0),
    "AENuSVR": AENuSVR(C=5.0, nu=0.3, gamma=1.0),
    "AENuSVC": AENuSVC(nu=0.2, gamma=1.0),
    "AEOneClassSVM": AEOneClassSVM(nu=0.1, gamma=1.0),
}
THEIRS = {
    "AESVR": SVR(C=5.0, gamma=1.0, tol=1e-5),
    "AENuSVR": NuSVR(C=5.0, nu=0.3, gamma=1.0, tol=1e-5),
    "AENuSVC": NuSVC(nu=0.2, gamma=1.0, tol=1e-5),
    "AEOneClassSVM": OneClassSVM(nu=0.1, gamma=1.0, tol=1e-5),
}
EACH = pytest.mark.parametrize("name", OURS)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 400)


def problem(name, n=1500, seed=0):
    """Rows, and targets of the kind that an estimator learns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    values = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    return X, (values > 0.4).astype(int) if name == "AENuSVC" else values


def some_weights(n=1500, seed=1):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 2.0, n)
    weights[rng.uniform(size=n) < 0.1] = 0.0
    return weights


def chunks(X, y, weights=None, size=350):
    parts = [slice(at, at + size) for at in range(0, X.shape[0], size)]
    return [(X[at], y[at], None if weights is None else weights[at]) for at in parts]


def quietly(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit()


def streamed(model, source):
    """A stream of partial_fit."""
    classes = {"classes": [0, 1]} if isinstance(model, AENuSVC) else {}
    for X, y, weights in source:
        model.partial_fit(X, y, sample_weight=weights, **classes)
    return model.partial_fit()


def objective(name, model, X, y, weights, offsets=None):
    """F over all rows, from the formulas, in double precision."""
    coefs, vectors = model.dual_coef_, model.support_vectors_
    if sp.issparse(X):
        X, coefs = X.toarray(), coefs.toarray()
    coefs, b = coefs.ravel(), model.intercept_[0]
    norm = coefs @ oracles.kernel(vectors) @ coefs
    values = oracles.kernel(X, vectors) @ coefs + b
    costs = weights * getattr(model, "C", 1.0) if name in ("AESVR", "AENuSVR") else weights
    total = costs.sum()
    if name == "AESVR":
        return 0.5 * norm + costs @ np.maximum(0.0, np.abs(values - y) - 0.1)
    if name == "AENuSVR":
        away = np.abs(values - y)
        widths = away if offsets is None else [0.5 * sum(offsets)]
        losses = [0.3 * total * at + costs @ np.maximum(0.0, away - at) for at in widths]
        return 0.5 * norm + min(losses)
    if name == "AENuSVC":
        # both kinds of model are divided by rho, and their multipliers came to nu
        rho = 0.2 * total / np.abs(coefs).sum() if offsets is None else -0.5 * sum(offsets)
        margins = rho * np.where(y == 1, 1.0, -1.0) * values
        return 0.5 * rho**2 * norm - 0.2 * total * rho + costs @ np.maximum(0.0, rho - margins)
    return 0.5 * norm + 0.1 * total * b + costs @ np.maximum(0.0, -values)


def offsets_of(model):
    return tuple(model._trained_on_["records"]["offsets"][0])


def far(name, model, exact, X, dense):
    """How far predictions are from others: in standard deviations, or a share of the rows."""
    ours, theirs = model.predict(X), exact.predict(dense)
    if name in ("AESVR", "AENuSVR"):
        return np.sqrt(np.mean((ours - theirs) ** 2)) / theirs.std()
    return np.mean(ours != theirs)


@pytest.mark.weekly
@EACH
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("refine", [0, 2, "auto"])
def test_a_source_gives_nearly_the_exact_svm_and_a_true_certificate(name, weighted, kind, refine):
    dense, y = problem(name)
    weights = some_weights() if weighted else None
    every = np.ones(1500) if weights is None else weights
    X = kind(dense)
    exact = clone(THEIRS[name]).fit(dense, y, sample_weight=weights)
    model = clone(OURS[name]).set_params(refine=refine)
    quietly(lambda: model.fit_stream(chunks(X, y, weights)))
    assert model.n_seen_ == model.certificate_.n_rows == 1500
    assert far(name, model, exact, X, dense) < (0.06 if refine == 0 else 0.03)
    certificate = model.certify_stream(chunks(X, y, weights, 700))
    own = objective(name, model, X, y, every, offsets_of(model))
    assert certificate.objective == pytest.approx(own, rel=1e-4)
    least = objective(name, exact, dense, y, every)
    assert own >= least - 1e-3 * abs(least)
    if refine:
        assert own <= least + 0.02 * abs(least)
    bound = certificate.reduced_objective + certificate.theorem_2_bound
    assert own <= bound + 1e-4 * abs(bound)  # training sums in single precision


@EACH
@pytest.mark.parametrize("weighted", [False, True])
def test_calls_of_partial_fit_give_the_model_of_the_source(name, weighted):
    X, y = problem(name)
    source = chunks(X, y, some_weights() if weighted else None)
    whole = clone(OURS[name]).set_params(refine=0, tol=1e-5).fit_stream(source)
    model = streamed(clone(OURS[name]).set_params(refine=0, tol=1e-5), source)
    for one, other in zip(model.select(), whole.select(), strict=True):
        assert_array_equal(one, other)
    assert_array_equal(model.support_vectors_, X[model.support_])
    values = "predict" if name in ("AESVR", "AENuSVR") else "decision_function"
    # what a model begins from decides which of two near optima it ends at
    mine, theirs = getattr(model, values)(X), getattr(whole, values)(X)
    assert np.abs(mine - theirs).max() <= 0.02 * np.abs(theirs).max()
    assert model.certificate_.reduced_objective == pytest.approx(
        whole.certificate_.reduced_objective, rel=1e-4
    )
    assert np.isfinite(model.certify_stream(source).objective)


@EACH
def test_every_row_is_as_near_to_the_set_as_is_said(name):
    """In the joint space, where targets count as well, by least squares."""
    X, y = problem(name, 600)
    model = clone(OURS[name]).set_params(refine=0, hull_tol=1e-2).fit_stream(chunks(X, y, size=150))
    _, targets, weights = model.select()
    bound = model.representative_set_.max_residual_
    assert bound <= 1e-2 * (1 + 1e-9)
    assert weights.sum() == pytest.approx(600, rel=1e-12)
    chosen = model.representative_set_.sample_indices_
    K = oracles.kernel(X)
    groups = y if name == "AENuSVC" else np.zeros(600)
    if name in ("AESVR", "AENuSVR"):
        assert_array_equal(targets, y[model._stream_.stream.tree.everything().indices])
        scaled = model._stream_.stream.scale.scaled(y)
        K = K + np.outer(scaled, scaled)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        members = np.flatnonzero(np.isin(own, chosen))
        others = np.flatnonzero(~np.isin(own, chosen))
        distances = oracles.hull_distances(K[np.ix_(own, own)], others, members)
        assert distances.max(initial=0.0) <= bound + 1e-6


@EACH
def test_chunks_without_weight_teach_nothing(name):
    X, y = problem(name)
    source = chunks(X, y)
    without = [(X[:200] + 9.0, y[:200], np.zeros(200)), *source]
    whole = clone(OURS[name]).set_params(refine=1)
    quietly(lambda: whole.fit_stream(source))
    model = clone(OURS[name]).set_params(refine=1)
    quietly(lambda: model.fit_stream(without))
    assert model.n_seen_ == 1700
    assert far(name, model, whole, X, X) < 0.02
    alone = clone(OURS[name])
    classes = {"classes": [0, 1]} if name == "AENuSVC" else {}
    rows, targets, weights = without[0]
    alone.partial_fit(rows, targets, sample_weight=weights, **classes)
    with pytest.raises(NotFittedError):
        alone.predict(X)
    with pytest.raises(ValueError, match=r"no row of non-zero sample_weight|rows of 0 class"):
        alone.partial_fit()
    assert streamed(alone, source).n_seen_ == 1700


@EACH
def test_a_budget_is_kept_or_the_fit_refused(name):
    X, y = problem(name, 3000)
    model = clone(OURS[name]).set_params(refine=0, memory_budget=30_000)
    with pytest.raises(ValueError, match="memory_budget=30,000 bytes cannot hold"):
        clone(model).fit_stream(chunks(X, y))
    model.set_params(on_overflow="loosen")
    with pytest.warns(UserWarning, match="memory_budget=30000 cannot hold the set"):
        model.fit_stream(chunks(X, y))
    assert model._stream_.stream.tree.n_bytes <= 30_000
    assert model.select()[2].sum() == pytest.approx(3000, rel=1e-9)
    exact = clone(THEIRS[name]).fit(X, y)
    assert far(name, model, exact, X, X) < 0.4
    looser = clone(model).set_params(refine=2)
    quietly(lambda: looser.fit_stream(chunks(X, y)))
    assert far(name, looser, exact, X, X) < 0.4
    assert np.isfinite(looser.certify_stream(chunks(X, y)).objective)


@EACH
def test_a_source_that_changes_is_noticed(name):
    X, y = problem(name)

    class Changing:
        def __init__(self):
            self.n_passes = 0

        def __iter__(self):
            self.n_passes += 1
            rows = X if self.n_passes == 1 else X + 1e-9
            return iter(chunks(rows, y))

    model = clone(OURS[name]).set_params(refine=1)
    with pytest.raises(ValueError, match="must give the same chunks"):
        model.fit_stream(Changing())
    assert not hasattr(model, "support_")
    quietly(lambda: model.fit_stream(chunks(X, y)))
    known = model.certificate_
    others = y[::-1] if name != "AEOneClassSVM" else y
    with pytest.raises(ValueError, match="other rows than"):
        model.certify_stream(chunks(X[::-1], others))
    assert model.certificate_ == known


FIRST = {
    "one row": lambda y: slice(0, 1),
    "equal targets": lambda y: slice(0, 40),
    "nearly equal targets": lambda y: slice(0, 41),
    "far too large targets": lambda y: slice(0, 2),
}


@pytest.mark.parametrize("name", ["AESVR", "AENuSVR"])
@pytest.mark.parametrize("first", FIRST)
def test_a_first_chunk_does_not_decide_the_unit_of_targets(name, first):
    X, y = problem(name)
    y = y + 0.1
    y[:40] = 0.1
    y[40] = 0.1 + 1e-6
    if first == "far too large targets":
        y[:2] = -1e4, 1e4
    at = FIRST[first](y)
    source = [(X[at], y[at], None), *chunks(X[at.stop :], y[at.stop :])]
    exact = clone(THEIRS[name]).fit(X, y)
    for model in (
        clone(OURS[name]).set_params(refine=0).fit_stream(source),
        streamed(clone(OURS[name]).set_params(refine=0), source),
    ):
        scale = model._stream_.stream.scale
        assert scale.spread == pytest.approx(y.std(), rel=0.5)
        if first != "far too large targets":
            assert far(name, model, exact, X, X) < 0.1
            assert model.certificate_.n_solved < 1400
        assert model.certificate_.max_residual <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize("name", ["AESVR", "AENuSVR"])
def test_targets_that_are_all_equal_are_learned_as_that(name):
    X, _ = problem(name)
    source = chunks(X, np.full(1500, 0.1))
    for model in (
        clone(OURS[name]).fit_stream(source),
        streamed(clone(OURS[name]), source),
    ):
        assert_allclose(model.predict(X), 0.1)
        assert model._stream_.stream.scale is None
    # others that come later have their own unit
    values = 0.1 + 1e-3 * np.sin(X[:, 0])
    model.set_params(epsilon=1e-5) if name == "AESVR" else None
    for part in chunks(X, values):
        model.partial_fit(*part)
    assert model.partial_fit()._stream_.stream.scale.spread < 1e-3


def test_a_unit_that_has_grown_keeps_what_was_promised(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 100)
    X, y = problem("AESVR", 600)
    y = y * np.where(np.arange(600) < 300, 1e-2, 1.0)
    model = AESVR(gamma=1.0, refine=0, hull_tol=1e-2).fit_stream(chunks(X, y, size=100))
    scale = model._stream_.stream.scale
    assert scale.spread == pytest.approx(y.std())
    scaled = scale.scaled(y)
    K = oracles.kernel(X) + np.outer(scaled, scaled)
    members = model.representative_set_.sample_indices_
    others = np.setdiff1d(np.arange(600), members)
    distances = oracles.hull_distances(K, others, members)
    assert distances.max() <= model.representative_set_.max_residual_ + 1e-6


def test_moments_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    targets, weights = 1e6 + rng.normal(size=90), rng.uniform(size=90)
    moments = Moments()
    for part in np.array_split(np.arange(90), 7):
        moments |= Moments.of(targets[part], weights[part])
    whole = TargetScale.of(targets, weights)
    assert_allclose(TargetScale.from_moments(moments), whole)
    assert Moments.of(np.full(3001, 0.1), np.ones(3001)).all_equal
    assert TargetScale.of(np.full(3001, 0.1), np.ones(3001)).spread == pytest.approx(0.1)


def test_a_nu_that_the_first_rows_do_not_allow_waits_for_others():
    X, y = problem("AENuSVC")
    order = np.argsort(y, kind="stable")
    few = np.r_[order[:300], order[-10:]]  # with ten rows of one class, nu is at most 0.06
    model = AENuSVC(nu=0.2, gamma=1.0).partial_fit(X[few], y[few], classes=[0, 1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="nu is infeasible"):
        model.partial_fit()
    rest = np.setdiff1d(order, few)
    model.partial_fit(X[rest], y[rest])
    assert model.n_seen_ == 1500
    assert model.score(X, y) > 0.9


def test_a_nu_that_class_weights_allow_is_taken():
    X, y = problem("AENuSVC")
    keep = np.flatnonzero((y == 0) | (np.arange(1500) % 10 == 0))
    X, y = X[keep], y[keep]
    model = AENuSVC(nu=0.5, gamma=1.0, class_weight="balanced", refine=0)
    assert model.fit_stream(chunks(X, y)).score(X, y) > 0.8
    with pytest.raises(ValueError, match="nu is infeasible"):
        clone(model).set_params(class_weight=None).fit_stream(chunks(X, y))


def test_labels_that_a_round_changes_are_counted_and_not_rows_that_cross_the_margin():
    X, y = problem("AENuSVC", 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a model whose last round changed many predictions
        model = AENuSVC(nu=0.2, gamma=1.0, refine=3).fit_stream(chunks(X, y))
    before = AENuSVC(nu=0.2, gamma=1.0, refine="exact").fit(X, y)
    assert far("AENuSVC", model, before, X, X) < 0.01


@EACH
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_that_is_held_whole_is_certified_as_rows_in_memory_are(
    name, weighted, monkeypatch
):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 2000)
    X, y = problem(name)
    X, y = np.concatenate([X, X[:200]]), np.concatenate([y, y[:200]])  # equal rows, too
    weights = some_weights(len(X)) if weighted else None
    ours = clone(OURS[name]).set_params(tol=1e-4, gamma=1000.0)  # nothing stands for another row
    found = clone(ours).fit_stream(chunks(X, y, weights)).certificate_
    whole = clone(ours).set_params(refine="exact").fit(X, y, weights).certificate_
    assert found.exact
    assert found.dual_objective <= whole.objective + 1e-9 * abs(whole.objective)
    assert whole.dual_objective <= found.objective + 1e-9 * abs(whole.objective)
    assert found.relative_gap < 1e-2
