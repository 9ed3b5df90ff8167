"""Many classes of rows elsewhere: small pairs together, against one by one and rows in memory."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import aesvm
from aesvm import AESVC, AENuSVC
from aesvm.estimators.trained import TrainedOn
from aesvm.machines import small_pairs
from aesvm.machines.one_vs_one import ClassPairs
from aesvm.out_of_core import looks, many_pairs, merge_tree, reread
from aesvm.out_of_core.looks import STEPS, PartLook, PartLooks


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(small_pairs, "FEWEST_PAIRS", 2)
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 40)


def classes(n_classes=8, n_features=2, seed=0, least=1):
    """Overlapping classes of one row to some thirty, and weights."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), least + 4 * np.arange(n_classes))
    centers = 1.5 * rng.normal(size=(n_classes, n_features))
    X = centers[y] + 0.5 * rng.normal(size=(len(y), n_features))
    order = rng.permutation(len(y))
    return X[order], y[order], rng.uniform(0.3, 2.0, len(y))


def chunks_of(X, y, weights, n_chunks=5):
    places = np.array_split(np.arange(len(y)), n_chunks)
    return [(X[at], y[at], weights[at]) for at in places]


def streamed(model, chunks, source):
    model = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if source:
            return model.fit_stream(chunks)
        for X, y, weights in chunks:
            model.partial_fit(X, y, classes=np.arange(8), sample_weight=weights)
        return model.partial_fit()


