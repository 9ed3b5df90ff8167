"""Kernels of input vectors, dense or sparse: what they share.

Squared distances are products too, of vectors that carry their norms:
``[2g x, -g|x|^2, 1] . [y, 1, -g|y|^2] = -g |x - y|^2``. They are taken from a point inside the
data, since far from the origin they would cancel. Where rows are so far apart that products
would still lose more than ``accuracy``, they are computed in double precision or, in the end,
from differences, which do not cancel.

Where few rows are far from the centre, ``mend`` corrects their values alone. The product ``-g|x -
y|^2`` is rounded by some units of the larger of ``g|x|^2`` and ``g|y|^2``. A row is far where this
number is beyond a limit L. Where one of two rows is far, and the other not, ``g|x - y|^2`` is at
least ``(s - sqrt(L))^2``, with s^2 the larger of the two numbers. Then s^2 times the kernel value
is at most L + 1: the value is as precise as between two rows within the limit. Of two far rows it
is computed from differences, which do not cancel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from math import exp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.blocks import SYMMETRIC_LINES
from aesvm.kernels.functions import Kernel, Parameters
from aesvm.kernels.matrix import Columns, KernelMatrix, PlainColumns
from aesvm.runtime.jit import inlined, jit

#: Products beyond this overflow in single precision, or a sum of them does.
_LARGEST_PRODUCT = 1e30

#: Unit of rounding.
_EPS = {np.dtype(t): float(np.finfo(t).eps) for t in (np.float32, np.float64)}


class VectorKernel(KernelMatrix):
    """A kernel of input vectors: products by BLAS, then the kernel's map."""

    def __init__(
        self, X, kernel: Kernel, parameters: Parameters, dtype: np.dtype, accuracy: float
    ) -> None:
        self.X = X
        self.kernel = kernel
        self.parameters = parameters
        self.dtype = dtype
        self.accuracy = accuracy
        self.n_rows = X.shape[0]

    def take_over(self, other):
        for name in ("center", "scaled_squared_norms"):
            if name in vars(other):
                setattr(self, name, vars(other)[name])

    def squared_sizes(self, rows: NDArray[np.intp]) -> NDArray:
        return self.squared_norms(rows)

    def diag(self, rows: NDArray[np.intp]) -> NDArray:
        if self.kernel.of_distances:
            values = np.zeros(len(rows), dtype=self.dtype)
        else:
            values = (self.parameters.gamma * self.squared_norms(rows)).astype(self.dtype)
        self.kernel.map(values, self.parameters)
        return values

    def bound(self, rows: NDArray[np.intp]) -> float:
        with np.errstate(over="ignore"):
            if self.kernel.of_distances:
                largest = np.zeros(1)
            else:
                norms = self.squared_norms(rows)
                largest = self.parameters.gamma * norms.max(keepdims=True, initial=0.0)
            if not largest[0] <= _LARGEST_PRODUCT:
                return float(largest[0])  # whatever the map makes of it
            parameters = self.parameters._replace(coef0=abs(self.parameters.coef0))
            self.kernel.map(largest, parameters)
        return float(largest[0])

    def rounding(self, rows: NDArray[np.intp]) -> float:
        """A sum of n rounded products is off by n units, at most, of what they sum up to.

        A distance is a sum of products of the size of the vectors around the centre, or of squared
        differences, which are its own size; the map of another kernel multiplies what its argument
        is off by at most ``degree`` times the value.
        """
        n_terms = self.n_terms(rows) + 8
        if self.kernel.of_distances:
            size = max(1.0, self.size_of_terms(rows))
        else:
            size = max(1, self.parameters.degree) * self.bound(rows)
        return n_terms * _EPS[self.dtype] * size

    def size_of_terms(self, rows: NDArray[np.intp]) -> float:
        """How large the terms are that distances are summed up from; at most 1 of differences."""
        largest = self.largest(rows)
        return 4.0 * largest if self.precision(largest) is not None else 1.0

    def largest(self, rows: NDArray[np.intp]) -> float:
        """The largest scaled squared norm of the given rows."""
        return float(self.scaled_squared_norms[rows].max(initial=0.0))

    @property
    @abstractmethod
    def scaled_squared_norms(self) -> NDArray[np.float64]:
        """``gamma |x|^2`` of every row, x as distances are computed from it: from the centre, where
        there is one. Computed once: many blocks ask.
        """

    @abstractmethod
    def squared_norms(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Squared length of the given input vectors, in double precision."""

    @abstractmethod
    def n_terms(self, rows: NDArray[np.intp]) -> int:
        """How many products, other than zeros, make up a kernel value of the given rows."""

    def precision(self, largest: float) -> np.dtype | None:
        """The precision in which products are accurate enough; None if neither is enough.

        ``largest`` is the largest ``gamma |x|^2``: products are rounded by a few units of it.
        """
        for dtype in (self.dtype, np.dtype(np.float64)):
            if largest <= self.most_precise(dtype):
                return dtype
        return None

    def most_precise(self, dtype: np.dtype) -> float:
        """The largest ``gamma |x|^2`` with which products of a precision are accurate enough."""
        return self.accuracy / (4.0 * _EPS[dtype])

    def apart(self, rows: NDArray[np.intp]) -> Columns:
        """Columns so far from each other that products would cancel."""
        return PlainColumns(self.X, self.X[rows], self.differences, self.dtype)

    def dense_parts(self, lines: Any, columns: Any) -> Iterator[tuple[NDArray, NDArray]]:
        """Lines and columns as arrays, some features at a time."""
        yield lines, columns

    def differences(self, lines, columns, values: NDArray) -> None:
        """Kernel values from differences: slow, and accurate however far the vectors lie."""
        from scipy.spatial.distance import cdist  # rarely needed, and slow to import

        with np.errstate(over="ignore"):
            distances = np.zeros(values.shape)
            for one, other in self.dense_parts(lines, columns):
                distances += cdist(
                    one.astype(np.float64, copy=False),
                    other.astype(np.float64, copy=False),
                    "sqeuclidean",
                )
            distances *= -self.parameters.gamma
        self.kernel.map(distances, self.parameters)
        values[...] = distances

    def square_of(self, vectors: NDArray, out: NDArray | None) -> NDArray:
        """Kernel values of dense vectors against themselves."""
        values = np.empty((len(vectors),) * 2, dtype=self.dtype) if out is None else out
        if not self.kernel.of_distances:
            vectors = vectors.astype(self.dtype, copy=False)
            return self._panels(scaled(vectors, self.parameters.gamma), vectors, values)
        for dtype in dict.fromkeys([self.dtype, np.dtype(np.float64)]):
            shape = (vectors.shape[0], vectors.shape[1] + 2)
            left, right = np.empty(shape, dtype=dtype), np.empty(shape, dtype=dtype)
            width, largest = _write_factors(vectors, self.parameters.gamma, left, right)
            enough = self.precision(largest)
            if enough is None or enough != dtype:  # NumPy holds None to equal float64
                continue
            if dtype == self.dtype:
                return self._panels(left[:, :width], right[:, :width], values)
            block = np.empty(values.shape, dtype=dtype)
            values[...] = self._panels(left[:, :width], right[:, :width], block)
            return values
        self.differences(vectors, vectors, values)
        return values

    def _panels(self, left: NDArray, right: NDArray, values: NDArray) -> NDArray:
        """The map of ``left @ right.T``, which is symmetric: half of it, and its mirror image."""
        for top in range(0, len(values), SYMMETRIC_LINES):
            bottom = min(top + SYMMETRIC_LINES, len(values))
            panel = values[top:bottom, :bottom]
            np.matmul(left[top:bottom], right[:bottom].T, out=panel)
            self.kernel.map(panel, self.parameters)
            values[:top, top:bottom] = values[top:bottom, :top].T
        return values


def scaled(vectors: NDArray, factor: float) -> NDArray:
    return vectors * vectors.dtype.type(factor) if factor != 1.0 else vectors


@jit
def _write_factors(vectors, gamma, left, right):
    """[2g x, -g|x|^2, 1] and [y, 1, -g|y|^2] of the same rows, seen from the first of them.

    A feature that is constant among the rows does not tell them apart, and is left out.
    Returns how many columns there are, and the largest g|x|^2.
    """
    n, d = vectors.shape
    used = np.empty(d, dtype=np.intp)
    width = 0
    for f in range(d):
        for i in range(1, n):
            if vectors[i, f] != vectors[0, f]:
                used[width] = f
                width += 1
                break
    largest = 0.0
    for i in range(n):
        norm = 0.0
        for w in range(width):
            x = np.float64(vectors[i, used[w]]) - np.float64(vectors[0, used[w]])
            norm += x * x
            right[i, w] = x
            left[i, w] = 2.0 * gamma * x
        right[i, width] = 1.0
        right[i, width + 1] = -gamma * norm
        left[i, width] = -gamma * norm
        left[i, width + 1] = 1.0
        largest = max(largest, gamma * norm)
    return width + 2, largest


#: More than any ``g|x|^2``: then no row is far.
NO_LIMIT = 1e300

#: Rows that are farther, or a larger share of them, are left to products in double precision.
FARTHEST, MOST_FAR = 1e6, 0.1

#: Values of gamma with which vectors are scaled in single precision.
GAMMAS = (1e-30, 1e30)


class Limit(NamedTuple):
    """Beyond which ``g|x|^2`` rows are far, and how vectors are scaled in products."""

    squared: float = NO_LIMIT
    gamma: float = 1.0

    @property
    def exists(self) -> bool:
        return self.squared < NO_LIMIT

    def numbers(self, lines_are_scaled: bool) -> NDArray[np.float64]:
        """For ``mend``: of products of which one factor is ``[2g x, -g|x|^2, 1]``."""
        return np.array([self.squared, self.gamma, float(lines_are_scaled)])


#: No row is far.
NO_FAR = Limit()


@inlined
def mend(lines, right, far, values):
    """Compute the kernel values of far lines and far columns of a block from differences.

    ``far``: of ``Limit.numbers``. The factors are ``[2g x, -g|x|^2, 1]`` and ``[y, 1, -g|y|^2]``.
    """
    limit, gamma = far[0], far[1]
    scaled = far[2] > 0.0
    real, d = values.dtype.type, lines.shape[1] - 2
    of_line, of_column = (d, d + 1) if scaled else (d + 1, d)
    a = real(0.5 / gamma if scaled else 1.0)
    b = real(1.0 if scaled else 0.5 / gamma)
    for j in range(lines.shape[0]):
        if -lines[j, of_line] > limit:
            line = lines[j, :d]
            for k in range(right.shape[0]):
                if -right[k, of_column] > limit:
                    column, total = right[k, :d], real(0.0)
                    for f in range(d):
                        difference = a * line[f] - b * column[f]
                        total += difference * difference
                    values[j, k] = exp(-gamma * total)
