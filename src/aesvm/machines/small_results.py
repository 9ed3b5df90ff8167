"""What small pairs of classes were trained to, put together as columns over all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.records import Records
from aesvm.formulations.objective import Objective, Segments
from aesvm.formulations.protocol import Array, Formulation
from aesvm.machines.class_bundles import ClassMembers
from aesvm.machines.one_vs_one import pair_classes
from aesvm.machines.results import Terms, TrainedMachines


class SolvedPairs(NamedTuple):
    """The pairs of some batches, solved: of each its numbers, and its support vectors."""

    numbers: NDArray[np.intp]  #: of the pairs
    columns: dict[str, NDArray]  #: numbers of each
    counts: NDArray[np.intp]  #: support vectors of each
    rows: NDArray[np.int32]  #: the support vectors, one pair after another
    coefs: Array


def trained_pairs(
    solved: list[SolvedPairs],
    numbers: NDArray[np.intp],
    classes: ClassMembers,
    formulation: Formulation,
    definite: bool,
) -> TrainedMachines:
    """All small pairs, in the order of their numbers.

    Parameters
    ----------
    solved : list of SolvedPairs
    numbers : ndarray
        Of all small pairs, ascending. Those that were not solved leave nothing to learn: they have
        rows of one class alone, or none.
    classes : ClassMembers
    formulation : Formulation
    definite : bool
        Whether the kernel is positive semidefinite: else nothing is known of the optimum.
    """
    sizes, n = classes.sizes, len(numbers)
    first, second = (own[numbers] for own in pair_classes(len(sizes)))
    learned = (sizes[first] > 0) & (sizes[second] > 0)
    at = np.searchsorted(numbers, np.concatenate([numbers[:0], *(one.numbers for one in solved)]))
    counts = np.zeros(n, dtype=np.intp)
    counts[at] = n_support = np.concatenate([counts[:0], *(one.counts for one in solved)])
    order = np.argsort(np.repeat(at, n_support), kind="stable")
    rows = np.concatenate([np.empty(0, np.int32), *(one.rows for one in solved)])
    coefs = np.concatenate([np.empty(0), *(one.coefs for one in solved)])
    multipliers = Terms(np.cumsum(counts), rows[order], coefs[order])

    def column(name: str, *shape: int) -> Array:
        values = np.zeros((n, *shape))
        if solved:
            values[at] = np.concatenate([one.columns[name] for one in solved])
        return values

    labels = np.repeat(np.arange(len(sizes)), sizes)
    costs = np.bincount(labels, classes.bounds, len(sizes)).astype(np.float64, copy=False)
    of_pairs = np.stack([costs[first], costs[second]], axis=1)
    worst = np.where(learned, _objectives_at_zero(formulation, of_pairs), 0.0)
    total = np.where(learned, of_pairs.sum(axis=1), 0.0)
    bound = formulation.squared_norm_bound(total, worst)
    offsets = column("offsets", len(formulation.slopes(1.0)))
    decision = formulation.decision(tuple(offsets.T))
    constants = _constants(formulation, sizes[first] > 0, sizes[second] > 0)
    scale = np.repeat(np.broadcast_to(decision.scale, n), counts)
    decided = multipliers.coefs * np.repeat(column("multiple"), counts) / scale
    unknown = np.where(learned, np.nan, 0.0)
    loss = column("loss")
    records = Records.of_numbers(
        n,
        {
            "n_rows": np.where(learned, sizes[first] + sizes[second], 0),
            "squared_norm": column("squared_norm"),
            "rounding": column("norm_rounding"),
            "loss_reduced": loss,
            "loss": loss,
            "total_cost": total,
            "worst_optimum": worst,
            "squared_norm_bound": unknown if bound is None else bound,
            "offsets": offsets,
            "dual_objective": column("dual") if definite else unknown,
            "violators": column("n_violators").astype(np.int64),
            "proof_rounding": column("rounding"),
        },
    )
    has_solved = np.zeros(len(sizes), dtype=bool)
    has_solved[first[learned]] = has_solved[second[learned]] = True
    return TrainedMachines(
        column("n_updates").astype(np.int64),
        -column("objective"),
        column("violation"),
        (column("converged") > 0) | ~learned,
        multipliers._replace(coefs=decided),
        np.where(learned, decision.intercept, constants),
        multipliers,
        records,
        np.sort(classes.rows[np.repeat(has_solved, sizes)]),
    )


def _objectives_at_zero(formulation: Formulation, costs: Array) -> Array:
    """F at w = 0 of pairs with the given costs of both classes: a class counts as one row."""
    if not len(costs):
        return np.zeros(0)
    targets = np.tile([1.0, -1.0], len(costs))
    objective = Objective(
        formulation, targets, costs.ravel(), Segments.of(np.full(len(costs), 2, dtype=np.intp))
    )
    scores = np.zeros(len(targets))
    return objective.loss(scores, objective.best_offsets(scores))


def _constants(
    formulation: Formulation, has_first: NDArray[np.bool_], has_second: NDArray[np.bool_]
) -> Array:
    """The constant decisions of pairs that have rows of one class alone, or no rows."""

    def decided(*targets: float) -> float:
        offsets = formulation.constant(np.array(targets))
        assert offsets is not None
        return formulation.decision(offsets).intercept

    other = np.where(has_second, decided(-1.0), decided())
    return np.where(has_first, decided(1.0), other)
