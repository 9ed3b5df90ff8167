"""``max_vectors`` and ``gap_tol`` of estimators: bad values, time limits, interrupts, progress."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from aesvm import AESVC, AEOneClassSVM, Compression
from aesvm.bases.span_machine import SpanMachine
from tests.bases.test_span_training import FAMILY, fitted, rows, small_steps, targets_for, values_of
from tests.machines.test_ladder import FAMILY as GOALS
from tests.runtime.test_progress import Recorder
from tests.runtime.test_time_limit import ended, looks_of, spread

__all__ = ["small_steps"]

MODELS = {name: case[0] for name, case in FAMILY.items()}
EACH = pytest.mark.parametrize("name", MODELS)

CASES = {
    "0": ({"max_vectors": 0}, r"'max_vectors'.*\[1, inf\).*0"),
    "-3": ({"max_vectors": -3}, r"'max_vectors'.*-3"),
    "2.5": ({"max_vectors": 2.5}, r"'max_vectors'.*2\.5"),
    "a": ({"max_vectors": "a"}, r"'max_vectors'.*'a'"),
    "gap_tol": ({"gap_tol": -1.0}, r"'gap_tol'.*\[0\.0, inf\).*-1\.0"),
    "gap_tol NaN": ({"gap_tol": np.nan}, r"'gap_tol'.*nan"),
    "refine=0": ({"max_vectors": 5, "refine": 0}, r'max_vectors=5.*refine=0.*use refine="auto"'),
    "refine=2": ({"max_vectors": 5, "refine": 2}, r'max_vectors=5.*refine=2.*use refine="auto"'),
    "exact": ({"max_vectors": 5, "refine": "exact"}, r"max_vectors=5.*refine='exact'"),
    "sigmoid": ({"max_vectors": 5, "kernel": "sigmoid"}, r"max_vectors=5.*'sigmoid'.*another"),
    "poly": (
        {"max_vectors": 5, "kernel": "poly", "coef0": -1.0},
        r"max_vectors=5 needs a positive semidefinite kernel.*coef0=-1\.0",
    ),
}


@EACH
@pytest.mark.parametrize("case", CASES)
def test_bad_values_are_named_and_leave_the_model_as_it_was(name, case):
    parameters, message = CASES[case]
    X, y, values = rows(100)
    y = targets_for(name, y, values)
    model = fitted(MODELS[name], X, y)
    before = dict(vars(model))
    model.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    fitted_before = {key for key in before if key.endswith("_")}
    assert all(vars(model)[key] is before[key] for key in fitted_before)


def test_costs_beyond_what_squares_allow_are_refused():
    X, y, _ = rows(100)
    with pytest.raises(ValueError, match=r"add up to 1e\+202, .*max_vectors=5"):
        AESVC(C=1e200, max_vectors=5).fit(X, y)


@EACH
def test_streams_take_it(name):
    X, y, values = rows(100)
    y = targets_for(name, y, values)
    model = clone(MODELS[name]).set_params(max_vectors=5)
    assert 0 < len(model.fit_stream([(X, y, None)]).support_) <= 5
    assert hasattr(model, "partial_fit")


@EACH
def test_they_are_parameters_like_others(name):
    model = clone(MODELS[name])
    assert model.get_params()["max_vectors"] is None
    assert model.get_params()["gap_tol"] == 1e-3
    set_ = clone(model.set_params(max_vectors=7, gap_tol=0.5))
    assert (set_.max_vectors, set_.gap_tol) == (7, 0.5)
    assert "max_vectors" in inspect.signature(type(model)).parameters


def test_a_number_of_numpy_and_one_beyond_memory_will_do():
    X, y, _ = rows(100)
    assert len(AESVC(gamma=1.0, max_vectors=np.int32(4)).fit(X, y).support_) == 4
    assert len(AESVC(gamma=1.0, max_vectors=10**15).fit(X, y).support_) <= 100


def test_other_parameters_than_the_model_has_are_refused_by_certify():
    X, y, _ = rows(100)
    model = AESVC(gamma=1.0, max_vectors=4).fit(X, y)
    with pytest.raises(ValueError, match="max_vectors=9 was 4"):
        model.set_params(max_vectors=9).certify(X, y)


@EACH
def test_a_fit_may_end_at_any_moment(name, small_steps):
    X, y, values = rows()
    y = targets_for(name, y, values)
    model = clone(MODELS[name]).set_params(max_vectors=40)
    exact = fitted(clone(MODELS[name]).set_params(refine="exact"), X, y).certificate_
    n_looks = looks_of(lambda watch: fitted(clone(model).set_callbacks(watch), X, y))
    all_said = ""
    for looks in spread(n_looks, 6):
        found, said = ended(model, lambda one: one.fit(X, y), looks)
        all_said += said
        assert 0 < len(found.support_) <= 40
        assert np.isfinite(values_of(found, X)).all()
        certificate = found.certify(X, y)
        slack = 1e-9 * abs(exact.objective)
        assert certificate.objective >= exact.dual_objective - slack
        assert certificate.dual_objective <= exact.objective + slack
        assert certificate.objective - certificate.gap <= exact.objective + slack
    assert "vectors" in all_said


def test_a_limit_that_is_not_reached_changes_nothing(small_steps):
    X, y, _ = rows()
    model = AESVC(gamma=1.0, max_vectors=20)
    free = clone(model).fit(X, y)
    looks = looks_of(lambda watch: clone(model).set_callbacks(watch).fit(X, y))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found, _ = ended(model, lambda one: one.fit(X, y), looks + 1)
    np.testing.assert_array_equal(found.dual_coef_, free.dual_coef_)


@pytest.mark.parametrize("where", ["add", "solve", "trained"])
def test_an_interrupt_leaves_the_estimator_as_it_was(where, monkeypatch):
    X, y, _ = rows()
    model = AESVC(gamma=1.0).fit(X, y)
    before = dict(vars(model))
    fresh = AESVC(gamma=1.0, max_vectors=10)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(SpanMachine, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(max_vectors=10).fit(X, y)
    model.set_params(max_vectors=None)
    assert vars(model) == before
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    assert not hasattr(fresh, "support_")


def test_an_interrupt_of_compress_leaves_the_model_as_it_was(monkeypatch):
    X, y, _ = rows()
    model = AESVC(gamma=1.0).fit(X, y)
    before = dict(vars(model))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("aesvm.bases.compress.Machines.fitted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.compress(5)
    assert vars(model) == before


def test_it_says_how_far_it_is(capsys, small_steps):
    X, y, _ = rows()
    AESVC(gamma=1.0, max_vectors=60, gap_tol=0.0, verbose=1).fit(X, y)
    said = capsys.readouterr().out + capsys.readouterr().err
    assert "few vectors: 30 of the SVM of a sample" in said
    assert "relative duality gap estimated as" in said
    AESVC(gamma=1.0, max_vectors=60).fit(X, y)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("n_classes", [2, 3])
def test_tasks_that_begin_end(n_classes, small_steps):
    X, y, _ = rows()
    y = y + (n_classes > 2) * 2 * (X[:, 0] > 1.5)
    recorder = Recorder()
    model = fitted(AESVC(gamma=1.0, max_vectors=20).set_callbacks(recorder), X, y)
    assert recorder.begun == recorder.ended
    assert recorder.begun["few vectors"] == 1
    assert recorder.torn_down
    recorder = Recorder()
    model.set_callbacks(recorder).compress(5)
    assert recorder.begun == recorder.ended
    assert recorder.torn_down
    assert recorder.begun["compress"] >= 1


def test_a_model_far_from_the_exact_one_says_so():
    X, y, _ = rows()
    with pytest.warns(UserWarning, match=r"may be far .*above the exact.*more vectors \(now 1\)"):
        model = AESVC(gamma=5.0, max_vectors=1).fit(X, y)
    assert "in the span of 1 vectors" in str(model.certificate_)


def test_an_unfitted_model_is_not_compressed():
    with pytest.raises(NotFittedError):
        AEOneClassSVM().compress(5)


def test_what_compress_made_can_be_printed():
    text = str(Compression(100, 10, 0.5, 0.0, 20, 0.1, 0.01, 0.05))
    assert "10 of 100 support vectors" in text
    assert "5.00% of their labels" in text


def test_as_many_rows_are_outliers_after_compress():
    X = np.random.default_rng(0).normal(size=(1500, 3))
    model = AEOneClassSVM(nu=0.05, gamma=0.5).fit(X)
    small = model.compress(40, X=X)
    outliers = [float(np.mean(one.predict(X) < 0)) for one in (model, small)]
    assert outliers[0] == pytest.approx(outliers[1], abs=1e-3)
    found = small.compression_
    assert found.labels_changed < 0.08
    changed = np.abs(model.decision_function(X) - small.decision_function(X))
    assert changed.max() <= found.bound + abs(found.shift)
    assert small.offset_ == pytest.approx(model.offset_ - found.shift)
    certificate = small.certify(X)
    assert certificate.dual_objective <= certificate.objective


def test_a_model_of_as_many_vectors_as_it_has_is_the_same():
    X, y = rows_far_away()
    model = AESVC(kernel="linear", refine="exact").fit(X, y)
    same = model.compress(len(model.support_))
    np.testing.assert_array_equal(same.dual_coef_, model.dual_coef_)
    assert same.compression_.bound == 0.0


def rows_far_away():
    X = np.random.default_rng(0).normal(size=(300, 2))
    return X + 1000.0, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)


def test_far_from_the_origin_directions_are_told_apart():
    X, y = rows_far_away()
    exact = AESVC(kernel="linear", refine="exact").fit(X, y)
    few = AESVC(kernel="linear", max_vectors=20).fit(X, y)
    assert 2 <= len(few.support_) <= 3
    assert few.certificate_.relative_gap < 0.01
    small = exact.compress(5, X=X)
    assert small.compression_.labels_changed < 0.01


def test_vectors_that_have_nothing_in_common_are_chosen():
    X, y = rows_far_away()
    assert len(AESVC(gamma=1e8, max_vectors=20).fit(X, y).support_) == 20


@pytest.mark.parametrize("gap_tol", [0.2, 0.02])
@pytest.mark.parametrize("name", GOALS)
def test_a_gap_that_is_enough_ends_an_exact_solve(name, gap_tol):
    X, y = make_moons(1500, noise=0.3, random_state=0)
    exact = clone(GOALS[name]).set_params(refine="exact").fit(X, y).certificate_
    model = clone(GOALS[name]).set_params(gap_tol=gap_tol)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    usual = clone(GOALS[name]).fit(X, y)
    assert f"exact, to a relative duality gap of {gap_tol:g}" in model.certificate_.plan
    assert model.fit_status_ == 0
    assert np.sum(model.n_iter_) < np.sum(usual.n_iter_)
    proven = model.certify(X, y)
    assert proven.relative_gap <= gap_tol * (1.0 + 1e-6)
    assert proven.objective <= exact.objective + gap_tol * abs(proven.objective)


@pytest.mark.parametrize("changed", [{"gap_tol": 1e-3}, {"gap_tol": 0.5, "refine": "exact"}])
def test_a_gap_is_no_goal_unless_it_is_set(changed):
    X, y = make_blobs(600, centers=2, cluster_std=4.0, random_state=0)
    refine = changed.get("refine", "auto")
    model = AESVC(gamma=0.1, **changed).fit(X, y)
    usual = AESVC(gamma=0.1, refine=refine).fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, usual.dual_coef_)
    assert model.certificate_ == usual.certificate_


def test_a_gap_is_a_goal_with_a_time_limit_too():
    X, y = make_blobs(3000, centers=2, cluster_std=4.0, random_state=0)
    model = AESVC(gamma=0.1, gap_tol=0.2, time_limit=10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    usual = AESVC(gamma=0.1).fit(X, y)
    assert model.n_iter_[0] < usual.n_iter_[0]
    assert model.certify(X, y).relative_gap <= 0.2
