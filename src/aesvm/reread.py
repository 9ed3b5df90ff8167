"""A source that can be read again: its rows are asked for more than their representatives.

It is read in pieces, twice in a round: once to look, once to stratify. In between, the scores of
all rows are kept, 16 bytes for each row and pair of classes that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aesvm import tree
from aesvm.base import Progress
from aesvm.gathered import check_budget
from aesvm.parts import (
    Cut,
    PairSVMs,
    Scores,
    Seen,
    Strata,
    look,
    merged_looks,
    merged_strata,
    part_of,
    score,
    stratify,
)
from aesvm.source import digest, read
from aesvm.streaming import valid_rows
from aesvm.tree import Held, bytes_of, together

T = TypeVar("T")


class Reread:
    """The rows of a source, one of the places of ``gathered``.

    Parameters
    ----------
    estimator : AESVC
        Has taken in the source once.
    source : iterable of (X, y, sample_weight)
    run : callable
        A parallel ``map``.
    progress : Progress
    n_rows : int
        That it had at first.
    digests : iterable of int
        Of its chunks, as they were then; none where they are not known.
    """

    def __init__(
        self,
        estimator: Any,
        source: Iterable,
        run: Any,
        progress: Progress,
        n_rows: int,
        digests: Iterable[int],
    ) -> None:
        self.estimator = estimator
        self.source = source
        self.run = run
        self.progress = progress
        self.n_rows = n_rows
        self.digests: list[int] = list(digests)  # of the chunks, where they are known
        self.scores: list[dict[int, Scores]] = []

    def look(self, machines: PairSVMs) -> dict[int, Seen]:
        """What each pair's SVM says of its rows."""
        settings = self.estimator._representative_set(self.estimator.hull_tol)
        self.scores = []
        seen: dict[int, Seen] = {}
        quiet = self.progress.quietly()
        for rows in self._pieces("look"):
            part = part_of(settings, rows, settings.hull_tol, self.run, quiet)
            self.scores.append(score(part, machines, self.estimator._kernel_for, self.run))
            seen = merged_looks([seen, look(part, self.scores[-1], machines)])
        return seen

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, Strata]:
        """Rows near the margin, and sets of the others, of the SVMs looked with last."""
        reduce = self.estimator._reducer(self.run, self.progress)
        settings = self.estimator._representative_set(0.0)  # equal rows as one, no more
        budget = bytes_of(self.estimator.memory_budget)

        def of_pieces() -> Iterator[dict[int, Strata]]:
            pieces = zip(self._pieces("stratify"), self.scores, strict=True)
            for rows, scores in pieces:
                part = part_of(settings, rows, 0.0, self.run, self.progress.quietly())
                yield stratify(part, scores, cuts, hull_tol, reduce)

        def merge(several: list[dict[int, Strata]], level: int) -> dict[int, Strata]:
            merged = merged_strata(several, level, hull_tol, reduce)
            check_budget(merged, budget, hull_tol)
            return merged

        strata = merged_strata([folded(of_pieces(), merge)], None, hull_tol, reduce)
        check_budget(strata, budget, hull_tol)
        return strata

    def _pieces(self, name: str) -> Iterator[Held]:
        """All rows, in pieces such as the first pass reduced."""
        share = tree.PIECE_SHARE * bytes_of(self.estimator.memory_budget)
        waiting: list[Held] = []
        n_rows = 0
        for rows, labels, weights in self._chunks(name):
            indices = np.arange(n_rows, n_rows + len(labels), dtype=np.int64)
            n_rows += len(labels)
            waiting.append(Held(rows, labels, weights, indices, 0.0))
            n_bytes = sum(one.n_bytes for one in waiting)
            if sum(map(len, waiting)) >= tree.PIECE_ROWS or n_bytes > share:
                yield together(waiting)
                waiting = []
        if waiting:
            yield together(waiting)

    def _chunks(self, name: str) -> Iterator[tuple[Any, NDArray, NDArray[np.float64]]]:
        """All chunks; an error where they are not those of before."""
        known = self.digests
        found: list[int] = []
        n_rows = 0
        for X, y, sample_weight in read(self.source, name, self.progress):
            if not np.shape(X)[0]:
                continue
            rows, labels, weights = valid_rows(self.estimator, X, y, sample_weight, reset=False)
            n_rows += len(labels)
            found.append(digest(rows, labels, weights))
            same = not known or (len(found) <= len(known) and found[-1] == known[len(found) - 1])
            if n_rows > self.n_rows or not same:
                raise ValueError(self._changed(n_rows))
            yield rows.copy(), labels.copy(), weights  # a source may use its own again
        if n_rows != self.n_rows:
            raise ValueError(self._changed(n_rows))
        self.digests = found

    def _changed(self, n_rows: int) -> str:
        return (
            f"source gave {self.n_rows:,} rows at first, and not the same when read again (up to "
            f"row {n_rows:,}): it must give the same chunks each time it is read."
        )


def folded(values: Iterable[T], merge: Callable[[list[T], int], T]) -> T:
    """Values merged two by two, level by level, as they come; ``merge`` is told the level.

    Examples
    --------
    >>> from aesvm.reread import folded
    >>> folded("abcde", lambda pair, level: f"({''.join(pair)})")
    '(((ab)(cd))e)'
    """
    levels: list[T | None] = []
    for value in values:
        carried: T = value
        level = 0
        while level < len(levels) and (resting := levels[level]) is not None:
            levels[level] = None
            carried = merge([resting, carried], level + 2)
            level += 1
        levels[level : level + 1] = [carried]
    rest = [one for one in levels if one is not None]
    whole = rest[0]
    for level, one in enumerate(rest[1:], len(levels) + 1):
        whole = merge([one, whole], level)
    return whole
