"""Which kernel, with which parameters: a value that can be compared, sent and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from aesvm.kernels.dense import DenseKernel
from aesvm.kernels.functions import KERNELS, Parameters
from aesvm.kernels.given import CallableKernel, PrecomputedKernel
from aesvm.kernels.matrix import KernelMatrix
from aesvm.kernels.sparse import SparseKernel
from aesvm.kernels.vectors import VectorKernel

#: What is known of a kernel's definiteness.
DEFINITE, TAKEN, NOT_DEFINITE = (
    "positive semidefinite",
    "taken to be positive semidefinite",
    "not positive semidefinite",
)


@dataclass(frozen=True)
class KernelSpec:
    """A kernel and its parameters, ``gamma`` as a number.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import KernelSpec
    >>> spec = KernelSpec("poly", degree=2, coef0=1.0)
    >>> spec.matrix(np.array([[1.0], [2.0]])).square(np.arange(2))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    kernel: str | Callable[[Any, Any], Any] = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    device: str = "cpu"  #: which is to compute: the processor, or a GPU ("cuda", "cuda:1")

    def matrix(
        self, X: Any, *, dtype: DTypeLike | None = None, accuracy: float = 1e-5
    ) -> KernelMatrix:
        """The kernel matrix of the rows of ``X``, by this processor; see ``kernel_matrix``.

        ``TrainingKernel`` has that of any device.
        """
        dtype = np.dtype(X.dtype if dtype is None else dtype)
        if self.kernel == "precomputed":
            return PrecomputedKernel(X, dtype)
        if callable(self.kernel):
            return CallableKernel(X, self.kernel, dtype)
        if self.kernel not in KERNELS:
            known = ", ".join(repr(name) for name in [*KERNELS, "precomputed"])
            raise ValueError(f"kernel={self.kernel!r} is unknown: use {known} or a callable.")
        gamma = float(self.gamma) if KERNELS[self.kernel].has_gamma else 1.0
        parameters = Parameters(gamma, int(self.degree), float(self.coef0))
        vectors: type[VectorKernel] = SparseKernel if sp.issparse(X) else DenseKernel
        return vectors(X, KERNELS[self.kernel], parameters, dtype, accuracy)

    @property
    def definiteness(self) -> str:
        """What is known of it; a given matrix or callable is taken to be semidefinite."""
        if self.kernel == "precomputed" or callable(self.kernel):
            return TAKEN
        negative = self.kernel == "poly" and self.coef0 < 0
        known = KERNELS.get(self.kernel)
        return DEFINITE if known is not None and known.definite and not negative else NOT_DEFINITE

    @property
    def is_definite(self) -> bool:
        """Whether it is positive semidefinite, or taken to be."""
        return self.definiteness != NOT_DEFINITE


def kernel_matrix(
    X: Any,
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
    return KernelSpec(kernel, gamma, degree, coef0).matrix(X, dtype=dtype, accuracy=accuracy)
