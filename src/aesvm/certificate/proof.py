"""The proof of a certificate: objective and dual in double precision, with bounds on rounding.

With the primal objective F at ``(w, b)`` and the dual D at any feasible multipliers ``a``,

    D(a)  <=  the optimum  <=  F(w, b).

Both are sums over rows of kernel values that were rounded. Let each score ``<w, z_i>`` be off by at
most ``e``, and let the coefficients of w add up to A in magnitude. Then ``1/2 |w|^2`` is off by at
most ``e A / 2``. The loss of a row has slopes between -1 and 1, so it is off by at most ``e``, and
not at all where the row pays nothing even ``e`` nearer to its kink. ``rounding_of_sum`` bounds what
adding up terms does. In the dual the norm is taken as large as it can be; what the multipliers'
sums may be off by is subtracted.

All machines are proven alike: their rows lie one after another in arrays (``Segments``), and a
single machine is one segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.objective import Objective, OffsetArrays, arrays
from aesvm.formulations.protocol import Array, Offsets
from aesvm.kernels import KernelMatrix
from aesvm.kernels.expansion import n_additions, rounding_of_sum
from aesvm.solver.small import SAME_SUM

#: The rounding of a squared norm summed from half of its terms, in that of scores.
_OF_HALVES = 4.0

#: Kernel values are taken to be right to this fraction, where a squared norm came out negative.
_NINE_DIGITS = 1e-9


class PrimalPoint(NamedTuple):
    """The ``w = sum_i coef_i z_i`` and the offsets of machines."""

    scores: Array  #: ``<w, z_i>`` of the rows
    coefs: Array  #: of the rows
    offsets: OffsetArrays
    rounding: Array  #: what a score of each machine is off by, at most


class DualPoint(NamedTuple):
    """Feasible multipliers of machines, as signed coefficients of their rows."""

    coefs: Array
    squared_norm: Array  #: of each machine's ``sum_i coef_i z_i``
    rounding: Array  #: of that, for coefficients whose magnitudes add up to one
    largest: Array  #: no kernel value of the machine's rows is larger


class Primal(NamedTuple):
    """The primal objective of machines."""

    squared_norm: Array
    loss: Array  #: F without ``1/2 |w|^2``
    rounding: Array  #: what F is off by, at most
    positions: Array  #: of the rows, on the axis of the loss


class Proof(NamedTuple):
    """The numbers of certificates, arrays over machines."""

    squared_norm: Array
    loss: Array
    dual: Array | None  #: a lower bound on the optimum; None with an indefinite kernel
    n_violators: NDArray[np.intp]
    rounding: Array  #: what the primal objective is off by, at most


def primal_of(objective: Objective, point: PrimalPoint, n_terms: int) -> Primal:
    """The primal objective at a point.

    ``n_terms``: costs of a machine, at most; those of equal rows were added up.
    """
    formulation, segments, bounds = objective.formulation, objective.segments, objective.bounds
    scores, coefs, offsets, off = point
    positions = objective.positions(scores, offsets)
    losses = formulation.losses(positions)
    by_offsets = objective.linear(tuple(np.abs(own) for own in offsets))
    terms, paid = coefs * scores, segments.sum(bounds * losses)
    # what each loss is the difference of, and its own size
    parts = np.abs(scores) + formulation.largest_gain(objective.targets)
    parts += np.abs(positions) + losses + segments.spread(np.abs(offsets).sum(axis=0))
    near = segments.spread(off) + rounding_of_sum(0, parts)
    can_pay = np.where(formulation.far_away(positions, near), 0.0, bounds)
    rounding = (
        off * (segments.sum(can_pay) + 0.5 * segments.sum(np.abs(coefs)))
        + rounding_of_sum(segments.sum(coefs != 0.0), segments.sum(np.abs(terms)))
        + rounding_of_sum(n_terms, paid + by_offsets, segments.sum(losses))
        + rounding_of_sum(0, segments.sum(can_pay * parts))
    )
    loss = paid + objective.linear(offsets)
    return Primal(segments.sum(terms), loss, rounding, positions)


def dual_bound(objective: Objective, point: DualPoint, n_terms: int) -> Array:
    """What the dual objective is at least: a lower bound on the optimum of each machine."""
    formulation, segments, targets = objective.formulation, objective.segments, objective.targets
    sizes, gains = np.abs(point.coefs), formulation.largest_gain(targets)
    total = segments.sum(sizes)
    norm = point.squared_norm + point.rounding * total * total
    longest = np.sqrt(np.maximum(norm, 0.0) * point.largest)  # no score is larger
    norm = norm + rounding_of_sum(segments.sum(sizes != 0.0), total * longest)
    value = formulation.dual_value(segments.sum(formulation.gain(point.coefs, targets)), norm)
    # the sums that the dual holds are right to this: had they been moved, it would be less
    moved = SAME_SUM * total + rounding_of_sum(n_terms, total)
    value -= moved * (segments.largest(gains) + longest)
    return value - rounding_of_sum(n_terms, segments.sum(gains * sizes) + norm)


def prove(
    objective: Objective,
    point: PrimalPoint,
    multipliers: Array,
    dual_point: DualPoint | None,
    n_terms: int,
    tol: Array,
) -> Proof:
    """What certificates say of machines.

    - ``multipliers``: coefficients of all rows that are feasible for the dual.
    - ``dual_point``: these, or others with a better dual; None where the kernel is not positive
      semidefinite.
    - ``n_terms``: as ``primal_of`` has it.
    - ``tol``: by how much a position must contradict a multiplier to be counted, of each machine.
    """
    primal, segments = primal_of(objective, point, n_terms), objective.segments
    violates = objective.formulation.violates(
        primal.positions, multipliers, objective.bounds, segments.spread(tol)
    )
    return Proof(
        primal.squared_norm,
        primal.loss,
        None if dual_point is None else dual_bound(objective, dual_point, n_terms),
        segments.sum(violates).astype(np.intp),
        primal.rounding,
    )


def prove_machine(
    values: KernelMatrix,
    is_definite: bool,
    rows: NDArray[np.intp],
    objective: Objective,
    support: NDArray[np.intp],
    support_coefs: Array,
    offsets: Offsets,
    multipliers: Array,
    tol: float,
    run: Callable,
    dual_coefs: Array | None = None,
    n_summed: int = 0,
) -> Proof:
    """What a certificate says of one machine, from kernel values computed anew.

    Training sums up kernel values in single precision where that is enough, and updates scores
    iteration by iteration. Neither is precise enough for a bound.

    ``support``, ``support_coefs`` and ``offsets`` are the machine, ``rows`` all of its rows,
    ascending. Kernel ``values`` are as precise as there are.

    - ``multipliers``: coefficients of all rows that are feasible for the full dual.
    - ``dual_coefs``: others, where these have a better dual.
    - ``tol``: by how much a position must contradict a multiplier to be counted.
    - ``n_summed``: rows before equal ones were put together, where these are more than the kernel
      matrix has.
    """
    scores = values.scores(support, support_coefs, rows, run)
    coefs = np.zeros(len(rows))
    coefs[np.searchsorted(rows, support)] = support_coefs
    point = None
    if is_definite:
        best = multipliers if dual_coefs is None else dual_coefs
        held = np.flatnonzero(best)
        at, own = rows[held], best[held]
        same = np.array_equal(best, coefs)
        norm = float(coefs @ scores) if same else values.squared_norm(at, own, run)
        # in sums over half of the values, doubled, terms are larger than scores are
        rounding = (1.0 if same else _OF_HALVES) * score_rounding(values, at)
        point = DualPoint(best, *arrays((norm, rounding, values.bound(at))))
    off = float(np.abs(support_coefs).sum()) * score_rounding(values, rows)
    primal_point = PrimalPoint(scores, coefs, arrays(offsets), np.array([off]))
    n_terms = max(values.n_rows, n_summed)
    return prove(objective, primal_point, multipliers, point, n_terms, np.array([tol]))


def score_rounding(values: KernelMatrix, rows: NDArray[np.intp]) -> float:
    """What ``sum_i coef_i K_ij`` is off by, for coefficients whose magnitudes add up to one."""
    unit = 0.5 * float(np.finfo(np.float64).eps)
    return values.rounding(rows) + n_additions(len(rows)) * unit * values.bound(rows)


def negative_norm(squared_norm: Any, total: Any, largest: Any) -> Any:
    """What a negative squared norm can be off by, if kernel values are right to nine digits.

    ``total``: of the magnitudes of the coefficients; ``largest``: no kernel value is larger. Zero
    where the norm is not negative.
    """
    return np.where(squared_norm < 0.0, _NINE_DIGITS * total * total * largest, 0.0)
