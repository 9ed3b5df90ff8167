"""Pairs of classes of few rows, many at a time, on a device: the duals of ``solver.small``.

One by one, each would keep the host busy for longer than the device. So the kernel values of all
rows with each other are computed at once and stay on the device, and one call solves many duals,
each by a block of threads. ``pairs.cu`` updates pairs of all variables of a dual, as ``subsets.cu``
does of some variables of a working set.

Values are in double precision, as certificates want them. That is eight bytes for each two rows:
where the device has no room, compiled code of the host solves the smallest of the duals, and
``dual`` the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.gpu.cuda import DeviceDuals
from aesvm.gpu.matrix import DeviceKernel
from aesvm.gpu.rows import has_room_for, padded
from aesvm.solver.small import Array, Improve, PairVariables


class DevicePairs:
    """Pairs of some classes.

    Parameters
    ----------
    kernel : DeviceKernel
        In double precision.
    rows : ndarray
        Class by class.
    sizes : ndarray
        Of the classes.
    pairs : ndarray of shape (n_pairs, 2)
        The classes of each pair. Values of classes that are in none are not computed.
    """

    def __init__(
        self,
        kernel: DeviceKernel,
        rows: NDArray[np.intp],
        sizes: NDArray[np.intp],
        pairs: NDArray[np.intp],
    ) -> None:
        self.kernel = kernel
        self.device = kernel.device
        unit = self.device.operations.SLOTS_PER_THREAD
        has_pair = np.zeros(len(sizes), dtype=bool)
        has_pair[pairs] = True
        #: slots of each class: as many as its rows, and up to a multiple of those of a thread
        self.slots = np.where(has_pair, -(-sizes // unit) * unit, 0)
        self.places = np.cumsum(self.slots) - self.slots
        self.largest = int(self.slots[pairs].sum(axis=1).max())  # slots of a pair
        # an empty slot has the last row of its class
        at = np.arange(int(self.slots.sum())) - np.repeat(self.places, self.slots)
        at = np.minimum(at, np.repeat(sizes - 1, self.slots))
        self.rows = rows[np.repeat(np.cumsum(sizes) - sizes, self.slots) + at]

    @property
    def has_room(self) -> bool:
        """Whether a block has room for each pair, and the device for twice the kernel values.

        (Of rows that are not dense, values are computed by way of other arrays of that size. Dense
        rows are copied.)
        """
        if self.largest > self.device.operations.MOST_SLOTS:
            return False
        X, n = self.kernel.rows.X, len(self.rows)
        width = 0 if sp.issparse(X) else padded(X.shape[1], 8)
        return has_room_for(self.device, n, 16 * (n + width))

    def values(self) -> Any:
        """The kernel values of all slots with each other, on the device."""
        return self.kernel.square_there(self.rows)

    def improve(self, values: Any, pairs: NDArray[np.intp], apart: bool) -> Improve:
        """How the duals of some pairs are improved.

        Parameters
        ----------
        values : array
            Of ``values()``.
        pairs : ndarray of shape (n_duals, 2)
            The classes of each dual.
        apart : bool
            Whether the sum of each class is held.
        """
        array, to_host = self.device.array, self.device.to_host

        def improve(
            v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]
        ) -> NDArray[np.intp]:
            own = pairs[active]
            duals = DeviceDuals(
                array(self.places[own], dtype=np.int32),
                array(v.sizes[active], dtype=np.int32),
                array(v.classes[::2][active], dtype=np.int32),
                array(v.held[active]),
                array(aims),
                array(most, dtype=np.int64),
                array(v.bounds),
                array(v.coefs),
                array(v.slopes),
            )
            updates = self.device.operations.solve_pairs(
                values,
                duals,
                int(self.slots[own].sum(axis=1).max()),
                float(v.linear[0]),
                2 if apart else 1,
            )
            to_host(duals.coefs, v.coefs)
            to_host(duals.slopes, v.slopes)
            return to_host(updates).astype(np.intp)

        return improve
