"""The best multiple of a solution that was cut short.

A dual solution that has not converged is no good primal solution: w is often far too long for its
rows. The primal objective F(t w, b), with the best offsets b for every t, is convex in t.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Powers of this are tried first: solutions that were cut are up to a millionfold too long.
_FACTOR, _EXPONENTS = 4.0, np.arange(-12, 5)

#: Steps of a golden-section search between these: some, and as many more as take little time. (With
#: a large C, objectives differ in the sixth digit of a multiple and beyond.)
_STEPS, _MOST_STEPS, _ROWS_OF_A_STEP = 12, 60, 500_000

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


def best_multiples(value: Callable[[Array], Array], n: int, n_rows: int) -> Array:
    """Multiples t, 0 or more, that make convex functions small; no worse than t = 1.

    Parameters
    ----------
    value : callable
        Takes the multiples of n machines to their objectives.
    n : int
    n_rows : int
        Of all machines: what the time of a call grows with.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.formulations.scaling import best_multiples
    >>> best_multiples(lambda t: np.square(t - [0.1, 3.0]), 2, 10).round(6)
    array([0.1, 3. ])
    """
    tried = [(np.full(n, t), value(np.full(n, t))) for t in (1.0, 0.0)]
    powers = np.log(_FACTOR) * _EXPONENTS
    values = np.array([value(np.full(n, np.exp(power))) for power in powers])
    middle = powers[values.argmin(axis=0)]
    tried.append((np.exp(middle), values.min(axis=0)))
    low, high = middle - np.log(_FACTOR), middle + np.log(_FACTOR)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(np.exp(left)), value(np.exp(right))
    tried += [(np.exp(left), at_left), (np.exp(right), at_right)]
    for _ in range(min(_MOST_STEPS, _STEPS + _ROWS_OF_A_STEP // max(n_rows, 1))):
        is_left = at_left <= at_right
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
        new = np.where(is_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = value(np.exp(new))
        tried.append((np.exp(new), at_new))
        left, right = np.where(is_left, new, right), np.where(is_left, left, new)
        at_left, at_right = (
            np.where(is_left, at_new, at_right),
            np.where(is_left, at_left, at_new),
        )
    best = np.argmin([values for _, values in tried], axis=0)
    return np.array([multiples for multiples, _ in tried])[best, np.arange(n)]
