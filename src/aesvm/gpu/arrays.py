"""Arrays that are on a GPU, and the same rows on the host.

Rows go to a device once for all that is computed together (``computing_on``). After that they are
copied anew: the caller may have changed them. Dense rows that the device has no room for stay on
the host (``host_vectors``); which do is decided once, too.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from aesvm.gpu.devices import Device, DeviceMemoryError, open_device
from aesvm.gpu.room import has_room_for_copy
from aesvm.runtime.threads import Threads

#: Numbers of entries and features of sparse rows are 32 bits wide, as ``sparse.cu`` has them.
_MOST_ENTRIES = 2**31

#: DLPack's number of memory that is CUDA's.
_CUDA = 2

#: Arrays on devices, by the name of the device and the identity of the same rows on the host: of
#: rows that were given there (originals), and of rows that were copied there (copies).
_ORIGINALS: dict[tuple[str, int], Any] = {}
_COPIES: dict[tuple[str, int], Any] = {}

#: In the same way, rows that stay on the host.
_STAYING: dict[tuple[str, int], bool] = {}

#: By the identity of rows of the host: the finalizer that forgets them when they are gone. One for
#: each array, although every prediction copies the model's vectors anew.
_WATCHED: dict[int, weakref.finalize] = {}


class _Computing:
    """How much is being computed on devices now: ``n``, by all threads together.

    ``say``: what lines about it are told to; the last one is used.
    """

    n = 0
    say: ClassVar[list[Callable[[str], None]]] = []
    lock = threading.Lock()
    own = threading.local()  # ``depth``: how much of it this thread has begun


#: The threads that had rows copied, or found no room for them: by the same keys.
_BROUGHT_BY: dict[tuple[str, int], int] = {}


@contextmanager
def computing_on(name: str, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Have what follows computed on the device of that name, where rows are copied once.

    ``say`` is told of rows that stay on the host.
    """
    device = open_device(name)
    if device is None:
        yield
        return
    own = _Computing.own
    with device.here():
        with _Computing.lock:
            _Computing.n += 1
            _Computing.say += [] if say is None else [say]
        own.depth = getattr(own, "depth", 0) + 1
        try:
            yield
        finally:
            own.depth -= 1
            try:
                if not own.depth:
                    _drop_own(device)
            finally:
                _count_out(device, say)


def _count_out(device: Device, say: Callable[[str], None] | None) -> None:
    """Something less is being computed: after the last of all, nothing is kept."""
    with _Computing.lock:
        _Computing.n -= 1
        if say is not None:
            _Computing.say.remove(say)
        if not _Computing.n:
            for known in (_COPIES, _STAYING, _BROUGHT_BY):
                known.clear()
            device.give_back()


def _drop_own(device: Device) -> None:
    """Forget what this thread had copied, also while others compute: it may change its rows."""
    this = threading.get_ident()
    keys = [key for key, thread in list(_BROUGHT_BY.items()) if thread == this]
    if keys and _Computing.n > 1:
        device.wait_for_all()  # others may have been computing with the same rows
    for key in keys:
        for known in (_COPIES, _STAYING, _BROUGHT_BY):
            known.pop(key, None)


def threads_on(name: str, n_jobs: int | None) -> Threads:
    """Threads that compute on the device of that name, as the thread that maps does."""
    device = open_device(name)
    return Threads(n_jobs) if device is None else Threads(n_jobs, device.here)


def is_on_gpu(values: Any) -> bool:
    """Whether an array, of CuPy or anything else that has DLPack, or a frame of cuDF is on a GPU.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.gpu.arrays import is_on_gpu
    >>> is_on_gpu(np.ones(3))
    False
    """
    if hasattr(values, "__cuda_array_interface__") or hasattr(values, "to_cupy"):
        return True
    tell = getattr(values, "__dlpack_device__", None)
    return callable(tell) and int(tell()[0]) == _CUDA


