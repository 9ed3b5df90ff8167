"""LIBSVM's text format (svmlight): a class, then the features that are not zero.

<class> [qid:<number>] <index>:<value> <index>:<value> ... [# comment]

Numbers are read in compiled code, correctly rounded. The one nearest to w 10^q, for an integer w
below 2^64, is found by Eisel and Lemire's
method: w is multiplied by the leading 64 bits of 5^q, and by the next 64 where the first do not
decide how the product is rounded. With these 128 bits it is always decided (Mushtak and
Lemire). What is left is refused: subnormal and overflowing numbers, numbers of more than 19
digits that the first 19 do not tell, "inf" and "nan". Python's ``float`` reads these, and values
agree with it to the bit.

Doubles are handled as their 64 bits, so that all arithmetic is of integers and the compiler's
licence to reorder sums has nothing to act on.

References
----------
D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and Experience 51,
2021.
N. Mushtak, D. Lemire, "Fast Number Parsing Without Fallback", Software: Practice and Experience
53, 2023.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

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
)
from aesvm.io.columns import TOO_LARGE, TOO_LARGE_BITS, too_large
from aesvm.io.files import line_blocks
from aesvm.runtime.jit import jit

_NEWLINE, _COLON, _HASH, _SPACE, _ZERO, _NINE, _Q, _I, _D = b"\n:# 09qid"
_TAB, _RETURN = b"\t\r"

#: Why ``_parse`` stopped: the block's end, a full chunk, arrays to enlarge, a line for Python.
END, FULL, GROW, UNUSUAL = range(4)

#: Where ``_Rows.state`` holds what: the next byte of the block, rows and entries of the chunk,
#: and lines of the file that are done with.
POSITION, ROWS, ENTRIES, LINES = range(4)

#: Rows that arrays have room for to begin with.
_FIRST_ROWS = 4096

#: Indices of more digits than this are not read by compiled code.
_MOST_DIGITS = 18

#: Powers in the table. Beyond them w 10^q is 0 or infinite for every w.
_LOWEST = -342
_HIGHEST = 308

#: Powers for which w 10^q can lie halfway between two doubles.
_LOWEST_HALFWAY = -4
_HIGHEST_HALFWAY = 23

#: Digits that always fit in 64 bits.
_SURE_DIGITS = 19

_PLUS, _MINUS, _POINT, _BIG_E, _SMALL_E = b"+-.Ee"

_U0, _U1, _U3, _U9, _U10 = (np.uint64(i) for i in (0, 1, 3, 9, 10))
_U52, _U53, _U63 = (np.uint64(i) for i in (52, 53, 63))
_LOW_9_BITS = np.uint64(0x1FF)
_FRACTION = np.uint64(2**52 - 1)


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
    n_bytes : int
        Size of the file.
    position : int
        Bytes of the file, compressed as it is, that the iterator begun last has read. Every
        iterator has its own ``position`` and ``n_skipped``.
    n_skipped : int
        Malformed lines that it has skipped.

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
        if n_features is not None and not (is_whole(n_features) and 1 <= n_features < 2**62):
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
            widths = [chunk.X.shape[1] for chunk in self._rows_of_width(None, ReadProgress())]
            self._n_features = max([1, *widths])  # rows may all be empty
        return self._n_features

    def _rows(self, progress: ReadProgress) -> Generator[Chunk, None, None]:
        return self._rows_of_width(self.n_features, progress)

    def _rows_of_width(
        self, n_features: int | None, progress: ReadProgress
    ) -> Generator[Chunk, None, None]:
        rows = _Rows(self.chunk_rows, n_features, self.zero_based)
        state = rows.state
        try:
            for block in line_blocks(self.path, progress):
                codes = np.frombuffer(block, dtype=np.uint8)
                state[POSITION] = 0
                while (stopped := rows.parse(codes)) != END:
                    if stopped == FULL:
                        yield rows.take()
                    elif stopped == GROW:
                        rows.grow()
                    else:
                        self._read_in_python(rows, block, progress)
        except BadRow as reason:
            raise BadLineError(self.path, int(state[LINES]) + 1, str(reason)) from None
        if state[ROWS]:
            yield rows.take()

    def _read_in_python(self, rows: _Rows, block: bytes, progress: ReadProgress) -> None:
        """Read one line that compiled code does not, or skip it."""
        begin = int(rows.state[POSITION])
        end = block.index(b"\n", begin) + 1
        try:
            rows.add(block[begin:end])
        except BadRow:
            if self.on_bad == "raise":
                raise
            progress.n_skipped += 1
        rows.state[POSITION] = end
        rows.state[LINES] += 1


class _Rows:
    """The rows of the chunk being read in CSR, in arrays that grow and are used again.

    Compiled code reads ordinary lines and stops before any other, which Python reads by ``add``:
    errors are found in one place. Without a number of features, chunks are as wide as their rows
    need.
    """

    def __init__(self, chunk_rows: int, n_features: int | None, zero_based: bool) -> None:
        self.state = np.zeros(4, dtype=np.int64)
        self.chunk_rows = chunk_rows
        self.n_features = n_features
        self.first = 0 if zero_based else 1
        self.last = (2**62 if n_features is None else n_features) - 1 + self.first
        dtype: DTypeLike = np.int32 if self.last < 2**31 else np.int64
        rows = min(_FIRST_ROWS, chunk_rows)
        self.labels = np.empty(rows, dtype=np.uint64)  # the bits of doubles, as are values
        self.ends = np.empty(rows, dtype=np.int64)
        self.columns = np.empty(16 * rows, dtype=dtype)
        self.values = np.empty(16 * rows, dtype=np.uint64)
        self.keep_zeros = n_features is None  # their indices count as well

    def parse(self, codes: NDArray[np.uint8]) -> int:
        """Read ordinary lines of a block from where it was left; why it stopped."""
        return _parse(
            codes,
            self.state,
            self.labels,
            self.ends,
            self.columns,
            self.values,
            POWERS_OF_FIVE,
            self.first,
            self.last,
            self.keep_zeros,
            self.chunk_rows,
        )

    def add(self, line: bytes) -> None:
        """Read any one line, or raise BadRow with what is wrong with it."""
        tokens = [token.decode(errors="replace") for token in line.split(b"#", 1)[0].split()]
        if not tokens:
            return
        name = tokens.pop(0)
        label = finite_float(name, "the class")
        if abs(label) >= TOO_LARGE:
            raise BadRow(f"{too_large(name)}: use small class labels")
        if tokens and tokens[0].startswith("qid:"):
            _check_query(tokens.pop(0))
        pairs: dict[int, float] = {}
        for token in tokens:
            index, value = self._pair(token)
            if index in pairs:
                raise BadRow(f"index {index} occurs twice")
            pairs[index] = value
        row, entry = int(self.state[ROWS]), int(self.state[ENTRIES])
        while row >= len(self.labels) or entry + len(pairs) > len(self.columns):
            self.grow()
        for index in sorted(pairs):
            if pairs[index] or self.keep_zeros:
                self.columns[entry] = index - self.first
                self.values.view(np.float64)[entry] = pairs[index]
                entry += 1
        self.labels.view(np.float64)[row] = label
        self.ends[row] = entry
        self.state[ROWS], self.state[ENTRIES] = row + 1, entry

    def _pair(self, token: str) -> tuple[int, float]:
        name, colon, value = token.partition(":")
        if not (colon and name.isascii() and name.isdigit()):
            raise BadRow(f"{token[:40]!r} is not index:value")
        index = int(name) if len(name) < 100 else 2**62
        if index < self.first:
            raise BadRow("index 0: the first is 1, but in kernel matrices (zero_based=True, -t 4)")
        if index > self.last:
            raise BadRow(f"index {name[:40]} is above {self.last}, the last of n_features")
        return index, finite_float(value, f"the value of index {index}")

    def grow(self) -> None:
        """Make room, as ``parse`` needs it."""
        rows = min(2 * len(self.labels), self.chunk_rows)
        if self.state[ROWS] == len(self.labels) and rows > len(self.labels):
            self.labels = _enlarged(self.labels, rows)
            self.ends = _enlarged(self.ends, rows)
        else:
            self.columns = _enlarged(self.columns, 2 * len(self.columns))
            self.values = _enlarged(self.values, 2 * len(self.values))

    def take(self) -> Chunk:
        """Hand the rows over, in arrays of their own, and begin anew."""
        rows, entries = int(self.state[ROWS]), int(self.state[ENTRIES])
        columns = self.columns[:entries].copy()
        width = self.n_features
        if width is None:
            width = int(columns.max(initial=-1)) + 1
        starts = np.zeros(rows + 1, dtype=columns.dtype if entries < 2**31 else np.int64)
        starts[1:] = self.ends[:rows]
        values = self.values[:entries].view(np.float64).copy()
        X = sp.csr_array((values, columns, starts), shape=(rows, width))
        self.state[ROWS] = self.state[ENTRIES] = 0
        return Chunk(X, self.labels[:rows].view(np.float64).copy(), None)


def pairs_of(X: Any, digits: str = ".17g", numbers: NDArray | None = None) -> Iterator[str]:
    """The entries of each row as LIBSVM writes them: ``index:value``, without zeros.

    ``numbers``: of the features; None: from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.io.libsvm import pairs_of
    >>> list(pairs_of(np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 0.0]])))
    ['1:0.5 3:2 ', '']
    """
    X = sp.csr_array(X)
    X.sort_indices()
    named = X.indices.astype(np.int64) + 1 if numbers is None else numbers[X.indices]
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        entries = zip(named[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
        yield "".join(f"{index}:{value:{digits}} " for index, value in entries if value)


def _enlarged(array: NDArray, rows: int) -> NDArray:
    """The array with room for more rows, those that are there kept."""
    larger = np.empty(rows, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _check_query(token: str) -> None:
    query = token.removeprefix("qid:")
    if not (query.isascii() and query.isdigit()):
        raise BadRow(f"{token[:40]!r} is not qid:number")


@jit
def _parse(text, state, labels, ends, columns, values, powers, first, last, keep, chunk_rows):
    """Ordinary lines into CSR. Every line ends with a newline, at which every loop stops."""
    position, row, entry, line = state[POSITION], state[ROWS], state[ENTRIES], state[LINES]
    stopped = END
    while position < len(text):
        at = _after_blanks(text, position)
        if text[at] == _NEWLINE or text[at] == _HASH:
            position = _next_line(text, at)
            line += 1
            continue
        if row == chunk_rows:
            stopped = FULL
            break
        if row == len(labels):
            stopped = GROW
            break
        label, at = number(text, at, powers)
        if at < 0 or not _is_end(text[at]) or (label << np.uint64(1)) >= TOO_LARGE_BITS:
            stopped = UNUSUAL
            break
        at = _after_blanks(text, at)
        if text[at] == _Q:
            at = _after_query(text, at)
        stopped, at, end = _entries(text, at, columns, values, entry, powers, first, last, keep)
        if stopped != END:
            break
        labels[row] = label
        ends[row] = end
        entry = end
        row += 1
        line += 1
        position = at
    state[POSITION], state[ROWS], state[ENTRIES], state[LINES] = position, row, entry, line
    return stopped


@jit
def _entries(text, at, columns, values, entry, powers, first, last, keep):
    """The rest of a line: why it stopped, the next line, the end of the row's entries."""
    least = first
    while text[at] != _NEWLINE:
        if text[at] == _HASH:
            return END, _next_line(text, at), entry
        begin = at
        index = 0
        while _ZERO <= text[at] <= _NINE:
            index = index * 10 + (text[at] - _ZERO)
            at += 1
        if at == begin or at - begin > _MOST_DIGITS or text[at] != _COLON:
            return UNUSUAL, at, entry
        if index < least or index > last:
            return UNUSUAL, at, entry
        least = index + 1
        value, at = number(text, at + 1, powers)
        if at < 0 or not _is_end(text[at]):
            return UNUSUAL, at, entry
        if entry == len(columns):
            return GROW, at, entry
        columns[entry] = index - first
        values[entry] = value
        if keep or (value << np.uint64(1)) != np.uint64(0):  # neither 0 nor -0
            entry += 1
        at = _after_blanks(text, at)
    return END, at + 1, entry


