"""Kernel expansions ``sum_t c_t k(x_t, x)`` of many rows: margins, norms and predictions.

Rows are taken in blocks, one to a thread at a time, and each against a few hundred columns
at once, so that a block of kernel values never leaves the core's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels import blocks
from aesvm.kernels.crew import Scratch
from aesvm.runtime.jit import jit

if TYPE_CHECKING:
    from aesvm.kernels.matrix import Columns

#: The unit of rounding, and the smallest number. (To ask for these takes longer than a sum.)
_UNIT = 0.5 * float(np.finfo(np.float64).eps)
_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)

#: Operations that a term of a sum, and what is made of the sum, are taken to consist of.
_OPERATIONS = 12


def expand(
    columns: Columns,
    X_new,
    edges: NDArray[np.intp],
    coefs: NDArray[np.float64],
    combine: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    run: Callable = map,
) -> NDArray[np.float64]:
    """Expansions of the new rows, in each of several segments of the columns.

    Parameters
    ----------
    columns : Columns
        The expansion's rows.
    X_new : ndarray or CSR matrix with n rows
    edges : ndarray of shape (n_segments + 1,)
        Segment s consists of columns ``edges[s]`` to ``edges[s + 1]``.
    coefs : ndarray of shape (n_columns, n_outputs)
    combine : callable
        Takes the sums of some rows, shape (rows, n_segments, n_outputs), to their result, an
        array whose first axis is the rows.
    run : callable, default=map
        ``map`` or a parallel one.
    """
    if sp.issparse(X_new):
        X_new = sp.csr_array(X_new)
    outputs = np.ascontiguousarray(coefs.T)

    def combined(sums: NDArray[np.float64]) -> NDArray:
        check_finite(sums)
        result = combine(sums)
        # the memory of the sums is used again for the next rows
        return result.copy() if np.may_share_memory(result, sums) else result

    n_rows, n_values = X_new.shape[0], (len(edges) - 1) * len(outputs)
    lines, few = blocks.EXPANSION_LINES, blocks.summed_rows(n_values)
    found: list[NDArray] = []
    if few < lines and n_values > len(columns) and columns.sums_on_threads:
        # more sums than kernel values: each thread sums up few rows, and combines them at once
        memory = Scratch()

        def few_rows(first: int) -> NDArray:
            rows = X_new[first : first + few]

            def of(part: slice) -> Any:
                return columns.new_lines(rows[part])

            return combined(sums(columns, of, rows.shape[0], edges, outputs, memory=memory))

        found += run(few_rows, range(0, max(1, n_rows), few))
    else:
        for part in parts(n_rows, n_values):
            rows = X_new[part]
            here = columns.sums(
                lambda at, rows=rows: columns.new_lines(rows[at]),  # type: ignore[misc]
                rows.shape[0],
                edges,
                outputs,
                run,
            )
            parts_of_it = [slice(first, first + lines) for first in range(0, len(here), lines)]
            found += run(lambda part, here=here: combined(here[part]), parts_of_it)
    # in C order, whatever that of the blocks
    out = np.empty((n_rows, *found[0].shape[1:]), dtype=found[0].dtype)
    return np.concatenate(found, out=out)


def parts(n_rows: int, values_per_row: int) -> Iterator[slice]:
    """Rows that are taken together, so that what is computed of them takes little memory."""
    step = blocks.copied_rows(8 * values_per_row)
    step = max(1, step // blocks.EXPANSION_LINES) * blocks.EXPANSION_LINES
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def sums(
    columns: Columns,
    lines: Callable[[slice], Any],
    n_lines: int,
    edges: NDArray[np.intp],
    coefs: NDArray[np.float64],
    run: Callable = map,
    memory: Scratch | None = None,
) -> NDArray[np.float64]:
    """Expansions of lines over segments of any columns; see ``Columns.sums``.

    ``memory``: where a thread has room for them, until it is asked for the next ones.
    """
    shape = len(edges) - 1, len(coefs), n_lines
    # the sums of all lines lie one after another: what is made of them goes through all at once
    size = shape[0] * shape[1] * n_lines
    room = np.empty(size) if memory is None else memory.buffer(size, np.dtype(np.float64))[:size]
    found = room.reshape(shape)
    found[edges[1:] == edges[:-1]] = 0.0

    def some_lines(first: int) -> None:
        part = slice(first, min(first + blocks.EXPANSION_LINES, n_lines))
        n_here = part.stop - first
        with np.errstate(over="ignore", invalid="ignore"):
            for at, values in _blocks(columns, lines(part), n_here, int(edges[0]), int(edges[-1])):
                for segment, begin, end in _overlaps(edges, at):
                    own = found[segment, :, part]
                    terms = coefs[:, begin:end], values[:, begin - at.start : end - at.start].T
                    if begin == edges[segment]:
                        np.matmul(*terms, out=own)
                    else:
                        own += np.matmul(*terms)

    for _ in run(some_lines, range(0, n_lines, blocks.EXPANSION_LINES)):
        pass
    return found.transpose(2, 0, 1)


def _overlaps(edges: NDArray[np.intp], at: slice) -> Iterator[tuple[int, int, int]]:
    """The segments that some columns are of, and the first and the end of these columns in each."""
    segment = int(np.searchsorted(edges, at.start, side="right")) - 1
    begin = at.start
    for end in np.minimum(edges[segment + 1 :], at.stop).tolist():
        if begin < end:
            yield segment, begin, end
        begin, segment = end, segment + 1
        if end == at.stop:
            break


def n_additions(n_terms: int) -> int:
    """The most additions, one after another, that round a sum of ``n_terms`` terms.

    Terms of a block are added up, and then block after block.

    Examples
    --------
    >>> from aesvm.kernels.expansion import n_additions
    >>> n_additions(10), n_additions(1_000_000)
    (10, 4419)
    """
    largest = max(blocks.EXPANSION_COLUMNS, blocks.TILE_LINES)
    least = min(blocks.EXPANSION_COLUMNS, blocks.TILE_LINES)
    return min(n_terms, largest + n_terms // least + 1)


def rounding_of_sum(n_terms: Any, size: Any, n_units: Any = 0.0) -> Any:
    """What a sum of products is off by, at most, whose magnitudes add up to ``size``.

    A few operations more, which make the terms and what is made of the sum, are counted too; and
    below the smallest normal number, where each product is off by a part of the last unit,
    ``n_units`` of these besides.

    Examples
    --------
    >>> from aesvm.kernels.expansion import rounding_of_sum
    >>> bool(0.0 < rounding_of_sum(100, 3.0) < 1e-13)
    True
    """
    return (n_terms + _OPERATIONS) * (_UNIT * size + _SMALLEST) + n_units * _SMALLEST


def check_finite(values: NDArray) -> None:
    """Refuse rows whose decision values overflow."""
    if not np.isfinite(values).all():
        raise ValueError(
            "X has rows whose decision values are too large for a floating-point number: scale "
            "them as the training rows were."
        )


def squared_norm(
    columns: Columns, rows: NDArray[np.intp], coefs: NDArray[np.float64], run: Callable = map
) -> float:
    """``sum_ij c_i c_j K_ij`` of the rows that the columns are of, from half of the values."""

    def some_lines(first: int) -> float:
        last = min(first + blocks.EXPANSION_LINES, len(rows))
        n_lines = last - first
        lines = columns.lines(rows[first:last])
        here, right = np.zeros(n_lines), np.zeros(n_lines)
        for part, values in _blocks(columns, lines, n_lines, first, last):
            _add_products(values, coefs[part], here)
        for part, values in _blocks(columns, lines, n_lines, last, len(rows)):
            _add_products(values, coefs[part], right)
        return float(coefs[first:last] @ (here + 2.0 * right))

    return float(sum(run(some_lines, range(0, len(rows), blocks.EXPANSION_LINES))))


def _blocks(
    columns: Columns, lines: Any, n_lines: int, first: int, last: int
) -> Iterator[tuple[slice, NDArray]]:
    """Kernel values of the lines against columns ``first`` to ``last``, a few at a time."""
    block = np.empty(n_lines * blocks.EXPANSION_COLUMNS, dtype=columns.dtype)
    for start in range(first, last, blocks.EXPANSION_COLUMNS):
        stop = min(start + blocks.EXPANSION_COLUMNS, last)
        values = block[: n_lines * (stop - start)].reshape(n_lines, stop - start)
        columns.write(lines, start, stop, values)
        yield slice(start, stop), values


@jit
def _add_products(values, coefs, sums):
    """Sums += values @ coefs, added up in double precision whatever the values are in."""
    for i in range(sums.size):
        line = values[i]
        total = 0.0
        for k in range(coefs.size):
            total += coefs[k] * np.float64(line[k])
        sums[i] += total
