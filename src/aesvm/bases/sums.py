"""Sums over rows, wherever these are, that the SVM in a span is solved from.

A machine with w in the span of a basis is asked about at points ``p + step * direction``: what its
smoothed losses come to there, their slopes in the coefficients of the basis and in the offsets,
and, at one of the points, their curvature. All of these are sums over rows. Places that hold some
of the rows compute their own, from kernel values of a tile of rows at a time, and add them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.hessian import Curvature
from aesvm.bases.smoothing import implied, ramps_of
from aesvm.bases.values import Array
from aesvm.formulations.protocol import Formulation
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import RowSelection
from aesvm.machines.training_kernel import TrainingKernel

#: Kernel values of a tile, rows of one at least, and the tiles that are computed together.
_VALUES, _LEAST, _TILES = 2**20, 64, 16

#: Curved rows that are multiplied together, at least; and of larger bases, one for each vector.
_CURVED = 1024


class SpanMachines(NamedTuple):
    """The machines of a basis, by number, and what places that hold rows need to know of them."""

    vectors: Any  #: the basis
    own: dict[int, NDArray[np.intp]]  #: those of the vectors that a machine uses
    selections: dict[int, RowSelection]  #: the rows that belong to it
    spec: KernelSpec
    formulation: Formulation
    dtype: np.dtype  #: of kernel values
    accuracy: float  #: as ``kernel_matrix`` has it


class PointOnLine(NamedTuple):
    """A point on the line of a question, and the half-width of the rounded kinks there."""

    step: float
    width: float


class Question(NamedTuple):
    """What a machine is asked: points on a line."""

    coefs: Array
    offsets: Array
    along: Array  #: the direction, of coefficients
    shift: Array  #: and of offsets
    looks: tuple[PointOnLine, ...]
    curved: int  #: the look whose curvature is wanted, by number
    one_in: int = 1  #: curvature is summed over every row that is curved, or every ``one_in``-th


class Losses(NamedTuple):
    """What losses come to, summed over rows; arrays are over looks."""

    total_cost: Array  #: (1,)
    n_curved: Array  #: (1,): rows whose losses are curved
    slopes: Array  #: (n_offsets,): of F in the offsets, beside the losses
    rounded: Array  #: with rounded kinks
    exact: Array  #: with kinks as they are
    pulls: Array  #: (n_looks, n_vectors): ``sum_i coef_i k(x_i, b)``, of multipliers implied
    by_offset: Array  #: (n_looks, n_offsets): slopes of the losses

    @classmethod
    def of_nothing(cls, question: Question) -> Losses:
        n_looks, n, n_offsets = len(question.looks), len(question.coefs), len(question.offsets)
        own = (n_offsets,), (n_looks,), (n_looks,), (n_looks, n), (n_looks, n_offsets)
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
Answer = dict[int, Sums]


def merged(answers: Sequence[Answer]) -> Answer:
    """The answers of several places as one, added up in their order."""
    whole: Answer = {}
    for answer in answers:
        for number, own in answer.items():
            whole[number] = whole[number].plus(own) if number in whole else own
    return whole


def add_up(
    X: Any,
    given: NDArray,
    weights: Array,
    sent: SpanMachines,
    questions: dict[int, Question],
    run: Callable = map,
) -> Answer:
    """The sums over some rows.

    They do not depend on the number of threads.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
    given : ndarray of shape (n_rows,)
        The targets that the rows were given with.
    weights : ndarray of shape (n_rows,)
    sent : SpanMachines
    questions : dict
        Of some of the machines, by number.
    run : callable
        ``map`` or a parallel one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.bases.sums import PointOnLine, Question, SpanMachines, add_up
    >>> from aesvm.kernels import KernelSpec
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.machines.rows import EveryRow
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
    >>> here = Question(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), points, 0)
    >>> found = add_up(X, signs, np.ones(2), sent, {0: here})[0].losses
    >>> found.rounded, found.pulls[:, 0]  # at w = 0 both rows pay, at w = 1 one is on the margin
    (array([2.   , 0.025]), array([3. , 0.5]))
    """
    n_vectors = sent.vectors.shape[0]
    kernel = TrainingKernel(sent.spec, sent.vectors)
    columns = kernel.matrix(sent.dtype, sent.accuracy).columns(np.arange(n_vectors))
    size = max(_LEAST, _VALUES // max(1, n_vectors))
    members = {number: sent.selections[number].members(given) for number in questions}
    totals = {
        number: _Total(question, run)
        for number, question in questions.items()
        if len(members[number])
    }

    def tile(first: int) -> dict[int, _Tile]:
        last = min(first + size, len(weights))
        block = columns.values(columns.new_lines(X[first:last]), last - first)
        found = {}
        for number in totals:
            start, stop = np.searchsorted(members[number], [first, last])
            if start < stop:
                at = members[number][start:stop]
                selection, own = sent.selections[number], sent.own[number]
                bounds = selection.costs_of(given[at]) * weights[at]
                found[number] = _tile(
                    _part(block, at - first, own),
                    selection.targets_of(given[at]),
                    bounds,
                    questions[number],
                    sent.formulation,
                )
        return found

    tiles = range(0, len(weights), size)
    for start in range(0, len(tiles), _TILES):
        for found in run(tile, tiles[start : start + _TILES]):
            for number, own in found.items():
                totals[number].add(own)
    return {number: total.sums() for number, total in totals.items()}


def _part(block: NDArray, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
    """Some rows and columns; the block itself where these are all there are, in order."""
    if not np.array_equal(columns, np.arange(block.shape[1])):
        return block[np.ix_(rows, columns)]
    return block[rows] if len(rows) < len(block) else block


class _Tile(NamedTuple):
    """What a tile adds to the sums, and those of its rows that are curved."""

    losses: Losses
    lines: NDArray
    curvatures: Array
    crossed: Array


def _tile(
    block: NDArray, targets: Array, bounds: Array, question: Question, formulation: Formulation
) -> _Tile:
    n, n_offsets = len(targets), len(question.offsets)
    line = np.stack([question.coefs, question.along], axis=1).astype(block.dtype)
    scores, changes = np.ascontiguousarray((block @ line).T, dtype=np.float64)
    ramps = ramps_of(formulation, targets, bounds)
    heights, rises = ramps.heights(scores, question.offsets), ramps.changes(changes, question.shift)
    n_looks = len(question.looks)
    rounded, exact, by_offset = np.empty(n_looks), np.empty(n_looks), np.empty((n_looks, n_offsets))
    coefs = np.empty((n_looks, n), dtype=block.dtype)
    for number, look in enumerate(question.looks):
        here = heights + look.step * rises
        seen = implied(ramps, here, look.width, n, n_offsets)
        rounded[number], coefs[number], by_offset[number] = seen.loss, seen.coefs, seen.by_offset
        exact[number] = ramps.costs @ np.maximum(here, 0.0)
        if number == question.curved:
            every = np.flatnonzero(seen.curvatures)
            at = every[:: question.one_in]
            share = len(every) / max(1, len(at))
            curvatures, crossed = share * seen.curvatures[at], share * seen.crossed[:, at]
    sums = Losses(
        np.array([bounds.sum()]),
        np.array([float(len(every))]),
        np.array(formulation.slopes(bounds)),
        rounded,
        exact,
        (coefs @ block).astype(np.float64),
        by_offset,
    )
    return _Tile(sums, block[at], curvatures, crossed)


class _Total:
    """The sums of a machine, as its tiles come in."""

    def __init__(self, question: Question, run: Callable) -> None:
        self.losses = Losses.of_nothing(question)
        self.curvature = Curvature.of_nothing(len(question.coefs), len(question.offsets))
        self.enough = max(_CURVED, len(question.coefs))
        self.run = run
        self.waiting: list[_Tile] = []
        self.n_waiting = 0

    def add(self, tile: _Tile) -> None:
        self.losses = self.losses.plus(tile.losses)
        if len(tile.lines):
            self.waiting.append(tile)
            self.n_waiting += len(tile.lines)
        if self.n_waiting >= self.enough:
            self._bend()

    def sums(self) -> Sums:
        if self.waiting:
            self._bend()
        return Sums(self.losses, self.curvature)

    def _bend(self) -> None:
        """Add the rows that wait to the curvature."""
        lines = np.concatenate([tile.lines for tile in self.waiting])
        curvatures = np.concatenate([tile.curvatures for tile in self.waiting])
        crossed = np.concatenate([tile.crossed for tile in self.waiting], axis=1)
        self.waiting, self.n_waiting = [], 0
        self.curvature = self.curvature.plus(
            Curvature.of_rows(lines, curvatures, crossed, self.run)
        )
