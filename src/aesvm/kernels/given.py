"""Precomputed and callable kernels: a matrix, or a function of two sets of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels.blocks import GIVEN_DIAGONAL_ROWS, copied_rows
from aesvm.kernels.matrix import LARGEST, Columns, KernelMatrix, PlainColumns


class PrecomputedKernel(KernelMatrix):
    def __init__(self, K: NDArray, dtype: np.dtype) -> None:
        self.K = K
        self.dtype = dtype
        self.n_rows = K.shape[0]

    def square(self, rows, out=None):
        values = np.empty((len(rows),) * 2, dtype=self.dtype) if out is None else out
        values[...] = self.K[np.ix_(rows, rows)]
        return values

    def columns(self, rows):
        return _PrecomputedColumns(self, rows)

    def diag(self, rows):
        return self.K[rows, rows].astype(self.dtype, copy=False)

    def bound(self, rows):
        return max(float(self.K.max()), -float(self.K.min()))


class _PrecomputedColumns(Columns):
    def __init__(self, kernel: PrecomputedKernel, rows: NDArray[np.intp]) -> None:
        self.kernel = kernel
        self.rows = rows
        self.dtype = kernel.dtype

    def __len__(self):
        return len(self.rows)

    def take(self, positions):
        return _PrecomputedColumns(self.kernel, self.rows[positions])

    def lines(self, rows):
        return self.kernel.K[rows]

    def new_lines(self, X_new):
        return X_new

    def write(self, lines, start, stop, out):
        out[...] = lines[:, self.rows[start:stop]]


class CallableKernel(KernelMatrix):
    def __init__(self, X, function: Callable[[Any, Any], Any], dtype: np.dtype) -> None:
        self.X = X
        self.function = function
        self.dtype = dtype
        self.n_rows = X.shape[0]

    def square(self, rows, out=None):
        values = np.empty((len(rows),) * 2, dtype=self.dtype) if out is None else out
        vectors = self.X[rows]
        self._fill(vectors, vectors, values)
        return values

    def columns(self, rows):
        return PlainColumns(self.X, self.X[rows], self._fill, self.dtype)

    def diag(self, rows):
        step = GIVEN_DIAGONAL_ROWS
        parts = [
            self.square(rows[start : start + step]).diagonal()
            for start in range(0, len(rows), step)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=self.dtype)

    def bound(self, rows):
        # of a positive semidefinite kernel; of others it is only a guess
        return float(np.abs(self.diag(rows)).max(initial=0.0))

    def _fill(self, lines, columns, out: NDArray) -> None:
        name = getattr(self.function, "__name__", repr(self.function))
        values = self.function(lines, columns)
        values = np.asarray(values.toarray() if sp.issparse(values) else values)
        expected = (lines.shape[0], columns.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"kernel={name} returned an array of shape {values.shape} for "
                f"{expected[0]} and {expected[1]} rows: it must return shape {expected}."
            )
        if values.dtype.kind not in "fiub":
            raise ValueError(
                f"kernel={name} returned values of type {values.dtype}: "
                "it must return real numbers."
            )
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={name} returned NaN or infinity: it must return finite numbers."
            )
        if values.size and float(np.abs(values).max()) > LARGEST:
            raise ValueError(f"kernel={name} returned values beyond {LARGEST:g}: scale the data.")
        out[...] = values


def check_symmetric(K: NDArray) -> None:
    """Refuse what cannot be the kernel matrix of the training rows."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f'X has shape {K.shape}: with kernel="precomputed" it must be the square kernel '
            "matrix of the training rows."
        )
    tolerance = np.sqrt(np.finfo(K.dtype).eps) * max(float(K.max()), -float(K.min()))
    step = copied_rows(2 * 8 * len(K))
    for start in range(0, len(K), step):
        part = slice(start, start + step)
        difference = np.abs(K[part] - K[:, part].T)
        if difference.max() > tolerance:
            i, j = np.unravel_index(difference.argmax(), difference.shape)
            i += start
            raise ValueError(
                f"X is not symmetric: X[{i}, {j}]={K[i, j]} and X[{j}, {i}]={K[j, i]}. With "
                'kernel="precomputed" it must be the kernel matrix of the training rows.'
            )
