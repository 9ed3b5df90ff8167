"""A time limit ends any fit with a model that predicts, and a certificate that is true."""

from __future__ import annotations

import itertools
import pickle
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aesvm.machines.place
import aesvm.machines.rounds
from aesvm import (
    AESVC,
    AESVR,
    AENuSVC,
    AENuSVR,
    AEOneClassSVM,
    RepresentativeSet,
    TimeLimit,
    load,
)
from aesvm.model_selection import AEGridSearchCV
from aesvm.out_of_core import merge_tree
from aesvm.runtime import progress
from aesvm.runtime.scikit_learn import HAS_CALLBACKS
from aesvm.solver import host
from tests.plans import set_limits, set_table
from tests.runtime.test_progress import Recorder

#: Before 1.9 pipelines and searches of scikit-learn have no callbacks.
needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn 1.9")

FAMILY = {
    "AESVC": AESVC(C=10.0, gamma=2.0),
    "AENuSVC": AENuSVC(nu=0.3, gamma=2.0),
    "AESVR": AESVR(C=10.0, gamma=2.0),
    "AENuSVR": AENuSVR(C=10.0, gamma=2.0),
    "AEOneClassSVM": AEOneClassSVM(nu=0.2, gamma=2.0),
}
EACH = pytest.mark.parametrize("name", FAMILY)


def limit(looks):
    """A limit that is reached when the clock has been looked at so often."""
    times = iter(range(10**9))
    return TimeLimit(looks, clock=lambda: float(next(times)))


def looks_of(fit):
    """How often a fit that is not limited looks at the clock."""
    unlimited = limit(10**8)
    fit(unlimited)
    return int(unlimited.clock())


def rows(n=3000):
    return make_moons(n, noise=0.3, random_state=0)


def chunks(X, y, size=500):
    return [(X[at : at + size], y[at : at + size], None) for at in range(0, len(X), size)]


