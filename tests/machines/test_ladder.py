"""A fit with a time limit climbs a ladder of models, and returns the best of them."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, TimeLimit
from aesvm.machines import ladder, samples
from aesvm.machines.fit import train
from aesvm.machines.plan import TABLE, Exact, Ladder, Sample
from aesvm.machines.samples import sample, shuffled
from aesvm.machines.trainer import Trainer
from aesvm.sets.derive import prepare
from aesvm.solver import host
from tests.plans import set_table

FAMILY = {
    "AESVC": AESVC(C=10.0, gamma=2.0),
    "AENuSVC": AENuSVC(nu=0.3, gamma=2.0),
    "AESVR": AESVR(C=10.0, gamma=2.0),
    "AENuSVR": AENuSVR(C=10.0, gamma=2.0),
    "AEOneClassSVM": AEOneClassSVM(nu=0.2, gamma=2.0),
}
#: Of objectives, relative: training has scores in single precision.
ROUNDING = 1e-5

EACH = pytest.mark.parametrize("name", FAMILY)


def rows(n=1000):
    return make_moons(n, noise=0.3, random_state=0)


@pytest.fixture
def small(monkeypatch):
    """The first samples are small."""
    set_table(monkeypatch, first_samples=(60, 120))


class Clock:
    """A clock that stands still until a rung is made, and has then so many looks left.

    ``rung``: that one, or the kind of it.
    """

    def __init__(self, monkeypatch, rung, looks):
        self.left = None
        make = ladder._Climb._make

        def watched(climb, now, *others):
            if now == rung or type(now) is rung:
                self.left = looks
            return make(climb, now, *others)

        monkeypatch.setattr(ladder._Climb, "_make", watched)

    def __call__(self):
        if self.left is None:
            return 0.0
        self.left -= 1
        return 0.0 if self.left > 0 else 1e9


def script(monkeypatch, *rungs):
    """Have a ladder make these rungs after the first two samples."""
    waiting = iter(rungs)
    monkeypatch.setattr(Ladder, "next", lambda self, made, left: next(waiting, None))


def fitted(model, limit, X, y):
    """A fit with a limit, and what it warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = clone(model).set_callbacks(limit).fit(X, y)
    return model, [str(one.message) for one in told if one.category is ConvergenceWarning]


