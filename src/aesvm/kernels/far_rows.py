"""Kernel values of rows that are far from the centre, where few are.

The product ``-g|x - y|^2`` is rounded by some units of the larger of ``g|x|^2`` and ``g|y|^2``. A
row is far where this number is beyond a limit L. Where one of two rows is far, and the other not,
``g|x - y|^2`` is at least ``(s - sqrt(L))^2``, with s^2 the larger of the two numbers. Then s^2
times the kernel value is at most L + 1: the value is as precise as between two rows within the
limit. Of two far rows it is computed from differences, which do not cancel.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.runtime.jit import jit

#: More than any ``g|x|^2``: then no row is far.
NO_LIMIT = 1e300

#: Rows that are farther, or a larger share of them, are left to products in double precision.
FARTHEST, MOST_FAR = 1e6, 0.1

#: Values of gamma with which vectors are scaled in single precision.
GAMMAS = (1e-30, 1e30)


class Limit(NamedTuple):
    """Beyond which ``g|x|^2`` rows are far, and how vectors are scaled in products."""

    squared: float = NO_LIMIT
    gamma: float = 1.0

    @property
    def exists(self) -> bool:
        return self.squared < NO_LIMIT

    def numbers(self, lines_are_scaled: bool) -> NDArray[np.float64]:
        """For ``mend``: of products of which one factor is ``[2g x, -g|x|^2, 1]``."""
        return np.array([self.squared, self.gamma, float(lines_are_scaled)])


#: No row is far.
NO_FAR = Limit()


@jit
def mend(lines, right, far, values):
    """Compute the kernel values of far lines and far columns of a block from differences.

    ``far``: of ``Limit.numbers``. The factors are ``[2g x, -g|x|^2, 1]`` and ``[y, 1, -g|y|^2]``.
    """
    limit, gamma = far[0], far[1]
    scaled = far[2] > 0.0
    real, d = values.dtype.type, lines.shape[1] - 2
    of_line, of_column = (d, d + 1) if scaled else (d + 1, d)
    a = real(0.5 / gamma if scaled else 1.0)
    b = real(1.0 if scaled else 0.5 / gamma)
    for j in range(lines.shape[0]):
        if -lines[j, of_line] > limit:
            line = lines[j, :d]
            for k in range(right.shape[0]):
                if -right[k, of_column] > limit:
                    column, total = right[k, :d], real(0.0)
                    for f in range(d):
                        difference = a * line[f] - b * column[f]
                        total += difference * difference
                    values[j, k] = exp(-gamma * total)
