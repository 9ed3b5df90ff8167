"""Random samples, their SVMs as SVMs of all rows, and the best point between two SVMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from aesvm.certificate.records import Record, Records
from aesvm.formulations.objective import Objective, arrays, only, worst_optimum
from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.machines.problem import Problem
from aesvm.machines.results import Terms, TrainedMachines
from aesvm.sets.derive import PreparedRows

#: Rows of a sample in each group of rows, at least.
_LEAST_OF_GROUP = 10

#: The rows that judge the SVM of a sample: this fraction of the sample's number, and the least.
_JUDGES, _LEAST_JUDGES = 0.125, 4000

#: A machine this close to an end of a line is the end, which has fewer vectors.
_NEAR_END = 0.02

#: The best multiple of a w is looked for from e to the first of these to e to the second. (The w of
#: n of N rows is up to some N / n times too short, where nearly all multipliers are at their
#: bounds: e to 5 is 148. It is too long only by the noise that it has learned.) Its logarithm is
#: found to ``_NEAR_BEST``.
_LOG_MULTIPLES = -1.0, 5.0
_NEAR_BEST = 0.02


class WholeMachine(NamedTuple):
    """A machine of a sample, as a machine of all rows."""

    record: Record
    decided: tuple[NDArray, Array]  #: its vectors, and their coefficients in the decision
    intercept: float
    multipliers: tuple[NDArray, Array]  #: rows, and their multipliers

    @classmethod
    def one(cls, trained: TrainedMachines, number: int, record: Record) -> WholeMachine:
        """One of several, as it is."""
        decided, lifted = trained.decisions.one(number), trained.multipliers.one(number)
        return cls(record, decided, float(trained.intercept[number]), lifted)


def together(found: Sequence[WholeMachine], trained: TrainedMachines) -> TrainedMachines:
    """These machines, in place of those that they came from."""
    return trained._replace(
        decisions=Terms.of(one.decided for one in found),
        intercept=np.array([one.intercept for one in found]),
        multipliers=Terms.of(one.multipliers for one in found),
        records=Records.of([one.record for one in found]),
    )


class RowTotals(NamedTuple):
    """All rows of a machine in numbers."""

    n_rows: int
    total_cost: float
    worst_optimum: float

    @classmethod
    def of(cls, formulation: Formulation, problem: Problem) -> RowTotals:
        bounds = problem.bounds
        worst = worst_optimum(formulation, problem.targets, bounds)
        return cls(len(problem.rows), float(bounds.sum()), worst)


def as_whole(
    formulation: Formulation, totals: RowTotals, made: WholeMachine, times_costs: float
) -> WholeMachine:
    """A machine of a sample, whose costs were multiplied, as a machine of all rows.

    Its multipliers are not feasible for the dual of all rows yet (``feasible``).
    """
    record, (rows, decided) = made.record, made.decided
    if not record.n_rows:  # there was nothing to learn
        return made
    total = totals.total_cost
    ratio, offsets = total / record.total_cost, record.offsets
    scale = formulation.decision(offsets).scale
    times = ratio if formulation.is_homogeneous else 1.0  # w and offsets grow with the costs
    if formulation.is_homogeneous:
        offsets = tuple(times * one for one in offsets)
    decision = formulation.decision(offsets)
    dual = None
    if record.dual_objective is not None:  # of the sample, its rows standing for all
        gain = record.dual_objective + 0.5 * record.squared_norm
        dual = float(formulation.dual_value(ratio * gain, ratio**2 * record.squared_norm))
    own = replace(
        record,
        exact=False,
        n_rows=totals.n_rows,
        n_vectors=len(rows),
        squared_norm=times**2 * record.squared_norm,
        rounding=0.0,
        loss=None,
        loss_reduced=None,
        total_cost=total,
        worst_optimum=totals.worst_optimum,
        squared_norm_bound=formulation.squared_norm_bound(total, totals.worst_optimum),
        offsets=offsets,
        dual_objective=None,
        estimated_dual=dual,
        violators=None,
        proof_rounding=0.0,
        proven=False,
    )
    coefs = times * scale * decided
    given, values = made.multipliers
    return WholeMachine(
        own,
        (rows, coefs / decision.scale),
        float(decision.intercept),
        (given, times / times_costs * values),
    )


def best_multiple(
    formulation: Formulation, judge: Objective, made: WholeMachine, scores: Array
) -> tuple[WholeMachine, Array]:
    """A machine with the best multiple of its w, and its scores, by the rows that judge.

    w is too short, or too long, for all rows: it was learned from some. A few digits are enough.
    """
    record, (rows, decided) = made.record, made.decided

    def value(log_multiple: float) -> float:
        t = exp(log_multiple)
        loss = judge.loss(t * scores, judge.best_offsets(t * scores))
        return 0.5 * t * t * record.squared_norm + float(loss[0])

    if not 0.0 < record.squared_norm < inf:
        return made, scores
    found = minimize_scalar(
        value, bounds=_LOG_MULTIPLES, method="bounded", options={"xatol": _NEAR_BEST}
    )
    t = exp(found.x) if found.fun < value(0.0) else 1.0
    offsets = only(judge.best_offsets(t * scores))
    before, now = formulation.decision(record.offsets), formulation.decision(offsets)
    scaled = WholeMachine(
        replace(record, squared_norm=t * t * record.squared_norm, offsets=offsets),
        (rows, t * before.scale * decided / now.scale),
        float(now.intercept),
        made.multipliers,
    )
    return scaled, t * scores


def feasible(formulation: Formulation, problem: Problem, made: WholeMachine) -> WholeMachine:
    """A machine whose multipliers are feasible for the dual of all rows."""
    given, values = made.multipliers
    multipliers = np.zeros(len(problem.rows))
    multipliers[np.searchsorted(problem.rows, given)] = values
    multipliers = formulation.feasible(multipliers, problem.targets, problem.bounds)
    held = np.flatnonzero(multipliers)
    return made._replace(multipliers=(problem.rows[held].astype(np.int32), multipliers[held]))


class Line(NamedTuple):
    """The machines ``(1 - t) (w, b) + t (w', b')`` from one to another, and F on judges."""

    judge: Objective
    products: tuple[float, float, float]  #: ``|w|^2``, ``<w, w'>`` and ``|w'|^2``
    ends: tuple[Offsets, Offsets]
    scores_of_ends: tuple[Array, Array]

    def squared_norm(self, t: float) -> float:
        own, product, other = self.products
        s = 1.0 - t
        return max(s * s * own + 2.0 * s * t * product + t * t * other, 0.0)

    def offsets(self, t: float) -> Offsets:
        return tuple((1.0 - t) * a + t * b for a, b in zip(*self.ends, strict=True))

    def scores(self, t: float) -> Array:
        own, other = self.scores_of_ends
        return (1.0 - t) * own + t * other

    def value(self, t: float) -> float:
        """F, which is convex in t."""
        loss = self.judge.loss(self.scores(t), arrays(self.offsets(t)))
        return 0.5 * self.squared_norm(t) + float(loss[0])

    def lowest(self) -> float:
        """The t from 0 to 1 where F is smallest; an end where that is near.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.formulations.hinge import Hinge
        >>> from aesvm.formulations.objective import Objective
        >>> from aesvm.machines.samples import Line
        >>> judge, scores = Objective(Hinge(), np.array([1.0, -1.0]), np.ones(2)), np.zeros(2)
        >>> line = Line(judge, (1.0, 0.0, 1.0), ((0.0,), (0.0,)), (scores, scores))
        >>> round(line.lowest(), 3)  # the middle of two w of the same length is the shortest
        0.5
        """
        t = float(minimize_scalar(self.value, bounds=(0.0, 1.0), method="bounded").x)
        return round(t) if min(t, 1.0 - t) < _NEAR_END else t


def sum_of(
    shares: Sequence[float], rows: Sequence[NDArray], coefs: Sequence[Array]
) -> tuple[NDArray[np.int32], Array]:
    """Multiples of sums over rows, added up: each row once.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.samples import sum_of
    >>> sum_of((0.5, 2.0), (np.array([1, 2]), np.array([0, 2])), (np.ones(2), np.ones(2)))
    (array([0, 1, 2], dtype=int32), array([2. , 0.5, 2.5]))
    """
    every, at = np.unique(np.concatenate(rows), return_inverse=True)
    values = np.concatenate([share * own for share, own in zip(shares, coefs, strict=True)])
    sums = np.bincount(at, values, len(every)).astype(np.float64)
    return every.astype(np.int32), sums


def n_judges(n_rows: int) -> int:
    """By how many rows the machines of a sample are judged.

    Examples
    --------
    >>> from aesvm.machines.samples import n_judges
    >>> n_judges(2000), n_judges(64_000)
    (4000, 8000)
    """
    return max(_LEAST_JUDGES, int(_JUDGES * n_rows))


def shuffled(prepared: PreparedRows, random: np.random.Generator) -> PreparedRows:
    """The same, with the rows of each group in random order: samples are of the first."""
    return prepared._replace(groups=[random.permutation(own) for own in prepared.groups])


def sample(prepared: PreparedRows, n_rows: int, first: int = 0) -> PreparedRows:
    """A random sample of the rows, whose weights stand for all of them.

    Groups have the shares that they have of all rows: small ones, of which more rows are taken, by
    their weights. Rows that make up a large share of the weight of their group are all taken, with
    the weights that they have; the others stand for each other. The weights add up to that of all
    rows, times the sample's share of the rows. A larger sample with the same ``first`` holds the
    smaller ones, where no row is so heavy.

    Parameters
    ----------
    prepared : PreparedRows
        With groups in random order (``shuffled``).
    n_rows : int
    first : int, default=0
        The rows before this one, in that order, are taken only where there are not enough others.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.samples import sample
    >>> from aesvm.sets.derive import prepare
    >>> groups = np.repeat([0, 1], [90, 60])
    >>> prepared = prepare(np.arange(150.0)[:, None], groups, np.ones(150))
    >>> chosen = sample(prepared, 50)  # in the order that they have
    >>> [len(own) for own in chosen.groups], float(chosen.weights[:90].sum())
    ([30, 20], 30.0)
    >>> sample(prepared, 50, first=50).groups[1][:3]
    array([110, 111, 112])
    """
    n_all, weights = len(prepared.rows), np.zeros(len(prepared.weights))
    groups = []
    for own in prepared.groups:
        size = min(len(own), max(_LEAST_OF_GROUP, -(-n_rows * len(own) // n_all)))
        given = prepared.weights[own]
        is_heavy = heavy_rows(given, size)
        heavy, others = own[is_heavy], own[~is_heavy]
        light = np.roll(others, -(first * len(others) // n_all))[: size - len(heavy)]
        groups.append(np.sort(np.concatenate([heavy, light])))
        weights[heavy] = given[is_heavy]
        share = given[~is_heavy].sum() / prepared.weights[light].sum()
        weights[light] = share * prepared.weights[light]
    rows = np.sort(np.concatenate(groups))
    weights *= len(rows) / n_all
    return prepared._replace(rows=rows, weights=weights, groups=groups)


def heavy_rows(weights: Array, size: int) -> NDArray[np.bool_]:
    """Rows that would be in a sample of this size once or more, if it were drawn by weight.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.samples import heavy_rows
    >>> heavy_rows(np.array([1.0, 1.0, 50.0, 2.0, 1.0]), 3)
    array([False, False,  True, False, False])
    """
    is_heavy = np.zeros(len(weights), dtype=bool)
    while True:
        left = size - np.count_nonzero(is_heavy)
        more = ~is_heavy & (weights * left > weights[~is_heavy].sum())
        if not more.any():
            return is_heavy
        is_heavy |= more