def to_host(values: Any, name: str, device: str | None) -> Any:
    """An array as one of the host; where it is on a GPU, that copy is known there again.

    ``name``: of the argument; ``device``: the estimator's, which must be a GPU then; None where it
    has no such parameter.
    """
    if not is_on_gpu(values):
        return values
    gpu = None if device is None else open_device(device)
    if gpu is None:
        other = "" if device is None else ', and device="cpu": use device="cuda", or'
        raise ValueError(f"{name} is on a GPU{other or ':'} pass {name} as an array of NumPy's.")
    if hasattr(values, "to_cupy"):  # of cuDF, whose get is that of a dict
        there = values.to_cupy()
    elif not hasattr(values, "__dlpack__"):  # cuDF's columns, Numba's arrays
        there = gpu.array(values)
    else:
        there = values if hasattr(values, "get") else gpu.xp.from_dlpack(values)
    here = gpu.to_host(there)
    is_same_gpu = gpu.xp is np or there.device.id == gpu.number
    if here.ndim == 2 and here.dtype in (np.float32, np.float64) and is_same_gpu:
        _remember(_ORIGINALS, gpu, here, there)
    return here


def like_input(result: Any, X: Any, device: str) -> Any:
    """A result as an array of the kind that X is of, where that is on a GPU."""
    if not is_on_gpu(X) or result.dtype.kind not in "biuf":
        return result
    gpu = open_device(device)
    assert gpu is not None
    with gpu.here():
        there = gpu.array(result)
    if hasattr(X, "get") or not hasattr(X, "__dlpack__"):
        return there
    if hasattr(X, "__array_namespace__"):  # of the array API standard: JAX
        return X.__array_namespace__().from_dlpack(there)
    return import_module(type(X).__module__.partition(".")[0]).from_dlpack(there)  # PyTorch


def original(device: Device, X: Any) -> Any:
    """The rows that X is a copy of, where they were given on the device; else X."""
    return _ORIGINALS.get((device.name, id(X)), X)


def rows_there(device: Device, X: Any) -> Any:
    """Rows of the host on a device, copied there once while something is computed.

    None where they are dense and the device has no room for them: they stay on the host.
    """
    key = device.name, id(X)
    found = _ORIGINALS.get(key)
    if found is None:
        found = _COPIES.get(key)
    if found is not None:
        return found
    if key in _STAYING:
        return None
    if sp.issparse(X):
        n_bytes = sum(part.nbytes for part in (X.data, X.indices, X.indptr))
        if n_bytes > device.free_bytes():
            raise DeviceMemoryError.of_bytes(device, n_bytes)
    elif not has_room_for_copy(device, X):
        stays(device, X)
        return None
    found = copied(device, X)
    if _Computing.n:
        _remember(_COPIES, device, X, found)
        _BROUGHT_BY[key] = threading.get_ident()
    return found


def stays(device: Device, X: Any) -> None:
    """Note that dense rows stay on the host, and say so once."""
    key = device.name, id(X)
    if key in _STAYING or not _Computing.n:
        return
    _remember(_STAYING, device, X, True)
    _BROUGHT_BY[key] = threading.get_ident()
    if _Computing.say:
        _Computing.say[-1](
            f"rows stay on the host, {X.nbytes:,} bytes: they go to {device.name} in tiles"
        )


def _remember(known: dict[tuple[str, int], Any], device: Device, X: Any, there: Any) -> None:
    known[device.name, id(X)] = there
    if id(X) not in _WATCHED:
        _WATCHED[id(X)] = weakref.finalize(X, _forget, id(X))


def _forget(number: int) -> None:
    """Forget rows of the host that are gone: another array may have their identity."""
    _WATCHED.pop(number, None)
    for known in (_ORIGINALS, _COPIES, _STAYING, _BROUGHT_BY):
        for key in list(known):
            if key[1] == number:
                known.pop(key, None)


def copied(device: Device, X: Any) -> Any:
    """Rows of the host as an array, or a CSR matrix, of the device."""
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
    if device.xp is np:
        return rows
    from cupyx.scipy import sparse

    return sparse.csr_matrix(rows)
