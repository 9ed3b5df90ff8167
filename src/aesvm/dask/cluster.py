"""The workers of a cluster, as the places where rows are: what they are asked, and in what order.

Every partition becomes a part that stays where it was made (its rows and who stands for them), and
answers (``parts``). Answers are merged on the workers, ``split_every`` at a time, in an order that
depends on the partitions alone; the last merge comes here. All that a worker holds can be made
again from the collection, so one that dies costs time and nothing else.
"""

from __future__ import annotations

import functools
import operator
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, Self

import dask
import numpy as np
from distributed import Client, Future, as_completed, get_client, get_worker, worker_client

from aesvm.base import Progress, Silence, Threads, one_blas_thread, validated_rows
from aesvm.dask.partitions import Partition
from aesvm.gathered import check_budget
from aesvm.parts import (
    Cut,
    PairSVMs,
    Part,
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
from aesvm.source import digest
from aesvm.spread import Spread
from aesvm.streaming import valid_rows
from aesvm.tree import Held, Tree, bytes_of, enough_at, merged, together, tolerance_of

#: Rows are numbered from this times their partition, while it is not known how many there are.
_STRIDE = 2**40

_NO_ROWS = "X has no row of any weight: there must be at least one."

#: Finished partitions are reported in at most so many steps.
_STEPS = 256

#: A line says how far it is every so many seconds.
_EVERY = 5.0


class Tally(NamedTuple):
    """How many rows some partitions have, of which classes; and a number that others have not."""

    n_rows: dict[int, int]  #: by partition
    counts: dict[Any, int]  #: by class
    present: frozenset = frozenset()  #: classes with a row of weight
    digest: int = 0

    def __or__(self, other: Tally) -> Tally:
        """Of the partitions of both."""
        return Tally(
            self.n_rows | other.n_rows,
            dict(Counter(self.counts) + Counter(other.counts)),
            self.present | other.present,
            (self.digest + other.digest) % 2**64,
        )


class Counted(NamedTuple):
    """A part and its tally; no part where no row has any weight."""

    part: Part | None
    tally: Tally


class Answer(NamedTuple):
    """The representatives of some partitions, and their tally."""

    held: Held | None
    tally: Tally


class Cluster:
    """A context in which partitions are asked; nothing is left on the workers afterwards.

    Parameters
    ----------
    estimator : callable
        The estimator that workers are sent, with what is known of the rows so far.
    partitions : list of Partition
    split_every : int
        Answers that are merged at a time.
    progress : Progress
    """

    def __init__(
        self,
        estimator: Callable[[], Any],
        partitions: list[Partition],
        split_every: int,
        progress: Progress,
    ) -> None:
        self.estimator = estimator
        self.partitions = partitions
        self.n_partitions = len(partitions)
        self.split_every = split_every
        self.progress = progress
        self.stack = ExitStack()
        self.name = uuid.uuid4().hex[:12]
        self.n_tasks = 0
        self.futures: list[Future] = []
        self.parts: list[Future] = []
        self.scores: list[Future] = []

    def __enter__(self) -> Self:
        self.client: Client = self.stack.enter_context(_client())
        return self

    def __exit__(self, *error: object) -> None:
        self._release(self.futures)  # also what was not begun: nobody wants it any more
        self.stack.close()

    def scale(self) -> float:
        """The number that gamma="scale" stands for."""
        before = [(self.estimator(),)] * self.n_partitions
        spreads = self._of_partitions("scale", _spread, before)
        self._await("scale", spreads)
        spread: Spread = self._result(self._merged("scale", spreads, _merged_spreads))
        if not spread.n_values:
            raise ValueError(_NO_ROWS)
        self._release(spreads)
        return spread.gamma("scale")

    def gather(self, tolerance: float, keep: bool) -> tuple[Tree, Tally]:
        """Representatives within a squared distance; ``keep`` the parts, to be asked again."""
        sent = self.estimator()
        self._make_parts(tolerance)
        answers = [self._submit("answer", _answer, part) for part in self.parts]
        if not keep:  # a worker forgets a part when it has answered
            self._release(self.parts)
            self.parts = []
        self._await("reduce", answers)
        whole = self._merged("merge", answers, _merged_answers, sent, tolerance)
        tally = self._counted(whole)
        tree: Tree = self._result(self._submit("settle", _settled, sent, whole, tolerance))
        self._release([*answers, whole])
        return tree._replace(levels=tuple(map(self._numbered, tree.sets()))), tally

    def count(self, tolerance: float) -> Tally:
        """Make the parts, and no more of them than can be counted comes here."""
        self._make_parts(tolerance)
        answers = [self._submit("answer", _count, part) for part in self.parts]
        self._await("reduce", answers)
        whole = self._merged("merge", answers, _merged_answers, self.estimator(), tolerance)
        tally = self._counted(whole)
        self._release([*answers, whole])
        return tally

    def _make_parts(self, tolerance: float) -> None:
        self._release(self.parts)
        sent, level = self.estimator(), None if self.n_partitions == 1 else 1
        before = [(sent, number, tolerance, level) for number in range(self.n_partitions)]
        self.parts = self._of_partitions("reduce", _part, before)

    def _counted(self, whole: Future) -> Tally:
        tally: Tally = self._result(self._submit("count", _tally, whole))
        if not tally.present:
            raise ValueError(_NO_ROWS)
        sizes = [tally.n_rows[number] for number in range(self.n_partitions)]
        self.starts = np.r_[0, np.cumsum(sizes)].astype(np.int64)
        return tally

    def look(self, machines: PairSVMs) -> dict[int, Seen]:
        """What each pair's SVM says of its rows."""
        self._release(self.scores)
        sent = self.estimator()
        shown = self._submit("machines", _as_it_is, machines)
        self.scores = [self._submit("score", _score, sent, part, shown) for part in self.parts]
        looks = [
            self._submit("look", _look, part, scores, shown)
            for part, scores in zip(self.parts, self.scores, strict=True)
        ]
        self._await("look", looks)
        seen = self._result(self._merged("look", looks, _merged_looks))
        self._release([shown, *looks])
        return seen

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, Strata]:
        """Rows near the margin, and sets of the others, of the SVMs looked with last."""
        sent, level = self.estimator(), None if self.n_partitions == 1 else 1
        strata = [
            self._submit("stratify", _stratify, sent, part, scores, cuts, hull_tol, level)
            for part, scores in zip(self.parts, self.scores, strict=True)
        ]
        self._await("stratify", strata)
        whole = self._merged("stratify", strata, _merged_strata, sent, hull_tol)
        found = self._result(self._submit("settle", _within_budget, sent, whole, hull_tol))
        self._release([*strata, whole])
        return {number: Strata(*map(self._numbered, own)) for number, own in found.items()}

    def _numbered(self, held: Held) -> Held:
        """The rows numbered from the beginning of X."""
        partition, place = np.divmod(held.indices, _STRIDE)
        return replace(held, indices=self.starts[partition] + place)

    def _of_partitions(self, name: str, work: Callable, before: list[tuple]) -> list[Future]:
        """Work on every partition of the collection; what comes before it among the arguments."""
        tasks = [
            dask.delayed(work, pure=False)(*own, partition, dask_key_name=self._key(name))
            for own, partition in zip(before, self.partitions, strict=True)
        ]
        return self._known(self.client.compute(tasks))

    def _merged(self, name: str, values: list[Future], merge: Callable, *others: Any) -> Future:
        """All values as one, merged a few at a time on the workers; the last has no level."""
        level: int | None = 1
        given = values
        while len(values) > 1:
            level = None if level is None or len(values) <= self.split_every else level + 1
            groups = [
                values[at : at + self.split_every] for at in range(0, len(values), self.split_every)
            ]
            merged = [self._submit(name, merge, group, level, *others) for group in groups]
            if values is not given:
                self._release(values)
            values = merged
        return values[0]

    def _result(self, future: Future) -> Any:
        """What comes here, and is forgotten there."""
        result = future.result()
        self._release([future])
        return result

    def _key(self, name: str) -> str:
        self.n_tasks += 1
        return f"aesvm-{name}-{self.name}-{self.n_tasks}"

    def _submit(self, name: str, work: Callable, *arguments: Any) -> Future:
        # the SVM is sent as part of the task, so that a worker that dies does not take it along
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "16 GiB"}):
            future = self.client.submit(work, *arguments, key=self._key(name), pure=False)
        return self._known([future])[0]

    def _known(self, futures: list[Future]) -> list[Future]:
        self.futures += futures
        return futures

    def _await(self, name: str, futures: list[Future]) -> None:
        """Wait for what is asked of every partition; an error is told with the partition."""
        numbers = {future.key: number for number, future in enumerate(futures)}
        told = time.perf_counter()
        steps = min(len(futures), _STEPS)
        with self.progress.task(name, steps) as task:
            for done, future in enumerate(as_completed(futures), 1):
                # one that is lost was finished, and is being made again
                if future.status in ("error", "cancelled"):
                    raise _of_partition(numbers[future.key], future)
                if done * steps // len(futures) > (done - 1) * steps // len(futures):
                    task.step("partition")
                if time.perf_counter() - told > _EVERY:
                    told = time.perf_counter()
                    task.say(f"{name}: {done:,} of {len(futures):,} partitions")

    def _release(self, futures: list[Future]) -> None:
        """Let the workers forget what nothing else is made of."""
        for future in futures:
            future.release()
        gone = {id(future) for future in futures}
        self.futures = [future for future in self.futures if id(future) not in gone]


