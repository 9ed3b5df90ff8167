"""The owner of rows that were copied to a device.

Rows are copied once, for all of their kernel matrices. The copy is freed with its owner. Dense rows
that the device has no room for stay on the host (``host_vectors``); that is decided once, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.gpu.devices import Device, DeviceMemoryError
from aesvm.gpu.room import has_room_for_copy

#: Numbers of entries and features of sparse rows are 32 bits wide, as ``sparse.cu`` has them.
_MOST_ENTRIES = 2**31


class DeviceRows:
    """Rows that a device computes with.

    Parameters
    ----------
    device : Device
    X : ndarray or CSR matrix
        The rows on the host.
    there : array, default=None
        The same rows on the device, where they were given there.
    say : callable, default=None
        Told, once, that rows stay on the host.
    """

    def __init__(
        self,
        device: Device,
        X: Any,
        there: Any = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.device = device
        self.X = X
        self.say = say
        self.stay = False  #: whether they are on the host alone
        self._there = there
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
        if not sp.issparse(self.X):
            return has_room_for_copy(self.device, self.X)
        n_bytes = sum(part.nbytes for part in (self.X.data, self.X.indices, self.X.indptr))
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
