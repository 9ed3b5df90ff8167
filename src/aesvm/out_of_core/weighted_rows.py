"""Weighted rows that stand for rows of a stream: what is held, merged and sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        n_distinct: int,
    ) -> WeightedRows:
        """The chosen rows with new weights.

        ``residual``: the largest squared distance of a row from its combination of these;
        ``n_distinct``: how many of all rows are distinct.
        """
        reach = self.reach + float(np.sqrt(max(residual, 0.0)))
        whole = self.whole and len(chosen) == n_distinct
        return replace(self.take(chosen), weights=weights, reach=reach, whole=whole)


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
    )
    order = np.argsort(rows.indices, kind="stable")
    return rows if np.array_equal(order, np.arange(len(order))) else rows.take(order)


def stacked(blocks: list[Any]) -> Any:
    """Blocks of rows, all dense or all sparse, as one."""
    sparse = sp.issparse(blocks[0])
    if any(sp.issparse(block) != sparse for block in blocks):
        raise ValueError("X is dense in some parts and sparse in others: use rows of one kind.")
    return sp.vstack(blocks, format="csr") if sparse else np.concatenate(blocks)
