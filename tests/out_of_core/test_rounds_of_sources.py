"""Rounds on a source that is read again: towards the exact SVM, a few rows in memory."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons

from aesvm import AESVC
from aesvm.out_of_core import answers, merge_tree, part
from aesvm.out_of_core.merge_tree import folded
from tests import oracles
from tests.plans import set_limits, set_table
from tests.progress_bar import ProgressBar
from tests.runtime.test_progress import Recorder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 500)


class Source:
    """Chunks that may be others in each pass; the last passes are alike."""

    def __init__(self, *passes):
        self.passes, self.n_passes = passes, 0

    def __iter__(self):
        chunks = self.passes[min(self.n_passes, len(self.passes) - 1)]
        self.n_passes += 1
        yield from chunks


def chunks_of(X, y, weights=None, size=350):
    parts = [slice(at, at + size) for at in range(0, X.shape[0], size)]
    return [(X[p], y[p], None if weights is None else weights[p]) for p in parts]


def objective(model, X, y, weights=None, **kernel):
    """F1, of all pairs together, from the attributes that are SVC's."""
    kernel = kernel or {"gamma": model.gamma_}
    K = oracles.kernel(X, model.support_vectors_, **kernel)
    own = oracles.kernel(model.support_vectors_, **kernel)
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    label = np.repeat(np.arange(len(model.n_support_)), model.n_support_)
    costs = model.C * model.class_weight_[np.searchsorted(model.classes_, y)]
    costs = costs * (1.0 if weights is None else weights)
    total = 0.0
    for pair, (i, j) in enumerate(combinations(range(len(model.classes_)), 2)):
        coefs = np.where(label == i, dual[j - 1], np.where(label == j, dual[i], 0.0))
        values = K @ coefs + model.intercept_[pair]
        first, second = y == model.classes_[i], y == model.classes_[j]
        positive = second if len(model.classes_) == 2 else first
        losses = np.maximum(0.0, 1.0 - np.where(positive, 1.0, -1.0) * values)
        total += 0.5 * coefs @ own @ coefs + costs @ (losses * (first | second))
    return total


def moons(n=3000):
    return make_moons(n, noise=0.3, random_state=0)


def blobs(n=3000):
    X, y = make_blobs(n, centers=3, cluster_std=2.0, random_state=0)
    return X / 6.0, np.array(["ash", "birch", "oak"])[y]


def uneven():
    X, y = moons(4000)
    keep = (y == 0) | (np.arange(4000) % 5 == 0)
    return X[keep], y[keep]


def some_weights(n):
    rng = np.random.default_rng(0)
    return rng.uniform(0.2, 3.0, n) * (np.arange(n) >= 600) * (rng.uniform(size=n) > 0.1)


def by_class(X, y):
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def moved_and_sparse(X, y):
    return sp.csr_array(np.where(np.abs(X) < 0.2, 0.0, X)), y


HOW = {
    "two classes": (moons, {"gamma": 5.0}),
    "three classes": (blobs, {"gamma": 4.0}),
    "weights": (moons, {"gamma": 5.0}),
    "weights of three classes": (blobs, {"gamma": 4.0}),
    "balanced": (uneven, {"gamma": 2.0, "class_weight": "balanced"}),
    "sparse": (lambda: moved_and_sparse(*moons()), {"gamma": 5.0}),
    "single precision": (lambda: (moons()[0].astype(np.float32), moons()[1]), {"gamma": 5.0}),
    "one class after another": (lambda: by_class(*blobs()), {"gamma": 4.0}),
    "scale": (moons, {"gamma": "scale", "hull_tol": 3e-3}),
}


