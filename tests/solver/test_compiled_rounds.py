"""Working sets in compiled code: which variables are chosen."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from aesvm.solver.compiled_rounds import _choose, _nth_smallest


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_the_nth_smallest(n):
    rng = np.random.default_rng(n)
    for keys in (rng.normal(size=n), rng.integers(0, 3, n) * 1.0, np.zeros(n), np.arange(n) * 1.0):
        for number in range(1, n + 1):
            assert _nth_smallest(keys.copy(), number) == np.sort(keys)[number - 1]


def choose(coefs, slopes, lower, upper, ends, recent, most):
    n = len(coefs)
    chosen = np.empty(most, dtype=np.intp)
    recent = np.r_[recent, np.full(most - len(recent), -1)].astype(np.intp)
    size, gap = _choose(
        coefs, slopes, lower, upper, np.array(ends), recent, chosen,
        *np.empty((2, n)), *np.empty((2, n), dtype=np.intp),
    )  # fmt: skip
    return chosen[:size], gap, recent


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n_groups", [1, 2])
def test_those_that_violate_most_are_chosen(seed, n_groups):
    rng = np.random.default_rng(seed)
    n, most = 60, 16
    lower, upper = np.zeros(n), np.ones(n)
    coefs = rng.choice([0.0, 0.5, 1.0], n)
    slopes = rng.integers(-9, 10, n) * 0.25 if seed % 2 else rng.normal(size=n)
    ends = [n] if n_groups == 1 else [25, n]
    last = rng.choice(n, 10, replace=False)
    stay = last[: most // 2]
    chosen, gap, recent = choose(coefs, slopes, lower, upper, ends, last, most)
    assert_array_equal(chosen, np.unique(chosen))  # ascending, and each of them once
    assert np.isin(stay, chosen).all()
    assert_array_equal(np.sort(recent[recent >= 0]), chosen)
    new = recent[: len(chosen) - len(stay)]
    assert not np.isin(new, stay).any()
    gaps = []
    room = most // 2 // (2 * n_groups)
    for begin, end in zip([0, *ends], ends, strict=False):
        part = np.arange(begin, end)
        rise, fall = part[coefs[part] < 1.0], part[coefs[part] > 0.0]
        lowest, highest = slopes[rise].min(), slopes[fall].max()
        gaps.append(highest - lowest)
        rises, falls = rise[slopes[rise] < highest], fall[slopes[fall] > lowest]
        assert np.isin(new[(new >= begin) & (new < end)], np.union1d(rises, falls)).all()
        for violators, keys in ((rises, slopes), (falls, -slopes)):
            free = violators[~np.isin(violators, stay)]
            # none that is left out violates more than the last that there is room for
            left = free[~np.isin(free, chosen)]
            if len(left):
                assert keys[left].min() >= np.sort(keys[free])[room - 1]
    assert gap == max(*gaps, 0.0)


def test_equal_slopes_fill_the_room_and_no_more():
    n = 100
    slopes = np.r_[np.full(50, -1.0), np.full(50, 1.0)]
    lower, upper = np.r_[np.zeros(50), -np.ones(50)], np.r_[np.ones(50), np.zeros(50)]
    chosen, gap, _ = choose(np.zeros(n), slopes, lower, upper, [n], [], 20)
    assert gap == 2.0
    assert np.count_nonzero(chosen < 50) == np.count_nonzero(chosen >= 50) == 10


def test_nothing_violates_at_the_optimum():
    chosen, gap, _ = choose(np.zeros(4), np.arange(4.0), np.zeros(4), np.ones(4), [4], [], 2)
    assert gap == 0.0
    assert len(chosen) == 0