def ended(model, fit, looks):
    """A fit that is limited, and what it said that it cut short."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(model := clone(model).set_callbacks(limit(looks)))
    said = [str(one.message) for one in told if one.category is ConvergenceWarning]
    assert len(said) <= 1
    assert all(one.startswith(f"TimeLimit({looks:g}) ended the fit before") for one in said)
    return model, "".join(said)


def spread(n_looks, count=4):
    """Some moments of a fit: its beginning, its end, and others between."""
    return np.unique(np.linspace(1, n_looks - 1, count).astype(int)).tolist()


@EACH
@pytest.mark.parametrize("refine", [0, 2, "auto", "exact"])
def test_a_fit_may_end_at_any_moment(name, refine, monkeypatch):
    set_limits(monkeypatch, exact=1e5)
    X, y = rows(1000)
    model = clone(FAMILY[name]).set_params(refine=refine, subset_size=100, hull_tol=1e-2)
    exact = clone(FAMILY[name]).set_params(refine="exact").fit(X, y).certificate_
    n_looks = looks_of(lambda watch: clone(model).set_callbacks(watch).fit(X, y))
    for looks in spread(n_looks):
        found, said = ended(model, lambda one: one.fit(X, y), looks)
        assert said or looks > 1 or found.fit_status_ == 0  # one round may be enough
        assert np.isfinite(found.predict(X)).all()
        certificate = found.certify(X, y)
        slack = 1e-9 * abs(exact.objective)
        assert certificate.objective >= exact.dual_objective - slack
        assert certificate.dual_objective <= exact.objective + slack
        assert certificate.objective - certificate.gap <= exact.objective + slack


@EACH
def test_a_limit_that_is_not_reached_changes_nothing(name):
    X, y = rows()
    model = clone(FAMILY[name]).set_params(refine=1, hull_tol=1e-2)
    free = clone(model).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        limited = clone(model).set_callbacks(limit(10**8)).fit(X, y)
    np.testing.assert_array_equal(limited.dual_coef_, free.dual_coef_)
    assert limited.certificate_ == free.certificate_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_that_were_not_reached_represent_themselves(n_jobs):
    X = np.random.default_rng(0).uniform(size=(6000, 2))
    model = RepresentativeSet(gamma=1.0, subset_size=200, keep_combinations=True, n_jobs=n_jobs)
    whole = clone(model).fit(X)
    sizes = []
    for looks in (1, 3, 12, 20):
        with pytest.warns(UserWarning, match="not reached represent themselves"):
            chosen = clone(model).set_callbacks(limit(looks)).fit(X)
        assert chosen.weights_.sum() == pytest.approx(6000, rel=1e-12)
        assert chosen.max_residual_ <= 1e-3
        np.testing.assert_allclose(chosen.combinations_.sum(axis=1), 1.0)
        np.testing.assert_allclose(chosen.combinations_.sum(axis=0), chosen.weights_)
        sizes.append(len(chosen.sample_indices_))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 6000 > sizes[-1] > len(whole.sample_indices_)


def test_a_solve_ends_at_a_feasible_point_whose_gap_is_known(monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows(1000)
    model = AESVC(C=10.0, gamma=2.0, refine="exact").set_callbacks(limit(5))
    with pytest.warns(ConvergenceWarning, match=r"a solve ended before tol=0\.001"):
        model.fit(X, y)
    assert model.fit_status_ == 1
    assert model.kkt_violation_[0] > model.tol
    coefs = model.dual_coef_[0]
    assert abs(coefs.sum()) <= 1e-9 * np.abs(coefs).sum()
    # the best multiple of a feasible point
    multipliers = model._trained_on_["multipliers"]["coefs"]
    assert np.abs(multipliers).max() <= 10.0
    multiples = np.sort(np.abs(coefs)) / np.sort(np.abs(multipliers))
    assert np.ptp(multiples) <= 1e-9
    certificate = model.certificate_
    assert certificate.exact
    assert certificate.relative_gap > 1e-3
    assert certificate.remedy in certificate.caveat()
    assert "; outcome: cut short: TimeLimit(5) ended the fit" in certificate.plan


@pytest.mark.parametrize(
    ("refine", "advised", "not_advised"),
    [
        ("exact", "raise the limit.*fewer rows, max_vectors or refine=1", "hull_tol"),
        (3, "raise the limit", "refine=|hull_tol|tol="),
    ],
)
def test_what_is_advised_after_a_limit_would_help(refine, advised, not_advised, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows(1500)
    model = AESVC(C=100.0, gamma=2.0, subset_size=500, refine=refine).set_callbacks(limit(6))
    with pytest.warns(ConvergenceWarning) as warned:
        model.fit(X, y)
    *_, advice = str(warned[-1].message).partition("To go further, ")
    assert re.search(advised, advice)
    assert not re.search(not_advised, advice)


def test_pairs_of_classes_that_were_not_reached_have_a_model(monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 256)
    monkeypatch.setattr(aesvm.machines.small_pairs, "MOST_ROWS", 0)  # all are solved in rounds
    set_table(monkeypatch, rows_of_small_pairs=500)
    X, y = make_blobs(3000, centers=4, cluster_std=2.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"the model is the SVM of a sample of \d+ rows"):
        model = AESVC(gamma=0.1, refine="exact").set_callbacks(limit(6)).fit(X, y)
    whole = AESVC(gamma=0.1, refine="exact").fit(X, y)
    assert model.decision_function(X).shape == (3000, 4)
    assert (model.n_iter_ > 0).all()
    assert np.mean(model.predict(X) == whole.predict(X)) > 0.5


def test_refining_ends_with_the_best_model_seen(monkeypatch):
    monkeypatch.setattr(aesvm.machines.place, "_LONG", 0)  # every look may end
    X, y = rows(6000)
    model = AESVC(C=10.0, gamma=5.0, refine=3, subset_size=300, hull_tol=5e-2)
    first = clone(model).set_params(refine=0, hull_tol=0.5).fit(X, y).certify(X, y).objective
    n_looks = looks_of(lambda watch: clone(model).set_callbacks(watch).fit(X, y))
    rounds = set()
    for looks in spread(n_looks, 20):
        found, said = ended(model, lambda one: one.fit(X, y), looks)
        if "refining ended after" in said and not found.fit_status_:
            certificate = found.certify(X, y)
            rounds.add(certificate.rounds)
            assert f"after {certificate.rounds} rounds" in said
            assert certificate.objective <= first * 1.1
    assert len(rounds) > 1


def test_the_tasks_of_a_fit_that_was_ended_are_ended(monkeypatch):
    monkeypatch.setattr(aesvm.machines.place, "_LONG", 0)
    X, y = rows()
    model = AESVC(gamma=5.0, refine=2, subset_size=300, hull_tol=1e-2)
    n_looks = looks_of(lambda watch: clone(model).set_callbacks(watch).fit(X, y))
    for looks in spread(n_looks, 12):
        recorder = Recorder()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(model).set_callbacks(recorder, limit(looks)).fit(X, y)
        assert recorder.begun == recorder.ended


@EACH
def test_a_source_is_learned_from_as_far_as_it_was_read(name, monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 700)
    X, y = rows(1500)
    source = chunks(X, y, 250)
    model = clone(FAMILY[name]).set_params(refine=1, hull_tol=1e-2)
    n_looks = looks_of(lambda watch: clone(model).set_callbacks(watch).fit_stream(source))
    least = {}
    for looks in (5, 9, *spread(n_looks)):
        found, said = ended(model, lambda one: one.fit_stream(source), looks)
        seen = found.n_seen_
        assert (f"read to row {seen:,}," in said) == (seen < 1500)
        assert found.certificate_.n_rows == seen
        assert np.isfinite(found.predict(X)).all()
        if seen not in least:
            exact = clone(model).set_params(refine="exact").fit(X[:seen], y[:seen])
            least[seen] = exact.certificate_.dual_objective
        objective = found.certify_stream(source[: seen // 250]).objective
        assert objective >= least[seen] - 1e-6 * abs(least[seen])
    assert min(least) == 250
    assert max(least) == 1500
    assert len(least) > 2


def test_a_set_of_a_source_is_of_the_rows_that_were_read():
    """Reading ends when half of the time is left."""
    X, _ = rows()
    source = [(part, None, None) for part, _, _ in chunks(X, X)]
    with pytest.warns(UserWarning, match="read to row 1,000"):
        chosen = RepresentativeSet(gamma=1.0).set_callbacks(limit(6)).fit_stream(source)
    assert chosen.n_seen_ == 1000
    assert chosen.weights_.sum() == pytest.approx(1000, rel=1e-12)


def test_gamma_is_of_the_rows_that_were_read_for_it():
    X, y = rows()
    with pytest.warns(
        ConvergenceWarning, match=r"gamma is computed from the first 1,000 rows.*row 500"
    ):
        model = AESVC(gamma="scale").set_callbacks(limit(6)).fit_stream(chunks(X, y))
    assert model.gamma_ == pytest.approx(1.0 / (2 * X[:1000].var()))
    assert model.n_seen_ == 500


def test_a_source_that_was_read_in_time_is_read_whole():
    X, y = rows(1000)
    with pytest.warns(ConvergenceWarning) as told:
        model = AESVC(gamma=1.0).set_callbacks(limit(6)).fit_stream(chunks(X, y))
    assert model.n_seen_ == 1000
    assert "row" not in str(told[0].message)


def test_rows_of_one_class_are_refused_and_the_limit_is_named():
    X, y = rows()
    order = np.argsort(y, kind="stable")
    model = AESVC(gamma=1.0).set_callbacks(limit(1))
    with pytest.raises(ValueError, match=r"TimeLimit\(1\) ended.*rows of 1 class"):
        model.fit_stream(chunks(X[order], y[order]))


@EACH
def test_partial_fit_takes_in_all_rows_it_is_given(name, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 700)
    X, y = rows()
    model = clone(FAMILY[name]).set_callbacks(limit(0))
    classes = {"classes": [0, 1]} if name in ("AESVC", "AENuSVC") else {}
    for part, targets, _ in chunks(X, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.partial_fit(part, targets, **classes)
    with pytest.warns(ConvergenceWarning, match="a solve ended"):
        model.partial_fit()
    assert model.n_seen_ == 3000
    assert model.select()[2].sum() == pytest.approx(3000, rel=1e-12)
    assert np.isfinite(model.predict(X)).all()
    model.set_callbacks().partial_fit()
    assert model.fit_status_ == 0


@EACH
def test_the_parameter_limits_streams_too(name, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows()
    model = clone(FAMILY[name]).set_params(time_limit=0)
    with pytest.warns(ConvergenceWarning, match=r"time_limit=0 ended the fit.*read to row 500,"):
        model.fit_stream(chunks(X, y))
    assert model.n_seen_ == model.certificate_.n_rows == 500
    assert np.isfinite(model.predict(X)).all()
    assert "time_limit=0 ended the fit" in model.certificate_.plan
    model = clone(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for part, targets, _ in chunks(X, y):
            classes = {"classes": [0, 1]} if name in ("AESVC", "AENuSVC") else {}
            model.partial_fit(part, targets, **classes)
        model.partial_fit()
    assert any("time_limit=0 ended the fit" in str(one.message) for one in told)
    assert model.n_seen_ == model.certificate_.n_rows == 3000
    assert np.isfinite(model.predict(X)).all()


def test_certificates_are_not_limited():
    X, y = rows()
    model = AESVC(gamma=1.0, refine=0, hull_tol=1e-2).fit(X, y)
    known = model.certify(X, y)
    assert model.set_callbacks(limit(0)).certify(X, y) == known
    source = chunks(X, y)
    model = AESVC(gamma=1.0, refine=0, hull_tol=1e-2).fit_stream(source)
    assert model.set_callbacks(limit(0)).certify_stream(source).objective > 0


def test_every_fit_has_its_own_time():
    X, y = rows(500)
    once = limit(looks_of(lambda watch: AESVC(gamma=1.0).set_callbacks(watch).fit(X, y)))
    model = AESVC(gamma=1.0).set_callbacks(once)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model.fit(X, y)
            clone(model).fit(X, y)
    kept = pickle.loads(pickle.dumps(model.set_callbacks(TimeLimit(3.0))))
    assert kept._skl_callbacks[0].seconds == 3.0


SEARCHES = [GridSearchCV, AEGridSearchCV]


@pytest.fixture
def small_working_sets(monkeypatch):
    """A fit that takes more than one working set, also of few rows."""
    monkeypatch.setattr(host, "WORKING_SET", 64)
    monkeypatch.setattr(aesvm.machines.small_pairs, "MOST_ROWS", 0)


@needs_callbacks
@pytest.mark.usefixtures("small_working_sets")
def test_a_limit_of_a_pipeline_ends_the_fit_of_its_last_step():
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), AESVC(gamma=1.0))
    for whole in (pipeline, make_pipeline(StandardScaler(), pipeline)):
        with pytest.warns(ConvergenceWarning, match=r"TimeLimit\(0\) ended the fit"):
            clone(whole).set_callbacks(TimeLimit(0)).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clone(whole).set_callbacks(TimeLimit(10**6)).fit(X, y)


@needs_callbacks
@pytest.mark.usefixtures("small_working_sets")
def test_the_time_of_a_pipeline_counts_from_its_beginning():
    times = itertools.chain([0.0], itertools.repeat(1.0))  # the first look is the beginning

    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), AESVC(gamma=1.0))
    with pytest.warns(ConvergenceWarning, match=r"TimeLimit\(1\) ended the fit"):
        pipeline.set_callbacks(TimeLimit(1, times.__next__)).fit(X, y)


def set_on_the_last_step():
    pipeline = make_pipeline(StandardScaler(), AESVC(gamma=1.0))
    pipeline[-1].set_callbacks(TimeLimit(0))
    return pipeline


def set_on_the_pipeline():
    return make_pipeline(StandardScaler(), AESVC(gamma=1.0)).set_callbacks(TimeLimit(0))


ON_THE_PIPELINE = pytest.param(set_on_the_pipeline, marks=needs_callbacks)


@pytest.mark.usefixtures("small_working_sets")
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("limited", [set_on_the_last_step, ON_THE_PIPELINE])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_each_fit_of_a_search_is_limited(search, limited, n_jobs):
    X, y = rows(600)
    grid = {"aesvc__C": [1.0, 10.0]}
    with joblib.parallel_config("threading"), pytest.warns(ConvergenceWarning) as told:
        found = search(limited(), grid, cv=2, n_jobs=n_jobs).fit(X, y)
    assert found.best_estimator_[-1].fit_status_ == 1
    said = [str(one.message) for one in told if one.category is ConvergenceWarning]
    assert all("TimeLimit(0) ended the fit" in one for one in said)
    # where work is shared, it is said once for all fits on folds, and once for the best
    shared = search is AEGridSearchCV and limited is set_on_the_last_step
    assert len(said) == (2 if shared else 5)


@needs_callbacks
@pytest.mark.parametrize(
    "whole",
    [GridSearchCV(AESVC(), {"C": [1.0]}), StandardScaler()],
    ids=lambda one: type(one).__name__,
)
def test_a_limit_that_would_be_ignored_is_refused(whole):
    X, y = rows(200)
    message = rf"TimeLimit\(2\) was set on {type(whole).__name__}, which .*whose last step is one"
    with pytest.raises(ValueError, match=message):
        whole.set_callbacks(TimeLimit(2)).fit(X, y)
    if hasattr(whole, "transform"):
        return
    with pytest.raises(ValueError, match=r"TimeLimit\(2\) was set on Pipeline, which"):
        make_pipeline(whole.set_callbacks()).set_callbacks(TimeLimit(2)).fit(X, y)


def test_who_ends_a_fit_is_told_how_close_its_model_is():
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match="certificate_ says how close the model is"):
        model = AESVC(gamma=1.0, time_limit=0).fit(X, y)
    assert model.certificate_.gap is None
    assert model.certificate_.estimated_gap is not None


def test_any_callback_may_end_a_fit():
    class Impatient(Recorder):
        def on_fit_task_end(self, estimator, context):
            return context.task_name == "step"

    X, y = rows()
    model = AESVC(gamma=1.0, refine=1, subset_size=200, hull_tol=1e-2)
    with pytest.warns(ConvergenceWarning, match="a callback ended the fit before it was done"):
        model.set_callbacks(Impatient()).fit(X, y)
    assert model.certificate_.rounds == 0


@pytest.mark.parametrize(
    "seconds",
    [-1, float("nan"), 10**400, Fraction(10**400), Decimal("sNaN"), "2", True, np.True_, [2.0]],
)
def test_a_time_is_a_number_that_is_not_negative_and_not_too_large(seconds):
    shown = re.escape(str(seconds)[:4])
    with pytest.raises(ValueError, match=f"seconds=.*{shown}.*not negative.*at most 1.7e308"):
        TimeLimit(seconds)
    with pytest.raises(ValueError, match=r"'time_limit' parameter.* must be None or a float"):
        AESVC(time_limit=seconds).fit(*rows())


TIMES = [0, np.float32(2), Fraction(1, 2), Decimal("0.5")]


@pytest.mark.parametrize("seconds", [*TIMES, 10**300, float("inf")])
def test_a_time_is_any_number_that_a_float_holds(seconds):
    assert TimeLimit(seconds).seconds == float(seconds)


@pytest.mark.parametrize("seconds", TIMES)
def test_a_model_with_any_such_limit_is_kept_in_a_file(seconds, tmp_path):
    X, y = rows()
    model = AESVC(time_limit=seconds).fit(X[:200], y[:200])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").time_limit == float(seconds)


def test_silence_is_never_over():
    assert not progress.Silence().to_the_end().is_over()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 0.98])
def test_a_limit_ends_a_fit_of_few_vectors_wherever_it_is(share, monkeypatch):
    """It looks at the clock before each piece of work, and looks no more than the limit allows."""
    set_table(monkeypatch, pilot_rows=300)
    monkeypatch.setattr("aesvm.bases.span_training._MOST_ADDED", 40)
    monkeypatch.setattr("aesvm.bases.solve_in_memory.BLOCK_ROWS", 256)
    X, y = rows()
    model = AESVC(gamma=2.0, max_vectors=100)
    n_looks = looks_of(lambda watch: clone(model).set_callbacks(watch).fit(X, y))
    assert n_looks > 500
    watch = limit(int(share * n_looks))
    with pytest.warns(ConvergenceWarning, match="ended the fit before it was done"):
        cut = clone(model).set_callbacks(watch).fit(X, y)
    # each of the 100 steps of a progress bar looks as well
    assert int(watch.clock()) <= int(share * n_looks) + 150
    assert 0 < len(cut.support_) <= 100
    assert cut.score(X, y) > 0.8
    proof = cut.certify(X, y)
    assert proof.dual_objective <= proof.objective
