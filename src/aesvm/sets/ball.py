"""The smallest ball in kernel space that encloses all rows: the hard-margin SVDD.

    max_a  sum_i a_i K_ii - sum_ij a_i a_j K_ij,   a >= 0,  sum_i a_i = 1.

The optimum is the squared radius and ``c = sum_i a_i z_i`` the centre; rows with ``a_i > 0``
lie on the sphere. Solved by moving weight between two rows at a time, with exact steps, from
the row on the sphere that is nearest to the centre to the row farthest from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import first_at, inlined, jit, minimum

# Entries of the gradient moved by one jitted call: some ten milliseconds.
_WORK = 10_000_000

# More than any gradient; finite, since the jitted code assumes finite numbers.
_FAR = 1e300


def enclosing_ball(
    gram: NDArray, tol: float = 1e-4, max_moves: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest ball around all rows.

    ``gram``: the kernel matrix, C-contiguous and symmetric. It ends when no row is farther from the
    centre than those on the sphere by more than ``tol`` times the squared radius. Where the moves
    run out, the ball is a little too small.

    Returns the centre as a convex combination of the rows, and the squared distance of each row to
    it. Rows on the sphere have positive weight.
    """
    n = gram.shape[0]
    coefs, slopes, diag, distances = np.empty((4, n))
    support = np.empty(n, dtype=np.intp)
    size = 0
    moves_left = 20 * n + 1000 if max_moves is None else max_moves
    while moves_left > 0 and size >= 0:
        moves = min(moves_left, _WORK // n + 1)
        size = _move(gram, diag, coefs, slopes, support, size, moves, tol, distances)
        moves_left -= moves
    return coefs, distances


@inlined
def _start(gram, diag, coefs, slopes, support):
    """The centre at the row farthest from the first one."""
    first = 0
    for i in range(diag.size):
        coefs[i] = 0.0
        diag[i] = gram[i, i]
        if diag[i] - 2.0 * gram[0, i] > diag[first] - 2.0 * gram[0, first]:
            first = i
    # Half the gradient of what is minimised.
    for i in range(diag.size):
        slopes[i] = gram[first, i] - 0.5 * diag[i]
    coefs[first] = 1.0
    support[0] = first
    return 1


@jit
def _move(gram, diag, coefs, slopes, support, size, moves, tol, distances):
    """Make at most ``moves`` moves, and write the distances.

    Takes and returns the size of the support: 0 to begin with, -1 when it is done.
    """
    if size == 0:
        size = _start(gram, diag, coefs, slopes, support)
    least = _FAR
    for i in range(slopes.size):
        least = minimum(least, slopes[i])
    done = False
    for _ in range(moves):
        farthest = first_at(slopes, slopes.size, least)
        high = 0
        radius2 = 0.0
        for k in range(size):
            i = support[k]
            radius2 += coefs[i] * (0.5 * diag[i] - slopes[i])
            if slopes[i] > slopes[support[high]]:
                high = k
        source = support[high]
        slope = slopes[source] - slopes[farthest]
        if 2.0 * slope <= tol * max(radius2, 0.0):
            done = True
            break
        curvature = diag[farthest] + diag[source] - 2.0 * gram[farthest, source]
        step = coefs[source]
        if slope < step * curvature:
            step = slope / curvature
        if coefs[farthest] == 0.0:
            support[size] = farthest
            size += 1
        coefs[farthest] += step
        if step == coefs[source]:
            coefs[source] = 0.0
            size -= 1
            support[high] = support[size]
        else:
            coefs[source] -= step
        least = _FAR
        for i in range(slopes.size):
            slopes[i] += step * (gram[farthest, i] - gram[source, i])
            least = minimum(least, slopes[i])
    center2 = 0.0
    for k in range(size):
        center2 += coefs[support[k]] * (slopes[support[k]] + 0.5 * diag[support[k]])
    for i in range(slopes.size):
        distances[i] = center2 - 2.0 * slopes[i]
    return -1 if done else size
