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
own classes that were not in its span already.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.bases.machine import SpanMachine, Surroundings
from aesvm.bases.pursuit import BLOCK, Functions, Pursuit
from aesvm.bases.values import TILE, Array
from aesvm.certificate.accounts import Account
from aesvm.kernels import KernelSpec
from aesvm.machines.problem import Coverage, Machine, Problem, TrainingSet
from aesvm.machines.results import Trained
from aesvm.machines.rows import Rows
from aesvm.machines.training import Trainer, constant_machine
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.memory import machine_memory
from aesvm.runtime.progress import OutOfTimeError, Progress, Watched
from aesvm.runtime.warn import warn
from aesvm.sets.derive import PreparedRows

#: Rows of the pilot, and of each machine at least.
PILOT, _LEAST_PILOT = 20_000, 1000

#: Rows that a first solve is over: at least, and for each vector.
_FIRST_ROWS, _FIRST_ROWS_PER_VECTOR = 40_000, 8

#: Candidates of a pursuit for each vector that is to be chosen, and at least; of the pilot's
#: support vectors twice as many.
_CANDIDATES, _LEAST_CANDIDATES = 5, 3000

#: Half-widths of the rounded kinks, in the formulation's unit: of the first solve, of those
#: between, and of the last.
_FIRST, _BETWEEN, _LAST = (0.3, 0.1, 0.03), (0.1, 0.03), (0.03, 0.01)

#: The share of the vectors that the pilot chooses, and the most that are added at a time.
_PILOTS_SHARE, _MOST_ADDED = 0.5, 1000

#: What pilots are expected to take of the whole, what the first solve is of all that follow, and
#: how many times as long the last one takes as one between.
_PILOTS_PART, _FIRST_PART, _LAST_TAKES = 0.2, 0.1, 2

#: "auto": no vectors are added where there is room for no more than this share.
_LEAST_ADDED = 0.1

#: Enriching ends where it lowers the objective by less than ``_SETTLED`` times ``gap_tol`` of it,
#: if it is that of "auto", or the last pursuit found less than ``_EXHAUSTED`` of those wanted.
_SETTLED, _EXHAUSTED = 0.1, 0.5

#: Costs of all rows that come to more are refused: squares of their sums must stay finite.
_LARGEST_COST = 1e140

#: The share of the machine's memory that kernel values are held in, where no budget is given.
_MEMORY_SHARE = 0.25

#: What a budget is to have room for beside kernel values that are held. In the solve with all
#: vectors: matrices of these, and arrays of the rows of a machine. While vectors are chosen: times
#: the values of candidates and vectors. All the time: arrays of the rows of all machines.
_MATRICES, _ROW_ARRAYS, _PURSUIT, _KEPT_ARRAYS = 8, 30, 3, 20

#: The share of a device's free memory that they are held in: the rest is for rows, candidates of
#: pursuits and Hessians.
_DEVICE_SHARE = 0.6


#: The share of a pilot's squared norm that its vectors leave where it chooses no more, and how
#: many are chosen between two looks at that. (On covtype 1,250 vectors leave 1 %; from there on the
#: SVM of all rows wants others than the pilot does.)
_ENOUGH, _STEP = 0.01, 250

#: "auto": the most vectors that may carry a pilot, and what these may leave, as a share of all that
#: the pilot pays. With r for what they leave of its w, the dual of the SVM in their span is larger
#: by ``1/2 |r|^2`` at the pilot's multipliers: the objective rises by that at least. (As a share of
#: ``1/2 |w|^2`` it tells less. With 50 features and noise that is a five hundredth of what is paid:
#: 684 vectors left 14 % of it, and twice as many had every label of the exact SVM.) A span is given
#: up early where they would leave ``_AUTO_HOPELESS`` times that share. The basis may become twice
#: as large as what carries the pilot.
#: (Of noisy generated problems with 3 to 50 features they left 0.03 % at most, of covtype 0.1 %, of
#: flights 0.4 %; of covtype at C=16, gamma=4, which few vectors do not carry, 8 %.)
_AUTO_MOST, _AUTO_LEFT, _AUTO_HOPELESS = 2000, 0.01, 3.0

