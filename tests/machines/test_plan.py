"""What a fit does: plans made from counts, and fits that follow them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.bases.span_training import SpanTraining
from aesvm.formulations.hinge import Hinge
from aesvm.kernels import KernelSpec
from aesvm.machines import rounds, small_pairs
from aesvm.machines.pilots import Pilots
from aesvm.machines.plan import (
    LIMITS,
    TABLE,
    Exact,
    Expected,
    Facts,
    Ladder,
    Rounds,
    Sample,
    Sampled,
    Span,
    outcome,
    plan,
    remedy,
    rounds_share,
)
from aesvm.machines.problem import TrainingRows
from aesvm.machines.trainer import SolverOptions, Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Silence
from aesvm.sets import derive
from aesvm.sets.derive import ReductionSettings
from tests.plans import set_limits, set_table

X, Y = make_moons(3000, noise=0.3, random_state=0)
MANY = Facts(n_rows=1_000_000, squared_rows=1e12)


class Told:
    """A survey that is written down; what was asked of it is kept."""

    def __init__(self, n_support, left=1.0, n_vectors=100, norm_share=0.1, n_rows=1e6):
        self.answers = Expected(n_rows, n_support), (n_vectors, left), norm_share
        self.asked = []

    def expected(self):
        self.asked.append("expected")
        return self.answers[0]

    def carried(self, most_vectors, most_left):
        self.asked.append("carried")
        self.most_vectors = most_vectors
        return self.answers[1]

    def norm_share(self):
        return self.answers[2]


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"refine": "exact"}, Exact, 'refine="exact"'),
        ({"settings": ReductionSettings(0.0, 1000, 100_000, "distance")}, Exact, "hull_tol=0"),
        ({"n_rows": 900}, Exact, "one subset"),
        ({"refine": 0}, Rounds, "refine=0"),
        ({"refine": 3}, Rounds, "refine=3"),
        ({"max_vectors": 50}, Span, "max_vectors=50"),
        ({"max_vectors": 50, "n_rows": 900}, Span, "max_vectors=50"),
        ({"in_memory": False}, Rounds, "not in memory"),
        ({"in_memory": False, "asked_again": False}, Rounds, "read once"),
        ({"in_memory": False, "max_vectors": 50}, Span, "max_vectors=50"),
    ],
)
def test_what_the_user_sets_is_done_and_no_sample_is_asked(changes, kind, reason):
    survey = Told(1e5)
    found = plan(Facts(**{**vars(MANY), **changes}), survey)
    assert isinstance(found, kind)
    assert reason in str(found)
    assert not survey.asked


def test_the_first_set_is_ten_times_as_coarse_where_rounds_follow():
    for refine, coarser in ((0, 1.0), (1, 10.0), (7, 10.0)):
        found = plan(Facts(n_rows=5000, refine=refine))
        assert found.settings.hull_tol == coarser * 1e-3
        assert found.most == refine


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_is_exact_up_to_the_limit_of_the_device(device):
    limit = LIMITS[device].exact
    facts = Facts(n_rows=int(1e7), squared_rows=1e14, device=device)
    for share, exact in ((0.99, True), (1.01, False)):
        survey = Told(share * limit / 1e7, left=0.0, n_rows=1e7)
        found = plan(facts, survey)
        assert isinstance(found, Exact if exact else Span)
        assert f"limit {limit:.0e}" in str(found)
    survey = Told(1e5)
    few = Facts(n_rows=1000_0, squared_rows=limit, device=device)
    assert isinstance(plan(few, survey), Exact)
    assert not survey.asked  # rows times rows are few enough


def test_a_gpu_may_spend_a_hundred_times_as_much():
    assert LIMITS["cuda"] == tuple(100.0 * limit for limit in LIMITS["cpu"])


def test_auto_takes_few_vectors_where_they_carry_the_pilot():
    found = plan(MANY, Told(2e5, left=0.04))
    assert isinstance(found, Span)
    assert found.settles
    assert found.max_vectors == 200
    assert isinstance(plan(MANY, Told(2e5, left=0.11)), Rounds)  # 10 % of the norm may be left
    assert isinstance(plan(MANY, Told(2e5, left=0.2, norm_share=0.01)), Span)
    assert isinstance(plan(MANY, Told(2e5, left=0.3, norm_share=0.0)), Rounds)
    assert plan(MANY, Told(2e5, left=0.0, n_vectors=3)).max_vectors == TABLE.least_vectors


@pytest.mark.parametrize(
    "changes", [{"definite": False}, {"n_rows": 39_999}, {"n_machines": 1000}], ids=str
)
def test_auto_does_not_ask_for_vectors_where_they_cannot_pay(changes):
    survey = Told(2e5, left=0.0)
    assert not isinstance(plan(Facts(**{**vars(MANY), **changes}), survey), Span)
    assert survey.asked == ["expected"]


def test_fewer_vectors_pay_where_there_are_fewer_support_vectors_and_more_in_pairs():
    def asked_for(n_support, n_machines=1):
        survey = Told(n_support)
        plan(Facts(**{**vars(MANY), "n_machines": n_machines}), survey)
        return survey.most_vectors

    assert asked_for(30_000) == 774  # its square is 20 times that
    assert asked_for(1e6) == TABLE.span_vectors
    assert asked_for(30_000, n_machines=6) == 1549  # of four classes, a pair has half of them


def test_auto_makes_rounds_where_the_first_set_may_be_small():
    found = plan(MANY, Told(2e5))
    assert isinstance(found, Rounds)
    assert found.most is None
    assert 0.1 < found.settings.most_kept < 0.4
    assert found.settings.hull_tol == 1e-2
    assert found.support_share == pytest.approx(0.2)


def test_auto_is_exact_where_nothing_else_pays():
    facts = Facts(**{**vars(MANY), "settings": ReductionSettings(1e-3, 100_000, 10**6, "distance")})
    found = plan(facts, Told(3e4))
    assert isinstance(found, Exact)
    assert "nothing else is faster" in str(found)


def test_rounds_take_more_the_more_rows_are_kept_and_the_fewer_support_vectors_there_are():
    facts = Facts(n_rows=100_000)
    kept = np.linspace(0.0, 1.0, 11)
    shares = [rounds_share(facts, Expected(1e5, 3e4), share) for share in kept]
    assert (np.diff(shares) > 0).all()
    assert shares[0] < 0.25
    assert shares[-1] > 1.0
    by_support = [rounds_share(facts, Expected(1e5, n), 0.1) for n in (1e3, 3e3, 1e4, 5e4)]
    assert (np.diff(by_support) < 0).all()


def test_the_fewer_features_there_are_the_more_reducing_takes_of_the_exact_svm():
    expected = Expected(1e5, 3e4)
    shares = [rounds_share(Facts(100_000, n_features=d), expected, 0.1) for d in (3, 20, 54, 800)]
    assert (np.diff(shares) < 0).all()


def test_the_first_set_is_shared_and_the_rounds_of_pairs_are_not():
    one = rounds_share(Facts(100_000), Expected(n_rows=1e5, n_support=1e4), 0.1)
    ten = rounds_share(Facts(100_000, n_machines=10), Expected(n_rows=1e6, n_support=1e4), 0.1)
    assert 0.6 * one < ten < one


# --- pilots


def pilots_of(y, n_classes=2):
    data = TrainingRows.of_classes(X, y, np.ones(len(y)), np.ones(n_classes))
    kernel = TrainingKernel(KernelSpec("rbf", 1.0), X, 1e-3)
    options = SolverOptions(1e-3, -1, 200_000_000, True)
    trainer = Trainer(Hinge(), options, data.n_machines, map, Silence())
    prepared = derive.prepare(X, y, data.weights)
    return Pilots(data, kernel, prepared, trainer, Silence())


def test_support_vectors_are_expected_to_become_a_smaller_share(monkeypatch):
    set_table(monkeypatch, pilot_rows=400, pilot_least=10)
    y = (X[:, 0] > 0.5).astype(int)  # no noise: the support vectors lie along a line
    found = pilots_of(y).expected()
    assert found.n_rows == 3000
    n_support = AESVC(gamma=1.0, refine="exact").fit(X, y).n_support_.sum()
    set_table(monkeypatch, falls_on=0.0)
    assert n_support < found.n_support < 0.8 * pilots_of(y).expected().n_support


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_the_exact_svm_takes_is_expected_from_a_sample(monkeypatch, n_classes):
    y = (Y + (np.arange(3000) % 4 == 0)) % n_classes
    exact = AESVC(gamma=1.0, refine="exact").fit(X, y)
    label = np.repeat(np.arange(n_classes), exact.n_support_)
    true = 0
    for i, j in combinations(range(n_classes), 2):
        dual = exact.dual_coef_
        support = np.count_nonzero(dual[j - 1][label == i]) + np.count_nonzero(dual[i][label == j])
        true += ((y == i) | (y == j)).sum() * support
    set_table(monkeypatch, pilot_rows=600, pilot_least=10)
    assert 0.7 * true < pilots_of(y, n_classes).expected().values < 1.6 * true


def test_of_very_many_machines_some_stand_for_all(monkeypatch):
    set_table(monkeypatch, pilot_machines=4)
    y = np.arange(3000) % 5
    found = pilots_of(y, 5)
    assert found.expected().n_rows == pytest.approx(4 * 3000)
    assert len(found._found) == 4


@pytest.mark.parametrize(("n_each", "is_in_time"), [(1000, False), (10_000, True)])
def test_very_many_machines_have_samples_in_time_unless_they_are_small(n_each, is_in_time):
    counts = {"n_machines": 66, "squared_rows": 66.0 * n_each**2}
    found = plan(Facts(n_rows=6 * n_each, seconds=10.0, **counts))
    assert isinstance(found, Ladder if is_in_time else Exact)


def test_exact_svms_of_very_many_machines_follow_the_first_samples():
    """Whatever these took: it does not tell what larger machines take."""
    counts = {"n_machines": 66, "squared_rows": 66.0 * 25_000**2}
    ladder = plan(Facts(n_rows=150_000, seconds=10.0, **counts))
    assert isinstance(ladder.next(Sampled(2000, seconds=9.0), left=1.0), Exact)
    assert ladder.next(Sampled(2000, seconds=9.0), left=0.0) is None


# --- fits


@pytest.fixture
def eager(monkeypatch):
    """Few rows are many: the exact SVM is not affordable."""
    set_limits(monkeypatch, exact=10.0)


@pytest.fixture
def reduced(monkeypatch):
    """The subsets that were reduced."""
    found, reduce = [], derive.SubsetReducer.reduce

    def reduced(self, rows):
        found.append(len(rows))
        return reduce(self, rows)

    monkeypatch.setattr(derive.SubsetReducer, "reduce", reduced)
    return found


def test_an_exact_fit_reduces_no_subset_and_trains_no_pilot(reduced, monkeypatch):
    monkeypatch.setattr(SpanTraining, "expected", None)
    monkeypatch.setattr(SpanTraining, "context", None)  # which makes rows in double precision
    for refine in ("exact", "auto"):
        assert AESVC(gamma=1.0, refine=refine).fit(X, Y).certificate_.exact
    assert not reduced


def test_auto_makes_rounds_where_few_rows_represent_all(eager, reduced, capsys):
    model = AESVC(gamma=0.1, subset_size=100, verbose=1).fit(X, Y)
    assert model.certificate_.rounds >= 1
    assert sum(reduced) >= 3000
    assert "auto: rounds, since" in capsys.readouterr().out


def test_auto_is_exact_after_a_few_subsets_where_most_rows_would_be_kept(
    eager, reduced, capsys, recwarn
):
    model = AESVC(gamma=10.0, C=0.1, hull_tol=1e-3, subset_size=100, verbose=1).fit(X, Y)
    assert model.certificate_.exact
    assert not model.representative_set_.reduced_
    assert 0 < len(reduced) <= 8
    assert "would have to represent themselves" in capsys.readouterr().out
    assert not recwarn.list  # it was a choice


def test_auto_cuts_no_rows_where_its_pairs_are_too_small_for_rounds(eager, reduced, capsys):
    model = AESVC(gamma=10.0, subset_size=1000, verbose=1).fit(X, np.arange(3000) % 6)
    assert model.certificate_.exact
    assert not reduced
    assert "15 pairs of classes, each of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"refine": "exact", "in_memory": False}, 'refine="exact" needs all rows in one place'),
        ({"max_vectors": 5, "refine": 2}, "max_vectors=5 trains on all rows, and refine=2"),
        (
            {"max_vectors": 5, "definite": False, "kernel": "kernel='sigmoid'"},
            "max_vectors=5 needs a positive semidefinite kernel, and kernel='sigmoid' is not",
        ),
    ],
)
def test_what_no_plan_can_do_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(Facts(**{**vars(MANY), **changes}))


def test_the_outcome_follows_the_plan_where_it_differs():
    for refine, exact, n_rounds, found in (
        ("exact", True, 0, ""),
        (2, False, 2, ""),
        (0, False, 0, ""),
        (2, False, 1, "; outcome: 1 round"),
        (2, True, 0, "; outcome: exact"),
        (2, True, 1, "; outcome: exact after 1 round"),
    ):
        chosen = plan(Facts(n_rows=5000, refine=refine))
        assert outcome(chosen, exact, n_rounds) == f"{chosen}{found}"
    exact = plan(Facts(n_rows=5000, refine="exact"))
    assert outcome(exact, True, 0, "too late") == f"{exact}; outcome: cut short: too late"


def test_few_vectors_are_advised_where_the_kernel_has_a_span():
    exact = plan(Facts(n_rows=5000, refine="exact"))
    assert remedy(exact, definite=True).endswith("fewer rows, max_vectors or refine=1")
    assert remedy(exact, definite=False).endswith("fewer rows or refine=1")


def test_the_certificate_says_that_rounds_became_the_exact_svm(eager):
    model = AESVC(gamma=10.0, C=0.1, hull_tol=1e-3, subset_size=100).fit(X, Y)
    assert model.certificate_.plan.startswith("approximate: representatives")
    assert model.certificate_.plan.endswith("; outcome: exact")


def test_a_line_says_that_pilots_are_trained_before_the_plan_is_made(eager, capsys):
    AESVC(gamma=0.1, subset_size=100, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    (pilot,) = (at for at, line in enumerate(lines) if "pilot: the exact SVM of a sample" in line)
    (planned,) = (at for at, line in enumerate(lines) if "plan: " in line)
    assert pilot < planned


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_plan_is_one_line_and_kept_with_the_certificate(n_classes, capsys):
    model = AESVC(gamma=1.0, verbose=1).fit(X, np.arange(3000) % n_classes)
    lines = [line for line in capsys.readouterr().out.splitlines() if "plan: " in line]
    assert len(lines) == 1
    assert lines[0].endswith(model.certificate_.plan)
    assert model.certificate_.plan.startswith("exact (auto: at most")


def test_the_plan_of_a_stream_is_kept_with_the_certificate():
    model = AESVC(gamma=1.0).fit_stream([(X, Y, None)])
    assert model.certificate_.plan.startswith("approximate: representatives, then rounds while")
    model.fit_stream(iter([(X, Y, None)]))
    assert model.certificate_.plan.startswith(
        "approximate: representatives only (the rows are read once)"
    )


def test_certificates_of_all_pairs_together_take_no_more_than_one_may(monkeypatch):
    monkeypatch.setattr(small_pairs, "MOST_ROWS", 0)  # small pairs are always proven
    y = np.arange(3000) % 3  # every row is a support vector
    cost = 1.5 * 2000.0**2
    for pairs, proven in ((1.1, False), (3.3, True)):
        monkeypatch.setattr(rounds, "FREE", pairs * cost)
        model = AESVC(gamma=1.0, refine="exact").fit(X, y)
        assert model.certificate_.proven == proven
        two = AESVC(gamma=1.0, refine="exact").fit(X[y < 2], y[y < 2])
        assert two.certificate_.proven


def test_numbers_of_the_table_are_read_when_a_plan_is_made(monkeypatch):
    set_table(monkeypatch, worth=0.0)
    assert isinstance(plan(MANY, Told(2e5)), Exact)


# --- a limit


def ladder(**facts):
    known = {"n_rows": 100_000, "squared_rows": 1e10, "seconds": 10.0}
    found = plan(Facts(**{**known, **facts}))
    assert isinstance(found, Ladder)
    return found


def test_a_limit_makes_a_ladder_where_the_method_is_free():
    assert ladder().goal.duality_tol is None
    assert ladder(refine="exact").goal.duality_tol is not None
    assert ladder(refine="exact", definite=False).goal.duality_tol is None
    few = Facts(n_rows=900, squared_rows=81e4, seconds=1.0)
    for other in (
        few,
        replace(few, n_rows=100_000, refine=2),
        replace(few, n_rows=100_000, max_vectors=10),
        replace(few, n_rows=100_000, in_memory=False),
        replace(few, n_rows=100_000, seconds=inf),
        replace(few, n_rows=100_000, n_machines=66),  # of twelve classes
    ):
        assert not isinstance(plan(other, None), Ladder)


def test_the_exact_svm_is_next_where_it_is_expected_to_be_in_time():
    one, made = ladder(), Sampled(25_000, 0.3)
    seconds = made.seconds_of(100_000)
    assert 2.0 < seconds <= 10.0
    assert one.next(made, 1.01 * seconds / TABLE.fills) is one.goal
    assert isinstance(one.next(made, 0.99 * seconds / TABLE.fills), Sample)
    # a far smaller sample does not tell that for sure
    far, seconds = Sampled(1000, 0.001), Sampled(1000, 0.001).seconds_of(100_000)
    assert one.next(far, 1.01 * seconds / TABLE.fills) == Sample(4000)
    assert one.next(far, 10.0 * seconds) is one.goal
    # the difference of two short times tells less
    noisy = Sampled(2000, 0.1, before=(500, 0.0999))
    assert noisy.n_rows_in(TABLE.fills * 8.0) > TABLE.amply * 100_000
    assert one.next(noisy, 8.0) == Sample(8000)
    # what solves of any size take counts once
    timed = Sampled(1000, 0.101, before=(100, 0.1))
    assert timed.own_seconds == pytest.approx(0.001, rel=0.03)


def test_a_sample_that_was_disturbed_does_not_tell_how_long_others_take():
    usual = Sampled(2000, 0.02, before=(500, 0.002))
    slow = usual._replace(seconds=0.2)
    by_first = Sampled(500, 0.002).seconds_of(2000)
    assert slow.own_seconds == pytest.approx(by_first)
    assert usual.own_seconds < by_first
    # another sample, of as many rows, took less
    assert slow.after_another(Sampled(2000, 0.02)).seconds == 0.02
    assert usual.after_another(Sampled(1000, 0.2, n_used=1)) == usual._replace(n_used=1000)


def test_the_exact_svm_takes_longer_than_a_sample_of_all_rows_would():
    made = Sampled(1000, 0.001)
    assert ladder().seconds_of_exact(made) > made.seconds_of(100_000)
    # of an indefinite kernel samples are solved for as it is
    assert ladder(definite=False).seconds_of_exact(made) == made.seconds_of(100_000)


def test_a_larger_sample_follows_where_the_exact_svm_is_not_in_time():
    one = ladder()
    assert one.next(Sampled(1000, 0.001), 1.0) == Sample(4000)
    last = one.next(Sampled(4000, 0.16), 1.0)
    assert isinstance(last, Sample)
    assert 4000 < last.n_rows < 16_000
    assert one.next(Sampled(last.n_rows, 0.7), 0.1) is None


def test_the_last_sample_is_foreseen_by_one_that_is_not_far_smaller():
    one, made, left = ladder(), Sampled(2000, 0.01), 2.0
    sizes = [made.n_rows]
    while (rung := one.next(made, left)) is not None:
        before = made.n_rows
        seconds = made.seconds_of(rung.n_rows)
        left -= seconds
        if rung.is_further:
            made = made._replace(n_used=made.n_used + rung.n_rows)
            continue
        made = Sampled(rung.n_rows, seconds, n_used=rung.n_rows)
        sizes.append(rung.n_rows)
        assert before < rung.n_rows <= TABLE.far * before
    assert len(sizes) > 2
    assert 0.0 <= left < 0.3 * 2.0


def test_pairs_of_classes_that_are_reached_are_exact_whatever_the_time():
    many = ladder(n_machines=45, squared_rows=2e9)
    assert isinstance(many.next(Sampled(2000, 0.1), 5.0), Sample)
    assert many.next(Sampled(11_000, 3.0), 1.0) is many.goal
    assert ladder().next(Sampled(11_000, 3.0), 1.0) is None


def test_the_largest_sample_in_time_takes_that_time():
    made = Sampled(4000, 1.0, before=(1000, 0.1))
    assert 3.0 < made.seconds_of(8000) / made.own_seconds <= 4.0
    assert made.n_rows_in(made.seconds_of(8000)) == pytest.approx(8000, abs=1)


@given(
    st.floats(1e-4, 1e3), st.integers(500, 99_000), st.floats(0.0, 1e3), st.sampled_from([1, 45])
)
def test_every_ladder_ends(seconds, n_rows, left, n_machines):
    """Samples grow, or have rows that none before had; none is begun when the time is over."""
    one = ladder(n_machines=n_machines)
    now = n_used = n_rows
    for _ in range(60):
        square = seconds * (now / n_rows) ** 2
        rung = one.next(Sampled(now, square, n_used=n_used), left)
        if rung is None or rung is one.goal:
            return
        assert left > 0.0
        left -= seconds * (rung.n_rows / n_rows) ** 2
        if rung.is_further:
            n_used += rung.n_rows
            assert rung.n_rows <= now
            assert n_used <= 100_000
        else:
            assert now < rung.n_rows <= 100_000
            now = rung.n_rows
            n_used = max(n_used, now)
    raise AssertionError(rung)


def test_time_that_is_left_is_for_further_rows_where_it_is_enough_for_many():
    one, made = ladder(), Sampled(20_000, 1.0, n_used=20_000)
    more = one.next(made, 0.7)
    assert more is not None
    assert more.is_further
    assert TABLE.worth_another * 20_000 <= more.n_rows <= 20_000
    assert one.next(made, 0.2) is None
    assert one.next(made._replace(n_used=95_000), 0.7) is None  # there are not so many other rows
