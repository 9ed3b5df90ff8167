"""One loop of rounds, with one policy: by itself, and in each of the places where rows can be."""

from __future__ import annotations

from dataclasses import replace

import dask.array as da
import distributed
import numpy as np
import pytest
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.dask import DaskAESVC
from aesvm.formulations.hinge import Hinge
from aesvm.machines import rounds
from aesvm.machines.plan import Facts, plan
from aesvm.machines.problem import Coverage, Machine, TrainingSet, TrainingSets
from aesvm.machines.rounds import Look, OverBudgetError, Policy, refine
from aesvm.out_of_core import merge_tree
from aesvm.runtime.progress import Silence
from tests.plans import set_limits, set_table


def sets_of(name, exact=False):
    """A set of two rows, told from others by its weights."""
    own = TrainingSet(
        np.arange(2),
        np.array([1.0, -1.0]),
        np.full(2, name),
        np.ones(2),
        Coverage(n_rows=100, exact=exact),
        positions_before=np.array([-1.0, 1.0]),
    )
    return TrainingSets(None, [own])


FIRST, FINER, EVERYTHING = 1.0, 2.0, 3.0


class Scripted:
    """A place whose looks are written down: the loss and the rows that crossed, in each."""

    def __init__(self, *looks, all_here=False, over_budget=False, look_cost=0.0):
        self.looks = list(looks)
        self.holds_all_rows = all_here
        self.over_budget = over_budget
        self.cost = look_cost
        self.n_rounds = 0

    def look(self, state, free_offsets):
        loss, crossed = self.looks.pop(0)
        return [
            Look(loss=loss, offsets=(0.0,), doubt=0.1, n_values=1, n_crossed=crossed, n_support=50)
        ]

    def look_cost(self, state):
        return self.cost

    certificate_cost = look_cost

    def stratify(self, cuts, progress):
        if self.over_budget:
            raise OverBudgetError("too much.")
        self.n_rounds += 1
        return sets_of(10.0 + self.n_rounds)

    def finer(self, progress):
        return sets_of(FINER)

    def everything(self):
        return sets_of(EVERYTHING, exact=True)


def train(sets, progress):
    return [Machine(own, np.array([1.0, -1.0]), np.ones(2), (0.0,), None) for own in sets.sets]


def asked(rounds, share=1.0, **others):
    """The policy of so many rounds, or of "auto" for rows that are elsewhere."""
    found = plan(Facts(n_rows=100, in_memory=False, refine=rounds))
    return Policy(found.of_machine(share), share, **others)


def run(place, policy, first=None):
    state = refine(place, first or sets_of(FIRST), policy, Hinge(), train, Silence())
    return state.machines[0].set.weights[0], state.rounds


def test_as_many_rounds_as_were_asked_for():
    assert run(Scripted((9.0, 1), (8.0, 1), (7.0, 1), (6.0, 1)), asked(3)) == (13.0, 3)


def test_no_more_rounds_once_no_row_has_crossed_a_kink():
    # the first set is made without knowing one: the first round is always made
    assert run(Scripted((9.0, 0), (8.0, 4), (7.0, 0)), asked(9)) == (12.0, 2)


@pytest.mark.parametrize(("last", "found"), [(8.5, (11.0, 1)), (8.0, (12.0, 2)), (7.0, (12.0, 2))])
def test_a_last_round_that_raised_the_objective_is_undone(last, found):
    assert run(Scripted((9.0, 1), (8.0, 1), (last, 1)), asked(2)) == found


def test_the_best_of_all_that_were_seen_is_returned():
    looks = [(9.0, 1), (8.0, 1), (8.5, 1), (7.0, 1), (7.5, 1)]
    assert run(Scripted(*looks), asked(4)) == (13.0, 3)


def test_two_rounds_in_a_row_that_do_not_lower_the_objective_are_the_last():
    looks = [(9.0, 1), (8.0, 1), (8.5, 1), (8.0, 1), (1.0, 1)]
    assert run(Scripted(*looks), asked(9)) == (11.0, 1)
    assert run(Scripted(*looks), asked("auto", share=1e3)) == (11.0, 1)


def test_the_last_round_is_not_looked_at_where_that_is_dear():
    assert run(Scripted((9.0, 1), look_cost=1e9), asked(1)) == (11.0, 1)


def test_without_rounds_the_first_set_is_made_anew():
    place = Scripted((9.0, 1), over_budget=True)
    with pytest.raises(OverBudgetError):
        run(place, asked(2))
    place = Scripted((9.0, 1), over_budget=True)
    with pytest.warns(UserWarning, match="has 0 rounds"):
        assert run(place, asked(2, loosen=True)) == (FINER, 0)


def test_auto_makes_no_round_that_takes_too_long(monkeypatch):
    set_limits(monkeypatch, first_round=10.0)
    assert run(Scripted(), asked("auto")) == (FINER, 0)
    assert run(Scripted((9.0, 1), (8.0, 1)), asked(1)) == (11.0, 1)


