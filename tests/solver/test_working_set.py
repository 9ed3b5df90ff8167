"""Which variables are chosen: those that violate optimality most, beside a sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from aesvm.solver.working_set import (
    FALL,
    RISE,
    Edge,
    _nth_smallest,
    choose,
    choose_compiled,
    count_rest,
    find_slopes,
    most_violating,
    possible_moves,
    write_back,
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


def test_violations_of_the_smallest_numbers_are_told_apart():
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


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_the_nth_smallest(n):
    rng = np.random.default_rng(n)
    for keys in (rng.normal(size=n), rng.integers(0, 3, n) * 1.0, np.zeros(n), np.arange(n) * 1.0):
        for number in range(1, n + 1):
            assert _nth_smallest(keys.copy(), number) == np.sort(keys)[number - 1]


def chosen_in_python(slopes, moves, ends, recent, size):
    edges = [
        Edge.of(slice(begin, end), slopes, moves)
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    found = choose(slopes, moves, edges, np.asarray(recent, dtype=np.intp), size)
    return np.sort(found), max(*(edge.violation for edge in edges), 0.0), found


def chosen_in_compiled_code(slopes, moves, ends, recent, size):
    n = len(slopes)
    chosen = np.empty(size, dtype=np.intp)
    recent = np.r_[recent, np.full(size - len(recent), -1)].astype(np.intp)
    found, keys = np.empty(n + 1, dtype=np.intp), np.empty(n + 1)
    memory = np.empty(n + 1, dtype=bool), np.empty(n + 1), found, keys
    n_chosen, violation = choose_compiled(slopes, moves, np.array(ends), recent, chosen, *memory)
    return chosen[:n_chosen], violation, recent[recent >= 0]


both = pytest.mark.parametrize("rule", [chosen_in_python, chosen_in_compiled_code])


@both
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n_groups", [1, 2])
def test_those_that_violate_most_are_chosen(rule, seed, n_groups):
    rng = np.random.default_rng(seed)
    n, most = 60, 16
    lower, upper = np.zeros(n), np.ones(n)
    coefs = rng.choice([0.0, 0.5, 1.0], n)
    slopes = rng.integers(-9, 10, n) * 0.25 if seed % 2 else rng.normal(size=n)
    ends = [n] if n_groups == 1 else [25, n]
    last = rng.choice(n, 10, replace=False)
    stay = last[: most // 2]
    moves = possible_moves(coefs, lower, upper)
    chosen, violation, recent = rule(slopes, moves, ends, last, most)
    assert_array_equal(chosen, np.unique(chosen))  # ascending, and each of them once
    assert np.isin(stay, chosen).all()
    assert_array_equal(np.sort(recent), chosen)
    new = recent[: len(chosen) - len(stay)]
    assert not np.isin(new, stay).any()
    violations = []
    room = most // 2 // (2 * n_groups)
    for begin, end in zip([0, *ends], ends, strict=False):
        part = np.arange(begin, end)
        rise, fall = part[coefs[part] < 1.0], part[coefs[part] > 0.0]
        lowest, highest = slopes[rise].min(), slopes[fall].max()
        violations.append(highest - lowest)
        rises, falls = rise[slopes[rise] < highest], fall[slopes[fall] > lowest]
        assert np.isin(new[(new >= begin) & (new < end)], np.union1d(rises, falls)).all()
        for violators, keys in ((rises, slopes), (falls, -slopes)):
            free = violators[~np.isin(violators, stay)]
            # none that is left out violates more than the last that there is room for
            left = free[~np.isin(free, chosen)]
            if len(left):
                assert keys[left].min() >= np.sort(keys[free])[room - 1]
    assert violation == max(*violations, 0.0)


@both
def test_equal_slopes_fill_the_room_and_no_more(rule):
    n = 100
    slopes = np.r_[np.full(50, -1.0), np.full(50, 1.0)]
    lower, upper = np.r_[np.zeros(50), -np.ones(50)], np.r_[np.ones(50), np.zeros(50)]
    moves = possible_moves(np.zeros(n), lower, upper)
    chosen, violation, _ = rule(slopes, moves, [n], [], 20)
    assert violation == 2.0
    assert np.count_nonzero(chosen < 50) == np.count_nonzero(chosen >= 50) == 10


@both
def test_nothing_violates_at_the_optimum(rule):
    moves = possible_moves(np.zeros(4), np.zeros(4), np.ones(4))
    chosen, violation, _ = rule(np.arange(4.0), moves, [4], [], 2)
    assert violation == 0.0
    assert len(chosen) == 0


@given(st.integers(0, 2**31), st.integers(1, 50))
def test_a_working_set_is_written_back(seed, n):
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
    lower, upper = np.full(n, -1.0), np.ones(n)
    before, moves = rng.integers(-1, 2, n).astype(np.float64), np.zeros(n, dtype=np.int8)
    now = np.where(rng.uniform(size=len(chosen)) < 0.5, before[chosen], rng.integers(-1, 2))
    after, moved, changes = before.copy(), np.empty(n, dtype=np.intp), np.empty(n)
    n_moved = write_back(chosen, now, lower[chosen], upper[chosen], after, moves, moved, changes)
    wanted = before.copy()
    wanted[chosen] = now
    assert_array_equal(after, wanted)
    assert_array_equal(moved[:n_moved], np.flatnonzero(wanted != before))
    assert_array_equal(changes[:n_moved], (wanted - before)[wanted != before])
    expected = np.zeros(n, dtype=np.int8)
    expected[chosen] = possible_moves(wanted, lower, upper)[chosen]
    assert_array_equal(moves, expected)
