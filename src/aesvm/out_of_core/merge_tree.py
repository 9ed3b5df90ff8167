"""Rows that come in chunks: a merge tree of weighted sets, two of a level making one of the next.

Sets compose. Where every row of a stream is within ``a`` (a distance in kernel space) of a convex
combination of some rows, and each of these within ``b`` of a combination of others, the first are
within ``a + b`` of combinations of the last; weights are handed on from set to set, and their sum
stays. So chunks are collected in a buffer, a full buffer is reduced to a set of level 1, two sets
of level l are merged and reduced to one of level l + 1, and at any time there is at most one set
of each level: some ``log2`` of the number of buffers. Level l may add

    sqrt(epsilon_l) = sqrt(epsilon) 6 / (pi^2 l^2)

to the distance, and since ``1/1 + 1/4 + 1/9 + ... = pi^2 / 6`` all levels together add no more than
``sqrt(epsilon)``, however many they become. What a level does not use is left to the next; and it
uses none where its sets have fewer rows than a buffer, or where over half of them would be kept:
among more rows, fewer are needed. After the last level, the rest of the tolerance is used for a
last reduction (``condensed``). The distance that all levels have added is reported.

Where a budget cannot hold the set and the tolerance may grow, it grows to a hundredth of the
squared diameter of the rows in kernel space. A set that is still too large is replaced by a random
sample (``weighted_rows.sample``), and so are all later ones. Then no bound holds, but sums over the
rows are right on average.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isinf
from typing import NamedTuple, TypeVar

import numpy as np

from aesvm.out_of_core.reducer import LevelReducer
from aesvm.out_of_core.weighted_rows import WeightedRows, joined, sample
from aesvm.runtime.warn import ParameterError

T = TypeVar("T")

#: A buffer is full when it has this many rows, or takes this fraction of the budget.
BUFFER_ROWS, BUFFER_FRACTION = 50_000, 0.25

#: By how much the tolerance grows where the budget is too small for it.
LOOSER = 4.0

#: The first tolerance tried where ``hull_tol`` is zero; and the largest, as a fraction of the
#: squared diameter of the rows in kernel space. Beyond that a random sample does better.
_SMALLEST, _LOOSEST_FRACTION = 1e-6, 0.01

#: The fraction of the budget that a sample takes: the rest is for the buffer.
_SAMPLE_FRACTION = 1.0 - BUFFER_FRACTION

#: The most chunks that a buffer holds apart from each other: each is looked at in every call.
_MOST_CHUNKS = 64

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGT", 1)}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?)B?\s*", re.IGNORECASE)


def bytes_of(budget: int | str | None) -> float:
    """A memory budget as a number of bytes: 2_000_000_000, "2 GB", "1.5 GiB", or None.

    Examples
    --------
    >>> from aesvm.out_of_core.merge_tree import bytes_of
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


def merged(
    sets: Sequence[WeightedRows], hull_tol: float, level: int | None, reduce: LevelReducer
) -> WeightedRows:
    """Several sets as one of the next level; reduced where they fill a buffer.

    Smaller sets are kept whole: their tolerance is of more use later, among more rows.
    """
    whole = joined(sets)
    return reduce(whole, hull_tol, level) if len(whole) >= BUFFER_ROWS else whole


def carried(
    levels: Iterable[T | None], value: T, merge: Callable[[list[T], int], T]
) -> list[T | None]:
    """Levels of a binary counter with another value: two of a level make one of the next.

    ``merge`` is called with two values and the level of the result. A new value has level 1.

    Examples
    --------
    >>> from aesvm.out_of_core.merge_tree import carried
    >>> carried(["a", "bc", None], "d", lambda two, level: f"({''.join(two)}){level}")
    [None, None, '(bc(ad)2)3']
    """
    after = list(levels)
    level = 0
    while level < len(after) and (resting := after[level]) is not None:
        after[level] = None
        value = merge([resting, value], level + 2)
        level += 1
    after[level : level + 1] = [value]
    return after


def folded(values: Iterable[T], merge: Callable[[list[T], int], T]) -> T:
    """Values merged two by two, level by level, as they come.

    Examples
    --------
    >>> from aesvm.out_of_core.merge_tree import folded
    >>> folded("abcde", lambda pair, level: f"({''.join(pair)})")
    '(((ab)(cd))e)'
    """
    levels: list[T | None] = []
    for value in values:
        levels = carried(levels, value, merge)
    rest = [own for own in levels if own is not None]
    whole = rest[0]
    for level, own in enumerate(rest[1:], len(levels) + 1):
        whole = merge([own, whole], level)
    return whole


def is_full(buffer: Sequence[WeightedRows], budget: float) -> bool:
    """Whether the chunks of a buffer are to be reduced before others come."""
    n_bytes = sum(chunk.n_bytes for chunk in buffer)
    return sum(map(len, buffer)) >= BUFFER_ROWS or n_bytes > BUFFER_FRACTION * budget


def buffers(chunks: Iterable[WeightedRows], budget: float) -> Iterator[WeightedRows]:
    """Chunks joined into buffers such as a merge tree reduces."""
    buffer: list[WeightedRows] = []
    for chunk in chunks:
        buffer.append(chunk)
        if is_full(buffer, budget):
            yield joined(buffer)
            buffer = []
    if buffer:
        yield joined(buffer)


