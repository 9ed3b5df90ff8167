"""The benchmark of what "auto" regrets: its lines, on a few rows."""

from __future__ import annotations

import pytest

from benchmarks import limits, regret


@pytest.fixture
def problem(monkeypatch):
    monkeypatch.setattr(regret, "N_TEST", 500)
    return regret.Problem(regret.noisy(1500, 3, 3, 0.2, seed=0), 1.0, 1.0, 0)


def test_auto_stands_beside_what_it_chooses_between(problem):
    *others, auto = [dict(zip(regret.COLUMNS, line, strict=True)) for line in compared(problem)]
    assert [line["program"] for line in others] == list(regret.OTHERS)
    assert others[0]["what it was"] == auto["what it was"] == "exact"
    assert others[2]["what it was"].endswith(" vectors")
    assert auto["labels as exact %"] == "100.00"
    best = {line["program"]: line for line in others}[auto["best of the others"]]
    assert auto["auto's seconds / its"] == pytest.approx(auto["seconds"] / best["seconds"])
    assert all(line["best of the others"] == "" for line in others)


def test_an_exact_svm_that_would_take_too_long_is_left_out(problem, monkeypatch):
    monkeypatch.setattr(limits, "too_long", lambda fit, n: "not started: so")
    exact, *_, auto = [dict(zip(regret.COLUMNS, line, strict=True)) for line in compared(problem)]
    assert (exact["seconds"], exact["what it was"]) == ("", "not started: so")
    assert auto["best of the others"] in ("refine=1", "max_vectors=2000")
    assert auto["labels as exact %"] == ""


def compared(problem):
    return regret.compared(problem, n_jobs=1, repeats=1)


def test_what_is_less_accurate_is_not_the_best():
    accuracy = {"exact": 0.9, "refine=1": 0.8995, "max_vectors=2000": 0.89, "auto": 0.9}
    seconds = {"exact": 9.0, "refine=1": 4.0, "max_vectors=2000": 1.0, "auto": 5.0}
    assert regret.regret(seconds, accuracy) == ("refine=1", 1.25)
