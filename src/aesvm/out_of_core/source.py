"""Sources of rows: iterables of chunks (X, y, sample_weight), read once or several times.

Of the rows that were read, their counts by class (``Tally``) and a digest are kept. The digest
shows whether other rows are the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import inf
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress
from aesvm.sets.digest import NOTHING, Digest, added, digest

#: The reader of a file by the end of its name, and what it is given beside the file.
_READERS = {
    (".csv",): ("CSVReader", ", target=..."),
    (".tsv",): ("CSVReader", ', target=..., delimiter="\\t"'),
    (".parquet", ".pq"): ("ParquetReader", ", target=..."),
    (".npy",): ("NpyReader", ', "y.npy"'),
    (".libsvm", ".svm", ".svmlight"): ("LibsvmReader", ", n_features=..."),
}

#: What names of compressed files end with.
_COMPRESSED = re.compile(r"\.(gz|bz2|xz)$", re.I)

#: Steps of progress while a source is read.
_STEPS = 100


#: Checks a chunk of a source; the last argument says whether it is the first one.
Validate = Callable[[Any, Any, Any, bool], WeightedRows]


def readable_again(source: Iterable) -> bool:
    """Whether a source can be iterated over again."""
    return not isinstance(source, Iterator)


def check_source(source: Any) -> None:
    if isinstance(source, str | PathLike):
        raise ValueError(
            f"source={str(source)!r} is a name: pass a reader of the file, {reader_of(source)}."
        )
    if not isinstance(source, Iterable):
        raise ValueError(
            f"source={source!r} is no iterable: pass a reader from aesvm.io, or an iterable of "
            "(X, y, sample_weight)."
        )


def reader_of(path: str | PathLike) -> str:
    """How a file of this name is read.

    Examples
    --------
    >>> from aesvm.out_of_core.source import reader_of
    >>> reader_of("rows.csv")
    "aesvm.io.CSVReader('rows.csv', target=...)"
    """
    plain = _COMPRESSED.sub("", str(path)).lower()
    for suffixes, (reader, others) in _READERS.items():
        if plain.endswith(suffixes):
            return f"aesvm.io.{reader}({str(path)!r}{others})"
    names = sorted({reader for reader, _ in _READERS.values()})
    return f"one of {', '.join(names)} of aesvm.io"


def check_chunk(chunk: Any) -> None:
    """Refuse a chunk that is not a triple, or has no rows of features."""
    if not isinstance(chunk, tuple | list) or len(chunk) != 3:
        of = f" of {len(chunk)}" if isinstance(chunk, tuple | list) else ""
        raise ValueError(
            f"source gave a {type(chunk).__name__}{of} for a chunk: it must give triples "
            "(X, y, sample_weight), of which the last two may be None."
        )
    if not np.ndim(chunk[0]):
        raise ValueError(f"source gave X={chunk[0]!r} for a chunk: it must give rows of features.")


def read(
    source: Iterable, name: str, progress: Progress, cut: str | None = None
) -> Iterator[tuple[Any, Any, Any]]:
    """The chunks of a source that have rows; progress is by bytes where the source knows them.

    ``cut``: the message where a callback ends the fit and the rows so far have to do; it is given
    their number. None where all rows are needed. Where the time is limited, half of what is left
    is for what follows.
    """
    chunks = iter(source)
    n_bytes = getattr(source, "n_bytes", 0)
    n_steps = n_rows = 0
    left = progress.seconds_left()
    reading = progress.apart(0.5 * left if left < inf else 0.0)
    with progress.task(name, _STEPS if n_bytes else None) as task:
        for chunk in chunks:
            if cut is not None and n_rows and reading.is_over():
                task.cut_short(cut.format(n_rows))
                break
            check_chunk(chunk)
            if np.shape(chunk[0])[0]:
                n_rows += np.shape(chunk[0])[0]
                yield chunk[0], chunk[1], chunk[2]
            position = getattr(chunks, "position", 0)
            # a file that is being written to may have more bytes by now
            done = min(int(_STEPS * position / n_bytes), _STEPS) if n_bytes else n_steps + 1
            for _ in range(n_steps, done):
                task.step("bytes" if n_bytes else "chunk")
            n_steps = max(n_steps, done)


class KnownRows(NamedTuple):
    """Counts and digests of a source when it was first read, to notice other rows later."""

    n_rows: int
    digest: Digest
    digests: dict[int, Digest]  #: after each of some numbers of rows, where these are known
    sparse: bool
    same_chunks: bool  #: whether it must give the same chunks again, not only the same rows


def read_again(
    source: Iterable, known: KnownRows, validate: Validate, progress: Progress, name: str
) -> Iterator[WeightedRows]:
    """The chunks of a source that was read before; an error where they are other rows."""
    n_rows, found = 0, NOTHING
    for X, y, sample_weight in read(source, name, progress):
        chunk = validate(X, y, sample_weight, False)
        first, n_rows = n_rows, n_rows + len(chunk)
        found = added(found, digest(chunk.X, chunk.targets, chunk.weights, first))
        same = found == known.digests.get(n_rows, found) and sp.issparse(chunk.X) == known.sparse
        if known.same_chunks:  # scores of one pass are those of the rows of the next
            same &= n_rows in known.digests
        if n_rows > known.n_rows or not same:
            raise ValueError(_changed(known, n_rows))
        yield chunk.of_stream(first)
        progress.check()
    if n_rows != known.n_rows or found != known.digest:
        raise ValueError(_changed(known, n_rows))


def _changed(known: KnownRows, n_rows: int) -> str:
    if not known.same_chunks:
        return (
            f"source gives other rows than the {known.n_rows:,} that the model was trained on, or "
            f"in another order (seen by row {n_rows:,}): pass those rows."
        )
    return (
        f"source gave {known.n_rows:,} rows at first, and not the same when read again (up to "
        f"row {n_rows:,}): it must give the same chunks each time it is read."
    )


class ClassCounts(NamedTuple):
    """All classes, sorted, and the number of rows of each."""

    classes: NDArray
    counts: NDArray[np.intp]


class Tally(NamedTuple):
    """Counts of some rows; those of several parts add up."""

    n_rows: int
    counts: dict[Any, int]  #: rows of each class
    weights: dict[Any, float]  #: of all rows of each class together
    digest: Digest

    @classmethod
    def of_nothing(cls) -> Tally:
        return cls(0, {}, {}, NOTHING)

    @classmethod
    def of(cls, rows: WeightedRows, first: int) -> Tally:
        """Of some rows, the first of which is at place ``first`` among all.

        Classes are groups; rows without classes have one group.
        """
        found, numbers = np.unique(rows.groups, return_inverse=True)
        labels = found.tolist()
        counts, sums = np.bincount(numbers), np.bincount(numbers, rows.weights)
        return cls(
            len(rows),
            dict(zip(labels, counts.tolist(), strict=True)),
            dict(zip(labels, sums.tolist(), strict=True)),
            digest(rows.X, rows.targets, rows.weights, first),
        )

    def __or__(self, other: Tally) -> Tally:
        """Of the rows of both."""
        return Tally(
            self.n_rows + other.n_rows,
            dict(Counter(self.counts) + Counter(other.counts)),
            dict(Counter(self.weights) + Counter(other.weights)),
            added(self.digest, other.digest),
        )

    @property
    def present(self) -> set:
        """Classes with a row of non-zero weight."""
        return {label for label, weight in self.weights.items() if weight > 0}

    def weights_of(self, classes: NDArray) -> NDArray[np.float64]:
        """The weight of each of some classes."""
        return np.array([self.weights.get(label, 0.0) for label in classes.tolist()])

    def check_two_classes(self, what: str) -> None:
        """Refuse rows that are not of at least two classes; ``what`` has them."""
        if len(self.present) < 2:
            raise ValueError(
                f"{what} has rows of {len(self.present)} class ({sorted(self.present)}): "
                "classification needs at least two classes."
            )

    def of_classes(self, classes: NDArray) -> ClassCounts:
        """The counts of classes that were given."""
        return ClassCounts(
            classes, np.array([self.counts.get(label, 0) for label in classes.tolist()])
        )

    def sorted_classes(self, like: NDArray) -> ClassCounts:
        """All classes that were found, of the type of some labels."""
        try:
            labels = sorted(self.counts)
        except TypeError as error:
            raise ValueError(
                f"y has classes of different kinds ({list(self.counts)[:5]}): use numbers, or "
                "strings."
            ) from error
        return self.of_classes(
            np.array(labels, dtype=like.dtype if like.dtype.kind in "biufMm" else None)
        )
