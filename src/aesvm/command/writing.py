"""Where results go, a file that is written whole or standard output, and how rows are written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.io.atomic import written_whole
from aesvm.io.base import Chunk

#: Values that are written at a time.
_BLOCK = 1_000_000


def written_to(path: str | None) -> AbstractContextManager[IO[bytes]]:
    """A file that is written whole, or standard output where there is no name."""
    return _standard_output() if path in (None, "/dev/stdout") else written_whole(str(path))


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        yield _Encoded()  # type: ignore[misc]
        return
    yield stream
    stream.flush()


class _Encoded:
    """A standard output that takes text alone."""

    def write(self, text: bytes) -> None:
        sys.stdout.write(text.decode())


def dense_blocks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks cut into dense blocks of moderate size."""
    for X, y, weights in chunks:
        size = max(1, _BLOCK // X.shape[1])
        for first in range(0, X.shape[0], size):
            here = slice(first, first + size)
            dense = X[here].toarray() if sp.issparse(X) else np.asarray(X[here])
            yield Chunk(dense, *(None if one is None else one[here] for one in (y, weights)))


def libsvm_row_lines(
    values: NDArray, labels: Sequence[str], numbers: NDArray, form: str = "g"
) -> Iterator[str]:
    """Dense rows in LIBSVM's format; ``numbers``: of the features."""
    for label, row in zip(labels, values, strict=True):
        used = np.flatnonzero(row)
        pairs = zip(numbers[used].tolist(), row[used].tolist(), strict=True)
        yield f"{label} " + "".join(f"{at}:{value:{form}} " for at, value in pairs) + "\n"


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
