"""The exponential of compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from aesvm.kernels.functions import take_exponential

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exponential_is_right_to_a_few_units_of_rounding(dtype):
    least = -86.9 if dtype == np.float32 else -700.0
    x = np.concatenate([np.linspace(least, 3.0, 100_001), -np.geomspace(1e-30, 1.0, 1000), [0.0]])
    x = x.astype(dtype)
    found = x.copy()
    take_exponential(found)
    exact = np.exp(x.astype(np.longdouble))
    unit = np.finfo(dtype).eps
    # n ln(2) is rounded, as x itself was
    assert np.all(np.abs(found - exact) <= unit * exact * (4.0 + np.abs(x)))
    assert found[-1] == 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exponential_of_what_is_far_below_zero_is_zero(dtype):
    values = np.array([-1e3, -1e30, -np.finfo(dtype).max], dtype=dtype)
    take_exponential(values)
    assert_array_equal(values, 0.0)
