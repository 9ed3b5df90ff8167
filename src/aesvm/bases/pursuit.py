"""Few rows whose span comes near to given functions in kernel space: matching pursuit.

A function ``g = sum_i c_i phi(x_i)`` is known by its values ``g(x)`` at some candidates x. The
residual r is what a projection of g onto the span of the basis leaves, and d(x) is the squared
distance of phi(x) from that span. A candidate x takes ``r(x)^2 / d(x)`` off ``|r|^2``: its worth.
The candidate of the largest worth is chosen next. With several functions the sum of their worths
counts. Each function is projected onto the chosen vectors that it may use, unless they are in its
span already.

Candidates are chosen in blocks. The few hundred of the largest worth are compared exactly. They are
chosen one by one, while their worth is at least a fraction of the best candidate outside the block.
Then all candidates are updated, by matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.factor import Factor, factor_of_lower, half_solved, times, to_host
from aesvm.formulations.protocol import Array
from aesvm.kernels import Columns, KernelMatrix
from aesvm.kernels.matrix import Arrays
from aesvm.runtime.progress import OutOfTimeError

#: Candidates that are compared exactly, and the most that are chosen of them.
_COMPARED, BLOCK = 256, 64

#: Candidates that a thread updates at a time, or a device.
_PIECE, _PIECE_THERE = 2048, 1 << 15

#: Where a squared distance from the span is below zero by more than this fraction of the largest
#: squared norm, the basis is linearly dependent to within rounding. No more vectors are chosen.
_BROKEN = 1e-8

#: A vector is chosen only where its squared distance from the span is over this fraction of how far
#: candidates are apart: nearer ones have large coefficients that nearly cancel. It must be over
#: another fraction of its squared norm too, which rounding may make up.
LEAST_DISTANCE, _ROUNDING = 1e-5, 1e-12


class Functions(NamedTuple):
    """Functions to come near to, at the candidates."""

    values: Array  #: their residuals, of shape (n_candidates, n_functions)
    groups: NDArray[np.intp]  #: group of each candidate
    may_use: NDArray[np.bool_]  #: (n_functions, n_groups): whether a function may use these rows


class _Function:
    """One of the functions at the candidates that it may use, and its part of the basis.

    Arrays over candidates are of the kind that kernel values are.
    """

    def __init__(self, own: NDArray[np.intp], values: Array, sizes: Array, arrays: Arrays) -> None:
        self.own = own  #: positions of the candidates, ascending
        self.arrays = arrays
        self.values = arrays.put(values)  #: the residual
        self.distances = arrays.put(sizes)  #: squared, from the span
        self.rows = np.empty(0, dtype=np.intp)  #: of the kernel matrix: its part of the basis
        self.room = arrays.zeros((len(own), 0))
        self.taken = 0.0

    @property
    def parts(self) -> Array:
        """The projections of the candidates, in an orthonormal basis of the span."""
        return self.room[:, : len(self.rows)]

    def grow(self, rows: NDArray[np.intp]) -> None:
        """Make room for more vectors."""
        n = len(self.rows) + len(rows)
        if n > self.room.shape[1]:
            shape = len(self.own), max(n, 2 * self.room.shape[1])
            wider = np.empty_like(self.values, shape=shape)
            wider[:, : len(self.rows)] = self.parts
            self.room = wider


@dataclass
class Pursuit:
    """The state of a pursuit.

    - ``kernel``: in double precision.
    - ``candidates``: rows of the kernel matrix, distinct.
    - ``least``: candidates nearer to the span than this fraction of how far they are apart, in
      squared distances, are in it.
    - ``worth``: of those compared, candidates are chosen while they are worth at least this
      fraction of the best one that is not among them.
    - ``run``: ``map`` or a parallel one; ``OutOfTimeError`` of a call ends a choice.
    - ``features``: numbers of the candidates, whose inner products are added to kernel values.
    """

    kernel: KernelMatrix
    candidates: NDArray[np.intp]
    targets: Functions
    least: float = LEAST_DISTANCE
    worth: float = 0.5
    run: Callable = map
    features: Array | None = None

    def __post_init__(self) -> None:
        sizes = np.asarray(self.kernel.diag(self.candidates), dtype=np.float64)
        if self.features is not None:
            sizes = sizes + np.square(self.features).sum(axis=1)
        self.floor = np.maximum(self.least * self._spread(sizes), _ROUNDING * sizes)
        self.largest = float(sizes.max(initial=0.0))
        self.chosen = np.zeros(len(self.candidates), dtype=bool)
        self.functions = []
        for values, may_use in zip(self.targets.values.T, self.targets.may_use, strict=True):
            own = np.flatnonzero(may_use[self.targets.groups])
            self.functions.append(_Function(own, values[own], sizes[own], self.kernel.arrays))

    def _spread(self, sizes: Array) -> float:
        """The largest squared distance of a candidate from the span of the first.

        Squared norms do not tell how far candidates are apart: those of a linear kernel are large
        wherever the data is far from the origin.
        """
        if not len(sizes) or not sizes[0] > 0:
            return float(sizes.max(initial=0.0))
        first = slice(0, 1)
        columns = self.kernel.columns(self.candidates[first])
        values = to_host(self._values(columns, slice(None), first))[:, 0]
        left = sizes - np.square(values) / sizes[0]
        return max(float(left.max()), 0.0) or float(sizes.max())

    def _values(self, columns: Columns, rows: Any, of: Any) -> Any:
        """Kernel values of candidates ``rows`` and of those that columns were made of."""
        part = self.candidates[rows]
        values = columns.values_there(columns.lines(part), len(part))
        values = values.astype(np.float64, copy=False)
        if self.features is not None:
            values += self.features[rows] @ self.features[of].T
        return values

    @property
    def bases(self) -> list[NDArray[np.intp]]:
        """The vectors that each function has, in the order of their choice."""
        return [function.rows for function in self.functions]

    @property
    def taken(self) -> Array:
        """Off the squared norm of each function."""
        return np.array([function.taken for function in self.functions])

    def begin_with(self, bases: list[NDArray[np.intp]], factors: list[Factor]) -> None:
        """Begin with a basis of each function; ``factors``: Cholesky, of its kernel values.

        The targets are taken to be residuals already, and candidates have no ``features``.
        """
        for function, rows, factor in zip(self.functions, bases, factors, strict=True):
            if len(rows):
                self._begin(function, rows, factor)
                self.chosen[np.isin(self.candidates, rows)] = True

    def _begin(self, function: _Function, rows: NDArray[np.intp], factor: Factor) -> None:
        columns = self.kernel.columns(rows)
        function.grow(rows)
        function.rows = rows

        def piece(first: int) -> None:
            here = slice(first, min(first + self._piece, len(function.own)))
            values = self._values(columns, function.own[here], None)
            parts = half_solved(factor, values.T).T
            function.parts[here] = parts
            function.distances[here] -= np.square(parts).sum(axis=1)

        self._each(piece, len(function.own))

    @property
    def _piece(self) -> int:
        return self.kernel.arrays.either(_PIECE, _PIECE_THERE)

    def _each(self, piece: Callable[[int], None], n: int) -> None:
        run = self.kernel.arrays.threads(self.run)
        list(run(piece, range(0, n, self._piece)))

    def choose(self, n_most: int) -> NDArray[np.intp]:
        """Choose more rows; they come in the order of their choice.

        There are fewer where the span has all candidates, or where time is over.
        """
        found: list[NDArray[np.intp]] = []
        n_most = min(n_most, len(self.candidates))
        if len(self.functions) == 1:
            self.functions[0].grow(self.candidates[:n_most])
        with suppress(OutOfTimeError):
            while n_most > 0:
                picks, own, factors = self._block(min(n_most, BLOCK))
                if not len(picks):
                    break
                if not self._take(picks, own, factors):
                    self.chosen[:] = True
                    break
                found.append(self.candidates[picks])
                n_most -= len(picks)
        return np.concatenate(found) if found else np.empty(0, dtype=np.intp)

    def _worths(self) -> Array:
        """The worth of each candidate, summed over the functions."""
        worths = np.zeros(len(self.candidates))
        for one in self.functions:
            floor = one.arrays.put(self.floor[one.own])
            worths[one.own] += to_host(_worths(one.values, one.distances, floor))
        worths[self.chosen] = 0.0
        return worths

    def _block(self, n_most: int) -> tuple[NDArray[np.intp], list[NDArray[np.intp]], list[Array]]:
        """Positions of the next candidates; which of them each function takes, and the factors."""
        worths = self._worths()
        if not worths.any():
            return np.empty(0, dtype=np.intp), [], []
        n_compared = min(_COMPARED, len(worths))
        best = np.argpartition(-worths, n_compared - 1)[:n_compared]
        best = best[worths[best] > 0]
        enough = 0.0
        if len(worths) > n_compared:
            enough = self.worth * float(np.partition(worths, -n_compared - 1)[-n_compared - 1])
        square = self.kernel.square_there(self.candidates[best]).astype(np.float64)
        if self.features is not None:
            square += self.features[best] @ self.features[best].T
        may_use = self.targets.may_use[:, self.targets.groups[best]]
        compared = []
        for one, mask in zip(self.functions, may_use, strict=True):
            at = np.flatnonzero(mask)
            own = one.arrays.put(np.searchsorted(one.own, best[at]))
            places = one.arrays.put(at)
            parts = one.parts[own]
            rest = to_host(square[places[:, None], places] - parts @ parts.T)
            values = to_host(one.values[own])
            compared.append(_Compared(at, rest, values, self.floor[best[at]], n_most))
        order = _greedy(compared, may_use, n_most, enough)
        positions = [best[one.at[one.order]] for one in compared]
        return best[order], positions, [one.factor() for one in compared]

    def _take(
        self, picks: NDArray[np.intp], own: list[NDArray[np.intp]], factors: list[Array]
    ) -> bool:
        """Add candidates to the bases, and update all others; False where rounding forbids it."""
        columns = self.kernel.columns(self.candidates[picks])
        places = np.empty(len(self.candidates), dtype=np.intp)
        places[picks] = np.arange(len(picks))
        updates = [
            _Update(one, positions, self.candidates[positions], places[positions], factor)
            for one, positions, factor in zip(self.functions, own, factors, strict=True)
            if len(positions)
        ]

        def piece(first: int) -> None:
            last = min(first + self._piece, len(self.candidates))
            block = self._values(columns, slice(first, last), picks)
            for update in updates:
                update.of_piece(block, first, last)

        self._each(piece, len(self.candidates))
        if min(float(update.distances.min()) for update in updates) < -_BROKEN * self.largest:
            return False
        for update in updates:
            update.finish()
        self.chosen[picks] = True
        return True


class _Update:
    """A function's update for new vectors."""

    def __init__(
        self,
        function: _Function,
        positions: NDArray[np.intp],
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
        factor: Array,
    ) -> None:
        put = function.arrays.put
        self.function, self.rows, self.columns = function, rows, put(columns)
        self.factor = factor_of_lower(put(factor))
        at = put(np.searchsorted(function.own, positions))
        self.old = function.parts[at].T.copy()
        self.steps = half_solved(self.factor, function.values[at])
        function.grow(rows)
        self.new = slice(len(function.rows), len(function.rows) + len(rows))
        self.distances = function.distances.copy()

    def of_piece(self, block: Array, first: int, last: int) -> None:
        """Candidates from ``first`` to ``last``, whose values with all new vectors are given."""
        one = self.function
        here = slice(*np.searchsorted(one.own, (first, last)).tolist())
        lines = one.arrays.put(one.own[here] - first)
        new = block[lines[:, None], self.columns]
        new -= one.parts[here] @ self.old
        new = half_solved(self.factor, new.T).T
        one.room[here, self.new] = new
        self.distances[here] -= np.square(new).sum(axis=1)

    def finish(self) -> None:
        """Keep the update: all pieces are done, and rounding allows it."""
        one = self.function
        one.distances = self.distances
        one.values = one.values - times(one.room[:, self.new], self.steps)
        one.rows = np.append(one.rows, self.rows)
        one.taken += float(self.steps @ self.steps)


