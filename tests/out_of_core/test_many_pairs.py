"""Many classes of rows elsewhere: small pairs together, against one by one and rows in memory."""

from __future__ import annotations

import pickle
import re
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import aesvm
from aesvm import AESVC, AENuSVC
from aesvm.estimators.trained import TrainedOn
from aesvm.machines import small_pairs
from aesvm.machines.problem import ClassPairs
from aesvm.machines.rounds import OverBudgetError
from aesvm.out_of_core import answers, many_pairs, merge_tree, part
from aesvm.out_of_core.part import STEPS, PartLook, PartLooks


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(many_pairs, "FEWEST_PAIRS", 2)
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
    reduced = theirs.records["max_residual"].max() > 0
    assert reduced == (model.hull_tol > 1e-6)
    proven = "loss", "dual_objective", "violators", "proof_rounding", "proven"
    for name, column in theirs.records.columns.items():
        if reduced or name not in proven:
            assert_allclose(ours.records[name], column, rtol=1e-4, atol=1e-4, err_msg=name)


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
    monkeypatch.setattr(answers.RereadSource, "gather", lambda *_: gathered.append(1))
    found = streamed(model, chunks, True)
    assert not gathered
    assert found.certificate_.rounds == 1
    whole = clone(model).set_params(refine="exact").fit(X, y, weights)
    assert found.certificate_.objective <= 1.1 * whole.certificate_.objective


#: Of ``twins``: these stand for each other in a first set, which is ten times as coarse, and no row
#: does for others at the tolerance itself.
TWINS = {"gamma": 0.2, "hull_tol": 0.2 * 0.4 * 0.05**2, "on_overflow": "loosen"}


def twins(n_classes=16, n_rows=12):
    """Classes whose rows are far apart, but for one beside each, at a distance of 0.05."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), n_rows // 2)
    X = rng.normal(size=(n_classes, 5))[y] + rng.normal(size=(len(y), 5))
    order = rng.permutation(2 * len(y))
    aside = np.array([0.03, 0.0, 0.0, 0.0, 0.04])
    return np.vstack([X, X + aside])[order], np.tile(y, 2)[order]


def bytes_of_all(X, y):
    """With the weights and places that are held beside rows and classes."""
    return X.nbytes + y.nbytes + 16 * len(y)


def fitted_and_warned(model, X, y):
    chunks = [(X[at], y[at], None) for at in np.array_split(np.arange(len(y)), 5)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = model.fit_stream(chunks)
    return model, [str(one.message) for one in warned if "round" in str(one.message)]


@pytest.mark.parametrize("share", [1.0, 1.5, 3.0, 5.0])
@pytest.mark.parametrize("refine", [1, "auto"])
def test_a_budget_that_holds_all_rows_trains_small_pairs_on_them(share, refine):
    X, y = twins()
    budget = int(share * bytes_of_all(X, y))
    model = AESVC(refine=refine, memory_budget=budget, **TWINS)
    found, warned = fitted_and_warned(model, X, y)
    assert not warned
    assert found.certificate_.exact
    assert found.certificate_.relative_gap < 1e-2


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_round_that_is_clearly_over_the_budget_is_not_begun(share, monkeypatch):
    X, y = twins()
    budget = int(share * bytes_of_all(X, y))
    looked = []
    monkeypatch.setattr(answers.RereadSource, "look", lambda *_: looked.append(1))
    model = AESVC(memory_budget=budget, **TWINS)
    found, (warned,) = fitted_and_warned(model, X, y)
    assert not looked
    assert f"memory_budget={budget:,} bytes cannot hold what a round gathers" in warned
    # what the warning names is enough
    enough = int(re.search(r"raise it to ([\d,]+) bytes", warned)[1].replace(",", ""))
    assert enough == bytes_of_all(X, y)
    found, warned = fitted_and_warned(model.set_params(memory_budget=enough), X, y)
    assert not warned
    assert found.certificate_.exact
    assert found.certificate_.gap is not None


def test_pairs_are_trained_together_where_a_round_turns_out_to_be_over_the_budget(monkeypatch):
    X, y = twins()
    monkeypatch.setattr(many_pairs, "_ROOM", 10.0)
    monkeypatch.setattr(many_pairs, "_CLEAR_EXCESS", 1000.0)
    model = AESVC(memory_budget=2 * bytes_of_all(X, y), **TWINS)
    found, (warned,) = fitted_and_warned(model, X, y)
    assert f"raise it to {10 * bytes_of_all(X, y):,} bytes" in warned
    assert found.certificate_.exact
    assert found.certificate_.gap is not None
    found, warned = fitted_and_warned(model.set_params(on_overflow="raise"), X, y)
    assert found.certificate_.exact
    assert not warned


def test_a_round_over_the_budget_is_not_warned_of_where_all_rows_are_held(monkeypatch):
    monkeypatch.setattr(many_pairs, "FEWEST_PAIRS", 100)
    X, y = twins(4, 48)
    model = AESVC(memory_budget=int(1.2 * bytes_of_all(X, y)), **TWINS)
    with pytest.MonkeyPatch.context() as patch:
        over = OverBudgetError("too much.")
        patch.setattr(answers.RereadSource, "stratify", Mock(side_effect=over))
        found, warned = fitted_and_warned(model, X, y)
    assert found.certificate_.exact
    assert not warned


def test_sparse_rows_that_are_all_held_are_all_trained_on():
    X, y = twins()
    X = sp.csr_array(X)
    chunks = [(X[at], y[at], None) for at in np.array_split(np.arange(len(y)), 5)]
    own = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes + 16 * len(y)
    model = AESVC(memory_budget=int(1.5 * own), **TWINS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = model.fit_stream(chunks).certificate_
    assert certificate.exact
    assert certificate.gap is not None


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
    n_bytes = len(pickle.dumps(part.merged_looks([found, found, found])))
    assert n_bytes <= 200 * (64 + 5 * 18) + 2000
    assert found.one(200) is None
    for number, look in each:
        loss = look.losses((0.3,))
        assert_allclose(found.one(number).losses((0.3,)), loss, rtol=1e-12, atol=1e-12)
