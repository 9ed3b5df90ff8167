"""Subsets reduced, one by one or in parallel, and put together: the rest of DeriveRS."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.hull import approximate_extreme_points
from aesvm.jit import jit
from aesvm.kernels import KernelMatrix
from aesvm.workspace import Workspace


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