class _Compared:
    """A few candidates of one function, compared exactly."""

    def __init__(
        self, at: NDArray[np.intp], rest: Array, values: Array, floor: Array, n_most: int
    ) -> None:
        self.at = at  #: their positions among all that are compared
        self.rest = rest  #: their kernel values beyond the span
        self.values = values
        self.distances = np.diag(rest).copy()
        self.floor = floor
        self.parts = np.zeros((len(at), min(n_most, len(at))))
        self.order: list[int] = []

    def worths(self) -> Array:
        return _worths(self.values, self.distances, self.floor)

    def take(self, one: int) -> None:
        """Add a candidate to the span, where it is not in it."""
        at, k = int(np.searchsorted(self.at, one)), len(self.order)
        if not self.distances[at] > self.floor[at]:
            return
        new = (self.rest[:, at] - self.parts[:, :k] @ self.parts[at, :k]) / np.sqrt(
            self.distances[at]
        )
        self.parts[:, k] = new
        self.distances -= np.square(new)
        self.values = self.values - new * (self.values[at] / new[at])
        self.order.append(at)

    def factor(self) -> Array:
        return np.tril(self.parts[self.order, : len(self.order)])


def _worths(values: Array, distances: Array, floor: Array) -> Array:
    """The worth of candidates for one function; zero for those in its span."""
    able = distances > floor
    return np.where(able, np.square(values) / np.where(able, distances, 1.0), 0.0)


def _greedy(
    compared: list[_Compared], may_use: NDArray[np.bool_], n_most: int, enough: float
) -> NDArray[np.intp]:
    """The best of a few candidates, one after the other.

    ``may_use``: whether a function may use each of them; ``enough``: the least worth of any but the
    first.
    """
    n_compared = may_use.shape[1]
    worths = np.zeros(may_use.shape)
    for own, one in zip(worths, compared, strict=True):
        own[one.at] = one.worths()
    chosen = np.zeros(n_compared, dtype=bool)
    order: list[int] = []
    while len(order) < n_most:
        total = np.where(chosen, 0.0, worths.sum(axis=0))
        at = int(np.argmax(total))
        if not total[at] > (enough if order else 0.0):
            break
        for number in np.flatnonzero(may_use[:, at]):
            one = compared[number]
            one.take(at)
            worths[number, one.at] = one.worths()
        chosen[at] = True
        order.append(at)
    return np.array(order, dtype=np.intp)
