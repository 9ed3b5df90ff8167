"""Rows in memory, as a place of ``rounds``: one machine, its combinations, and the exact dual.

Here every row's combination of representatives is known. So the multipliers of a solution are
lifted to feasible multipliers of all rows (``Combinations.lift``): these bound the optimum from
below, and tell which rows violate optimality.

Scores of rows are computed only where they are not proven to be far from every kink. The scores
``<w, z>`` of representatives are known, and a row lies within ``|w| |tau|`` of what its combination
of them says. Where that alone proves a row to be far inside a piece of zero loss, its own score is
not computed: it is taken as near to the kink as it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.proof import Proof, prove_machine
from aesvm.formulations.objective import (
    Objective,
    best_offsets,
    dual_value,
    n_support,
    tol_of,
    total_loss,
    worst_optimum,
)
from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.machines import rounds
from aesvm.machines.plan import COARSER, TABLE
from aesvm.machines.problem import (
    Coverage,
    Machine,
    Problem,
    TrainingSet,
    TrainingSets,
)
from aesvm.machines.results import Trained, records_of
from aesvm.machines.rounds import DEVIATIONS, WIDEST, Cut, Look, State
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import Combinations, Representatives

#: A look at all rows takes at most this many steps, of at least this many rows.
_STEPS, _LOOK_ROWS = 20, 10_000

#: A look that takes more kernel values than this, a second or more, is announced.
_LONG = 1e9

#: What a kernel value takes in double precision, in values in single precision.
_IN_DOUBLE = 2.0

#: Represents rows of several groups, at a multiple of ``hull_tol``, with their combinations.
Represent = Callable[[list[NDArray[np.intp]], float, Progress], Representatives]


@dataclass(eq=False)
class RowsInMemory:
    """All rows of one machine."""

    problem: Problem
    kernel: TrainingKernel
    represent: Represent
    formulation: Formulation
    tol: float  #: positions contradict multipliers by more than this, or not
    run: Callable  #: ``map`` or a parallel one
    progress: Progress
    share: float = 1.0  #: of what certificates may take without being asked for: this machine's
    spent: float = 0.0  #: kernel values that the first set of all machines took
    look_share: float = 0.0  #: what a look is expected to take of the fit, for progress
    dual: float = field(default=-inf, init=False)  #: the best value of the dual found so far
    best_coefs: Array | None = field(default=None, init=False)  #: of all rows, that have it
    #: Of all rows, at the last look.
    positions: Array = field(default_factory=lambda: np.empty(0), init=False)
    #: That rows were last represented on.
    pieces: NDArray[np.int8] | None = field(default=None, init=False)

    holds_all_rows = True

    def __post_init__(self) -> None:
        bounds = self.problem.bounds
        self.tol = tol_of(self.formulation, self.tol, float(bounds.sum()), len(bounds))

    def sets(
        self, combinations: Combinations, start: Array | None = None, before: Array | None = None
    ) -> TrainingSets:
        """The training set of some combinations; start and positions before it are of all rows."""
        problem, members = self.problem, combinations.members
        bounds = problem.bounds
        total_cost = float(bounds.sum())
        worst = worst_optimum(self.formulation, problem.targets, bounds)
        own = TrainingSet(
            problem.rows[members],
            problem.targets[members],
            combinations.gather(problem.weights),
            problem.costs[members],
            Coverage(
                n_rows=len(problem.rows),
                max_residual=float(combinations.residuals.max(initial=0.0)),
                total_residual=float(combinations.residuals.sum()),
                weighted_distances=float(bounds @ self._distances(combinations)),
                total_cost=total_cost,
                worst_optimum=worst,
                squared_norm_bound=self.formulation.squared_norm_bound(total_cost, worst),
                exact=combinations.is_identity,
            ),
            combinations,
            None if start is None else combinations.gather(start),
            None if before is None else before[members],
        )
        return TrainingSets(self.kernel, [own])

    def _distances(self, combinations: Combinations) -> Array:
        """How far rows are from what stands for them, at most: rounding is counted in."""
        if combinations.is_identity:
            return np.zeros(len(self.problem.rows))
        off = self.kernel.residual_rounding(self.problem.rows)
        distances = np.sqrt(np.maximum(combinations.residuals, 0.0) + off)
        distances[combinations.members] = 0.0
        return distances

    def represented(self, found: Representatives | None) -> TrainingSets:
        """The training set of representatives; without any, of all rows."""
        rows = self.problem.rows
        if found is None:
            return self.sets(Combinations.identity(len(rows)))
        return self.sets(Combinations.of(rows, found))

    def finer(self, progress: Progress) -> TrainingSets | None:
        combinations = self._represented(np.arange(len(self.problem.rows)), 1.0, progress)
        return None if combinations.is_identity else self.sets(combinations)

    def everything(self) -> TrainingSets:
        n_rows = len(self.problem.rows)
        return self.sets(Combinations.identity(n_rows), self._agreeing(), self.positions)

    def stratify(self, cuts: list[Cut], progress: Progress) -> TrainingSets:
        """Each piece represented by itself; rows within the doubt of a kink as they are."""
        (cut,) = cuts
        self.pieces = pieces = self.formulation.pieces(self.positions, cut.doubt)
        band = np.flatnonzero(pieces < 0)
        parts = [(band, Combinations.identity(len(band)))]
        for piece, flat in enumerate(self.formulation.flat_pieces):
            rows = np.flatnonzero(pieces == piece)
            if len(rows):
                coarser = COARSER if flat else 1.0
                parts.append((rows, self._represented(rows, coarser, progress)))
        combinations = Combinations.stacked(len(pieces), parts)
        return self.sets(combinations, self._agreeing(), self.positions)

    def look_cost(self, state: State) -> float:
        (machine,) = state.machines
        return self._n_unseen(state) * machine.n_support

    def certificate_cost(self, state: State) -> float:
        (machine,) = state.machines
        return self.look_cost(state) + self._n_lifted(machine) ** 2 / 2

    def look(self, state: State, free_offsets: bool) -> list[Look]:
        (machine,) = state.machines
        problem, formulation = self.problem, self.formulation
        combinations = _combinations_of(machine)
        scores, offsets, n_values = self._scores(machine, free_offsets)
        self.positions = positions = formulation.positions(scores, problem.targets, offsets)
        own = formulation.positions(machine.scores, machine.set.targets, offsets)
        losses = formulation.losses(positions)
        wrong = wrong_losses(combinations, losses, formulation.losses(own))
        error = sqrt(float(np.square(wrong).mean())) if len(wrong) else 0.0
        coefs = self.lifted(machine)
        definite = self.kernel.spec.is_definite
        if definite and self._n_lifted(machine) ** 2 / 2 <= self._free(machine):
            dual = self._dual_value(machine, coefs)
            if dual > self.dual:
                self.dual, self.best_coefs = dual, coefs
        violates = formulation.violates(positions, coefs, problem.bounds, self.tol)
        crossed = 0
        if self.pieces is not None:
            now = formulation.pieces(positions, self.tol)
            crossed = int(np.count_nonzero((self.pieces >= 0) & (now >= 0) & (now != self.pieces)))
        return [
            Look(
                loss=total_loss(formulation, positions, problem.bounds, offsets),
                offsets=offsets,
                doubt=min(DEVIATIONS * error, WIDEST * formulation.width(offsets)),
                n_values=n_values,
                n_crossed=crossed,
                n_support=n_support(formulation, positions),
                dual=None if self.dual == -inf else self.dual,
                n_violators=int(np.count_nonzero(violates)),
            )
        ]

    def lifted(self, machine: Machine) -> Array:
        """Coefficients of all rows, feasible for the full dual."""
        problem = self.problem
        coefs = _combinations_of(machine).lift(machine.multipliers, problem.weights)
        return self.formulation.feasible(coefs, problem.targets, problem.bounds)

    def _scores(self, machine: Machine, free_offsets: bool) -> tuple[Array, Offsets, int]:
        """Scores of all rows, the offsets, and the kernel values that took."""
        problem, formulation, combinations = (
            self.problem,
            self.formulation,
            _combinations_of(machine),
        )
        if combinations.is_identity:  # these are what training ended with
            return machine.scores, machine.offsets, 0
        definite = self.kernel.spec.is_definite
        norm = sqrt(max(machine.squared_norm, 0.0)) if definite else inf
        seen = np.zeros(len(problem.rows), dtype=bool)
        seen[combinations.members] = True
        offsets, targets = machine.offsets, problem.targets
        known = cautious_scores(combinations, machine.scores, norm, targets, formulation)
        far = WIDEST * formulation.width(offsets)
        support = machine.support
        rows, coefs = machine.set.rows[support], machine.coefs[support]
        kernel = self.kernel.for_sums(problem.rows, coefs)
        n_values = 0
        while True:
            if free_offsets:
                offsets = best_offsets(formulation, known, targets, problem.bounds)
            wanted = rows_to_score(known, seen, norm, targets, offsets, far, formulation)
            if not wanted.any():
                return known, offsets, n_values
            at = np.flatnonzero(wanted)
            n_values += len(at) * len(rows)
            long = len(at) * len(rows) > _LONG
            if long:
                self.progress.say(f"looking at the positions of {len(at):,} rows")
            with self.progress.task("look", _STEPS, share=self.look_share) as task:
                for part in np.array_split(at, min(_STEPS, -(-len(at) // _LOOK_ROWS))):
                    if long:
                        task.check()
                    known[part] = kernel.scores(rows, coefs, problem.rows[part], self.run)
                    task.step()
            seen |= wanted

    def trained(self, state: State, n_iter: int, certify: bool) -> Trained:
        """The machine of a state, with what is known of it; proven where that is cheap."""
        (machine,), (record,) = state.machines, records_of(state, self.formulation)
        proof = self.prove(machine) if certify else None
        if proof is not None:
            record = record.proven_by(proof)
        coefs = self.lifted(machine)
        held = np.flatnonzero(coefs)
        terms = self.problem.rows[held].astype(np.int32), coefs[held]
        return Trained(machine, n_iter, record, terms)

    def prove(self, machine: Machine) -> Proof | None:
        """What a certificate says of the machine; None where that would take too long."""
        coefs = self.lifted(machine)
        best = coefs if self.best_coefs is None else self.best_coefs
        cost = len(self.problem.rows) * machine.n_support + np.count_nonzero(best) ** 2 / 2
        few, other = TABLE.features, TABLE.other_work
        work = max(1.0, (self.kernel.n_features + other) / (few + other))
        free = rounds.free_values(self.share, self.spent, [machine], work)
        if work * cost > self.share * rounds.FREE and _IN_DOUBLE * cost > free:
            return None
        problem = self.problem
        return prove_machine(
            self.kernel.in_double(),
            self.kernel.spec.is_definite,
            problem.rows,
            Objective(self.formulation, problem.targets, problem.bounds),
            machine.set.rows[machine.support],
            machine.coefs[machine.support],
            machine.offsets,
            coefs,
            self.tol,
            self.run,
            best,
        )

    def _free(self, machine: Machine) -> float:
        """Kernel values that the machine's certificate may take without being asked for."""
        return rounds.free_values(self.share, self.spent, [machine])

    def _dual_value(self, machine: Machine, coefs: Array) -> float:
        """The dual at the coefficients of all rows, as precise as rounds need it."""
        if machine.solution is not None and machine.set.coverage.exact:
            return -machine.solution.objective
        held = np.flatnonzero(coefs)
        rows, own = self.problem.rows[held], coefs[held]
        norm = self.kernel.for_sums(rows, own).squared_norm(rows, own, self.run)
        return dual_value(self.formulation, coefs, self.problem.targets, norm)

    def _agreeing(self) -> Array:
        problem = self.problem
        return self.formulation.agreeing(self.positions, problem.targets, problem.bounds)

    def _represented(
        self, at: NDArray[np.intp], coarser: float, progress: Progress
    ) -> Combinations:
        """The combinations of rows at some positions, each group of them represented anew."""
        found = self.represent(self.problem.members_of_groups(at), coarser, progress)
        return Combinations.of(self.problem.rows[at], found)

    def _n_unseen(self, state: State) -> int:
        """Rows whose scores would have to be computed."""
        (machine,) = state.machines
        return 0 if state.looks is not None else len(self.problem.rows) - len(machine.set.rows)

    def _n_lifted(self, machine: Machine) -> int:
        """Rows with a multiplier, whose kernel values among each other the dual would take."""
        if machine.set.coverage.exact:
            return 0
        active = (machine.multipliers != 0).astype(float)
        return int(np.count_nonzero(_combinations_of(machine).spread(active)))


