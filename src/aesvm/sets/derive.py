"""DeriveRS: groups of rows prepared, cut into subsets, reduced and put together.

    prepare   equal rows of a group are merged, those of weight zero left out;
    cut       each group into subsets of similar rows (``partition``): it does not depend on the
              gamma of the RBF kernel;
    reduce    each subset to approximate extreme points (``hull``);
    derive    cut and reduce.

Rows of different groups never stand for each other. ``SetKernel`` cuts and reduces by this
processor; ``aesvm.gpu.derive`` has that of a GPU.

Which rows stand for which is a matrix, the paper's Gamma (``Combinations``): how much of each row
every representative stands for. ``gather`` adds up what rows have, their weights say, over the rows
that each representative stands for, and keeps the total; ``spread`` averages what representatives
have for every row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels.crew import Scratch
from aesvm.kernels.joint import HullKernel
from aesvm.runtime.jit import jit
from aesvm.runtime.progress import Progress
from aesvm.sets.distinct import distinct_rows
from aesvm.sets.hull import Workspace, approximate_extreme_points
from aesvm.sets.partition import distance_partitions, fine_subsets, sequence_partitions

#: What cutting rows into subsets is expected to take of deriving a set.
_CUT = 0.1

#: Subsets are handed to threads, and reported, in at most this many batches.
_BATCHES = 256


class ReductionSettings(NamedTuple):
    """How rows are reduced, by the names of the estimators' parameters."""

    hull_tol: float
    subset_size: int
    partition_size: int
    partition: str
    #: Reducing is given up where the first ``n_probes`` subsets, spread over all of them, keep a
    #: larger fraction of their rows.
    most_kept: float = 1.0
    n_probes: int = 1

    def check(self) -> None:
        """Refuse sizes that do not fit each other."""
        if self.subset_size > self.partition_size:
            raise ValueError(
                f"subset_size={self.subset_size} is larger than "
                f"partition_size={self.partition_size}: it must be at most that."
            )


class PreparedRows(NamedTuple):
    """The distinct rows of non-zero weight; rows by their index in X."""

    same_as: NDArray[np.intp]  #: of every row, the first equal one of its group; -1 without weight
    rows: NDArray[np.intp]  #: the distinct ones, ascending
    weights: NDArray[np.float64]  #: of every row of X: the summed weights of those equal to it
    groups: list[NDArray[np.intp]]  #: the distinct rows of each group, ascending


def prepare(
    X: Any,
    groups: NDArray[np.intp],
    weights: NDArray[np.float64],
    run: Callable = map,
    targets: NDArray[np.float64] | None = None,
    hashes: NDArray[np.uint64] | None = None,
) -> PreparedRows:
    """Merge equal rows of a group, and leave out those of weight zero.

    Where there are ``targets``, rows with different ones are not equal. ``hashes``: of the rows,
    where they are known (``distinct.row_hashes``).
    """
    used = np.flatnonzero(weights)
    every_row_counts = len(used) == len(groups)
    kinds = groups[used]
    if targets is not None:
        codes = np.unique(targets[used], return_inverse=True)[1]
        kinds = kinds * (codes.max(initial=0) + 1) + codes
    if hashes is not None:
        hashes = hashes[used]
    first, inverse = distinct_rows(X if every_row_counts else X[used], kinds, run, hashes)
    same_as = np.full(len(groups), -1)
    same_as[used] = used[first[inverse]]
    rows = np.flatnonzero(same_as == np.arange(len(same_as)))
    merged = np.bincount(same_as[used], weights[used], len(groups)).astype(float)
    order = np.argsort(groups[rows], kind="stable")
    members, own = rows[order], groups[rows][order]
    edges = [0, *(np.flatnonzero(own[1:] != own[:-1]) + 1).tolist(), len(own)]
    return PreparedRows(same_as, rows, merged, [members[a:b] for a, b in pairwise(edges)])


