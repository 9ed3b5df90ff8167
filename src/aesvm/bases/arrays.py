"""Arrays of the host, or of the device that computes kernel values.

NumPy's functions hand arrays of a device on to its own, so that most code is the same for both;
here is what differs. An array that is not NumPy's is one of a device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aesvm.gpu import linear_algebra


def is_host(values: Any) -> bool:
    """Whether an array is one of the host."""
    return isinstance(values, np.ndarray)


def to_host(values: Any) -> NDArray:
    """An array as one of the host."""
    return values if is_host(values) else values.get()


def put(values: NDArray, device: Any) -> Any:
    """An array of the host on a device; as it is where that is None."""
    return values if device is None else device.array(values)


def zeros(shape: int | tuple[int, ...], device: Any, dtype: DTypeLike = np.float64) -> Any:
    """Zeros on a device; on the host where that is None."""
    return (np if device is None else device.xp).zeros(shape, dtype=dtype)


def times(matrix: Any, vector: Any) -> Any:
    """A matrix times a vector, both of one precision.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.arrays import times
    >>> times(np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
    array([11.])
    """
    return matrix @ vector if is_host(matrix) else linear_algebra.product(matrix, vector)


def sum_rows(matrix: Any, numbers: Any, weights: Any) -> Any:
    """``sum_m weights[m] matrix[numbers[m]]`` in double precision; of None, all rows in order.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.arrays import sum_rows
    >>> sum_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]), np.array([10.0]))
    array([30., 40.])
    """
    if is_host(matrix):
        return weights @ (matrix if numbers is None else matrix[numbers])
    return linear_algebra.sum_rows(matrix, numbers, weights)
