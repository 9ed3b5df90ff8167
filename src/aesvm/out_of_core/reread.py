"""A source that can be read again: its rows are asked for more than their representatives.

It is read in buffers, twice in a round: once to look, once to stratify. In between, the scores of
all rows are kept, 16 bytes for each row and machine that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from aesvm.machines.rounds import Cut
from aesvm.out_of_core.gathered import check_budget
from aesvm.out_of_core.merge_tree import MergeTree, buffers, folded
from aesvm.out_of_core.part import (
    PartLook,
    Represented,
    RowScores,
    SentMachines,
    Strata,
    look,
    merged_looks,
    merged_strata,
    score,
    stratify,
    stratum_tolerances,
)
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.source import KnownRows, Validate, read_again
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress


class RereadSource:
    """The rows of a source, which ``elsewhere`` asks.

    Parameters
    ----------
    source : iterable of (X, y, sample_weight)
    known : KnownRows
        What it gave when it was read first.
    validate : callable
        Checks a chunk.
    reducer : RowReducer
    first_tol : float
        The tolerance of the first set: what its representatives get wrong is judged by others of
        the same tolerance.
    budget : float
        Bytes for the rows that are gathered.
    loosen : bool
        Whether a set that is larger may be made with a larger tolerance.
    run : callable
        A parallel ``map``.
    progress : Progress
    """

    def __init__(
        self,
        source: Iterable,
        known: KnownRows,
        validate: Validate,
        reducer: RowReducer,
        first_tol: float,
        budget: float,
        loosen: bool,
        run: Callable,
        progress: Progress,
    ) -> None:
        self.source = source
        self.known = known
        self.validate = validate
        self.reducer = reducer
        self.first_tol = first_tol
        self.budget = budget
        self.loosen = loosen
        self.run = run
        self.progress = progress
        self.sent: SentMachines | None = None
        self.scores: list[dict[int, RowScores]] = []  # by buffer, of the last look
        self.cuts: dict[int, Cut] | None = None  # of the last round

    def gather(self, hull_tol: float) -> WeightedRows:
        """Representatives of all rows, read once more."""
        reduce = self.reducer.at_levels(self.run, self.progress)
        tree = MergeTree(hull_tol, self.budget, self.loosen)
        for rows in read_again(self.source, self.known, self.validate, "read", self.progress):
            tree = tree.add(rows, len(rows), reduce)
        tree = tree.settled(reduce)
        warn_if_looser(tree, hull_tol, f"{self.budget:,.0f} bytes")
        return tree.condensed(reduce)

    def look(self, sent: SentMachines) -> dict[int, PartLook]:
        before, cuts = self.scores, self.cuts
        self.sent, self.scores = sent, []
        seen: dict[int, PartLook] = {}
        quiet = self.progress.quietly()
        for number, rows in enumerate(self._buffers("look")):
            part = self.reducer.part(rows, self.first_tol, self.run, quiet)
            self.scores.append(score(part, sent, self.run))
            then = None if cuts is None else Represented(before[number], cuts)
            seen = merged_looks([seen, look(part, self.scores[-1], sent, then)])
        return seen

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, Strata]:
        self.cuts = cuts
        sent = self.sent
        assert sent is not None  # rounds look before they stratify
        reduce = self.reducer.at_levels(self.run, self.progress)
        tolerances = stratum_tolerances(sent.formulation, hull_tol)

        def of_buffers() -> Iterator[dict[int, Strata]]:
            for rows, scores in zip(self._buffers("stratify"), self.scores, strict=True):
                # equal rows as one, no more
                part = self.reducer.part(rows, 0.0, self.run, self.progress.quietly())
                yield stratify(part, scores, cuts, sent, hull_tol, reduce)

        def merge(several: list[dict[int, Strata]], level: int | None) -> dict[int, Strata]:
            merged = merged_strata(several, level, tolerances, reduce)
            check_budget(merged, self.budget, hull_tol)
            return merged

        return merge([folded(of_buffers(), merge)], None)

    def _buffers(self, name: str) -> Iterator[WeightedRows]:
        """All rows, in buffers such as the first pass reduced."""
        chunks = read_again(self.source, self.known, self.validate, name, self.progress)
        return buffers(chunks, self.budget)
