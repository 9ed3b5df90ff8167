"""Operations of arrays that NumPy does not hand on to those of a device.

NumPy's functions take arrays of any kind, so that most code is the same for the host and for a
device. Where it is not, a function is registered twice: for ``np.ndarray``, and for all others,
which are a device's.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu import linear_algebra


@singledispatch
def to_host(values: Any) -> NDArray:
    """An array as one of the host."""
    return values.get()


@to_host.register(np.ndarray)
def _(values: NDArray) -> NDArray:
    return values


@singledispatch
def times(matrix: Any, vector: Any) -> Any:
    """A matrix times a vector, both of one precision.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.arrays import times
    >>> times(np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
    array([11.])
    """
    return linear_algebra.product(matrix, vector)


@times.register(np.ndarray)
def _(matrix: NDArray, vector: NDArray) -> NDArray:
    return matrix @ vector


@singledispatch
def sum_rows(matrix: Any, numbers: Any, weights: Any) -> Any:
    """``sum_m weights[m] matrix[numbers[m]]`` in double precision; of None, all rows in order.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.arrays import sum_rows
    >>> sum_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]), np.array([10.0]))
    array([30., 40.])
    """
    return linear_algebra.sum_rows(matrix, numbers, weights)


@sum_rows.register(np.ndarray)
def _(matrix: NDArray, numbers: NDArray | None, weights: NDArray) -> NDArray:
    return weights @ (matrix if numbers is None else matrix[numbers])
