"""A weighted random sample of weighted rows: what is left where a budget cannot hold a set.

A row so heavy that it would be drawn for certain is kept, with its weight. The other places go to
the groups, in proportion to what their other rows weigh. Within a group, rows are drawn with a
probability proportional to their weight, and all drawn rows get the same weight. The summed weight
of a group stays what it was. So does, in expectation, every sum over the rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from aesvm.out_of_core.weighted_rows import WeightedRows


def sample(rows: WeightedRows, n_drawn: int, seed: int) -> WeightedRows:
    """At most ``n_drawn`` of the rows, or one of each group if that is more.

    No bound on distances holds for them.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.out_of_core.sampling import sample
    >>> from aesvm.out_of_core.weighted_rows import WeightedRows
    >>> classes = np.repeat([0, 1], [90, 10])
    >>> rows = WeightedRows(np.eye(100), classes, classes, np.ones(100), np.arange(100), 0.0)
    >>> few = sample(rows, 20, seed=0)
    >>> [float(few.weights[few.groups == group].sum()) for group in (0, 1)]
    [90.0, 10.0]
    """
    random = np.random.default_rng(seed)
    heavy = _is_certain(rows.weights, n_drawn)
    n_left = n_drawn - int(np.count_nonzero(heavy))
    light = np.where(heavy, 0.0, rows.weights)
    total = float(light.sum())
    weights = np.where(heavy, rows.weights, 0.0)
    for group in np.unique(rows.groups):
        own = rows.groups == group
        kept, others = np.flatnonzero(own & heavy), np.flatnonzero(own & ~heavy)
        left = float(light[others].sum())
        if not left:
            continue
        n_own = max(0 if len(kept) else 1, int(n_left * (left / total)))
        if n_own:
            drawn, each = _drawn(rows.weights[others], n_own, random)
            weights[others[drawn]] = each
        else:  # handed on to the heavy ones, in proportion
            weights[kept] *= 1.0 + left / float(rows.weights[kept].sum())
    chosen = np.flatnonzero(weights)
    return replace(rows.take(chosen), weights=weights[chosen], reach=inf, whole=False)


def _is_certain(weights: NDArray[np.float64], n_drawn: int) -> NDArray[np.bool_]:
    """Rows so heavy that they are among ``n_drawn`` drawn rows for certain."""
    heaviest = np.argsort(-weights, kind="stable")
    rest = np.cumsum(weights[heaviest][::-1])[::-1]  # of each and all that are lighter
    kept = 0
    while kept < min(n_drawn, len(weights)):
        if weights[heaviest[kept]] * (n_drawn - kept) < rest[kept]:
            break
        kept += 1
    heavy = np.zeros(len(weights), dtype=bool)
    heavy[heaviest[:kept]] = True
    return heavy


def _drawn(
    weights: NDArray[np.float64], n_drawn: int, random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Which rows are drawn, and what each weighs."""
    if n_drawn >= len(weights):
        return np.arange(len(weights)), weights
    order = random.permutation(len(weights))
    each = float(weights.sum()) / n_drawn
    marks = each * (np.arange(n_drawn) + random.uniform())
    places = np.searchsorted(np.cumsum(weights[order]), marks, side="right")
    drawn, counts = np.unique(np.minimum(places, len(order) - 1), return_counts=True)
    return order[drawn], each * counts.astype(np.float64)