#: "auto": the share of the pilots' squared norms that may be left, whatever they pay: at a small C
#: nearly all of that is losses, whichever way rows are decided.
_AUTO_LEFT_OF_NORM = 0.25

#: "auto": a span pays where the square of the vectors that carry a pilot is at most this many times
#: the support vectors of the exact SVM, of each machine. Newton's steps take the square of the
#: vectors for each row, and the exact SVM its support vectors. (With twice as many vectors as carry
#: the pilot, a thousand took as long as 10,000 to 15,000 support vectors, whatever the rows were.)
_AUTO_PAYS = 20.0

#: "auto": rows times support vectors of a machine, on the mean, below which it is not even asked: a
#: machine in a span takes some tenths of a second, however few rows it has, and exact SVMs of many
#: classes keep all threads busy. (Ten classes of 100,000 rows, 2e8: twice as long as exact SVMs.
#: Four of 100,000 rows, 9e8: 1.3 times.)
_AUTO_EACH = 1e9


class BasisLimits(NamedTuple):
    """How large a basis may become."""

    max_vectors: int
    gap_tol: float  #: enriching ends where the relative gap is estimated to be smaller
    most_bytes: float | None = None  #: of kernel values that are held
    only_if_it_pays: bool = False  #: whether the pilot is asked, which also says how many

    @classmethod
    def for_auto(cls, gap_tol: float, most_bytes: float | None) -> BasisLimits:
        """Those of "auto"."""
        return cls(2 * _AUTO_MOST, gap_tol, most_bytes, only_if_it_pays=True)


def may_pay(data: Rows, spec: KernelSpec) -> bool:
    """Whether "auto" may ask pilots: there are many more rows than theirs."""
    return bool(spec.is_definite and np.count_nonzero(data.weights) > 2 * PILOT)


def is_long(effort: float, n_machines: int) -> bool:
    """Whether exact SVMs, whose rows times support vectors are ``effort``, may outlast a span."""
    return effort > n_machines * _AUTO_EACH


def train_in_basis(
    data: Rows,
    kernel: TrainingKernel,
    prepared: PreparedRows,
    limits: BasisLimits,
    trainer: Trainer,
) -> list[Trained] | None:
    """Train every machine on few vectors, which all of them share; None where it does not pay.

    Parameters
    ----------
    data : Rows
    kernel : TrainingKernel
        Of these rows.
    prepared : PreparedRows
        The distinct ones of them.
    limits : BasisLimits
    trainer : Trainer
        Of the pilots.
    """
    formulation, groups = trainer.formulation, data.groups
    problems = list(data.problems(prepared.rows, prepared.weights))
    largest = max((float(problem.bounds.sum()) for problem in problems), default=0.0)
    if largest > _LARGEST_COST:
        raise ValueError(
            f"C, class_weight and sample_weight come to {largest:.3g} in all, more than "
            f"{_LARGEST_COST:g}, which max_vectors={limits.max_vectors} cannot compute with: lower "
            "them."
        )
    found: dict[int, Trained] = {}
    for number, problem in enumerate(problems):
        offsets = formulation.constant(problem.targets)
        if offsets is not None:
            machine = constant_machine(offsets)
            found[number] = Trained(machine, 0, Account.of_nothing(), None)
    learning = [number for number in range(len(problems)) if number not in found]
    if learning:
        own = [problems[number] for number in learning]
        training = _Training(own, learning, groups, kernel, limits, trainer)
        if not training.run():
            return None
        for number, trained in zip(learning, training.machines, strict=True):
            found[number] = trained.trained(trainer.n_iter[number], len(learning))
    return [found[number] for number in range(len(problems))]


