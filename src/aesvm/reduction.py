"""Classes cut into subsets, these reduced and put together: the paper's DeriveRS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.base import Progress
from aesvm.hull import approximate_extreme_points
from aesvm.jit import jit
from aesvm.kernels import KernelMatrix
from aesvm.partition import distance_pieces, fine_subsets, sequence_pieces
from aesvm.workspace import Workspace

#: Where the subsets looked at first keep more than this share of their rows, reducing is given up.
GIVE_UP_SHARE = 0.9

#: How many subsets, spread over all of them, decide that.
_PROBES = 8

#: Subsets are handed to threads, and reported, in at most this many batches.
_BATCHES = 256


class Settings(NamedTuple):
    """How rows are represented, by the names of the estimators' parameters."""

    hull_tol: float
    subset_size: int
    partition_size: int
    partition: str
    keep_combinations: bool
    enough: float | None = None  #: the share that may be kept before reducing is given up


class Derived(NamedTuple):
    """A representative set, and how it came about."""

    found: Representatives
    n_subsets: int
    kept_of: tuple[int, int] | None  #: where reducing was given up: of how many rows, how many kept
    reduced: bool


def derive(
    kernel: KernelMatrix,
    classes: list[NDArray[np.intp]],
    weights: NDArray[np.float64],
    settings: Settings,
    run: Callable,
    progress: Progress,
) -> Derived:
    """Represent the rows of each class, all different.

    Parameters
    ----------
    kernel : KernelMatrix
    classes : list of ndarray
        Row indices, ascending; rows of different classes never stand for each other.
    weights : ndarray of shape (n_rows,)
        Of every row of the kernel matrix.
    settings : Settings
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    """
    everybody = np.sort(np.concatenate(classes))
    if settings.hull_tol == 0:
        found = everything(everybody, weights, kernel.n_rows, settings.keep_combinations)
        return Derived(found, 0, None, False)
    subsets = _cut(kernel, classes, settings, run, progress)
    reduced, kept_of = _reduce(kernel, subsets, weights, settings, run, progress)
    if kept_of is None:
        found = union(reduced, kernel.n_rows, settings.keep_combinations)
    else:
        found = everything(everybody, weights, kernel.n_rows, settings.keep_combinations)
    return Derived(found, len(subsets), kept_of, kept_of is None)


def _cut(kernel, classes, settings, run, progress) -> list[NDArray[np.intp]]:
    """Cut every class into subsets of similar rows."""
    started = time.perf_counter()
    size = settings.partition_size
    if settings.partition == "sequence":
        pieces = [piece for rows in classes for piece in sequence_pieces(rows, size)]
    else:
        pieces = distance_pieces(kernel, classes, size, run)
    count = min(len(pieces), _BATCHES)
    batches = [pieces[at::count] for at in range(count)]
    subsets: list[NDArray[np.intp]] = []

    def cut_all(batch: list[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
        return [s for rows in batch for s in fine_subsets(kernel, rows, settings.subset_size)]

    with progress.task("partition", count) as task, closing(run(cut_all, batches)) as cuts:
        for cut in cuts:
            subsets += cut
            task.step("piece")
    progress.say(
        f"partition: {len(pieces):,} pieces, {len(subsets):,} subsets, "
        f"{time.perf_counter() - started:.1f} s"
    )
    return subsets


def _reduce(
    kernel, subsets, weights, settings, run, progress
) -> tuple[list[Reduced], tuple[int, int] | None]:
    """Reduce every subset; where there is nothing to gain, how much the first of them kept."""
    reducer = Reducer(kernel, settings.hull_tol, weights, settings.keep_combinations)
    total = sum(len(rows) for rows in subsets)
    ends = np.cumsum([len(rows) for rows in subsets])
    probes = np.unique(np.searchsorted(ends, ends[-1] * (np.arange(_PROBES) + 0.5) / _PROBES))
    others = np.setdiff1d(np.arange(len(subsets)), probes)
    count = min(len(others), _BATCHES)
    batches = [probes[[at]] for at in range(len(probes))]
    batches += np.array_split(others, count) if count else []
    results: dict[int, Reduced] = {}
    kept = seen = 0
    told = started = time.perf_counter()
    with progress.task("subsets", len(batches)) as task:
        for phase in (batches[: len(probes)], batches[len(probes) :]):
            work = ([subsets[at] for at in batch] for batch in phase)
            with closing(run(reducer, work)) as reductions:
                for batch, reduced in zip(phase, reductions, strict=True):
                    for at, result in zip(batch, reduced, strict=True):
                        results[at] = result
                        kept += len(result.selected)
                        seen += len(subsets[at])
                    task.step("batch")
                    if time.perf_counter() - told > 5.0:
                        told = time.perf_counter()
                        task.say(f"{seen:,} of {total:,} rows seen, {kept / seen:.1%} kept")
            enough = GIVE_UP_SHARE if settings.enough is None else settings.enough
            if kept > enough * seen and seen < total:
                return [], (seen, kept)
    progress.say(f"subsets: {kept:,} rows kept, {time.perf_counter() - started:.1f} s")
    return [results[at] for at in range(len(subsets))], None


class Reduced(NamedTuple):
    """A reduced subset; rows by their index in X."""

    rows: NDArray[np.intp]
    selected: NDArray[np.intp]
    weights: NDArray[np.float64]
    residuals: NDArray[np.float64]
    combinations: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]] | None


