"""LIBSVM's text format (svmlight): a class, then the features that are not zero.

<class> [qid:<number>] <index>:<value> <index>:<value> ... [# comment]

scikit-learn reads blocks of lines. It does not say which line is wrong, and accepts some text that
is no number here. Blocks with either are read again line by line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from aesvm.io import files
from aesvm.io.base import (
    CHUNK_ROWS,
    BadLineError,
    BadRow,
    Chunk,
    ReadProgress,
    TextReader,
    check_flag,
    finite_float,
    is_whole,
    rechunked,
)
from aesvm.io.columns import TOO_LARGE, too_large
from aesvm.io.files import line_blocks

#: Makes all blanks spaces: patterns are simpler then, and found faster.
_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")

_COMMENT = re.compile(rb"#[^\n]*")

#: The beginning of a line with a query, which is ignored.
_QUERY = re.compile(rb"^( *[^ #\n]+ +)qid:[0-9]+(?=[ #\n])", re.MULTILINE)

#: An index with a sign, which scikit-learn accepts. It also accepts 1_000, and any query.
_SIGNED = re.compile(rb" [+-][0-9]+:")

#: Indices are below this.
_MOST_FEATURES = 2**62


class LibsvmReader(TextReader):
    r"""Chunks of a file in LIBSVM's (svmlight's) text format, as CSR arrays.

    The file may be plain or compressed by gzip, bzip2 or xz, whatever its name; it is read a
    block at a time. Comments and ``qid`` are ignored, as are blank lines. Values agree with
    Python's ``float`` to the bit; infinite ones and NaN are refused, zeros are not stored.
    Classes must be below 2^53: above, doubles do not tell all integers apart.

    Parameters
    ----------
    path : str or path
        The file.
    n_features : int or None
        Columns of the chunks; an index beyond is an error. With None the file is read once
        more, before the first chunk, to find its largest index: that costs as much as
        iterating over it.
    chunk_rows : int, default=65_536
        Rows of a chunk; the last may have fewer.
    zero_based : bool, default=False
        Whether the first feature has index 0, and not 1.
    on_bad : {"raise", "skip"}, default="raise"
        What is done about a malformed line: raise ``BadLineError``, or skip and count it, and
        warn at the end of the file.

    Attributes
    ----------
    n_features : int
        Columns of the chunks. Where they were not given, asking for them reads the file.
    n_bytes, position, n_skipped : int
        See :class:`ChunkReader`.

    Raises
    ------
    BadLineError
        While iterating: a malformed line, with its number and what is wrong with it.
    EOFError
        While iterating: a compressed file that is cut short.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.io import LibsvmReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.libsvm")
    ...     _ = path.write_text("+1 1:0.5 3:2 # a comment\n-1 2:1e-3\n+1 3:4\n")
    ...     for X, y, _ in LibsvmReader(path, n_features=3, chunk_rows=2):
    ...         print(y, X.toarray().tolist())
    [ 1. -1.] [[0.5, 0.0, 2.0], [0.0, 0.001, 0.0]]
    [1.] [[0.0, 0.0, 4.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        n_features: int | None,
        chunk_rows: int = CHUNK_ROWS,
        zero_based: bool = False,
        on_bad: str = "raise",
    ) -> None:
        if n_features is not None and not (
            is_whole(n_features) and 1 <= n_features < _MOST_FEATURES
        ):
            raise ValueError(
                f"n_features={n_features!r}: an integer of at least 1, or None, is needed."
            )
        check_flag("zero_based", zero_based)
        super().__init__(path, chunk_rows, on_bad)
        self.zero_based = zero_based
        self._n_features = n_features

    @property
    def n_features(self) -> int:
        if self._n_features is None:
            widths = [part.X.shape[1] for part in self._parts(None, ReadProgress())]
            self._n_features = max([1, *widths])  # rows may all be empty
        return self._n_features

    def _rows(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        return rechunked(self._parts(self.n_features, progress), self.chunk_rows)

    def _parts(
        self, n_features: int | None, progress: ReadProgress
    ) -> Generator[Chunk, None, None]:
        """The rows, those of a block at a time; as wide as they need where n_features is None."""
        line = 1
        try:
            # reading a block takes ten times its size in memory
            for block in line_blocks(self.path, progress, files.BLOCK_BYTES // 4):
                part = self._by_scikit_learn(block, n_features)
                if part is None:
                    chunk_of = partial(_chunk_of, n_features=n_features)
                    read = partial(self._read, n_features=n_features)
                    yield from self._one_by_one(line, BytesIO(block), read, chunk_of, progress)
                else:
                    yield part
                line += block.count(b"\n")
        except BadRow as reason:
            raise BadLineError(self.path, line, str(reason)) from None

    def _by_scikit_learn(self, block: bytes, n_features: int | None) -> Chunk | None:
        """The rows of a block; None where a line is malformed, or may be."""
        block = block.translate(_BLANKS)
        if b"#" in block:
            block = _COMMENT.sub(b"", block)
        if b"qid:" in block:
            block = _QUERY.sub(rb"\1", block)
        if b"_" in block or b"qid" in block or _SIGNED.search(block):
            return None
        try:
            X, y = load_svmlight_file(
                BytesIO(block), n_features=n_features, zero_based=self.zero_based
            )
        except (ValueError, OverflowError):
            return None
        if not (np.isfinite(X.data).all() and (np.abs(y) < TOO_LARGE).all()):
            return None
        return Chunk(_rows_of(X.data, X.indices, X.indptr, X.shape), y, None)

    def _read(self, line: bytes, n_features: int | None) -> list[tuple[float, dict[int, float]]]:
        """The class and the values of a line by their columns; none where the line is blank."""
        tokens = [token.decode(errors="replace") for token in line.split(b"#", 1)[0].split()]
        if not tokens:
            return []
        name = tokens.pop(0)
        label = finite_float(name, "the class")
        if abs(label) >= TOO_LARGE:
            raise BadRow(f"{too_large(name)}: use small class labels")
        if tokens and tokens[0].startswith("qid:"):
            query = tokens.pop(0)
            if not (query[4:].isascii() and query[4:].isdigit()):
                raise BadRow(f"{query[:40]!r} is not qid:number")
        first = 0 if self.zero_based else 1
        last = (n_features or _MOST_FEATURES) - 1 + first
        values: dict[int, float] = {}
        for token in tokens:
            index, value = _pair(token, first, last)
            if index - first in values:
                raise BadRow(f"index {index} occurs twice")
            values[index - first] = value
        return [(label, values)]


def _pair(token: str, first: int, last: int) -> tuple[int, float]:
    name, colon, value = token.partition(":")
    if not (colon and name.isascii() and name.isdigit()):
        raise BadRow(f"{token[:40]!r} is not index:value")
    index = int(name) if len(name) < 100 else _MOST_FEATURES
    if index < first:
        raise BadRow("index 0: the first is 1, but in kernel matrices (zero_based=True, -t 4)")
    if index > last:
        raise BadRow(f"index {name[:40]} is above {last}, the last of n_features")
    return index, finite_float(value, f"the value of index {index}")


def _chunk_of(rows: list[tuple[float, dict[int, float]]], n_features: int | None) -> Chunk:
    y, each = zip(*rows, strict=True)
    columns = [column for values in each for column in values]
    data = [value for values in each for value in values.values()]
    ends = np.cumsum([0, *map(len, each)])
    width = n_features or max(columns, default=0) + 1
    return Chunk(_rows_of(np.array(data), columns, ends, (len(y), width)), np.array(y), None)


def _rows_of(data: NDArray, columns: Any, ends: NDArray, shape: tuple[int, int]) -> sp.csr_array:
    """Rows without zeros, with indices of 32 bits where these suffice."""
    index = np.int32 if shape[1] < 2**31 else np.int64
    columns, ends = np.asarray(columns, dtype=index), ends.astype(index)
    X = sp.csr_array((data.astype(np.float64), columns, ends), shape=shape)
    X.eliminate_zeros()
    X.sort_indices()
    return X


def pairs_of(X: Any, digits: str = ".17g", numbers: NDArray | None = None) -> Iterator[str]:
    """The entries of each row as LIBSVM writes them: ``index:value``, without zeros.

    ``numbers``: of the features; None: from 1.
    """
    X = sp.csr_array(X)
    X.sort_indices()
    named = X.indices.astype(np.int64) + 1 if numbers is None else numbers[X.indices]
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        entries = zip(named[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
        yield "".join(f"{index}:{value:{digits}} " for index, value in entries if value)
