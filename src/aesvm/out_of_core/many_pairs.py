"""Pairs of classes of one weighted set, small ones many at a time (``machines.small_pairs``)."""

from __future__ import annotations

import time
from math import ceil

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.certificate.records import Records
from aesvm.machines import small_pairs
from aesvm.machines.class_bundles import ClassMembers
from aesvm.machines.problem import ClassPairs
from aesvm.machines.results import Trained, TrainedMachines, records_of
from aesvm.machines.rounds import State
from aesvm.machines.small_pairs import SmallPairs
from aesvm.machines.trainer import Trainer, train_together
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core.training_sets import GatheredLearner, StartOf
from aesvm.out_of_core.weighted_rows import GatheredRows, WeightedRows
from aesvm.runtime.progress import Progress

#: Fewer pairs are trained one by one, each in rounds of its own.
FEWEST_PAIRS = 100

#: All rows are gathered where the budget is this many times their expected bytes: of dense rows,
#: and of sparse rows, which differ in size.
_ROOM, _ROOM_OF_SPARSE = 1.0, 2.0

#: A round gathers about the first set's rows once for every other class, or more. Where these bytes
#: are over this many times the budget, the round is not begun.
_CLEAR_EXCESS = 2.0


def are_many(learner: GatheredLearner) -> bool:
    """Whether machines are pairs of classes, enough of them to train small ones together."""
    pairs = learner.selections
    return isinstance(pairs, ClassPairs) and len(pairs) >= FEWEST_PAIRS


def budget_for_all(learner: GatheredLearner, rows: WeightedRows) -> int | None:
    """The memory budget from which many pairs are trained on all rows, and not by rounds.

    None where there are few pairs, or one of them is not small. A round gathers rows for every
    pair, so that a row is gathered once for each other class. All rows are fewer than that, and
    solving small pairs takes less time than stratifying their rows.

    ``rows``: the first set; the size of a row is taken from it.
    """
    pairs = learner.selections
    if not are_many(learner) or not isinstance(pairs, ClassPairs):
        return None
    if int(np.sort(pairs.counts)[-2:].sum()) > small_pairs.MOST_ROWS:
        return None
    room = _ROOM_OF_SPARSE if sp.issparse(rows.X) else _ROOM
    return ceil(room * rows.n_bytes * int(pairs.counts.sum()) / len(rows))


def round_exceeds_budget(learner: GatheredLearner, rows: WeightedRows, budget: float) -> bool:
    """Whether a round would clearly gather more bytes than the budget; ``rows``: the first set."""
    pairs = learner.selections
    if not isinstance(pairs, ClassPairs):
        return False
    n_others = int(np.count_nonzero(pairs.counts)) - 1  # pairs that a row is in
    return n_others * rows.n_bytes > _CLEAR_EXCESS * budget


def train_pairs(
    gathered: GatheredRows,
    learner: GatheredLearner,
    kernel: TrainingKernel,
    trainer: Trainer,
    progress: Progress,
    start_of: StartOf | None = None,
) -> TrainedMachines:
    """Train every pair on one set. Of a pair, only its numbers and support vectors are kept.

    ``start_of``: coefficients that pairs trained by themselves begin with.
    """
    started, rows = time.perf_counter(), gathered.rows
    pairs, formulation = learner.selections, learner.formulation
    assert isinstance(pairs, ClassPairs)
    cache_bytes = trainer.options.cache_bytes
    classes = ClassMembers.of(pairs, np.arange(len(rows)), rows.targets, rows.weights)
    small = SmallPairs(classes, kernel, formulation, cache_bytes, trainer.run)
    others = np.delete(np.arange(len(pairs)), small.numbers)
    sets = learner.of_one_set(gathered, start_of, kernel, others)
    with progress.task("solve", len(others) + len(small.batches)) as task:
        together = train_together(small, trainer, task)
        machines = trainer.train_each(sets, others, task)
    together = together._replace(records=_gathered(together.records, small.numbers, rows, pairs))
    each = [
        Trained(machine, trainer.n_iter[number], record, machine.terms)
        for machine, number, record in zip(
            machines,
            others.tolist(),
            records_of(State(machines, 0, sets), formulation),
            strict=True,
        )
    ]
    alone = TrainedMachines.of(each, formulation)
    trained = together.put_together(small.numbers, alone, others)
    trainer.say_trained(trained, started)
    return trained


def _gathered(
    records: Records, numbers: NDArray[np.intp], rows: WeightedRows, pairs: ClassPairs
) -> Records:
    """Records of pairs solved on a set: what is known of the rows that it stands for.

    Where every row stands for itself, what is known of the set is.
    """
    first, second = (own[numbers] for own in pairs.places)
    learned, reach = records["n_rows"] > 0, rows.reach
    known: dict[str, NDArray] = {
        "exact": ~learned | rows.whole,
        "n_rows": np.where(learned, pairs.counts[first] + pairs.counts[second], 0),
        "max_residual": np.where(learned, reach**2, 0.0),
        "total_residual": np.where(learned, 0.0 if rows.whole else np.nan, 0.0),
        "weighted_distances": np.where(learned, records["total_cost"] * (reach + rows.slack), 0.0),
    }
    if not rows.whole:
        unknown = np.where(learned, np.nan, 0.0)
        known |= {
            "rounding": np.maximum(records["rounding"], records["proof_rounding"]),
            "loss": unknown,
            "dual_objective": unknown,
            "violators": np.where(learned, -1, 0),
            "proof_rounding": np.zeros(len(learned)),
            "proven": ~learned,
        }
    return Records({**records.columns, **known})