@EACH
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("rung", [Sample, Exact])
@pytest.mark.parametrize("looks", [1, 4, 30])
def test_a_fit_that_ends_in_any_rung_has_a_true_certificate(name, rung, looks, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows()
    exact = clone(FAMILY[name]).set_params(refine="exact").fit(X, y).certificate_
    script(monkeypatch, Sample(300), Exact("all"))
    found, said = fitted(FAMILY[name], TimeLimit(1.0, Clock(monkeypatch, rung, looks)), X, y)
    certificate = found.certificate_
    assert np.isfinite(found.predict(X)).all()
    assert (certificate.stopped_after is None) == (not said)
    assert certificate.verdict().startswith("stopped after") == bool(said)
    assert said or rung is Exact
    proven, slack = found.certify(X, y), 1e-9 * abs(exact.objective)
    assert proven.objective >= exact.dual_objective - slack
    assert proven.dual_objective <= exact.objective + slack
    if certificate.objective is not None:
        assert certificate.objective == pytest.approx(proven.objective, rel=1e-6)
    if certificate.dual_objective is not None:
        assert certificate.dual_objective <= exact.objective + slack


@EACH
@pytest.mark.usefixtures("small")
def test_the_best_of_all_rungs_is_returned(name, monkeypatch):
    """However little an exact SVM that was cut short was solved, the model is no worse.

    Up to 4,000 rows are all looked at.
    """
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows()
    script(monkeypatch, Sample(700))
    before, _ = fitted(FAMILY[name], TimeLimit(1.0, clock=lambda: 0.0), X, y)
    best = before.certify(X, y).objective
    assert before.certificate_.n_vectors is not None
    slack, found = ROUNDING * abs(best), []
    for looks in (1, 10, 10**6):
        with monkeypatch.context() as patch:
            script(patch, Sample(700), Exact("all"))
            limit = TimeLimit(1.0, Clock(patch, Exact, looks))
            model, said = fitted(FAMILY[name], limit, X, y)
        found.append(model.certify(X, y).objective)
        assert found[-1] <= best + slack
        if said:  # the bound is that of the solve that was cut
            assert model.certificate_.dual_objective is not None
    assert found[-1] < best
    assert not said


@EACH
@pytest.mark.usefixtures("small")
def test_rungs_are_better_the_higher_they_are(name, monkeypatch):
    X, y = rows()
    found = []
    further = Sample(300, is_further=True)
    for rungs in (
        [],
        [Sample(450)],
        [Sample(450), further],
        [Sample(450), further, Sample(700)],
        [Sample(450), further, Sample(700), Exact("all")],
    ):
        script(monkeypatch, *rungs)
        model, _ = fitted(FAMILY[name], TimeLimit(1.0, clock=lambda: 0.0), X, y)
        found.append(model.certify(X, y).objective)
    slack = ROUNDING * abs(found[-1])
    assert all(after <= before + slack for before, after in pairwise(found))
    assert found[0] > found[1]


@EACH
@pytest.mark.usefixtures("small")
def test_a_sample_that_was_cut_short_does_not_take_the_place_of_a_better_one(name, monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows()
    script(monkeypatch, Sample(500))
    before, _ = fitted(FAMILY[name], TimeLimit(1.0, clock=lambda: 0.0), X, y)
    best, last = before.certify(X, y).objective, Sample(800)
    for looks in (1, 4, 8):
        with monkeypatch.context() as patch:
            script(patch, Sample(500), last)
            model, said = fitted(FAMILY[name], TimeLimit(1.0, Clock(patch, last, looks)), X, y)
        assert said
        assert model.certify(X, y).objective <= best + ROUNDING * abs(best)


@EACH
@pytest.mark.usefixtures("small")
def test_further_rows_make_a_model_of_samples_better(name, monkeypatch):
    """The best machine between two SVMs of as many rows is closer to the optimum than either."""
    X, y = rows()
    found = []
    for rungs in ([Sample(200)], [Sample(200), Sample(200, is_further=True)], [Exact("all")]):
        script(monkeypatch, *rungs)
        model, _ = fitted(FAMILY[name], TimeLimit(1.0, clock=lambda: 0.0), X, y)
        found.append(model.certify(X, y).objective)
    one, two, least = found
    assert two - least < 0.9 * (one - least)
    # what is proven of it is the objective that it was given
    script(monkeypatch, Sample(200), Sample(200, is_further=True))
    model, _ = fitted(FAMILY[name], TimeLimit(1.0, clock=lambda: 0.0), X, y)
    assert model.certificate_.objective == pytest.approx(two, rel=1e-6)


@EACH
def test_where_there_is_no_time_for_all_rows_the_gap_is_estimated_from_some(name, monkeypatch):
    monkeypatch.setattr(samples, "_LEAST_JUDGES", 500)
    set_table(monkeypatch, first_samples=(500, 600))
    X, y = rows(3000)
    script(monkeypatch)
    limit = TimeLimit(1.0, Clock(monkeypatch, Sample(600), 10**6))
    monkeypatch.setattr(ladder.Look, "each", property(lambda look: np.inf))
    certificate = fitted(FAMILY[name], limit, X, y)[0].certificate_
    exact = clone(FAMILY[name]).set_params(refine="exact").fit(X, y).certificate_
    assert certificate.objective is None
    assert "not computed" not in certificate.verdict()
    proven = fitted(FAMILY[name], TimeLimit(1.0, clock=lambda: 0.0), X, y)[0].certify(X, y)
    above = (proven.objective - exact.objective) / abs(proven.objective)
    assert above <= certificate.estimated_gap + certificate.estimated_gap_error


class Oracle:
    """Objectives of machines of two classes or of values, by all rows and scikit-learn's kernel."""

    def __init__(self, model, X, y):
        self.model, self.X, self.y = model, X, y
        self.kernel = rbf_kernel(X, gamma=model.gamma)

    def parts(self, trained):
        """``1/2 |w|^2``, and what is paid for each row."""
        vectors, coefs = trained.decisions.one(0)
        scores = self.kernel[:, vectors] @ coefs
        half_norm, values = 0.5 * float(coefs @ scores[vectors]), scores + trained.intercept[0]
        if hasattr(self.model, "epsilon"):
            return half_norm, np.maximum(np.abs(self.y - values) - self.model.epsilon, 0.0)
        return half_norm, np.maximum(1.0 - np.where(self.y == 0, 1.0, -1.0) * values, 0.0)

    def objective(self, trained, at):
        """That of all rows, where some stand for them."""
        half_norm, paid = self.parts(trained)
        return half_norm + self.model.C * len(self.y) * float(np.mean(paid[at]))


@pytest.mark.parametrize("model", [AESVC(C=10.0, gamma=2.0), AESVR(C=10.0, gamma=2.0)], ids=str)
@pytest.mark.parametrize("looks", [2, 6, 20])
def test_no_rung_makes_the_model_worse(model, looks, monkeypatch):
    """Not on the rows that judge; on all rows, by no more than the error of the difference."""
    set_table(monkeypatch, first_samples=(100, 250))
    monkeypatch.setattr(samples, "_LEAST_JUDGES", 400)
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows(3000)
    oracle, taken = Oracle(model, X, y), []
    take = ladder._Climb._take

    def watched(climb, made):
        ends = [one.trained for one in (climb.best, made) if one is not None]
        take(climb, made)
        taken.append((ends, climb.best.trained, climb.judges.each[0].rows))

    monkeypatch.setattr(ladder._Climb, "_take", watched)
    last = Sample(2400)
    script(monkeypatch, Sample(600), Sample(600, is_further=True), last)
    fitted(model, TimeLimit(1.0, Clock(monkeypatch, last, looks)), X, y)
    assert len(taken) == 5
    for ends, now, judges in taken:
        paid = oracle.parts(now)[1]
        on_judges = oracle.objective(now, judges)
        for end in ends:
            slack = ROUNDING * on_judges
            assert on_judges <= oracle.objective(end, judges) + slack
            spread = np.std(model.C * (paid - oracle.parts(end)[1]))
            error = 4.0 * len(y) * spread / np.sqrt(len(judges))
            every = np.arange(len(y))
            assert oracle.objective(now, every) <= oracle.objective(end, every) + error + slack


@pytest.mark.parametrize("definite", [True, False])
def test_samples_are_solved_for_to_a_gap_that_is_enough(definite, monkeypatch):
    X, y = rows(2500)
    goals = []

    def seen(work, first, goal):
        goals.append(goal)
        return train(work, first, goal)

    monkeypatch.setattr(ladder, "train", seen)
    script(monkeypatch)
    kernel = {"gamma": 2.0} if definite else {"kernel": "sigmoid", "gamma": 0.1}
    fitted(AESVC(**kernel), TimeLimit(1.0, clock=lambda: 0.0), X, y)
    enough = {goal.enough for goal in goals}
    assert enough == ({TABLE.gap_of_sample} if definite else {None})


def test_pairs_of_classes_that_are_reached_are_exact(monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    monkeypatch.setattr("aesvm.machines.small_pairs.MOST_ROWS", 0)  # one after another
    set_table(monkeypatch, first_samples=(100, 200), rows_of_small_pairs=500)
    X, y = make_blobs(2000, centers=4, cluster_std=3.0, random_state=0)
    model = AESVC(gamma=0.1, C=10.0)
    script(monkeypatch, Exact("all"))
    whole = clone(model).set_params(refine="exact").fit(X, y)
    n_reached = []
    for looks in (10, 40, 80, 160, 320, 640):
        with monkeypatch.context() as patch:
            limit = TimeLimit(1.0, Clock(patch, Exact, looks))
            cut, said = fitted(model, limit, X, y)
        script(monkeypatch, Exact("all"))
        reached = np.isclose(cut.dual_objective_, whole.dual_objective_, rtol=1e-3)
        n_reached.append(int(reached.sum()))
        assert bool(said) == (n_reached[-1] < 6)
        assert np.mean(cut.predict(X) == whole.predict(X)) > 0.6
        assert cut.certify(X, y).dual_objective <= whole.certificate_.objective
    assert n_reached == sorted(n_reached)
    assert any(0 < n < 6 for n in n_reached)


def test_of_many_pairs_of_classes_those_that_are_not_reached_are_of_a_sample(monkeypatch):
    """However long a pair takes, the fit ends when the time is over."""
    monkeypatch.setattr(host, "WORKING_SET", 64)
    monkeypatch.setattr("aesvm.machines.small_pairs.MOST_ROWS", 0)  # one after another
    many = {"pilot_machines": 5, "rows_of_small_pairs": 500}
    set_table(monkeypatch, first_samples=(100, 200), **many)
    X, y = make_blobs(2000, centers=4, cluster_std=3.0, random_state=0)
    model = AESVC(gamma=0.1, C=10.0)
    exact = clone(model).set_params(refine="exact").fit(X, y)
    n_updates = []
    train = Trainer.train

    def watched(self, number, kernel, own, progress):
        machine = train(self, number, kernel, own, progress)
        if len(own.rows) > 500:
            n_updates.append(machine.solution.n_updates)
        return machine

    monkeypatch.setattr(Trainer, "train", watched)
    cut, (said,) = fitted(model, TimeLimit(1.0, Clock(monkeypatch, Exact, 40)), X, y)
    assert 1 <= len(n_updates) < 6  # pairs that are not begun take no time
    assert cut.certificate_.verdict().startswith("stopped after")
    assert re.search(r"the largest of 2\d\d rows", said)  # of all classes
    # by that clock it was tried for 1e9 seconds, which some of six pairs took
    assert cut.certificate_.exact_after in [
        pytest.approx(1e9 * 6 / n, rel=0.01) for n in range(1, 6)
    ]
    assert np.mean(cut.predict(X) == exact.predict(X)) > 0.6
    in_time, said = fitted(model, TimeLimit(1.0, lambda: 0.0), X, y)
    assert not said
    np.testing.assert_array_equal(in_time.predict(X), exact.predict(X))


def test_pairs_of_classes_that_are_cut_short_are_counted():
    X, y = make_blobs(1500, centers=3, cluster_std=4.0, random_state=0)
    _, (said,) = fitted(AESVC(C=100.0), TimeLimit(0.0), X, y)
    assert "3 of 3 pairs of classes were cut short" in said


def test_rows_of_a_sample_are_those_of_all_classes(monkeypatch):
    set_table(monkeypatch, first_samples=(200, 400), rows_of_small_pairs=500)
    script(monkeypatch, Sample(400, is_further=True))
    X, y = make_blobs(3000, centers=4, cluster_std=3.0, random_state=0)
    _, (said,) = fitted(AESVC(gamma=0.1), TimeLimit(1.0, clock=lambda: 0.0), X, y)
    assert re.search(r"a mean of SVMs of samples, the largest of 4\d\d rows", said)


@pytest.mark.parametrize("is_noise", [True, False])
def test_a_model_that_predicts_a_constant_is_said_to(is_noise, monkeypatch):
    """Of noise, the first updates give a w of which 0 is the best multiple."""
    monkeypatch.setattr(host, "WORKING_SET", 16)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 30))
    y = rng.random(4000) < 0.2 if is_noise else X[:, 0] > 0
    model, (said,) = fitted(AESVC(gamma=0.03, C=100.0), TimeLimit(0.0), X, y)
    assert ("predicts a constant" in said) == is_noise
    assert (len(np.unique(model.predict(X))) == 1) == is_noise


def test_a_sample_has_the_shares_of_all_groups():
    groups = np.repeat([0, 1, 2], [3000, 1000, 20])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(groups))
    prepared = prepare(np.arange(float(len(groups)))[:, None], groups, weights)
    prepared = shuffled(prepared, np.random.default_rng(1))
    small = sample(prepared, 400)
    assert np.isin(small.rows, sample(prepared, 1600).rows).all()
    assert [len(own) for own in small.groups] == [299, 100, 10]
    shares = np.bincount(groups[small.rows], small.weights[small.rows])
    np.testing.assert_allclose(
        shares / shares.sum(), np.bincount(groups, weights) / weights.sum(), rtol=1e-12
    )
    assert len(sample(prepared, len(groups)).rows) == len(groups)
    further = sample(prepared, 400, first=500)
    assert not np.isin(further.rows, small.rows)[groups[further.rows] < 2].any()


