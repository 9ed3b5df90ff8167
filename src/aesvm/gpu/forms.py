"""The form of kernel values on a device: a map of products or distances of two rows.

A value is a map of ``scale t + shift``, t the product of two rows or their squared distance. Of the
exponential, whose base is 2, the norms of both rows, scaled alike, are subtracted before the map.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aesvm.gpu.devices import check_name
from aesvm.kernels.functions import KERNELS
from aesvm.kernels.vectors import VectorKernel

#: Maps, as ``tiles.cu`` numbers them.
EXPONENTIAL, LINEAR, POLYNOMIAL, TANGENT = range(4)

#: What ``kernel`` says of a kernel matrix that is given.
_GIVEN = "precomputed"

#: The map of each kernel that a device has.
MAPS = {
    KERNELS["rbf"]: EXPONENTIAL,
    KERNELS["linear"]: LINEAR,
    KERNELS["poly"]: POLYNOMIAL,
    KERNELS["sigmoid"]: TANGENT,
}

_LOG2_E = 1.4426950408889634


def check_kernel(kernel: Any, device: Any) -> None:
    """Refuse a kernel that a device cannot compute, whether that device is there or not.

    Examples
    --------
    >>> from aesvm.gpu.forms import check_kernel
    >>> check_kernel(len, "cuda")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: kernel=<built-in function len> cannot be computed with device='cuda': use 'rbf', ...
    """
    known = [name for name, one in KERNELS.items() if one in MAPS] + [_GIVEN]
    if check_name(device) == "cpu" or (isinstance(kernel, str) and kernel in known):
        return
    raise ValueError(
        f"kernel={kernel!r} cannot be computed with device={device!r}: use "
        f'{", ".join(map(repr, known))}, or device="cpu".'
    )


class Form(NamedTuple):
    """Which map, of what; and the precision of rows and values."""

    dtype: np.dtype
    map: int
    differences: bool  #: whether t is a sum of squared differences, which do not cancel
    scale: float
    shift: float
    degree: int
    norm_scale: float  #: of squared lengths

    def mapped(self, t: Any, norms: Any, xp: Any) -> Any:
        """Kernel values of t, in place; ``norms``: of both rows together."""
        if self.map == EXPONENTIAL:
            t *= t.dtype.type(self.scale)
            if not self.differences:
                t -= norms
            return xp.exp2(t, out=t)
        if self.map == LINEAR:
            return t
        t *= t.dtype.type(self.scale)
        t += t.dtype.type(self.shift)
        if self.map == TANGENT:
            return xp.tanh(t, out=t)
        value = xp.ones_like(t)
        left = self.degree
        while left:
            if left & 1:
                value *= t
            left >>= 1
            t *= t
        return value


def form_of(kernel: VectorKernel, dtype: np.dtype | None) -> Form:
    """That of a kernel; ``dtype`` is the precision of products, None: no precision is enough.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.gpu.forms import LINEAR, form_of
    >>> from aesvm.kernels import kernel_matrix
    >>> form_of(kernel_matrix(np.eye(2), kernel="linear"), np.dtype(float)).map == LINEAR
    True
    """
    number = MAPS[kernel.kernel]
    gamma, degree, coef0 = kernel.parameters
    own = np.dtype(np.float64) if dtype is None else dtype
    if number == EXPONENTIAL:
        scale = gamma * _LOG2_E
        if dtype is None:
            return Form(own, number, True, -scale, 0.0, 0, 0.0)
        twice = float(own.type(2.0 * scale))  # the same factor for products and for norms
        return Form(own, number, False, twice, 0.0, 0, 0.5 * twice)
    assert not kernel.kernel.of_distances  # of these, the exponential alone has norms
    return Form(own, number, False, gamma, coef0, degree, 0.0)
