"""C-support vector classification of rows in memory, from valid input to trained pairs.

The rows of each class are represented once; every pair of classes is then trained on the
representatives of both, and made more exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate import Account
from aesvm.kernels import KernelSpec, TrainingKernel
from aesvm.machines import rounds
from aesvm.machines.hinge import Hinge
from aesvm.machines.one_vs_one import Expansion, pairs_of_classes, squared_sizes
from aesvm.machines.rounds import COARSER, Policy
from aesvm.machines.training import (
    SolverOptions,
    Trained,
    Trainer,
    certified,
    expected_effort,
    sample_of,
    train_in_memory,
)
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import ReductionSettings, Representatives, derive, prepare
from aesvm.sets.represent import Represented, represent


@dataclass(frozen=True)
class ClassRows:
    """Valid rows in memory, of several classes."""

    X: Any
    labels: NDArray[np.intp]  #: class of each row, by number
    weights: NDArray[np.float64]
    costs: NDArray[np.float64]  #: by class: C times the class weight

    @property
    def n_classes(self) -> int:
        return len(self.costs)

    @property
    def n_pairs(self) -> int:
        return self.n_classes * (self.n_classes - 1) // 2


def first_set(
    data: ClassRows,
    kernel: TrainingKernel,
    settings: ReductionSettings,
    refine: int | str,
    run: Callable,
    progress: Progress,
) -> Represented:
    """The set that all pairs of classes are trained on first; it does not depend on C.

    Parameters
    ----------
    data : ClassRows
    kernel : TrainingKernel
        Of these rows.
    settings : ReductionSettings
        Its tolerance is that of ``refine=0``.
    refine : int, "exact" or "auto"
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    """
    kernel.check_bounded(np.flatnonzero(data.weights))
    first_tol = _first_tol(data, kernel, settings, refine, run)
    with progress.task("represent", 2) as task:
        return represent(
            kernel,
            data.labels,
            data.weights,
            settings._replace(hull_tol=first_tol),
            run,
            task,
            keep_combinations=first_tol > 0,
            finest_tol=settings.hull_tol,
        )


def train(
    data: ClassRows,
    kernel: TrainingKernel,
    first: Represented,
    settings: ReductionSettings,
    options: SolverOptions,
    refine: int | str,
    run: Callable,
    progress: Progress,
) -> list[Trained]:
    """Train every pair of classes on a first set, and refine it; see ``first_set``."""
    rows, weights = first.prepared.rows, first.prepared.weights
    labels = data.labels[rows]
    exact = refine == "exact" and kernel.spec.is_definite
    trainer = Trainer(Hinge(), options, data.n_pairs, run, progress, aim_at_duality_gap=exact)
    return train_in_memory(
        pairs_of_classes(rows, labels, weights[rows], data.costs),
        squared_sizes(labels, data.n_classes),
        kernel,
        first.derived.found if first.derived.reduced else None,
        partial(represent_anew, first, settings, run),
        Policy(refine),
        trainer,
    )


def certify(
    data: ClassRows,
    spec: KernelSpec,
    accounts: list[Account],
    expansions: list[Expansion],
    multipliers: list[Any],
    tol: float,
    run: Callable,
    say: Callable[[str], None],
) -> list[Account]:
    """The accounts of trained pairs with all rows seen; ``multipliers`` as ``Trained`` has them."""
    prepared = prepare(data.X, data.labels, data.weights, run)
    rows = prepared.rows
    problems = pairs_of_classes(rows, data.labels[rows], prepared.weights[rows], data.costs)
    kernel = TrainingKernel(spec, data.X, tol)
    return certified(
        accounts, problems, expansions, multipliers, kernel, Hinge(), tol=tol, run=run, say=say
    )


def _first_tol(
    data: ClassRows,
    kernel: TrainingKernel,
    settings: ReductionSettings,
    refine: int | str,
    run: Callable,
) -> float:
    """The tolerance of the first set: 0 where the SVM will be exact."""
    used = np.flatnonzero(data.weights)
    if refine == "exact" or settings.hull_tol == 0 or len(used) <= settings.subset_size:
        return 0.0
    if refine == "auto":
        effort = squared_sizes(data.labels[used], data.n_classes)
        if effort > rounds.EXACT_EFFORT:
            sample = sample_of(used)
            problems = pairs_of_classes(
                sample, data.labels[sample], data.weights[sample], data.costs
            )
            share = len(sample) / len(used)
            effort = expected_effort(problems, share, kernel, Hinge(), run)
        if effort <= rounds.EXACT_EFFORT:
            return 0.0
    return settings.hull_tol * (COARSER if refine else 1.0)


def represent_anew(
    first: Represented,
    settings: ReductionSettings,
    run: Callable,
    groups: list[NDArray[np.intp]],
    coarser: float,
    progress: Progress,
) -> Representatives:
    """Represent rows of some groups, ``coarser`` times as coarsely as the settings say."""
    own = settings._replace(hull_tol=coarser * settings.hull_tol)
    weights = first.prepared.weights
    return derive(first.kernel, groups, weights, own, run, progress, keep_combinations=True).found