class Reducer:
    """Reduces batches of subsets; called from several threads, one kernel block each."""

    def __init__(
        self,
        kernel: KernelMatrix,
        tol: float,
        weights: NDArray[np.float64],
        keep_combinations: bool,
    ) -> None:
        self.kernel = kernel
        self.tol = tol
        self.weights = weights
        self.keep_combinations = keep_combinations
        self.thread = threading.local()

    def __call__(self, batch: list[NDArray[np.intp]]) -> list[Reduced]:
        return [self.reduce(rows) for rows in batch]

    def reduce(self, rows: NDArray[np.intp]) -> Reduced:
        if not hasattr(self.thread, "workspace"):
            self.thread.workspace = Workspace()
        hull = approximate_extreme_points(self._gram(rows), self.tol, self.thread.workspace)
        beta = np.empty(len(hull.selected))
        _weigh(self.weights, rows, hull.selected, hull.indptr, hull.indices, hull.coefs, beta)
        combinations = None
        if self.keep_combinations:
            combinations = (np.diff(hull.indptr), rows[hull.indices], hull.coefs)
        return Reduced(rows, rows[hull.selected], beta, hull.residuals, combinations)

    def _gram(self, rows: NDArray[np.intp]) -> NDArray:
        # One buffer per thread: fresh memory would be zeroed by the system for every subset.
        size = len(rows) ** 2
        buffer = getattr(self.thread, "buffer", None)
        if buffer is None or buffer.size < size:
            buffer = self.thread.buffer = np.empty(size, dtype=self.kernel.dtype)
        return self.kernel.square(rows, out=buffer[:size].reshape(len(rows), len(rows)))


@jit
def _weigh(weights, rows, selected, indptr, indices, coefs, beta):
    """beta_t = sum_i w_i gamma_it: each row hands its weight on to those it leans on."""
    total = np.zeros(rows.size)
    for i in range(rows.size):
        for e in range(indptr[i], indptr[i + 1]):
            total[indices[e]] += weights[rows[i]] * coefs[e]
    for t in range(selected.size):
        beta[t] = total[selected[t]]


class Representatives(NamedTuple):
    """Representatives of the distinct rows; arrays over rows of X where not ``selected``."""

    selected: NDArray[np.intp]
    weights: NDArray[np.float64]
    residuals: NDArray[np.float64]
    combinations: sp.csr_array | None

    def spread(self, same_as: NDArray[np.intp]) -> Representatives:
        """The same for rows equal to the distinct ones; -1 for a row that nothing stands for."""
        left_out = same_as < 0
        combinations = self.combinations
        if combinations is not None:
            combinations = combinations[np.where(left_out, 0, same_as)]
            if left_out.any():
                combinations = sp.csr_array(sp.diags_array(1.0 - left_out) @ combinations)
                combinations.eliminate_zeros()
        residuals = np.where(left_out, np.nan, self.residuals[same_as])
        return self._replace(residuals=residuals, combinations=combinations)


def union(reduced: list[Reduced], n_rows: int, keep_combinations: bool) -> Representatives:
    """The representatives of all subsets together."""
    rows = np.concatenate([r.rows for r in reduced])
    selected = np.concatenate([r.selected for r in reduced])
    order = np.argsort(selected)
    selected = selected[order]
    weights = np.concatenate([r.weights for r in reduced])[order]
    residuals = np.full(n_rows, np.nan)
    residuals[rows] = np.concatenate([r.residuals for r in reduced])
    combinations = None
    if keep_combinations:
        parts = zip(*(r.combinations for r in reduced if r.combinations), strict=True)
        lengths, columns, coefs = (np.concatenate(part) for part in parts)
        places = np.repeat(rows, lengths), np.searchsorted(selected, columns)
        combinations = sp.csr_array((coefs, places), shape=(n_rows, len(selected)))
    return Representatives(selected, weights, residuals, combinations)


def everything(
    distinct: NDArray[np.intp],
    weights: NDArray[np.float64],
    n_rows: int,
    keep_combinations: bool,
) -> Representatives:
    """Every distinct row represents itself."""
    residuals = np.full(n_rows, np.nan)
    residuals[distinct] = 0.0
    identity = None
    if keep_combinations:
        places = distinct, np.arange(len(distinct))
        identity = sp.csr_array((np.ones(len(distinct)), places), shape=(n_rows, len(distinct)))
    return Representatives(distinct, weights[distinct], residuals, identity)
