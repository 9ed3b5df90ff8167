"""What an exact fit is expected to take, beside what it takes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVC, AESVR
from aesvm.certificate.text import between
from aesvm.estimators import trained
from aesvm.machines import forecast, trainer
from aesvm.machines.plan import TABLE
from aesvm.machines.sharing import Starts
from aesvm.machines.trainer import Trainer
from aesvm.model_selection import AEGridSearchCV
from aesvm.runtime import progress

ROWS = 9000


def clusters():
    return make_classification(ROWS, n_informative=8, flip_y=0.1, random_state=0)


def moons():
    return make_moons(ROWS, noise=0.3, random_state=0)


def regression():
    X, y = make_moons(ROWS, noise=0.3, random_state=0)
    return X, y + np.sin(3.0 * X[:, 0])


@pytest.fixture
def solves(monkeypatch):
    """The kernel values and the updates of each solve, and what was expected of all.

    ``bars``: the kernel values that progress expects of the solves.
    """
    found = {"taken": [], "expected": [], "bars": set()}
    train, look, done_of = Trainer.train, forecast.forecast, trainer.done_of

    def watched(self, *given):
        machine = train(self, *given)
        found["taken"].append((machine.n_evaluations, machine.solution.n_updates))
        return machine

    def looked(*given):
        known = look(*given)
        found["expected"].append(known)
        found["taken"].clear()  # those of the small SVMs
        found["bars"].clear()
        return known

    def done(n_values, n_expected):
        found["bars"].add(n_expected)
        return done_of(n_values, n_expected)

    monkeypatch.setattr(Trainer, "train", watched)
    monkeypatch.setattr(trainer, "done_of", done)
    monkeypatch.setattr(forecast, "forecast", looked)
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    return found


@pytest.mark.parametrize(
    ("model", "rows", "least"),
    [
        (AESVC(gamma=0.05), clusters, 1 / 2),  # the small SVMs keep all kernel values
        (AESVC(gamma=2.0, refine="exact"), moons, 1 / 4),
        (AESVR(gamma=1.0), regression, 1 / 4),
    ],
    ids=["clusters", "moons", "regression"],
)
def test_the_work_that_is_expected_is_that_of_the_fit_to_a_factor(
    model, rows, least, solves, capsys
):
    model = clone(model).set_params(verbose=1).fit(*rows())
    ((n_values, n_updates),), (expected,) = solves["taken"], solves["expected"]
    assert least < expected.n_values / n_values < 4
    assert 1 / 16 < expected.n_updates / n_updates < 16
    n_free = np.count_nonzero(np.abs(model.dual_coef_) < (1.0 - 1e-9) * model.C)
    assert 1 / 8 < expected.n_free / n_free < 8
    assert "; time: " in capsys.readouterr().out


def counts(n_rows, support=0.3, free=0.05, updates=1.0, each=1.5):
    """Those of a solve whose counts are in proportion to its rows."""
    n_values = forecast._first(n_rows) + each * support * n_rows**2
    return forecast._Counts(n_rows, support * n_rows, free * n_rows, updates * n_rows, n_values)


def test_counts_in_proportion_to_the_rows_stay_so():
    found = forecast._of_all(counts(1250), counts(5000), 20_000)
    assert found == pytest.approx(counts(20_000))  # the free ones have room in a working set


def test_free_variables_that_a_working_set_has_no_room_for_take_more():
    few, many = counts(20_000), counts(20_000, free=0.2)
    found = forecast._of_all(counts(1250, free=0.2), counts(5000, free=0.2), 20_000)
    assert found.n_free == pytest.approx(many.n_free)
    assert found.n_updates > 1.2 * few.n_updates
    assert found.n_values > 1.1 * few.n_values


def test_a_solve_that_holds_all_kernel_values_does_not_tell_how_many_others_take():
    held = counts(2000)._replace(n_values=2000 * 2001 / 2)
    found = forecast._of_all(counts(500), held, 20_000)
    usual = forecast._first(20_000) + TABLE.exact_values * 20_000 * found.n_support
    assert found.n_values == pytest.approx(usual)


@pytest.mark.parametrize(
    "y",
    [
        np.arange(2000) < 5,  # small SVMs have rows of one class
        np.minimum(np.arange(2000), 2),  # a pair of two rows
        np.maximum(np.arange(2000) % 10, np.arange(2000) % 1000 // 990),
    ],
)
def test_rare_classes_are_expected_to_take_something(y, monkeypatch, capsys):
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    X = np.random.default_rng(0).normal(size=(len(y), 3))
    AESVC(verbose=1).fit(X, y)
    assert "time: " in capsys.readouterr().out


@pytest.mark.parametrize("n_trained", [1, 2])
def test_some_pairs_of_classes_stand_for_all(n_trained, solves, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 5)), np.arange(4000) % 5  # all pairs are alike
    AESVC(gamma=0.5, verbose=1).fit(X, y)
    monkeypatch.setattr(forecast, "_MACHINES", n_trained)
    AESVC(gamma=0.5, verbose=1).fit(X, y)
    of_all, of_some = solves["expected"]
    assert capsys.readouterr().out.count("; time: ") == 2
    assert of_some.n_values == pytest.approx(of_all.n_values, rel=0.3)
    assert of_some.n_updates == pytest.approx(of_all.n_updates, rel=0.5)


def test_pairs_of_classes_add_up(solves, capsys):
    X, y = moons()
    y = 2 * y + (X[:, 1] > 0.3)
    AESVC(gamma=2.0, verbose=1).fit(X, y)
    (expected,) = solves["expected"]
    assert "; time: " in capsys.readouterr().out
    n_values, _ = np.sum(solves["taken"], axis=0)
    assert 1 / 4 < expected.n_values / n_values < 4


def test_memory_is_said_with_the_matrices_of_free_variables(monkeypatch, capsys):
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    look = forecast.forecast
    said = []
    for n_free in (10.0, 2000.0):
        with monkeypatch.context() as patch:
            patch.setattr(forecast, "forecast", lambda *a, n=n_free: look(*a)._replace(n_free=n))
            AESVC(gamma=2.0, verbose=1).fit(*moons())
        (found,) = re.findall(r"memory: some ([\d.]+) MB", capsys.readouterr().out)
        said.append(float(found))
    assert said[1] - said[0] > 8e-6 * 2000**2


def test_seconds_are_those_of_kernel_values_and_of_updates(solves, monkeypatch, capsys):
    looks = iter(range(1000))
    monkeypatch.setattr(forecast, "_clock", lambda: 10.0 * next(looks))
    AESVC(gamma=2.0, verbose=1).fit(*moons())
    (found,) = solves["expected"]
    of_value = 10.0 / (forecast._LINES * ROWS)  # the block has all rows, and takes ten seconds
    seconds = forecast._REST * found.n_values * of_value + found.n_updates * forecast._UPDATE
    assert found.seconds == pytest.approx(seconds, rel=1e-9)
    said = between(forecast._LEAST * seconds, forecast._MOST * seconds)
    assert f"; time: {said}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "rows"),
    [(AESVC(gamma=2.0), moons), (AESVR(gamma=1.0), regression)],
    ids=["moons", "regression"],
)
def test_progress_counts_the_kernel_values_that_are_expected(model, rows, solves, capsys):
    clone(model).fit(*rows())
    usual = TABLE.exact_values * TABLE.support_share * ROWS**2
    assert list(solves["bars"]) == pytest.approx([usual])
    clone(model).set_params(verbose=1).fit(*rows())
    assert "; time: " in capsys.readouterr().out
    assert list(solves["bars"]) == pytest.approx([solves["expected"][0].n_values])


def test_small_svms_are_no_start_of_the_fits_of_a_search(solves, monkeypatch):
    sizes, keep = [], Starts.keep

    def kept(starts, number, kernel, rows, *others):
        sizes.append(len(rows))
        keep(starts, number, kernel, rows, *others)

    monkeypatch.setattr(Starts, "keep", kept)
    X, y = moons()
    AEGridSearchCV(AESVC(gamma=2.0, verbose=1), {"C": [1.0, 2.0]}, cv=2, refit=False).fit(X, y)
    assert solves["expected"]
    assert sizes == 4 * [ROWS // 2]


def test_without_lines_no_small_svm_is_trained(solves):
    AESVC(gamma=2.0).fit(*moons())
    assert not solves["expected"]
    assert len(solves["taken"]) == 1


@pytest.mark.parametrize("is_expected", [True, False])
def test_a_long_solve_says_how_long_it_will_take_where_that_is_known(
    is_expected, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    if not is_expected:
        monkeypatch.setattr(trained, "expect", lambda context, prepared, plan: plan)
    AESVC(gamma=2.0, verbose=1).fit(*moons())
    lines = re.findall(r"solve: SVM 1 of 1 .*", capsys.readouterr().out)
    assert lines
    assert any(line.endswith(" left") for line in lines) == is_expected


def test_a_solve_that_takes_more_than_expected_does_not_say_how_long_it_will_take(
    monkeypatch, capsys
):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setattr(forecast, "_WORTH_ASKING", 1000)
    monkeypatch.setattr(Trainer, "_n_values_expected", lambda trainer, own: 1.0)
    AESVC(gamma=2.0, verbose=1).fit(*moons())
    lines = re.findall(r"solve: SVM 1 of 1 .*", capsys.readouterr().out)
    assert lines
    assert not any(line.endswith(" left") for line in lines)


def test_what_is_expected_changes_nothing_but_progress(solves):
    silent, said = AESVC(gamma=2.0).fit(*moons()), AESVC(gamma=2.0, verbose=1).fit(*moons())
    assert len(solves["expected"]) == 1
    np.testing.assert_array_equal(silent.dual_coef_, said.dual_coef_)
    assert silent.certificate_ == said.certificate_
