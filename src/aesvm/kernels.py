"""The kernel matrix of the training rows, addressed by row index and never held whole.

``K[i, j] = k(x_i, x_j)`` is only ever needed in blocks. For kernels of input vectors a block
is one matrix product followed by an elementwise map in place:

========  ==============================  ==========================
kernel    product p                       map
========  ==============================  ==========================
rbf       ``-gamma |x - y|^2``            ``exp(p)``
poly      ``gamma x.y``                   ``(p + coef0) ** degree``
sigmoid   ``gamma x.y``                   ``tanh(p + coef0)``
linear    ``x.y``                         ``p``
========  ==============================  ==========================

To add a kernel of this kind, add a row to ``KERNELS``. Squared distances are products too,
of vectors that carry their norms: ``[2g x, -g|x|^2, 1] . [y, 1, -g|y|^2] = -g |x - y|^2``.
They are taken from a point inside the data, since far from the origin they would cancel. A
square block is centred on a row of its own, and where its rows are so far apart that products
would still lose more than ``accuracy``, it is computed in double precision or, in the end, from
differences, which do not cancel.

Precomputed matrices and callables are other ways to fill a block; whoever asks for one
cannot tell the difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from aesvm.jit import jit

KernelName = str | Callable[[Any, Any], Any]

#: Unit of rounding.
_EPS = {np.dtype(t): float(np.finfo(t).eps) for t in (np.float32, np.float64)}

#: Kernel values beyond this are refused: their squares and sums must stay finite.
LARGEST = 1e15

#: Largest dense copy of sparse rows made to fill a block.
_DENSE_BYTES = 1 << 26

#: A symmetric block is computed in panels of this many rows; the rest is mirrored.
_PANEL = 512


class Parameters(NamedTuple):
    gamma: float
    degree: int
    coef0: float


class Kernel(NamedTuple):
    """What a block's products are, and the map that turns them into kernel values."""

    of_distances: bool  #: products are -gamma |x - y|^2, not gamma x.y
    euclidean: bool  #: distances in kernel space rank as those between the input vectors
    map: Callable[[NDArray, Parameters], None]  #: in place


def _exp(products: NDArray, parameters: Parameters) -> None:
    np.exp(products, out=products)


def _polynomial(products: NDArray, parameters: Parameters) -> None:
    products += parameters.coef0
    base = products.copy()
    degree = parameters.degree
    if degree == 0:
        products.fill(1.0)
        return
    # by squaring: the general power of floats is twenty times slower
    for bit in bin(degree)[3:]:
        np.square(products, out=products)
        if bit == "1":
            products *= base


def _tanh(products: NDArray, parameters: Parameters) -> None:
    products += parameters.coef0
    np.tanh(products, out=products)


def _identity(products: NDArray, parameters: Parameters) -> None:
    pass


KERNELS: dict[str, Kernel] = {
    "rbf": Kernel(of_distances=True, euclidean=True, map=_exp),
    "poly": Kernel(of_distances=False, euclidean=False, map=_polynomial),
    "sigmoid": Kernel(of_distances=False, euclidean=False, map=_tanh),
    "linear": Kernel(of_distances=False, euclidean=True, map=_identity),
}


class KernelMatrix(ABC):
    """The kernel matrix of ``n_rows`` training rows.

    Attributes
    ----------
    n_rows : int
    dtype : numpy.dtype
        Of the values computed.
    """

    n_rows: int
    dtype: np.dtype

    @abstractmethod
    def block(
        self, rows: NDArray[np.intp], cols: NDArray[np.intp] | None = None, out=None
    ) -> NDArray:
        """Kernel values of the given rows against the given columns.

        Without ``cols`` the block is ``rows`` against ``rows``, and symmetric. ``out`` is
        an array of the block's shape to write to, where the caller has one.
        """

    @abstractmethod
    def diag(self, rows: NDArray[np.intp]) -> NDArray:
        """Kernel values of the given rows against themselves."""

    @abstractmethod
    def cross(self, X_new, cols: NDArray[np.intp]) -> NDArray:
        """Kernel values of new rows against the given training rows."""

    @abstractmethod
    def bound(self, rows: NDArray[np.intp]) -> float:
        """What no kernel value of the given rows exceeds in magnitude."""


