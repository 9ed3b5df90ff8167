"""Errors are said in the words of the command line."""

from __future__ import annotations

import pytest

from aesvm.command.outcome import as_flags, line_of


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ('refine="exact" goes further', "--refine exact goes further"),
        ("nearer are refine=2 or more", "nearer are --refine 2 or more"),
        ("memory_budget='1 elephant' is not a size", "--memory '1 elephant' is not a size"),
        ("a larger memory_budget keeps a set", "a larger --memory keeps a set"),
        ("hull_tol=0.5, for one", "--hull-tol 0.5, for one"),
        ("certify_stream(source) computes it", "aesvm certify computes it"),
        ("nu=0.3 seems too small. Raise nu, or not", "-n 0.3 seems too small. Raise -n, or not"),
        ("before tol=0.1: raise tol, or lower C.", "before -e 0.1: raise -e, or lower -c."),
        (
            "use a smaller tol, or scale y, for instance with "
            "sklearn.compose.TransformedTargetRegressor(model, transformer=StandardScaler()).",
            "use a smaller -e, or scale the targets.",
        ),
        ("use a smaller tol, or a smaller hull_tol", "use a smaller -e, or a smaller --hull-tol"),
    ],
)
def test_parameters_are_named_as_flags(error, line):
    assert as_flags(error) == line
    assert line_of(ValueError(error)) == line


@pytest.mark.parametrize("end", ["column 'note': 'abc' is not a number.", "column 'x y' is empty."])
def test_tables_that_cannot_be_read_say_what_would_do(end):
    line = line_of(ValueError(f"rows.csv, line 12: {end}"))
    assert line.startswith(f"rows.csv, line 12: {end.removesuffix('.')}: ")
    assert "--drop" in line


def test_other_lines_stay_as_they_are():
    text = "rows: line 2: the value of index 1 '2:3' is not a number."
    assert line_of(ValueError(text)) == text
