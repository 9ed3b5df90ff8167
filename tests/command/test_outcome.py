"""Errors carry the name of a parameter, and the command line says its flag."""

from __future__ import annotations

import pytest

from aesvm import AENuSVC
from aesvm.command.screen import line_of
from aesvm.runtime.warn import ParameterError


def test_a_parameter_that_an_error_carries_is_named_by_its_flag():
    error = ParameterError("memory_budget", "memory_budget=1 cannot hold a row.")
    assert line_of(error) == "memory_budget=1 cannot hold a row. (memory_budget is --memory)"


def test_errors_of_estimators_carry_it():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 1]
    with pytest.raises(ValueError, match="nu is infeasible") as raised:
        AENuSVC(nu=0.9).fit(X, y)
    assert line_of(raised.value).endswith("(nu is -n)")


def test_other_lines_stay_as_they_are():
    text = "runs/nu=0.1/rows: line 2: the value of index 1 '2:3' is not a number."
    assert line_of(ValueError(text)) == text
