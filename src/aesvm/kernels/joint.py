"""Rows together with their targets: the space in which rows of a regression stand for each other.

The kernel ``k(x, x') + u u'``, with u the targets measured in a unit of their own, has the squared
distances ``|phi(x) - phi(x')|^2 + (u - u')^2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.distances import RowDistances, finite
from aesvm.kernels.gamma import Moments
from aesvm.kernels.matrix import KernelMatrix


class TargetScale(NamedTuple):
    """The centre and the unit by which targets are standardised."""

    center: float
    spread: float

    @classmethod
    def of(cls, targets: NDArray, weights: NDArray[np.float64]) -> TargetScale:
        """The unit of targets with weights.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.kernels.joint import TargetScale
        >>> TargetScale.of(np.array([1.0, 3.0]), np.ones(2))
        TargetScale(center=2.0, spread=1.0)
        """
        return cls.from_moments(Moments.of(targets, weights))

    @classmethod
    def from_moments(cls, targets: Moments) -> TargetScale:
        """Mean and standard deviation; where all are equal, some other unit."""
        if targets.all_equal:
            # what they differ by is next to nothing beside them, but not rounding alone
            return cls(targets.mean, abs(targets.mean) or 1.0)
        return cls(targets.mean, sqrt(targets.variance) or 1.0)

    def scaled(self, targets: NDArray) -> NDArray[np.float64]:
        return (targets - self.center) / self.spread


@dataclass(eq=False)
class JointKernel:
    """The kernel matrix of rows together with their targets, as reducing them takes it."""

    kernel: KernelMatrix  #: of the rows
    targets: NDArray[np.float64]  #: in their unit
    #: What the distances of the rows are multiplied by before those of targets are added, in the
    #: partition alone: for the RBF kernel they are Euclidean, and in no unit.
    distance_scale: float

    def __post_init__(self) -> None:
        self.n_rows = self.kernel.n_rows
        self.dtype = self.kernel.dtype

    def square(self, rows: NDArray[np.intp], out: NDArray | None = None) -> NDArray:
        values = self.kernel.square(rows, out=out)
        own = self.targets[rows]
        values += np.multiply.outer(own, own).astype(self.dtype, copy=False)
        return values

    def bound(self, rows: NDArray[np.intp]) -> float:
        return self.kernel.bound(rows) + float(np.abs(self.targets[rows]).max(initial=0.0)) ** 2

    def distances(self, rows: NDArray[np.intp]) -> RowDistances:
        return _JointDistances(self, rows)


#: What reducing rows takes: the kernel matrix of rows, with or without their targets.
HullKernel = KernelMatrix | JointKernel


class _JointDistances(RowDistances):
    """Distances of rows together with their targets."""

    def __init__(self, joint: JointKernel, rows: NDArray[np.intp]) -> None:
        self.own = joint.kernel.distances(rows)
        self.rows = self.own.rows
        self.scale = joint.distance_scale
        self.targets = joint.targets[rows]
        self.parallel = self.own.parallel
        self.parallel.append(self.targets)

    def from_row(self, anchor: int, left: int) -> NDArray:
        apart = np.square(self.targets[:left] - self.targets[anchor])
        return finite(self.scale * self.own.from_row(anchor, left) + apart)

    def farthest(self) -> int:
        return self.own.farthest()