class Derived(NamedTuple):
    """A representative set, and how it came about."""

    found: Representatives
    n_subsets: int
    given_up: GivenUp | None  #: where reducing was given up
    reduced: bool


class GivenUp(NamedTuple):
    """How many rows were looked at before reducing was given up, and how many were kept."""

    n_rows: int
    n_kept: int

    def message(self, n_distinct: int) -> str:
        return (
            f"{self.n_rows:,} of {n_distinct:,} distinct rows were reduced, and "
            f"{self.n_kept / self.n_rows:.1%} of them kept: there is little to gain, so every "
            "distinct row represents itself. Scaled features, a larger hull_tol, a larger "
            "subset_size or a smaller gamma would reduce more."
        )


class SetKernel:
    """The kernel matrix as DeriveRS uses it: rows are cut and reduced by this processor."""

    def __init__(self, kernel: HullKernel) -> None:
        self.kernel = kernel
        self.n_rows = kernel.n_rows
        self.dtype = kernel.dtype

    def cut(
        self,
        groups: list[NDArray[np.intp]],
        settings: ReductionSettings,
        run: Callable,
        progress: Progress,
    ) -> list[NDArray[np.intp]]:
        """Cut every group into subsets of similar rows."""
        started = time.perf_counter()
        kernel, size = self.kernel, settings.partition_size
        if settings.partition == "sequence":
            partitions = [part for rows in groups for part in sequence_partitions(rows, size)]
        else:
            partitions = distance_partitions(kernel, groups, size, run)
        count = min(len(partitions), _BATCHES)
        batches = [partitions[at::count] for at in range(count)]
        subsets: list[NDArray[np.intp]] = []

        def cut_all(batch: list[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
            return [s for rows in batch for s in fine_subsets(kernel, rows, settings.subset_size)]

        with (
            progress.task("partition", count, share=_CUT) as task,
            closing(run(cut_all, batches)) as cuts,
        ):
            for number, own in enumerate(cuts, 1):
                subsets += own
                task.step("piece")
                if task.is_over():  # none of these will be reduced
                    subsets += [rows for batch in batches[number:] for rows in batch]
                    break
        progress.say(
            f"partition: {len(partitions):,} partitions, {len(subsets):,} subsets, "
            f"{time.perf_counter() - started:.1f} s"
        )
        return subsets

    def reducer(
        self, tol: float, weights: NDArray[np.float64], keep_combinations: bool
    ) -> SubsetReducer:
        """What reduces subsets to within ``tol`` of each of their rows."""
        return SubsetReducer(self.kernel, tol, weights, keep_combinations)


def derive(
    kernel: SetKernel,
    groups: list[NDArray[np.intp]],
    weights: NDArray[np.float64],
    settings: ReductionSettings,
    run: Callable,
    progress: Progress,
    keep_combinations: bool = False,
    subsets: list[NDArray[np.intp]] | None = None,
) -> Derived:
    """Represent the rows of each group, all different.

    Rows of different groups never stand for each other. ``weights``: of every row of the kernel
    matrix; ``subsets``: what ``kernel.cut`` gives for these groups, where it was called before.
    """
    rows = np.sort(np.concatenate(groups))
    if settings.hull_tol == 0:
        found = identity(rows, weights, kernel.n_rows, keep_combinations)
        return Derived(found, 0, None, False)
    if subsets is None:
        subsets = kernel.cut(groups, settings, run, progress)
    reducer = kernel.reducer(settings.hull_tol, weights, keep_combinations)
    reduced, given_up = reduce(reducer, subsets, settings, run, progress)
    if given_up is None:
        found = union(reduced, kernel.n_rows, keep_combinations)
    else:
        found = identity(rows, weights, kernel.n_rows, keep_combinations)
    return Derived(found, len(subsets), given_up, given_up is None)


def reduce(
    reducer: SubsetReducer,
    subsets: list[NDArray[np.intp]],
    settings: ReductionSettings,
    run: Callable,
    progress: Progress,
) -> tuple[list[Reduced], GivenUp | None]:
    """Reduce every subset; where there is little to gain, what the first of them kept.

    Where that is to end before it is done, the rows of other subsets represent themselves.
    """
    total = sum(len(rows) for rows in subsets)
    ends = np.cumsum([len(rows) for rows in subsets])
    places = (np.arange(settings.n_probes) + 0.5) / settings.n_probes
    probes = np.unique(np.searchsorted(ends, ends[-1] * places))
    others = np.setdiff1d(np.arange(len(subsets)), probes)
    phases = [reducer.batches(numbers, subsets) for numbers in (probes, others)]
    results: dict[int, Reduced] = {}
    kept = seen = 0
    started = time.perf_counter()
    with progress.task("subsets", sum(len(phase) for phase in phases), share=1.0) as task:
        for phase in phases:
            if task.is_over():
                break
            work = ([subsets[at] for at in batch] for batch in phase)
            with closing(reducer.each(work, run)) as reductions:
                for batch, reduced in zip(phase, reductions, strict=True):
                    for at, result in zip(batch, reduced, strict=True):
                        results[at] = result
                        kept += len(result.selected)
                        seen += len(subsets[at])
                    task.step("batch")
                    task.say_now_and_then(
                        f"{seen:,} of {total:,} rows seen, {kept / seen:.1%} kept"
                    )
                    if task.is_over():
                        break
            if kept > settings.most_kept * seen and seen < total:
                return [], GivenUp(seen, kept)
    progress.say(f"subsets: {kept:,} rows kept, {time.perf_counter() - started:.1f} s")
    if len(results) < len(subsets):
        progress.cut_short("rows whose subsets were not reached represent themselves")
    return [
        results[at] if at in results else reducer.identity(rows) for at, rows in enumerate(subsets)
    ], None


class Reduced(NamedTuple):
    """A reduced subset; rows by their index in X."""

    rows: NDArray[np.intp]
    selected: NDArray[np.intp]
    weights: NDArray[np.float64]
    residuals: NDArray[np.float64]
    combinations: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]] | None