def _client() -> Any:
    """A context that gives the client there is."""
    try:
        get_worker()
    except ValueError:
        pass
    else:  # this is a task itself: it makes room for its own
        return worker_client()
    try:
        return nullcontext(get_client())
    except ValueError as error:
        raise ValueError(
            "there is no dask.distributed client: Client() starts workers on this machine, and "
            "Client(address) joins a cluster."
        ) from error


def _of_partition(number: int, future: Future) -> Exception:
    """The error of a future, with its partition."""
    error = future.exception() if future.status == "error" else None
    if isinstance(error, ValueError):
        named: Exception = ValueError(f"in partition {number} of X: {error}")
    else:
        what = f"{type(error).__name__}: {error}" if error else "it was cancelled"
        named = RuntimeError(f"partition {number} of X failed: {what}")
    named.__cause__ = error
    return named


# What workers do. They have one thread for each task: Dask runs as many tasks as it sees fit.


def _part(
    estimator: Any, number: int, hull_tol: float, level: int | None, partition: Partition
) -> Counted:
    """A partition as a part, and its tally."""
    X, y, sample_weight = partition
    n_rows = X.shape[0]
    if not n_rows:
        return Counted(None, Tally({number: 0}, {}))
    data, labels, weights = valid_rows(estimator, X, y, sample_weight, reset=False)
    indices = number * _STRIDE + np.arange(n_rows, dtype=np.int64)
    found, counts = np.unique(labels, return_counts=True)
    tally = Tally(
        {number: n_rows},
        dict(zip(found.tolist(), counts.tolist(), strict=True)),
        frozenset(np.unique(labels[weights > 0]).tolist()),
        (2 * number + 1) * digest(data, labels, weights) % 2**64,
    )
    rows = Held(data, labels, weights, indices, 0.0)
    tolerance = tolerance_of(hull_tol, level, 0.0)
    settings = estimator._representative_set(tolerance)
    with _working() as run:
        part = part_of(settings, rows, tolerance, run, Silence(), enough_at(level))
    return Counted(part if len(part.rows) else None, tally)


