"""Sparse rows (CSR) over the features that occur in them.

A matrix has as many columns as its largest index says, and a hashed or stray index makes that
billions. Arrays with a place for every feature are therefore made for narrowed rows alone: then
they are never larger than the rows themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit


def narrowed(X: Any) -> tuple[NDArray, Any]:
    """The features that occur, ascending, and the rows over them.

    Rows with no more features than stored values are returned as they are, with all features.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from aesvm.kernels.csr import narrowed
    >>> X = sp.csr_array(([1.0, 2.0], [7, 3], [0, 1, 2]), shape=(2, 10**12))
    >>> features, narrow = narrowed(X)
    >>> features, narrow.toarray()
    (array([3, 7]), array([[0., 1.],
           [2., 0.]]))
    """
    if X.shape[1] <= X.nnz:
        return np.arange(X.shape[1]), X
    features, places = np.unique(X.indices, return_inverse=True)
    return features, type(X)((X.data, places, X.indptr), shape=(X.shape[0], len(features)))


def restricted(X: Any, features: NDArray) -> Any:
    """The rows over the given features alone, ascending ones; values of others are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from aesvm.kernels.csr import restricted
    >>> X = sp.csr_array(([1.0, 2.0], [7, 3], [0, 1, 2]), shape=(2, 10**12))
    >>> restricted(X, np.array([3, 5])).toarray()
    array([[0., 0.],
           [2., 0.]])
    """
    if len(features) == X.shape[1]:
        return X
    places = np.searchsorted(features, X.indices)
    known = places < len(features)
    known[known] = features[places[known]] == X.indices[known]
    ends = np.concatenate([[0], np.cumsum(known)])[X.indptr]
    return type(X)((X.data[known], places[known], ends), shape=(X.shape[0], len(features)))


def squared_norms(X: Any) -> NDArray[np.float64]:
    """Squared length of every row, in double precision."""
    norms = np.empty(X.shape[0])
    with np.errstate(over="ignore"):
        _sum_squares(X.data, X.indptr, norms)
    return norms


@jit
def _sum_squares(data, indptr, norms):
    for i in range(norms.size):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[e])
            total += value * value
        norms[i] = total
