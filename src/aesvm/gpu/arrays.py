"""Arrays that are on a GPU, and the same rows on the host.

Rows go to a device once: while an array of the host lives, its copy there is known again.
"""

from __future__ import annotations

import weakref
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from aesvm.gpu.devices import Device, open_device

#: DLPack's number of memory that is CUDA's.
_CUDA = 2

#: Copies on devices, by the name of the device and the identity of what was copied.
_COPIES: dict[tuple[str, int], Any] = {}


def is_on_gpu(values: Any) -> bool:
    """Whether an array, of CuPy or anything else that has DLPack, is on a GPU.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.gpu.arrays import is_on_gpu
    >>> is_on_gpu(np.ones(3))
    False
    """
    if hasattr(values, "__cuda_array_interface__"):
        return True
    tell = getattr(values, "__dlpack_device__", None)
    return callable(tell) and int(tell()[0]) == _CUDA


def to_host(values: Any, name: str, device: str) -> Any:
    """An array as one of the host; where it is on a GPU, that copy is known there again.

    ``name``: of the argument; ``device``: the estimator's, which must be a GPU then.
    """
    if not is_on_gpu(values):
        return values
    gpu = open_device(device)
    if gpu is None:
        raise ValueError(
            f'{name} is on a GPU, and device="cpu": use device="cuda", or pass {name} as an array '
            "of NumPy's."
        )
    there = values if hasattr(values, "get") else gpu.xp.from_dlpack(values)
    here = gpu.to_host(there)
    if here.ndim == 2 and here.dtype in (np.float32, np.float64) and here.flags.c_contiguous:
        _remember(gpu, here, there)
    return here


def like_input(result: Any, X: Any, device: str) -> Any:
    """A result as an array of the kind that X is of, where that is on a GPU."""
    if not is_on_gpu(X) or result.dtype.kind not in "biuf":
        return result
    gpu = open_device(device)
    assert gpu is not None
    there = gpu.array(result)
    if hasattr(X, "get"):
        return there
    library = import_module(type(X).__module__.partition(".")[0])
    return library.from_dlpack(there)


def rows_there(device: Device, X: Any) -> Any:
    """Rows of the host on a device, copied there once."""
    found = _COPIES.get((device.name, id(X)))
    return _remember(device, X, copied(device, X)) if found is None else found


def _remember(device: Device, X: Any, there: Any) -> Any:
    key = device.name, id(X)
    _COPIES[key] = there
    weakref.finalize(X, _COPIES.pop, key, None)
    return there


def copied(device: Device, X: Any) -> Any:
    """Rows of the host as an array, or a CSR matrix, of the device."""
    if not sp.issparse(X):
        return device.array(X)
    if device.xp is np:
        return sp.csr_matrix(X)
    from cupyx.scipy import sparse

    return sparse.csr_matrix(sp.csr_matrix(X))
