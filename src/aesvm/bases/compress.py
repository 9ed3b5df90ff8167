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
from functools import partial
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
    machines: Machines,
    n_vectors: int | None,
    tol: float | None,
    moves_offsets: bool,
    progress: Progress,
) -> Compressed:
    """Fit machines on fewer vectors; where there is a tolerance, project them instead.

    - ``n_vectors``: the most that are kept.
    - ``tol``: vectors are added, up to ``n_vectors``, until no machine has moved farther than this.
      Where rounding does not allow that, all of them are kept.
    - ``moves_offsets``: whether offsets of projections are moved by the median change of the
      vectors' scores. With one class all scores are positive, and a projection makes them smaller.
    """
    expansions, n_before = machines.expansions, machines.kernel.n_rows
    most = n_before if n_vectors is None else min(n_vectors, n_before)
    as_they_are = Compressed(expansions, *np.zeros((2, len(expansions))))
    if tol is None and most == n_before:
        return as_they_are
    landmarks = _sample(np.arange(n_before), _LANDMARKS if tol is None else 0)
    with progress.task("compress", len(expansions) + 1) as task:
        for number in range(len(expansions)):
            machines.score(number, landmarks)
            task.step()
        pursuit = machines.pursuit(landmarks, most)
        if tol is None:
            pursuit.choose(most)
            found = machines.put_on(pursuit.bases, machines.fitted)
            task.step()
            return found
        project = partial(machines.projected, moves_offset=moves_offsets)
        chosen = np.empty(0, dtype=np.intp)
        while True:
            n_more = max(_STEP, len(chosen) // 4)
            new = pursuit.choose(min(n_more, most - len(chosen)))
            few, chosen = len(chosen), np.append(chosen, new)
            found = machines.put_on(pursuit.bases, project)
            near = found.farthest <= tol
            if near or not len(new) or len(chosen) == most:
                task.step()
                break
    if not near:  # all vectors, where ``n_vectors`` allows that
        return as_they_are if most == n_before else found
    enough = len(chosen)
    while enough - few > 1:  # the least number of them, in the order of their choice
        n = (few + enough) // 2
        bases = [rows[np.isin(rows, chosen[:n])] for rows in pursuit.bases]
        fewer = machines.put_on(bases, project)
        if fewer.farthest <= tol:
            enough, found = n, fewer
        else:
            few = n
    return found


@dataclass(eq=False)
class Machines:
    """Machines over the vectors of a model, and their scores there."""

    expansions: list[Expansion]  #: over rows of the kernel matrix
    kernel: KernelMatrix  #: of all vectors, in double precision
    groups: NDArray[np.intp]  #: of each vector
    may_use: NDArray[np.bool_]  #: (n_machines, n_groups): whether it may use the vectors of a group
    run: Callable  #: ``map`` or a parallel one

    def __post_init__(self) -> None:
        n_machines = len(self.expansions)
        self.scores = np.zeros((self.kernel.n_rows, n_machines))  #: ``<w, phi(x)>`` of each
        self.squared = np.zeros(n_machines)  #: squared norms

    def own(self, number: int) -> NDArray[np.intp]:
        """The vectors that a machine may use."""
        return np.flatnonzero(self.may_use[number, self.groups])

    def score(self, number: int, others: NDArray[np.intp]) -> None:
        """Compute the scores of the vectors that a machine may use, and of others."""
        one, at = self.expansions[number], np.union1d(self.own(number), others)
        self.scores[at, number] = self.kernel.scores(one.rows, one.coefs, at, self.run)
        self.squared[number] = one.coefs @ self.scores[one.rows, number]

    def pursuit(self, landmarks: NDArray[np.intp], most: int) -> Pursuit:
        """A pursuit on the machines, among all of their vectors or a sample of them.

        Each w is divided by its norm, so that a long one does not get all vectors. Where there are
        landmarks, values at them count as well.
        """
        n_candidates = max(_LEAST_CANDIDATES, _CANDIDATES * most)
        candidates = _sample(np.arange(self.kernel.n_rows), n_candidates)
        values, squared, features = self.scores[candidates], self.squared, None
        if len(landmarks):
            space = Landmarks.of(self.kernel, candidates, landmarks, self.run)
            features, at_landmarks = space.features, self.scores[landmarks]
            values = space.values(values, at_landmarks)
            squared = space.squared_norms(squared, at_landmarks)
        norms = np.sqrt(np.where(squared > 0, squared, 1.0))
        targets = Functions(values / norms, self.groups[candidates], self.may_use)
        return Pursuit(self.kernel, candidates, targets, worth=1.0, run=self.run, features=features)

    def put_on(
        self,
        bases: list[NDArray[np.intp]],
        fit: Callable[[int, NDArray[np.intp]], tuple[Array, float]],
    ) -> Compressed:
        """Each machine on its part of the basis.

        ``fit`` takes the number of a machine and the rows that it is put on to its coefficients and
        the change of its offset.
        """
        found, distances, shifts = [], [], []
        for number, (one, basis) in enumerate(zip(self.expansions, bases, strict=True)):
            rows = np.sort(basis)
            coefs, shift = fit(number, rows)
            found.append(Expansion(rows, coefs, one.offset + shift))
            shifts.append(found[-1].offset - one.offset)
            distances.append(self._distance(number, rows, coefs))
        return Compressed(found, np.array(distances), np.array(shifts))

    def fitted(self, number: int, rows: NDArray[np.intp]) -> tuple[Array, float]:
        """Fit a machine on some rows: its coefficients, and the change of its offset."""
        kernel, scores, at = self.kernel, self.scores[:, number], self.own(number)
        if not len(rows):
            return np.empty(0), float(np.mean(scores[at])) if len(at) else 0.0
        columns = kernel.columns(rows)
        total, sums = Curvature.of_nothing(len(rows), 1), np.zeros(len(rows) + 1)
        for first in range(0, len(at), _HELD):
            part = at[first : first + _HELD]
            lines = columns.values(columns.lines(part), len(part))
            ones = np.ones(len(part))
            total = total.plus(Curvature.of_rows(lines, ones, ones[None], self.run))
            sums += np.append(scores[part] @ lines, scores[part].sum())
        size = float(np.mean(kernel.diag(at)))
        sums[:-1] += size * scores[rows]
        factor = hessian_factor(size * self._within(rows), total, float(len(at)), self.run)
        solution = solve(factor, sums)
        return solution[:-1], float(solution[-1])

    def projected(
        self, number: int, rows: NDArray[np.intp], moves_offset: bool
    ) -> tuple[Array, float]:
        """Project a machine onto the span of some rows: as ``fitted``."""
        one, scores = self.expansions[number], self.scores[:, number]
        coefs = np.empty(0)
        if len(rows):
            coefs = solve(kernel_factor(self._within(rows)), scores[rows])
        if not (moves_offset and len(one.rows)):
            return coefs, 0.0
        lost = scores[one.rows] - self.kernel.scores(rows, coefs, one.rows)
        return coefs, float(np.median(lost))

    def _distance(self, number: int, rows: NDArray[np.intp], coefs: Array) -> float:
        """An upper bound on how far a machine is moved in kernel space."""
        before, kernel = self.expansions[number], self.kernel
        left = self.squared[number] - 2.0 * float(coefs @ self.scores[rows, number])
        left += float(coefs @ self._within(rows) @ coefs)
        total = float(np.abs(before.coefs).sum() + np.abs(coefs).sum())
        both = np.union1d(before.rows, rows)
        if not len(both):
            return 0.0
        unit = float(np.finfo(np.float64).eps) * kernel.bound(both)
        rounding = total**2 * (kernel.rounding(both) + len(both) * unit)
        return float(np.sqrt(max(left, 0.0) + rounding))

    def _within(self, rows: NDArray[np.intp]) -> Array:
        return np.asarray(self.kernel.square(rows), dtype=np.float64)


def _sample(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """All of the rows, or a sample of ``most`` of them, ascending."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


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
        """The features of some rows of a kernel matrix in double precision."""
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
