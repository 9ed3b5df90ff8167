"""Whether rows have room on a device: decided by bytes, before anything is copied."""

from __future__ import annotations

from typing import Any

from aesvm.gpu.devices import Device

#: Features of dense rows are padded with zeros to a multiple of this, as ``tiles.cu`` has them.
_DEPTH = 8

#: Bytes of a panel of rows that goes to a device. It does not depend on what is free: where panels
#: end decides how sums are rounded. Rows of fewer bytes always go to the device.
PANEL_BYTES = 1 << 27

#: Bytes that a solve has of each row beside the row itself: scores, coefficients, bounds, numbers.
_SOLVE_BYTES = 200


def padded(width: int) -> int:
    """Features of a row as the device has it.

    Examples
    --------
    >>> from aesvm.gpu.room import padded
    >>> padded(1), padded(8), padded(54)
    (8, 8, 56)
    """
    return max(_DEPTH, -(-width // _DEPTH) * _DEPTH)


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
    return has_room_for(device, n_rows, 2 * width * X.dtype.itemsize + 8 * padded(width))
