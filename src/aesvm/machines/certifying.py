"""Records of trained machines: from training, and proven by another look at all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from aesvm.certificate.proof import PrimalPoint, negative_norm, primal_of, prove_machine
from aesvm.certificate.records import Record, Records
from aesvm.formulations.objective import Objective, arrays, tol_of, total_loss
from aesvm.formulations.protocol import Formulation
from aesvm.kernels.expansion import n_additions
from aesvm.machines.problem import Expansion, Machine
from aesvm.machines.results import Terms
from aesvm.machines.rounds import Look, State
from aesvm.machines.rows import TrainingRows
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.sets.derive import prepare


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