def _answer(counted: Counted) -> Answer:
    part, tally = counted
    return Answer(None if part is None else part.representatives(), tally)


def _count(counted: Counted) -> Answer:
    return Answer(None, counted.tally)


def _merged_answers(
    answers: list[Answer], level: int | None, estimator: Any, tolerance: float
) -> Answer:
    tally = functools.reduce(operator.or_, (answer.tally for answer in answers))
    sets = [answer.held for answer in answers if answer.held is not None]
    if not sets:
        return Answer(None, tally)
    with _working() as run:
        reduce = estimator._reducer(run, Silence())
        if level is None:  # what travels further is to be as little as it can
            return Answer(reduce(together(sets), tolerance, None), tally)
        return Answer(merged(sets, tolerance, level, reduce), tally)


def _tally(answer: Answer) -> Tally:
    return answer.tally


def _settled(estimator: Any, answer: Answer, tolerance: float) -> Tree:
    """The set of all rows, within the budget of the one who asked."""
    assert answer.held is not None
    n_rows = sum(answer.tally.n_rows.values())
    tree = estimator._planted()._replace(hull_tol=tolerance, levels=(answer.held,), n_rows=n_rows)
    with _working() as run:
        return tree.within_budget(estimator._reducer(run, Silence()))


def _as_it_is(machines: PairSVMs) -> PairSVMs:
    return machines


def _score(estimator: Any, counted: Counted, machines: PairSVMs) -> dict[int, Scores]:
    if counted.part is None:
        return {}
    with _working() as run:
        return score(counted.part, machines, estimator._kernel_for, run)


def _look(counted: Counted, scores: dict[int, Scores], machines: PairSVMs) -> dict[int, Seen]:
    return {} if counted.part is None else look(counted.part, scores, machines)


def _merged_looks(looks: list[dict[int, Seen]], level: int | None) -> dict[int, Seen]:
    return merged_looks(looks)


def _stratify(
    estimator: Any,
    counted: Counted,
    scores: dict[int, Scores],
    cuts: dict[int, Cut],
    hull_tol: float,
    level: int | None,
) -> dict[int, Strata]:
    if counted.part is None:
        return {}
    with _working() as run:
        reduce = estimator._reducer(run, Silence())
        return stratify(counted.part, scores, cuts, hull_tol, reduce, level)


def _merged_strata(
    several: list[dict[int, Strata]], level: int | None, estimator: Any, hull_tol: float
) -> dict[int, Strata]:
    with _working() as run:
        return merged_strata(several, level, hull_tol, estimator._reducer(run, Silence()))


def _within_budget(estimator: Any, strata: dict[int, Strata], hull_tol: float) -> dict[int, Strata]:
    check_budget(strata, bytes_of(estimator.memory_budget), hull_tol)
    return strata


def _spread(estimator: Any, partition: Partition) -> Spread:
    X = partition.X
    return Spread.of(validated_rows(estimator, X, reset=False)) if X.shape[0] else Spread()


def _merged_spreads(spreads: list[Spread], level: int | None) -> Spread:
    return functools.reduce(operator.or_, spreads)


@contextmanager
def _working() -> Iterator[Threads]:
    with one_blas_thread, Threads(None) as run:
        yield run
