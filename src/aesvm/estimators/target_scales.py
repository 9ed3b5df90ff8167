"""Targets on a scale that C is too small for: a warning of regressions.

No coefficient of a regression is larger than C times the weight of its row. Where targets are so
large that nearly all coefficients are at that bound, and predictions still hardly move, the model
is little more than a constant: the fault of C, and not of the rows.

Where there is nothing to learn (targets that are noise) a model is a constant as well, and C has
no part in it. To tell one from the other let L(t) be the loss of t w, at the offsets that are best
for it: L is convex, and as w is optimal, its slope at t = 1 is -|w|^2. So the model has lowered the
loss by L(0) - L(1) >= |w|^2. The two are equal where L is a straight line, so that a larger C would
lower the loss by as much again; |w|^2 is the smaller one by far where L has flattened out.
"""

from __future__ import annotations

import numpy as np

from aesvm.formulations.objective import best_offsets
from aesvm.formulations.protocol import AT_BOUND, Array
from aesvm.formulations.tube import Tube
from aesvm.machines.problem import Machine
from aesvm.runtime.warn import warn

#: Of the weight of all rows, or of what nu allows: the share at the bound that is nearly all.
_NEARLY_ALL = 0.95

#: A model whose loss is more than this share of the constant's is hardly better than that.
_HARDLY_BETTER = 0.9

#: |w|^2, as a share of what the loss was lowered by, from which C is what holds the model back.
_STRAIGHT = 0.9

#: Scores that differ by less, as a share of the coefficients, are the same but for rounding.
_ROUNDING = 1e-12


def warn_of_targets(machine: Machine, tube: Tube) -> None:
    """Say where C is too small for the targets of a regression."""
    if is_held_back(machine, tube):
        warn(
            f"C={machine.set.costs.max():g} is too small for targets with a standard deviation of "
            f"{tube.spread:.3g}: nearly all support vectors are at their bound, and the model is "
            "hardly better than a constant. Raise C, or scale y, for instance with "
            "sklearn.compose.TransformedTargetRegressor(model, transformer=StandardScaler())."
        )


def is_held_back(machine: Machine, tube: Tube) -> bool:
    """Whether a regression is hardly better than a constant, and would be with a larger C."""
    own, scores = machine.set, machine.scores
    if machine.solution is None or not machine.solution.converged:
        return False
    bounds, sizes = own.bounds, np.abs(machine.coefs)
    most = sum(tube.slopes(float(bounds.sum()))) or float(bounds.sum())
    at_bound = sizes >= (1.0 - AT_BOUND) * bounds
    if bounds[at_bound].sum() < _NEARLY_ALL * most:
        return False
    if np.ptp(scores) <= _ROUNDING * sizes.sum():
        return False
    before, now = (_losses(tube, at, own.targets, bounds) for at in (0.0 * scores, scores))
    lowered = float((before - now).sum())  # row by row: both sums may be far larger
    if lowered > (1.0 - _HARDLY_BETTER) * float(before.sum()):
        return False
    return machine.squared_norm > _STRAIGHT * lowered


def _losses(tube: Tube, scores: Array, targets: Array, bounds: Array) -> Array:
    """What each row adds to F beside ``1/2 |w|^2``, at the best offsets."""
    offsets = best_offsets(tube, scores, targets, bounds)
    losses = bounds * tube.losses(tube.positions(scores, targets, offsets))
    total_cost = float(bounds.sum())
    linear = sum(one * at for one, at in zip(tube.slopes(total_cost), offsets, strict=True))
    return losses + bounds * (linear / total_cost)
