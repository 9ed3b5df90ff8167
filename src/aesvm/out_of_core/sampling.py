"""A weighted random sample of weighted rows: what is left where a budget cannot hold a set.

Within each group rows are drawn with a probability that is proportional to their weight, and the
drawn ones share the weight of the group: the sum over a group is that of all its rows, and so is,
in expectation, every sum over the rows. A row that outweighs its share is kept as it is.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from aesvm.out_of_core.weighted_rows import WeightedRows


def sample(rows: WeightedRows, n_drawn: int, seed: int) -> WeightedRows:
    """At most ``n_drawn`` of the rows, but one of each group; no bound on distances holds for them.

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
    total = float(rows.weights.sum())
    chosen, weights = [], []
    for group in np.unique(rows.groups):
        at = np.flatnonzero(rows.groups == group)
        own = rows.weights[at]
        n_own = max(1, int(n_drawn * (float(own.sum()) / total)))
        drawn, shares = _drawn(own, n_own, random)
        chosen.append(at[drawn])
        weights.append(shares)
    order = np.argsort(np.concatenate(chosen))
    few = rows.take(np.concatenate(chosen)[order])
    return replace(few, weights=np.concatenate(weights)[order], reach=inf)


def _drawn(
    weights: NDArray[np.float64], n_drawn: int, random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Which rows are drawn, and what each weighs."""
    if n_drawn >= len(weights):
        return np.arange(len(weights)), weights
    heaviest = np.argsort(-weights, kind="stable")
    rest = np.cumsum(weights[heaviest][::-1])[::-1]  # of each and all that are lighter
    kept = 0
    while kept < n_drawn and weights[heaviest[kept]] * (n_drawn - kept) >= rest[kept]:
        kept += 1
    as_they_are, others = heaviest[:kept], heaviest[kept:]
    n_left = n_drawn - kept
    if not n_left:
        # the lighter ones are handed on in proportion
        return as_they_are, weights[as_they_are] * (weights.sum() / weights[as_they_are].sum())
    others = random.permutation(others)
    share = float(weights[others].sum()) / n_left
    marks = share * (np.arange(n_left) + random.uniform())
    places = np.searchsorted(np.cumsum(weights[others]), marks, side="right")
    drawn, counts = np.unique(np.minimum(places, len(others) - 1), return_counts=True)
    return (
        np.concatenate([as_they_are, others[drawn]]),
        np.concatenate([weights[as_they_are], share * counts]),
    )
