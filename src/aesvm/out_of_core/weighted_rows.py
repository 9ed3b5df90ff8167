"""Weighted rows that stand for rows of a stream: what is held, merged and sent.

Where a budget cannot hold a set, a weighted random ``sample`` of it is left. A row so heavy that it
would be drawn for certain is kept, with its weight. The other places go to the groups, in
proportion to what their other rows weigh. Within a group, rows are drawn with a probability
proportional to their weight, and all drawn rows get the same weight. The summed weight of a group
stays what it was. So does, in expectation, every sum over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


@dataclass(frozen=True)
class WeightedRows:
    """Some rows, each with its weight, that stand for rows of a stream."""

    X: Any
    targets: NDArray  #: what is to be learned: the classes, of a classifier
    groups: NDArray  #: rows of different groups never stand for each other. Of a classifier these
    #: are the classes, the very array: it is kept, counted and sent once
    weights: NDArray[np.float64]
    indices: NDArray[np.int64]  #: where in the stream they are
    reach: float  #: no row they stand for is further from its combination, in kernel space
    positions: NDArray[np.float64] | None = None  #: on the axis of the loss, by the model before
    #: Whether every row stands for itself, and for rows equal to it. That does not follow from a
    #: reach of zero: combinations of other rows may be that near.
    whole: bool = False
    slack: float = 0.0  #: what rounding may add to ``reach``

    @classmethod
    def of_chunk(
        cls, X: Any, targets: NDArray, weights: NDArray[np.float64], groups: NDArray
    ) -> WeightedRows:
        """The rows of a chunk, numbered from zero, each of which stands for itself."""
        indices = np.arange(len(weights), dtype=np.int64)
        return cls(X, targets, groups, weights, indices, 0.0, whole=True)

    def of_stream(self, first: int) -> WeightedRows:
        """The rows of non-zero weight, as part of a stream where the first has number ``first``.

        They are copies: a caller may use the memory of a chunk again.
        """
        used = np.flatnonzero(self.weights)
        return replace(self.take(used), indices=first + self.indices[used])

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_bytes(self) -> int:
        rows = self.X
        parts = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)
        own = [self.targets, self.weights, self.indices, self.positions]
        if self.groups is not self.targets:
            own.append(self.groups)
        return sum(part.nbytes for part in (*parts, *own) if part is not None)

    def take(self, rows: NDArray[np.intp]) -> WeightedRows:
        """Some of the rows, in the given order."""
        targets = self.targets[rows]
        return replace(
            self,
            X=self.X[rows],
            targets=targets,
            groups=targets if self.groups is self.targets else self.groups[rows],
            weights=self.weights[rows],
            indices=self.indices[rows],
            positions=None if self.positions is None else self.positions[rows],
        )

    def columns(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """Copies of the rows, their targets and weights."""
        return self.X.copy(), self.targets.copy(), self.weights.copy()

    def represented_by(
        self,
        chosen: NDArray[np.intp],
        weights: NDArray[np.float64],
        residual: float,
        off: float,
        n_distinct: int,
    ) -> WeightedRows:
        """The chosen rows with new weights.

        ``residual``: the largest squared distance of a row from its combination of these;
        ``off``: what residuals are off by, at most, through rounding;
        ``n_distinct``: how many of all rows are distinct.
        """
        itself = len(chosen) == n_distinct
        distance = sqrt(max(residual, 0.0))
        more = 0.0 if itself else sqrt(max(residual, 0.0) + off) - distance
        return replace(
            self.take(chosen),
            weights=weights,
            reach=self.reach + distance,
            whole=self.whole and itself,
            slack=self.slack + more,
        )


class GatheredRows(NamedTuple):
    """Representatives of all rows, and the tolerance they were gathered at.

    ``memory_budget`` may have raised that tolerance above the one that was asked for.
    """

    rows: WeightedRows
    hull_tol: float


def joined(sets: Sequence[WeightedRows]) -> WeightedRows:
    """All rows of several sets, in the order of the stream."""
    if len(sets) == 1:
        return sets[0]
    positions = [own.positions for own in sets if own.positions is not None]
    targets = np.concatenate([own.targets for own in sets])
    same = all(own.groups is own.targets for own in sets)
    rows = WeightedRows(
        stacked([own.X for own in sets]),
        targets,
        targets if same else np.concatenate([own.groups for own in sets]),
        np.concatenate([own.weights for own in sets]),
        np.concatenate([own.indices for own in sets]),
        max(own.reach for own in sets),
        np.concatenate(positions) if positions else None,
        all(own.whole for own in sets),
        max(own.slack for own in sets),
    )
    order = np.argsort(rows.indices, kind="stable")
    return rows if np.array_equal(order, np.arange(len(order))) else rows.take(order)


def stacked(blocks: list[Any]) -> Any:
    """Blocks of rows, all dense or all sparse, as one."""
    sparse = sp.issparse(blocks[0])
    if any(sp.issparse(block) != sparse for block in blocks):
        raise ValueError("X is dense in some parts and sparse in others: use rows of one kind.")
    return sp.vstack(blocks, format="csr") if sparse else np.concatenate(blocks)


def sample(rows: WeightedRows, n_drawn: int, seed: int) -> WeightedRows:
    """At most ``n_drawn`` of the rows, or one of each group if that is more.

    No bound on distances holds for them.
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
