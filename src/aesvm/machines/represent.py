"""Weighted rows represented: prepared, their kernel values made precise enough, and derived."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import Derived, PreparedRows, ReductionSettings, SetKernel, derive, prepare


class Represented(NamedTuple):
    """The distinct rows, their representatives, and the kernel matrix that was used."""

    prepared: PreparedRows
    derived: Derived
    kernel: SetKernel | None  #: None where every row stands for itself
    settings: ReductionSettings

    @property
    def max_residual(self) -> float:
        return float(np.fmax.reduce(self.derived.found.residuals))


def represent(
    kernel: TrainingKernel,
    groups: NDArray[np.intp],
    weights: NDArray[np.float64],
    settings: ReductionSettings,
    run: Callable,
    progress: Progress,
    *,
    keep_combinations: bool = False,
    finest_tol: float | None = None,
    prepared: PreparedRows | None = None,
    subsets: list[NDArray[np.intp]] | None = None,
) -> Represented:
    """Represent the rows of a kernel matrix, group by group.

    Parameters
    ----------
    kernel : TrainingKernel
    groups, weights : ndarray of shape (n_rows,)
        Rows of different groups never stand for each other; rows of weight zero are left out.
    settings : ReductionSettings
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    keep_combinations : bool, default=False
        Whether to keep the combination of representatives that stands for each row.
    finest_tol : float, default=None
        The tolerance of the finest set that these kernel values will be used for, where others are
        to follow.
    prepared : PreparedRows, default=None
        These rows prepared, where that was done before: it does not depend on the kernel.
    subsets : list of ndarray, default=None
        These rows cut, where that was done before: it does not depend on the gamma of the RBF
        kernel.
    """
    started = time.perf_counter()
    if prepared is None:
        prepared = distinct_of(kernel, groups, weights, run, progress)
    finest = settings.hull_tol if finest_tol is None else min(settings.hull_tol, finest_tol)
    values = kernel.for_residuals(prepared.rows, finest)
    derived = derive(
        values,
        prepared.groups,
        prepared.weights,
        settings,
        run,
        progress,
        keep_combinations,
        subsets,
    )
    represented = Represented(prepared, derived, values, settings)
    selected = derived.found.selected
    if derived.reduced:
        progress.say(
            f"{len(selected):,} representatives ({len(selected) / len(groups):.1%}), largest "
            f"residual {represented.max_residual:.3g}, {time.perf_counter() - started:.1f} s"
        )
    return represented


def distinct_of(
    kernel: TrainingKernel,
    groups: NDArray[np.intp],
    weights: NDArray[np.float64],
    run: Callable,
    progress: Progress,
    hashes: NDArray[np.uint64] | None = None,
) -> PreparedRows:
    """The distinct rows of a kernel matrix, group by group."""
    prepared = prepare(kernel.X, groups, weights, run, kernel.joint_targets, hashes)
    if progress.says:
        n_groups, n_distinct = len(np.unique(groups)), len(prepared.rows)
        classes = f" of {n_groups:,} classes" if n_groups > 1 else ""
        progress.say(
            f"{len(groups):,} rows{classes}, {n_distinct:,} distinct rows of non-zero weight"
        )
    return prepared