def kernel_matrix(
    X,
    *,
    kernel: KernelName = "rbf",
    gamma: float = 1.0,
    degree: int = 3,
    coef0: float = 0.0,
    dtype: DTypeLike | None = None,
    accuracy: float = 1e-5,
) -> KernelMatrix:
    """The kernel matrix of the rows of ``X``.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Float32 or float64. With ``kernel="precomputed"`` the matrix itself.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable
    gamma, degree, coef0 : float, int, float
        Parameters of the kernel; ``gamma`` as a number.
    dtype : data-type, default=X.dtype
        Precision in which blocks are computed.
    accuracy : float, default=1e-5
        Of kernels of distances: the error in a value of a square block beyond which the block
        is computed in a slower way.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import kernel_matrix
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> K = kernel_matrix(X, kernel="poly", degree=2, coef0=1.0)
    >>> K.block(np.array([1, 2]), np.array([0, 2]))
    array([[ 1.,  1.],
           [ 1., 25.]])
    """
    dtype = np.dtype(X.dtype if dtype is None else dtype)
    if kernel == "precomputed":
        return _Precomputed(X, dtype)
    if callable(kernel):
        return _Callable(X, kernel, dtype)
    if kernel not in KERNELS:
        known = ", ".join(repr(name) for name in [*KERNELS, "precomputed"])
        raise ValueError(f"kernel={kernel!r} is unknown: use {known} or a callable.")
    if kernel == "linear":
        gamma = 1.0
    parameters = Parameters(float(gamma), int(degree), float(coef0))
    vectors: type[VectorKernel] = SparseKernel if sp.issparse(X) else DenseKernel
    return vectors(X, KERNELS[kernel], parameters, dtype, accuracy)


def resolve_gamma(gamma: str | float, X) -> float:
    """The number that ``gamma`` stands for, by scikit-learn's rules.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import resolve_gamma
    >>> resolve_gamma("scale", np.array([[0.0], [2.0]]))
    1.0
    """
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        variance = _variance(X)
        return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0
    return float(gamma)


