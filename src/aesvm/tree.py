"""Rows that come in pieces: a tree of weighted sets, two of a level making one of the next.

Sets compose. Where every row of a stream is within ``a`` (a distance in kernel space) of a convex
combination of some rows, and each of these within ``b`` of a combination of others, the first are
within ``a + b`` of combinations of the last; weights are handed on from set to set, and their sum
stays. So a piece is reduced to a set of level 1, two sets of level l are put together and reduced
to one of level l + 1, and at any time there is at most one set of each level: some ``log2`` of
the number of pieces. Level l may add

    sqrt(epsilon_l) = sqrt(epsilon) 6 / (pi^2 l^2)

to the distance, and since ``1/1 + 1/4 + 1/9 + ... = pi^2 / 6`` all levels together add no more than
``sqrt(epsilon)``, however many they become. What a level does not use is left to the next; and it
uses none where its sets have fewer rows than a piece, or where over half of them would be kept:
among more rows, fewer are needed. When no level is to follow, what is left is used for a last
reduction (``condensed``). What all have added in fact is what is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: Pieces smaller than this are collected before they are reduced; and the share of the budget that
#: they may take.
PIECE_ROWS, PIECE_SHARE = 50_000, 0.25

#: By how much the tolerance grows where the budget is too small for it.
LOOSER = 4.0

#: The tolerance that follows after none, and one that none follows.
_LEAST, _MOST = 1e-6, 1e6

#: A level that would keep more of its rows than this keeps all.
_ENOUGH = 0.5

#: So little of a tolerance reduces nothing.
_NOTHING = 1e-4

#: Pieces that wait are joined when they are so many: each is looked at in every call.
_MANY = 64

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGT", 1)}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?)B?\s*", re.IGNORECASE)


def bytes_of(budget: int | str | None) -> float:
    """A memory budget as a number of bytes: 2_000_000_000, "2 GB", "1.5 GiB", or None.

    Examples
    --------
    >>> from aesvm.tree import bytes_of
    >>> bytes_of("2 GiB")
    2147483648.0
    >>> bytes_of(None)
    inf
    """
    if budget is None:
        return np.inf
    if isinstance(budget, str):
        match = _SIZE.fullmatch(budget)
        unit = match and next((u for u in _UNITS if u.lower() == match[2].lower()), None)
        if match is None or unit is None:
            raise ValueError(
                f"memory_budget={budget!r} is not a size: use a number of bytes, or a number "
                'and a unit as in "500 MB" or "2 GiB".'
            )
        return float(match[1]) * _UNITS[unit]
    return float(budget)


@dataclass(frozen=True)
class Held:
    """Some weighted rows that stand for rows of a stream."""

    X: Any
    y: NDArray
    weights: NDArray[np.float64]
    indices: NDArray[np.int64]  #: where in the stream they are
    reach: float  #: no row they stand for is further from its combination, in kernel space
    margins: NDArray[np.float64] | None = None  #: by a model there was before, of rounds

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_bytes(self) -> int:
        rows = self.X
        parts = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)
        columns = [self.y, self.weights, self.indices, self.margins]
        return sum(part.nbytes for part in (*parts, *columns) if part is not None)

    def take(self, rows: NDArray[np.intp]) -> Held:
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            weights=self.weights[rows],
            indices=self.indices[rows],
            margins=None if self.margins is None else self.margins[rows],
        )


def together(sets: list[Held]) -> Held:
    """All rows of several sets, in the order of the stream."""
    if len(sets) == 1:
        return sets[0]
    margins = [one.margins for one in sets if one.margins is not None]
    all_rows = Held(
        stacked([one.X for one in sets]),
        np.concatenate([one.y for one in sets]),
        np.concatenate([one.weights for one in sets]),
        np.concatenate([one.indices for one in sets]),
        max(one.reach for one in sets),
        np.concatenate(margins) if margins else None,
    )
    order = np.argsort(all_rows.indices, kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return all_rows
    return all_rows.take(order)


def stacked(blocks: list[Any]) -> Any:
    """Blocks of rows, all dense or all sparse, as one."""
    sparse = sp.issparse(blocks[0])
    if any(sp.issparse(block) != sparse for block in blocks):
        raise ValueError("X is dense in some parts and sparse in others: use rows of one kind.")
    return sp.vstack(blocks, format="csr") if sparse else np.concatenate(blocks)


def level_tolerance(hull_tol: float, level: int) -> float:
    """The epsilon of a level, as a squared distance.

    Examples
    --------
    >>> from math import sqrt
    >>> from aesvm.tree import level_tolerance
    >>> sum(sqrt(level_tolerance(1.0, level)) for level in range(1, 1000)) < 1.0
    True
    """
    return hull_tol * (6.0 / (pi * level) ** 2) ** 2


def tolerance_of(hull_tol: float, level: int | None, reach: float) -> float:
    """What a set may be reduced by at a level: all that this one and those below have left.

    A level of None is the last there will be.

    Examples
    --------
    >>> from aesvm.tree import level_tolerance, tolerance_of
    >>> tolerance_of(1.0, 1, reach=0.0) == level_tolerance(1.0, 1)
    True
    >>> tolerance_of(1.0, None, reach=0.75)
    0.0625
    """
    levels = range(1, 1 + (level or 0))
    allowed = sum(sqrt(level_tolerance(hull_tol, at)) for at in levels) if level else sqrt(hull_tol)
    left = max(0.0, allowed - reach) ** 2
    return left if left > _NOTHING * hull_tol else 0.0


def enough_at(level: int | None) -> float | None:
    """The share of rows above which a level leaves its tolerance to the next; the last has none."""
    return None if level is None else _ENOUGH


#: Reduces a set at a level, of a tolerance for all levels together.
Reduce = Callable[[Held, float, int | None], Held]


def merged(sets: list[Held], hull_tol: float, level: int | None, reduce: Reduce) -> Held:
    """Several sets as one of the next level; reduced where they are as many rows as a piece.

    Fewer are no burden, and what they leave of the tolerance is of more use among more rows.
    """
    whole = together(sets)
    return reduce(whole, hull_tol, level) if len(whole) >= PIECE_ROWS else whole


class Tree(NamedTuple):
    """A stream so far. Taking in rows gives another tree and leaves this one as it is."""

    hull_tol: float
    budget: float  #: bytes
    loosen: bool  #: where the budget is too small, rather than refuse
    pending: tuple[Held, ...] = ()  #: rows not yet reduced
    levels: tuple[Held | None, ...] = ()  #: one set of each, or none
    n_rows: int = 0  #: seen

    def add(self, X: Any, y: NDArray, weights: NDArray[np.float64], reduce: Reduce) -> Tree:
        """Take in some rows."""
        n = len(weights)
        used = np.flatnonzero(weights)
        indices = np.arange(self.n_rows, self.n_rows + n, dtype=np.int64)
        held = Held(X, y, weights, indices, 0.0)
        if len(used) < n:
            held = held.take(used)
        pending = (*self.pending, held) if len(used) else self.pending
        if len(pending) > _MANY:
            pending = (together(list(pending)),)
        tree = self._replace(pending=pending, n_rows=self.n_rows + n)
        waiting = sum(len(one) for one in tree.pending)
        n_bytes = sum(one.n_bytes for one in tree.pending)
        full = n_bytes > PIECE_SHARE * self.budget or tree.n_bytes > self.budget
        if waiting >= PIECE_ROWS or full:
            tree = tree.settled(reduce)
        return tree

    def settled(self, reduce: Reduce) -> Tree:
        """With all rows reduced, and within the budget."""
        pending = [one for one in self.pending if len(one)]
        if not pending:
            return self._replace(pending=())
        carried = reduce(together(pending), self.hull_tol, 1)
        levels = list(self.levels)
        level = 0
        while level < len(levels) and (resting := levels[level]) is not None:
            levels[level] = None
            carried = merged([resting, carried], self.hull_tol, level + 2, reduce)
            level += 1
        levels[level : level + 1] = [carried]
        return self._replace(pending=(), levels=tuple(levels)).within_budget(reduce)

    def within_budget(self, reduce: Reduce) -> Tree:
        """As it is, or all in one set, or looser; an error where none of these is possible."""
        if self.n_bytes <= self.budget:
            return self
        tree = self._in_one(reduce)
        while tree.n_bytes > tree.budget:
            if not tree.loosen:
                raise ValueError(
                    f"memory_budget={tree.budget:,.0f} bytes cannot hold the set of the "
                    f"{tree.n_rows:,} rows so far, {tree.n_bytes:,} bytes at "
                    f"hull_tol={tree.hull_tol:g}: raise either, or let "
                    'on_overflow="loosen" raise hull_tol.'
                )
            if tree.hull_tol > _MOST:
                raise ValueError(
                    f"memory_budget={tree.budget:,.0f} bytes cannot hold {tree.n_bytes:,} bytes of "
                    "the stream, which no hull_tol reduces further: raise it."
                )
            looser = max(LOOSER * tree.hull_tol, _LEAST)
            tree = tree._replace(hull_tol=looser)._in_one(reduce)  # later rows have that as well
        return tree

    def _in_one(self, reduce: Reduce) -> Tree:
        """All in one set, of the highest level there is: the next carried over meets it."""
        empty: tuple[Held | None, ...] = (None,) * max(0, len(self.levels) - 1)
        whole = reduce(self.everything(), self.hull_tol, None)
        return self._replace(levels=(*empty, whole), pending=())

    @property
    def n_bytes(self) -> int:
        return sum(one.n_bytes for one in self.sets())

    @property
    def reach(self) -> float:
        return max((one.reach for one in self.sets()), default=0.0)

    def everything(self) -> Held:
        """All representatives, in the order of the stream."""
        return together(self.sets())

    def condensed(self, reduce: Reduce) -> Held:
        """All representatives as one set, for which what is left of the tolerance is used."""
        return merged(self.sets(), self.hull_tol, None, reduce)

    def sets(self) -> list[Held]:
        """Of every level, and the rows that wait."""
        return [one for one in (*self.levels, *self.pending) if one is not None]


def reached(before: Held, chosen: NDArray[np.intp], weights: NDArray, residual: float) -> Held:
    """The rows chosen of a set, with their weights, and the reach they have now."""
    reach = before.reach + sqrt(max(residual, 0.0))
    return replace(before.take(chosen), weights=weights, reach=reach)
