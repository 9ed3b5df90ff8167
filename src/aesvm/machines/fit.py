"""Rows in memory, from valid input to trained machines.

The rows of each group are represented once; every machine is then trained on the representatives
of its rows, and made more exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.accounts import Accounts
from aesvm.formulations.protocol import Formulation, PairFormulation
from aesvm.machines import rounds, small_pairs
from aesvm.machines.certifying import certified
from aesvm.machines.forecast import Forecast, forecast
from aesvm.machines.problem import Expansion
from aesvm.machines.represent import Represented, distinct_of, represent
from aesvm.machines.results import Terms, TrainedMachines
from aesvm.machines.rounds import COARSER, Policy
from aesvm.machines.rows import ClassRows, Rows
from aesvm.machines.sharing import SharedWork
from aesvm.machines.training import (
    SUPPORT_SHARE,
    SolverOptions,
    Trainer,
    train_in_memory,
)
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import ReductionSettings, Representatives, SetKernel, derive, prepare
from aesvm.sets.distinct import row_hashes

#: For progress, kernel values that training is expected to take after a first set, for each of rows
#: times rows: with rounds, and without. And those that reducing a row takes, times ``subset_size``.
_ROUNDS_SOLVE, _PAPER_SOLVES, _REDUCED = 0.3, 0.03, 2.0


class Plan(NamedTuple):
    """What is to be done with some rows."""

    settings: ReductionSettings  #: of the first set: a tolerance of 0 where the SVM will be exact
    effort: float = 0.0  #: expected rows times support vectors; 0 of an SVM that is to be exact
    support_share: float = SUPPORT_SHARE  #: of the rows of each machine


def first_set(
    data: Rows,
    kernel: TrainingKernel,
    settings: ReductionSettings,
    finest_tol: float,
    run: Callable,
    progress: Progress,
    shared: SharedWork,
) -> Represented:
    """The set that all machines are trained on first.

    Parameters
    ----------
    data : Rows
    kernel : TrainingKernel
        Of these rows.
    settings : ReductionSettings
        Those of the first set, as ``plan`` gives them.
    finest_tol : float
        The tolerance of the finest set that may follow.
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    shared : SharedWork
        Of fits to these rows.
    """
    used = np.flatnonzero(data.weights)
    kernel.check_bounded(used)
    return shared.of_kernel(
        ("set", settings, finest_tol),
        lambda: _first_set(data, used, kernel, settings, finest_tol, run, progress, shared),
    )


def _first_set(
    data: Rows,
    used: NDArray[np.intp],
    kernel: TrainingKernel,
    settings: ReductionSettings,
    finest_tol: float,
    run: Callable,
    progress: Progress,
    shared: SharedWork,
) -> Represented:
    share, shown = 0.0, settings.hull_tol > 0
    if shown:
        solved = _ROUNDS_SOLVE if settings.hull_tol > finest_tol else _PAPER_SOLVES
        effort = _REDUCED * settings.subset_size * len(used)
        share = effort / (effort + solved * data.effort(used))
    with progress.task("representatives", 2, share=share, bar=shown) as task:
        groups, weights = data.groups, data.weights
        hashes = shared.of_rows("hashes", lambda: row_hashes(kernel.X, run))
        prepared = shared.of_rows(
            "distinct rows", lambda: distinct_of(kernel, groups, weights, run, task, hashes)
        )
        subsets = None
        if shown:
            values = kernel.for_residuals(prepared.rows, min(settings.hull_tol, finest_tol))
            with shared.timed("partition"):
                subsets = shared.of_rows(
                    _key_of_subsets(kernel, values, settings),
                    lambda: values.cut(prepared.groups, settings, run, task),
                )
            shared.spent["kernel_values"] += sum(len(rows) ** 2 / 2 for rows in subsets)
        with shared.timed("sets"):
            return represent(
                kernel,
                groups,
                weights,
                settings,
                run,
                task,
                keep_combinations=shown,
                finest_tol=finest_tol,
                prepared=prepared,
                subsets=subsets,
            )


def _key_of_subsets(
    kernel: TrainingKernel, values: SetKernel, settings: ReductionSettings
) -> tuple:
    """What the subsets that rows are cut into depend on."""
    spec = kernel.spec
    sizes = settings.subset_size, settings.partition_size, settings.partition
    return "subsets", spec.kernel if spec.kernel == "rbf" else spec, values.dtype, sizes


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
    shared: SharedWork,
    support_share: float = SUPPORT_SHARE,
) -> TrainedMachines:
    """Train every machine on a first set, and refine it; see ``first_set`` and ``Plan``."""
    rows, weights = first.prepared.rows, first.prepared.weights
    if refine == "auto":
        say_chosen(first, progress)
    exact = refine == "exact" and kernel.spec.is_definite
    trainer = Trainer(
        formulation,
        options,
        data.n_machines,
        run,
        progress,
        aim_at_duality_gap=exact,
        support_share=support_share,
        starts=shared.starts if _may_start(options, kernel) else None,
    )
    small, problems = None, data.problems(rows, weights)
    many = data.n_machines >= small_pairs.FEWEST_PAIRS and not first.derived.reduced
    if many and isinstance(data, ClassRows):
        classes, of_pairs = data.by_class(rows, weights), cast(PairFormulation, formulation)
        small = small_pairs.SmallPairs(classes, kernel, of_pairs, int(options.cache_size * 1e6))
        others = np.delete(np.arange(data.n_machines), small.numbers)
        problems = data.problems(rows, weights, others)
    spent = _REDUCED * settings.subset_size * len(rows) if first.derived.reduced else 0.0
    with shared.timed("solve"):
        trained = train_in_memory(
            problems,
            (data.effort(rows), _largest_effort(data.groups[rows])),
            kernel,
            first.derived.found if first.derived.reduced else None,
            partial(represent_anew, first, settings, run),
            Policy(refine, certify=not shared.in_search, spent=spent),
            trainer,
            small,
        )
    shared.spent["kernel_values"] += sum(trainer.n_values) if small is None else nan
    shared.spent["rows_solved"] += len(trained.solved)
    return trained._replace(history=trainer.history.steps())


def _largest_effort(groups: NDArray[np.intp]) -> float:
    """The squared number of rows of the largest machine, which is of one group or of two."""
    return float(np.sort(np.bincount(groups))[-2:].sum()) ** 2


def _may_start(options: SolverOptions, kernel: TrainingKernel) -> bool:
    """Whether a solve may begin with another solution, and still end with the same.

    Not where it is cut short, nor with an indefinite kernel, whose dual has several minima.
    """
    return options.max_iter == -1 and kernel.spec.is_definite


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


def plan(
    data: Rows,
    kernel: TrainingKernel,
    settings: ReductionSettings,
    formulation: Formulation,
    refine: int | str,
    run: Callable,
    progress: Progress,
) -> Plan:
    """How the first set is reduced, and what the exact SVM would take.

    It depends on C with "auto" alone, which says how many rows the set may keep: where the first
    subsets keep more, reducing ends with them, and the SVM is exact.
    """
    used = np.flatnonzero(data.weights)
    exact = Plan(settings._replace(hull_tol=0.0))
    if refine == "exact" or settings.hull_tol == 0 or len(used) <= settings.subset_size:
        return exact
    first = settings._replace(hull_tol=settings.hull_tol * (COARSER if refine else 1.0))
    if refine != "auto":
        return Plan(first, inf)
    most = rounds.EXACT_EFFORT
    effort = data.effort(used)
    if effort <= most:
        progress.say(
            f"auto: the exact SVM, for rows times support vectors of {len(used):,} rows are at "
            f"most {effort:.2g}, and up to {most:.2g} it is quick"
        )
        return exact
    expected = forecast(data, used, kernel, formulation, run)
    share = _share_of(expected, data)
    exact = exact._replace(support_share=share)
    n_support = f"some {expected.n_support:,.0f} support vectors"
    if data.n_machines > 1:
        n_support += " for each pair of classes"
    if expected.effort <= most:
        progress.say(f"auto: the exact SVM, for {n_support} are few enough (by a sample)")
        return exact
    if expected.effort > rounds.ROUND_EFFORT:
        # the exact SVM is out of reach, however little rounds gain
        return Plan(first, expected.effort, share)
    kept = expected.most_kept(data.n_machines, settings.subset_size)
    if not kept:
        progress.say(f"auto: the exact SVM, for {n_support} are too few for rounds to gain by it")
        return exact
    return Plan(first._replace(most_kept=kept), expected.effort, share)


def _share_of(expected: Forecast, data: Rows) -> float:
    """The share of a machine's rows that are expected to be support vectors."""
    return min(1.0, expected.n_support * data.n_machines / max(expected.n_rows, 1.0))


def say_chosen(first: Represented, progress: Progress) -> None:
    """Print what "auto" makes of a first set."""
    given_up, found = first.derived.given_up, first.derived.found
    if given_up is not None:
        progress.say(
            f"auto: the exact SVM, for too few rows can stand for others: of the first "
            f"{given_up.n_rows:,} rows {given_up.n_kept / given_up.n_rows:.0%} would have to "
            f"represent themselves, and rounds pay up to {first.settings.most_kept:.0%}"
        )
    elif first.derived.reduced:
        progress.say(
            f"auto: rounds, for {len(found.selected) / len(first.prepared.rows):.0%} of the rows "
            "represent all of them, and the exact SVM would take far longer"
        )


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
