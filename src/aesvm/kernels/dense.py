"""Kernels of dense input vectors."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.blocks import copied_rows
from aesvm.kernels.matrix import Columns
from aesvm.kernels.points import DensePoints, Points
from aesvm.kernels.vectors import VectorKernel, scaled


class DenseKernel(VectorKernel):
    @cached_property
    def center(self) -> NDArray:
        """A point inside the data, one occurring value per feature.

        Near the median of a sample, so that neither an offset nor an outlier costs digits;
        a value that occurs, so that differences of whole numbers stay exact.
        """
        if not self.n_rows:
            return np.zeros(self.X.shape[1], dtype=self.X.dtype)
        sample = self.X[:: max(1, self.n_rows // 101)]
        center = np.partition(sample, (len(sample) - 1) // 2, axis=0)[(len(sample) - 1) // 2]
        return np.ascontiguousarray(center)

    def square(self, rows, out=None):
        return self.square_of(self.X[rows], out)

    def columns(self, rows):
        if not self.kernel.of_distances:
            return _Products(self, self.X[rows].astype(self.dtype, copy=False))
        dtype = self.precision(self.largest(rows))
        if dtype is None:
            return self.apart(rows)
        return _Products(self, self.factor(self.X[rows], dtype))

    def points(self, rows: NDArray[np.intp]) -> Points:
        return DensePoints(self, rows) if self.kernel.euclidean else super().points(rows)

    def squared_norms(self, rows):
        norms = np.empty(len(rows))
        with np.errstate(over="ignore"):
            for part, vectors in self._pieces(rows):
                norms[part] = np.einsum("ij,ij->i", vectors, vectors)
        return norms

    def n_terms(self, rows: NDArray[np.intp]) -> int:
        return self.X.shape[1]

    def factor(self, vectors: NDArray, dtype: np.dtype) -> NDArray:
        """[y, 1, -g|y|^2] of the given vectors, seen from the centre."""
        factor = np.empty((vectors.shape[0], vectors.shape[1] + 2), dtype=dtype)
        plain = factor[:, :-2]
        with np.errstate(over="ignore"):
            finer = np.result_type(vectors.dtype, dtype)  # differences of single in double, too
            np.subtract(vectors, self.center, out=plain, dtype=finer, casting="same_kind")
            factor[:, -2] = 1.0
            norms = np.einsum("ij,ij->i", plain, plain, dtype=np.float64)
            factor[:, -1] = -self.parameters.gamma * norms
        return factor

    def largest(self, rows: NDArray[np.intp]) -> float:
        largest = 0.0
        with np.errstate(over="ignore"):
            for _, vectors in self._pieces(rows):
                vectors = vectors - self.center
                largest = max(largest, float(np.einsum("ij,ij->i", vectors, vectors).max()))
        return self.parameters.gamma * largest

    def _pieces(self, rows: NDArray[np.intp]):
        step = copied_rows(8 * self.X.shape[1])
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield part, self.X[rows[part]].astype(np.float64, copy=False)


class _Products(Columns):
    """Columns whose values are a map of matrix products."""

    def __init__(self, kernel: DenseKernel, right: NDArray) -> None:
        self.kernel = kernel
        self.right = right
        self.dtype = kernel.dtype

    def __len__(self):
        return len(self.right)

    def take(self, positions):
        return _Products(self.kernel, self.right[positions])

    def lines(self, rows):
        return self.new_lines(self.kernel.X[rows])

    def new_lines(self, X_new):
        gamma = self.kernel.parameters.gamma
        if not self.kernel.kernel.of_distances:
            return scaled(X_new.astype(self.right.dtype, copy=False), gamma)
        factor = self.kernel.factor(X_new, self.right.dtype)
        left = factor * factor.dtype.type(2.0 * gamma)
        left[:, -2] = factor[:, -1]
        left[:, -1] = 1.0
        return left

    def write(self, lines, start, stop, out):
        columns = self.right[start:stop].T
        if self.right.dtype == self.dtype:
            values = np.matmul(lines, columns, out=out)
            self.kernel.kernel.map(values, self.kernel.parameters)
        else:  # products that need more digits than the values
            values = np.matmul(lines, columns)
            self.kernel.kernel.map(values, self.kernel.parameters)
            out[...] = values
