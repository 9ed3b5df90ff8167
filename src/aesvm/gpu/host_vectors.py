"""Dense rows that are too many for the device: they stay on the host, and go over in panels.

The host has them in the form that the device computes with, in page-locked memory. While the
device computes with one panel, the next one is copied beside it:

    copies     panel 0 | panel 1 | panel 2 | panel 3 ...
    computing         | panel 0 | panel 1 | panel 2 ...

Of some of the rows only (``take``), panels are gathered from where these are. Rows that fit are put
on the device, so that a solver whose variables in play become few has them there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.forms import Form
from aesvm.gpu.room import has_room_for, padded, panel_rows
from aesvm.gpu.vectors import DenseVectors


@dataclass(frozen=True)
class HostVectors:
    """Dense rows of the host, padded, and their scaled squared lengths on the device.

    Attributes
    ----------
    device : Device
    form : Form
    rows : ndarray
        Page-locked where the device is a GPU.
    numbers : ndarray, or None
        Which of the rows these vectors are; None: all, in order.
    norms : array
        Of the device; one for each vector.
    """

    device: Device
    form: Form
    rows: NDArray
    numbers: NDArray[np.intp] | None
    norms: Any

    def __len__(self) -> int:
        return len(self.rows) if self.numbers is None else len(self.numbers)

    @property
    def n_products(self) -> int:
        """Products of features that a kernel value takes."""
        return self.rows.shape[1]

    def take(self, numbers: Any) -> DenseVectors | HostVectors:
        """Some of the vectors: on the device where they fit."""
        at = numbers if isinstance(numbers, slice) else self.device.to_host(numbers)
        rows, own = self.rows, None
        if self.numbers is not None:
            own = self.numbers[at]
        elif isinstance(at, slice):
            rows = rows[at]
        else:
            own = at
        taken = HostVectors(self.device, self.form, rows, own, self.norms[numbers])
        fits = has_room_for(self.device, len(taken), self._row_bytes)
        return taken.on_device() if fits else taken

    def on_device(self) -> DenseVectors:
        """All of them on the device, whether they fit or not."""
        rows = self.device.xp.empty((len(self), self.rows.shape[1]), dtype=self.form.dtype)

        def write(part: slice, panel: DenseVectors) -> None:
            rows[part] = panel.rows

        self.each_panel(write)
        return DenseVectors(self.device, self.form, rows, self.norms)

    def lines(self, numbers: Any, count: Any) -> tuple[DenseVectors, None]:
        """A few of the vectors, as lines of a sum: on the device, all of them in order."""
        numbers = self.device.xp.arange(len(self)) if numbers is None else numbers
        numbers = numbers if count is None else numbers[: int(count[0])]
        at = self.device.to_host(numbers)
        rows = np.take(self.rows, at if self.numbers is None else self.numbers[at], axis=0)
        there = self.device.array(rows)
        return DenseVectors(self.device, self.form, there, self.norms[numbers]), None

    def sum_lines(self, lines: Any, numbers: Any, coefs: Any, count: Any, sums: Any) -> None:
        """Add ``coefs @ K`` to sums, K the values of lines against these columns."""
        lines, numbers = lines.lines(numbers, count)
        if not len(lines):
            return
        self.add_panels(sums, lambda panel, own: panel.sum_lines(lines, numbers, coefs, count, own))

    def add_panels(self, sums: Any, function: Callable[[DenseVectors, Any], None]) -> None:
        """Call a function with every panel, and the sums of its columns, to which it adds."""

        def add(part: slice, panel: DenseVectors) -> None:
            own = sums[:, part].copy()  # operations want them one after another
            function(panel, own)
            sums[:, part] = own

        self.each_panel(add)

    def write_square(self, numbers: Any, count: Any, out: Any) -> None:
        """Kernel values of some of these rows with each other."""
        own, _ = self.lines(numbers, count)
        if len(own):
            own.write_square(None, count, out)

    def values(self, lines: Any) -> Any:
        """Kernel values of lines against these columns."""
        out = self.device.xp.empty((len(lines), len(self)), dtype=self.form.dtype)

        def write(part: slice, panel: DenseVectors) -> None:
            out[:, part] = panel.values(lines)

        self.each_panel(write)
        return out

    def each_panel(self, function: Callable[[slice, DenseVectors], None]) -> None:
        """Call a function with every panel of the vectors on the device, and where it is.

        What it asks the device for may go on when it returns; what it keeps must be a copy.
        """
        step = min(len(self), panel_rows(self._row_bytes))
        parts = [slice(at, min(at + step, len(self))) for at in range(0, len(self), step or 1)]
        shape = step, self.rows.shape[1]
        gathers = self.numbers is not None  # such panels need memory of their own
        with self.device.panel_copies(shape, self.form.dtype, gathers) as over:
            for part in parts:
                there = over.next(partial(self._panel, part))
                function(part, DenseVectors(self.device, self.form, there, self.norms[part]))
                over.done()

    def _panel(self, part: slice, out: NDArray | None) -> NDArray:
        """A panel on the host; gathered, it is written to ``out``."""
        if self.numbers is None:
            return self.rows[part]
        assert out is not None
        found = out[: part.stop - part.start]
        # of numbers that are right: in this mode nothing is copied twice
        np.take(self.rows, self.numbers[part], axis=0, out=found, mode="clip")
        return found

    @property
    def _row_bytes(self) -> int:
        return self.rows.shape[1] * self.form.dtype.itemsize


def vectors_of_host(
    device: Device, form: Form, X: NDArray, rows: NDArray[np.intp], center: Any
) -> DenseVectors | HostVectors:
    """Rows of the host in a form: on the device where they fit, and else on the host.

    They are brought into that form by the device, some at a time.

    Parameters
    ----------
    device : Device
    form : Form
    X : ndarray
    rows : ndarray
        Which of its rows.
    center : array, or None
        What they are seen from, on the device.
    """
    n, width = len(rows), padded(X.shape[1])
    fits = has_room_for(device, n, width * form.dtype.itemsize)
    make: Callable = device.xp.empty if fits else device.page_locked
    found = make((n, width), dtype=form.dtype)
    norms = device.xp.empty(n, dtype=form.dtype)
    step = panel_rows(8 * width)
    for first in range(0, n, step):
        here = slice(first, min(first + step, n))
        own = DenseVectors.of(device, form, device.array(_gathered(X, rows[here])), center)
        norms[here] = own.norms
        if fits:
            found[here] = own.rows
        else:
            device.to_host(own.rows, out=found[here])
    if fits:
        return DenseVectors(device, form, found, norms)
    return HostVectors(device, form, found, None, norms)


def _gathered(X: NDArray, rows: NDArray[np.intp]) -> NDArray:
    """Some rows; those that follow each other are not copied."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1 and (np.diff(rows) == 1).all():
        return X[first : last + 1]
    return X[rows]