@pytest.mark.parametrize("how", HOW)
def test_rounds_come_close_to_the_exact_svm(how):
    make, parameters = HOW[how]
    parameters = {"hull_tol": 1e-2, **parameters}
    X, y = make()
    weights = some_weights(len(y)) if "weights" in how else None
    exact = AESVC(refine="exact", **parameters).fit(X, y, sample_weight=weights)
    best = objective(exact, X, y, weights)
    source = Source(chunks_of(X, y, weights))
    first = AESVC(refine=0, **parameters).fit_stream(source)
    off = objective(first, X, y, weights) - best
    assert off > 1e-4 * best
    for rounds in (2, "auto"):
        model = AESVC(refine=rounds, **parameters).fit_stream(source)
        assert objective(model, X, y, weights) - best < 0.4 * off
        assert (model.predict(X) == exact.predict(X)).mean() > 0.98
        assert model.certificate_.rounds >= 1
        assert_array_equal(model.classes_, exact.classes_)
        assert_allclose(model.class_weight_, exact.class_weight_)
        rows = X[model.support_]
        assert type(rows) is type(model.support_vectors_)
        assert (rows != model.support_vectors_).sum() == 0
        assert rows.dtype == model.support_vectors_.dtype
        assert model.shape_fit_ == X.shape