class _Training:
    """Machines that share a basis, in training."""

    def __init__(
        self,
        problems: list[Problem],
        numbers: list[int],
        groups: NDArray[np.intp],
        kernel: TrainingKernel,
        limits: BasisLimits,
        trainer: Trainer,
    ) -> None:
        self.numbers = numbers
        self.groups = groups
        self.limits = limits
        self.trainer = trainer
        double = kernel.in_double()
        self.threads: Callable = double.arrays.threads(trainer.run)
        self.around = Surroundings(
            kernel,
            double,
            trainer.formulation,
            trainer.options.tol,
            self.threads,
            Watched(self.threads, trainer.progress),
        )
        self.most = min(limits.max_vectors, kernel.X.shape[0])
        total = sum(len(problem.rows) for problem in problems)
        held = machine_memory() * _MEMORY_SHARE
        if limits.most_bytes is not None:
            needed = self._working_bytes(problems)
            held = max(0.0, limits.most_bytes - needed)
            if held == 0.0 and not limits.only_if_it_pays:
                warn(
                    f"memory_budget is {limits.most_bytes / 1e6:.3g} MB, and max_vectors="
                    f"{self.most} takes some {needed / 1e6:.3g} MB beside the rows: raise "
                    "memory_budget, or lower max_vectors."
                )
        if (free := double.arrays.free_bytes()) is not None:
            room = _DEVICE_SHARE * free
            held = room if limits.most_bytes is None else min(room, held)
        ranks = np.random.default_rng(0).permutation(kernel.X.shape[0])
        self.machines = [
            SpanMachine(
                problem.take(np.argsort(ranks[problem.rows])),
                held * len(problem.rows) / total,
                self.around,
            )
            for problem in problems
        ]
        self.share = min(1.0, PILOT / len(np.unique(np.concatenate([p.rows for p in problems]))))
        self.basis = np.empty(0, dtype=np.intp)

    def _working_bytes(self, problems: list[Problem]) -> float:
        """What training takes beside the rows and the kernel values that are held."""
        n_threads = getattr(self.threads, "n_threads", 1)
        n_candidates = max(_LEAST_CANDIDATES, _CANDIDATES * min(self.most, _MOST_ADDED))
        chosen_from = _PURSUIT * 8.0 * n_candidates * self.most
        solved = _MATRICES * 8.0 * self.most**2
        tiles = n_threads * 4.0 * TILE * min(self.most, _MOST_ADDED)
        of_rows = _ROW_ARRAYS * 8.0 * max(len(problem.rows) for problem in problems)
        of_all = _KEPT_ARRAYS * 8.0 * sum(len(problem.rows) for problem in problems)
        return max(chosen_from, solved) + tiles + of_rows + of_all

    def run(self) -> bool:
        """All of it; where the fit is to end, no more than that there are machines to use.

        False where the pilots say that it does not pay.
        """
        with self.trainer.progress.share(_PILOTS_PART) as progress:
            pilots = self._pilots(progress)
            pays = self._begun(pilots)
        if not pays:
            return False
        with self.trainer.progress.task("few vectors", None, share=1.0, bar=True) as progress:
            self._train(pilots, progress)
        return True

    def _begun(self, pilots: list[Machine]) -> bool:
        """Choose the first vectors; False where the pilots say that it does not pay."""
        most, progress = self.most, self.trainer.progress
        n_first = most if self.share == 1.0 else max(1, round(_PILOTS_SHARE * most))
        pursuit = self._pursuit_of_pilots(pilots, n_first)
        if self.limits.only_if_it_pays:
            chosen = self._chosen_if_it_pays(pursuit, pilots)
            if not len(chosen) and not progress.is_over():
                return False
            self.most = min(most, 2 * max(len(chosen), BLOCK))
        elif self.share == 1.0:
            chosen = pursuit.choose(n_first)
        else:
            chosen, _ = self._carrying(pursuit, pilots, n_first)
        if not len(chosen) and progress.is_over():
            pursuit.run = self.threads
            chosen = pursuit.choose(min(n_first, BLOCK))  # there is no model without vectors
        progress.say(f"few vectors: {len(chosen):,} of the SVM of a sample")
        self._add(pursuit)
        return True

    def _train(self, pilots: list[Machine], progress: Progress) -> None:
        """The SVMs of all rows, with vectors of the pilots and more."""
        for machine, pilot in zip(self.machines, pilots, strict=True):
            machine.start_from(pilot)
            machine.known = pilot if self.share == 1.0 else None
        some = max(_FIRST_ROWS, _FIRST_ROWS_PER_VECTOR * len(self.basis))
        with suppress(OutOfTimeError):
            self._grow(some, progress)
        if len(self.basis) < self.most and progress.is_over():
            progress.cut_short(f"choosing vectors ended at {len(self.basis):,} of them")
        watched = self.around.watched
        watched.progress = watched.progress.to_the_end()  # what follows takes little
        for machine in self.machines:
            if machine.solved is None:
                machine.solve(_LAST, progress, some, to_the_end=False)
        converged = all(machine.last_solve.converged for machine in self.machines)
        if not converged and progress.is_over():
            progress.cut_short(f"a solve in the span of {len(self.basis):,} vectors ended too soon")
        elif progress.is_over() and any(machine.dual() is None for machine in self.machines):
            progress.cut_short("the duality gap was not estimated")

    def _grow(self, some: int, progress: Progress) -> None:
        """Solve, first for some rows, and add vectors until there are enough."""
        most = self.most
        expected = sum(range(len(self.basis), most, _MOST_ADDED)) + _LAST_TAKES * most
        if any(len(machine.problem.rows) > 2 * some for machine in self.machines):
            self._solve(_FIRST, progress, _FIRST_PART, some)
        before, exhausted, auto = inf, False, self.limits.only_if_it_pays
        least_added = _LEAST_ADDED if auto else 0.0
        while most - len(self.basis) > least_added * most:
            self._solve(_BETWEEN, progress, len(self.basis) / expected)
            objective = sum(machine.objective() for machine in self.machines)
            gained, before = before - objective, objective
            least = _SETTLED * self.limits.gap_tol * abs(objective)
            if gained <= least and (auto or exhausted):
                break
            n_most, n_before = min(most - len(self.basis), _MOST_ADDED), len(self.basis)
            if not self._enriched(n_most):
                break
            exhausted = len(self.basis) - n_before < _EXHAUSTED * n_most
            if auto and exhausted:
                break
        self._solve(_LAST, progress, 1.0, to_the_end=True)
        for machine in self.machines:
            machine.choose_multipliers(_LEAST_CANDIDATES)
        self._gap()

    def _solve(
        self,
        widths: tuple[float, ...],
        progress: Progress,
        share: float,
        n_rows: float = inf,
        to_the_end: bool = False,
    ) -> None:
        """Solve for all machines; ``share``: what that is expected to take of all that is done."""
        progress.check()
        with progress.share(share) as task:
            for machine in self.machines:
                with task.share(1.0 / len(self.machines)) as own:
                    fit, every = self._n_fit(machine, len(machine.basis)), len(machine.problem.rows)
                    machine.solve(widths, own, int(min(n_rows, fit)), to_the_end and fit == every)
                    own.check()
                    if to_the_end and fit < every:
                        machine.solve(widths, own, every, to_the_end)
                        own.check()

    def _n_fit(self, machine: SpanMachine, n_vectors: int) -> int:
        """The rows that a machine is solved for at once: all, or those that will always fit."""
        now = machine.n_fit(n_vectors)
        return now if now == len(machine.problem.rows) else machine.n_fit(self.most)

    # --- the pilots

    def _pilots(self, progress: Progress) -> list[Machine]:
        """The exact SVMs of a sample of the rows."""
        pilots = []
        for number, machine in zip(self.numbers, self.machines, strict=True):
            n_rows = len(machine.problem.rows)
            n = min(n_rows, max(round(self.share * n_rows), _LEAST_PILOT))
            own = machine.problem.take(np.arange(n))
            sample = TrainingSet(own.rows, own.targets, own.weights, own.costs, Coverage(n))
            pilots.append(self.trainer.train(number, self.around.kernel, sample, progress))
        return pilots

    def _n_support(self, pilots: list[Machine]) -> float:
        """The support vectors that the exact SVM of all rows would have, by the pilots.

        Of several machines the mean, weighted by their rows.
        """
        n_rows = [len(machine.problem.rows) for machine in self.machines]
        n_support = [pilot.n_support / self.share for pilot in pilots]
        return float(np.average(n_support, weights=n_rows))

    def _each(self) -> str:
        return " for each pair of classes" if len(self.machines) > 1 else ""

    def _chosen_if_it_pays(self, pursuit: Pursuit, pilots: list[Machine]) -> NDArray[np.intp]:
        """As many vectors as carry the pilots; none where there would be too many."""
        n_support = self._n_support(pilots)
        own_share = min(1.0, 2.0 / len(np.unique(self.groups)))  # of the vectors, in each machine
        most = min(_AUTO_MOST, int(sqrt(_AUTO_PAYS * n_support) / own_share))
        norms = self._norm_share(pilots)
        may_leave = min(_AUTO_LEFT_OF_NORM, _AUTO_LEFT / norms if norms > 0.0 else inf)
        chosen, left = self._carrying(pursuit, pilots, most, _AUTO_HOPELESS * may_leave)
        pays = left <= may_leave
        what = "the SVM of all rows on few vectors" if pays else "not on few vectors"
        self.trainer.progress.say(
            f"auto: {what}, for {len(chosen):,} of them leave {left:.1%} of the SVM of a sample "
            f"({may_leave:.1%} at most, to pay); the exact one would have some {n_support:,.0f} "
            f"support vectors{self._each()}"
        )
        return chosen if pays else chosen[:0]

    def _norm_share(self, pilots: list[Machine]) -> float:
        """What ``1/2 |w|^2`` is of all that pilots pay: that, and the losses of their rows."""
        formulation, norms, losses = self.around.formulation, 0.0, 0.0
        for pilot in pilots:
            own = pilot.set
            positions = formulation.positions(pilot.scores, own.targets, pilot.offsets)
            losses += float(own.bounds @ formulation.losses(positions))
            norms += 0.5 * max(pilot.squared_norm, 0.0)
        return norms / (norms + losses) if norms > 0.0 else 0.0

    def _carrying(
        self, pursuit: Pursuit, pilots: list[Machine], n_most: int, too_much: float = inf
    ) -> tuple[NDArray[np.intp], float]:
        """Vectors that carry the pilots, and the share of their squared norms that they leave.

        It ends early where they leave little; also where ``n_most`` would leave over ``too_much``,
        if each step took off as large a share as the last.
        """
        whole = sum(max(pilot.squared_norm, 0.0) for pilot in pilots)
        chosen, left = np.empty(0, dtype=np.intp), 1.0
        while len(chosen) < n_most and left > _ENOUGH:
            before, n_new = left, min(_STEP, n_most - len(chosen))
            new = pursuit.choose(n_new)
            chosen = np.append(chosen, new)
            taken = float(pursuit.taken.sum())
            left = max(0.0, 1.0 - taken / whole) if whole > 0 else 0.0
            n_more = (n_most - len(chosen)) / _STEP
            hopeless = left * (left / before) ** n_more > too_much
            if len(new) < n_new or (hopeless and len(chosen) > _STEP):
                break
        return chosen, left

    def _pursuit_of_pilots(self, pilots: list[Machine], n_most: int) -> Pursuit:
        """A pursuit on the pilots, among their support vectors or a sample of these."""
        candidates = np.unique(np.concatenate([one.set.rows[one.support] for one in pilots]))
        most = 2 * max(_LEAST_CANDIDATES, _CANDIDATES * n_most)
        if len(candidates) > most:
            candidates = np.sort(np.random.default_rng(1).choice(candidates, most, replace=False))
        values = np.zeros((len(candidates), len(self.machines)))
        for column, (machine, pilot) in enumerate(zip(self.machines, pilots, strict=True)):
            at = np.flatnonzero(np.isin(self.groups[candidates], machine.groups))
            rows, coefs = pilot.set.rows[pilot.support], pilot.coefs[pilot.support]
            kernel = self.around.kernel.for_sums(rows, coefs)
            values[at, column] = kernel.scores(rows, coefs, candidates[at], self.threads)
        return self._pursuit(candidates, values)

    # --- the basis

    def _pursuit(self, candidates: NDArray[np.intp], values: Array) -> Pursuit:
        """A pursuit on what is left of a function of each machine."""
        numbers, groups = np.unique(self.groups[candidates], return_inverse=True)
        shares = np.array([np.isin(numbers, machine.groups) for machine in self.machines])
        targets = Functions(values, groups, shares)
        return Pursuit(self.around.double, candidates, targets, run=self.around.watched)

    def _add(self, pursuit: Pursuit) -> None:
        """More vectors of the basis, for the machines that use them."""
        for machine, rows in zip(self.machines, pursuit.bases, strict=True):
            machine.add(rows[len(machine.basis) :], self._n_fit(machine, len(rows)))
        self.basis = np.unique(np.concatenate([machine.basis for machine in self.machines]))

    def _enriched(self, n_most: int) -> bool:
        """Add the next vectors; False where there are none, or the gap is small by an estimate."""
        candidates = self._candidates(n_most)
        left = self._gradients_outside(candidates)
        gap, error, objective = self._gap()
        if gap + error <= self.limits.gap_tol * abs(objective):
            return False
        pursuit = self._pursuit(candidates, left)
        bases = [machine.basis for machine in self.machines]
        pursuit.begin_with(bases, [machine.factor() for machine in self.machines])
        n_new = len(pursuit.choose(n_most))
        self._add(pursuit)
        return n_new > 0

    def _candidates(self, n_most: int) -> NDArray[np.intp]:
        """A sample of the rows with a multiplier."""
        active = np.unique(np.concatenate([machine.active() for machine in self.machines]))
        most = max(_LEAST_CANDIDATES, _CANDIDATES * n_most)
        if len(active) <= most:
            return active
        rng = np.random.default_rng(len(self.basis))
        return np.sort(rng.choice(active, most, replace=False))

    def _gradients_outside(self, candidates: NDArray[np.intp]) -> Array:
        """What is left of g outside of the span, at the candidates of each machine."""
        left = np.zeros((len(candidates), len(self.machines)))
        for column, machine in enumerate(self.machines):
            at = np.flatnonzero(machine.in_use(candidates))
            left[at, column] = machine.gradient_outside(candidates[at])
        return left

    def _gap(self) -> tuple[float, float, float]:
        """The estimated gap, its standard error, and the objective, all machines together."""
        gap = variance = objective = 0.0
        for machine in self.machines:
            own, (dual, error) = machine.objective(), machine.dual() or (nan, nan)
            gap, variance, objective = gap + own - dual, variance + error**2, objective + own
        share = gap / abs(objective) if objective else 0.0
        known = None if isnan(gap) else objective - gap
        self.trainer.history.note(0, objective, known, n_vectors=len(self.basis))
        self.trainer.progress.say(
            f"few vectors: {len(self.basis):,}, objective {objective:.6g}, relative duality gap "
            f"estimated as {share:.2g}"
        )
        return gap, float(np.sqrt(variance)), objective
