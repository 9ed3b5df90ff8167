"""Where results go, a file that is written whole or standard output, and how rows are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.outcome import UsageError
from aesvm.io.atomic import checked_output_path, naming, written_whole
from aesvm.io.base import Chunk

#: Values that are written at a time.
_BLOCK = 1_000_000


def written_to(path: str | None) -> AbstractContextManager[IO[bytes]]:
    """A file that is written whole, or standard output where there is no name."""
    return _standard_output() if path in (None, "/dev/stdout") else written_whole(str(path))


def check_outputs(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Refuse, before the work is done, outputs that cannot be written, or that are inputs.

    Nor can two outputs be one file. What is None or "-" is no file.
    """
    others = [one for one in inputs if one not in (None, "-")]
    for output in outputs:
        if output is None or output == "-":
            continue
        path = checked_output_path(output)
        for other in others:
            if _is_same(path, Path(str(other))):
                raise UsageError(
                    f"{output} would be written, and is {other}, which is read or written as well: "
                    "another file is needed."
                )
        others.append(output)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are those of one file; devices and pipes may be both."""
    if one.is_file() and other.is_file():
        return os.path.samefile(one, other)
    return not one.exists() and str(one) == os.path.realpath(other)


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    with naming("standard output"):
        sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        yield _Encoded()  # type: ignore[misc]
        return
    yield _Stream(stream)  # type: ignore[misc]
    with naming("standard output"):
        stream.flush()


class _Stream:
    """Standard output, whose errors name it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def write(self, data: bytes) -> int:
        with naming("standard output"):
            return self.stream.write(data)

    def flush(self) -> None:
        with naming("standard output"):
            self.stream.flush()


class _Encoded:
    """A standard output that takes text alone."""

    def write(self, text: bytes) -> None:
        sys.stdout.write(text.decode())


def dense_blocks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks cut into dense blocks of moderate size."""
    for X, y, weights in chunks:
        for here in row_blocks(*X.shape):
            dense = X[here].toarray() if sp.issparse(X) else np.asarray(X[here])
            yield Chunk(dense, *(None if one is None else one[here] for one in (y, weights)))


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Rows of a moderate number of values at a time, of which each has ``width``."""
    size = max(1, _BLOCK // max(1, width))
    for first in range(0, n_rows, size):
        yield slice(first, first + size)


def libsvm_row_lines(
    X: Any, labels: Sequence[str], numbers: NDArray | None, form: str = "g"
) -> Iterator[str]:
    """Rows in LIBSVM's format; ``numbers``: of the features, where that is not their own."""
    X = sp.csr_array(X)
    X.sort_indices()
    for label, begin, end in zip(labels, X.indptr[:-1], X.indptr[1:], strict=True):
        used = X.indices[begin:end]
        used = (used.astype(np.int64) + 1) if numbers is None else numbers[used]
        pairs = zip(used.tolist(), X.data[begin:end].tolist(), strict=True)
        kept = [f"{at}:{value:{form}} " for at, value in pairs if value]
        yield f"{label} {''.join(kept)}\n"


def table_row_lines(values: NDArray, *columns: Sequence[str]) -> Iterator[str]:
    """Rows between commas, with further columns after them; empty ones are left out."""
    further = [column for column in columns if len(column)]
    for at, row in enumerate(values.tolist()):
        yield header_line([f"{value:.17g}" for value in row] + [one[at] for one in further])


def header_line(fields: Iterable[str]) -> str:
    """A line of fields between commas, in quotes where they need it."""
    return ",".join(map(_quoted, fields)) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text
