"""Pairs of classes of few rows, trained many at a time (``solver.small``).

With many classes there are very many pairs, and most are small: what Python does for one by one
would take longer than the solves. Pairs are put together in tiles, each of which is the work of one
thread; of a pair nothing is kept but its numbers and its support vectors.

Classes are put into groups of a few hundred rows, and the pairs of a class of the one group and a
class of the other are a tile. The kernel values of two groups are computed in blocks, those within
a group once where the cache has room for them. Where that would be far more than a pair needs, for
it has more rows than a group, kernel values are computed as they are needed, and a tile is some
pairs that follow each other. Where compiled code does that, it shares values within a class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from math import inf
from sys import maxsize
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.proof import DualPoint, PrimalPoint, Proof, negative_norm, prove
from aesvm.certificate.records import Records
from aesvm.formulations.objective import Objective, OffsetArrays, Segments, tol_of
from aesvm.formulations.protocol import Array, Formulation
from aesvm.kernels.accumulate import Scratch
from aesvm.kernels.blocks import SQUARE_LINES
from aesvm.kernels.matrix import Columns
from aesvm.kernels.rows_by_class import RowsByClass
from aesvm.machines.one_vs_one import pair_classes, pair_number
from aesvm.machines.results import Terms, TrainedMachines
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.small import Improve, PairVariables, TwoClasses, solve_small
from aesvm.solver.small_compiled import BothClassValues, ClassValues, improve_compiled
from aesvm.solver.small_improve import Blocks, Lines, improve_by_blocks, improve_by_working_sets

#: A pair of more rows is trained by itself, and groups have this many rows where classes are small.
MOST_ROWS, GROUP_ROWS = 3072, 512

#: Rows of a tile of larger pairs, at most where it has several.
_TILE_ROWS = 16_384

#: Rows within a class, at least, that each of its larger pairs is expected to need.
_NEEDED_ROWS = 64

#: Multiplications of all larger pairs that are worth compiled code, which takes seconds to compile
#: once.
COMPILED_PRODUCTS = 5e8

#: Updates of a pair, for each of its rows, where the fit is to end: for a model to predict by.
_LAST_UPDATES = 1 / 8

#: Fewer pairs are trained one by one: that takes less time than to compile what trains many.
FEWEST_PAIRS = 100

#: Kernel values times costs that come to more are left to the solver that checks its sums.
_LARGEST_SUM = 1e150


class ClassMembers(NamedTuple):
    """Distinct rows of several classes, class by class."""

    rows: NDArray[np.intp]
    ends: NDArray[np.intp]  #: where each class ends
    bounds: Array  #: of the rows, costs times weights

    @property
    def sizes(self) -> NDArray[np.intp]:
        return np.diff(self.ends, prepend=0)


class Tile(NamedTuple):
    """Pairs that one thread solves, one after another."""

    groups: tuple[int, int] | None  #: those of the classes; None where pairs are larger
    pairs: NDArray[np.intp]  #: (n_pairs, 2), the classes


class _Asked(NamedTuple):
    """How well pairs are to be solved."""

    tol: float
    duality_tol: float  #: relative; infinite where no duality gap is aimed at
    max_iter: int
    once: bool  #: whether to end after one iteration


class _Found(NamedTuple):
    """The pairs of a tile, solved."""

    numbers: NDArray[np.intp]  #: of the pairs
    columns: dict[str, NDArray]  #: what is known of each
    counts: NDArray[np.intp]  #: support vectors of each
    rows: NDArray[np.int32]  #: these, one pair after another
    coefs: Array


#: Takes a tile, and room for the largest matrix of a pair, to the tile's round.
_RoundOf = Callable[[Tile, Array], Improve]


class SmallPairs:
    """The pairs that are small, and those that leave nothing to learn; the others are left.

    Parameters
    ----------
    classes : ClassMembers
    kernel : TrainingKernel
    formulation : Formulation
    cache_bytes : int
        For kernel values within groups.

    Attributes
    ----------
    numbers : ndarray
        Of these pairs, ascending.
    tiles : list of Tile
        Of those that there is something to learn of.
    """

    def __init__(
        self,
        classes: ClassMembers,
        kernel: TrainingKernel,
        formulation: Formulation,
        cache_bytes: int,
    ) -> None:
        self.classes = classes
        self.formulation = formulation
        self.cache_bytes = cache_bytes
        self.definite = kernel.spec.is_definite
        self.n_features = kernel.X.shape[1]
        self.n_rows = kernel.X.shape[0]  # bounds of distinct rows are sums over equal ones
        self.values = kernel.in_double()  # which certificates can be computed from
        sizes = classes.sizes
        first, second = pair_classes(len(sizes))
        rows = sizes[first] + sizes[second]
        nothing = (sizes[first] == 0) | (sizes[second] == 0)
        self.dual = _dual_of(formulation)
        is_small = ~nothing & (rows <= MOST_ROWS) & (self.dual is not None)
        self.largest = self.rounding = 0.0
        if is_small.any():
            self.largest = self.values.bound(classes.rows)
            self.rounding = self.values.rounding(classes.rows)
            is_small &= self.largest * float(classes.bounds.sum()) < _LARGEST_SUM
        self.nothing = np.flatnonzero(nothing)
        self.numbers = np.flatnonzero(nothing | is_small)
        self.diag = self.values.diag(classes.rows).astype(np.float64, copy=False)
        self.groups = _groups(sizes)
        self.group_of = np.repeat(np.arange(len(self.groups)), [len(own) for own in self.groups])
        fits = rows <= GROUP_ROWS
        self.tiles = _tiles(self.groups, is_small & fits, len(sizes))
        larger = np.flatnonzero(is_small & ~fits)
        pairs = np.stack([first[larger], second[larger]], axis=1)
        self.tiles += _larger_tiles(pairs, rows[larger])
        self.n_larger = np.bincount(pairs.ravel(), minlength=len(sizes))

    def train(
        self,
        tol: float,
        duality_tol: float,
        max_iter: int,
        run: Callable,
        is_over: Callable[[], bool],
        done: Callable[[], None],
    ) -> TrainedMachines:
        """Train them.

        Parameters
        ----------
        tol, duality_tol, max_iter
            As ``minimize`` has them; an infinite ``duality_tol`` is none.
        run : callable
            ``map`` or a parallel one.
        is_over : callable
            Whether to leave it at one round for each pair.
        done : callable
            Called after every tile.
        """
        group_values = _GroupValues(self._block)
        apart = self.dual is not None and self.dual.apart
        columns = self.values.columns(self.classes.rows)
        rows = columns.rows_by_class(self.classes.ends) if self._is_worth_compiling() else None
        group_values.hold(self._held(rows is not None), run)
        of_larger: _RoundOf
        if rows is None:
            of_larger = partial(self._round_of_lines, columns, apart)
        else:
            of_larger = partial(self._compiled_round, rows, group_values, apart)
        of_groups = partial(self._round_of_groups, group_values, Scratch(), apart)
        values = Scratch()

        def solve(tile: Tile) -> _Found:
            asked = _Asked(tol, duality_tol, max_iter, is_over())
            round_of = of_larger if tile.groups is None else of_groups
            return self._solve(tile, asked, round_of, values)

        found = []
        for one in run(solve, self.tiles):
            found.append(one)
            done()
        return self._put_together(found)

    def _is_worth_compiling(self) -> bool:
        """Whether larger pairs have enough to do for compiled code."""
        n_needed = _NEEDED_ROWS * float(self.n_larger @ self.classes.sizes)
        return n_needed * self.n_features > COMPILED_PRODUCTS

    def _rows_of(self, group: int) -> slice:
        """Where the rows of a group are, class by class."""
        ends, own = self.classes.ends, self.groups[group]
        return slice(int(ends[own[0] - 1]) if own[0] else 0, int(ends[own[-1]]))

    def _block(self, first: int, second: int, scratch: Scratch) -> Array:
        """The kernel values of two groups, some lines at a time: these stay in the core's cache."""
        rows = self.classes.rows
        lines, columns = (
            rows[self._rows_of(first)],
            self.values.columns(rows[self._rows_of(second)]),
        )
        block = scratch.block(len(lines), len(columns), self.values.dtype)
        for begin in range(0, len(lines), SQUARE_LINES):
            part = slice(begin, begin + SQUARE_LINES)
            columns.write(columns.lines(lines[part]), 0, len(columns), block[part])
        return block

    def _held(self, of_larger: bool) -> list[int]:
        """The first groups, as many as the cache has room for; of larger pairs as well, where
        asked for, and where the group's values are fewer than these are expected to need.
        """
        used = {group for tile in self.tiles for group in tile.groups or ()}
        n_rows = np.array(
            [own.stop - own.start for own in map(self._rows_of, range(len(self.groups)))]
        )
        if of_larger:
            n_needed = np.bincount(self.group_of, self.n_larger) * _NEEDED_ROWS
            used.update(np.flatnonzero(n_needed > n_rows).tolist())
        held = sorted(used)
        n_held = np.count_nonzero(np.cumsum(8.0 * np.square(n_rows[held])) <= self.cache_bytes)
        return held[:n_held]

    def _solve(self, tile: Tile, asked: _Asked, round_of: _RoundOf, scratch: Scratch) -> _Found:
        classes, formulation, dual = self.classes, self.formulation, self.dual
        assert dual is not None
        sizes = classes.sizes[tile.pairs]
        n_rows = sizes.sum(axis=1)
        at = self._rows_in(tile)
        variables = PairVariables.at_start(sizes, classes.bounds[at], self.diag[at], dual)
        targets = np.where(variables.side == 0, 1.0, -1.0)
        objective = Objective(formulation, targets, variables.bounds, Segments.of(n_rows))
        of_costs = tol_of(formulation, asked.tol, objective.total_cost, n_rows)
        tol = np.array(np.broadcast_to(of_costs, len(n_rows)))
        prove = partial(self._prove, variables, objective, tol)
        proven: tuple[OffsetArrays, Proof] | None = None

        def is_close() -> NDArray[np.bool_]:
            nonlocal proven
            _, proof = proven = prove()
            value = 0.5 * proof.squared_norm + proof.loss
            assert proof.dual is not None
            gap = value + proof.rounding - proof.dual
            # an objective of zero is no multiple of a tolerance
            return gap <= asked.duality_tol * np.maximum(np.abs(value), 1.0 / HUGE)

        most = maxsize if asked.max_iter == -1 else asked.max_iter
        if asked.once:  # which would be all of the solve
            most = min(most, max(10, int(_LAST_UPDATES * n_rows.max())))
        values = scratch.buffer(int(n_rows.max()) ** 2, np.dtype(np.float64))
        solved = solve_small(
            variables,
            dual.apart,
            tol,
            most,
            round_of(tile, values),
            is_close if asked.duality_tol < inf else None,
            asked.once,
        )
        multiples = np.ones(len(n_rows))
        if not solved.converged.all():  # w is the best multiple of what was reached
            norms = objective.segments.sum(variables.coefs * variables.scores)
            best = objective.best_multiples_of_w(variables.scores, norms)
            multiples = np.where(solved.converged, 1.0, best)
            proven = prove(multiples)
        offsets, proof = proven or prove()  # a solve ends with a proof where it has made any
        size = multiples * objective.segments.sum(np.abs(variables.coefs))
        largest = objective.segments.largest(np.abs(variables.diag))
        held = np.flatnonzero(variables.coefs)
        pair = np.repeat(np.arange(len(n_rows)), n_rows)
        return _Found(
            pair_number(tile.pairs[:, 0], tile.pairs[:, 1], len(classes.ends)),
            {
                **solved._asdict(),
                **proof._asdict(),
                "norm_rounding": negative_norm(proof.squared_norm, size, largest),
                "multiple": multiples,
                "offsets": np.stack(offsets, axis=1),
            },
            np.bincount(pair[held], minlength=len(n_rows)),
            classes.rows[at][held].astype(np.int32),
            variables.coefs[held],
        )

    def _prove(
        self, v: PairVariables, objective: Objective, tol: Array, multiples: Array | float = 1.0
    ) -> tuple[OffsetArrays, Proof]:
        """The offsets of some pairs, and what certificates say of them.

        ``multiples``: of the dual solutions, for w.
        """
        assert self.dual is not None
        segments, scores = objective.segments, v.scores
        norms = segments.sum(v.coefs * scores)
        each = multiples if isinstance(multiples, float) else segments.spread(multiples)
        w = each * scores, each * v.coefs
        violations = v.violations(self.dual.apart)
        offsets = objective.unbiased_offsets(w[0], multiples * multiples * norms, violations)
        # rounds add up row by row
        unit = 0.5 * float(np.finfo(np.float64).eps) * self.largest
        rounding: Array = self.rounding + unit * segments.sizes.astype(np.float64)
        point = DualPoint(v.coefs, norms, rounding, segments.largest(np.abs(v.diag)))
        primal_point = PrimalPoint(*w, offsets, segments.sum(np.abs(w[1])) * rounding)
        return offsets, prove(objective, primal_point, v.coefs, point, self.n_rows, tol)

    def _begins(self, tile: Tile) -> NDArray[np.intp]:
        """Where the classes of the pairs begin, among all rows."""
        return (self.classes.ends - self.classes.sizes)[tile.pairs]

    def _rows_in(self, tile: Tile) -> NDArray[np.intp]:
        """Where the rows of its pairs are among all, pair by pair: two stretches of each."""
        begins, sizes = self._begins(tile).ravel(), self.classes.sizes[tile.pairs].ravel()
        ends = np.cumsum(sizes)
        return np.repeat(begins - (ends - sizes), sizes) + np.arange(ends[-1])

    def _round_of_groups(
        self, group_values: _GroupValues, between: Scratch, apart: bool, tile: Tile, values: Array
    ) -> Improve:
        assert tile.groups is not None
        one, other = tile.groups
        second = group_values.values(other, 1)
        first = second if one == other else group_values.values(one, 0)
        cross = second if one == other else self._block(one, other, between)
        starts = np.array([self._rows_of(one).start, self._rows_of(other).start])
        places = self._begins(tile) - starts
        return improve_by_blocks(Blocks(first, cross, second), places, apart, values)

    def _compiled_round(
        self, rows: RowsByClass, group_values: _GroupValues, apart: bool, tile: Tile, values: Array
    ) -> Improve:
        class_values = [self._class_values(pair, group_values.held) for pair in tile.pairs]
        return improve_compiled(rows, tile.pairs, class_values, apart, values)

    def _class_values(self, pair: NDArray[np.intp], held: dict[int, Array]) -> BothClassValues:
        """Of each class of a pair, where those of its group are held."""
        begins = self.classes.ends - self.classes.sizes

        def of(number: int) -> ClassValues | None:
            group = int(self.group_of[number])
            if group not in held:
                return None
            return ClassValues(held[group], int(begins[number]) - self._rows_of(group).start)

        return of(pair[0]), of(pair[1])

    def _round_of_lines(self, columns: Columns, apart: bool, tile: Tile, values: Array) -> Improve:
        at, n_rows = self._rows_in(tile), self.classes.sizes[tile.pairs].sum(axis=1)
        ends = np.cumsum(n_rows)

        def lines(number: int) -> Lines:
            return self._lines(columns, at[ends[number] - n_rows[number] : ends[number]])

        return improve_by_working_sets(lines, apart, values)

    def _lines(self, every: Columns, own: NDArray[np.intp]) -> Lines:
        """Of a pair whose rows are at the given places among all."""
        columns, rows = every.take(own), self.classes.rows[own]

        def write_rows(at: NDArray[np.intp], out: Array) -> None:
            for begin in range(0, len(at), SQUARE_LINES):
                part = at[begin : begin + SQUARE_LINES]
                lines = columns.own_lines(part, rows[part])
                columns.write(lines, 0, len(rows), out[begin : begin + SQUARE_LINES])

        def write_square(at: NDArray[np.intp], out: Array) -> None:
            columns.take(at).write(columns.own_lines(at, rows[at]), 0, len(at), out)

        return Lines(write_rows, write_square)

    def _put_together(self, found: list[_Found]) -> TrainedMachines:
        """All of them, and those that leave nothing to learn, in the order of their numbers."""
        formulation, sizes, n = self.formulation, self.classes.sizes, len(self.numbers)
        every = [np.empty(0, np.intp), *(one.numbers for one in found)]
        at = np.searchsorted(self.numbers, np.concatenate(every))
        counts = np.zeros(n, dtype=np.intp)
        counts[at] = n_support = np.concatenate([counts[:0], *(one.counts for one in found)])
        order = np.argsort(np.repeat(at, n_support), kind="stable")
        rows = np.concatenate([np.empty(0, np.int32), *(one.rows for one in found)])
        coefs = np.concatenate([_NONE, *(one.coefs for one in found)])
        multipliers = Terms(np.cumsum(counts), rows[order], coefs[order])

        def column(name: str, *shape: int) -> Array:
            values = np.zeros((n, *shape))
            if found:
                values[at] = np.concatenate([one.columns[name] for one in found])
            return values

        first, second = pair_classes(len(sizes))
        n_rows = (sizes[first] + sizes[second])[self.numbers]
        nothing = np.searchsorted(self.numbers, self.nothing)
        n_rows[nothing] = 0
        learned = n_rows > 0
        labels = np.repeat(np.arange(len(sizes)), sizes)
        costs = np.bincount(labels, self.classes.bounds, len(sizes)).astype(np.float64, copy=False)
        of_pairs = np.stack([costs[first[self.numbers]], costs[second[self.numbers]]], axis=1)
        worst = np.where(learned, _worst_optima(formulation, of_pairs), 0.0)
        total = np.where(learned, of_pairs.sum(axis=1), 0.0)
        bound = formulation.squared_norm_bound(total, worst)
        offsets = column("offsets", len(formulation.slopes(1.0)))
        decision = formulation.decision(tuple(offsets.T))
        intercept = decision.intercept.copy()
        intercept[nothing] = self._constants(first[self.nothing], second[self.nothing])
        scale = np.repeat(np.broadcast_to(decision.scale, n), counts)
        decided = multipliers.coefs * np.repeat(column("multiple"), counts) / scale
        unknown = np.where(learned, np.nan, 0.0)
        loss = column("loss")
        records = Records.of_numbers(
            n,
            {
                "n_rows": n_rows,
                "squared_norm": column("squared_norm"),
                "rounding": column("norm_rounding"),
                "loss_reduced": loss,
                "loss": loss,
                "total_cost": total,
                "worst_optimum": worst,
                "squared_norm_bound": unknown if bound is None else bound,
                "offsets": offsets,
                "dual_objective": column("dual") if self.definite else unknown,
                "violators": column("n_violators").astype(np.int64),
                "proof_rounding": column("rounding"),
            },
        )
        solved = np.zeros(len(sizes), dtype=bool)
        solved[first[self.numbers[learned]]] = solved[second[self.numbers[learned]]] = True
        return TrainedMachines(
            column("n_updates").astype(np.int64),
            -column("objective"),
            column("violation"),
            (column("converged") > 0) | ~learned,
            multipliers._replace(coefs=decided),
            intercept,
            multipliers,
            records,
            np.sort(self.classes.rows[np.repeat(solved, sizes)]),
        )

    def _constants(self, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
        """The constant decisions of pairs that have rows of one class alone, or no rows."""

        def decided(*targets: float) -> float:
            offsets = self.formulation.constant(np.array(targets))
            assert offsets is not None
            return self.formulation.decision(offsets).intercept

        sizes = self.classes.sizes
        one = np.where(sizes[second] > 0, decided(-1.0), decided())
        return np.where(sizes[first] > 0, decided(1.0), one)


def _dual_of(formulation: Formulation) -> TwoClasses | None:
    """The dual of two classes as numbers; None where it is not one that ``solver.small`` solves."""
    targets = np.array([1.0, -1.0])
    one = formulation.variables(targets, np.ones(2))
    if not (np.array_equal(one.rows, [0, 1]) and np.array_equal(one.signs, targets)):
        return None
    if one.linear[0] != one.linear[1]:
        return None
    return TwoClasses(
        one.constraints is not None, float(one.linear[0]), float(formulation.slopes(1.0)[0])
    )


def _worst_optima(formulation: Formulation, costs: Array) -> Array:
    """F at w = 0 of pairs with the given costs of both classes: each class is as good as a row."""
    if not len(costs):
        return np.zeros(0)
    targets = np.tile([1.0, -1.0], len(costs))
    objective = Objective(
        formulation, targets, costs.ravel(), Segments.of(np.full(len(costs), 2, dtype=np.intp))
    )
    scores = np.zeros(len(targets))
    return objective.loss(scores, objective.best_offsets(scores))


class _GroupValues:
    """Kernel values within groups: those held, and those that a thread computed last."""

    def __init__(self, block: Callable[[int, int, Scratch], Array]) -> None:
        self.block = block
        self.held: dict[int, Array] = {}
        self.thread = threading.local()

    def hold(self, groups: list[int], run: Callable) -> None:
        found = run(lambda group: self.block(group, group, Scratch()), groups)
        self.held = dict(zip(groups, found, strict=True))

    def _last(self) -> dict[int, tuple[int, Scratch, Array]]:
        """By place: a group, the memory that its values are in, and these."""
        if not hasattr(self.thread, "last"):
            self.thread.last = {}
        return self.thread.last

    def values(self, group: int, place: int) -> Array:
        """Those of a group; a thread remembers one in each of two places."""
        if group in self.held:
            return self.held[group]
        last = self._last()
        if place not in last or last[place][0] != group:
            scratch = last[place][1] if place in last else Scratch()
            last[place] = group, scratch, self.block(group, group, scratch)
        return last[place][2]


_NONE: Array = np.empty(0)


def _groups(sizes: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Classes in groups of ``GROUP_ROWS`` at most; one that has more is a group by itself."""
    groups, begin, n_rows = [], 0, 0
    for number, size in enumerate(sizes.tolist()):
        if n_rows and n_rows + size > GROUP_ROWS:
            groups.append(np.arange(begin, number))
            begin, n_rows = number, 0
        n_rows += size
    return [*groups, np.arange(begin, len(sizes))]


def _tiles(groups: list[NDArray[np.intp]], wanted: NDArray[np.bool_], n_classes: int) -> list[Tile]:
    """The pairs that are wanted, by the groups of their classes; those of one second group follow
    each other.
    """
    tiles = []
    for other, second in enumerate(groups):
        for one, first in enumerate(groups[: other + 1]):
            pairs = np.stack([np.repeat(first, len(second)), np.tile(second, len(first))], axis=1)
            pairs = pairs[pairs[:, 0] < pairs[:, 1]]
            pairs = pairs[wanted[pair_number(pairs[:, 0], pairs[:, 1], n_classes)]]
            if len(pairs):
                tiles.append(Tile((one, other), pairs))
    return tiles


def _larger_tiles(pairs: NDArray[np.intp], n_rows: NDArray[np.intp]) -> list[Tile]:
    """Pairs as they follow each other, a few in a tile."""
    tiles, begin = [], 0
    while begin < len(pairs):
        reached = np.cumsum(n_rows[begin:])
        end = begin + max(1, int(np.searchsorted(reached, _TILE_ROWS, side="right")))
        tiles.append(Tile(None, pairs[begin:end]))
        begin = end
    return tiles
