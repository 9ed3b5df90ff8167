"""Trained machines on fewer of their vectors.

A machine ``f(x) = <w, phi(x)> + b`` is put on some of its vectors, S, in one of two ways:

- projection: w' is the nearest to w in the span of S. No decision value changes by more than
  ``|w - w'| sqrt(k(x, x))``, so this is how a tolerance is kept.
- fit: f' on S, with a new offset, changes least at the vectors x_1, ..., x_n of f. A last term
  stands for the worst row there could be:

      min_f'  sum_i (f(x_i) - f'(x_i))^2 + |w - w'|^2 mean_i k(x_i, x_i).

  Where vectors are far apart, a projection is nearly zero except near S. The fit is not.

Vectors are chosen by a pursuit on w: for projections in kernel space, for fits in a space where
values at a sample of the vectors count as well (``Landmarks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.factor import Curvature, hessian_factor, kernel_factor, solve
from aesvm.bases.pursuit import Functions, Pursuit
from aesvm.formulations.protocol import Array
from aesvm.kernels import KernelMatrix
from aesvm.machines.problem import Expansion
from aesvm.runtime.progress import Progress

#: Candidates for each vector that is to be kept, and at least.
_CANDIDATES, _LEAST_CANDIDATES = 5, 5000

#: Vectors that are chosen before it is checked whether a tolerance is kept.
_STEP = 64

#: Landmarks: vectors at which machines are compared while those to be kept are chosen.
_LANDMARKS = 512

#: Rows whose values at these are computed at a time.
_COMPARED = 2048

#: Vectors at which machines are fitted together: their values with the kept ones are held.
_HELD = 4096


@dataclass(frozen=True)
class Compression:
    """How a model on fewer support vectors differs from the original.

    Attributes
    ----------
    n_before, n_vectors : int
        Support vectors of the original, and of the compressed model.
    bound : float
        Every decision value ``f(x)`` is within ``bound * sqrt(k(x, x)) + abs(shift)`` of the
        original's. (With the RBF kernel ``k(x, x)`` is 1.) It is the distance of the two machines
        in kernel space, with rounding; with several pairs of classes, the largest of all pairs.
    shift : float
        The change of the offset; with several pairs of classes, the largest of all pairs.
    n_measured : int
        Rows that the next three numbers were measured on.
    largest_change, typical_change : float or None
        The largest and the root mean square change of the decision values of these rows.
    labels_changed : float or None
        The fraction of these rows with another predicted class, or that became or ceased to be
        outliers.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> X, y = make_moons(1000, noise=0.3, random_state=0)
    >>> made = AESVC(gamma=2.0).fit(X, y).compress(50, X=X).compression_
    >>> made.n_vectors, bool(made.largest_change <= made.bound + abs(made.shift))
    (50, True)
    """

    n_before: int
    n_vectors: int
    bound: float
    shift: float = 0.0
    n_measured: int = 0
    largest_change: float | None = None
    typical_change: float | None = None
    labels_changed: float | None = None

    def __str__(self) -> str:
        if self.n_vectors == self.n_before:
            text = f"all of {self.n_before:,} support vectors are kept, so nothing is gained"
        else:
            text = f"{self.n_vectors:,} of {self.n_before:,} support vectors"
        text += f"; decision values change by at most {self.bound:.3g} sqrt(k(x, x))"
        if self.shift:
            text += f" + {abs(self.shift):.3g}"
        if self.largest_change is None:
            return text
        text += (
            f"; on {self.n_measured:,} rows by {self.largest_change:.3g} at most and "
            f"{self.typical_change:.3g} typically"
        )
        if self.labels_changed is None:
            return text
        return f"{text}; {self.labels_changed:.2%} of their labels change"


class Compressed(NamedTuple):
    """Machines on fewer vectors, and how far each is from what it was."""

    expansions: list[Expansion]
    distances: Array  #: in kernel space, and rounding
    shifts: Array  #: of the offsets

    @property
    def farthest(self) -> float:
        """How far the values of any machine can be from what they were, where ``k(x, x)`` is 1."""
        return float((self.distances + np.abs(self.shifts)).max(initial=0.0))


def compress(
    expansions: list[Expansion],
    kernel: KernelMatrix,
    groups: NDArray[np.intp],
    may_use: NDArray[np.bool_],
    n_vectors: int | None,
    tol: float | None,
    moves_offsets: bool,
    run: Callable,
    progress: Progress,
) -> Compressed:
    """Fit machines on fewer vectors; where there is a tolerance, project them instead.

    - ``expansions``: over rows of the kernel matrix.
    - ``kernel``: of all their vectors, in double precision.
    - ``groups``: of each vector.
    - ``may_use``: whether a machine may use the vectors of a group.
    - ``n_vectors``: the most that are kept.
    - ``tol``: vectors are added, up to ``n_vectors``, until no machine has moved farther than this.
      Where rounding does not allow that, all of them are kept.
    - ``moves_offsets``: whether offsets of projections are moved by the median change of the
      vectors' scores. With one class all scores are positive, and a projection makes them smaller.
    """
    every = np.arange(kernel.n_rows)
    most = len(every) if n_vectors is None else min(n_vectors, len(every))
    as_they_are = Compressed(expansions, *np.zeros((2, len(expansions))))
    if tol is None and most == len(every):
        return as_they_are
    scores = np.zeros((len(every), len(expansions)))
    squared = np.zeros(len(expansions))
    landmarks = _sample(every, _LANDMARKS if tol is None else 0)
    given = expansions, kernel, scores, squared

    def fit(number: int, own: NDArray[np.intp]) -> tuple[Array, float]:
        at = np.flatnonzero(may_use[number, groups])
        return _fitted(kernel, own, at, scores[:, number], run)

    def project(number: int, own: NDArray[np.intp]) -> tuple[Array, float]:
        coefs, one = _projected(kernel, own, scores[own, number]), expansions[number]
        if not (moves_offsets and len(one.rows)):
            return coefs, 0.0
        lost = scores[one.rows, number] - kernel.scores(own, coefs, one.rows)
        return coefs, float(np.median(lost))

    with progress.task("compress", len(expansions) + 1) as task:
        for number, one in enumerate(expansions):
            at = np.union1d(np.flatnonzero(may_use[number, groups]), landmarks)
            scores[at, number] = kernel.scores(one.rows, one.coefs, at, run)
            squared[number] = one.coefs @ scores[one.rows, number]
            task.step()
        pursuit = _pursuit(kernel, groups, may_use, scores, squared, landmarks, most, run)
        if tol is None:
            pursuit.choose(most)
            found = _put_on(pursuit.bases, fit, *given)
            task.step()
            return found
        chosen = np.empty(0, dtype=np.intp)
        while True:
            n_more = max(_STEP, len(chosen) // 4)
            new = pursuit.choose(min(n_more, most - len(chosen)))
            n_before, chosen = len(chosen), np.append(chosen, new)
            found = _put_on(pursuit.bases, project, *given)
            near = found.farthest <= tol
            if near or not len(new) or len(chosen) == most:
                task.step()
                break
    if not near:  # all of them, where there may be so many
        return as_they_are if most == len(every) else found
    few, enough = n_before, len(chosen)
    while enough - few > 1:  # the least number of them, in the order of their choice
        n = (few + enough) // 2
        bases = [rows[np.isin(rows, chosen[:n])] for rows in pursuit.bases]
        fewer = _put_on(bases, project, *given)
        if fewer.farthest <= tol:
            enough, found = n, fewer
        else:
            few = n
    return found


def _pursuit(
    kernel: KernelMatrix,
    groups: NDArray[np.intp],
    may_use: NDArray[np.bool_],
    scores: Array,
    squared: Array,
    landmarks: NDArray[np.intp],
    most: int,
    run: Callable,
) -> Pursuit:
    """A pursuit on the machines, among all of their vectors or a sample of them.

    Each w is divided by its norm, so that a long one does not get all vectors. Where there are
    landmarks, values at them count as well.
    """
    candidates = _sample(np.arange(kernel.n_rows), max(_LEAST_CANDIDATES, _CANDIDATES * most))
    values, features = scores[candidates], None
    if len(landmarks):
        space = Landmarks.of(kernel, candidates, landmarks, run)
        features, at_landmarks = space.features, scores[landmarks]
        values = space.values(values, at_landmarks)
        squared = space.squared_norms(squared, at_landmarks)
    norms = np.sqrt(np.where(squared > 0, squared, 1.0))
    targets = Functions(values / norms, groups[candidates], may_use)
    return Pursuit(kernel, candidates, targets, worth=1.0, run=run, features=features)


def _sample(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """All of the rows, or a sample of ``most`` of them, ascending."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _put_on(
    bases: list[NDArray[np.intp]],
    fit: Callable[[int, NDArray[np.intp]], tuple[Array, float]],
    expansions: list[Expansion],
    kernel: KernelMatrix,
    scores: Array,
    squared: Array,
) -> Compressed:
    """Each machine on its part of the basis.

    ``fit`` takes the number of a machine and the rows that it is put on to its coefficients and the
    change of its offset.
    """
    found, distances, shifts = [], [], []
    for number, (one, basis) in enumerate(zip(expansions, bases, strict=True)):
        own = np.sort(basis)
        coefs, shift = fit(number, own)
        found.append(Expansion(own, coefs, one.offset + shift))
        shifts.append(found[-1].offset - one.offset)
        distances.append(_distance(kernel, one, squared[number], scores[:, number], own, coefs))
    return Compressed(found, np.array(distances), np.array(shifts))


