"""Pairs of classes of few rows, trained many at a time (``solver.small``).

With many classes there are very many pairs, and most are small. To train them one by one, Python
would take longer than the solves. So threads solve batches of pairs (``class_bundles``) in compiled
code, and what NumPy computes is computed for many batches at once: threads would wait for each
other in the interpreter. Of a pair only its numbers and its support vectors are kept
(``SolvedPairs``).

Pairs of up to a few hundred rows are solved with all kernel values at hand. Of larger ones compiled
code computes the values that it needs; where it does not have the kernel, they are not small. A
device that has room for the kernel values of all rows solves all pairs (``gpu.small``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from math import inf
from sys import maxsize
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.certificate.proof import DualPoint, PrimalPoint, Proof, negative_norm, prove
from aesvm.certificate.records import Records
from aesvm.formulations.objective import Objective, OffsetArrays, Segments, tol_of
from aesvm.formulations.protocol import Array, Formulation
from aesvm.gpu.small import DevicePairs
from aesvm.kernels import KernelMatrix
from aesvm.kernels.crew import Scratch
from aesvm.kernels.tiles import RowsByClass
from aesvm.machines import class_bundles
from aesvm.machines.class_bundles import (
    Batch,
    Bundles,
    ClassMembers,
    device_batches,
    larger_batches,
)
from aesvm.machines.one_vs_one import pair_number
from aesvm.machines.plan import TABLE
from aesvm.machines.problem import pair_classes
from aesvm.machines.results import Terms, TrainedMachines
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.solver.pair_updates import HUGE
from aesvm.solver.row_cache import LEAST_BYTES
from aesvm.solver.small import Improve, PairVariables, TwoClasses, solve_small
from aesvm.solver.small_matrices import improve_by_matrices
from aesvm.solver.small_working_sets import ClassValues, improve_by_working_sets

#: A pair of more rows is trained by itself.
MOST_ROWS = TABLE.rows_of_small_pairs

#: Fewer pairs are trained one by one.
FEWEST_PAIRS = 2

#: Rows within a class, at least, that each of its larger pairs is expected to need.
_NEEDED_ROWS = 128

#: Updates of a pair, for each of its rows, where the fit is to end: for a model to predict by.
_LAST_UPDATES = 1 / 8

#: Rows of pairs that are trained together, about: their variables take some 200 MB.
_TOGETHER = 2**21

#: Variables of pairs whose certificates are computed at a time, about.
_PROVED = 2**15

#: Sparse rows that take less memory as dense ones are trained as these.
_DENSE_BYTES = 2**26

#: Kernel values times costs that add up to more are left to the solver that checks its sums.
_LARGEST_SUM = 1e150


class _Aims(NamedTuple):
    """How well pairs are to be solved."""

    tol: float
    duality_tol: float  #: relative; infinite where no duality gap is aimed at
    max_iter: int


class SmallPairs:
    """The pairs that are small, and those that leave nothing to learn; the others are left out.

    Parameters
    ----------
    classes : ClassMembers
    kernel : TrainingKernel
    formulation : Formulation
    cache_bytes : int or None
        For kernel values within bundles of classes; ``row_cache.LEAST_BYTES`` where None.
    run : callable, default=map
        ``map`` or a parallel one.

    Attributes
    ----------
    numbers : ndarray
        Of these pairs, ascending.
    batches : list of Batch
        Of those that there is something to learn of.
    """

    def __init__(
        self,
        classes: ClassMembers,
        kernel: TrainingKernel,
        formulation: Formulation,
        cache_bytes: int | None,
        run: Callable = map,
    ) -> None:
        self.classes = classes
        self.formulation = formulation
        self.cache_bytes = LEAST_BYTES if cache_bytes is None else cache_bytes
        self.definite = kernel.spec.is_definite
        self.n_rows = kernel.X.shape[0]  # bounds of distinct rows are sums over equal ones
        self.values = _in_double(kernel)  # which certificates can be computed from
        sizes = classes.sizes
        pairs = np.stack(pair_classes(len(sizes)), axis=1)
        of_pairs = sizes[pairs]
        rows = of_pairs.sum(axis=1)
        nothing = (of_pairs == 0).any(axis=1)
        self.dual = _dual_of(formulation)
        is_small = ~nothing & (rows <= MOST_ROWS) & (self.dual is not None)
        self.largest = self.rounding = 0.0
        if is_small.any():
            self.largest = self.values.bound(classes.rows)
            self.rounding = self.values.rounding(classes.rows)
            is_small &= self.largest * float(classes.bounds.sum()) < _LARGEST_SUM
        self.on_device: DevicePairs | None = None
        if is_small.any():
            chosen = classes.rows, sizes, pairs[is_small]
            self.on_device = kernel.processor.pairs_of_classes(self.values, *chosen)
        is_larger = is_small & (rows > class_bundles.BUNDLE_ROWS) & (self.on_device is None)
        self.by_class: RowsByClass | None = None
        if is_larger.any():
            columns = self.values.columns_by(classes.rows, run)
            self.by_class = columns.rows_by_class(classes.ends, run)
            if self.by_class is None:
                is_small, is_larger = is_small & ~is_larger, np.zeros_like(is_larger)
        self.numbers = np.flatnonzero(nothing | is_small)
        self.pairs = pairs[self.numbers]  # their classes
        self.diag = self.values.diag(classes.rows).astype(np.float64, copy=False)
        self.bundles = Bundles(classes, self.values)
        larger = pairs[is_larger]
        if self.on_device is None:
            # those that take longest first: no thread is left with one of them at the end
            self.batches = larger_batches(larger, rows[is_larger])
            self.batches += self.bundles.batches(pairs[is_small & ~is_larger])
        else:
            self.batches = device_batches(pairs[is_small], rows[is_small])
        self.n_larger = np.bincount(larger.ravel(), minlength=len(sizes))  # pairs of each class

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
            Whether to leave it at one iteration for each pair.
        done : callable
            Called after every batch.
        """
        self.bundles.hold(self._held(), self.cache_bytes, run)
        aims = _Aims(tol, duality_tol, max_iter)
        each = self._by_host() if self.on_device is None else self._by_device(self.on_device)
        solved = []
        for batches in self._together():
            improve = self._improve_all(batches, each, run, is_over, done)
            solved.append(self._solve(batches, aims, improve, is_over, run))
        return self._put_together(solved)

    def _together(self) -> Iterator[list[Batch]]:
        """Consecutive batches whose variables are held at the same time."""
        batches: list[Batch] = []
        n_rows = 0
        for batch in self.batches:
            own = int(self.classes.sizes[batch.pairs].sum())
            if batches and n_rows + own > _TOGETHER:
                yield batches
                batches, n_rows = [], 0
            batches.append(batch)
            n_rows += own
        if batches:
            yield batches

    def _held(self) -> set[int]:
        """Bundles whose kernel values are worth holding.

        For larger pairs they are where these are expected to need more values than the bundle has.
        """
        bundles = self.bundles
        n_needed = _NEEDED_ROWS * np.add.reduceat(self.n_larger, bundles.edges[:-1])
        held = np.flatnonzero(n_needed > bundles.sizes).tolist()
        return {*held, *(bundle for batch in self.batches for bundle in batch.bundles or ())}

    def _improve_all(
        self,
        batches: list[Batch],
        each: Callable[[Batch, int], Improve],
        run: Callable,
        is_over: Callable[[], bool],
        done: Callable[[], None],
    ) -> Improve:
        """How the duals of some batches are improved: ``each`` batch by one thread."""
        ends = np.cumsum([len(batch.pairs) for batch in batches])
        is_first = True

        def improve(
            v: PairVariables, active: NDArray[np.intp], aims: Array, most: NDArray[np.intp]
        ) -> NDArray[np.intp]:
            nonlocal is_first
            updates = np.zeros(len(active), dtype=np.intp)

            def improve_one(number: int) -> None:
                batch, end = batches[number], int(ends[number])
                begin = end - len(batch.pairs)
                here = slice(*np.searchsorted(active, [begin, end]))
                own, limits = active[here] - begin, most[here]
                if not len(own):
                    return
                part = v.part(begin, end)
                n_rows = part.sizes.sum(axis=1)
                if is_over():  # an iteration would be all of the solve
                    last = (_LAST_UPDATES * n_rows[own]).astype(np.intp)
                    limits = np.minimum(limits, np.maximum(10, last))
                improve_batch = each(batch, int(n_rows.max()))
                updates[here] = improve_batch(part, own, aims[here], limits)

            for _ in run(improve_one, range(len(batches))):
                if is_first:
                    done()
            is_first = False
            return updates

        return improve

    def _by_device(self, on_device: DevicePairs) -> Callable[[Batch, int], Improve]:
        """How a batch is improved on a device, which holds the kernel values of all of them."""
        dual, values = self.dual, on_device.values()
        assert dual is not None
        return lambda batch, n_rows: on_device.improve(values, batch.pairs, dual.apart)

    def _by_host(self) -> Callable[[Batch, int], Improve]:
        """How a batch is improved by compiled code; ``n_rows``: of its largest pair."""
        matrix, blocks = Scratch(), (Scratch(), Scratch(), Scratch())
        held = None if self.by_class is None else self.bundles.class_values()

        def improve(batch: Batch, n_rows: int) -> Improve:
            values = matrix.buffer(n_rows**2, np.dtype(np.float64))
            return self._improve(batch, held, blocks, values)

        return improve

    def _improve(
        self,
        batch: Batch,
        held: ClassValues | None,
        blocks: tuple[Scratch, Scratch, Scratch],
        values: Array,
    ) -> Improve:
        """How the duals of a batch are improved; ``values``: room for the largest matrix."""
        assert self.dual is not None
        bundles, apart = self.bundles, self.dual.apart
        if batch.bundles is None:
            assert self.by_class is not None
            assert held is not None
            return improve_by_working_sets(self.by_class, batch.pairs, held, apart, values)
        one, other = batch.bundles
        second = bundles.within(other, blocks[2])
        first = second if one == other else bundles.within(one, blocks[0])
        cross = second if one == other else bundles.block(one, other, blocks[1])
        begins = self.classes.begins[batch.pairs] - bundles.starts[[one, other]]
        return improve_by_matrices((first, cross, second), begins, apart, values)

    def _solve(
        self,
        batches: list[Batch],
        aims: _Aims,
        improve: Improve,
        is_over: Callable[[], bool],
        run: Callable,
    ) -> SolvedPairs:
        classes, formulation, dual = self.classes, self.formulation, self.dual
        assert dual is not None
        pairs = np.concatenate([batch.pairs for batch in batches])
        sizes = classes.sizes[pairs]
        n_rows = sizes.sum(axis=1)
        at = classes.of_pairs(pairs)
        variables = PairVariables.at_start(sizes, classes.bounds[at], self.diag[at], dual)
        targets = np.where(variables.side == 0, 1.0, -1.0)
        objective = Objective(formulation, targets, variables.bounds, Segments.of(n_rows))
        of_costs = tol_of(formulation, aims.tol, objective.total_cost, n_rows)
        tol = np.array(np.broadcast_to(of_costs, len(n_rows)))
        prove = partial(self._prove, variables, objective, tol, run)
        proven: tuple[OffsetArrays, Proof] | None = None

        def is_close() -> NDArray[np.bool_]:
            nonlocal proven
            _, proof = proven = prove()
            value = 0.5 * proof.squared_norm + proof.loss
            assert proof.dual is not None
            gap = value + proof.rounding - proof.dual
            # an objective of zero is no multiple of a tolerance
            return gap <= aims.duality_tol * np.maximum(np.abs(value), 1.0 / HUGE)

        most = maxsize if aims.max_iter == -1 else aims.max_iter
        solved = solve_small(
            variables,
            dual.apart,
            tol,
            most,
            improve,
            is_close if aims.duality_tol < inf else None,
            is_over,
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
        return SolvedPairs(
            pair_number(pairs[:, 0], pairs[:, 1], len(classes.ends)),
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
        self,
        v: PairVariables,
        objective: Objective,
        tol: Array,
        run: Callable,
        multiples: Array | None = None,
    ) -> tuple[OffsetArrays, Proof]:
        """The offsets of some pairs, and what certificates say of them.

        ``multiples``: of the dual solutions, for w.
        """
        begins, n = v.classes[::2], len(v.sizes)
        edges = np.searchsorted(begins, np.arange(0, len(v.coefs), _PROVED)).tolist()

        def some(begin: int, end: int) -> tuple[OffsetArrays, Proof]:
            part, own = v.part(begin, end), slice(begin, end)
            each = 1.0 if multiples is None else multiples[own]
            return self._prove_part(part, objective.part(begin, end), tol[own], each)

        parts = [(a, b) for a, b in pairwise([*edges, n]) if a < b]
        found = list(run(lambda one: some(*one), parts))
        offsets = tuple(map(np.concatenate, zip(*(own for own, _ in found), strict=True)))
        proofs: Any = zip(*(proof for _, proof in found), strict=True)
        columns: Any = [None if own[0] is None else np.concatenate(own) for own in proofs]
        return offsets, Proof(*columns)

    def _prove_part(
        self, v: PairVariables, objective: Objective, tol: Array, multiples: Array | float
    ) -> tuple[OffsetArrays, Proof]:
        """The same of consecutive pairs."""
        assert self.dual is not None
        segments, scores = objective.segments, v.scores
        norms = segments.sum(v.coefs * scores)
        each = multiples if isinstance(multiples, float) else segments.spread(multiples)
        w = each * scores, each * v.coefs
        violations = v.violations(self.dual.apart)
        offsets = objective.unbiased_offsets(w[0], multiples * multiples * norms, violations)
        # compiled code adds up row by row
        unit = 0.5 * float(np.finfo(np.float64).eps) * self.largest
        rounding: Array = self.rounding + unit * segments.sizes.astype(np.float64)
        point = DualPoint(v.coefs, norms, rounding, segments.largest(np.abs(v.diag)))
        primal_point = PrimalPoint(*w, offsets, segments.sum(np.abs(w[1])) * rounding)
        return offsets, prove(objective, primal_point, v.coefs, point, self.n_rows, tol)

    def _put_together(self, solved: list[SolvedPairs]) -> TrainedMachines:
        """All small pairs, in the order of their numbers.

        Those that were not solved leave nothing to learn: they have rows of one class alone, or
        none. Where the kernel is not positive semidefinite, nothing is known of the optimum.
        """
        classes, formulation, numbers = self.classes, self.formulation, self.numbers
        sizes, n = classes.sizes, len(numbers)
        first, second = self.pairs.T
        learned = (sizes[first] > 0) & (sizes[second] > 0)
        at = np.searchsorted(
            numbers, np.concatenate([numbers[:0], *(one.numbers for one in solved)])
        )
        counts = np.zeros(n, dtype=np.intp)
        counts[at] = n_support = np.concatenate([counts[:0], *(one.counts for one in solved)])
        order = np.argsort(np.repeat(at, n_support), kind="stable")
        rows = np.concatenate([np.empty(0, np.int32), *(one.rows for one in solved)])
        coefs = np.concatenate([np.empty(0), *(one.coefs for one in solved)])
        multipliers = Terms(np.cumsum(counts), rows[order], coefs[order])

        def column(name: str, *shape: int) -> Array:
            values = np.zeros((n, *shape))
            if solved:
                values[at] = np.concatenate([one.columns[name] for one in solved])
            return values

        labels = np.repeat(np.arange(len(sizes)), sizes)
        costs = np.bincount(labels, classes.bounds, len(sizes)).astype(np.float64, copy=False)
        of_pairs = np.stack([costs[first], costs[second]], axis=1)
        worst = np.where(learned, _objectives_at_zero(formulation, of_pairs), 0.0)
        total = np.where(learned, of_pairs.sum(axis=1), 0.0)
        bound = formulation.squared_norm_bound(total, worst)
        offsets = column("offsets", len(formulation.slopes(1.0)))
        decision = formulation.decision(tuple(offsets.T))
        constants = _constants(formulation, sizes[first] > 0, sizes[second] > 0)
        scale = np.repeat(np.broadcast_to(decision.scale, n), counts)
        decided = multipliers.coefs * np.repeat(column("multiple"), counts) / scale
        unknown = np.where(learned, np.nan, 0.0)
        loss = column("loss")
        records = Records.of_numbers(
            n,
            {
                "n_rows": np.where(learned, sizes[first] + sizes[second], 0),
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
        has_solved = np.zeros(len(sizes), dtype=bool)
        has_solved[first[learned]] = has_solved[second[learned]] = True
        return TrainedMachines(
            column("n_updates").astype(np.int64),
            -column("objective"),
            column("violation"),
            (column("converged") > 0) | ~learned,
            multipliers._replace(coefs=decided),
            np.where(learned, decision.intercept, constants),
            multipliers,
            records,
            np.sort(classes.rows[np.repeat(has_solved, sizes)]),
        )


def _in_double(kernel: TrainingKernel) -> KernelMatrix:
    """Kernel values in double precision.

    Few sparse rows are made dense: compiled code is for these, and a model of sparse rows is the
    same as that of dense ones to the last digit.
    """
    X = kernel.X
    if not sp.issparse(X) or X.dtype.itemsize * float(X.shape[0]) * X.shape[1] > _DENSE_BYTES:
        return kernel.in_double()
    return TrainingKernel(kernel.spec, X.toarray(), kernel.sum_tol).in_double()


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


class SolvedPairs(NamedTuple):
    """The pairs of some batches, solved: of each its numbers, and its support vectors."""

    numbers: NDArray[np.intp]  #: of the pairs
    columns: dict[str, NDArray]  #: numbers of each
    counts: NDArray[np.intp]  #: support vectors of each
    rows: NDArray[np.int32]  #: the support vectors, one pair after another
    coefs: Array


def _objectives_at_zero(formulation: Formulation, costs: Array) -> Array:
    """F at w = 0 of pairs with the given costs of both classes: a class counts as one row."""
    if not len(costs):
        return np.zeros(0)
    targets = np.ones(costs.size)
    targets[1::2] = -1.0
    objective = Objective(
        formulation, targets, costs.ravel(), Segments.of(np.full(len(costs), 2, dtype=np.intp))
    )
    scores = np.zeros(len(targets))
    return objective.loss(scores, objective.best_offsets(scores))


def _constants(
    formulation: Formulation, has_first: NDArray[np.bool_], has_second: NDArray[np.bool_]
) -> Array:
    """The constant decisions of pairs that have rows of one class alone, or no rows."""

    def decided(*targets: float) -> float:
        offsets = formulation.constant(np.array(targets))
        assert offsets is not None
        return formulation.decision(offsets).intercept

    other = np.where(has_second, decided(-1.0), decided())
    return np.where(has_first, decided(1.0), other)