def _combinations_of(machine: Machine) -> Combinations:
    combinations = machine.set.combinations
    assert combinations is not None  # RowsInMemory made the set
    return combinations


#: Losses that differ by less are the same.
_SAME = 1e-9


def cautious_scores(
    combinations: Combinations,
    member_scores: Array,
    norm: float,
    targets: Array,
    formulation: Formulation,
) -> Array:
    """Scores of all rows as their representatives have them, shifted by their error bound.

    ``norm`` is that of w, infinite where the kernel is not known to be positive semidefinite: then
    nothing is proven, and scores are as the representatives have them.
    """
    known = np.array(combinations.spread(member_scores))
    known[combinations.members] = member_scores
    if norm < inf:
        errors = norm * np.sqrt(np.maximum(combinations.residuals, 0.0))
        errors[combinations.members] = 0.0
        known = formulation.cautious_scores(known, targets, errors)
    return known


def rows_to_score(
    known: Array,
    seen: NDArray[np.bool_],
    norm: float,
    targets: Array,
    offsets: Offsets,
    far: float,
    formulation: Formulation,
) -> NDArray[np.bool_]:
    """Rows not yet seen that are not proven to be ``far`` from every kink."""
    wanted = ~seen
    if norm < inf:
        positions = formulation.positions(known, targets, offsets)
        wanted &= ~formulation.far_away(positions, far)
    return wanted


def wrong_losses(
    combinations: Combinations,
    losses: Array,
    member_losses: Array,
    among: NDArray[np.intp] | None = None,
) -> Array:
    """What representatives pay for each row less its own loss, where these differ.

    ``among``: the rows that are asked for; all where None.
    """
    wrong = combinations.spread(member_losses) - losses
    wrong = wrong if among is None else wrong[among]
    return wrong[np.abs(wrong) > _SAME]
