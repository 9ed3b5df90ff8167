"""SVMs of all rows whose w lies in the span of few vectors, chosen as training goes.

pilot    the SVM of a sample of the rows is trained, exactly;
choose   a first basis is chosen, by pursuit on the w of the pilot;
solve    the SVM of all rows is trained with w in the span (``newton``), first on some of them;
enrich   the multipliers that the margins imply make up ``g = sum_i coef_i phi(x_i)``, of which w
         is the part in the span. What is left of it is the gradient outside of the span, and the
         next vectors are chosen by pursuit on that, among a sample of the rows with a multiplier.

The same multipliers are feasible for the dual, so that with ``|g|^2`` they bound the optimum from
below. What that takes, the kernel values of all rows with a multiplier among each other, is known
from the sample with an error that is known too: an estimate, by which enriching ends.

With several machines, one for each pair of classes, all share the vectors: each uses those of its
own classes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from aesvm.bases.newton import Point, Solved, solve_in_span
from aesvm.bases.pursuit import Pursuit, Targets
from aesvm.bases.values import Array, BasisValues
from aesvm.certificate import Account
from aesvm.kernels import KernelMatrix, TrainingKernel
from aesvm.machines.formulation import Formulation, best_offsets, total_loss, worst_optimum
from aesvm.machines.memory import prove
from aesvm.machines.problem import Coverage, Machine, Problem, TrainingSet
from aesvm.machines.rounds import FREE
from aesvm.machines.training import Trained, Trainer, constant_machine, proven
from aesvm.runtime.progress import Progress
from aesvm.solver.state import Solution

#: Rows of the pilot, and those that a first solve is over, at least and for each vector.
PILOT, _FIRST_ROWS, _FIRST_SHARE = 20_000, 40_000, 8

#: Candidates of a pursuit for each vector that is to be chosen, and at least.
_CANDIDATES, _LEAST_CANDIDATES = 5, 3000

#: A vector is chosen only where it is farther from the span than this share of its squared norm, by
#: the precision of the kernel values: nearer ones have large coefficients that nearly cancel.
_LEAST_DISTANCE = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-8}

#: Widths of the first solve, of those between, and of the last.
_FIRST, _BETWEEN, _LAST = (0.3, 0.1, 0.03), (0.1, 0.03), (0.03, 0.01)

#: The share of the vectors that the pilot chooses, and the most that are added at a time.
_PILOTS_SHARE, _MOST_ADDED = 0.5, 1000

#: Enriching ends where it lowers the objective by less than this share of ``gap_tol``.
_SETTLED = 0.1

#: The share of the machine's memory that kernel values are held in, where no budget is given.
_MEMORY_SHARE = 0.25

#: Standard errors that an estimate is given with.
_ERRORS = 2.0


class BasisLimits(NamedTuple):
    """How large a basis may become."""

    max_vectors: int
    gap_tol: float  #: enriching ends where the relative gap is estimated to be smaller
    most_bytes: float | None = None  #: of kernel values that are held


@dataclass
class _Member:
    """One machine in training; its rows in an order that is random."""

    number: int
    problem: Problem
    groups: NDArray[np.intp]  #: of its rows
    values: BasisValues
    point: Point
    within: Array = field(default_factory=lambda: np.empty((0, 0)))
    solved: Solved | None = None
    n_steps: int = 0
    pilot: Machine | None = None
    outside: tuple[float, float] | None = None  #: of |g|^2, and its standard error

    @property
    def basis(self) -> NDArray[np.intp]:
        return self.values.basis

    @property
    def bounds(self) -> Array:
        return self.problem.bounds

    def factor(self) -> Array:
        return scipy.linalg.cholesky(self.within, lower=True, check_finite=False)


def train_in_basis(
    problems: list[Problem],
    groups: NDArray[np.intp],
    kernel: TrainingKernel,
    limits: BasisLimits,
    trainer: Trainer,
) -> list[Trained]:
    """Train the machine of every problem on few vectors, which all of them share.

    Parameters
    ----------
    problems : list of Problem
    groups : ndarray
        Of every row of the kernel matrix.
    kernel : TrainingKernel
    limits : BasisLimits
    trainer : Trainer
    """
    return _Training(problems, groups, kernel, limits, trainer).run()


class _Training:
    def __init__(
        self,
        problems: list[Problem],
        groups: NDArray[np.intp],
        kernel: TrainingKernel,
        limits: BasisLimits,
        trainer: Trainer,
    ) -> None:
        self.groups = groups
        self.kernel = kernel
        self.limits = limits
        self.trainer = trainer
        self.formulation: Formulation = trainer.formulation
        self.threads = trainer.run
        self.progress = trainer.progress
        self.double: KernelMatrix = kernel.matrix(np.float64, kernel.sum_tol / 10)
        self.basis = np.empty(0, dtype=np.intp)
        self.n_distinct = len(np.unique(np.concatenate([one.rows for one in problems])))
        most = limits.most_bytes
        total = sum(len(one.rows) for one in problems)
        held = _memory() * _MEMORY_SHARE if most is None else most
        ranks = np.random.default_rng(0).permutation(kernel.X.shape[0])
        self.members = [
            self._member(number, problem, ranks, held * len(problem.rows) / max(1, total))
            for number, problem in enumerate(problems)
            if self.formulation.constant(problem.targets) is None
        ]
        self.problems = problems

    def _member(
        self, number: int, problem: Problem, ranks: NDArray[np.intp], most_bytes: float
    ) -> _Member:
        order = np.argsort(ranks[problem.rows])
        shuffled = Problem(*(values[order] for values in problem))
        bounds = shuffled.bounds
        values = self.kernel.for_sums(shuffled.rows, bounds[: 10 * self.limits.max_vectors])
        nothing = np.zeros(len(order))
        offsets = best_offsets(self.formulation, nothing, shuffled.targets, bounds)
        return _Member(
            number,
            shuffled,
            np.unique(shuffled.groups),
            BasisValues(values, shuffled.rows, most_bytes, self.threads),
            Point(np.empty(0), offsets),
        )

    def run(self) -> list[Trained]:
        """Train all."""
        if self.members:
            with self.progress.task("basis", None) as task:
                self._run(task)
        trained = {member.number: self._trained(member) for member in self.members}
        nothing = Trained(constant_machine((0.0,)), 0, Account.of_nothing(), None)
        return [
            trained.get(number) or nothing._replace(machine=self._constant(problem))
            for number, problem in enumerate(self.problems)
        ]

    def _constant(self, problem: Problem) -> Machine:
        offsets = self.formulation.constant(problem.targets)
        assert offsets is not None  # the others are members
        return constant_machine(offsets)

    def _run(self, progress: Progress) -> None:
        most = self.limits.max_vectors
        self._train_pilots(progress)
        n_first = most if self._pilots_are_all else max(1, round(_PILOTS_SHARE * most))
        self._add(self._chosen_by_pilots(n_first))
        for member in self.members:
            self._start_from_pilot(member)
        some = max(_FIRST_ROWS, _FIRST_SHARE * len(self.basis))
        if any(len(member.problem.rows) > 2 * some for member in self.members):
            self._solve(_FIRST, progress, some)
        before = inf
        while len(self.basis) < most and not progress.is_over():
            self._solve(_BETWEEN, progress)
            objective = sum(self._objective(member) for member in self.members)
            if before - objective <= _SETTLED * self.limits.gap_tol * abs(objective):
                break
            before = objective
            new = self._enriched(min(most - len(self.basis), _MOST_ADDED))
            if not len(new):
                break
            self._add(new)
        self._solve(_LAST, progress, to_the_end=True)
        self._estimate()
        self._gap()

    # --- the pilot

    def _train_pilots(self, progress: Progress) -> None:
        """The exact SVMs of a sample of the rows."""
        share = min(1.0, PILOT / self.n_distinct)
        self._pilots_are_all = share == 1.0
        for member in self.members:
            problem = member.problem
            n = min(len(problem.rows), max(round(share * len(problem.rows)), 1000))
            rows, targets, _, weights, costs = (values[:n] for values in problem)
            own = TrainingSet(rows, targets, weights, costs, Coverage(n))
            member.pilot = self.trainer.train(member.number, self.kernel, own, progress)

    def _chosen_by_pilots(self, n_most: int) -> NDArray[np.intp]:
        """Vectors whose span comes near to the pilots."""
        pilots = [member.pilot for member in self.members if member.pilot is not None]
        support = np.unique(np.concatenate([one.set.rows[one.support] for one in pilots]))
        if not len(support):
            return support
        most = max(_LEAST_CANDIDATES, 2 * _CANDIDATES * n_most)
        if len(support) > most:
            support = np.sort(np.random.default_rng(1).choice(support, most, replace=False))
        values = np.zeros((len(support), len(self.members)))
        for column, member in enumerate(self.members):
            assert member.pilot is not None
            at = np.flatnonzero(np.isin(self.groups[support], member.groups))
            own = member.pilot.support
            rows, coefs = member.pilot.set.rows[own], member.pilot.coefs[own]
            kernel = self.kernel.for_sums(rows, coefs)
            values[at, column] = kernel.scores(rows, coefs, support[at], self.threads)
        chosen = self._pursuit(support, values).choose(n_most)
        self.progress.say(f"basis: {len(chosen):,} vectors of the SVM of a sample")
        return chosen

    def _start_from_pilot(self, member: _Member) -> None:
        """Begin with the part of the pilot that is in the span."""
        pilot = member.pilot
        if pilot is None or pilot.solution is None:
            member.point = Point(np.zeros(len(member.basis)), member.point.offsets)
            return
        own = pilot.support
        values = self.double.scores(
            pilot.set.rows[own], pilot.coefs[own], member.basis, self.threads
        )
        coefs = scipy.linalg.cho_solve((member.factor(), True), values, check_finite=False)
        member.point = Point(coefs, pilot.offsets)
        if not self._pilots_are_all:
            member.pilot = None

    # --- the basis

    def _pursuit(self, candidates: NDArray[np.intp], values: Array) -> Pursuit:
        """A pursuit on what is left of a function of each member."""
        numbers, groups = np.unique(self.groups[candidates], return_inverse=True)
        shares = np.array([np.isin(numbers, member.groups) for member in self.members])
        targets = Targets(values, groups, shares)
        least = max(_LEAST_DISTANCE[member.values.kernel.dtype] for member in self.members)
        return Pursuit(self.double, candidates, targets, least, self.threads)

    def _add(self, rows: NDArray[np.intp]) -> None:
        """More vectors of the basis, for the members that may use them."""
        self.basis = np.append(self.basis, rows)
        for member in self.members:
            own = rows[np.isin(self.groups[rows], member.groups)]
            member.values.add(own)
            member.within = np.asarray(self.double.square(member.basis), dtype=np.float64)
            coefs = np.append(member.point.coefs, np.zeros(len(own)))
            member.point = Point(coefs, member.point.offsets)

    def _enriched(self, n_most: int) -> NDArray[np.intp]:
        """The next vectors; none where the gap is estimated to be small enough."""
        candidates = self._candidates(n_most)
        left = self._estimate(candidates)
        gap, error, objective = self._gap()
        if gap + error <= self.limits.gap_tol * abs(objective):
            return np.empty(0, dtype=np.intp)
        pursuit = self._pursuit(candidates, left)
        factor = self._factor()
        pursuit.begin_with(self.basis, factor)
        return pursuit.choose(n_most)

    def _factor(self) -> Array:
        if len(self.members) == 1:
            return self.members[0].factor()
        within = np.asarray(self.double.square(self.basis), dtype=np.float64)
        return scipy.linalg.cholesky(within, lower=True, check_finite=False)

    def _candidates(self, n_most: int) -> NDArray[np.intp]:
        """A sample of the rows with a multiplier."""
        active = np.unique(
            np.concatenate(
                [
                    member.problem.rows[np.flatnonzero(member.solved.multipliers)]
                    for member in self.members
                    if member.solved is not None
                ]
            )
        )
        most = max(_LEAST_CANDIDATES, _CANDIDATES * n_most)
        if len(active) <= most:
            return active
        rng = np.random.default_rng(len(self.basis))
        return np.sort(rng.choice(active, most, replace=False))

    def _estimate(self, candidates: NDArray[np.intp] | None = None) -> Array:
        """What is left of g outside of the span, at some candidates; its norm is estimated."""
        if candidates is None:
            candidates = self._candidates(0)
        left = np.zeros((len(candidates), len(self.members)))
        for column, member in enumerate(self.members):
            at = np.flatnonzero(np.isin(self.groups[candidates], member.groups))
            left[at, column] = self._left(member, candidates[at])
        return left

    def _left(self, member: _Member, rows: NDArray[np.intp]) -> Array:
        """What is left of g at some rows, of which those with a multiplier are a fair sample."""
        assert member.solved is not None
        multipliers, own = member.solved.multipliers, member.problem.rows
        active = np.flatnonzero(multipliers)
        kernel = self.kernel.for_sums(own[active], multipliers[active])
        values = kernel.scores(own[active], multipliers[active], rows, self.threads)
        at_basis = member.values.sums(multipliers)
        coefs = scipy.linalg.cho_solve((member.factor(), True), at_basis, check_finite=False)
        left = values - self.double.scores(member.basis, coefs, rows, self.threads)
        places = np.argsort(own)
        found = multipliers[places[np.searchsorted(own, rows, sorter=places)]]
        used = found != 0
        terms = (found * left)[used]
        inside = float(coefs @ at_basis)
        outside, error = 0.0, 0.0
        if len(terms) == len(active):
            outside = max(0.0, float(terms.sum()))
        elif len(terms) > 1:
            outside = max(0.0, float(terms.mean()) * len(active))
            error = float(terms.std(ddof=1)) / np.sqrt(len(terms)) * len(active)
        member.outside = inside + outside, error
        return left

    def _gap(self) -> tuple[float, float, float]:
        """The estimated gap, its error, and the objective, all members together."""
        gap = variance = objective = 0.0
        for member in self.members:
            assert member.outside is not None
            own = self._objective(member)
            dual, error = self._estimated_dual(member)
            gap, variance, objective = gap + own - dual, variance + error**2, objective + own
        self.progress.say(
            f"basis: {len(self.basis):,} vectors, F1 {objective:.6g}, relative gap estimated as "
            f"{gap / abs(objective) if objective else 0.0:.2g}"
        )
        return gap, float(np.sqrt(variance)), objective

    # --- solving in the span

    def _solve(
        self,
        widths: tuple[float, ...],
        progress: Progress,
        n_rows: int = -1,
        to_the_end: bool = False,
    ) -> None:
        for member in self.members:
            n = len(member.problem.rows)
            member.values.n_rows = n = n if n_rows < 0 else min(n, n_rows)
            member.solved = solve_in_span(
                member.values,
                member.within,
                member.problem.targets[:n],
                member.bounds[:n],
                self.formulation,
                member.point,
                widths,
                self.threads,
                progress,
                to_the_end,
            )
            member.point = member.solved.point
            member.n_steps += member.solved.n_steps

    def _objective(self, member: _Member) -> float:
        """F over all rows."""
        coefs = member.point.coefs
        return float(0.5 * coefs @ member.within @ coefs) + self._loss(member)

    def _loss(self, member: _Member) -> float:
        assert member.solved is not None
        problem, formulation = member.problem, self.formulation
        offsets = best_offsets(formulation, member.solved.scores, problem.targets, member.bounds)
        positions = formulation.positions(member.solved.scores, problem.targets, offsets)
        return total_loss(formulation, positions, member.bounds, offsets)

    def _feasible(self, member: _Member) -> Array:
        """Multipliers of all rows that are feasible for the dual."""
        assert member.solved is not None
        if self._pilots_are_all and member.pilot is not None:
            return member.pilot.coefs
        return self.formulation.feasible(
            member.solved.multipliers, member.problem.targets, member.bounds
        )

    def _estimated_dual(self, member: _Member) -> tuple[float, float]:
        """The dual at the implied multipliers, and its standard error."""
        if self._pilots_are_all and member.pilot is not None and member.pilot.solution is not None:
            return -member.pilot.solution.objective, 0.0
        assert member.outside is not None
        norm, error = member.outside
        coefs, targets = self._feasible(member), member.problem.targets
        dual = self.formulation.dual_value(coefs, targets, norm)
        return dual, abs(dual - self.formulation.dual_value(coefs, targets, norm + error))

    # --- what comes of it

    def _trained(self, member: _Member) -> Trained:
        """The machine, and what is kept of it for a certificate."""
        assert member.solved is not None
        problem, formulation, bounds = member.problem, self.formulation, member.bounds
        offsets = best_offsets(formulation, member.solved.scores, problem.targets, bounds)
        coefs = member.point.coefs
        place = np.argsort(problem.rows)
        at = place[np.searchsorted(problem.rows, member.basis, sorter=place)]
        scores = member.within @ coefs
        dual, error = self._estimated_dual(member)
        worst = worst_optimum(formulation, problem.targets, bounds)
        coverage = Coverage(
            n_rows=len(problem.rows),
            total_cost=float(bounds.sum()),
            worst_optimum=worst,
            squared_norm_bound=formulation.squared_norm_bound(bounds, worst),
            exact=False,
        )
        own = TrainingSet(
            member.basis, problem.targets[at], problem.weights[at], problem.costs[at], coverage
        )
        n_iter = self.trainer.n_iter[member.number] + member.n_steps
        solution = Solution(
            np.abs(coefs),
            scores,
            np.array(offsets),
            -dual,
            float("nan"),
            float("nan"),
            n_iter,
            member.values.n_values,
            member.solved.converged,
        )
        machine = Machine(own, coefs, scores, offsets, solution)
        multipliers = self._feasible(member)
        account = Account(
            exact=False,
            rounds=0,
            n_rows=len(problem.rows),
            max_residual=0.0,
            total_residual=0.0,
            squared_norm=machine.squared_norm,
            rounding=0.0,
            loss_reduced=self._loss(member),
            total_cost=coverage.total_cost,
            worst_optimum=worst,
            squared_norm_bound=coverage.squared_norm_bound,
            target_reach=formulation.target_reach,
            offsets=offsets,
            weighted_distances=0.0,
            loss=self._loss(member),
            n_vectors=len(member.basis),
            estimated_dual=dual,
            estimated_error=_ERRORS * error,
        )
        n_held = np.count_nonzero(multipliers)
        if n_held**2 / 2 + len(problem.rows) * len(coefs) <= FREE:
            sort = np.argsort(problem.rows)
            ordered = Problem(*(values[sort] for values in problem))
            proof = prove(
                ordered,
                member.basis,
                coefs,
                offsets,
                multipliers[sort],
                self.kernel,
                formulation,
                self.trainer.options.tol,
                self.threads,
            )
            account = proven(account, proof)
        held = np.flatnonzero(multipliers)
        kept = problem.rows[held].astype(np.int32), multipliers[held]
        return Trained(machine, n_iter, account, kept)


def _memory() -> float:
    """Bytes of memory that the machine has; 8 GiB where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8.0 * 2**30