def _variance(X) -> float:
    """Variance of all entries, without a copy of them."""
    size = X.shape[0] * X.shape[1]
    if sp.issparse(X):
        mean = X.data.sum(dtype=np.float64) / size
        deviations = np.square(X.data.astype(np.float64) - mean).sum()
        return float((deviations + (size - X.data.size) * mean**2) / size)
    mean = X.sum(dtype=np.float64) / size
    total = 0.0
    step = max(1, (1 << 22) // X.shape[1])
    for start in range(0, X.shape[0], step):
        total += float(np.square(X[start : start + step] - mean).sum(dtype=np.float64))
    return total / size


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

    @property
    def euclidean(self) -> bool:
        return self.kernel.euclidean

    def diag(self, rows: NDArray[np.intp]) -> NDArray:
        if self.kernel.of_distances:
            values = np.zeros(len(rows), dtype=self.dtype)
        else:
            values = self.parameters.gamma * self.squared_norms(rows)
        self.kernel.map(values, self.parameters)
        return values

    def bound(self, rows: NDArray[np.intp]) -> float:
        if self.kernel.of_distances:
            largest = np.zeros(1)
        else:
            largest = self.parameters.gamma * self.squared_norms(rows).max(keepdims=True)
        with np.errstate(over="ignore"):
            parameters = self.parameters._replace(coef0=abs(self.parameters.coef0))
            self.kernel.map(largest, parameters)
        return float(largest[0])

    @abstractmethod
    def squared_norms(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Squared length of the given input vectors, in double precision."""

    def square(self, vectors: NDArray, out: NDArray | None) -> NDArray:
        """Kernel values of dense vectors against themselves."""
        values = np.empty((len(vectors),) * 2, dtype=self.dtype) if out is None else out
        if not self.kernel.of_distances:
            vectors = vectors.astype(self.dtype, copy=False)
            return self._panels(_scaled(vectors, self.parameters.gamma), vectors, values)
        for dtype in dict.fromkeys([self.dtype, np.dtype(np.float64)]):
            shape = (vectors.shape[0], vectors.shape[1] + 2)
            left, right = np.empty(shape, dtype=dtype), np.empty(shape, dtype=dtype)
            width, largest = _write_factors(vectors, self.parameters.gamma, left, right)
            # a product of norms up to `largest` is rounded by a few units of it
            if 4.0 * _EPS[dtype] * largest <= self.accuracy:
                if dtype == self.dtype:
                    return self._panels(left[:, :width], right[:, :width], values)
                block = np.empty(values.shape, dtype=dtype)
                values[...] = self._panels(left[:, :width], right[:, :width], block)
                return values
        from scipy.spatial.distance import cdist  # rarely needed, and slow to import

        with np.errstate(over="ignore"):
            distances = cdist(vectors.astype(np.float64), vectors.astype(np.float64), "sqeuclidean")
            distances *= -self.parameters.gamma
        self.kernel.map(distances, self.parameters)
        values[...] = distances
        return values

    def _panels(self, left: NDArray, right: NDArray, values: NDArray) -> NDArray:
        """The map of ``left @ right.T``, which is symmetric: half of it, and its mirror image."""
        for top in range(0, len(values), _PANEL):
            bottom = min(top + _PANEL, len(values))
            panel = values[top:bottom, :bottom]
            np.matmul(left[top:bottom], right[:bottom].T, out=panel)
            self.kernel.map(panel, self.parameters)
            values[:top, top:bottom] = values[top:bottom, :top].T
        return values


def _scaled(vectors: NDArray, factor: float) -> NDArray:
    return vectors * vectors.dtype.type(factor) if factor != 1.0 else vectors


class DenseKernel(VectorKernel):
    @cached_property
    def center(self) -> NDArray:
        """A point inside the data, one occurring value per feature.

        Near the median of a sample, so that neither an offset nor an outlier costs digits;
        a value that occurs, so that differences of whole numbers stay exact.
        """
        sample = self.X[:: max(1, self.n_rows // 101)]
        center = np.partition(sample, (len(sample) - 1) // 2, axis=0)[(len(sample) - 1) // 2]
        return np.ascontiguousarray(center)

    def block(self, rows, cols=None, out=None):
        if cols is None:
            return self.square(self.X[rows], out)
        return self._values(self._left(self.X[rows]), self._right(self.X[cols]), out)

    def cross(self, X_new, cols):
        return self._values(self._left(X_new), self._right(self.X[cols]), None)

    def squared_norms(self, rows):
        norms = np.empty(len(rows))
        step = max(1, _DENSE_BYTES // (8 * self.X.shape[1]))
        with np.errstate(over="ignore"):
            for start in range(0, len(rows), step):
                vectors = self.X[rows[start : start + step]].astype(np.float64, copy=False)
                norms[start : start + step] = np.einsum("ij,ij->i", vectors, vectors)
        return norms

    def _values(self, lines: NDArray, columns: NDArray, out: NDArray | None) -> NDArray:
        values = np.matmul(lines, columns.T, out=out)
        self.kernel.map(values, self.parameters)
        return values

    def _right(self, vectors: NDArray) -> NDArray:
        vectors = vectors.astype(self.dtype, copy=False)
        if not self.kernel.of_distances:
            return vectors
        factor = np.empty((vectors.shape[0], vectors.shape[1] + 2), dtype=self.dtype)
        plain = factor[:, :-2]
        np.subtract(vectors, self.center, out=plain)
        factor[:, -2] = 1.0
        factor[:, -1] = -self.parameters.gamma * np.einsum("ij,ij->i", plain, plain)
        return factor

    def _left(self, vectors: NDArray) -> NDArray:
        return self._left_of_right(self._right(vectors))

    def _left_of_right(self, factor: NDArray) -> NDArray:
        gamma = self.parameters.gamma
        if not self.kernel.of_distances:
            return _scaled(factor, gamma)
        left = factor * factor.dtype.type(2.0 * gamma)
        left[:, -2] = factor[:, -1]
        left[:, -1] = 1.0
        return left


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


class SparseKernel(VectorKernel):
    """As the dense one; only blocks of rows are ever made dense."""

    def block(self, rows, cols=None, out=None):
        if cols is None:
            lines = self.X[rows]
            used = np.unique(lines.indices)
            if len(rows) * len(used) * 8 <= _DENSE_BYTES:
                return self.square(_dense(lines, used), out)
            cols = rows
        return _written(self._values(self.X[rows], self.X[cols]), self.dtype, out)

    def cross(self, X_new, cols):
        return self._values(sp.csr_array(X_new), self.X[cols])

    def squared_norms(self, rows):
        return _squared_norms(self.X[rows])

    def _values(self, lines, columns) -> NDArray:
        lines = lines.astype(np.float64, copy=False)
        columns = columns.astype(np.float64, copy=False)
        values = np.empty((lines.shape[0], columns.shape[0]))
        step = max(1, _DENSE_BYTES // (8 * max(1, lines.shape[1])))
        for start in range(0, columns.shape[0], step):
            part = columns[start : start + step].toarray()
            values[:, start : start + step] = lines @ part.T
        if self.kernel.of_distances:
            values *= 2.0
            values -= _squared_norms(lines)[:, None]
            values -= _squared_norms(columns)[None, :]
            np.minimum(values, 0.0, out=values)
        if self.parameters.gamma != 1.0:
            values *= self.parameters.gamma
        self.kernel.map(values, self.parameters)
        return values.astype(self.dtype, copy=False)


def _dense(X, used: NDArray) -> NDArray:
    """The used columns of sparse rows, as an array."""
    vectors = np.zeros((X.shape[0], max(1, len(used))), dtype=X.dtype)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    vectors[rows, np.searchsorted(used, X.indices)] = X.data
    return vectors


def _squared_norms(X) -> NDArray[np.float64]:
    norms = np.empty(X.shape[0])
    with np.errstate(over="ignore"):
        _sum_squares(X.data.astype(np.float64), X.indptr, norms)
    return norms


@jit
def _sum_squares(data, indptr, norms):
    for i in range(norms.size):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e] * data[e]
        norms[i] = total


class _Precomputed(KernelMatrix):
    def __init__(self, K: NDArray, dtype: np.dtype) -> None:
        self.K = K
        self.dtype = dtype
        self.n_rows = K.shape[0]

    def block(self, rows, cols=None, out=None):
        return _written(self.K[np.ix_(rows, rows if cols is None else cols)], self.dtype, out)

    def diag(self, rows):
        return self.K[rows, rows].astype(self.dtype, copy=False)

    def cross(self, X_new, cols):
        return _written(X_new[:, cols], self.dtype, None)

    def bound(self, rows):
        return max(float(self.K.max()), -float(self.K.min()))


class _Callable(KernelMatrix):
    def __init__(self, X, function: Callable[[Any, Any], Any], dtype: np.dtype) -> None:
        self.X = X
        self.function = function
        self.dtype = dtype
        self.n_rows = X.shape[0]

    def block(self, rows, cols=None, out=None):
        values = self._call(self.X[rows], self.X[rows if cols is None else cols])
        return _written(values, self.dtype, out)

    def diag(self, rows):
        step = 64
        parts = [
            self._call(self.X[part], self.X[part]).diagonal()
            for part in (rows[start : start + step] for start in range(0, len(rows), step))
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=self.dtype)

    def cross(self, X_new, cols):
        return self._call(X_new, self.X[cols])

    def bound(self, rows):
        # of a positive semidefinite kernel; of others it is only a guess
        return float(np.abs(self.diag(rows)).max())

    def _call(self, lines, columns) -> NDArray:
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
        values = np.ascontiguousarray(values, dtype=self.dtype)
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={name} returned NaN or infinity: it must return finite numbers."
            )
        if values.size and np.abs(values).max() > LARGEST:
            raise ValueError(f"kernel={name} returned values beyond {LARGEST:g}: scale the data.")
        return values


def _written(values: NDArray, dtype: np.dtype, out: NDArray | None) -> NDArray:
    if out is None:
        return np.ascontiguousarray(values, dtype=dtype)
    out[...] = values
    return out
