"""The fuzzing of streams and inputs: that it runs, finds nothing, and would find something."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from aesvm.out_of_core import merge_tree, sampling
from benchmarks import fuzz, fuzz_problems


def faults(kind):
    """Trials among some that find a fault."""
    shown = [fuzz._made(fuzz.KINDS[kind], kind, 0, number, None) for number in range(30)]
    return shown.count("fault")


@pytest.mark.parametrize("kind", ["streams", "inputs"])
def test_some_trials_find_nothing(kind, monkeypatch):
    monkeypatch.setattr("benchmarks.fuzz_inputs._LIMIT", 3600)  # the machine may be busy
    assert faults(kind) == 0


def test_weights_that_are_lost_are_a_fault(capsys):
    def halved(rows, n_drawn, seed):
        few = sampling.sample(rows, n_drawn, seed)
        return replace(few, weights=0.5 * few.weights)

    with mock.patch.object(merge_tree, "sample", halved):
        assert faults("streams")
    assert "AssertionError: weights of" in capsys.readouterr().err


def test_an_error_of_another_kind_is_a_fault(capsys):
    with mock.patch("aesvm.estimators.validation.column_or_1d", side_effect=IndexError("no")):
        assert faults("inputs")
    assert "IndexError: no" in capsys.readouterr().err


def test_problems_are_of_every_kind():
    rng = np.random.default_rng(0)
    made = [fuzz_problems.random_problem(rng) for _ in range(60)]
    assert {len(problem.present) for problem in made} >= {1, 2, 3, 4}
    assert {problem.kernel["kernel"] for problem in made} == {"rbf", "linear", "poly"}
    assert any((np.diff(problem.cuts) == 0).any() for problem in made)