class SubsetReducer:
    """Reduces batches of subsets; called from several threads, one kernel block each."""

    def __init__(
        self, kernel: HullKernel, tol: float, weights: NDArray[np.float64], keep_combinations: bool
    ) -> None:
        self.kernel = kernel
        self.tol = tol
        self.weights = weights
        self.keep_combinations = keep_combinations
        self.thread = threading.local()
        self.scratch = Scratch()

    def batches(
        self, numbers: NDArray[np.intp], subsets: list[NDArray[np.intp]]
    ) -> list[NDArray[np.intp]]:
        """Numbers of subsets, those that are handed to a thread together."""
        count = min(len(numbers), _BATCHES)
        return np.array_split(numbers, count) if count else []

    def each(self, batches: Iterable[list[NDArray[np.intp]]], run: Callable) -> Any:
        """The reduced subsets of each batch, in order; by ``run``, and it can be closed."""
        return run(self, batches)

    def __call__(self, batch: list[NDArray[np.intp]]) -> list[Reduced]:
        """Reduce some subsets."""
        return [self.reduce(rows) for rows in batch]

    def reduce(self, rows: NDArray[np.intp]) -> Reduced:
        if not hasattr(self.thread, "workspace"):
            self.thread.workspace = Workspace()
        gram = self.kernel.square(rows, self.scratch.block(len(rows), len(rows), self.kernel.dtype))
        hull = approximate_extreme_points(gram, self.tol, self.thread.workspace)
        total = np.zeros(len(rows))
        _weigh(self.weights, rows, hull.indptr, hull.indices, hull.coefs, total)
        beta = total[hull.selected]
        combinations = None
        if self.keep_combinations:
            combinations = (np.diff(hull.indptr), rows[hull.indices], hull.coefs)
        return Reduced(rows, rows[hull.selected], beta, hull.residuals, combinations)

    def identity(self, rows: NDArray[np.intp]) -> Reduced:
        return _as_they_are(rows, self.weights, self.keep_combinations)


