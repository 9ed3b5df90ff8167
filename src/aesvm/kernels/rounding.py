"""Single or double precision: by how much rounding would move a sum of kernel values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.matrix import KernelMatrix

#: So few rows are not worth the saving.
_FEW = 2048

#: Size of the block in which rounding is measured.
_LINES, _COLUMNS = 64, 256


def in_enough_precision(
    of: Callable[[type], KernelMatrix], rows: NDArray[np.intp], coefs: NDArray, tol: float
) -> KernelMatrix:
    """The kernel matrix in single precision where that will do, otherwise in double.

    It will do where the rows are many, and ``sum_j c_j K_ij`` with coefficients as large as the
    given ones typically differs by less than ``tol`` between the two: the errors of the values
    are taken as independent of each other, and their size is measured on a sample of the rows.

    Parameters
    ----------
    of : callable
        The kernel matrix in a given precision.
    rows : ndarray of shape (n,)
        The training rows that matter.
    coefs : ndarray of shape (n,)
        Largest magnitude of each coefficient.
    tol : float
    """
    if len(rows) <= _FEW:
        return of(np.float64)
    columns = rows[:: max(1, len(rows) // _COLUMNS)]
    lines = columns[:: max(1, len(columns) // _LINES)]
    single, double = of(np.float32), of(np.float64)
    errors = single.block(lines, columns) - double.block(lines, columns)
    error = float(np.sqrt(np.square(errors, dtype=np.float64).mean()))
    return single if error * float(np.linalg.norm(coefs)) <= tol else double