def test_auto_solves_for_all_rows_where_they_are_here_and_that_is_affordable(monkeypatch):
    here = Scripted((9.0, 1), (8.0, 1), all_here=True)
    assert run(here, asked("auto")) == (EVERYTHING, 0)
    set_limits(monkeypatch, exact=4999.0)
    here = Scripted((9.0, 1), (8.0, 1), all_here=True)
    assert run(here, asked("auto")) == (11.0, 1)
    elsewhere = Scripted((9.0, 1), (8.0, 1))
    assert run(elsewhere, asked("auto")) == (11.0, 1)


def test_auto_solves_for_all_rows_where_a_round_would_take_about_as_long(monkeypatch):
    set_limits(monkeypatch, exact=4999.0)  # the exact SVM takes 5000, a round 2 * 2
    looks = (9.0, 1), (8.0, 1)
    for worth, found in ((3.9 / 5000, EVERYTHING), (4.1 / 5000, 11.0)):
        set_table(monkeypatch, worth=worth)
        assert run(Scripted(*looks, all_here=True), asked("auto"))[0] == found
        assert run(Scripted(*looks, all_here=True), asked(1))[0] == 11.0
        assert run(Scripted(*looks), asked("auto"))[0] == 11.0
    set_table(monkeypatch, worth=0.0)
    set_limits(monkeypatch, first_round=4999.0)  # all rows are out of reach
    assert run(Scripted(*looks, all_here=True), asked("auto"))[0] == 11.0


def test_there_are_no_rounds_where_none_are_asked_for():
    assert run(Scripted(), asked(0)) == (FIRST, 0)


def test_where_every_row_stands_for_itself_there_is_nothing_to_refine():
    assert run(Scripted(), asked(5), sets_of(FIRST, exact=True)) == (FIRST, 0)


X, Y = make_moons(3000, noise=0.3, random_state=0)
PARAMETERS = {"gamma": 1.0, "C": 10.0, "hull_tol": 1e-2, "subset_size": 300}


def in_memory(**parameters):
    return AESVC(**PARAMETERS, **parameters).fit(X, Y)


def from_a_source(**parameters):
    chunks = [(X[at : at + 500], Y[at : at + 500], None) for at in range(0, 3000, 500)]
    return AESVC(**PARAMETERS, **parameters).fit_stream(chunks)


def on_a_cluster(**parameters):
    with distributed.Client(processes=False, n_workers=1, dashboard_address=":0"):
        rows, classes = (da.from_array(array, chunks=500) for array in (X, Y))
        return DaskAESVC(**PARAMETERS, **parameters).fit(rows, classes)


PLACES = [in_memory, from_a_source, pytest.param(on_a_cluster, marks=pytest.mark.slow)]


@pytest.fixture(params=PLACES, ids=lambda fit: fit.__name__)
def fit(request, monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 500)
    return request.param


def looks_that_find(monkeypatch, n_crossed, objective):
    """Every look at all rows has this many that crossed, and an objective by number of rounds."""
    looked_at = rounds.looked_at

    def found(place, state, free_offsets):
        state = looked_at(place, state, free_offsets)
        return replace(state, looks=[replace(look, n_crossed=n_crossed) for look in state.looks])

    monkeypatch.setattr(rounds, "looked_at", found)
    monkeypatch.setattr(rounds.State, "objective", property(lambda self: objective(self.rounds)))


def test_everywhere_the_first_set_is_ten_times_as_coarse_where_rounds_follow(fit):
    assert fit(refine=1).representative_set_.hull_tol == pytest.approx(1e-1)
    assert fit(refine=0).representative_set_.hull_tol == pytest.approx(1e-2)


def test_everywhere_rounds_end_where_no_row_has_crossed_the_margin(fit, monkeypatch):
    looks_that_find(monkeypatch, 0, lambda n_rounds: -n_rounds)
    assert fit(refine=4).certificate_.rounds == 1


def test_everywhere_there_are_as_many_rounds_as_were_asked_for(fit, monkeypatch):
    looks_that_find(monkeypatch, 1, lambda n_rounds: -n_rounds)
    assert fit(refine=3).certificate_.rounds == 3


@pytest.mark.parametrize("best", [0, 1, 2])
def test_everywhere_rounds_that_make_it_worse_are_undone(fit, monkeypatch, best):
    looks_that_find(monkeypatch, 1, lambda n_rounds: abs(n_rounds - best))
    assert fit(refine=4).certificate_.rounds == best


def test_everywhere_the_set_is_finer_where_no_round_can_be_made(fit, monkeypatch):
    set_limits(monkeypatch, exact=10.0, first_round=10.0)
    set_table(monkeypatch, worth=np.inf)
    auto, paper = fit(refine="auto"), fit(refine=0)
    assert auto.certificate_.rounds == 0
    np.testing.assert_array_equal(auto.support_, paper.support_)


def test_everywhere_rounds_come_closer_to_the_exact_svm(fit):
    exact = AESVC(**PARAMETERS, refine="exact").fit(X, Y)
    best = exact.certificate_.objective
    off = []
    for n_rounds in (0, 2):
        model = fit(refine=n_rounds)
        signs = np.where(Y == 1, 1.0, -1.0)
        losses = np.maximum(0.0, 1.0 - signs * np.asarray(model.decision_function(X)))
        off.append(0.5 * model.certificate_.norm**2 + 10.0 * losses.sum() - best)
    assert -1e-3 * best < off[1] < 0.2 * off[0]
