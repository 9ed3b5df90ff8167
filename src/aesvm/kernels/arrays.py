"""Arrays of the host: what kernel values are, where no device computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray


class Arrays:
    """The arrays that hold kernel values, and how they are computed with.

    NumPy's functions hand arrays of a device on to its own, so that most code is the same for all
    arrays; here is how new ones are made.
    """

    def put(self, values: NDArray) -> Any:
        """An array of the host as one of these."""
        return values

    def zeros(self, shape: int | tuple[int, ...]) -> Any:
        """Zeros in double precision."""
        return np.zeros(shape)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """An array that is not initialised."""
        return np.empty(shape, dtype=dtype)

    def threads(self, run: Callable) -> Callable:
        """How calls that compute are made: by ``run``, a parallel map, or one after another."""
        return run

    def either(self, of_host: Any, of_device: Any) -> Any:
        """The one of two constants that is for these arrays."""
        return of_host

    def free_bytes(self) -> float | None:
        """Bytes that a device has left for more of them; None of the host."""
        return None


#: Those of the host.
HOST = Arrays()


def dense(rows: Any) -> NDArray[np.float64]:
    """Rows as an array in double precision.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from aesvm.kernels.arrays import dense
    >>> dense(sp.csr_array([[0, 1]]))
    array([[0., 1.]])
    """
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
