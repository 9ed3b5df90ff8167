"""The kernel matrix of one fit's rows, made once and used by everything that the fit computes.

It owns the rows wherever they are, and computes with them: nothing that uses it asks which device.

Values are computed in single precision where that is enough, and in double elsewhere. What is
enough depends on the use:

sums       ``sum_j c_j K_ij`` of a solve or a look at margins: where the rows are many, and the sums
           typically differ by less than ``sum_tol`` between the two precisions. The errors of the
           values are taken as independent of each other, and their size is measured on a sample;
residuals  squared distances in kernel space, compared with ``hull_tol``: that must be a thousand
           units of rounding of the largest value.

``Precision`` is that of one solve, and the violation that it aims at. In single precision scores
are off by a part of ``tol``. A sample of scores in double precision measures by how much, and the
solve goes on until the violation is below ``tol`` by that. Where the error is too large for this,
or the duality gap needs a finer aim, double precision follows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from aesvm.formulations.protocol import Variables
from aesvm.gpu.devices import Streams
from aesvm.kernels import KernelMatrix, KernelSpec, bounded, resolve_gamma
from aesvm.kernels.joint import HullKernel, JointKernel
from aesvm.machines.processor import processor
from aesvm.runtime.warn import warn
from aesvm.sets.derive import SetKernel
from aesvm.solver.state import Known, Solution

#: Fewer rows than this are not worth single precision.
_FEW = 2048

#: Lines and columns of the block in which rounding is measured.
_SAMPLE_LINES, _SAMPLE_COLUMNS = 64, 256

#: A kernel value is trusted down to this many units of rounding.
_ROUNDINGS = 1000

#: Error of a kernel value beyond which certificates use a slower way to compute it.
_CERTIFIED = 1e-12

#: Largest ``sum_tol``: sums are computed as precisely as this, also for a larger ``tol``.
_LARGEST_SUM_TOL = 1e-3


class TrainingKernel:
    """The kernel matrix of some rows, in the precision that each use needs.

    Parameters
    ----------
    spec : KernelSpec
    X : ndarray or CSR matrix
    sum_tol : float, default=1e-3
        How precisely sums of kernel values are needed; more than 1e-3 counts as that.
    joint_targets : ndarray of shape (n_rows,), default=None
        Targets in their unit, where residuals are those of rows together with their targets.
    rows : object, default=None
        The rows as ``Processor.rows`` has them, where kernel matrices of other kernels use them,
        too.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.kernels import KernelSpec
    >>> from aesvm.machines.training_kernel import TrainingKernel
    >>> kernel = TrainingKernel(KernelSpec("linear"), np.array([[1.0], [2.0], [3.0]]))
    >>> rows = np.arange(3)
    >>> kernel.for_sums(rows, np.ones(3)).scores(rows, np.ones(3), np.array([1]))
    array([12.])
    """

    def __init__(
        self,
        spec: KernelSpec,
        X: Any,
        sum_tol: float = _LARGEST_SUM_TOL,
        joint_targets: NDArray[np.float64] | None = None,
        rows: Any = None,
    ) -> None:
        self.spec = spec
        self.X = X
        self.processor = processor(spec.device)
        self.rows = self.processor.rows(spec, X) if rows is None else rows
        self.sum_tol = min(sum_tol, _LARGEST_SUM_TOL)
        self.joint_targets = joint_targets
        self._matrices: dict[tuple[np.dtype, float], KernelMatrix] = {}
        self._errors: dict[tuple[np.dtype, bytes], float] = {}  # of values, by a sample of rows
        self._making = threading.Lock()

    def matrix(self, dtype: DTypeLike, accuracy: float) -> KernelMatrix:
        """Values of a precision and accuracy; the same object every time, for all threads."""
        key = np.dtype(dtype), accuracy
        with self._making:
            if key not in self._matrices:
                found = self.processor.matrix(self.spec, self.rows, dtype, accuracy)
                for other in self._matrices.values():
                    found.take_over(other)
                self._matrices[key] = found
            return self._matrices[key]

    @property
    def n_features(self) -> float:
        """Features of a row that values are computed from: none of values that are given."""
        if self.spec.kernel == "precomputed":
            return 0.0
        X = self.X
        return X.nnz / X.shape[0] if sp.issparse(X) else float(X.shape[1])

    @property
    def dual_operations(self) -> Any:
        """What ``solver.smo.minimize`` minimises a dual of this kernel by."""
        return self.processor.dual_operations

    def streams(self) -> Streams | None:
        """What trains machines side by side; None: threads do, or one after another."""
        return self.processor.streams(self.rows)

    def prepare(self, run: Callable) -> None:
        """Compute by ``run``, a parallel map, what values in both precisions need."""
        self.matrix(np.float64, self.sum_tol / 10).prepare(run)

    def check_bounded(self, rows: NDArray[np.intp]) -> None:
        """Refuse rows whose kernel values are too large to compute with."""
        bounded(self.matrix(np.float64, self.sum_tol / 10), self.spec.kernel, rows)

    def for_sums(
        self, rows: NDArray[np.intp], coefs: NDArray[np.float64], slack: float = 1.0
    ) -> KernelMatrix:
        """Values precise enough for sums over the rows, with coefficients of such magnitude.

        ``slack``: how many times larger than ``sum_tol`` errors may be.
        """
        if len(rows) <= _FEW:
            return self.matrix(np.float64, self.sum_tol / 10)
        return self.in_sums(rows, coefs, slack)

    def in_sums(
        self, rows: NDArray[np.intp], coefs: NDArray[np.float64], slack: float = 1.0
    ) -> KernelMatrix:
        """The same, also of few rows: of sums over them there may be many."""
        single = self.matrix(np.float32, self.sum_tol / 10)
        is_enough = self.typical_error(single, rows, coefs) <= slack * self.sum_tol
        return single if is_enough else self.matrix(np.float64, self.sum_tol / 10)

    def typical_error(
        self, values: KernelMatrix, rows: NDArray[np.intp], coefs: NDArray[np.float64]
    ) -> float:
        """By how much sums over the rows typically differ from those in double precision.

        Errors of values are taken as independent of each other; a sample tells how large they are.
        """
        if values.dtype == np.float64:
            return 0.0
        columns = rows[:: max(1, len(rows) // _SAMPLE_COLUMNS)]
        sample = values.dtype, columns.tobytes()
        if sample not in self._errors:
            lines = columns[:: max(1, len(columns) // _SAMPLE_LINES)]
            double = self.matrix(np.float64, self.sum_tol / 10)
            errors = values.block(lines, columns) - double.block(lines, columns)
            self._errors[sample] = float(np.sqrt(np.square(errors, dtype=np.float64).mean()))
        return self._errors[sample] * float(np.linalg.norm(coefs))

    def largest_error(
        self,
        values: KernelMatrix,
        rows: NDArray[np.intp],
        coefs: NDArray[np.float64],
        scores: NDArray[np.float64],
        run: Callable = map,
    ) -> float:
        """By how much scores differ from those in double precision, on a sample of the rows.

        ``scores`` are ``sum_j c_j K_ij`` over the rows, which may be the same ones several times.
        """
        if values is self.in_double() or not len(rows):
            return 0.0
        held = np.flatnonzero(coefs)
        own, at = np.unique(rows[held], return_inverse=True)
        summed = np.bincount(at, coefs[held], len(own)).astype(np.float64, copy=False)
        sample = np.arange(0, len(rows), max(1, len(rows) // _SAMPLE_LINES))
        exact = self.in_double().scores(own, summed, rows[sample], run)
        return float(np.abs(exact - scores[sample]).max())

    def in_double(self) -> KernelMatrix:
        """Values as precise as there are: what a certificate is computed from."""
        return self.matrix(np.float64, min(_CERTIFIED, self.sum_tol / 10))

    def for_residuals(self, rows: NDArray[np.intp], hull_tol: float) -> SetKernel:
        """Values precise enough to tell residuals of ``hull_tol`` from rounding."""
        return self.processor.set_kernel(self._hull_kernel(rows, hull_tol))

    def residual_rounding(self, rows: NDArray[np.intp]) -> float:
        """What no residual of the rows is off by, through rounding."""
        # a residual is a sum of four means of kernel values
        return 4.0 * self.matrix(self.X.dtype, self.sum_tol / 10).rounding(rows)

    def _hull_kernel(self, rows: NDArray[np.intp], hull_tol: float) -> HullKernel:
        accuracy = hull_tol / 100
        double = self._with_targets(self.matrix(np.float64, accuracy))
        if hull_tol == 0:
            return double
        own = np.float64 if callable(self.spec.kernel) else self.X.dtype
        kernel = self._with_targets(self.matrix(own, accuracy))
        bounded(self.matrix(own, accuracy), self.spec.kernel, rows)
        largest = kernel.bound(rows)
        if hull_tol >= _ROUNDINGS * np.finfo(kernel.dtype).eps * largest:
            return kernel
        if hull_tol < _ROUNDINGS * np.finfo(np.float64).eps * largest:
            warn(
                f"hull_tol={hull_tol:g} is close to the rounding of kernel values as "
                f"large as {largest:.3g}: scale the data, or raise hull_tol."
            )
        return double

    def _with_targets(self, kernel: KernelMatrix) -> HullKernel:
        if self.joint_targets is None:
            return kernel
        scale = resolve_gamma("scale", self.X) if self.spec.kernel == "rbf" else 1.0
        return JointKernel(kernel, self.joint_targets, scale)


#: The smallest violation aimed at in single precision, in typical errors of scores.
_FINEST = 8.0

#: The largest rounding error of a violation, in typical errors of a score, and in the largest error
#: of a sample of scores. (A violation is the difference of two scores.)
_TYPICAL_ERRORS, _SAMPLE_ERRORS = 16.0, 4.0

#: Errors above this fraction of ``tol`` are measured on a sample; this much of ``tol`` is left to
#: them from the start.
_MEASURED_ABOVE = 0.1

#: Single precision goes on where errors are below this fraction of ``tol``, and aims at part of
#: the rest.
_SMALL, _REST = 0.5, 0.9

#: Variables this many rounding errors beyond the edge keep their scores when values become finer.
_CLEAR = 2.0


@dataclass(eq=False)
class Precision:
    """The kernel values of a solve and its aim; both may become finer between two attempts.

    Once values are in double precision, so are the scores of all variables that are free or near to
    moving. Those far from that keep the scores that they have, as long as they stay far.
    """

    kernel: TrainingKernel
    rows: NDArray[np.intp]  #: the row of each variable
    variables: Variables
    tol: float  #: the largest violation that is accepted
    run: Callable  #: ``map`` or a parallel one
    slack: float = 1.0  #: see ``TrainingKernel.for_sums``

    def __post_init__(self) -> None:
        bounds = self.variables.bounds
        self.values = self.values_of_scores = self.kernel.for_sums(self.rows, bounds, self.slack)
        error = self.kernel.typical_error(self.values, self.rows, bounds)
        #: the violation to solve to
        self.aim = self.tol - min(_TYPICAL_ERRORS * error, _MEASURED_ABOVE * self.tol)
        #: the smallest violation that these values are precise enough for
        self.finest = _FINEST * error
        self.is_first = True
        #: variables whose scores are less precise than the values, and by how much
        self.coarse, self.error = np.full(len(self.rows), not self.is_double), 0.0
        self.n_values = 0  #: kernel values that finer scores took

    @property
    def is_double(self) -> bool:
        """Whether values cannot become any finer."""
        return self.values is self.kernel.in_double()

    @property
    def is_finest(self) -> bool:
        """Whether neither values nor scores can become any finer."""
        return self.is_double and not self.coarse.any()

    def rounding(self, solution: Solution) -> float:
        """What the violation of a solution may be off by."""
        if self.is_double:
            is_near = self.coarse & ~self._are_clear(solution, self.error)
            return self.error if is_near.any() else 0.0
        kernel, coefs = self.kernel, self.variables.signs * solution.alpha
        error = _TYPICAL_ERRORS * kernel.typical_error(self.values, self.rows, coefs)
        if self.values.dtype == np.float64 or error > _MEASURED_ABOVE * self.tol:
            largest = kernel.largest_error(self.values, self.rows, coefs, solution.scores, self.run)
            error = _SAMPLE_ERRORS * largest
        return error

    def go_finer(self, solution: Solution, rounding: float) -> Known:
        """Aim at a smaller violation, or else use values in double precision.

        Where these did not suffice, all scores become as precise. Returns the scores where the next
        attempt starts.
        """
        if not self.is_double:
            if solution.converged and self.is_first and rounding <= _SMALL * self.tol:
                self.is_first, self.aim = False, _REST * (self.tol - rounding)
                return Known(solution.scores, solution.total_moved)
            self.aim, self.error, self.values = self.tol, rounding, self.kernel.in_double()
        elif not solution.converged:
            self.error = np.inf
        finer = np.flatnonzero(self.coarse & ~self._are_clear(solution, _CLEAR * self.error))
        self.coarse[finer] = False
        self.finest = self.error if self.coarse.any() else 0.0
        if self.is_finest:
            self.values_of_scores = self.values
        return Known(self._finer_scores(solution, finer), solution.total_moved)

    def _finer_scores(self, solution: Solution, finer: NDArray[np.intp]) -> NDArray[np.float64]:
        """The scores of a solution, those of some variables computed anew."""
        coefs, scores = self.variables.signs * solution.alpha, solution.scores.copy()
        held = np.flatnonzero(coefs)
        support, at = np.unique(self.rows[held], return_inverse=True)
        summed = np.bincount(at, coefs[held], len(support)).astype(np.float64, copy=False)
        wanted, place = np.unique(self.rows[finer], return_inverse=True)
        scores[finer] = self.values.scores(support, summed, wanted, self.run)[place]
        self.n_values += len(support) * len(wanted)
        return scores

    def _are_clear(self, solution: Solution, error: float) -> NDArray[np.bool_]:
        """Which variables are at a bound that they do not want to leave, with scores off by this.

        They are farther from their group's offset than that and the violation.
        """
        signs, bounds = self.variables.signs, self.variables.bounds
        groups = self.variables.constraints
        at = 0 if groups is None else np.unique(groups, return_inverse=True)[1]
        slopes = solution.scores + signs * self.variables.linear
        beyond = signs * (slopes - solution.offsets[at])
        far = error + solution.violation
        alpha = solution.alpha
        return ((alpha == 0.0) & (beyond > far)) | ((alpha == bounds) & (beyond < -far))