POLY = {"kernel": "poly", "gamma": 0.5, "coef0": 1.0, "degree": 2}
KERNELS = {
    "linear": ({"kernel": "linear"}, {"kernel": "linear"}, 4),
    "poly": (POLY, POLY, 2),
    "callable": ({"kernel": partial(oracles.kernel, **POLY)}, POLY, 2),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_rounds_are_for_any_kernel(kernel):
    parameters, formula, rounds = KERNELS[kernel]
    X, y = moons()
    exact = AESVC(refine="exact", **parameters).fit(X, y)
    few, more = (
        AESVC(refine=refine, **parameters).fit_stream(chunks_of(X, y)) for refine in (0, rounds)
    )
    best, first, last = (objective(model, X, y, **formula) for model in (exact, few, more))
    assert first > (1 + 5e-4) * best
    assert last - best < 0.1 * (first - best)
    assert (more.predict(X) == exact.predict(X)).mean() > 0.98


@pytest.mark.parametrize("kernel", ["rbf", "sigmoid"])
def test_rows_are_bounded_by_the_norm_where_there_is_one(monkeypatch, kernel):
    sent = []
    score = part.score
    monkeypatch.setattr(part, "score", lambda *args: sent.append(args[1]) or score(*args))
    chunks = chunks_of(*blobs())
    model = AESVC(kernel=kernel, gamma=0.1, refine=1).fit_stream(chunks)
    assert len(sent[0].machines) == 3
    for machine in sent[0].machines.values():
        K = oracles.kernel(sent[0].vectors[machine.support], gamma=0.1)
        norm = np.sqrt(machine.coefs @ K @ machine.coefs) if kernel == "rbf" else np.inf
        assert machine.norm == pytest.approx(norm, rel=1e-6)
    certificate = model.certificate_
    assert certificate.rounds == 1
    assert (certificate.kernel == "not positive semidefinite") == (kernel == "sigmoid")
    assert (certificate.theorem_2_bound is None) == (kernel == "sigmoid")


@pytest.mark.parametrize(("make", "rounds"), [(moons, 1), (moons, 2), (blobs, 1)])
def test_the_certificate_tells_of_rounds_and_bounds_the_objective_of_all_rows(make, rounds):
    X, y = make()
    weights = some_weights(len(y))
    source = Source(chunks_of(X, y, weights))
    model = AESVC(gamma=5.0, C=2.0, hull_tol=1e-2, refine=rounds).fit_stream(source)
    certificate = model.certificate_
    assert 1 <= certificate.rounds <= rounds
    # one to make the set, two for every round, and one for the last look, which is cheap here; a
    # round that does not help is undone
    passes = [1 + 2 * made + 1 for made in (certificate.rounds, certificate.rounds + 1)]
    assert source.n_passes in passes
    assert source.n_passes <= 1 + 2 * rounds + 1
    assert not certificate.exact
    assert certificate.hull_tol == 1e-2
    assert 0.0 < certificate.max_residual <= 10 * 1e-2 * (1 + 1e-9)
    assert certificate.n_rows == len(y)
    assert len(model.support_) <= certificate.n_solved <= (weights > 0).sum()
    found = objective(model, X, y, weights)
    assert certificate.objective == pytest.approx(found, rel=1e-4)
    bound = certificate.reduced_objective + certificate.theorem_2_bound
    assert found <= bound * (1 + 1e-6)
    n_pairs = len(model.intercept_)
    costs = 2.0 * max(1, n_pairs - 1) * weights.sum()
    furthest = np.sqrt(n_pairs) * certificate.norm * costs * certificate.max_residual**0.5
    assert certificate.theorem_2_bound <= furthest * (1 + 1e-6)


def same_model(one, other):
    assert_array_equal(one.support_, other.support_)
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert_array_equal(one.intercept_, other.intercept_)


def test_of_a_source_that_can_be_read_once_there_are_no_rounds():
    X, y = moons(1500)
    chunks = chunks_of(X, y)
    few = AESVC(gamma=5.0, refine=0).fit_stream(chunks)
    auto = AESVC(gamma=5.0).fit_stream(iter(chunks))
    same_model(auto, few)
    assert auto.certificate_.rounds == 0
    with pytest.raises(ValueError, match=r"refine=1 reads source again.* can be read only once"):
        auto.set_params(refine=1).fit_stream(iter(chunks))
    same_model(auto, few)


def test_a_stream_cannot_be_exact():
    chunks = chunks_of(*moons(1500))
    for source in (chunks, iter(chunks)):
        with pytest.raises(ValueError, match=r'refine="exact" needs all rows in one place'):
            AESVC(gamma=5.0, refine="exact").fit_stream(source)


CHANGED = ("fewer", "more", "none", "other order", "shorter", "sparse", "no classes", "new class")


@pytest.mark.parametrize("then", CHANGED)
@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_source_that_changes_is_refused_and_leaves_the_model_as_it_was(then, when):
    X, y = moons(2000)
    chunks = chunks_of(X, y, size=250)
    last, before_last = chunks[-1], chunks[:-1]
    others = {
        "fewer": chunks[:-2],
        "more": [*chunks, (X[:50], y[:50], None)],
        "none": [],
        "other order": chunks[::-1],
        "shorter": [*before_last, (last[0][:-5], last[1][:-5], None)],
        "sparse": [(sp.csr_array(rows), labels, None) for rows, labels, _ in chunks],
        "no classes": [(rows, None, None) for rows, _, _ in chunks],
        "new class": [*before_last, (last[0], last[1] + 5, None)],
    }[then]
    model = AESVC(gamma=5.0, refine=2, hull_tol=1e-2).fit_stream(chunks)
    before = dict(vars(model))
    with pytest.raises(
        ValueError, match=r"source gave 2,000 rows at first, and not the same when|target y is None"
    ):
        model.fit_stream(Source(*[chunks] * when, others))
    assert vars(model) == before


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_round_that_makes_it_worse_is_undone(rounds, monkeypatch):
    chunks = chunks_of(*moons(2000), size=250)
    looks = []

    def counted(self, sent, look=answers.RereadSource.look):
        looks.append(1)
        return look(self, sent)

    def worse_and_worse(self, offset):
        return offset, 1e6 * len(looks)

    monkeypatch.setattr(answers.RereadSource, "look", counted)
    monkeypatch.setattr("aesvm.out_of_core.part.PartLook.best", worse_and_worse)
    model = AESVC(gamma=5.0, refine=rounds, hull_tol=1e-2).fit_stream(chunks)
    assert len(looks) == min(rounds, 2) + 1
    assert model.certificate_.rounds == 0
    assert model.certificate_.hull_tol == model.representative_set_.hull_tol == pytest.approx(0.1)
    assert np.isin(model.support_, model.representative_set_.sample_indices_).all()


def test_a_last_round_that_is_dear_to_look_at_is_not(monkeypatch):
    monkeypatch.setattr("aesvm.machines.rounds.FREE", 0.0)
    source = Source(chunks_of(*moons(2000)))
    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(source)
    assert source.n_passes == 3
    assert model.certificate_.objective is None
    assert "certify_stream" in model.certificate_.missing["objective"]


def test_a_source_may_use_its_memory_again():
    X, y = moons(2000)

    class Reused:
        def __iter__(self):
            rows, labels = np.empty((100, 2)), np.empty(100, dtype=y.dtype)
            for at in range(0, 2000, 100):
                rows[:], labels[:] = X[at : at + 100], y[at : at + 100]
                yield rows, labels, None

    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(Reused())
    same_model(
        model, AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(chunks_of(X, y, size=100))
    )
    assert model.certify_stream(Reused()).objective == pytest.approx(
        objective(model, X, y), rel=1e-4
    )


def test_what_is_certified_is_what_the_model_was_trained_on():
    X, y = moons(2100)
    model = AESVC(gamma=5.0).partial_fit(X[:2000], y[:2000], classes=[0, 1])
    model.partial_fit(X[2000:], y[2000:])
    assert model.shape_fit_[0] == 2000
    with pytest.raises(ValueError, match="other rows than the 2,000 that the model was trained on"):
        model.certify_stream(chunks_of(X, y))
    found = model.certify_stream(chunks_of(X[:2000], y[:2000])).objective
    assert found == pytest.approx(objective(model, X[:2000], y[:2000]), rel=1e-4)
    model = AESVC(gamma=5.0, refine=1).fit_stream(chunks_of(X, y))
    with pytest.raises(ValueError, match="other rows than the 2,100"):
        model.certify_stream(chunks_of(X + 1.0, y))


def test_certifying_shows_progress_and_ends_it(capsys):
    chunks = chunks_of(*moons(1500))
    recorder = Recorder()
    model = AESVC(gamma=5.0, refine=0).fit_stream(chunks).set_callbacks(recorder, ProgressBar())
    model.certify_stream(chunks)
    assert recorder.begun == recorder.ended
    assert recorder.begun["look"] == 1
    assert recorder.torn_down
    assert "look" in capsys.readouterr().out


def test_without_new_rows_a_refined_model_stays():
    chunks = chunks_of(*moons(1500))
    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(chunks)
    support = model.support_
    assert model.partial_fit().support_ is support


def test_classes_keep_their_kind():
    X, y = moons(1500)
    for labels in (y.astype(np.int8), y.astype(bool), y.astype(np.float32)):
        model = AESVC(gamma=5.0, refine=0).fit_stream(chunks_of(X, labels))
        assert model.classes_.dtype == model.predict(X).dtype == labels.dtype


@pytest.mark.parametrize("refine", [1, np.int64(2)])
def test_a_number_of_rounds_may_be_of_any_kind(refine):
    chunks = chunks_of(*moons(1500))
    with pytest.raises(ValueError, match=f"refine={refine} reads source again"):
        AESVC(gamma=5.0, refine=refine).fit_stream(iter(chunks))
    model = AESVC(gamma=5.0, hull_tol=1e-2, refine=refine).fit_stream(chunks)
    assert 1 <= model.certificate_.rounds <= refine  # one that does not help is undone


def test_what_a_single_piece_gathers_is_held_against_the_budget(monkeypatch):
    monkeypatch.setattr("aesvm.out_of_core.merge_tree.BUFFER_ROWS", 50_000)
    X, y = moons(3000)
    small = AESVC(gamma=5.0, hull_tol=3e-2, refine=1, memory_budget=60_000)
    with pytest.raises(ValueError, match="a round gathers"):
        small.fit_stream([(X, y, None)])


def test_a_source_that_was_read_has_shown_all_classes():
    X, y = moons(1500)
    for refine in (0, 1):
        model = AESVC(gamma=5.0, refine=refine).fit_stream(chunks_of(X, y))
        with pytest.raises(ValueError, match=r"classes=\[0, 7\] were \[0, 1\]"):
            model.partial_fit(X, y, classes=[0, 7])
        with pytest.raises(ValueError, match=r"y has \[9\], which are not among classes"):
            model.partial_fit(X[:5], np.full(5, 9))


@pytest.mark.parametrize("rounds", [1, "auto"])
def test_a_budget_too_small_for_a_round_is_said(rounds):
    chunks = chunks_of(*moons())
    small = {"gamma": 5.0, "hull_tol": 1e-2, "memory_budget": "80 KB"}
    few = AESVC(refine=0, **small).fit_stream(chunks)
    model = AESVC(refine=rounds, **small)
    with pytest.raises(ValueError, match=r"memory_budget=80,000 bytes cannot .* a round gathers"):
        model.fit_stream(chunks)
    assert not hasattr(model, "support_")
    model.set_params(on_overflow="loosen")
    with pytest.warns(UserWarning, match=r"memory_budget=80,000 bytes.* has 0 rounds"):
        model.fit_stream(chunks)
    assert model.certificate_.rounds == 0
    same_model(model, few)


def test_the_stream_goes_on_after_rounds():
    X, y = moons(4000)
    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(chunks_of(X[:3000], y[:3000]))
    support = model.support_
    model.partial_fit(X[3000:3100], y[3000:3100])
    assert model.n_seen_ == 3100
    assert model.support_ is support
    model.partial_fit(X[3100:], y[3100:]).partial_fit()
    assert model.n_seen_ == model.certificate_.n_rows == 4000
    assert model.certificate_.rounds == 0
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.representative_set_.weights_.sum() == pytest.approx(4000, rel=1e-12)
    exact = AESVC(gamma=5.0, refine="exact").fit(X, y)
    assert (model.predict(X) == exact.predict(X)).mean() > 0.97


def test_every_pass_is_reported():
    recorder = Recorder()
    model = AESVC(gamma="scale", hull_tol=1e-2, refine=2).set_callbacks(recorder)
    model.fit_stream(chunks_of(*moons(1500)))
    assert recorder.begun == recorder.ended
    passes = {name: recorder.begun[name] for name in ("scale", "read", "look", "stratify")}
    rounds = passes["stratify"]
    assert 1 <= rounds <= 2
    assert passes == {"scale": 1, "read": 1, "look": rounds + 1, "stratify": rounds}
    assert recorder.begun["chunk"] == sum(passes.values()) * 5
    assert recorder.begun["solve"] == rounds + 1
    assert recorder.torn_down


@pytest.mark.parametrize("n", range(1, 21))
def test_values_are_merged_in_order_two_of_a_level_making_one_of_the_next(n):
    waiting, equal, most = 0, 0, 0

    def values():
        nonlocal waiting, most
        for value in range(n):
            waiting += 1
            most = max(most, waiting)
            yield [value], 1

    def merge(two, level):
        nonlocal waiting, equal
        waiting -= 1
        (left, below), (right, beside) = two
        equal += below == beside
        assert level == below + 1 if below == beside else level > max(below, beside)
        return left + right, level

    whole, level = folded(values(), merge)
    assert whole == list(range(n))
    assert level == n.bit_length() + n.bit_count() - 1
    assert equal == n - n.bit_count()
    assert waiting == 1
    assert most <= n.bit_length() + 1


def test_auto_makes_no_rounds_where_the_first_would_take_too_long(monkeypatch):
    set_limits(monkeypatch, first_round=0.0)
    source = Source(chunks_of(*moons(1500)))
    auto = AESVC(gamma=5.0).fit_stream(source)
    assert auto.certificate_.rounds == 0
    assert source.n_passes == 1  # the finer set is what the stream holds
    same_model(auto, AESVC(gamma=5.0, refine=0).fit_stream(source))
    assert AESVC(gamma=5.0, refine=1).fit_stream(source).certificate_.rounds == 1


@pytest.mark.parametrize("change", [(set_limits, "exact", 0.0), (set_table, "changes", 1.0)])
def test_auto_makes_one_round_where_another_does_not_pay(monkeypatch, change):
    chunks = chunks_of(*moons())

    def passes():
        source = Source(chunks)
        model = AESVC(gamma=1.0, C=10.0, hull_tol=1e-2).fit_stream(source)
        assert model.certificate_.rounds >= 1
        return source.n_passes

    # one for the set, two for a round, one for the last look; a round may be made and undone
    set_table(monkeypatch, changes=0.0)
    assert passes() > 1 + 2 + 1
    setting, name, value = change
    setting(monkeypatch, **{name: value})
    assert passes() == 1 + 2 + 1


def test_without_a_tolerance_there_is_nothing_to_refine():
    source = Source(chunks_of(*moons(1500)))
    certificate = AESVC(gamma=5.0, hull_tol=0.0, refine=2).fit_stream(source).certificate_
    assert source.n_passes == 1
    assert certificate.exact
    assert certificate.rounds == 0


def test_a_class_of_no_weight_and_rows_that_come_twice():
    X, y = moons(2000)
    X, y = np.r_[X, X], np.r_[y, np.where(np.arange(2000) < 100, 2, y)]
    weights = np.where(y == 2, 0.0, 1.0)
    exact = AESVC(gamma=5.0, refine="exact").fit(X, y, sample_weight=weights)
    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(chunks_of(X, y, weights))
    assert (model.predict(X) == exact.predict(X)).mean() > 0.98
    assert model.n_support_[2] == 0
    assert model.certificate_.n_solved < 3000


def test_the_result_does_not_depend_on_the_threads():
    chunks = chunks_of(*blobs(2000))
    one, two = (AESVC(gamma=4.0, refine=1, n_jobs=n_jobs).fit_stream(chunks) for n_jobs in (1, 2))
    same_model(one, two)


def test_a_source_that_gives_the_same_rows_in_other_chunks_is_refused_in_rounds(monkeypatch):
    X, y = moons(3000)
    parts = [chunks_of(X, y, size=size) for size in (600, 600, 400)]
    with pytest.raises(ValueError, match="it must give the same chunks each time"):
        AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(Source(*parts))
    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-2).fit_stream(parts[0])
    assert model.certify_stream(parts[2]).objective == pytest.approx(
        objective(model, X, y), rel=1e-4
    )


def test_the_stream_stays_fine_where_rounds_began_with_a_coarse_set():
    X, y = moons(4000)
    model = AESVC(gamma=5.0, refine=1, hull_tol=1e-3).fit_stream(chunks_of(X[:3000], y[:3000]))
    assert model.representative_set_.hull_tol == pytest.approx(1e-2)
    certificate = model.partial_fit(X[3000:], y[3000:]).partial_fit().certificate_
    assert certificate.hull_tol == 1e-3
    assert certificate.max_residual <= 1e-3 * (1 + 1e-9)


def test_a_tolerance_that_the_budget_has_loosened_stands_in_the_certificate():
    chunks = chunks_of(*moons(3000))
    small = {"gamma": 0.5, "hull_tol": 1e-4, "memory_budget": 30_000, "on_overflow": "loosen"}
    with pytest.warns(UserWarning, match="cannot hold"):
        model = AESVC(refine=1, **small).fit_stream(chunks)
    certificate = model.certificate_
    assert certificate.hull_tol == model.representative_set_.hull_tol > 1e-4
    assert certificate.max_residual <= certificate.hull_tol * (1 + 1e-9)