def test_rows_of_large_weight_are_in_every_sample():
    rng = np.random.default_rng(0)
    groups, weights = np.repeat([0, 1], [3000, 1000]), rng.uniform(0.5, 2.0, 4000)
    heavy = np.array([7, 1234, 3500])
    weights[heavy] = 1e4, 300.0, 1e8
    prepared = shuffled(prepare(np.arange(4000.0)[:, None], groups, weights), rng)
    for first in (0, 1500):
        chosen = sample(prepared, 400, first)
        assert [len(own) for own in chosen.groups] == [300, 100]
        assert np.isin(heavy, chosen.rows).all()
        # each weighs as much of its group as it does of all rows
        shares = chosen.weights[heavy] / np.bincount(groups, chosen.weights)[groups[heavy]]
        of_all = weights[heavy] / np.bincount(groups, weights)[groups[heavy]]
        np.testing.assert_allclose(shares, of_all, rtol=1e-12)
        assert chosen.weights.sum() == pytest.approx(0.1 * weights.sum(), rel=1e-12)


def test_a_model_of_samples_minds_a_row_of_large_weight(monkeypatch):
    """It has another label than its neighbours, and weighs as much as all rows."""
    set_table(monkeypatch, first_samples=(100, 250))
    monkeypatch.setattr(samples, "_LEAST_JUDGES", 400)
    X, y = rows(3000)
    at, weights = 1500, np.ones(3000)
    y[at], weights[at] = 1 - y[at], 3000.0
    script(monkeypatch)
    model = AESVC(gamma=2.0).set_callbacks(TimeLimit(1.0, clock=lambda: 0.0))
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, sample_weight=weights)
    assert model.predict(X[[at]]) == y[at]
    exact = AESVC(gamma=2.0, refine="exact").fit(X, y, sample_weight=weights)
    assert model.certify(X, y, weights).objective < 2.0 * exact.certificate_.objective


