"""Rows in memory, from valid input to trained machines.

The rows of each group are represented once; every machine is then trained on the representatives
of its rows, and made more exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import TrainingKernel
from aesvm.machines import rounds, small_pairs
from aesvm.machines.accounts import Accounts
from aesvm.machines.formulation import Formulation, PairFormulation
from aesvm.machines.problem import Expansion
from aesvm.machines.results import Terms, TrainedMachines
from aesvm.machines.rounds import COARSER, Policy
from aesvm.machines.rows import ClassRows, Rows
from aesvm.machines.training import (
    SolverOptions,
    Trainer,
    certified,
    expected_effort,
    sample_of,
    train_in_memory,
)
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import Prepared, ReductionSettings, Representatives, derive, prepare
from aesvm.sets.represent import Represented, represent


def first_set(
    data: Rows,
    kernel: TrainingKernel,
    settings: ReductionSettings,
    first_tol: float,
    run: Callable,
    progress: Progress,
    prepared: Prepared | None = None,
) -> Represented:
    """The set that all machines are trained on first.

    Parameters
    ----------
    data : Rows
    kernel : TrainingKernel
        Of these rows.
    settings : ReductionSettings
        Its tolerance is that of ``refine=0``.
    first_tol : float
        The one of the first set, as the function of that name gives it.
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    prepared : Prepared, default=None
        These rows prepared, where that was done before.
    """
    kernel.check_bounded(np.flatnonzero(data.weights))
    with progress.task("represent", 2) as task:
        return represent(
            kernel,
            data.groups,
            data.weights,
            settings._replace(hull_tol=first_tol),
            run,
            task,
            keep_combinations=first_tol > 0,
            finest_tol=settings.hull_tol,
            prepared=prepared,
        )


def train(
    data: Rows,
    kernel: TrainingKernel,
    first: Represented,
    settings: ReductionSettings,
    formulation: Formulation,
    options: SolverOptions,
    refine: int | str,
    run: Callable,
    progress: Progress,
) -> TrainedMachines:
    """Train every machine on a first set, and refine it; see ``first_set``."""
    rows, weights = first.prepared.rows, first.prepared.weights
    exact = refine == "exact" and kernel.spec.is_definite
    trainer = Trainer(
        formulation, options, data.n_machines, run, progress, aim_at_duality_gap=exact
    )
    small, problems = None, data.problems(rows, weights)
    many = data.n_machines >= small_pairs.FEWEST_PAIRS and not first.derived.reduced
    if many and isinstance(data, ClassRows):
        classes, of_pairs = data.by_class(rows, weights), cast(PairFormulation, formulation)
        small = small_pairs.SmallPairs(classes, kernel, of_pairs, int(options.cache_size * 1e6))
        problems = data.problems(rows, weights, without=small.numbers)
    return train_in_memory(
        problems,
        data.effort(rows),
        kernel,
        first.derived.found if first.derived.reduced else None,
        partial(represent_anew, first, settings, run),
        Policy(refine),
        trainer,
        small,
    )


def certify(
    data: Rows,
    kernel: TrainingKernel,
    formulation: Formulation,
    accounts: Accounts,
    expansions: list[Expansion],
    multipliers: Terms,
    tol: float,
    run: Callable,
    say: Callable[[str], None],
) -> Accounts:
    """The accounts of machines with all rows seen, given their lifted coefficients."""
    prepared = prepare(data.X, data.groups, data.weights, run, kernel.joint_targets)
    problems = data.problems(prepared.rows, prepared.weights)
    return certified(
        accounts, problems, expansions, multipliers, kernel, formulation, tol=tol, run=run, say=say
    )


def first_tol(
    data: Rows,
    kernel: TrainingKernel,
    settings: ReductionSettings,
    formulation: Formulation,
    refine: int | str,
    run: Callable,
) -> float:
    """The tolerance of the first set: 0 where the SVM will be exact.

    It depends on C with "auto" alone.
    """
    used = np.flatnonzero(data.weights)
    if refine == "exact" or settings.hull_tol == 0 or len(used) <= settings.subset_size:
        return 0.0
    if refine == "auto":
        effort = data.effort(used)
        if effort > rounds.EXACT_EFFORT:
            sample = sample_of(used)
            share = len(sample) / len(used)
            problems = data.problems(sample, data.weights)
            effort = expected_effort(problems, share, kernel, formulation, run)
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
