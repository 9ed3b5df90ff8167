"""Dask collections as partitions of rows, and work handed to the workers of a cluster.

Answers of partitions are merged on the workers, ``split_every`` at a time, in an order that depends
on the partitions alone. The last merge is made in this process. All that a worker holds can be made
again from the collection, so one that dies costs time and nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Self

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from distributed import CancelledError, Client, Future, get_client, get_worker, worker_client

from aesvm.dask.waiting import Watch
from aesvm.runtime.progress import Progress

#: Finished partitions are reported in at most this many steps.
_STEPS = 256


class Cluster:
    """A context in which partitions are worked on; nothing is left on the workers afterwards.

    ``split_every``: answers that are merged at a time; ``client``: None is the current one.
    """

    def __init__(
        self,
        partitions: list[Partition],
        split_every: int,
        progress: Progress,
        client: Client | None,
    ) -> None:
        self.partitions = partitions
        self.n_partitions = len(partitions)
        self.split_every = split_every
        self.progress = progress
        self.given = client
        self.stack = ExitStack()
        self.name = uuid.uuid4().hex[:12]
        self.n_tasks = 0
        self.futures: list[Future] = []

    def __enter__(self) -> Self:
        self.client: Client = self.stack.enter_context(_working_client(self.given))
        self.watch = Watch(self.client)
        return self

    def __exit__(self, *error: object) -> None:
        with self.stack:
            self.release(self.futures)  # also what was not begun: it is not wanted any more

    def of_partitions(self, name: str, work: Callable, before: list[tuple]) -> list[Future]:
        """Work on every partition of the collection; ``before`` are its other arguments."""
        tasks = [
            dask.delayed(work, pure=False)(*own, partition, dask_key_name=self._key(name))
            for own, partition in zip(before, self.partitions, strict=True)
        ]
        with self._loss_explained(name):
            return self._known(self.client.compute(tasks))

    def merged(
        self,
        name: str,
        values: list[Future],
        merge: Callable,
        *others: Any,
        at_a_time: int | None = None,
    ) -> Future:
        """All values as one, merged a few at a time on the workers.

        ``others``: arguments of ``merge`` besides the values and the level, which is None for the
        last merge. Without them it takes the values alone. ``at_a_time``: for large values, how
        many to merge at a time in place of ``split_every``; merging then comes before other tasks.
        """
        level: int | None = 1
        given = values
        n, priority = (self.split_every, 0) if at_a_time is None else (at_a_time, 1)
        while len(values) > 1:
            level = None if level is None or len(values) <= n else level + 1
            batches = [values[at : at + n] for at in range(0, len(values), n)]
            given_too = (level, *others) if others else ()
            merged = [
                self.submit(name, merge, batch, *given_too, priority=priority) for batch in batches
            ]
            if values is not given:
                self.release(values)
            values = merged
        return values[0]

    def result(self, name: str, future: Future) -> Any:
        """The result, fetched; the workers release it."""
        for done in self.watch.finished(name, [future]):
            if self.watch.has_failed(done):
                failure = self.watch.failure(f"the task {name!r}", done, self.futures)
                if not isinstance(failure, ValueError):  # which says itself what it is about
                    raise failure
        with self._loss_explained(name):
            result = future.result()
        self.release([future])
        return result

    @contextmanager
    def _loss_explained(self, name: str) -> Iterator[None]:
        """A context in which an error says whether the client was lost."""
        try:
            yield
        except Exception as error:
            if self.client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise self.watch.failure(f"the task {name!r}", None, self.futures) from error

    def _key(self, name: str) -> str:
        self.n_tasks += 1
        return f"aesvm-{name}-{self.name}-{self.n_tasks}"

    def submit(self, name: str, work: Callable, *arguments: Any, priority: int = 0) -> Future:
        # the SVM is sent as part of the task, so that a worker that dies does not take it along
        unlimited = {"distributed.admin.large-graph-warning-threshold": "16 GiB"}
        with dask.config.set(unlimited), self._loss_explained(name):
            future = self.client.submit(
                work, *arguments, key=self._key(name), pure=False, priority=priority
            )
        return self._known([future])[0]

    def _known(self, futures: list[Future]) -> list[Future]:
        self.futures += futures
        return futures

    def wait_for(self, name: str, futures: list[Future], release: bool = False) -> None:
        """Wait for a task of every partition; an error names the partition.

        ``release``: let the workers forget each result once it has been merged.
        """
        numbers = {future.key: number for number, future in enumerate(futures)}
        steps = min(len(futures), _STEPS)
        with self.progress.task(name, steps) as task:
            for done, future in enumerate(self.watch.finished(name, futures), 1):
                if self.watch.has_failed(future):
                    what = f"partition {numbers[future.key]} of X"
                    raise self.watch.failure(what, future, self.futures)
                if release:
                    self.release([future])
                if done * steps // len(futures) > (done - 1) * steps // len(futures):
                    task.step("partition")
                task.say_now_and_then(f"{name}: {done:,} of {len(futures):,} partitions")

    def release(self, futures: list[Future]) -> None:
        """Let the workers forget what nothing else is made of."""
        for future in futures:
            future.release()
        gone = {id(future) for future in futures}
        self.futures = [future for future in self.futures if id(future) not in gone]


@contextmanager
def _working_client(given: Client | None) -> Iterator[Client]:
    """The client that was given, or the current one, checked.

    Inside a task it makes room for the tasks that this one waits for.
    """
    with ExitStack() as stack:
        current = stack.enter_context(worker_client()) if _inside_a_task() else None
        client = given or current or _current_client()
        _check_can_wait(client)
        yield client


def _check_can_wait(client: Client) -> None:
    """Refuse a client that cannot be waited for here."""
    if client.asynchronous:
        raise ValueError(
            "the dask.distributed client is asynchronous, and to wait for it here would stop its "
            "event loop: pass client=Client(address), a synchronous one, or wait in another "
            "thread, as in await asyncio.to_thread(model.fit, X, y)."
        )
    if client.status in ("closing", "closed"):
        raise ValueError(
            "the dask.distributed client is closed: pass client=Client(address), a new one, or "
            "client=None for the current one."
        )


def _inside_a_task() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "there is no dask.distributed client: Client() starts workers on this machine, and "
            "Client(address) joins a cluster."
        ) from error


class Partition(NamedTuple):
    """Some rows of X, and what belongs to them; delayed, or None."""

    X: Any
    y: Any
    weights: Any


def is_lazy(X: Any) -> bool:
    """Whether these are rows that Dask has."""
    return isinstance(X, da.Array | dd.DataFrame)


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Partition]:
    """The partitions of X, in order, with those of y and sample_weight."""
    if not is_lazy(X):
        raise ValueError(
            f"X is a {type(X).__name__}: pass a dask array or a dask dataframe, or give rows in "
            "memory to the estimator of the same name without Dask."
        )
    if isinstance(X, da.Array):
        X = one_block_of_columns(X)
    blocks = [_delayed(X)]
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        blocks.append(np.full(X.npartitions, None) if values is None else _aligned(X, values, name))
    return [Partition(*block) for block in zip(*blocks, strict=True)]


def one_block_of_columns(X: da.Array) -> da.Array:
    """The array, cut by rows alone."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions: pass an array of two, rows and features.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _aligned(X: Any, values: Any, name: str) -> np.ndarray:
    """The partitions of what belongs to the rows."""
    if not isinstance(values, da.Array | dd.Series | dd.DataFrame):
        raise ValueError(
            f"{name} is a {type(values).__name__}: pass a dask array or a dask series, in as many "
            "partitions as X; dask.array.from_array makes one of an array."
        )
    if isinstance(values, da.Array) and isinstance(X, da.Array):
        known = [not any(np.isnan(array.chunks[0])) for array in (X, values)]
        if all(known):
            if X.shape[0] != values.shape[0]:
                raise ValueError(
                    f"X has {X.shape[0]:,} rows, and {name} {values.shape[0]:,}: they must have as "
                    "many."
                )
            values = values.rechunk({0: X.chunks[0]})
    if values.npartitions != X.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions, and {name} {values.npartitions}, and their sizes "
            "are not known: cut them at the same rows."
        )
    return _delayed(values)


def _delayed(values: Any) -> np.ndarray:
    """The partitions of a collection.

    Dask may read several files as one partition where few columns are asked for, fewer than it says
    there are, and other partitions for y than for X: then they are read as they were cut.
    """
    blocks = np.ravel(values.to_delayed())
    if len(blocks) != values.npartitions:
        blocks = np.ravel(values.to_delayed(optimize_graph=False))
    return blocks
