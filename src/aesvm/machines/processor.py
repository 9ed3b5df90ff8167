"""The device that computes: this computer's processor, or a GPU. It is chosen here alone.

A ``TrainingKernel`` asks it for kernel matrices, solutions of duals and representative sets, so
that nothing above asks which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aesvm.gpu import devices
from aesvm.gpu.derive import DeviceSetKernel, blocks_of
from aesvm.gpu.devices import Device, Streams
from aesvm.gpu.dual import DeviceDual
from aesvm.gpu.matrix import DeviceKernel, matrix_on_device
from aesvm.gpu.rows import DeviceRows, as_array, as_given, like_input
from aesvm.gpu.small import DevicePairs
from aesvm.kernels import KernelMatrix, KernelSpec
from aesvm.kernels.joint import HullKernel
from aesvm.runtime.threads import Threads
from aesvm.sets.derive import SetKernel
from aesvm.solver.host import HostDual

#: Tells a user something.
Say = Callable[[str], None]


class Processor:
    """The processor of this computer."""

    name = "cpu"  #: as ``device_`` has it
    dual_operations: Any = HostDual  #: that ``solver.smo`` minimises a dual by
    begins_in_single = False  #: whether solves that need double precision begin without it

    def computing(self) -> AbstractContextManager:
        """The context that all of a fit or a prediction is computed in."""
        return nullcontext()

    def threads(self, n_jobs: int | None) -> Threads:
        """Threads that compute in that context, too."""
        return Threads(n_jobs)

    def give_back(self) -> None:
        """Free the memory that is held for arrays to come."""

    def rows(self, spec: KernelSpec, X: Any, given: Any = None, say: Say | None = None) -> Any:
        """Valid rows as kernel matrices of them want them: one value for all of these.

        Parameters
        ----------
        spec : KernelSpec
            Whether they are rows, or a kernel matrix.
        X : ndarray or CSR matrix
        given : object, default=None
            The user's rows that X was made of; they may be on a GPU.
        say : callable, default=None
            Called with a line for the user about where the rows are.
        """
        return X

    def new_rows(self, X: Any, given: Any) -> Any:
        """Valid rows to predict: as they were given, where they can be used so."""
        return X

    def like_input(self, result: Any, X: Any) -> Any:
        """A result as the kind of array that X is."""
        return result

    def to_host(self, values: Any, name: str) -> Any:
        """Values that are on a GPU, of the argument of that name, as an array of the host."""
        raise ValueError(
            f'{name} is on a GPU, and device="cpu": use device="cuda", or pass {name} as a NumPy '
            "array."
        )

    def matrix(
        self, spec: KernelSpec, rows: Any, dtype: DTypeLike, accuracy: float
    ) -> KernelMatrix:
        """The kernel matrix of ``rows``."""
        return spec.matrix(rows, dtype=dtype, accuracy=accuracy)

    def set_kernel(self, kernel: HullKernel) -> SetKernel:
        """The kernel matrix as DeriveRS uses it."""
        return SetKernel(kernel)

    def streams(self, rows: Any) -> Streams | None:
        """Streams that train machines side by side; None: threads do, or one after another."""
        return None

    def pairs_of_classes(
        self,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        sizes: NDArray[np.intp],
        pairs: NDArray[np.intp],
    ) -> DevicePairs | None:
        """What solves many pairs of classes at once; None: compiled code does, in batches.

        Parameters
        ----------
        kernel : KernelMatrix
            In double precision.
        rows : ndarray
            Of several classes, class by class.
        sizes : ndarray
            Of the classes.
        pairs : ndarray of shape (n_pairs, 2)
            The classes of each pair.
        """
        return None


class _Gpu(Processor):
    """A GPU."""

    dual_operations = DeviceDual
    begins_in_single = True

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name = device.name

    def computing(self) -> AbstractContextManager:
        return self.device.computing()

    def threads(self, n_jobs: int | None) -> Threads:
        return Threads(n_jobs, self.device.here)

    def give_back(self) -> None:
        with self.device.here():
            self.device.give_back()

    def rows(self, spec: KernelSpec, X: Any, given: Any = None, say: Say | None = None) -> Any:
        is_matrix = spec.kernel == "precomputed"
        return DeviceRows(self.device, X, as_given(self.device, given, X), is_matrix, say)

    def new_rows(self, X: Any, given: Any) -> Any:
        there = as_given(self.device, given, X)
        return X if there is None else there

    def like_input(self, result: Any, X: Any) -> Any:
        return like_input(self.device, result, X)

    def to_host(self, values: Any, name: str) -> Any:
        return self.device.to_host(as_array(self.device, values))

    def matrix(
        self, spec: KernelSpec, rows: DeviceRows, dtype: DTypeLike, accuracy: float
    ) -> KernelMatrix:
        return matrix_on_device(spec, rows, dtype, accuracy)

    def set_kernel(self, kernel: HullKernel) -> SetKernel:
        return DeviceSetKernel(blocks_of(kernel))

    def streams(self, rows: DeviceRows) -> Streams | None:
        return Streams(rows)

    def pairs_of_classes(
        self,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        sizes: NDArray[np.intp],
        pairs: NDArray[np.intp],
    ) -> DevicePairs | None:
        assert isinstance(kernel, DeviceKernel)
        found = DevicePairs(kernel, rows, sizes, pairs)
        return found if found.has_room else None


def kind_of(name: Any) -> str:
    """The kind of a device, "cpu" or "cuda", by its name.

    Examples
    --------
    >>> from aesvm.machines.processor import kind_of
    >>> kind_of("cuda:1")
    'cuda'
    """
    return "cpu" if devices.check_name(name) == "cpu" else "cuda"


def processor(name: Any) -> Processor:
    """What computes, by the name that estimators call their ``device``.

    Examples
    --------
    >>> from aesvm.machines.processor import processor
    >>> processor("cpu").name
    'cpu'
    """
    if kind_of(name) == "cpu":
        return Processor()
    return _Gpu(devices.cuda_device(devices.number_of(name)))
