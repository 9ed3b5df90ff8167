"""A GPU: its arrays, its memory, and its streams.

The modules of this folder are written for an array namespace, CuPy's. Tests replace it by NumPy,
and compiled operations by plain ones, so that the modules run without a GPU.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.progress import Progress
from aesvm.runtime.threads import Threads, side_by_side

if TYPE_CHECKING:
    from aesvm.gpu.rows import DeviceRows


#: The fraction of the device's free memory that a fit may take.
MEMORY_FRACTION = 0.8

#: Bytes that may stay with CuPy when all is computed: the next prediction need not ask the driver
#: for them again, and wait.
_POOLED_BYTES = 2.0**30

#: Where there is no GPU, also of a model that was trained on one.
_ELSE = 'or use device="cpu" (of a trained model: set_params(device="cpu"))'

#: Bytes of an array from which on it is copied straight to the device.
_LARGE_BYTES = 1 << 26

_INSTALL = 'pip install "aesvm[gpu]" (for CUDA 12; for CUDA 13 "cupy-cuda13x[ctk]")'

#: The fraction of the device's memory that this thread may take.
_own = threading.local()


@dataclass(frozen=True)
class Device:
    """A device that is there.

    Attributes
    ----------
    name : str
        As ``device_`` has it: "cuda:0".
    xp : module
        The namespace of its arrays: CuPy.
    operations : module
        What is compiled for it: ``aesvm.gpu.cuda``.
    """

    name: str
    xp: Any
    operations: Any

    @property
    def number(self) -> int:
        return number_of(self.name)

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Values as an array of the device."""
        return self.xp.asarray(values, dtype=dtype)

    def large_array(self, values: Any) -> Any:
        """Many values as an array of the device.

        CuPy would copy them by way of page-locked memory, which it keeps.
        """
        if not isinstance(values, np.ndarray) or values.nbytes < _LARGE_BYTES:
            return self.array(values)
        found = self.xp.empty(values.shape, dtype=values.dtype)
        found.set(np.ascontiguousarray(values))
        return found

    def has(self, values: Any) -> bool:
        """Whether an array of CuPy's is on this device."""
        return values.device.id == self.number

    def csr(self, rows: Any) -> Any:
        """A CSR matrix of the host as one of the device."""
        from cupyx.scipy import sparse

        return sparse.csr_matrix(rows)

    def to_host(self, values: Any, out: NDArray | None = None) -> NDArray:
        """An array of the device as a NumPy array: ``out``, if given."""
        if isinstance(values, np.ndarray):
            return values
        return values.get() if out is None else values.get(out=out)

    def panel_copies(
        self, shape: tuple[int, int], dtype: Any, gathers: bool
    ) -> AbstractContextManager[PanelCopies]:
        """Copies of panels of the host, made while the device computes."""
        return PanelCopies(self, shape, dtype, gathers)

    def page_locked(self, shape: tuple[int, ...], dtype: Any, pooled: bool = False) -> NDArray:
        """An array of the host that a GPU can copy while it computes; not initialised.

        ``pooled``: of memory that CuPy keeps for the next one, which is had at once, and is a power
        of two bytes.
        """
        cuda = self.xp.cuda
        n_bytes = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        try:
            if pooled:
                memory = cuda.alloc_pinned_memory(n_bytes)
            else:
                memory = cuda.PinnedMemoryPointer(cuda.PinnedMemory(n_bytes), 0)
        except cuda.runtime.CUDARuntimeError as error:
            raise DeviceMemoryError(
                f"device={self.name!r} has too little memory for all rows, and the host has too "
                f"little to page-lock {n_bytes:,} bytes of them ({error}). Give fewer rows, pass "
                'X as float32, or use device="cpu".'
            ) from error
        return np.ndarray(shape, dtype=dtype, buffer=memory)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Have arrays made on this device; what is out of memory there says so."""
        with self.xp.cuda.Device(self.number):
            try:
                yield
            except self.xp.cuda.memory.OutOfMemoryError as error:
                self.give_back(0)
                raise DeviceMemoryError.of(self, error) from error

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The same, for all of a fit or a prediction: in the end memory is given back."""
        with self.here():
            try:
                yield
            finally:
                self.give_back()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Have this thread's work done beside that of other threads."""
        with self.here(), self.xp.cuda.Stream(non_blocking=True):
            yield

    def give_back(self, most: float = _POOLED_BYTES) -> None:
        """Free the memory that is held for arrays to come, where that is over ``most`` bytes."""
        pool = self.xp.get_default_memory_pool()
        if pool.free_bytes() > most:
            pool.free_all_blocks()

    def wait(self) -> None:
        """Wait until all that was asked for is done."""
        self.xp.cuda.get_current_stream().synchronize()

    def free_bytes(self) -> float:
        """Bytes that may be taken now, by this thread."""
        return getattr(_own, "fraction", 1.0) * MEMORY_FRACTION * self._free_bytes()

    def _free_bytes(self) -> float:
        """Bytes that are free, by whomever they may be taken."""
        pool = self.xp.get_default_memory_pool()
        return float(self.xp.cuda.runtime.memGetInfo()[0] + pool.free_bytes())


