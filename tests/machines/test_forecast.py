"""What a fit would take, foreseen in counts, and what "auto" makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.formulations.hinge import Hinge
from aesvm.kernels import KernelSpec
from aesvm.machines import forecast, rounds
from aesvm.machines.forecast import Forecast
from aesvm.machines.rows import ClassRows
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.sets import derive

X, Y = make_moons(3000, noise=0.3, random_state=0)


@pytest.fixture
def eager(monkeypatch):
    """Few rows are many: the exact SVM is not affordable."""
    monkeypatch.setattr(rounds, "EXACT_EFFORT", 10.0)


@pytest.fixture
def reduced(monkeypatch):
    """The subsets that were reduced."""
    found, reduce = [], derive.SubsetReducer.reduce

    def reduced(self, rows):
        found.append(len(rows))
        return reduce(self, rows)

    monkeypatch.setattr(derive.SubsetReducer, "reduce", reduced)
    return found


def test_rounds_take_more_the_more_rows_are_kept_and_the_fewer_support_vectors_there_are():
    kept = np.linspace(0.0, 1.0, 11)
    shares = [Forecast(1e5, 3e4, 1e5).share_of_rounds(share, 1, 1000) for share in kept]
    assert (np.diff(shares) > 0).all()
    assert shares[0] < 0.25
    assert shares[-1] > 1.0
    most = [Forecast(1e5, n, 1e5).most_kept(1, 1000) for n in (1e3, 3e3, 1e4, 5e4)]
    assert most[0] == 0.0
    assert (np.diff(most) > 0).all()
    assert most[-1] < 0.4


def test_the_fewer_features_there_are_the_more_reducing_takes_of_the_exact_svm():
    shares = [Forecast(1e5, 3e4, 1e5, d).share_of_rounds(0.1, 1, 1000) for d in (3, 20, 54, 800)]
    assert (np.diff(shares) < 0).all()


def test_the_first_set_is_shared_and_the_rounds_of_pairs_are_not():
    one = Forecast(n_rows=1e5, n_support=1e4, n_distinct=1e5).share_of_rounds(0.1, 1, 1000)
    ten = Forecast(n_rows=1e6, n_support=1e4, n_distinct=1e5).share_of_rounds(0.1, 10, 1000)
    assert 0.6 * one < ten < one


def test_support_vectors_are_foreseen_to_become_a_smaller_share(monkeypatch):
    monkeypatch.setattr(forecast, "_SAMPLE", 400)
    y = (X[:, 0] > 0.5).astype(int)  # no noise: the support vectors lie along a line
    data = ClassRows(X, y, np.ones(len(y)), np.ones(2))
    kernel = TrainingKernel(KernelSpec("rbf", 1.0), X, 1e-3)
    found = forecast.forecast(data, np.arange(3000), kernel, Hinge(), map)
    assert found.n_rows == found.n_distinct == 3000
    n_support = AESVC(gamma=1.0, refine="exact").fit(X, y).n_support_.sum()
    monkeypatch.setattr(forecast, "_FALLS_ON", 0.0)
    as_they_are = forecast.forecast(data, np.arange(3000), kernel, Hinge(), map)
    assert n_support < found.n_support < 0.8 * as_they_are.n_support


def test_auto_makes_rounds_where_few_rows_represent_all(eager, reduced, capsys):
    model = AESVC(gamma=0.1, subset_size=100, verbose=1).fit(X, Y)
    assert model.certificate_.rounds >= 1
    assert sum(reduced) >= 3000
    assert "auto: rounds, for" in capsys.readouterr().out


def test_auto_is_exact_after_a_few_subsets_where_most_rows_would_be_kept(
    eager, reduced, capsys, recwarn
):
    model = AESVC(gamma=10.0, C=0.1, hull_tol=1e-3, subset_size=100, verbose=1).fit(X, Y)
    assert model.certificate_.exact
    assert not model.representative_set_.reduced_
    assert 0 < len(reduced) <= 8
    assert "too few rows can stand for others" in capsys.readouterr().out
    assert not recwarn.list  # it was a choice


def test_auto_cuts_no_rows_where_its_pairs_are_too_small_for_rounds(eager, reduced, capsys):
    y = np.arange(3000) % 6
    model = AESVC(gamma=10.0, subset_size=1000, verbose=1).fit(X, y)
    assert model.certificate_.exact
    assert not reduced
    assert "for each pair of classes are too few for rounds" in capsys.readouterr().out


@pytest.mark.parametrize("n_classes", [2, 3])
def test_auto_says_what_it_chose_in_one_line(n_classes, capsys):
    AESVC(gamma=1.0, verbose=1).fit(X, np.arange(3000) % n_classes)
    lines = [line for line in capsys.readouterr().out.splitlines() if "auto" in line]
    assert len(lines) == 1
    assert "the exact SVM, for rows times support vectors of 3,000 rows are at most" in lines[0]


def test_certificates_of_all_pairs_together_take_no_more_than_one_may(monkeypatch):
    y = np.arange(3000) % 3  # every row is a support vector
    cost = 1.5 * 2000.0**2
    for pairs, proven in ((1.1, False), (3.3, True)):
        monkeypatch.setattr(rounds, "FREE", pairs * cost)
        model = AESVC(gamma=1.0, refine="exact").fit(X, y)
        assert model.certificate_.proven == proven
        two = AESVC(gamma=1.0, refine="exact").fit(X[y < 2], y[y < 2])
        assert two.certificate_.proven
