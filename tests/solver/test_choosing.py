"""Which variables violate optimality most, beside a sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from aesvm.solver.choosing import (
    FALL,
    RISE,
    count_rest,
    find_slopes,
    most_violating,
    possible_moves,
)


def variables(seed, n):
    """Slopes and moves: some equal, some far from all others."""
    rng = np.random.default_rng(seed)
    slopes = rng.choice([rng.standard_normal(n), rng.integers(-3, 3, n) / 2.0])
    slopes = np.where(rng.uniform(size=n) < 0.01, 1e6 * slopes, slopes)
    upper = rng.integers(0, 2, n).astype(np.float64)
    lower = upper - 1.0
    coefs = rng.choice([lower, upper, 0.5 * (lower + upper)])
    coefs = np.where(rng.uniform(size=n) < 0.3, upper, coefs)
    return slopes, possible_moves(coefs, lower, upper), rng.uniform(size=n) < 0.2


@given(st.integers(0, 2**31), st.integers(1, 3000), st.integers(1, 300))
def test_the_most_violating_are_found(seed, n, room):
    scores, moves, taken = variables(seed, n)
    slopes = np.empty(n)
    lowest, highest, total = find_slopes(scores, np.zeros(n), moves, slopes)
    assert_array_equal(slopes, scores)
    assert total == pytest.approx(slopes.sum(), rel=1e-9, abs=1e-9 * np.abs(slopes).sum())
    workspace = np.empty(n + 5), np.empty(n + 5, dtype=np.intp)
    rises, falls = (moves & RISE) > 0, (moves & FALL) > 0
    if not rises.any() or not falls.any():
        assert lowest >= 1e300 or highest <= -1e300
        return
    assert (lowest, highest) == (slopes[rises].min(), slopes[falls].max())
    for move, violates, keys in (
        (RISE, rises & (slopes < highest), slopes),
        (FALL, falls & (slopes > lowest), -slopes),
    ):
        found = most_violating(move, slopes, moves, taken, lowest, highest, room)
        again = most_violating(move, slopes, moves, taken, lowest, highest, room, workspace)
        assert_array_equal(again, found)
        others = np.flatnonzero(violates & ~taken)
        assert len(set(found)) == len(found) == min(room, len(others))
        assert set(found) <= set(others)
        left = np.setdiff1d(others, found)
        # a difference from the edge may be rounded, and order with it
        allowance = 4.0 * np.finfo(np.float64).eps * (np.abs(slopes).max() + 1.0)
        if len(left):
            assert keys[found].max() <= keys[left].min() + allowance


def test_gaps_of_the_smallest_numbers_are_told_apart():
    slopes = 3e-308 * np.arange(1.0, 151.0)
    moves, taken = np.full(150, RISE | FALL, dtype=np.int8), np.zeros(150, dtype=bool)
    found = most_violating(RISE, slopes, moves, taken, slopes[0], slopes[-1], 50)
    assert_array_equal(np.sort(found), np.arange(50))


@given(st.integers(0, 2**31), st.integers(1, 500))
def test_rest_is_counted(seed, n):
    slopes, moves, _ = variables(seed, n)
    rest = np.random.default_rng(seed).integers(0, 101, n).astype(np.int8)
    stuck_low = ((moves & FALL) == 0) & (slopes > 0.25)
    stuck_high = ((moves & RISE) == 0) & (slopes < -0.25)
    expected = np.where(stuck_low | stuck_high, np.minimum(rest + 1, 100), 0)
    count_rest(slopes, moves, -0.25, 0.25, rest)
    assert_array_equal(rest, expected)