class MergeTree(NamedTuple):
    """A stream so far. Taking in rows gives another tree and leaves this one as it is."""

    hull_tol: float
    budget: float  #: bytes
    loosen: bool  #: where the budget is too small, rather than refuse
    buffer: tuple[WeightedRows, ...] = ()  #: rows not yet reduced
    levels: tuple[WeightedRows | None, ...] = ()  #: at most one set of each
    n_rows: int = 0  #: seen
    samples: bool = False  #: where the budget is too small, at once: the tolerance stays

    def add(self, chunk: WeightedRows, n_rows: int, reduce: LevelReducer) -> MergeTree:
        """Take in a chunk, of ``n_rows`` rows with those of weight zero."""
        buffer = (*self.buffer, chunk) if len(chunk) else self.buffer
        if len(buffer) > _MOST_CHUNKS:
            buffer = (joined(buffer),)
        tree = self._replace(buffer=buffer, n_rows=self.n_rows + n_rows)
        if is_full(buffer, self.budget) or tree.n_bytes > self.budget:
            return tree.settled(reduce)
        return tree

    def settled(self, reduce: LevelReducer) -> MergeTree:
        """With the buffer reduced, and within the budget.

        A sample stays as it is while it fits its part of the budget; else it is drawn anew.
        """
        if not self.buffer:
            return self
        if self.sampled:
            return self if self.n_bytes <= _SAMPLE_FRACTION * self.budget else self._sample()

        def merge(two: list[WeightedRows], level: int) -> WeightedRows:
            return merged(two, self.hull_tol, level, reduce)

        levels = carried(self.levels, reduce(joined(self.buffer), self.hull_tol, 1), merge)
        return self._sampled_unless_fits(
            self._replace(buffer=(), levels=tuple(levels))._looser(reduce)
        )

    def within_budget(self, reduce: LevelReducer) -> MergeTree:
        """As it is, or all in one set; or, where that is allowed, looser, or a sample."""
        return self._sampled_unless_fits(self._looser(reduce))

    def _looser(self, reduce: LevelReducer) -> MergeTree:
        """Within the budget, or as loose as it may become."""
        if self.n_bytes <= self.budget or self.samples:
            return self
        tree = self._in_one(reduce)
        if tree.n_bytes <= tree.budget:
            return tree
        tree._check_may_loosen()
        loosest = _LOOSEST_FRACTION * reduce.squared_diameter(tree.everything())
        while tree.n_bytes > tree.budget and tree.hull_tol < loosest:
            looser = min(max(LOOSER * tree.hull_tol, _SMALLEST), loosest)
            tree = tree._replace(hull_tol=looser)._in_one(reduce)  # later rows have that as well
        return tree

    def _sampled_unless_fits(self, looser: MergeTree) -> MergeTree:
        """What became of this tree; or, where that is too much, a sample of what this one has.

        Representatives at a loose tolerance are extreme rows: a few of them would not be typical.
        """
        if looser.n_bytes <= looser.budget:
            return looser
        return self._replace(hull_tol=looser.hull_tol)._sample()

    def _check_may_loosen(self) -> None:
        """Refuse to hold less than was asked for, unless that is allowed."""
        if not self.loosen:
            raise ParameterError(
                "memory_budget",
                f"memory_budget={self.budget:,.0f} bytes cannot hold the set of the "
                f"{self.n_rows:,} rows so far, {self.n_bytes:,} bytes at "
                f"hull_tol={self.hull_tol:g}: raise either, or let "
                'on_overflow="loosen" raise hull_tol.',
            )

    @property
    def sampled(self) -> bool:
        """Whether rows were drawn at random: then no bound holds."""
        return isinf(self.reach)

    def _sample(self) -> MergeTree:
        """A random sample of all rows, with room in the budget for a buffer of others."""
        self._check_may_loosen()
        rows = self.everything()
        n_drawn = int(len(rows) * _SAMPLE_FRACTION * self.budget / rows.n_bytes)
        few = sample(rows, n_drawn, seed=self.n_rows)
        tree = self._replace(levels=(few,), buffer=())
        if tree.n_bytes > tree.budget:
            raise ParameterError(
                "memory_budget",
                f"memory_budget={tree.budget:,.0f} bytes cannot hold one row of each class, "
                f"{tree.n_bytes:,} bytes: raise it.",
            )
        return tree

    def _in_one(self, reduce: LevelReducer) -> MergeTree:
        """All in one set, of the highest level there is, so that the next carry merges with it."""
        empty: tuple[WeightedRows | None, ...] = (None,) * max(0, len(self.levels) - 1)
        whole = reduce(self.everything(), self.hull_tol, None)
        return self._replace(levels=(*empty, whole), buffer=())

    @property
    def n_bytes(self) -> int:
        return sum(own.n_bytes for own in self.sets())

    @property
    def whole(self) -> bool:
        """Whether every row stands for itself; see ``WeightedRows``."""
        return all(own.whole for own in self.sets())

    @property
    def reach(self) -> float:
        return max((own.reach for own in self.sets()), default=0.0)

    def everything(self) -> WeightedRows:
        """All representatives, in the order of the stream."""
        sets = self.sets()
        if not sets:
            raise ValueError(
                f"none of the {self.n_rows:,} rows so far has a weight: sample_weight must be "
                "positive for some."
            )
        return joined(sets)

    def condensed(self, reduce: LevelReducer) -> WeightedRows:
        """All representatives as one set, for which what is left of the tolerance is used."""
        return merged(self.sets(), self.hull_tol, None, reduce)

    def sets(self) -> list[WeightedRows]:
        """Of every level, and the buffer."""
        return [own for own in (*self.levels, *self.buffer) if own is not None]
