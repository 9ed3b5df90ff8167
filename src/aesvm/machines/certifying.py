"""What a certificate says of trained machines: their accounts, and all rows seen again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from aesvm.certificate.accounts import Account, Accounts
from aesvm.formulations.protocol import Formulation, tol_of, total_loss
from aesvm.kernels.expansion import n_additions, rounding_of_sum
from aesvm.machines.memory import Proof, prove
from aesvm.machines.problem import Expansion, Machine, Problem
from aesvm.machines.results import Terms
from aesvm.machines.rounds import Look, State
from aesvm.machines.training_kernel import TrainingKernel

#: Kernel values are taken to be right to this share, where a squared norm came out negative.
_ROUNDING = 1e-9


def accounts_of(state: State, formulation: Formulation) -> list[Account]:
    """What a certificate says of each machine."""
    looks: Sequence[Look | None] = state.looks or [None] * len(state.machines)
    return [
        Account.of_nothing()
        if machine.solution is None
        else _account(machine, state, look, formulation)
        for machine, look in zip(state.machines, looks, strict=True)
    ]


def _account(
    machine: Machine, state: State, look: Look | None, formulation: Formulation
) -> Account:
    own, covered = machine.set, machine.set.coverage
    positions = formulation.positions(machine.scores, own.targets, machine.offsets)
    return Account(
        exact=covered.exact,
        rounds=state.rounds,
        n_rows=covered.n_rows,
        max_residual=covered.max_residual,
        total_residual=covered.total_residual,
        squared_norm=machine.squared_norm,
        rounding=_rounding(machine, state.sets.kernel, formulation),
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


def _rounding(machine: Machine, kernel: TrainingKernel, formulation: Formulation) -> float:
    """By how much F2, as training has it, can be off through rounding.

    Where its squared norm is negative: by how much that can be, if kernel values are right to nine
    digits.
    """
    own, coefs, solution = machine.set, machine.coefs, machine.solution
    assert solution is not None
    rows, total = own.rows, float(np.abs(machine.coefs).sum())
    values = kernel.for_sums(rows, coefs)
    if machine.squared_norm < 0:
        return _ROUNDING * total**2 * float(np.abs(values.diag(rows)).max())
    # scores are sums that were brought up to date, iteration after iteration
    moved = max(solution.total_moved, total)
    unit, double = (0.5 * float(np.finfo(one).eps) for one in (values.dtype, np.float64))
    additions = n_additions(len(rows)) * unit + solution.n_iter * double
    off = moved * (values.rounding(rows) + additions * values.bound(rows))
    losses = formulation.losses(formulation.positions(machine.scores, own.targets, machine.offsets))
    # what each loss is the difference of, and its own size
    parts = np.abs(machine.scores) + formulation.gains(own.targets) + losses
    parts += float(np.abs(machine.offsets).sum())
    linear = float(np.abs(np.multiply(formulation.slopes(own.bounds), machine.offsets)).sum())
    return (
        off * (float(own.bounds.sum()) + 0.5 * total)
        + rounding_of_sum(len(rows), float(np.abs(coefs) @ np.abs(machine.scores)))
        + rounding_of_sum(own.n_rows, float(own.bounds @ parts) + linear, float(len(rows)))
    )


def proven(account: Account, proof: Proof) -> Account:
    """An account with the numbers that were computed anew."""
    return replace(
        account,
        squared_norm=proof.squared_norm,
        loss=proof.loss,
        loss_reduced=proof.loss if account.exact else account.loss_reduced,
        dual_objective=proof.dual,
        violators=proof.n_violators,
        proof_rounding=proof.rounding,
        proven=True,
    )


def certified(
    accounts: Accounts,
    problems: Iterable[Problem],
    expansions: Iterable[Expansion],
    multipliers: Terms,
    kernel: TrainingKernel,
    formulation: Formulation,
    *,
    tol: float,
    run: Callable,
    say: Callable[[str], None],
) -> Accounts:
    """The accounts of trained machines with all rows seen, given their lifted coefficients."""
    if accounts["proven"].all():
        return accounts
    found: list[Account] = []
    coefs = np.zeros(kernel.X.shape[0])
    for number, (account, problem, expansion) in enumerate(
        zip(accounts, problems, expansions, strict=True)
    ):
        if account.proven or not account.n_rows:
            found.append(account)
            continue
        say(f"certify: looking at {len(problem.rows):,} rows")
        rows, values = multipliers.one(number)
        coefs[rows] = values
        own = coefs[problem.rows]
        coefs[rows] = 0.0
        support_coefs = expansion.coefs * formulation.decision(account.offsets).scale
        proof = prove(
            problem,
            expansion.rows,
            support_coefs,
            account.offsets,
            own,
            kernel,
            formulation,
            tol_of(formulation, tol, account.total_cost, account.n_rows),
            run,
        )
        found.append(proven(account, proof))
    return Accounts.of(found)