@jit
def _weigh(weights, rows, indptr, indices, coefs, total):
    """beta_t = sum_i w_i gamma_it: each row hands its weight on to those it leans on."""
    for i in range(rows.size):
        for e in range(indptr[i], indptr[i + 1]):
            total[indices[e]] += weights[rows[i]] * coefs[e]


class Representatives(NamedTuple):
    """Representatives of the distinct rows; arrays over rows of X where not ``selected``."""

    selected: NDArray[np.intp]
    weights: NDArray[np.float64]
    residuals: NDArray[np.float64]
    combinations: sp.csr_array | None

    def for_equal_rows(self, same_as: NDArray[np.intp]) -> Representatives:
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


def identity(
    rows: NDArray[np.intp], weights: NDArray[np.float64], n_rows: int, keep_combinations: bool
) -> Representatives:
    """Every distinct row represents itself."""
    return union([_as_they_are(rows, weights, keep_combinations)], n_rows, keep_combinations)


def _as_they_are(
    rows: NDArray[np.intp], weights: NDArray[np.float64], keep_combinations: bool
) -> Reduced:
    """Rows that are not reduced."""
    ones = np.ones(len(rows))
    combinations = (ones.astype(np.intp), rows, ones) if keep_combinations else None
    return Reduced(rows, rows, weights[rows], np.zeros(len(rows)), combinations)


class Combinations(NamedTuple):
    """The rows of a problem, each as a combination of some of them."""

    members: NDArray[np.intp]  #: positions of the representatives
    matrix: sp.csr_array | None  #: rows by members; None where every row is a member
    residuals: NDArray[np.float64]  #: squared distance of each row to its combination

    @classmethod
    def identity(cls, n_rows: int) -> Combinations:
        """Every row stands for itself."""
        return cls(np.arange(n_rows), None, np.zeros(n_rows))

    @classmethod
    def of(cls, rows: NDArray[np.intp], found: Representatives) -> Combinations:
        """Of some rows, ascending, whose representatives were found among them."""
        here = np.isin(found.selected, rows, assume_unique=True)
        members = np.searchsorted(rows, found.selected[here])
        if len(members) == len(rows):
            return cls.identity(len(members))
        assert found.combinations is not None
        matrix = sp.csr_array(found.combinations[rows][:, np.flatnonzero(here)])
        return cls(members, matrix, found.residuals[rows])

    @classmethod
    def stacked(
        cls, n_rows: int, parts: list[tuple[NDArray[np.intp], Combinations]]
    ) -> Combinations:
        """Of ``n_rows`` rows in several parts, each given with the positions of its rows."""
        members = np.concatenate([rows[own.members] for rows, own in parts])
        if len(members) == n_rows:
            return cls.identity(n_rows)
        residuals = np.empty(n_rows)
        lines, columns, values, first = [], [], [], 0
        for rows, own in parts:
            residuals[rows] = own.residuals
            matrix = sp.coo_array(sp.eye_array(len(rows)) if own.matrix is None else own.matrix)
            lines.append(rows[matrix.row])
            columns.append(matrix.col + first)
            values.append(matrix.data)
            first += len(own.members)
        places = np.concatenate(lines), np.concatenate(columns)
        whole = sp.csr_array((np.concatenate(values), places), shape=(n_rows, len(members)))
        return cls(members, whole, residuals)

    @property
    def is_identity(self) -> bool:
        return self.matrix is None

    def gather(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the members receive of the rows' amounts."""
        return amounts[self.members] if self.matrix is None else self.matrix.T @ amounts

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The members' values, averaged for each row by its combination."""
        return values if self.matrix is None else self.matrix @ values

    def lift(self, coefs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients of all rows: each member's is handed on to those it stands for."""
        return weights * self.spread(coefs / self.gather(weights))
