"""Trained machines as values: one, and all of a fit as columns.

Their records are from training (``records_of``), or proven by another look at all rows
(``certify``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import Step
from aesvm.certificate.proof import PrimalPoint, negative_norm, primal_of, prove_machine
from aesvm.certificate.records import Record, Records
from aesvm.formulations.objective import Objective, arrays, tol_of, total_loss
from aesvm.formulations.protocol import Array, Formulation
from aesvm.kernels.expansion import n_additions
from aesvm.machines.problem import Expansion, Machine, TrainingRows, different
from aesvm.machines.rounds import Look, State
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.sets.derive import prepare


class Trained(NamedTuple):
    """A trained machine and its record."""

    machine: Machine
    n_iter: int
    record: Record
    multipliers: tuple[NDArray, Array] | None  #: rows, and coefficients lifted to them


class Terms(NamedTuple):
    """Sums over training rows, one machine after another: ``sum_i coefs_i phi(x_i)``."""

    ends: NDArray[np.intp]  #: where each machine's terms end
    rows: NDArray[np.int32] | NDArray[np.int64]
    coefs: Array

    @classmethod
    def of(cls, each: Iterable[tuple[NDArray, Array]]) -> Terms:
        """The terms of machines that are given one by one.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.machines.results import Terms
        >>> terms = Terms.of([(np.array([2]), np.ones(1)), (np.array([0, 2]), np.zeros(2))])
        >>> terms.ends, terms.machines, terms.one(1)[0]
        (array([1, 3]), array([0, 1, 1]), array([0, 2], dtype=int32))
        """
        rows, coefs = [np.empty(0, dtype=np.int32)], [np.empty(0)]
        for own, values in each:
            rows.append(own.astype(np.int32, copy=False))
            coefs.append(values)
        ends = np.cumsum([len(own) for own in rows[1:]], dtype=np.intp)
        return cls(ends, np.concatenate(rows), np.concatenate(coefs))

    @property
    def sizes(self) -> NDArray[np.intp]:
        """The number of terms of each machine."""
        return self.ends - np.concatenate([[0], self.ends[:-1]])

    @property
    def machines(self) -> NDArray[np.intp]:
        """The number of each term's machine."""
        return np.repeat(np.arange(len(self.ends)), self.sizes)

    def one(self, number: int) -> tuple[NDArray, Array]:
        """The rows and coefficients of one machine."""
        own = slice(self.ends[number - 1] if number else 0, self.ends[number])
        return self.rows[own], self.coefs[own]

    def take(self, numbers: NDArray) -> Terms:
        """The terms of some machines, their numbers ascending."""
        held = np.isin(self.machines, numbers)
        sizes = self.sizes[numbers]
        return Terms(np.cumsum(sizes), self.rows[held], self.coefs[held])

    def put_together(self, numbers: NDArray, others: Terms, their: NDArray) -> Terms:
        """These and others, each at the numbers of its machines."""
        which = np.concatenate([numbers[self.machines], their[others.machines]])
        order = np.argsort(which, kind="stable")
        counts = np.bincount(which, minlength=len(numbers) + len(their))
        return Terms(
            np.cumsum(counts),
            np.concatenate([self.rows, others.rows])[order],
            np.concatenate([self.coefs, others.coefs])[order],
        )


class TrainedMachines(NamedTuple):
    """All machines of a fit: a column for each number."""

    n_iter: NDArray[np.int64]
    dual_objective: Array  #: over the rows solved for; zero where there was nothing to learn
    kkt_violation: Array
    converged: NDArray[np.bool_]
    decisions: Terms  #: the decision functions, without their intercepts
    intercept: Array
    multipliers: Terms  #: coefficients lifted to all rows
    records: Records
    solved: NDArray[np.intp]  #: the rows that were solved for
    only: Machine | None = None  #: the machine, where there is one
    history: Sequence[Step] = ()  #: of all machines together

    @classmethod
    def of(cls, trained: Sequence[Trained], formulation: Formulation) -> TrainedMachines:
        """Machines that were trained one by one."""
        solutions = [one.machine.solution for one in trained]
        expansions = [one.machine.expansion(formulation) for one in trained]
        nothing = np.empty(0, dtype=np.int32), np.empty(0)
        return cls(
            np.array([one.n_iter for one in trained], dtype=np.int64),
            np.array([-one.objective if one else 0.0 for one in solutions]),
            np.array([one.violation if one else 0.0 for one in solutions]),
            np.array([one is None or one.converged for one in solutions], dtype=bool),
            Terms.of((one.rows, one.coefs) for one in expansions),
            np.array([one.offset for one in expansions]),
            Terms.of(nothing if one.multipliers is None else one.multipliers for one in trained),
            Records.of([one.record for one in trained]),
            different(one.machine.set.rows for one in trained),
            trained[0].machine if len(trained) == 1 else None,
        )

    def take(self, numbers: NDArray) -> TrainedMachines:
        """Some of the machines, their numbers ascending."""
        return TrainedMachines(
            self.n_iter[numbers],
            self.dual_objective[numbers],
            self.kkt_violation[numbers],
            self.converged[numbers],
            self.decisions.take(numbers),
            self.intercept[numbers],
            self.multipliers.take(numbers),
            self.records.take(numbers),
            self.solved,
        )

    def put_together(
        self, numbers: NDArray, others: TrainedMachines, their: NDArray
    ) -> TrainedMachines:
        """These and others, each at the numbers of its machines."""
        if not len(their):
            return self
        order = np.argsort(np.concatenate([numbers, their]))

        def both(name: str) -> NDArray:
            return np.concatenate([getattr(self, name), getattr(others, name)])[order]

        return TrainedMachines(
            both("n_iter"),
            both("dual_objective"),
            both("kkt_violation"),
            both("converged"),
            self.decisions.put_together(numbers, others.decisions, their),
            both("intercept"),
            self.multipliers.put_together(numbers, others.multipliers, their),
            self.records.put_together(numbers, others.records, their),
            np.union1d(self.solved, others.solved),
        )


