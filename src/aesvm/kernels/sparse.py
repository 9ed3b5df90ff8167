"""Kernels of sparse input vectors (CSR): only blocks of rows are ever made dense.

A matrix has as many columns as its largest index says, and a hashed or stray index makes that
billions. Arrays with a place for every feature are therefore made for narrowed rows alone: then
they are never larger than the rows themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.kernels.distances import RowDistances, finite
from aesvm.kernels.matrix import Columns
from aesvm.kernels.vectors import VectorKernel
from aesvm.runtime.cached import cached_property
from aesvm.runtime.jit import jit


def narrowed(X: Any) -> tuple[NDArray, Any]:
    """The features that occur, ascending, and the rows over them.

    Rows with no more features than stored values are returned as they are, with all features.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from aesvm.kernels.sparse import narrowed
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
    >>> from aesvm.kernels.sparse import restricted
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


#: Columns multiplied together: as many values as a cache line holds in single precision.
_WIDTH = 16


class SparseKernel(VectorKernel):
    def square(self, rows, out=None):
        lines = self.X[rows]
        used = np.unique(lines.indices)
        if len(rows) * len(used) * 8 <= blocks.copied_bytes():
            return self.square_of(_dense(lines, used), out)
        values = np.empty((len(rows),) * 2, dtype=self.dtype) if out is None else out
        columns = self.columns(rows)
        columns.write(columns.lines(rows), 0, len(rows), values)
        return values

    def columns(self, rows):
        features, vectors = narrowed(sp.csr_array(self.X[rows]))
        if not self.kernel.of_distances:
            return _SparseColumns(self, features, vectors, np.zeros(len(rows), dtype=self.dtype))
        with np.errstate(over="ignore"):
            terms = -self.parameters.gamma * squared_norms(vectors)
        dtype = self.precision(-float(terms.min(initial=0.0)))
        if dtype is None:
            return self.apart(rows)
        return _SparseColumns(self, features, vectors, terms.astype(dtype))

    def distances(self, rows: NDArray[np.intp]) -> RowDistances:
        return _SparseDistances(self, rows) if self.kernel.euclidean else super().distances(rows)

    @cached_property
    def scaled_squared_norms(self) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            return self.parameters.gamma * squared_norms(self.X)

    def squared_norms(self, rows):
        return squared_norms(self.X[rows])

    def dense_parts(self, lines, columns):
        """A few of the features at a time, those that occur."""
        if not sp.issparse(lines):
            yield lines, columns
            return
        used = np.union1d(lines.indices, columns.indices)
        step = blocks.copied_rows(8 * (lines.shape[0] + columns.shape[0]))
        for start in range(0, len(used), step):
            features = used[start : start + step]
            yield restricted(lines, features).toarray(), restricted(columns, features).toarray()

    def n_terms(self, rows: NDArray[np.intp]) -> int:
        """A difference of two rows has values where one of them has."""
        stored = self.X.indptr[rows + 1] - self.X.indptr[rows]
        return min(self.X.shape[1], 2 * int(stored.max(initial=0)))


class _Lines(NamedTuple):
    """Some lines of a block, made dense: one row per feature that occurs in them and in columns."""

    part: slice
    place: NDArray[np.intp]  #: of the columns' features in ``dense``, -1 where one is not there
    dense: NDArray
    terms: NDArray  #: -g|x|^2


