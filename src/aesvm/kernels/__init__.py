"""The kernel matrix of the training rows, addressed by row index and never held whole.

``K[i, j] = k(x_i, x_j)`` is only ever needed in blocks. ``functions`` lists the kernels of
input vectors; ``dense`` and ``sparse`` fill their blocks, by one matrix product and an
elementwise map (``vectors``). Precomputed matrices and callables (``given``) are other ways to
fill a block; whoever asks for one (``matrix`` says how) cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from aesvm.kernels.dense import DenseKernel
from aesvm.kernels.functions import KERNELS, Kernel, Parameters, resolve_gamma
from aesvm.kernels.given import CallableKernel, PrecomputedKernel, check_symmetric
from aesvm.kernels.matrix import Columns, KernelMatrix, bounded
from aesvm.kernels.rounding import in_enough_precision
from aesvm.kernels.sparse import SparseKernel
from aesvm.kernels.vectors import VectorKernel

__all__ = [
    "KERNELS",
    "Columns",
    "DenseKernel",
    "Kernel",
    "KernelMatrix",
    "SparseKernel",
    "VectorKernel",
    "bounded",
    "check_symmetric",
    "in_enough_precision",
    "kernel_matrix",
    "resolve_gamma",
]


def kernel_matrix(
    X,
    *,
    kernel: str | Callable[[Any, Any], Any] = "rbf",
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
        Of kernels of distances: the error in a value beyond which a block is computed in a
        slower way.

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
        return PrecomputedKernel(X, dtype)
    if callable(kernel):
        return CallableKernel(X, kernel, dtype)
    if kernel not in KERNELS:
        known = ", ".join(repr(name) for name in [*KERNELS, "precomputed"])
        raise ValueError(f"kernel={kernel!r} is unknown: use {known} or a callable.")
    if kernel == "linear":
        gamma = 1.0
    parameters = Parameters(float(gamma), int(degree), float(coef0))
    vectors: type[VectorKernel] = SparseKernel if sp.issparse(X) else DenseKernel
    return vectors(X, KERNELS[kernel], parameters, dtype, accuracy)