def _fitted(
    kernel: KernelMatrix,
    rows: NDArray[np.intp],
    at: NDArray[np.intp],
    scores: Array,
    run: Callable,
) -> tuple[Array, float]:
    """Fit a function on some rows: coefficients, and the change of the offset.

    ``rows``: the function is put on these. ``at``: rows at which its values should change least.
    ``scores``: ``<w, phi(x)>`` of all rows of the kernel matrix.
    """
    if not len(rows):
        return np.empty(0), float(np.mean(scores[at])) if len(at) else 0.0
    columns = kernel.columns(rows)
    total, sums = Curvature.of_nothing(len(rows), 1), np.zeros(len(rows) + 1)
    for first in range(0, len(at), _HELD):
        part = at[first : first + _HELD]
        lines = columns.values(columns.lines(part), len(part))
        ones = np.ones(len(part))
        total = total.plus(Curvature.of_rows(lines, ones, ones[None], run))
        sums += np.append(scores[part] @ lines, scores[part].sum())
    size = float(np.mean(kernel.diag(at)))
    within = size * np.asarray(kernel.square(rows), dtype=np.float64)
    sums[:-1] += size * scores[rows]
    solution = solve(hessian_factor(within, total, float(len(at)), run), sums)
    return solution[:-1], float(solution[-1])


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
    """An upper bound on the distance of two machines in kernel space."""
    within = np.asarray(kernel.square(rows), dtype=np.float64)
    left = squared - 2.0 * float(coefs @ scores[rows]) + float(coefs @ within @ coefs)
    total = float(np.abs(before.coefs).sum() + np.abs(coefs).sum())
    both = np.union1d(before.rows, rows)
    if not len(both):
        return 0.0
    unit = float(np.finfo(np.float64).eps) * kernel.bound(both)
    rounding = total**2 * (kernel.rounding(both) + len(both) * unit)
    return float(np.sqrt(max(left, 0.0) + rounding))


