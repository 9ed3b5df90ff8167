"""Rows in memory, from valid input to trained machines: exactly, or by representatives and rounds.

Equal rows are merged first. ``plan`` then says what is done with the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.certificate.records import Record, Records
from aesvm.formulations.protocol import Formulation
from aesvm.machines import pilots, small_pairs
from aesvm.machines.certifying import certified
from aesvm.machines.one_vs_one import ClassPairs
from aesvm.machines.place import RowsInMemory
from aesvm.machines.plan import Exact, Facts, Rounds
from aesvm.machines.problem import Expansion, Machine, Problem, TrainingSets
from aesvm.machines.represent import Represented, distinct_of, represent
from aesvm.machines.results import Terms, Trained, TrainedMachines
from aesvm.machines.rounds import Policy, State, refine, seen_if_cheap
from aesvm.machines.rows import Rows, by_class
from aesvm.machines.sharing import SharedWork
from aesvm.machines.training import (
    SolverOptions,
    Trainer,
    constant_machine,
    share_of,
    train_machines,
)
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import (
    Derived,
    PreparedRows,
    ReductionSettings,
    Representatives,
    SetKernel,
    derive,
    identity,
    prepare,
)
from aesvm.sets.distinct import row_hashes


@dataclass(frozen=True)
class Work:
    """What is trained on, and what it is done with."""

    data: Rows
    kernel: TrainingKernel
    formulation: Formulation
    settings: ReductionSettings
    options: SolverOptions
    run: Callable  #: ``map`` or a parallel one
    progress: Progress
    shared: SharedWork

    def distinct(self) -> PreparedRows:
        """The distinct rows of non-zero weight, kernel values of which are finite."""
        data, kernel, shared = self.data, self.kernel, self.shared
        kernel.check_bounded(np.flatnonzero(data.weights))
        with self.progress.task("distinct rows", None, share=0.0) as task:
            hashes = shared.of_rows("hashes", lambda: row_hashes(kernel.X, self.run))
            return shared.of_rows(
                "distinct rows",
                lambda: distinct_of(kernel, data.groups, data.weights, self.run, task, hashes),
            )

    def trainer(self, plan: Exact | Rounds | None = None) -> Trainer:
        """Trains these machines, as a plan says; without one, their pilots."""
        support_share = None if plan is None else plan.support_share
        # no start where a solve may be cut short, nor where the dual has several minima
        may_start = self.options.max_iter == -1 and self.kernel.spec.is_definite
        return Trainer(
            self.formulation,
            self.options,
            self.data.n_machines,
            self.run,
            self.progress,
            aim_at_duality_gap=isinstance(plan, Exact) and plan.aim_at_gap,
            support_share=support_share,
            starts=self.shared.starts if plan is not None and may_start else None,
        )


def facts_of(work: Work, prepared: PreparedRows) -> Facts:
    """The counts that a plan is made from."""
    rows = prepared.rows
    return Facts(
        n_rows=len(rows),
        n_machines=work.data.n_machines,
        squared_rows=work.data.squared_sizes(rows),
        n_features=_n_features(work.kernel),
        definite=work.kernel.spec.is_definite,
        pilot_rows=pilots.PILOT_ROWS,
    )


def _n_features(kernel: TrainingKernel) -> float:
    """Features of a row that kernel values are computed from: none of values that are given."""
    X = kernel.X
    if kernel.spec.kernel == "precomputed":
        return 0.0
    return X.nnz / X.shape[0] if sp.issparse(X) else float(X.shape[1])


def every_row(work: Work, prepared: PreparedRows) -> Represented:
    """The set in which every distinct row stands for itself."""
    found = identity(prepared.rows, prepared.weights, work.kernel.X.shape[0], False)
    settings = work.settings._replace(hull_tol=0.0)
    return Represented(prepared, Derived(found, 0, None, False), None, settings)


def first_set(work: Work, prepared: PreparedRows, plan: Rounds) -> Represented:
    """The representatives that all machines are trained on first.

    Where too many rows would be kept, every row stands for itself.
    """
    key = "set", plan.settings, work.settings.hull_tol
    first = work.shared.of_kernel(key, lambda: _reduced(work, prepared, plan))
    if plan.most is None:
        _say_kept(first, work.progress)
    return first


def _reduced(work: Work, prepared: PreparedRows, plan: Rounds) -> Represented:
    settings = plan.settings
    share = plan.phases.reduce / plan.phases.whole(1 if plan.most is None else plan.most)
    data, kernel, shared, run = work.data, work.kernel, work.shared, work.run
    finest_tol = work.settings.hull_tol
    with work.progress.task("representatives", 2, share=share, bar=True) as task:
        values = kernel.for_residuals(prepared.rows, min(settings.hull_tol, finest_tol))
        with shared.timed("partition"):
            subsets = shared.of_rows(
                _key_of_subsets(kernel, values, settings),
                lambda: values.cut(prepared.groups, settings, run, task),
            )
        shared.count("kernel_values", sum(len(rows) ** 2 / 2 for rows in subsets))
        with shared.timed("sets"):
            return represent(
                kernel,
                data.groups,
                data.weights,
                settings,
                run,
                task,
                keep_combinations=True,
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


def train(work: Work, first: Represented, plan: Exact | Rounds) -> TrainedMachines:
    """Train every machine on a first set, and refine it as the plan says."""
    data, kernel, shared, options = work.data, work.kernel, work.shared, work.options
    rows, weights = first.prepared.rows, first.prepared.weights
    trainer = work.trainer(plan)
    small, problems = None, data.problems(rows, weights)
    many, pairs = data.n_machines >= small_pairs.FEWEST_PAIRS, data.selections
    if many and not first.derived.reduced and isinstance(pairs, ClassPairs):
        classes = by_class(pairs, rows, data.given[rows], weights[rows])
        cache = int(options.cache_size * 1e6)
        small = small_pairs.SmallPairs(classes, kernel, work.formulation, cache)
        others = np.delete(np.arange(data.n_machines), small.numbers)
        problems = data.problems(rows, weights, others)
    total = data.squared_sizes(rows)
    one = partial(_train_one, work, first, plan, trainer, total)
    with shared.timed("solve"):
        sizes = total, _largest_squared(data.groups[rows])
        trained = train_machines(problems, sizes, kernel, one, trainer, small)
    # small pairs do not count theirs
    shared.count("kernel_values", sum(trainer.n_values) if small is None else None)
    shared.count("rows_solved", len(trained.solved))
    return trained._replace(history=trainer.history.steps())


def _train_one(
    work: Work,
    first: Represented,
    plan: Exact | Rounds,
    trainer: Trainer,
    squared_rows: float,
    number: int,
    problem: Problem,
    progress: Progress,
) -> Trained:
    """Train a machine on all of its rows, or on a first set of them that is then refined.

    ``squared_rows``: the squared numbers of rows of all machines, added up.
    """
    formulation, kernel = work.formulation, work.kernel
    constant = formulation.constant(problem.targets)
    if constant is not None:
        return Trained(constant_machine(constant), 0, Record.of_nothing(), None)
    if not trainer.alone:
        trainer.history.begin(number)
    share, spent, look_share = share_of(problem, squared_rows), 0.0, 0.0
    reduced = first.derived.reduced
    if isinstance(plan, Rounds):
        spent = plan.phases.reduce if reduced else 0.0
        plan, look_share = plan.of_machine(share), plan.share("look")
    policy = Policy(plan, share, certify=not work.shared.in_search, spent=spent)
    place = RowsInMemory(
        problem,
        kernel,
        partial(represent_anew, first, work.settings, work.run),
        formulation,
        work.options.tol,
        work.run,
        progress,
        share,
        spent,
        look_share,
    )
    sets = place.represented(first.derived.found if reduced else None)
    note = partial(trainer.note, number)
    if reduced:

        def again(sets: TrainingSets, progress: Progress) -> list[Machine]:
            return [trainer.train(number, kernel, sets.sets[0], progress)]

        state = refine(place, sets, policy, formulation, again, progress, note)
    else:
        own = trainer.train(number, kernel, sets.sets[0], progress)
        state = seen_if_cheap(place, State([own], 0, sets), policy, note)
    return place.trained(state, trainer.n_iter[number], policy.certify)


def _largest_squared(groups: NDArray[np.intp]) -> float:
    """The squared number of rows of the largest machine, which is of one group or of two."""
    return float(np.sort(np.bincount(groups))[-2:].sum()) ** 2


def certify(
    data: Rows,
    kernel: TrainingKernel,
    formulation: Formulation,
    records: Records,
    expansions: list[Expansion],
    multipliers: Terms,
    tol: float,
    run: Callable,
    say: Callable[[str], None],
) -> Records:
    """The records of machines with all rows seen, given their lifted coefficients."""
    prepared = prepare(data.X, data.groups, data.weights, run, kernel.joint_targets)
    problems = data.problems(prepared.rows, prepared.weights)
    return certified(
        records, problems, expansions, multipliers, kernel, formulation, tol=tol, run=run, say=say
    )


def _say_kept(first: Represented, progress: Progress) -> None:
    """Print what a first set of "auto" has kept."""
    given_up, found = first.derived.given_up, first.derived.found
    if given_up is not None:
        progress.say(
            f"auto: exact after all, and it may take long: {given_up.n_kept / given_up.n_rows:.0%} "
            f"of the first {given_up.n_rows:,} rows would have to represent themselves, and rounds "
            f"pay up to {first.settings.most_kept:.0%}; max_vectors or refine=1 are quicker"
        )
    elif first.derived.reduced:
        share = len(found.selected) / len(first.prepared.rows)
        progress.say(f"auto: rounds, for {share:.0%} of the rows represent all of them")


def represent_anew(
    first: Represented,
    settings: ReductionSettings,
    run: Callable,
    groups: list[NDArray[np.intp]],
    coarser: float,
    progress: Progress,
) -> Representatives:
    """Represent rows of some groups, ``coarser`` times as coarsely as the settings say."""
    assert first.kernel is not None  # the first set was reduced
    own = settings._replace(hull_tol=coarser * settings.hull_tol)
    weights = first.prepared.weights
    return derive(first.kernel, groups, weights, own, run, progress, keep_combinations=True).found