def records_of(state: State, formulation: Formulation) -> list[Record]:
    """What a certificate says of each machine."""
    looks: Sequence[Look | None] = state.looks or [None] * len(state.machines)
    return [
        Record.of_nothing()
        if machine.solution is None
        else _record(machine, state, look, formulation)
        for machine, look in zip(state.machines, looks, strict=True)
    ]


def _record(machine: Machine, state: State, look: Look | None, formulation: Formulation) -> Record:
    own, covered = machine.set, machine.set.coverage
    objective = Objective(formulation, own.targets, own.bounds)
    positions = formulation.positions(machine.scores, own.targets, machine.offsets)
    return Record(
        exact=covered.exact,
        rounds=state.rounds,
        n_rows=covered.n_rows,
        max_residual=covered.max_residual,
        total_residual=covered.total_residual,
        squared_norm=machine.squared_norm,
        rounding=_rounding(machine, state.sets.kernel, objective),
        loss_reduced=total_loss(formulation, positions, own.bounds, machine.offsets),
        total_cost=covered.total_cost,
        worst_optimum=covered.worst_optimum,
        squared_norm_bound=covered.squared_norm_bound,
        target_reach=formulation.target_reach,
        offsets=machine.offsets,
        weighted_distances=covered.weighted_distances,
        loss=None if look is None else look.loss,
        dual_objective=None if look is None else look.dual,
        violators=None if look is None else look.n_violators,
        changed=state.changed,
    )


def _rounding(machine: Machine, kernel: TrainingKernel, objective: Objective) -> float:
    """By how much F2, as training has it, can be off through rounding.

    Where its squared norm is negative: by how much that can be.
    """
    own, coefs, solution = machine.set, machine.coefs, machine.solution
    assert solution is not None
    rows, total = own.rows, float(np.abs(coefs).sum())
    values = kernel.for_sums(rows, coefs)
    if machine.squared_norm < 0:
        largest = float(np.abs(values.diag(rows)).max())
        return float(negative_norm(machine.squared_norm, total, largest))
    # scores are sums that were brought up to date, iteration after iteration
    moved = max(solution.total_moved, total)
    unit, double = (0.5 * float(np.finfo(one).eps) for one in (values.dtype, np.float64))
    additions = n_additions(len(rows)) * unit + solution.n_updates * double
    off = moved * (values.rounding(rows) + additions * values.bound(rows))
    point = PrimalPoint(machine.scores, coefs, arrays(machine.offsets), np.array([off]))
    return float(primal_of(objective, point, max(own.n_rows, len(rows))).rounding[0])


def certify(
    records: Records,
    data: TrainingRows,
    expansions: Iterable[Expansion],
    multipliers: Terms,
    kernel: TrainingKernel,
    formulation: Formulation,
    tol: float,
    run: Callable,
    say: Callable[[str], None],
) -> Records:
    """The records of trained machines with all rows seen, given their lifted coefficients."""
    if records["proven"].all():
        return records
    prepared = prepare(data.X, data.groups, data.weights, run, kernel.joint_targets)
    problems = data.problems(prepared.rows, prepared.weights)
    found: list[Record] = []
    coefs = np.zeros(kernel.X.shape[0])
    for number, (record, problem, expansion) in enumerate(
        zip(records, problems, expansions, strict=True)
    ):
        if record.proven or not record.n_rows:
            found.append(record)
            continue
        say(f"certify: looking at {len(problem.rows):,} rows")
        rows, values = multipliers.one(number)
        coefs[rows] = values
        own = coefs[problem.rows]
        coefs[rows] = 0.0
        support_coefs = expansion.coefs * formulation.decision(record.offsets).scale
        proof = prove_machine(
            kernel.in_double(),
            kernel.spec.is_definite,
            problem.rows,
            Objective(formulation, problem.targets, problem.bounds),
            expansion.rows,
            support_coefs,
            record.offsets,
            own,
            tol_of(formulation, tol, record.total_cost, record.n_rows),
            run,
        )
        found.append(record.proven_by(proof))
    return Records.of(found)