class Landmarks(NamedTuple):
    """A space in which values of functions at some rows, the landmarks, count as well.

    Its kernel is

        k(x, z) + sum_p c_p(x) c_p(z) / unit,    c_p(x) = k(p, x) - mean_q k(q, x),

    so that the squared norm of a function g is ``|g|^2 + sum_p (g(p) - mean_q g(q))^2 / unit``: a
    constant is left to the offset. The unit makes both parts count the same over the rows.
    """

    features: Array  #: ``c_p / sqrt(unit)`` of the rows
    unit: float

    @classmethod
    def of(
        cls,
        kernel: KernelMatrix,
        rows: NDArray[np.intp],
        landmarks: NDArray[np.intp],
        run: Callable,
    ) -> Landmarks:
        """Those of some rows of a kernel matrix in double precision."""
        features = np.empty((len(rows), len(landmarks)))

        def piece(first: int) -> None:
            values = kernel.block(rows[first : first + _COMPARED], landmarks).astype(np.float64)
            features[first : first + _COMPARED] = values - values.mean(axis=1, keepdims=True)

        list(run(piece, range(0, len(rows), _COMPARED)))
        total = float(np.square(features).sum())
        unit = total / float(np.sum(kernel.diag(rows))) if total > 0 else 1.0
        features /= np.sqrt(unit)
        return cls(features, unit)

    def values(self, scores: Array, at_landmarks: Array) -> Array:
        """Inner products of functions with the rows, by those in kernel space (``scores``)."""
        centred = (at_landmarks - at_landmarks.mean(axis=0)) / np.sqrt(self.unit)
        return scores + self.features @ centred

    def squared_norms(self, squared: Array, at_landmarks: Array) -> Array:
        """Squared norms of functions, by those in kernel space."""
        return squared + np.square(at_landmarks - at_landmarks.mean(axis=0)).sum(axis=0) / self.unit
