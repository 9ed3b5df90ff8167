"""What an exact fit is expected to take, beside what it takes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVC, AESVR
from aesvm.estimators import trained
from aesvm.machines import outlook
from aesvm.machines.trainer import Trainer
from aesvm.runtime import progress

ROWS = 9000


def clusters():
    return make_classification(ROWS, n_informative=8, flip_y=0.1, random_state=0)


def regression():
    X, y = make_moons(ROWS, noise=0.3, random_state=0)
    return X, y + np.sin(3.0 * X[:, 0])


@pytest.fixture
def solves(monkeypatch):
    """The kernel values and the updates of each solve, and what was expected of all."""
    found = {"taken": [], "expected": []}
    train, look = Trainer.train, outlook.outlook

    def watched(self, *given):
        machine = train(self, *given)
        found["taken"].append((machine.n_evaluations, machine.solution.n_updates))
        return machine

    def looked(*given):
        known = look(*given)
        found["expected"].append((known.n_values, known.n_updates))
        found["taken"].clear()  # those of the pilots
        return known

    monkeypatch.setattr(Trainer, "train", watched)
    monkeypatch.setattr(outlook, "outlook", looked)
    monkeypatch.setattr(outlook, "_WORTH_ASKING", 1000)
    return found


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (AESVC(gamma=0.05), clusters),
        (AESVC(gamma=2.0, refine="exact"), lambda: make_moons(ROWS, noise=0.3, random_state=0)),
        (AESVR(gamma=1.0), regression),
    ],
    ids=["clusters", "moons", "regression"],
)
def test_the_work_that_is_expected_is_that_of_the_fit_to_a_factor(model, rows, solves, capsys):
    model.set_params(verbose=1).fit(*rows())
    (taken,), (expected,) = solves["taken"], solves["expected"]
    n_values, n_updates = np.array(expected) / np.array(taken)
    assert 1 / 4 < n_values < 4
    assert 1 / 16 < n_updates < 16
    assert "; time: " in capsys.readouterr().out


def test_pairs_of_classes_add_up(solves, capsys):
    X, y = make_moons(ROWS, noise=0.3, random_state=0)
    y = 2 * y + (X[:, 1] > 0.3)
    AESVC(gamma=2.0, verbose=1).fit(X, y)
    expected = solves["expected"][0]
    assert "; time: " in capsys.readouterr().out
    taken = np.sum(solves["taken"], axis=0)
    assert 1 / 4 < expected[0] / taken[0] < 4


def test_without_lines_no_pilot_is_trained(solves):
    AESVC(gamma=2.0).fit(*make_moons(ROWS, noise=0.3, random_state=0))
    assert not solves["expected"]
    assert len(solves["taken"]) == 1


@pytest.mark.parametrize("is_expected", [True, False])
def test_a_long_solve_says_how_long_it_will_take_where_that_is_known(
    is_expected, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setattr(outlook, "_WORTH_ASKING", 1000)
    if not is_expected:
        monkeypatch.setattr(trained, "expect", lambda work, prepared, plan: plan)
    AESVC(gamma=2.0, verbose=1).fit(*make_moons(ROWS, noise=0.3, random_state=0))
    lines = re.findall(r"solve: SVM 1 of 1 .*", capsys.readouterr().out)
    assert lines
    assert any(line.endswith(" left") for line in lines) == is_expected


def test_what_is_expected_changes_nothing_but_progress():
    X, y = make_moons(25_000, noise=0.3, random_state=0)
    silent, said = AESVC(gamma=2.0).fit(X, y), AESVC(gamma=2.0, verbose=1).fit(X, y)
    np.testing.assert_array_equal(silent.dual_coef_, said.dual_coef_)
    assert silent.certificate_ == said.certificate_
