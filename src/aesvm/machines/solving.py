"""The dual of one machine, solved in the precision that it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Variables
from aesvm.kernels import KernelMatrix
from aesvm.machines.sharing import Start
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver.state import Known, PreparedVariables, Solution

#: The smallest violation aimed at in single precision, in typical errors of scores.
_FINEST = 8.0

#: The largest rounding error of a violation, in typical errors of a score, and in the largest error
#: of a sample of scores. (A violation is the difference of two scores.)
_TYPICAL_ERRORS, _SAMPLE_ERRORS = 16.0, 4.0

#: Errors above this share of ``tol`` are measured on a sample.
_MEASURED_ABOVE = 0.1

#: Single precision goes on where errors add up to this share of ``tol``, and aims at this share of
#: the rest.
_SMALL, _REST = 0.5, 0.9


def solve_precisely(
    kernel: TrainingKernel,
    values: KernelMatrix,
    rows: NDArray[np.intp],
    variables: Variables,
    start: Start | None,
    prepared: PreparedVariables | None,
    *,
    tol: float,
    max_iter: int,
    run: Callable,
    watch: Callable[[float, int, int], bool],
    **options: Any,
) -> tuple[Solution, KernelMatrix]:
    """The dual of some variables, minimised in the precision that its aims need.

    In single precision scores are off by a part of ``tol``. A sample of scores in double precision
    tells by how much, and the solve goes on until the violation is below ``tol`` by that. Where the
    error is too large for this, or the duality gap needs a finer aim, double precision follows.
    Returns the solution, and the kernel values that it ended with.

    Parameters
    ----------
    kernel : TrainingKernel
    values : KernelMatrix
        Of this kernel, to begin with.
    rows, variables, start, prepared, tol, max_iter, run, watch, options
        As ``TrainingKernel.minimize`` has them.
    """
    n_iter, n_values, was_cut = 0, 0, False

    def watched(violation: float, n_more: int, n_more_values: int) -> bool:
        nonlocal was_cut
        was_cut = watch(violation, n_iter + n_more, n_values + n_more_values)
        return was_cut

    aim, finest = tol, _FINEST * kernel.typical_error(values, rows, variables.bounds)
    while True:
        solution = kernel.minimize(
            values,
            rows,
            variables,
            *((None, None) if start is None else start),
            prepared=prepared,
            tol=aim,
            finest=finest,
            max_iter=-1 if max_iter == -1 else max_iter - n_iter,
            run=run,
            watch=watched,
            **options,
        )
        n_iter, n_values = n_iter + solution.n_updates, n_values + solution.n_evaluations
        coefs = variables.signs * solution.alpha
        noise = _TYPICAL_ERRORS * kernel.typical_error(values, rows, coefs)
        if values.dtype == np.float64 or noise > _MEASURED_ABOVE * tol:
            noise = _SAMPLE_ERRORS * kernel.largest_error(values, rows, coefs, solution.scores, run)
        violation = solution.violation + noise
        converged = solution.converged and violation <= tol
        if converged or values is kernel.in_double() or was_cut or n_iter == max_iter:
            break
        known = None
        if solution.converged and aim == tol and noise <= _SMALL * tol:
            aim, known = _REST * (tol - noise), Known(solution.scores, solution.total_moved)
        else:
            aim, finest, values, prepared = tol, 0.0, kernel.in_double(), None
        start = Start(solution.alpha, known)
    found = solution._replace(
        violation=violation, n_updates=n_iter, n_evaluations=n_values, converged=converged
    )
    return found, values