@jit
def _is_end(code):
    return code in (_SPACE, _NEWLINE, _TAB, _RETURN)


@jit
def _after_blanks(text, at):
    while text[at] in (_SPACE, _TAB, _RETURN):
        at += 1
    return at


@jit
def _next_line(text, at):
    while text[at] != _NEWLINE:
        at += 1
    return at + 1


@jit
def _after_query(text, at):
    """Past ``qid:number``, where it is that."""
    if text[at + 1] != _I or text[at + 2] != _D or text[at + 3] != _COLON:
        return at
    begin = at
    at += 4
    while _ZERO <= text[at] <= _NINE:
        at += 1
    return _after_blanks(text, at) if _is_end(text[at]) and at > begin + 4 else begin


def _powers_of_five() -> NDArray[np.uint64]:
    """The leading 128 bits of each power, the high and the low 64 of them.

    Cut off where the power is positive, and rounded up where it is negative, so that products
    which are exact do not come out just below what they are.
    """
    table = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for row, power in enumerate(range(_LOWEST, _HIGHEST + 1)):
        if power >= 0:
            bits = 5**power << 128
        else:
            length = (5**-power - 1).bit_length()
            bits = 2 ** (length + 127 if power >= -27 else 2 * length + 128) // 5**-power + 1
        leading = bits >> (bits.bit_length() - 128)
        table[row] = leading >> 64, leading & (2**64 - 1)
    return table


