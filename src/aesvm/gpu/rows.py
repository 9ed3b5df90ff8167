"""Rows on a device: given there, or copied there by their owner.

Users have arrays on a GPU of CuPy, PyTorch, JAX, cuDF and others that share them. Whether rows have
room there is decided by bytes, before anything is copied. Rows are copied once, for all of their
kernel matrices. The copy is freed with its owner. Dense rows that the device has no room for stay
on the host (``vectors``); that is decided once, too. Sparse rows, and a given kernel matrix, must
have room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.gpu.devices import Device, DeviceMemoryError

#: DLPack's number of memory that is CUDA's.
_CUDA = 2


def is_on_gpu(values: Any) -> bool:
    """Whether an array, of CuPy or anything else that has DLPack, or a frame of cuDF is on a GPU.

    So is a sparse matrix of CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.gpu.rows import is_on_gpu
    >>> is_on_gpu(np.ones(3))
    False
    """
    if hasattr(values, "__cuda_array_interface__") or hasattr(values, "to_cupy"):
        return True
    if _is_sparse(values):
        return hasattr(getattr(values, "data", None), "__cuda_array_interface__")
    tell = getattr(values, "__dlpack_device__", None)
    return callable(tell) and int(tell()[0]) == _CUDA


def _is_sparse(values: Any) -> bool:
    """Whether it is a sparse matrix, of SciPy's or CuPy's, in any format."""
    return hasattr(values, "tocsr")


def as_array(device: Device, values: Any) -> Any:
    """Values that are on a GPU as an array, or a sparse matrix, of CuPy's, without a copy."""
    if _is_sparse(values):
        return values
    if hasattr(values, "to_cupy"):  # of cuDF, whose get is that of a dict
        return values.to_cupy()
    if not hasattr(values, "__dlpack__"):  # cuDF's columns, Numba's arrays
        return device.array(values)
    return values if hasattr(values, "get") else device.xp.from_dlpack(values)


def as_given(device: Device, given: Any, rows: Any) -> Any:
    """What was given, where that is the valid ``rows`` on this device; None where it is not."""
    if not is_on_gpu(given):
        return None
    there = as_array(device, given)
    if there.shape != rows.shape or there.dtype != rows.dtype:
        return None
    if not sp.issparse(rows):
        return there if device.has(there) else None
    if there.format != "csr" or there.nnz != rows.nnz or there.indices.dtype != np.int32:
        return None
    return there if device.has(there.data) and there.has_canonical_format else None


def like_input(device: Device, result: Any, X: Any) -> Any:
    """A result as an array of the kind that X is of, where that is on a GPU."""
    if not is_on_gpu(X) or result.dtype.kind not in "biuf":
        return result
    with device.here():
        there = copied(device, result)
    if hasattr(X, "get") or not hasattr(X, "__dlpack__"):
        return there
    if hasattr(X, "__array_namespace__"):  # of the array API standard: JAX
        return X.__array_namespace__().from_dlpack(there)
    return import_module(type(X).__module__.partition(".")[0]).from_dlpack(there)  # PyTorch


#: Dense rows are padded with zeros to a multiple of this many bytes, as ``tiles.cu`` has them.
_ROW_BYTES = 64

#: Bytes of a panel of rows that goes to a device. It does not depend on what is free: where panels
#: end decides how sums are rounded. Rows of fewer bytes always go to the device.
PANEL_BYTES = 1 << 27

#: Bytes that a solve has of each row beside the row itself: scores, coefficients, bounds, numbers.
_SOLVE_BYTES = 200


def padded(width: int, itemsize: int) -> int:
    """Features of a row as the device has it; ``itemsize``: bytes of a number.

    Examples
    --------
    >>> from aesvm.gpu.rows import padded
    >>> padded(1, 4), padded(54, 4), padded(54, 8)
    (16, 64, 56)
    """
    depth = _ROW_BYTES // itemsize
    return max(depth, -(-width // depth) * depth)


def panel_rows(row_bytes: int) -> int:
    """Rows of a panel."""
    return max(1, PANEL_BYTES // max(1, row_bytes))


def has_room_for(device: Device, n_rows: int, row_bytes: int) -> bool:
    """Whether ``n_rows`` rows of ``row_bytes`` bytes each, and a solve's arrays, fit on a device.

    Two panels are left for rows that stay on the host.
    """
    n_bytes = n_rows * row_bytes
    if n_bytes <= PANEL_BYTES:
        return True
    return n_bytes + n_rows * _SOLVE_BYTES + 2 * PANEL_BYTES <= device.free_bytes()


def has_room_for_copy(device: Device, X: Any) -> bool:
    """Whether dense rows have room on a device as they are.

    Some are gathered there, in another order, and all are there once more in double precision.
    """
    n_rows, width = X.shape
    return has_room_for(device, n_rows, 2 * width * X.dtype.itemsize + 8 * padded(width, 8))


#: Numbers of entries and features of sparse rows are 32 bits wide, as ``rows.cu`` has them.
_MOST_ENTRIES = 2**31


@dataclass(eq=False)
class DeviceRows:
    """Rows that a device computes with."""

    device: Device
    X: Any  #: the rows on the host
    given: Any = None  #: the same rows on the device, where they were given there
    whole: bool = False  #: whether dense rows must be there, too: those of a given kernel matrix
    say: Callable[[str], None] | None = None  #: called once if rows stay on the host
    stay: bool = field(default=False, init=False)  #: whether they are on the host alone

    def __post_init__(self) -> None:
        self._there = self.given
        self._squared_norms: NDArray[np.float64] | None = None
        self._copying = threading.Lock()

    def there(self) -> Any:
        """The rows on the device, copied when they are first asked for; None where they stay."""
        with self._copying:
            if self._there is None and not self.stay:
                if self._has_room():
                    self._there = copied(self.device, self.X)
                else:
                    self._note_stay()
            return self._there

    def squared_norms(self, compute: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Squared lengths of dense rows, seen from their center: computed once."""
        if self._squared_norms is None:
            self._squared_norms = compute()
        return self._squared_norms

    def keep_on_host(self) -> None:
        """Note that a form of these rows has no room on the device."""
        with self._copying:
            if not self.stay:
                self._note_stay()

    def _has_room(self) -> bool:
        X = self.X
        if not (self.whole or sp.issparse(X)):
            return has_room_for_copy(self.device, X)
        parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
        n_bytes = sum(part.nbytes for part in parts)
        if n_bytes > self.device.free_bytes():
            raise DeviceMemoryError.of_bytes(self.device, n_bytes)
        return True

    def _note_stay(self) -> None:
        self.stay = True
        if self.say is not None:
            self.say(
                f"rows stay on the host, {self.X.nbytes:,} bytes: they go to {self.device.name} "
                "in panels"
            )


def copied(device: Device, X: Any) -> Any:
    """Rows as an array, or a CSR matrix, of the device."""
    if not sp.issparse(X):
        return device.large_array(X)
    if max(X.nnz, *X.shape) >= _MOST_ENTRIES:
        raise ValueError(
            f"X has {X.nnz:,} entries and {X.shape[1]:,} features, and a GPU takes fewer than "
            f'{_MOST_ENTRIES:,} of each: give fewer rows, or use device="cpu".'
        )
    parts = (np.asarray(part, dtype=np.int32) for part in (X.indices, X.indptr))
    rows = sp.csr_matrix((X.data, *parts), shape=X.shape)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return device.csr(rows)