class DeviceMemoryError(MemoryError):
    """The device has too little memory: says how much, and what to lower."""

    @classmethod
    def of(cls, device: Device, error: BaseException) -> DeviceMemoryError:
        asked = re.search(r"allocating ([\d,]+) bytes", str(error))
        return cls._saying(
            device, f"{asked.group(1)} bytes more were wanted" if asked else str(error)
        )

    @classmethod
    def of_bytes(cls, device: Device, n_bytes: float) -> DeviceMemoryError:
        """The error of what is not even tried."""
        free = device.free_bytes()
        return cls._saying(
            device, f"{n_bytes:,.0f} bytes were wanted, and {free:,.0f} may be taken"
        )

    @classmethod
    def _saying(cls, device: Device, wanted: str) -> DeviceMemoryError:
        return cls(
            f"device={device.name!r} has too little free memory: {wanted}. Give fewer rows, lower "
            'max_vectors or subset_size, pass X as float32, or use device="cpu".'
        )


def check_name(name: Any) -> str:
    """A device by name, or a ValueError that says which there are."""
    if isinstance(name, str) and re.fullmatch(r"cpu|cuda(:\d+)?", name):
        return name
    raise ValueError(
        f'device={name!r} is unknown: use "cpu", "cuda", or "cuda:1" for the second GPU.'
    )


def number_of(name: str) -> int:
    """The number of a GPU by name.

    Examples
    --------
    >>> from aesvm.gpu.devices import number_of
    >>> number_of("cuda"), number_of("cuda:1")
    (0, 1)
    """
    return int(name.partition(":")[2] or 0)


@cache
def cuda_device(number: int) -> Device:
    """A GPU by number; an error that says what is missing."""
    wanted = f'device="cuda{f":{number}" if number else ""}"'
    try:
        import cupy
    except ImportError as error:
        raise ImportError(f"{wanted} needs CuPy: {_INSTALL}; {_ELSE}.") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"{wanted} found no GPU that CuPy {cupy.__version__} can use ({error}). It needs an "
            f"NVIDIA GPU and a driver for CUDA 12 or later (nvidia-smi shows both); {_ELSE}."
        ) from error
    if number >= count:
        raise RuntimeError(
            f"{wanted} is not there: this process sees {count} GPU{'s' * (count != 1)}, numbered "
            "from 0 (CUDA_VISIBLE_DEVICES may hide others)."
        )
    from aesvm.gpu import cuda

    cuda.check(number)
    return Device(f"cuda:{number}", cupy, cuda)


@contextmanager
def part_of_memory(fraction: float) -> Iterator[None]:
    """Have this thread take no more than a fraction of what is free.

    Of threads side by side, none sees what the others are about to take.
    """
    before = getattr(_own, "fraction", 1.0)
    _own.fraction = fraction
    try:
        yield
    finally:
        _own.fraction = before


#: Streams. (On ten classes of 6,000 rows 2, 3 and 4 are equal, and 8 slower: the interpreter is
#: busy then.)
STREAMS = 3

#: Names of devices that have done such work. What the first item needs is compiled before there are
#: other threads, which would compile it as well.
_USED: set[str] = set()


class Streams:
    """Streams that compute with the same rows, which are brought to the device.

    There is one where the rows stay on the host: side by side, none would know what memory the
    others take.
    """

    def __init__(self, rows: DeviceRows) -> None:
        self.device = rows.device
        self.n = 1 if rows.there() is None else STREAMS

    def each(
        self, function: Callable[..., Any], items: Iterable[tuple], progress: Progress
    ) -> list[Any]:
        """Results of a function, in order; several calls run at a time, each on one stream.

        Parameters
        ----------
        function : callable
            Takes the values of an item, and a Progress, from which it learns whether to end.
        items : iterable of tuple
            Each is made when a stream is free.
        progress : Progress
            A step is reported for each, by the thread that called this.
        """
        self.device.wait()  # for arrays that all streams use

        @contextmanager
        def stream() -> Iterator[None]:
            with self.device.stream(), part_of_memory(1.0 / self.n):
                yield

        is_new = self.device.name not in _USED
        with Threads(self.n) as threads:
            found = side_by_side(
                threads,
                function,
                items,
                progress,
                lambda *item: progress.step("pair"),
                stream,
                first_alone=is_new,
            )
        _USED.add(self.device.name)
        return found


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
