"""Small duals (``small``) improved with all of their kernel values at hand.

A dual of some hundred variables needs no working set: pair updates run over all of its variables.
Many such duals take one call of compiled code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import inlined, jit
from aesvm.solver.pair_updates import update_pairs
from aesvm.solver.small import Array, Improve, PairVariables, balance


def improve_by_matrices(
    blocks: tuple[Array, Array, Array], begins: NDArray[np.intp], apart: bool, values: Array
) -> Improve:
    """Improve duals whose two classes are each among several classes.

    Parameters
    ----------
    blocks : tuple of three ndarrays
        Kernel values of the first several classes, of the first with the second, and of the second.
    begins : ndarray of shape (n_duals, 2)
        Where the classes of each dual begin among these.
    apart : bool
        Whether the sum of each class is held.
    values : ndarray
        Room for the largest matrix of a dual.
    """

    def improve(v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]):
        updates = np.empty(len(active), dtype=np.intp)
        _improve(
            *blocks, begins, v.sizes, v.classes, active, np.empty(2 if apart else 1, dtype=np.intp),
            v.held, v.linear, v.diag, v.lower, v.upper, aims, most, values, v.coefs, v.slopes,
            updates,
        )  # fmt: skip
        return updates

    return improve


@jit
def _improve(
    first,
    cross,
    second,
    begins,
    sizes,
    classes,
    active,
    ends,
    held,
    linear,
    diag,
    lower,
    upper,
    aims,
    most,
    values,
    coefs,
    slopes,
    updates,
):
    for a in range(active.size):
        number = active[a]
        n_first, start = sizes[number, 0], classes[2 * number]
        n = n_first + sizes[number, 1]
        K, own, at = values[: n * n].reshape(n, n), coefs[start:][:n], slopes[start:][:n]
        low, high = lower[start:][:n], upper[start:][:n]
        ends[0], ends[-1] = n_first, n
        _write_matrix(first, cross, second, begins[number, 0], begins[number, 1], n_first, K)
        for is_last in range(2):
            balance(own, low, high, n_first, held[number])
            _write_slopes(K, own, linear[start], n_first, at)
            if not is_last:
                updates[a] = update_pairs(
                    K, diag[start:][:n], own, at, low, high, ends, 0.5 * aims[a], most[a]
                )


@inlined
def _write_matrix(first, cross, second, begin, other, n_first, K):
    """The kernel matrix of two classes, which begin at ``begin`` and ``other``."""
    for i in range(K.shape[0]):
        for k in range(i + 1):
            if i < n_first:
                value = first[begin + i, begin + k]
            elif k < n_first:
                value = cross[begin + k, other + i - n_first]
            else:
                value = second[other + i - n_first, other + k - n_first]
            K[i, k] = K[k, i] = value


@inlined
def _write_slopes(K, coefs, linear, n_first, slopes):
    """``slopes = K coefs + linear`` in the first class, ``- linear`` in the second."""
    for k in range(slopes.size):
        slopes[k] = linear if k < n_first else -linear
    for i in range(coefs.size):
        if coefs[i] != 0.0:
            row, coef = K[i], coefs[i]
            for k in range(slopes.size):
                slopes[k] += coef * row[k]