class _SparseColumns(Columns):
    """Columns over ``features``: features that only the lines have count in their norms alone."""

    def __init__(
        self, kernel: SparseKernel, features: NDArray, vectors: sp.csr_array, terms: NDArray
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.terms = terms
        self.vectors = vectors.astype(terms.dtype, copy=False)
        self.dtype = kernel.dtype

    def __len__(self):
        return self.vectors.shape[0]

    def take(self, positions):
        vectors, terms = self.vectors[positions], self.terms[positions]
        return _SparseColumns(self.kernel, self.features, vectors, terms)

    def lines(self, rows):
        return self.new_lines(self.kernel.X[rows])

    def new_lines(self, X_new):
        X_new = sp.csr_array(X_new)
        all_terms = np.zeros(X_new.shape[0], dtype=self.terms.dtype)
        if self.kernel.kernel.of_distances:
            all_terms[...] = -self.kernel.parameters.gamma * squared_norms(X_new)
        X_new = restricted(X_new, self.features)
        n_lines, n_features = X_new.shape
        lines = []
        start = 0
        while start < n_lines:
            stop = n_lines
            while True:
                part = X_new[start:stop]
                used = np.unique(part.indices)
                fits = len(used) * (stop - start) * self.terms.itemsize <= blocks.copied_bytes()
                if fits or stop - start <= 1:
                    break
                stop = start + (stop - start + 1) // 2
            place = np.full(n_features, -1)
            place[used] = np.arange(len(used))
            dense = np.zeros((len(used), stop - start), dtype=self.terms.dtype)
            at = np.repeat(np.arange(stop - start), np.diff(part.indptr))
            dense[place[part.indices], at] = part.data
            lines.append(_Lines(slice(start, stop), place, dense, all_terms[start:stop]))
            start = stop
        return lines

    def write(self, lines, start, stop, out):
        values = out if self.terms.dtype == self.dtype else np.empty(out.shape, self.terms.dtype)
        of_distances = self.kernel.kernel.of_distances
        factor = self.kernel.parameters.gamma * (2.0 if of_distances else 1.0)
        X = self.vectors
        for part in lines:
            block = values[part.part]
            sums = np.empty((_WIDTH, len(part.terms)), dtype=self.terms.dtype)
            _multiply(
                X.data,
                X.indices,
                X.indptr[start : stop + 1],
                part.place,
                part.dense,
                sums,
                self.terms.dtype.type(factor),
                part.terms,
                self.terms[start:stop],
                block,
            )
            if of_distances:  # rounding must not make a distance negative
                np.minimum(block, 0.0, out=block)
        self.kernel.kernel.map(values, self.kernel.parameters)
        if values is not out:
            out[...] = values


@jit
def _multiply(data, indices, indptr, place, dense, sums, factor, line_terms, column_terms, out):
    """out[l, c] = factor x_l . y_c + line_terms[l] + column_terms[c].

    A non-zero of a column adds a multiple of one row of ``dense``, which lies contiguous.
    """
    n_lines = line_terms.size
    n_columns = column_terms.size
    for first in range(0, n_columns, sums.shape[0]):
        width = min(sums.shape[0], n_columns - first)
        for c in range(width):
            total = sums[c]
            total[:] = 0.0
            e, end = indptr[first + c], indptr[first + c + 1]
            while e < end:
                p, q = place[indices[e]], -1
                u, v = data[e], data[e]
                e += 1
                while e < end and q < 0:
                    q = place[indices[e]]
                    v = data[e]
                    e += 1
                if p >= 0 and q >= 0:
                    one, other = dense[p], dense[q]
                    for i in range(n_lines):
                        total[i] += u * one[i] + v * other[i]
                elif p >= 0 or q >= 0:
                    one = dense[p if p >= 0 else q]
                    u = u if p >= 0 else v
                    for i in range(n_lines):
                        total[i] += u * one[i]
        for i in range(n_lines):
            line = out[i, first : first + width]
            for c in range(width):
                line[c] = factor * sums[c, i] + line_terms[i] + column_terms[first + c]


def _dense(X, used: NDArray) -> NDArray:
    """The used columns of sparse rows, as an array."""
    vectors = np.zeros((X.shape[0], max(1, len(used))), dtype=X.dtype)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    vectors[rows, np.searchsorted(used, X.indices)] = X.data
    return vectors


class _SparseDistances(RowDistances):
    def __init__(self, kernel: SparseKernel, rows: NDArray[np.intp]) -> None:
        super().__init__(kernel, rows)
        _, self.X = narrowed(kernel.X[rows])
        self.places = np.arange(len(rows))  # in X
        self.norms = squared_norms(self.X)
        self.line = np.zeros(self.X.shape[1])
        self.parallel += [self.places, self.norms]

    def from_row(self, anchor, left):
        entries = slice(*self.X.indptr[self.places[anchor] :][:2])
        self.line[self.X.indices[entries]] = self.X.data[entries]
        result = np.empty(left)
        _sparse_distances(
            self.X.data, self.X.indices, self.X.indptr, self.places, self.norms, self.line, result
        )
        self.line[self.X.indices[entries]] = 0.0
        return finite(result)


@jit
def _sparse_distances(data, indices, indptr, rows, norms, anchor, out):
    for i in range(out.size):
        total = 0.0
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            total += data[e] * anchor[indices[e]]
        out[i] = norms[i] - 2.0 * total
