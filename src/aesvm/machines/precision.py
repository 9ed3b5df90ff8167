"""The precision of kernel values in one solve, and the violation that it aims at.

In single precision scores are off by a part of ``tol``. A sample of scores in double precision
measures by how much, and the solve goes on until the violation is below ``tol`` by that. Where the
error is too large for this, or the duality gap needs a finer aim, double precision follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Variables
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver.state import Known, Solution

#: The smallest violation aimed at in single precision, in typical errors of scores.
_FINEST = 8.0

#: The largest rounding error of a violation, in typical errors of a score, and in the largest error
#: of a sample of scores. (A violation is the difference of two scores.)
_TYPICAL_ERRORS, _SAMPLE_ERRORS = 16.0, 4.0

#: Errors above this fraction of ``tol`` are measured on a sample.
_MEASURED_ABOVE = 0.1

#: Single precision goes on where errors are below this fraction of ``tol``, and aims at part of
#: the rest.
_SMALL, _REST = 0.5, 0.9


class Precision:
    """The kernel values of a solve and its aim; both may become finer between two attempts.

    Parameters
    ----------
    kernel : TrainingKernel
    rows : ndarray
        The row of each variable.
    variables : Variables
    tol : float
        The largest violation that is accepted.
    run : callable
        ``map`` or a parallel one.
    slack : float, default=1.0
        See ``TrainingKernel.for_sums``.
    """

    def __init__(
        self,
        kernel: TrainingKernel,
        rows: NDArray[np.intp],
        variables: Variables,
        tol: float,
        run: Callable,
        slack: float = 1.0,
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self.signs = variables.signs
        self.tol = tol
        self.run = run
        self.values = kernel.for_sums(rows, variables.bounds, slack)
        self.aim = tol  #: the violation to solve to
        #: the smallest violation that these values are precise enough for
        self.finest = _FINEST * kernel.typical_error(self.values, rows, variables.bounds)

    @property
    def is_double(self) -> bool:
        """Whether values cannot become any finer."""
        return self.values is self.kernel.in_double()

    def rounding(self, solution: Solution) -> float:
        """What the violation of a solution may be off by."""
        kernel, coefs = self.kernel, self.signs * solution.alpha
        error = _TYPICAL_ERRORS * kernel.typical_error(self.values, self.rows, coefs)
        if self.values.dtype == np.float64 or error > _MEASURED_ABOVE * self.tol:
            largest = kernel.largest_error(self.values, self.rows, coefs, solution.scores, self.run)
            error = _SAMPLE_ERRORS * largest
        return error

    def go_finer(self, solution: Solution, rounding: float) -> Known | None:
        """Aim at a smaller violation, or else use values in double precision.

        Returns what is known where the next attempt starts: the scores, if values stay the same.
        """
        if solution.converged and self.aim == self.tol and rounding <= _SMALL * self.tol:
            self.aim = _REST * (self.tol - rounding)
            return Known(solution.scores, solution.total_moved)
        self.aim, self.finest, self.values = self.tol, 0.0, self.kernel.in_double()
        return None
