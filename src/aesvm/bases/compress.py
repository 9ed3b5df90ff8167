"""Trained machines on fewer of their own vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.factor import kernel_factor, solve
from aesvm.bases.pursuit import Functions, Pursuit
from aesvm.bases.values import Array
from aesvm.kernels import KernelMatrix
from aesvm.machines.problem import Expansion
from aesvm.runtime.progress import Progress

#: Candidates for each vector that is to be kept, and at least.
_CANDIDATES, _LEAST_CANDIDATES = 5, 5000

#: Where a tolerance is given, it is looked at whenever so many vectors have been chosen.
_STEP = 64


@dataclass(frozen=True)
class Compression:
    """What ``compress`` made of a model.

    Attributes
    ----------
    n_before, n_vectors : int
        Support vectors of the model, and of what was made of it.
    bound : float
        No decision value ``f(x)`` has changed by more than this times ``sqrt(k(x, x))``, whatever
        x is (of the RBF kernel that is 1); with several pairs of classes, that of any pair. It is
        the distance of the two machines in kernel space, and rounding is counted.
    n_measured : int
        Rows that were given to measure on.
    largest_change, typical_change : float or None
        How far decision values of these rows have changed, at most and in the root of their mean
        square.
    labels_changed : float or None
        The share of these rows whose predicted class has changed.
    """

    n_before: int
    n_vectors: int
    bound: float
    n_measured: int = 0
    largest_change: float | None = None
    typical_change: float | None = None
    labels_changed: float | None = None

    def __str__(self) -> str:
        text = (
            f"{self.n_vectors:,} of {self.n_before:,} support vectors; no decision value has "
            f"changed by more than {self.bound:.3g} sqrt(k(x, x))"
        )
        if self.largest_change is None:
            return text
        text += (
            f"; on {self.n_measured:,} rows by {self.largest_change:.3g} at most, "
            f"{self.typical_change:.3g} typically"
        )
        if self.labels_changed is None:
            return text
        return f"{text}, and {self.labels_changed:.2%} of the labels"


class Compressed(NamedTuple):
    """Machines on fewer vectors, and how far each is from what it was."""

    expansions: list[Expansion]
    distances: Array  #: in kernel space, and rounding


def compress(
    expansions: list[Expansion],
    kernel: KernelMatrix,
    groups: NDArray[np.intp],
    shares: NDArray[np.bool_],
    n_vectors: int | None,
    tol: float | None,
    run: Callable,
    progress: Progress,
) -> Compressed:
    """Project machines onto the span of fewer vectors.

    Parameters
    ----------
    expansions : list of Expansion
        Over rows of the kernel matrix.
    kernel : KernelMatrix
        Of all their vectors, in double precision.
    groups : ndarray
        Of each vector.
    shares : ndarray of shape (n_machines, n_groups)
        Whether a machine may use the vectors of a group.
    n_vectors : int or None
        The most that are kept.
    tol : float or None
        Vectors are added until no machine is farther from what it was, where there is room. Where
        rounding does not allow that, all of them are kept.
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    """
    every = np.arange(kernel.n_rows)
    most = len(every) if n_vectors is None else min(n_vectors, len(every))
    scores = np.zeros((len(every), len(expansions)))
    squared = np.zeros(len(expansions))
    with progress.task("compress", len(expansions) + 1) as task:
        for number, one in enumerate(expansions):
            at = np.flatnonzero(shares[number, groups])
            scores[at, number] = kernel.scores(one.rows, one.coefs, at, run)
            squared[number] = one.coefs @ scores[one.rows, number]
            task.step()
        pursuit = _pursuit(kernel, groups, shares, scores, most, run)
        chosen = np.empty(0, dtype=np.intp)
        while True:
            n_more = most if tol is None else max(_STEP, len(chosen) // 4)
            new = pursuit.choose(min(n_more, most - len(chosen)))
            n_before, chosen = len(chosen), np.append(chosen, new)
            found = _projections(expansions, kernel, pursuit.bases, scores, squared)
            near = tol is None or found.distances.max(initial=0.0) <= tol
            if near or not len(new) or len(chosen) == most:
                task.step()
                break
    if tol is None:
        return found
    if not near:  # all of them, where there may be so many
        return Compressed(expansions, np.zeros(len(squared))) if most == len(every) else found
    few, enough = n_before, len(chosen)
    while enough - few > 1:  # the least number of them, in the order of their choice
        n = (few + enough) // 2
        bases = [rows[np.isin(rows, chosen[:n])] for rows in pursuit.bases]
        fewer = _projections(expansions, kernel, bases, scores, squared)
        if fewer.distances.max(initial=0.0) <= tol:
            enough, found = n, fewer
        else:
            few = n
    return found


def _pursuit(
    kernel: KernelMatrix,
    groups: NDArray[np.intp],
    shares: NDArray[np.bool_],
    scores: Array,
    most: int,
    run: Callable,
) -> Pursuit:
    """A pursuit on the machines, among all of their vectors or a sample of them."""
    candidates = np.arange(kernel.n_rows)
    limit = max(_LEAST_CANDIDATES, _CANDIDATES * most)
    if len(candidates) > limit:
        candidates = np.sort(np.random.default_rng(0).choice(candidates, limit, replace=False))
    targets = Functions(scores[candidates], groups[candidates], shares)
    return Pursuit(kernel, candidates, targets, run=run)


def _projections(
    expansions: list[Expansion],
    kernel: KernelMatrix,
    bases: list[NDArray[np.intp]],
    scores: Array,
    squared: Array,
) -> Compressed:
    """Each machine on its own part of the basis."""
    found, distances = [], []
    for number, (one, basis) in enumerate(zip(expansions, bases, strict=True)):
        own = np.sort(basis)
        coefs = _projected(kernel, own, scores[own, number])
        found.append(Expansion(own, coefs, one.offset))
        distances.append(_distance(kernel, one, squared[number], scores[:, number], own, coefs))
    return Compressed(found, np.array(distances))


def _projected(kernel: KernelMatrix, rows: NDArray[np.intp], values: Array) -> Array:
    """The coefficients of the projection of a function onto the span of some rows."""
    if not len(rows):
        return np.empty(0)
    within = np.asarray(kernel.square(rows), dtype=np.float64)
    return solve(kernel_factor(within), values)


def _distance(
    kernel: KernelMatrix,
    before: Expansion,
    squared: float,
    scores: Array,
    rows: NDArray[np.intp],
    coefs: Array,
) -> float:
    """How far two machines are apart in kernel space, at most."""
    within = np.asarray(kernel.square(rows), dtype=np.float64)
    left = squared - 2.0 * float(coefs @ scores[rows]) + float(coefs @ within @ coefs)
    total = float(np.abs(before.coefs).sum() + np.abs(coefs).sum())
    both = np.union1d(before.rows, rows)
    if not len(both):
        return 0.0
    unit = float(np.finfo(np.float64).eps) * kernel.bound(both)
    rounding = total**2 * (kernel.rounding(both) + len(both) * unit)
    return float(np.sqrt(max(left, 0.0) + rounding))
