"""Streams with ``max_vectors``: passes over a source solve the SVM of all rows in a span."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning

from aesvm import AESVC, AESVR, AENuSVC, AEOneClassSVM, TimeLimit
from aesvm.estimators import streams
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import OneClass
from aesvm.formulations.tube import Tube
from aesvm.out_of_core import gathered_training, merge_tree
from aesvm.out_of_core.gathered_training import SET_BYTES
from tests import oracles
from tests.bases.spans import solved_in_one_place
from tests.out_of_core.test_rounds_of_sources import Source, chunks_of, objective, some_weights
from tests.runtime.test_progress import Recorder

HULL_TOL, VECTORS = 1e-2, 30


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 500)


def moons(n=3000):
    return make_moons(n, noise=0.3, random_state=0)


def svc(**parameters):
    return AESVC(**{"gamma": 2.0, "hull_tol": HULL_TOL, "max_vectors": VECTORS, **parameters})


def vectors_of(model, X):
    """The support vectors, which are rows of X."""
    vectors = model.support_vectors_
    rows = X[model.support_]
    assert (rows != vectors).sum() == 0
    return vectors.toarray() if sp.issparse(vectors) else vectors


@pytest.mark.parametrize("how", ["plain", "weights", "sparse", "single precision"])
def test_two_classes_are_solved_as_in_one_place(how):
    X, y = moons()
    dense = np.where(np.abs(X) < 0.2, 0.0, X) if how == "sparse" else X
    given = {"sparse": sp.csr_array(dense), "single precision": X.astype(np.float32)}.get(how, X)
    weights = some_weights(len(y)) if how == "weights" else None
    source = Source(chunks_of(given, y, weights))
    model = svc().fit_stream(source)
    assert 4 < source.n_passes < 20
    vectors = vectors_of(model, given)
    assert 0 < len(vectors) <= VECTORS
    bounds = np.ones(len(y)) if weights is None else weights
    used = bounds > 0
    signs = np.where(y == 1, 1.0, -1.0)
    best = solved_in_one_place(
        dense[used], signs[used], bounds[used], vectors, Hinge(), gamma=model.gamma_
    )
    certificate = model.certificate_
    assert certificate.objective == pytest.approx(best.objective, rel=1e-3)
    assert objective(model, dense, y, weights) == pytest.approx(certificate.objective, rel=1e-4)
    there = best.scores + best.offsets[0] > 0
    assert ((model.predict(given[used]) == 1) == there).mean() > 0.995
    assert certificate.n_vectors == len(vectors)
    assert certificate.n_solved == certificate.n_rows == len(y)
    assert certificate.max_residual == 0.0
    assert certificate.reduced_objective == certificate.objective
    assert certificate.gap is None
    assert "not in one place" in certificate.missing["gap"]
    again = model.certify_stream(chunks_of(given, y, weights, size=801))
    assert again.objective == pytest.approx(certificate.objective, rel=1e-4)


def test_three_classes_share_vectors_and_each_pair_is_solved():
    X, y = make_blobs(3000, centers=3, cluster_std=2.0, random_state=0)
    X = X / 6.0
    model = svc(max_vectors=45).fit_stream(chunks_of(X, y))
    vectors = vectors_of(model, X)
    assert len(vectors) <= 45
    of_class = np.repeat(np.arange(3), model.n_support_)
    total = 0.0
    votes = np.zeros((len(y), 3))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        here, own = (y == i) | (y == j), (of_class == i) | (of_class == j)
        signs = np.where(y[here] == i, 1.0, -1.0)
        found = solved_in_one_place(
            X[here], signs, np.ones(here.sum()), vectors[own], Hinge(), gamma=2.0
        )
        total += found.objective
        whole = oracles.kernel(X, vectors[own], gamma=2.0) @ found.coefs + found.offsets[0]
        votes[np.arange(len(y)), np.where(whole > 0, i, j)] += 1
    assert model.certificate_.objective == pytest.approx(total, rel=1e-3)
    assert objective(model, X, y) == pytest.approx(model.certificate_.objective, rel=1e-4)
    assert (model.predict(X) == votes.argmax(axis=1)).mean() > 0.995


def values(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def test_values_and_supports_are_solved_as_in_one_place():
    X, y = values()
    model = AESVR(gamma=1.0, C=5.0, hull_tol=HULL_TOL, max_vectors=VECTORS)
    model.fit_stream(chunks_of(X, y))
    tube = Tube(0.1, float(y.std()))
    best = solved_in_one_place(X, y, np.full(len(y), 5.0), vectors_of(model, X), tube, gamma=1.0)
    assert model.certificate_.objective == pytest.approx(best.objective, rel=1e-3)
    off = model.predict(X) - best.scores - best.offsets[0]
    assert np.sqrt(np.mean(off**2)) < 0.02 * y.std()

    model = AEOneClassSVM(gamma=1.0, nu=0.2, hull_tol=HULL_TOL, max_vectors=VECTORS)
    model.fit_stream([(rows, None, None) for rows, _, _ in chunks_of(X, y)])
    one = np.ones(len(X))
    best = solved_in_one_place(X, one, one, vectors_of(model, X), OneClass(0.2), gamma=1.0)
    assert model.certificate_.objective == pytest.approx(best.objective, rel=1e-3)
    # scores of uniform rows are flat: a thousandth of the objective moves a few of a hundred labels
    there = best.scores + best.offsets[0] > 0
    assert ((model.predict(X) == 1) == there).mean() > 0.9


def test_the_set_of_all_rows_needs_no_passes():
    X, y = moons(1000)
    source = Source(chunks_of(X, y))
    model = svc(hull_tol=0.0).fit_stream(source)
    here = svc().fit(X, y)
    assert source.n_passes == 1
    assert_allclose(model.decision_function(X), here.decision_function(X), atol=1e-6)
    assert model.certificate_.objective == pytest.approx(here.certificate_.objective, rel=1e-6)


def test_little_is_held_where_passes_follow(monkeypatch):
    """What the set may take is bounded, and a sample of it is enough to begin with."""
    X, y = moons()
    budget = 800 * (2 * 8 + 3 * 8)
    monkeypatch.setattr(streams, "SET_BYTES", float(budget))
    monkeypatch.setattr(gathered_training, "_MOST", 400)
    monkeypatch.setattr(gathered_training, "_FOR_EACH", 1)
    assert budget < SET_BYTES
    model = svc(hull_tol=1e-6).fit_stream(chunks_of(X, y))
    tree = model._stream_.stream.tree
    assert tree.sampled
    assert tree.n_bytes <= budget
    assert len(model.representative_set_.sample_indices_) <= 400
    best = solved_in_one_place(
        X, np.where(y == 1, 1.0, -1.0), np.ones(len(y)), vectors_of(model, X), Hinge(), gamma=2.0
    )
    assert model.certificate_.objective == pytest.approx(best.objective, rel=1e-3)
    assert model.certificate_.max_residual == 0.0


def test_a_source_that_is_read_once_gives_the_model_of_its_set():
    X, y = moons()
    model = svc().fit_stream(iter(chunks_of(X, y)))
    certificate = model.certificate_
    assert certificate.objective is None
    assert certificate.max_residual > 0.0
    assert certificate.n_solved == len(model.representative_set_.sample_indices_) < len(y)
    text = str(certificate)
    assert f"\n  in the span of {VECTORS} vectors, representatives alone: " in text
    assert "\n  objective on representatives " in text
    X_set, y_set, weights = model.representative_set_.select()
    own = objective(model, X_set, y_set, weights)
    assert certificate.reduced_objective == pytest.approx(own, rel=1e-6)
    certified = model.certify_stream(chunks_of(X, y))
    assert certified.objective == pytest.approx(objective(model, X, y), rel=1e-4)
    passes = svc().fit_stream(chunks_of(X, y))
    assert passes.certificate_.objective < certified.objective


def test_partial_fit_trains_on_the_set_in_a_span():
    X, y = moons()
    model = svc()
    for rows, classes, _ in chunks_of(X, y):
        model.partial_fit(rows, classes, classes=[0, 1])
    model.partial_fit()
    assert model.n_seen_ == len(y)
    assert 0 < len(model.support_) <= VECTORS
    assert model.score(X, y) > 0.9
    after = pickle.loads(pickle.dumps(model)).partial_fit(X[:100], y[:100]).partial_fit()
    assert after.n_seen_ == len(y) + 100


def test_a_stream_goes_on_after_passes():
    X, y = moons()
    model = svc().fit_stream(chunks_of(X, y))
    values = model.decision_function(X)
    model.partial_fit()  # nothing new: the model of all rows stays
    assert_array_equal(model.decision_function(X), values)
    model.partial_fit(X + 0.01, y).partial_fit()
    assert model.n_seen_ == 2 * len(y)
    assert len(model.support_) <= VECTORS


def test_threads_change_nothing():
    X, y = moons()
    one, two = (svc(n_jobs=n_jobs).fit_stream(chunks_of(X, y)) for n_jobs in (1, 2))
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert_array_equal(one.intercept_, two.intercept_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"refine": 2}, r"max_vectors=30 trains on all rows, and refine=2"),
        ({"refine": 0}, r"max_vectors=30 trains on all rows, and refine=0"),
        ({"kernel": "sigmoid"}, r"max_vectors=30 needs a positive semidefinite kernel"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_row_is_read(parameters, message):
    X, y = moons(200)
    source = Source(chunks_of(X, y))
    with pytest.raises(ValueError, match=message):
        svc(**parameters).fit_stream(source)
    assert source.n_passes == 0
    with pytest.raises(ValueError, match=message):
        svc(**parameters).partial_fit(X, y, classes=[0, 1])


def test_a_source_that_changes_is_noticed():
    X, y = moons()
    other = chunks_of(X + 0.5, y)
    with pytest.raises(ValueError, match=r"source gave 3,000 rows at first, and not the same"):
        svc().fit_stream(Source(chunks_of(X, y), chunks_of(X, y), other))


def test_passes_are_reported_and_told(capsys):
    X, y = moons()
    recorder = Recorder()
    svc(verbose=1).set_callbacks(recorder).fit_stream(chunks_of(X, y))
    assert recorder.begun == recorder.ended
    told = re.findall(
        r"\[AESVC\] pass (\d+): objective [\d.]+, [01] of 1 SVM left", capsys.readouterr().out
    )
    assert told == [str(at + 1) for at in range(len(told))]
    assert recorder.begun["pass"] == len(told) > 2
    assert recorder.begun["passes"] == 1


@pytest.mark.parametrize("estimator", [svc(), AENuSVC(gamma=2.0, nu=0.3, max_vectors=VECTORS)])
def test_a_time_limit_ends_passes_with_the_best_that_was_seen(estimator):
    X, y = moons()
    estimator.set_params(hull_tol=HULL_TOL)
    looked = iter(range(10**9))
    unlimited = TimeLimit(10**8, clock=lambda: float(next(looked)))
    estimator.set_callbacks(unlimited).fit_stream(chunks_of(X, y))
    n_looks, best = next(looked), estimator.certificate_.objective
    found = []
    for n_left in (n_looks // 2, 40, 20):
        looked = iter(range(10**9))
        limit = TimeLimit(n_looks - n_left, clock=lambda looked=looked: float(next(looked)))
        with pytest.warns(ConvergenceWarning, match=r"ended the fit before it was done"):
            estimator.set_callbacks(limit).fit_stream(chunks_of(X, y))
        assert estimator.score(X, y) > 0.85
        if estimator.certificate_.objective is not None:
            assert estimator.certificate_.objective >= best - 1e-9 * abs(best)
            found.append(estimator.certificate_.objective)
    assert found == sorted(found, reverse=True)
    assert found
