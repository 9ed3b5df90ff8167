"""Few rows whose span comes near to given functions in kernel space: matching pursuit.

A function ``g = sum_i c_i phi(x_i)`` is known by its values ``g(x)`` at some candidates x. Of a
basis that has been chosen, let r be what projecting g onto its span leaves, and d(x) the squared
distance of phi(x) from it. A candidate then takes ``r(x)^2 / d(x)`` off ``|r|^2``, and the one that
takes most is next. With several functions, which share the basis, their sums are compared.

Candidates are chosen in blocks. Of the best ones by the values at hand a few hundred are compared
exactly, among each other, and chosen as long as they are worth at least half of the best that is
not among them; then all candidates are brought up to date, by matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from aesvm.kernels import KernelMatrix

Array = NDArray[np.float64]

#: Candidates that are compared exactly, and the most that are chosen of them.
_COMPARED, _BLOCK = 256, 64

#: Worth of the best candidate that is not compared, below which another look is taken at all.
_WORTH = 0.5

#: Candidates that a thread brings up to date at a time.
_PIECE = 2048

#: Squared distances from the span that come out below zero by more than this share of the largest
#: squared norm: the vectors of the basis are dependent to within rounding, and no more are chosen.
_BROKEN = 1e-8

#: A vector is chosen only where it is farther from the span than this share of its squared norm:
#: nearer ones have large coefficients that nearly cancel.
LEAST_DISTANCE = 1e-5


class Targets(NamedTuple):
    """Functions to come near to, at the candidates."""

    values: Array  #: what is left of them, of shape (n_candidates, n_functions)
    groups: NDArray[np.intp]  #: group of each candidate
    shares: NDArray[np.bool_]  #: (n_functions, n_groups): whether a function may use a group's rows


@dataclass
class Pursuit:
    """The state of a pursuit.

    Parameters
    ----------
    kernel : KernelMatrix
        In double precision.
    candidates : ndarray of shape (n_candidates,)
        Rows of the kernel matrix, distinct.
    targets : Targets
        Their values are changed in place.
    least : float
        Candidates nearer to the span than this share of their squared norm are in it.
    run : callable
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.pursuit import Pursuit, Targets
    >>> from aesvm.kernels import kernel_matrix
    >>> kernel = kernel_matrix(np.array([[1.0], [2.0], [4.0]]), kernel="linear")
    >>> everywhere = np.zeros(3, dtype=np.intp), np.ones((1, 1), dtype=bool)
    >>> targets = Targets(np.array([[3.0], [6.0], [12.0]]), *everywhere)
    >>> pursuit = Pursuit(kernel, np.arange(3), targets)
    >>> len(pursuit.choose(2))  # one vector spans a line
    1
    """

    kernel: KernelMatrix
    candidates: NDArray[np.intp]
    targets: Targets
    least: float = LEAST_DISTANCE
    run: Callable = map

    def __post_init__(self) -> None:
        sizes = np.asarray(self.kernel.diag(self.candidates), dtype=np.float64)
        self.floor = self.least * sizes
        self.largest = float(sizes.max(initial=0.0))
        self.distances = sizes.copy()  #: squared, from the span
        self.parts = np.empty((len(self.candidates), 0))  #: in an orthonormal basis of the span
        self.chosen = np.zeros(len(self.candidates), dtype=bool)
        self.taken = np.zeros(len(self.targets.shares))  #: off the squared norm of each function

    def begin_with(self, rows: NDArray[np.intp], factor: Array) -> None:
        """Begin with a basis that there is; ``factor``: the lower one of its kernel values.

        The targets are taken to be what is left of functions outside of its span.
        """
        columns = self.kernel.columns(rows)

        def piece(first: int) -> Array:
            part = self.candidates[first : first + _PIECE]
            values = columns.values(columns.lines(part), len(part)).astype(np.float64, copy=False)
            return scipy.linalg.solve_triangular(
                factor, values.T, lower=True, overwrite_b=True, check_finite=False
            ).T

        if len(rows):
            self.parts = np.concatenate(list(self.run(piece, self._pieces())))
            self.distances -= np.square(self.parts).sum(axis=1)
        self.chosen[np.isin(self.candidates, rows)] = True

    def choose(self, n_most: int) -> NDArray[np.intp]:
        """Some more rows, in the order of their choice; fewer where the span has all."""
        found: list[NDArray[np.intp]] = []
        n_most = min(n_most, len(self.candidates))
        room = np.empty((len(self.candidates), self.parts.shape[1] + n_most))
        room[:, : self.parts.shape[1]] = self.parts
        self.parts = room[:, : self.parts.shape[1]]
        while n_most > 0:
            picks, factor = self._block(min(n_most, _BLOCK))
            if not len(picks):
                break
            if not self._take(picks, factor, room):
                self.chosen[:] = True
                break
            found.append(self.candidates[picks])
            n_most -= len(picks)
        return np.concatenate(found) if found else np.empty(0, dtype=np.intp)

    def _worths(self) -> Array:
        """What each candidate would take off the squared norms."""
        values, groups, shares = self.targets
        own = np.square(values) if shares.all() else np.square(values) * shares.T[groups]
        able = ~self.chosen & (self.distances > self.floor)
        return np.where(able, own.sum(axis=1) / np.where(able, self.distances, 1.0), 0.0)

    def _block(self, n_most: int) -> tuple[NDArray[np.intp], Array]:
        """Positions of the next candidates, and the factor of what they add to the span."""
        worths = self._worths()
        if not worths.any():
            return np.empty(0, dtype=np.intp), np.empty((0, 0))
        n_compared = min(_COMPARED, len(worths))
        best = np.argpartition(-worths, n_compared - 1)[:n_compared]
        best = best[worths[best] > 0]
        enough = 0.0
        if len(worths) > n_compared:
            enough = _WORTH * float(np.partition(worths, -n_compared - 1)[-n_compared - 1])
        rows = self.candidates[best]
        rest = self.kernel.square(rows).astype(np.float64)
        rest -= self.parts[best] @ self.parts[best].T
        shares = self.targets.shares.T[self.targets.groups[best]]
        order, factor = _greedy(
            rest, self.targets.values[best], shares, self.floor[best], n_most, enough
        )
        return best[order], factor

    def _take(self, picks: NDArray[np.intp], factor: Array, room: Array) -> bool:
        """Add candidates to the basis, and bring all others up to date; False where that fails."""
        before, n_new = self.parts.shape[1], len(picks)
        values = self.targets.values
        shares = self.targets.shares.T[self.targets.groups[picks]]
        steps = _steps(factor, values[picks], shares)
        columns = self.kernel.columns(self.candidates[picks])
        old = np.ascontiguousarray(self.parts[picks].T)

        distances = self.distances.copy()

        def piece(first: int) -> None:
            here = slice(first, min(first + _PIECE, len(self.candidates)))
            part = self.candidates[here]
            new = columns.values(columns.lines(part), len(part)).astype(np.float64, copy=False)
            new -= self.parts[here] @ old
            new = scipy.linalg.solve_triangular(
                factor, new.T, lower=True, overwrite_b=True, check_finite=False
            ).T
            room[here, before : before + n_new] = new
            distances[here] -= np.square(new).sum(axis=1)

        list(self.run(piece, self._pieces()))
        if distances.min() < -_BROKEN * self.largest:
            return False
        self.distances = distances
        values -= room[:, before : before + n_new] @ steps
        self.parts = room[:, : before + n_new]
        self.chosen[picks] = True
        self.taken += np.square(steps).sum(axis=0)
        return True

    def _pieces(self) -> range:
        return range(0, len(self.candidates), _PIECE)


def _steps(factor: Array, values: Array, shares: NDArray[np.bool_]) -> Array:
    """The parts of each function along the new directions; none along those it may not use."""
    steps = np.zeros_like(values)
    for at in range(len(values)):
        left = values[at] - factor[at, :at] @ steps[:at]
        steps[at] = np.where(shares[at], left / factor[at, at], 0.0)
    return steps


def _greedy(
    rest: Array,
    values: Array,
    shares: NDArray[np.bool_],
    floor: Array,
    n_most: int,
    enough: float,
) -> tuple[NDArray[np.intp], Array]:
    """The best of a few candidates, one after the other, and the factor of those.

    ``rest``: their kernel values beyond the span; ``enough``: the least worth of one to be chosen
    after the first.
    """
    n = len(rest)
    values, distances = values.copy(), np.diag(rest).copy()
    parts = np.zeros((n, n_most))
    chosen = np.zeros(n, dtype=bool)
    order: list[int] = []
    while len(order) < n_most:
        able = ~chosen & (distances > floor)
        worth = (np.square(values) * shares).sum(axis=1) / np.where(able, distances, 1.0)
        worth[~able] = 0.0
        at = int(np.argmax(worth))
        if not worth[at] > (enough if order else 0.0):
            break
        k = len(order)
        new = (rest[:, at] - parts[:, :k] @ parts[at, :k]) / np.sqrt(distances[at])
        parts[:, k] = new
        distances -= np.square(new)
        step = np.where(shares[at], values[at] / new[at], 0.0)
        values -= np.outer(new, step)
        chosen[at] = True
        order.append(at)
    picks = np.array(order, dtype=np.intp)
    return picks, np.tril(parts[picks, : len(picks)])
