"""Sums over rows, wherever these are: what ``solve_in_passes`` needs to know of them.

A query is about points ``p + step * direction`` of a machine with w in the span of a basis. It asks
for the smoothed losses there, their gradient in coefficients and offsets and, at one of the points,
their curvature. All of these are sums over rows. Whoever holds rows computes the sums over them,
from the kernel values of one block at a time. The sums of all holders are then added up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.factor import Curvature
from aesvm.bases.smoothing import ramps_of, smoothed_losses
from aesvm.formulations.protocol import Array, Formulation
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import RowSelection
from aesvm.machines.training_kernel import TrainingKernel

#: Kernel values of a block, its rows at least, and the blocks that are computed together.
_VALUES, _LEAST, _BLOCKS = 2**20, 64, 16

#: Curved rows that are multiplied together, at least; and of larger bases, one for each vector.
_CURVED = 1024


class SpanMachines(NamedTuple):
    """The machines of a basis, by number, as they are sent to the places that hold rows."""

    vectors: Any  #: the basis
    own: dict[int, NDArray[np.intp]]  #: the vectors that a machine uses
    selections: dict[int, RowSelection]  #: the rows that belong to it
    spec: KernelSpec
    formulation: Formulation
    dtype: np.dtype  #: of kernel values
    accuracy: float  #: as ``kernel_matrix`` has it


class PointOnLine(NamedTuple):
    """A point on the line of a query, and the half-width of the rounded kinks there."""

    step: float
    width: float


class Query(NamedTuple):
    """A query about a machine at points on a line."""

    coefs: Array
    offsets: Array
    along: Array  #: the direction, of coefficients
    shift: Array  #: and of offsets
    points: tuple[PointOnLine, ...]
    curved: int  #: the point whose curvature is wanted, by number
    one_in: int = 1  #: curvature is summed over every ``one_in``-th of the curved rows


class Losses(NamedTuple):
    """Losses and their gradients, summed over rows; arrays are over points."""

    total_cost: Array  #: (1,)
    n_curved: Array  #: (1,): rows whose losses are curved
    slopes: Array  #: (n_offsets,): the d_k of F
    rounded: Array  #: losses with rounded kinks
    exact: Array  #: losses with kinks as they are
    g_at_basis: Array  #: (n_points, n_vectors): ``sum_i coef_i k(x_i, b)``, of multipliers implied
    by_offset: Array  #: (n_points, n_offsets): slopes of the losses in the offsets

    @classmethod
    def of_nothing(cls, query: Query) -> Losses:
        n_points, n, n_offsets = len(query.points), len(query.coefs), len(query.offsets)
        own = (n_offsets,), (n_points,), (n_points,), (n_points, n), (n_points, n_offsets)
        shapes = (1,), (1,), *own
        return cls(*(np.zeros(shape) for shape in shapes))

    def plus(self, other: Losses) -> Losses:
        return Losses(*(one + more for one, more in zip(self, other, strict=True)))


class Sums(NamedTuple):
    """The answer: sums over rows."""

    losses: Losses
    curvature: Curvature

    def plus(self, other: Sums) -> Sums:
        """Those of the rows of both."""
        return Sums(self.losses.plus(other.losses), self.curvature.plus(other.curvature))


#: Answers of several machines, by number.
SumsByMachine = dict[int, Sums]


def merged(answers: Sequence[SumsByMachine]) -> SumsByMachine:
    """The answers of several places as one, added up in their order."""
    whole: SumsByMachine = {}
    for answer in answers:
        for number, own in answer.items():
            whole[number] = whole[number].plus(own) if number in whole else own
    return whole


def add_up(
    X: Any,
    given: NDArray,
    weights: Array,
    sent: SpanMachines,
    queries: dict[int, Query],
    run: Callable = map,
) -> SumsByMachine:
    """The sums over some rows.

    They do not depend on the number of threads.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
    given : ndarray of shape (n_rows,)
        The targets that the rows were given with.
    weights : ndarray of shape (n_rows,)
    sent : SpanMachines
    queries : dict
        Of some of the machines, by number.
    run : callable
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.sums import PointOnLine, Query, SpanMachines, add_up
    >>> from aesvm.kernels import KernelSpec
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.machines.problem import EveryRow
    >>> X, signs = np.array([[1.0], [-2.0]]), np.array([1.0, -1.0])
    >>> sent = SpanMachines(
    ...     X[:1],
    ...     {0: np.array([0])},
    ...     {0: EveryRow(2, 1.0)},
    ...     KernelSpec("linear"),
    ...     Hinge(),
    ...     np.dtype(np.float64),
    ...     1e-5,
    ... )
    >>> points = PointOnLine(0.0, 0.1), PointOnLine(1.0, 0.1)
    >>> here = Query(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), points, 0)
    >>> found = add_up(X, signs, np.ones(2), sent, {0: here})[0].losses
    >>> found.rounded, found.g_at_basis[:, 0]  # at w = 0 both rows pay, at w = 1 none
    (array([2.   , 0.025]), array([3. , 0.5]))
    """
    n_vectors = sent.vectors.shape[0]
    kernel = TrainingKernel(sent.spec, sent.vectors)
    columns = kernel.matrix(sent.dtype, sent.accuracy).columns(np.arange(n_vectors))
    size = max(_LEAST, _VALUES // max(1, n_vectors))
    members = {number: sent.selections[number].members(given) for number in queries}
    totals = {
        number: _Total(query, run) for number, query in queries.items() if len(members[number])
    }

    def of_block(first: int) -> dict[int, _BlockSums]:
        last = min(first + size, len(weights))
        block = columns.values(columns.new_lines(X[first:last]), last - first)
        found = {}
        for number in totals:
            start, stop = np.searchsorted(members[number], [first, last])
            if start < stop:
                at = members[number][start:stop]
                selection, own = sent.selections[number], sent.own[number]
                bounds = selection.costs_of(given[at]) * weights[at]
                found[number] = _block_sums(
                    _part(block, at - first, own),
                    selection.targets_of(given[at]),
                    bounds,
                    queries[number],
                    sent.formulation,
                )
        return found

    starts = range(0, len(weights), size)
    for start in range(0, len(starts), _BLOCKS):
        for found in run(of_block, starts[start : start + _BLOCKS]):
            for number, own in found.items():
                totals[number].add(own)
    return {number: total.sums() for number, total in totals.items()}


def _part(block: NDArray, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
    """Some rows and columns; the block itself where these are all there are, in order."""
    if not np.array_equal(columns, np.arange(block.shape[1])):
        return block[np.ix_(rows, columns)]
    return block[rows] if len(rows) < len(block) else block


class _BlockSums(NamedTuple):
    """The sums over a block of rows, and its rows that are curved."""

    losses: Losses
    lines: NDArray
    curvatures: Array
    crossed: Array


def _block_sums(
    block: NDArray, targets: Array, bounds: Array, query: Query, formulation: Formulation
) -> _BlockSums:
    n, n_offsets = len(targets), len(query.offsets)
    line = np.stack([query.coefs, query.along], axis=1).astype(block.dtype)
    scores, changes = np.ascontiguousarray((block @ line).T, dtype=np.float64)
    ramps = ramps_of(formulation, targets, bounds)
    heights, rises = ramps.heights(scores, query.offsets), ramps.changes(changes, query.shift)
    n_points = len(query.points)
    rounded, exact = np.empty((2, n_points))
    by_offset = np.empty((n_points, n_offsets))
    coefs = np.empty((n_points, n), dtype=block.dtype)
    for number, point in enumerate(query.points):
        here = heights + point.step * rises
        losses = smoothed_losses(ramps, here, point.width, n, n_offsets)
        rounded[number], by_offset[number] = losses.loss, losses.by_offset
        coefs[number] = losses.coefs
        exact[number] = ramps.costs @ np.maximum(here, 0.0)
        if number == query.curved:
            every = np.flatnonzero(losses.curvatures)
            at = every[:: query.one_in]
            scale = len(every) / max(1, len(at))
            curvatures, crossed = scale * losses.curvatures[at], scale * losses.crossed[:, at]
    sums = Losses(
        np.array([bounds.sum()]),
        np.array([float(len(every))]),
        np.array(formulation.slopes(float(bounds.sum()))),
        rounded,
        exact,
        (coefs @ block).astype(np.float64),
        by_offset,
    )
    return _BlockSums(sums, block[at], curvatures, crossed)


class _Total:
    """The sums of a machine; blocks are added one after the other."""

    def __init__(self, query: Query, run: Callable) -> None:
        self.losses = Losses.of_nothing(query)
        self.curvature = Curvature.of_nothing(len(query.coefs), len(query.offsets))
        self.enough = max(_CURVED, len(query.coefs))
        self.run = run
        self.waiting: list[_BlockSums] = []
        self.n_waiting = 0

    def add(self, block: _BlockSums) -> None:
        self.losses = self.losses.plus(block.losses)
        if len(block.lines):
            self.waiting.append(block)
            self.n_waiting += len(block.lines)
        if self.n_waiting >= self.enough:
            self._bend()

    def sums(self) -> Sums:
        if self.waiting:
            self._bend()
        return Sums(self.losses, self.curvature)

    def _bend(self) -> None:
        """Add the rows that wait to the curvature."""
        lines = np.concatenate([block.lines for block in self.waiting])
        curvatures = np.concatenate([block.curvatures for block in self.waiting])
        crossed = np.concatenate([block.crossed for block in self.waiting], axis=1)
        self.waiting, self.n_waiting = [], 0
        self.curvature = self.curvature.plus(
            Curvature.of_rows(lines, curvatures, crossed, self.run)
        )