def test_the_svm_of_a_sample_is_better_with_the_best_multiple_of_its_w(monkeypatch):
    set_table(monkeypatch, first_samples=(200, 400))
    X, y = make_classification(4000, n_informative=8, flip_y=0.1, random_state=0)
    script(monkeypatch)
    judged = ladder._Climb._judged
    found = []
    for is_usual in (True, False):
        with monkeypatch.context() as patch:
            seen = []

            def watched(climb, name, trained, *others, seen=seen):
                made = judged(climb, name, trained, *others)
                seen.append(made.objective)
                return made

            patch.setattr(ladder._Climb, "_judged", watched)
            if not is_usual:
                patch.setattr(ladder, "best_multiple", lambda _, __, made, scores: (made, scores))
            fitted(AESVC(gamma=0.05), TimeLimit(1.0, clock=lambda: 0.0), X, y)
        found.append(seen[0])
    assert found[0] < 0.95 * found[1]


class Hours:
    """A clock on which each sample takes one hour."""

    def __init__(self, monkeypatch):
        self.now, self.powers = 0.0, []
        train = ladder._Climb._one_sample

        def timed(climb, rung, progress, power):
            self.powers.append(power)
            made = train(climb, rung, progress, power)
            self.now += 1.0
            return made

        monkeypatch.setattr(ladder._Climb, "_one_sample", timed)

    def __call__(self):
        return self.now


