"""The SVM of rows in memory in the span of a basis: scores are kept, and lines searched exactly.

``BasisValues`` are the kernel values of many rows and a growing basis: held where there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.descent import (
    Descent,
    Goal,
    Here,
    Line,
    Point,
    SmoothedLosses,
    best_step,
    ramps_of,
    smoothed_losses,
)
from aesvm.bases.factor import (
    Curvature,
    Factor,
    hessian_factor,
    kernel_factor,
    on_host,
    product,
    solve,
    times,
    to_host,
)
from aesvm.formulations.objective import best_offsets, dual_value, total_loss
from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.gpu import linear_algebra
from aesvm.kernels import Columns, KernelMatrix
from aesvm.runtime.cached import cached_property
from aesvm.runtime.progress import OutOfTimeError, Progress

#: The last solve of a machine makes kinks narrower until the relative duality gap is this small.
#: The part of g outside of the span is not counted.
_GAP = 3e-4

#: The goal of all widths but the last given one; and of that one, in a solve that others follow and
#: in the last. Multipliers settle later than the objective does, so the duality gap counts there.
_GOAL = Goal(gain=3e-4)
_LAST_GOAL = {False: Goal(gain=3e-4, lacking=1e-3), True: Goal(gain=3e-6, lacking=1e-4)}

#: Rows of the Hessian's sample for each vector of the basis.
_SAMPLED = 3

#: Steps with one factor at least and at most, and the most factors for one width. Where a factor is
#: worth no more than the least steps, every width has a new one.
_STEPS, _FACTORS = (12, 60), 6

#: Steps after which a solve is expected to be half way: for progress alone.
_HALF_WAY = 15

#: How long an operation of a Gram matrix or a factor, in double precision, takes in operations of a
#: step: on the host, and on a device. There steps wait for memory, and factors do not. (An H200
#: reads 1.2e12 values in the time of 5e13 operations, each value being multiplied twice.)
_DOUBLE = 2.0, 0.1

#: Values of the Hessian's sample that a device copies at a time.
_COPIED_THERE = 1 << 28


class SpanSolution(NamedTuple):
    """The solution of a smooth problem."""

    point: Point
    scores: Array  #: of the rows
    multipliers: Array  #: of the rows, as their positions imply
    n_steps: int
    converged: bool
    wider: tuple[Array, ...] = ()  #: multipliers as wider rounded kinks implied them


@dataclass(eq=False)
class ProblemInMemory:
    """The SVM of rows in the span of a basis: scores, multipliers and gradient are kept.

    It is a ``SmoothProblem``. Where values are on a device, so are the other arrays.
    """

    values: BasisValues  #: of the rows and the basis
    within: Array  #: kernel values of the basis, in double precision
    targets: Array
    bounds: Array
    formulation: Formulation
    start: Point
    run: Callable  #: ``map`` or a parallel one; ``OutOfTimeError`` of a call ends the solve
    to_the_end: bool = False  #: whether smaller widths follow until the duality gap is small

    n_factors = _FACTORS

    def __post_init__(self) -> None:
        formulation, self.arrays = self.formulation, self.values.kernel.arrays
        self.ramps = ramps_of(formulation, self.targets, self.bounds)
        self.slopes = self.arrays.put(np.array(formulation.slopes(float(self.bounds.sum()))))
        self.n_steps = 0
        self.wider: list[Array] = []
        self._factor: Factor | None = None
        self.coefs = self.start.coefs.copy()
        self.offsets = self.arrays.put(np.array(self.start.offsets))
        self.scores = self.values.products(self.coefs)
        self.w_at_basis = product(self.within, self.coefs, self.run)  #: w at the basis
        self.multipliers = self.arrays.zeros(len(self.scores))
        self.g_at_basis = self.arrays.zeros(len(self.coefs))  #: g at the basis, by the multipliers

    def solve(self, widths: tuple[float, ...], progress: Progress) -> SpanSolution:
        """Minimise F over the rows in use, with one half-width of rounded kinks after the other."""
        descent = Descent(self, widths, _GOAL, _LAST_GOAL[self.to_the_end])
        try:
            for line in descent:
                self.search(line)
                progress.reach(1.0 - 0.5 ** (self.n_steps / _HALF_WAY))
                progress.check()
            converged = descent.solved
        except OutOfTimeError:
            converged = False
        point = Point(self.coefs, self.offsets_here())
        wider = tuple(self.wider)
        return SpanSolution(point, self.scores, self.multipliers, self.n_steps, converged, wider)

    def offsets_here(self) -> Offsets:
        return tuple(to_host(self.offsets).tolist())

    def search(self, line: Line) -> None:
        """Go to the best point on a line, and evaluate F there."""
        if line.direction is None:
            self.width = line.width * self.formulation.width(self.offsets_here())
            self.here = self._evaluated(None)
            return
        moved = self._step(line.direction)
        if moved is None:
            self.here = self.here._replace(moved=None)
            return
        self.here = self._evaluated(moved)
        self.n_steps += 1

    def _step(self, direction: Array) -> Array | None:
        """Go to the best point along a direction; None where that is here."""
        n = len(self.coefs)
        along, shift = direction[:n], direction[n:]
        change = self.values.products(along)
        changes = self.ramps.changes(change, shift, self.run)
        pulled = product(self.within, along, self.run)
        slope = float(self.coefs @ pulled + self.slopes @ shift)
        step = best_step(
            self.heights,
            changes,
            self.ramps.costs,
            self.width,
            slope,
            float(along @ pulled),
            self.run,
        )
        if step == 0.0:
            return None
        moved = step * direction
        self.coefs = self.coefs + moved[:n]
        self.offsets = self.offsets + moved[n:]
        self.w_at_basis = self.w_at_basis + step * pulled
        self.scores = self.scores + step * change
        return moved

    def _evaluated(self, moved: Array | None) -> Here:
        """F at the present point; the multipliers that the losses imply are kept."""
        self.heights = self.ramps.heights(self.scores, self.offsets, self.run)
        n, n_offsets = len(self.scores), len(self.offsets)
        self.losses = smoothed_losses(self.ramps, self.heights, self.width, n, n_offsets, self.run)
        self.g_at_basis = self.g_at_basis + self.values.sums(self.losses.coefs - self.multipliers)
        self.multipliers = self.losses.coefs
        objective = float(
            0.5 * self.coefs @ self.w_at_basis + self.slopes @ self.offsets + self.losses.loss
        )
        gradient = np.append(self.w_at_basis - self.g_at_basis, self.slopes + self.losses.by_offset)
        return Here(objective, gradient, moved)

    @property
    def factor(self) -> Factor:
        assert self._factor is not None
        return self._factor

    @property
    def patience(self) -> int:
        """Steps with one factor: those that take half as long as another one, by their flops."""
        n = len(self.coefs)
        factor = (_SAMPLED + 1 / 3) * n**3
        step = 4.0 * len(self.scores) * max(n, 1)
        return int(np.clip(self._double * factor / (2.0 * step), *_STEPS))

    @property
    def _double(self) -> float:
        return self.arrays.either(*_DOUBLE)

    def renew_factor(self, worn: bool) -> None:
        if worn or self._factor is None or self.patience == _STEPS[0]:
            self._factor = None  # there need not be room for two
            self._factor = self._new_factor(self.losses)

    def _new_factor(self, losses: SmoothedLosses) -> Factor:
        """The Hessian's Cholesky factor, over a sample of the rows that are curved."""
        at = to_host(np.flatnonzero(losses.curvatures))
        # as many as take no longer than the steps that a factor serves at least
        worth = 4.0 * _STEPS[0] * len(self.scores) / (self._double * max(1, len(self.coefs)))
        most = max(_SAMPLED * max(len(self.coefs), 500), int(worth))
        scale = 1.0
        if len(at) > most:
            scale = len(at) / most
            at = np.sort(np.random.default_rng(0).choice(at, most, replace=False))
        n, n_offsets = len(self.coefs), len(self.offsets)
        step = self.arrays.either(max(n, 1024), max(1, _COPIED_THERE // max(1, n)))
        curvature: Curvature | None = None
        for first in range(0, len(at), step):
            here = at[first : first + step]
            own = self.arrays.put(here)
            more = Curvature.of_rows(
                self.values.lines(here),
                scale * losses.curvatures[own],
                scale * losses.crossed[:, own],
                self.run,
            )
            curvature = more if curvature is None else curvature.plus(more)
        if curvature is None:
            curvature = Curvature.of_nothing(n, n_offsets, self.arrays)
        steepest = float(self.bounds.sum()) / self.width
        return hessian_factor(self.within, curvature, steepest, self.run)

    def lacks(self) -> float:
        """``|P g - w|^2 / 2``: the duality gap's part in the span, beside that of rounding off."""
        own = self.here.gradient[: len(self.coefs)]
        return 0.5 * float(own @ solve(self._span_factor, own))

    def narrows(self) -> bool:
        """In the last solve, until the duality gap is small. Multipliers of each width are kept."""
        if not self.to_the_end or self._gap() <= _GAP:
            return False
        self.wider.append(self.multipliers)
        return True

    def _gap(self) -> float:
        """The relative duality gap, without the part of g outside of the span."""
        offsets = best_offsets(self.formulation, self.scores, self.targets, self.bounds)
        positions = self.formulation.positions(self.scores, self.targets, offsets)
        loss = total_loss(self.formulation, positions, self.bounds, offsets)
        exact = float(0.5 * self.coefs @ self.w_at_basis) + loss
        coefs = self.formulation.feasible(self.multipliers, self.targets, self.bounds)
        norm = float(self.g_at_basis @ solve(self._span_factor, self.g_at_basis))
        dual = dual_value(self.formulation, coefs, self.targets, norm)
        return (exact - dual) / max(abs(exact), 1e-300)

    @cached_property
    def _span_factor(self) -> Factor:
        """The factor of the basis's kernel values."""
        return kernel_factor(self.within, self.run)


#: Rows of a block, whose values are computed, held and multiplied together: on the host, and on a
#: device. There every product is a call that takes as long as reading some millions of values.
BLOCK_ROWS, _ROWS_THERE = 2048, 1 << 17


class BasisValues:
    """The values ``k(x_i, b_j)`` of rows and a basis.

    Sums are over blocks of rows, in the precision of the kernel within a block and in double
    precision beyond; they do not depend on what is held, nor on the number of threads. Where the
    kernel's rows are on a device, so are the values, and coefficients, weights and sums.

    The first ``n_rows`` of the ``rows`` are in use. Values take ``most_bytes`` at most; all others
    are computed again whenever they are needed.
    """

    def __init__(
        self, kernel: KernelMatrix, rows: NDArray[np.intp], most_bytes: float, run: Callable = map
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self.n_rows = len(rows)
        self.n_kept = len(rows)  # the first rows, whose values may be held
        self.most_bytes = most_bytes
        self.run = kernel.arrays.threads(run)
        self.basis = np.empty(0, dtype=np.intp)
        self.batches: list[Columns] = []  # of vectors that were added together
        self.held: dict[tuple[int, int], Any] = {}  # by number of batch and of block
        self.to_hold: set[tuple[int, int]] = set()  # those that are held, or will be
        self.n_bytes = 0  # that these take
        self.n_values = 0  # kernel values computed so far

    def compute_by(self, kernel: KernelMatrix) -> None:
        """Compute values in another precision from now on."""
        self.kernel = kernel
        sizes = [len(columns) for columns in self.batches]
        parts = np.split(self.basis, np.cumsum(sizes)[:-1]) if sizes else []
        self.basis, self.batches = self.basis[:0], []
        self.held, self.to_hold, self.n_bytes = {}, set(), 0
        for part in parts:
            self.add(part)

    def add(self, rows: NDArray[np.intp]) -> None:
        """More vectors of the basis."""
        if not len(rows):
            return
        batch = len(self.batches)
        self.basis = np.append(self.basis, rows)
        self.batches.append(self.kernel.columns(rows))
        # which blocks there is room for is settled here, and not by the thread that comes first
        for number, first in enumerate(range(0, self.n_kept, self._step)):
            n_lines = min(self._step, len(self.rows) - first)
            size = n_lines * len(rows) * self.kernel.dtype.itemsize
            if self.n_bytes + size <= self.most_bytes:
                self.n_bytes += size
                self.to_hold.add((batch, number))

    def products(self, coefs: Array) -> Array:
        """``sum_j k(x_i, b_j) c_j`` of every row in use."""
        out = self.kernel.arrays.zeros(self.n_rows)

        def block(number: int) -> None:
            here = self._rows_of(number)
            for batch, part in self._parts(coefs):
                out[here] += times(self._values(batch, number), part)

        self._each(block)
        return out

    def sums(self, weights: Array) -> Array:
        """``sum_i w_i k(x_i, b_j)`` of every vector of the basis, over the rows in use."""
        if on_host(weights):
            weights = weights.astype(self.kernel.dtype)
        at = np.flatnonzero(weights)
        starts = np.arange(self._n_blocks + 1) * self._step
        edges = to_host(np.searchsorted(at, self.kernel.arrays.put(starts))).tolist()

        def block(number: int) -> list | None:
            here = self._rows_of(number)
            first, last = edges[number : number + 2]
            if first == last:
                return None
            few = last - first < 0.5 * (here.stop - here.start)
            given = at[first:last] - here.start, weights[here], few
            return [self._sums(batch, number, *given) for batch in range(len(self.batches))]

        total = self.kernel.arrays.zeros(len(self.basis))
        for found in self.run(block, range(self._n_blocks)):
            if found:
                total += np.concatenate(found)
        return total

    def _sums(self, batch: int, number: int, at: Any, weights: Array, few: bool) -> Array:
        """Of a block of rows and a batch of vectors; ``at``: the ``few`` rows with a weight."""
        if on_host(weights):
            if few:
                return weights[at] @ self._lines(batch, number, at)
            return weights @ self._values(batch, number)
        if few and (batch, number) not in self.held:
            lines = self._lines(batch, number, to_host(at))
            return linear_algebra.sum_rows(lines, None, weights[at])
        return linear_algebra.sum_rows(self._values(batch, number), at, weights[at])

    def lines(self, at: NDArray[np.intp]) -> Any:
        """The values of some rows in use, ascending; these are given by an array of the host."""
        out = self.kernel.arrays.empty((len(at), len(self.basis)), self.kernel.dtype)
        numbers = at // self._step
        edges = np.searchsorted(numbers, np.arange(self._n_blocks + 1))

        def block(number: int) -> None:
            first, last = edges[number : number + 2]
            if first == last:
                return
            for batch, part in self._batches():
                out[first:last, part] = self._lines(
                    batch, number, at[first:last] - number * self._step
                )

        self._each(block)
        return out

    def _each(self, function: Callable[[int], None]) -> None:
        list(self.run(function, range(self._n_blocks)))

    @property
    def _step(self) -> int:
        return self.kernel.arrays.either(BLOCK_ROWS, _ROWS_THERE)

    @property
    def _n_blocks(self) -> int:
        return -(-self.n_rows // self._step)

    def _rows_of(self, number: int) -> slice:
        return slice(number * self._step, min((number + 1) * self._step, self.n_rows))

    def _batches(self) -> Iterator[tuple[int, slice]]:
        """Vectors that were added together, by number, and where they are in the basis."""
        start = 0
        for batch, columns in enumerate(self.batches):
            yield batch, slice(start, start + len(columns))
            start += len(columns)

    def _parts(self, coefs: Array) -> list[tuple[int, Any]]:
        own = coefs.astype(self.kernel.dtype)
        return [(batch, own[part]) for batch, part in self._batches()]

    def _values(self, batch: int, number: int) -> Any:
        """The values of a block of rows and a batch of vectors."""
        here = self._rows_of(number)
        held = self.held.get((batch, number))
        if held is not None:
            return held[: here.stop - here.start]
        columns = self.batches[batch]
        room = (batch, number) in self.to_hold
        # where they are held, of rows to be used later as well
        rows = self.rows[here.start : here.start + self._step] if room else self.rows[here]
        values = columns.values_there(columns.lines(rows), len(rows))
        self.n_values += values.size
        if room:
            self.held[batch, number] = values
        return values[: here.stop - here.start]

    def _lines(self, batch: int, number: int, at: NDArray[np.intp]) -> Any:
        """The values of some rows of a block and a batch of vectors."""
        if (batch, number) in self.held:
            return self.held[batch, number][self.kernel.arrays.put(at)]
        columns = self.batches[batch]
        rows = self.rows[number * self._step + at]
        self.n_values += len(rows) * len(columns)
        return columns.values_there(columns.lines(rows), len(rows))
