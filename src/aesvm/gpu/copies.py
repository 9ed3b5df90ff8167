"""Panels of rows that go from the host to a device while it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from aesvm.gpu.devices import Device


class PanelCopies:
    """Panels that are copied on a stream of their own, beside what is computed.

    There are two buffers on the device, and two on the host for panels that are gathered. Before
    they are filled again the host waits for what was computed of them, so that no more than two
    panels are under way, and an interrupt is answered.
    """

    def __init__(self, device: Device, shape: tuple[int, int], dtype: Any, gathers: bool) -> None:
        cuda = device.xp.cuda
        self.buffers = [device.xp.empty(shape, dtype=dtype) for _ in range(2)]
        self.own = [device.page_locked(shape, dtype, True) if gathers else None for _ in range(2)]
        self.copied, self.computed = (
            [cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2)
        )
        self.computing = cuda.get_current_stream()
        self.copying = cuda.Stream(non_blocking=True)
        self.number = 0
        # the buffers may be memory that is still in use by what was asked for before
        self.copying.wait_event(self.computing.record())

    def __enter__(self) -> PanelCopies:
        return self

    def __exit__(self, *args: Any) -> None:
        self.copying.synchronize()  # what is copied from, and to, is free from now on

    def next(self, panel: Callable[[NDArray | None], NDArray]) -> Any:
        """The next panel on the device; the computing stream waits until it is copied."""
        at = self.number % 2
        if self.number > 1:
            self.computed[at].synchronize()
        host = panel(self.own[at])
        there = self.buffers[at][: len(host)]
        there.set(host, stream=self.copying)
        self.copying.record(self.copied[at])
        self.computing.wait_event(self.copied[at])
        return there

    def done(self) -> None:
        """All that is computed of the panel has been asked for."""
        self.computing.record(self.computed[self.number % 2])
        self.number += 1