@pytest.mark.parametrize(("hours", "is_tried"), [(4.0, False), (1000.0, True)])
def test_larger_costs_are_tried_where_there_is_time_for_that(hours, is_tried, small, monkeypatch):
    X, y = make_moons(4000, noise=0.1, random_state=0)  # of few rows, w is too short
    clock = Hours(monkeypatch)
    script(monkeypatch, Sample(500))
    fitted(AESVC(gamma=2.0, C=0.1), TimeLimit(hours, clock), X, y)
    assert clock.powers == ([0.0, 0.0, 0.25, 0.5] if is_tried else [0.0, 0.0, 0.0])


@EACH
def test_time_enough_gives_the_exact_model_itself(name):
    X, y = rows(2500)
    model = clone(FAMILY[name]).set_params(refine="exact")
    limited = clone(model).set_params(time_limit=10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        np.testing.assert_array_equal(limited.fit(X, y).dual_coef_, model.fit(X, y).dual_coef_)
    assert limited.certificate_.verdict() == model.certificate_.verdict()


def test_a_short_limit_gives_the_svm_of_a_sample_and_says_so():
    X, y = rows(4000)
    with pytest.warns(
        ConvergenceWarning, match=r"time_limit=0 ended the fit.*sample of 5\d\d rows"
    ):
        model = AESVC(gamma=2.0, time_limit=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.certificate_.n_solved < 600
    # a first sample, which may have compiled code, does not tell how long the exact SVM takes
    assert model.certificate_.exact_after is None
    assert "exact SVM takes" not in model.certificate_.verdict()


@pytest.mark.parametrize(("n_rows", "is_known"), [(9000, True), (20_000, False)])
def test_samples_that_are_far_smaller_do_not_tell_how_long_the_exact_svm_takes(
    n_rows, is_known, monkeypatch
):
    script(monkeypatch)  # the largest has 2,000 rows
    model, said = fitted(AESVC(gamma=2.0), TimeLimit(1.0, clock=lambda: 0.0), *rows(n_rows))
    assert (model.certificate_.exact_after is not None) == is_known
    assert ("the exact SVM takes" in said[0]) == is_known


@pytest.mark.usefixtures("small")
def test_an_exact_svm_that_was_cut_short_takes_longer_than_it_was_tried_for(monkeypatch):
    monkeypatch.setattr(host, "WORKING_SET", 64)
    X, y = rows()
    script(monkeypatch, Exact("all"))
    model, said = fitted(FAMILY["AESVC"], TimeLimit(1.0, Clock(monkeypatch, Exact, 6)), X, y)
    assert said
    assert model.certificate_.exact_after > 1e9  # by that clock it was tried for so long


def test_a_nu_form_that_is_cut_at_once_tells_classes_apart():
    """By its own objective, w = 0 may be better than what the first updates gave."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = (X[:, 0] * X[:, 1] + 0.7 * rng.normal(size=4000) > 0).astype(int)
    with pytest.warns(ConvergenceWarning):
        model = AENuSVC(gamma=0.3, nu=0.1, time_limit=1e-9).fit(X, y)
    assert len(model.support_) > 0
    assert len(np.unique(model.predict(X))) == 2


def test_a_limit_of_any_length_is_taken():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    model = AESVC(time_limit=1e300).fit(X, X[:, 0] > 0)
    assert model.certificate_.exact
