"""Sources of rows: iterables of chunks (X, y, sample_weight), read with progress, known again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
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


class ValidRows(NamedTuple):
    """Valid rows of a source, the target of each and its weight."""

    X: Any
    targets: NDArray
    weights: NDArray[np.float64]
    groups: NDArray  #: rows of different groups never stand for each other; may be the targets
    joint: bool = False  #: whether rows stand for each other together with their targets

    def weighted_rows(self, first: int) -> WeightedRows:
        """The rows of non-zero weight, the first of the chunk at place ``first`` of the stream.

        Copies: a source, or whoever calls ``partial_fit``, may use its memory again.
        """
        indices = np.arange(first, first + len(self.weights), dtype=np.int64)
        targets = self.targets.copy()
        groups = targets if self.groups is self.targets else self.groups.copy()
        rows = WeightedRows(self.X.copy(), targets, groups, self.weights, indices, 0.0, whole=True)
        used = np.flatnonzero(self.weights)
        return rows if len(used) == len(rows) else rows.take(used)


#: Checks a chunk of a source; the last argument says whether it is the first one.
Validate = Callable[[Any, Any, Any, bool], ValidRows]


def readable_again(source: Iterable) -> bool:
    """Whether iterating over it does not use it up."""
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
    """Refuse what a source gave, where it is no triple, or has no rows of features."""
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

    ``cut``: what is said of the first rows, by their number, where they will have to do because the
    fit is to end before it is done. There are always some. None where all are needed.
    """
    chunks = iter(source)
    n_bytes = getattr(source, "n_bytes", 0)
    told = n_rows = 0
    with progress.task(name, _STEPS if n_bytes else None) as task:
        for chunk in chunks:
            if cut is not None and n_rows and task.is_over():
                task.cut_short(cut.format(n_rows))
                break
            check_chunk(chunk)
            if np.shape(chunk[0])[0]:
                n_rows += np.shape(chunk[0])[0]
                yield chunk[0], chunk[1], chunk[2]
            position = getattr(chunks, "position", 0)
            # a file that is being written to may have more bytes by now
            done = min(int(_STEPS * position / n_bytes), _STEPS) if n_bytes else told + 1
            for _ in range(told, done):
                task.step("bytes" if n_bytes else "chunk")
            told = max(told, done)


class KnownRows(NamedTuple):
    """What a source gave when it was first read: to notice where it gives something else."""

    n_rows: int
    digest: Digest
    digests: dict[int, Digest]  #: after each of some numbers of rows, where these are known
    sparse: bool
    same_chunks: bool  #: whether it must give the same chunks again, not only the same rows


def read_again(
    source: Iterable, known: KnownRows, validate: Validate, name: str, progress: Progress
) -> Iterator[WeightedRows]:
    """The chunks of a source that was read before; an error where they are other rows."""
    n_rows, found = 0, NOTHING
    for X, y, sample_weight in read(source, name, progress):
        chunk = validate(X, y, sample_weight, False)
        first, n_rows = n_rows, n_rows + len(chunk.weights)
        found = added(found, digest(chunk.X, chunk.targets, chunk.weights, first))
        same = found == known.digests.get(n_rows, found) and sp.issparse(chunk.X) == known.sparse
        if known.same_chunks:  # scores of one pass are those of the rows of the next
            same &= n_rows in known.digests
        if n_rows > known.n_rows or not same:
            raise ValueError(_changed(known, n_rows))
        yield chunk.weighted_rows(first)
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
