"""Sequential minimal optimisation: a small quadratic program, two variables at a time.

    minimise    1/2 b'Kb + q'b,   lower <= b <= upper,   the sum of b in each group held

Of the two variables one rises, that of the smallest slope that can, and one falls by as much:
that which lowers the objective most (pairs by second order, Fan, Chen and Lin 2005). A pair is
of one group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aesvm.runtime.jit import inlined, jit, minimum

#: Variables that are looked through together.
_CHUNK = 64

#: Stands for infinity, which ``fastmath`` does not know.
HUGE = 1e300


@jit
def update_pairs(K, diag, coefs, slopes, lower, upper, ends, tol, limit):
    """Minimise until slopes in no group differ the wrong way by more than ``tol``.

    Returns the number of updates.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    diag : ndarray of shape (n,)
        Its diagonal. This and what follows may be longer: the first n count.
    coefs, slopes : ndarray of shape (n,)
        A feasible b and its ``Kb + q``; both are brought up to date.
    lower, upper : ndarray of shape (n,)
    ends : ndarray of shape (n_groups,)
        Where each group ends; groups lie one after another.
    tol : float
    limit : int
        Most updates.
    """
    # Numba vectorises loops over slices that begin at zero, and no others
    n = K.shape[0]
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(diag[i]))
    flat = 1e-12 * largest + 1e-300
    # added to a slope, these take those out of the running that cannot rise, or fall
    no_rise, no_fall, losses = np.empty(n), np.empty(n), np.empty(_CHUNK)
    for i in range(n):
        no_rise[i] = 0.0 if coefs[i] < upper[i] else HUGE
        no_fall[i] = 0.0 if coefs[i] > lower[i] else HUGE
    nothing: Any = np.intp(-1)  # no literal: _partner would be compiled for that, too
    updates = 0
    while updates < limit:
        violation = tol
        i = first = last = nothing
        for g in range(ends.size):
            begin = 0 if g == 0 else ends[g - 1]
            end = ends[g]
            lowest, highest, chunk = HUGE, HUGE, begin
            for c in range(begin, end, _CHUNK):
                here = slopes[c : min(c + _CHUNK, end)]
                rise, fall = no_rise[c : c + here.size], no_fall[c : c + here.size]
                low, high = HUGE, HUGE
                for k in range(here.size):
                    low = minimum(low, here[k] + rise[k])
                    high = minimum(high, fall[k] - here[k])
                if low < lowest:
                    lowest, chunk = low, c
                highest = min(highest, high)
            if -highest - lowest > violation:
                violation = -highest - lowest
                first, last = begin, end
                for k in range(chunk, min(chunk + _CHUNK, end)):
                    if slopes[k] + no_rise[k] == lowest:
                        i = k
                        break
        if i < 0:
            break
        j, eta = _partner(K[i], diag, slopes, no_fall, i, first, last, flat, losses)
        if j < 0:
            break
        difference = slopes[j] - slopes[i]
        step = difference / max(eta, flat)
        room_i, room_j = upper[i] - coefs[i], coefs[j] - lower[j]
        step = min(step, min(room_i, room_j))
        coefs[i] = upper[i] if step == room_i else min(coefs[i] + step, upper[i])
        coefs[j] = lower[j] if step == room_j else max(coefs[j] - step, lower[j])
        no_rise[i] = HUGE if step == room_i else 0.0
        no_fall[j] = HUGE if step == room_j else 0.0
        no_fall[i] = no_rise[j] = 0.0
        row_i, row_j = K[i], K[j]
        for k in range(n):
            slopes[k] += step * (np.float64(row_i[k]) - np.float64(row_j[k]))
        updates += 1
    return updates


@inlined
def _partner(row, diag, slopes, no_fall, i, first, last, flat, losses):
    """The variable that, falling while i rises, lowers the objective most; and the curvature."""
    best, chunk = 0.0, -1
    slope, corner = slopes[i], diag[i]
    for c in range(first, last, _CHUNK):
        here = slopes[c : min(c + _CHUNK, last)]
        end = c + here.size
        fall, curve, line = no_fall[c:end], diag[c:end], row[c:end]
        top = 0.0
        for k in range(here.size):
            difference = minimum(slope - here[k] + fall[k], 0.0)
            eta = -minimum(2.0 * np.float64(line[k]) - corner - curve[k], -flat)
            top = minimum(top, -(difference * difference) / eta)
        if top < best:
            best, chunk = top, c
    if chunk < 0:
        return -1, 0.0
    # the same losses once more, kept, to see which variable it was
    here = slopes[chunk : min(chunk + _CHUNK, last)]
    end = chunk + here.size
    fall, curve, line = no_fall[chunk:end], diag[chunk:end], row[chunk:end]
    for k in range(here.size):
        difference = minimum(slope - here[k] + fall[k], 0.0)
        eta = -minimum(2.0 * np.float64(line[k]) - corner - curve[k], -flat)
        losses[k] = -(difference * difference) / eta
    j = 0
    for k in range(here.size):
        if losses[k] < losses[j]:
            j = k
    j += chunk
    return j, corner + diag[j] - 2.0 * np.float64(row[j])