#: To be handed to jitted functions.
POWERS_OF_FIVE = _powers_of_five()


def _high_product(typingctx, a, b):
    """The upper half of the 128 bits of a * b."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


def _leading_zeros(typingctx, a):
    def codegen(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


_high: Any = intrinsic(_high_product)
_zeros: Any = intrinsic(_leading_zeros)


@jit
def _read_digits(text, at, digits, n_digits):
    """Read further digits of a number that has ``n_digits``, without leading zeros.

    Returns where they end, the number and its digits, how many were left out because there were
    too many, and whether any of these was not zero.
    """
    n_left = 0
    cut = False
    while _ZERO <= text[at] <= _NINE:
        digit = np.uint64(text[at] - _ZERO)
        if n_digits < _SURE_DIGITS:
            digits = digits * _U10 + digit
            n_digits += digits != _U0
        else:
            n_left += 1
            cut |= digit != _U0
        at += 1
    return at, digits, n_digits, n_left, cut


@jit
def number(text, at, powers):
    """The number that begins at a byte: its bits, and where it ends.

    The end is -1 where Python must be asked. The text must hold a byte that is no part of a
    number after it, a newline say.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    begin = at
    at, digits, n_digits, exponent, cut = _read_digits(text, at, _U0, 0)
    seen = at - begin
    if text[at] == _POINT:
        at += 1
        begin = at
        at, digits, n_digits, n_left, more = _read_digits(text, at, digits, n_digits)
        cut |= more
        exponent -= at - begin - n_left
        seen += at - begin
    if seen == 0:
        return _U0, -1
    if text[at] == _SMALL_E or text[at] == _BIG_E:
        at += 1
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += 1
        begin = at
        power = 0
        while _ZERO <= text[at] <= _NINE:
            power = power * 10 + (text[at] - _ZERO)
            at += 1
        if at == begin or at - begin > 9:
            return _U0, -1
        exponent += -power if down else power
    sign = _U1 << _U63 if negative else _U0
    if digits == _U0:
        return sign, at
    bits = _nearest(digits, exponent, powers)
    if bits == _U0 or (cut and bits != _nearest(digits + _U1, exponent, powers)):
        return _U0, -1
    return bits | sign, at


