"""A source that can be read again, as ``Answers`` to queries about its rows.

It is read in buffers, twice in a round: once to look, once to stratify. In between, the scores of
all rows are kept: 16 bytes for each row and machine that it belongs to. A look needs twice that, to
compare them with the scores of the round before. Sums for machines in the span of few vectors keep
nothing of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from aesvm.bases import sums
from aesvm.bases.sums import Query, SpanMachines, SumsByMachine
from aesvm.machines.rounds import Cut
from aesvm.out_of_core import part as parts
from aesvm.out_of_core.looks import PartLooks, merged_looks
from aesvm.out_of_core.merge_tree import buffers, folded
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.source import KnownRows, Validate, read_again
from aesvm.out_of_core.training_sets import check_budget, strata_bytes
from aesvm.out_of_core.weighted_rows import GatheredRows, WeightedRows, joined
from aesvm.runtime.progress import Progress


class RereadSource:
    """A source that is read again: it answers queries about its rows (``Answers``).

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
    held : GatheredRows
        The set that the first pass has made.
    budget : float
        Bytes for the rows that are gathered.
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
        held: GatheredRows,
        budget: float,
        run: Callable,
        progress: Progress,
    ) -> None:
        self.source = source
        self.known = known
        self.validate = validate
        self.reducer = reducer
        self.first_tol = first_tol
        self.held = held
        self.budget = budget
        self.run = run
        self.progress = progress
        self.sent: parts.SentMachines | None = None
        self.scores: list[dict[int, parts.RowScores]] = []  # by buffer, of the last look
        self.cuts: dict[int, Cut] | None = None  # of the last round

    def gather(self, hull_tol: float) -> GatheredRows:
        """What the first pass holds; all rows are read again where it does not hold them."""
        if hull_tol > 0.0:
            return self.held
        quiet = self.progress.quietly().to_the_end()

        def distinct(rows: WeightedRows) -> WeightedRows:
            return self.reducer.part(rows, 0.0, self.run, quiet).rows

        held = self.held.rows
        if held.whole:
            return GatheredRows(distinct(held), 0.0)
        return GatheredRows(distinct(joined(list(map(distinct, self._buffers("gather"))))), 0.0)

    def look(self, sent: parts.SentMachines) -> PartLooks:
        before, cuts = self.scores, self.cuts
        self.sent, self.scores = sent, []
        seen = PartLooks.of([])
        quiet = self.progress.quietly().to_the_end()
        for number, rows in enumerate(self._buffers("look")):
            part = self.reducer.part(rows, self.first_tol, self.run, quiet)
            self.scores.append(parts.score(part, sent, self.run))
            then = None if cuts is None else parts.LastRound(before[number], cuts)
            seen = merged_looks([seen, parts.look(part, self.scores[-1], sent, then)])
        return seen

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, parts.Strata]:
        self.cuts = cuts
        sent = self.sent
        assert sent is not None  # rounds look before they stratify
        reduce = self.reducer.at_levels(self.run, self.progress)
        tolerances = parts.stratum_tolerances(sent.formulation, hull_tol)

        def of_buffers() -> Iterator[dict[int, parts.Strata]]:
            for rows, scores in zip(self._buffers("stratify"), self.scores, strict=True):
                # equal rows are merged, and nothing else
                quiet = self.progress.quietly().to_the_end()
                part = self.reducer.part(rows, 0.0, self.run, quiet)
                yield parts.stratify(part, scores, cuts, sent, hull_tol, reduce)

        def merge(
            several: list[dict[int, parts.Strata]], level: int | None
        ) -> dict[int, parts.Strata]:
            merged = parts.merged_strata(several, level, tolerances, reduce)
            check_budget(strata_bytes(merged), self.budget, hull_tol)
            return merged

        return merge([folded(of_buffers(), merge)], None)

    def add_up(self, sent: SpanMachines, queries: dict[int, Query]) -> SumsByMachine:
        whole: SumsByMachine = {}
        for rows in self._buffers("pass"):
            own = sums.add_up(rows.X, rows.targets, rows.weights, sent, queries, self.run)
            whole = sums.merged([whole, own])
        return whole

    def _buffers(self, name: str) -> Iterator[WeightedRows]:
        """All rows, in buffers such as the first pass reduced."""
        chunks = read_again(self.source, self.known, self.validate, name, self.progress)
        return buffers(chunks, self.budget)
