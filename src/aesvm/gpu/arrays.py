"""Arrays that users have on a GPU: of CuPy, PyTorch, JAX, cuDF and others that share them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from aesvm.gpu.devices import Device

#: DLPack's number of memory that is CUDA's.
_CUDA = 2


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


def as_array(device: Device, values: Any) -> Any:
    """Values that are on a GPU as an array of CuPy's, without a copy."""
    if hasattr(values, "to_cupy"):  # of cuDF, whose get is that of a dict
        return values.to_cupy()
    if not hasattr(values, "__dlpack__"):  # cuDF's columns, Numba's arrays
        return device.array(values)
    return values if hasattr(values, "get") else device.xp.from_dlpack(values)


def as_given(device: Device, given: Any, rows: NDArray) -> Any:
    """What was given, where that is the valid ``rows`` on this device; None where it is not."""
    if not is_on_gpu(given):
        return None
    there = as_array(device, given)
    same = there.shape == rows.shape and there.dtype == rows.dtype
    return there if same and device.has(there) else None


def like_input(device: Device, result: Any, X: Any) -> Any:
    """A result as an array of the kind that X is of, where that is on a GPU."""
    if not is_on_gpu(X) or result.dtype.kind not in "biuf":
        return result
    with device.here():
        there = device.array(result)
    if hasattr(X, "get") or not hasattr(X, "__dlpack__"):
        return there
    if hasattr(X, "__array_namespace__"):  # of the array API standard: JAX
        return X.__array_namespace__().from_dlpack(there)
    return import_module(type(X).__module__.partition(".")[0]).from_dlpack(there)  # PyTorch