@jit
def _nearest(digits, exponent, powers):
    """The bits of the double nearest to digits * 10^exponent; 0 where it is not a normal one."""
    if exponent < _LOWEST or exponent > _HIGHEST:
        return _U0
    zeros = _zeros(digits)
    factor = digits << zeros
    power = powers[exponent - _LOWEST]
    high = _high(factor, power[0])
    low = factor * power[0]
    if high & _LOW_9_BITS == _LOW_9_BITS:
        more = _high(factor, power[1])
        low += more
        if low < more:
            high += _U1
    top = high >> _U63
    mantissa = high >> (top + _U9)  # 54 bits: one more than a double has
    if (
        low <= _U1
        and mantissa & _U3 == _U1
        and mantissa << (top + _U9) == high
        and _LOWEST_HALFWAY <= exponent <= _HIGHEST_HALFWAY
    ):
        mantissa -= _U1  # halfway, and the lower one is even
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    # 217706 / 2^16 is log2(10), near enough for these exponents; 1023 a double's bias
    binary = ((217706 * exponent) >> 16) + 63 + 1023 - np.int64(zeros) + np.int64(top)
    if mantissa >> _U53 != _U0:
        mantissa >>= _U1
        binary += 1
    if binary < 1 or binary > 2046:
        return _U0
    return np.uint64(binary) << _U52 | mantissa & _FRACTION
