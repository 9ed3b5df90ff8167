from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from aesvm.solver.row_cache import RowCache, usual_bytes

FLOAT = np.dtype(np.float32)


def written(cache, positions):
    """Admit rows and fill them with values that tell row and column."""
    cache.find(positions)
    slots = cache.admit(positions)
    for position, slot in zip(positions, slots, strict=False):
        cache.rows[slot] = 100 * position + np.arange(cache.rows.shape[1])
    return slots


def test_the_rows_used_longest_ago_make_room():
    cache = RowCache(6, 3 * 6 * 4, FLOAT)
    assert cache.rows.shape == (3, 6)
    written(cache, np.array([0, 1]))
    written(cache, np.array([2]))
    assert (cache.find(np.array([0])) >= 0).all()
    assert len(cache.admit(np.array([5]))) == 1
    assert_array_equal(cache.find(np.array([0, 1, 2, 5])) >= 0, [True, False, True, True])


def test_rows_in_use_are_never_displaced():
    cache = RowCache(6, 3 * 6 * 4, FLOAT)
    written(cache, np.array([0, 1, 2]))
    cache.find(np.array([0, 2, 3, 4]))
    assert len(cache.admit(np.array([3, 4]))) == 1
    assert_array_equal(cache.find(np.array([0, 1, 2, 3, 4])) >= 0, [True, False, True, True, False])


def test_leaving_out_columns_keeps_the_values_of_the_others():
    cache = RowCache(7, 4 * 7 * 4, FLOAT)
    written(cache, np.array([6, 1, 3, 5]))
    cache.leave_out(np.array([1, 2, 5]))
    slots = cache.find(np.array([0, 1, 2, 3]))
    assert_array_equal(slots >= 0, [False, True, False, True])
    assert_array_equal(cache.rows[slots[1], :4], 300 + np.array([0, 3, 4, 6]))
    assert_array_equal(cache.rows[slots[3], :4], 600 + np.array([0, 3, 4, 6]))


def test_values_with_columns_that_are_left_out_stay_while_other_rows_take_the_slots():
    cache = RowCache(7, 3 * 7 * 4, FLOAT)
    written(cache, np.array([6, 1, 3]))
    first = cache.leave_out(np.array([1, 2, 5]))  # 0, 3, 4 and 6 remain
    assert_array_equal(first >= 0, [False, True, False, True, False, False, True])
    slots = cache.admit(np.array([0]))  # that of row 1, which is left out itself
    assert_array_equal(slots, first[1])
    cache.rows[slots, :4] = np.array([0, 3, 4, 6])
    second = cache.leave_out(np.array([0, 3]))  # 3 and 4 remain
    assert_array_equal(second >= 0, [True, True, False, True])
    for row in (1, 3, 6):
        assert_array_equal(cache.rows[first[row], 4:], 100 * row + np.array([1, 2, 5]))
    for place, row in ((0, 0), (1, 3), (3, 6)):
        assert_array_equal(cache.rows[second[place], 2:4], 100 * row + np.array([0, 6]))
    assert_array_equal(cache.find(np.array([0, 1])) >= 0, [True, False])


@pytest.mark.parametrize("n_bytes", [0, 20])
def test_a_cache_too_small_for_a_row_keeps_none(n_bytes):
    cache = RowCache(7, n_bytes, FLOAT)
    assert len(written(cache, np.array([1, 2]))) == 0
    assert_array_equal(cache.find(np.array([1, 2])), [-1, -1])


def test_it_never_takes_more_than_the_whole_matrix():
    assert RowCache(10, 10**12, FLOAT).values.size == 100


def test_the_usual_size_grows_with_the_rows_between_bounds():
    sizes = [usual_bytes(n_rows) for n_rows in (10, 20_000, 90_000, 150_000, 10**6, 10**7)]
    assert sizes == sorted(sizes)
    assert sizes[0] == sizes[1] < sizes[2] < sizes[3] < sizes[4] == sizes[5]
    assert usual_bytes(10**7, always_used=True) == sizes[0]