def one_by_one(model, chunks, source):
    """The same with no pair small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_pairs, "MOST_ROWS", 0)
        return streamed(model, chunks, source)


MODELS = [
    AESVC(gamma=0.5, tol=1e-7, refine=0, hull_tol=1e-6),
    AESVC(gamma=0.5, C=30.0, tol=1e-7, refine=0, hull_tol=0.1, class_weight={3: 2.0}),
    AESVC(kernel="linear", tol=1e-7, refine=0, hull_tol=0.5),
    AENuSVC(nu=0.3, gamma=0.5, tol=1e-7, refine=0, hull_tol=0.1),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("source", [True, False], ids=["source", "chunks"])
def test_a_set_trains_pairs_together_as_one_by_one(model, source):
    X, y, weights = classes()
    if isinstance(model, AENuSVC):  # whose pairs must not differ too much in weight
        X, y, weights = X[y > 3], y[y > 3], np.ones(np.count_nonzero(y > 3))
    chunks = chunks_of(X, y, weights)
    together, apart = streamed(model, chunks, source), one_by_one(model, chunks, source)
    assert_allclose(together.dual_objective_, apart.dual_objective_, rtol=1e-5, atol=1e-8)
    values = apart.decision_function(X)
    assert_allclose(together.decision_function(X), values, atol=1e-4 * np.abs(values).max())
    ours, theirs = TrainedOn.of(together), TrainedOn.of(apart)
    assert ours.n_solved == theirs.n_solved
    reduced = theirs.accounts["max_residual"].max() > 0
    assert reduced == (model.hull_tol > 1e-6)
    proven = "loss", "dual_objective", "violators", "proof_rounding", "proven"
    for name, column in theirs.accounts.columns.items():
        if reduced or name not in proven:
            assert_allclose(ours.accounts[name], column, rtol=1e-4, atol=1e-4, err_msg=name)


def test_what_is_known_of_a_set_is_known_of_all_rows_where_each_stands_for_itself():
    X, y, weights = classes()
    model = AESVC(gamma=0.5, tol=1e-6, refine=0, hull_tol=1e-6)
    certificate = streamed(model, chunks_of(X, y, weights), True).certificate_
    whole = clone(model).set_params(refine="exact").fit(X, y, weights).certificate_
    assert certificate.exact
    assert certificate.proven
    assert certificate.objective == pytest.approx(whole.objective, rel=1e-4)
    assert certificate.dual_objective <= certificate.objective


@pytest.mark.parametrize("refine", [1, 2, "auto"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_where_every_pair_is_small_all_rows_are_gathered_instead_of_rounds(refine, sparse):
    X, y, weights = classes()
    X, y, weights = np.tile(X, (2, 1)), np.tile(y, 2), np.tile(weights, 2)
    X = sp.csr_array(X) if sparse else X
    model = AESVC(gamma=0.5, tol=1e-6, refine=refine, hull_tol=0.05)
    found = streamed(model, chunks_of(X, y, weights), True)
    whole = clone(model).set_params(refine="exact").fit(X, y, weights)
    assert found.certificate_.exact
    assert found.certificate_.n_rows == len(y)
    assert TrainedOn.of(found).n_solved == len(y) // 2  # equal rows as one
    assert_allclose(found.dual_objective_, whole.dual_objective_, rtol=1e-4)
    assert_allclose(found.decision_function(X), whole.decision_function(X), atol=1e-2)
    # another training, on the set that is held, would be a step back
    support = found.support_
    assert found.partial_fit().support_ is support


def test_rows_that_the_budget_has_no_room_for_are_refined_by_rounds(monkeypatch):
    X, y, weights = classes(least=20)
    chunks = chunks_of(X, y, weights)
    model = AESVC(gamma=0.5, tol=1e-6, refine=1, hull_tol=0.05, memory_budget=10**6)
    monkeypatch.setattr(many_pairs, "_ROOM", 1000.0)
    gathered = []
    monkeypatch.setattr(reread.RereadSource, "gather", lambda *_: gathered.append(1))
    found = streamed(model, chunks, True)
    assert not gathered
    assert found.certificate_.rounds == 1
    whole = clone(model).set_params(refine="exact").fit(X, y, weights)
    assert found.certificate_.objective <= 1.1 * whole.certificate_.objective


def test_classes_that_a_stream_has_not_shown_are_constant():
    X, y, weights = classes(least=3)
    keep = y != 4
    model = AESVC(gamma=0.5, tol=1e-6, hull_tol=1e-8, decision_function_shape="ovo")
    for chunk in chunks_of(X[keep], y[keep], weights[keep]):
        model.partial_fit(chunk[0], chunk[1], classes=np.arange(8), sample_weight=chunk[2])
    model.partial_fit()
    without = clone(model).fit(X[keep], y[keep], weights[keep])
    pairs = [(i, j) for i in range(8) for j in range(i + 1, 8)]
    have = [number for number, pair in enumerate(pairs) if 4 not in pair]
    values = model.decision_function(X)
    assert_allclose(values[:, have], without.decision_function(X), atol=1e-2)
    missing = np.delete(values, have, axis=1)
    assert_array_equal(missing, np.tile(missing[0], (len(X), 1)))
    assert not (model.predict(X) == 4).any()


def test_a_stream_goes_on_from_a_file(tmp_path):
    X, y, weights = classes()
    first, *others = chunks_of(X, y, weights)
    model = AESVC(gamma=0.5, tol=1e-6).partial_fit(*first[:2], classes=np.arange(8))
    model.save(tmp_path / "model")
    again = aesvm.load(tmp_path / "model")
    for one in (model, again):
        for chunk in others:
            one.partial_fit(*chunk[:2])
        one.partial_fit()
    assert_allclose(again.decision_function(X), model.decision_function(X))


def test_pairs_are_made_as_they_are_asked_for():
    names = np.array(["a", "b", "c", "d"])
    pairs = ClassPairs(names, np.arange(4), np.arange(4.0))
    assert len(pairs) == 6
    assert [one.classes for one in pairs] == [
        ("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d"),
    ]  # fmt: skip
    assert pairs[4].costs == (1.0, 3.0)
    assert pairs[4].n_rows == 4


def test_a_look_is_no_larger_than_its_rows_ask_for():
    rng = np.random.default_rng(0)
    each = []
    for number in range(200):
        sums = np.zeros((1, 2, STEPS + 2, 2))
        sums[0, rng.integers(0, 2, 5), rng.integers(0, STEPS + 2, 5)] = rng.normal(size=(5, 2))
        each.append((number, PartLook(sums, np.zeros(1), 0.5, 3, 40, 1, 1.0)))
    found = PartLooks.of(each)
    n_bytes = len(pickle.dumps(looks.merged_looks([found, found, found])))
    assert n_bytes <= 200 * (64 + 5 * 18) + 2000
    assert found.one(200) is None
    for number, look in each:
        loss = look.losses((0.3,))
        assert_allclose(found.one(number).losses((0.3,)), loss, rtol=1e-12, atol=1e-12)
