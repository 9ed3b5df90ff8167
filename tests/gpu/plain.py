"""The operations of ``cuda`` in NumPy, where that stands in for CuPy: in tests without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from aesvm.gpu.cuda import DeviceDuals, DeviceVariables, Summary, Work
from aesvm.gpu.forms import Form
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.pair_updates import update_pairs as update_pairs_on_host
from aesvm.solver.small import balance

WORKING_SET = 64

MOST_SLOTS, SLOTS_PER_THREAD = 3328, 4


def subset_size(dtype: np.dtype) -> int:
    """There are no subsets here; see ``cuda.subset_size``."""
    return 0


def prepared(form: Form, rows: Any, xp: Any) -> tuple[Any, Any]:
    """Rows as they are, and their norms; see ``cuda.prepared``."""
    exact = rows.astype(np.float64, copy=False)
    norms = form.norm_scale * np.einsum("ij,ij->i", exact, exact)
    return rows, norms.astype(form.dtype)


def sum_lines(
    form: Form, columns: Any, lines: Any, numbers: Any, coefs: Any, count: Any, sums: Any
) -> None:
    """``sums[o, k] += sum_m coefs[o, m] K(line m, column k)``; see ``cuda.sum_lines``."""
    n_lines = coefs.shape[1] if count is None else int(count[0])
    every = np.arange(n_lines) if numbers is None else numbers[:n_lines]
    values = _values(form, lines, every, columns, slice(None))
    sums += coefs[:, :n_lines] @ values.astype(np.float64)


def write_values(
    form: Form,
    columns: Any,
    column_numbers: Any,
    lines: Any,
    line_numbers: Any,
    count: Any,
    out: Any,
) -> None:
    """``out[m, k] = K(line m, column k)``; see ``cuda.write_values``."""
    n_lines, n_columns = out.shape if count is None else (int(count[0]),) * 2
    of_lines = np.arange(n_lines) if line_numbers is None else line_numbers[:n_lines]
    of_columns = np.arange(n_columns) if column_numbers is None else column_numbers[:n_columns]
    out[:n_lines, :n_columns] = _values(form, lines, of_lines, columns, of_columns)


def _values(form: Form, lines: Any, of_lines: Any, columns: Any, of_columns: Any) -> Any:
    x, y = lines.rows[of_lines], columns.rows[of_columns]
    if form.differences:
        t = np.square(x[:, None] - y[None]).sum(axis=2)
        return form.mapped(t, None, np)
    norms = lines.norms[of_lines][:, None] + columns.norms[of_columns][None]
    return form.mapped(x @ y.T, norms, np)


def dense_columns(rows: Any, numbers: Any) -> Any:
    """Some rows of a CSR matrix, made dense; see ``cuda.dense_columns``."""
    return np.ascontiguousarray(rows[numbers].toarray().T)


def choose(
    work: Work, variables: DeviceVariables, spans: list[slice], n_before: int, mark: int
) -> None:
    """The next working set, and the edges; see ``cuda.choose``."""
    slopes = variables.scores[variables.at] + variables.linear
    can_rise = variables.coefs < variables.upper
    can_fall = variables.coefs > variables.lower
    free = work.marks != mark
    stay = work.chosen[: min(n_before, WORKING_SET // 2)].copy()
    room = max(1, (WORKING_SET - len(stay)) // (2 * len(spans)))
    new: list[int] = []
    violation = -HUGE
    for group, span in enumerate(spans):
        lowest = slopes[span][can_rise[span]].min(initial=HUGE)
        highest = slopes[span][can_fall[span]].max(initial=-HUGE)
        violation = max(violation, highest - lowest)
        work.summary[Summary.LOWEST + group] = lowest
        work.summary[Summary.HIGHEST + group] = highest
        rises = can_rise & free & (slopes < highest)
        falls = can_fall & free & (slopes > lowest)
        size = -(-(span.stop - span.start) // room)
        for one, key in ((rises, slopes), (falls, -slopes)):
            for first in range(span.start, span.stop, max(1, size)):
                here = np.arange(first, min(first + size, span.stop))
                here = here[one[here]]
                if len(here):
                    best = int(here[np.argmin(key[here])])
                    if best not in new:
                        new.append(best)
    chosen = [*new[:WORKING_SET], *stay][:WORKING_SET]
    work.chosen[: len(chosen)] = chosen
    work.n_chosen[0] = len(chosen)
    work.marks[chosen[: WORKING_SET // 2]] = mark + 1
    work.summary[Summary.VIOLATION] = violation
    work.summary[Summary.N_CHOSEN] = len(chosen)


def find_rows(work: Work, variables: DeviceVariables) -> None:
    """Rows of the variables chosen, by number among the rows in play."""
    n = int(work.n_chosen[0])
    work.numbers[:n] = variables.at[work.chosen[:n]]


def solve_working_set(
    work: Work,
    variables: DeviceVariables,
    n_groups: int,
    tol: float,
    inner: float,
    limit: int,
) -> None:
    """The dual in the variables chosen; see ``cuda.solve_working_set``."""
    n = int(work.n_chosen[0])
    order = np.argsort(variables.groups[work.chosen[:n]], kind="stable")
    chosen = work.chosen[:n][order]
    block = np.ascontiguousarray(work.block[:n, :n][np.ix_(order, order)])
    coefs = variables.coefs[chosen].copy()
    slopes = variables.scores[variables.at[chosen]] + variables.linear[chosen]
    before = slopes.copy()
    ends = np.searchsorted(variables.groups[chosen], np.arange(n_groups), side="right")
    n_updates = update_pairs_on_host(
        block,
        block.diagonal().astype(np.float64),
        coefs,
        slopes,
        variables.lower[chosen],
        variables.upper[chosen],
        ends,
        max(tol, inner * float(work.summary[Summary.VIOLATION])),
        limit,
    )
    changes = coefs - variables.coefs[chosen]
    variables.coefs[chosen] = coefs
    moved = np.flatnonzero(changes)
    work.moved_rows[: len(moved)] = work.numbers[:n][order][moved]
    work.moves[0, : len(moved)] = changes[moved]
    work.n_moved[0] = len(moved)
    work.summary[Summary.N_UPDATES] += n_updates
    work.summary[Summary.MOVED] += np.abs(changes).sum()
    work.summary[Summary.N_MOVED] += len(moved)
    work.summary[Summary.FELL] -= 0.5 * changes @ (before + slopes)


def solve_pairs(values: Any, duals: DeviceDuals, n_slots: int, linear: float, n_groups: int) -> Any:
    """Duals of two classes each; see ``cuda.solve_pairs``."""
    updates = np.zeros(len(duals.sizes), dtype=np.int64)
    for dual, (first, second) in enumerate(duals.sizes):
        n, start = first + second, duals.starts[dual]
        own, side = slice(start, start + n), np.arange(n) >= first
        place, other = duals.places[dual]
        assert n <= n_slots
        assert not place % SLOTS_PER_THREAD
        assert not other % SLOTS_PER_THREAD
        at = np.where(side, other - first, place) + np.arange(n)
        K = np.ascontiguousarray(values[np.ix_(at, at)])
        coefs, slopes, bounds = duals.coefs[own], duals.slopes[own], duals.bounds[own]
        lower, upper = np.where(side, -bounds, 0.0), np.where(side, 0.0, bounds)
        ends = np.array([first, n])[-n_groups:]
        for is_last in range(2):
            balance(coefs, lower, upper, first, duals.held[dual])
            slopes[...] = K @ coefs + np.where(side, -linear, linear)
            if not is_last:
                given = K, K.diagonal().copy(), coefs, slopes, lower, upper, ends
                aim, most = 0.5 * duals.aims[dual], int(duals.most[dual])
                updates[dual] = update_pairs_on_host(*given, aim, most)
    return updates


def count_rest(work: Work, variables: DeviceVariables, most: int) -> None:
    """For how many iterations variables have rested, and how many stay; see ``cuda.count_rest``."""
    slopes = variables.scores[variables.at] + variables.linear
    highest = work.summary[Summary.HIGHEST + variables.groups]
    lowest = work.summary[Summary.LOWEST + variables.groups]
    rests = (variables.coefs == variables.lower) & (slopes > highest)
    rests |= (variables.coefs == variables.upper) & (slopes < lowest)
    work.rest[...] = np.where(rests, np.minimum(work.rest + 1, 100), 0)
    work.summary[Summary.N_STAY] = np.count_nonzero(work.rest < most)
    free = (variables.lower < variables.coefs) & (variables.coefs < variables.upper)
    work.summary[Summary.N_FREE] = np.count_nonzero(free)


def solve_definite(matrix: Any, right: Any) -> Any:
    """See ``cuda.solve_definite``."""
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, lower=True), right)
