"""What a certificate says of trained machines: their accounts, and all rows seen again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from aesvm.kernels import TrainingKernel
from aesvm.machines.accounts import Account, Accounts
from aesvm.machines.formulation import Formulation, total_loss
from aesvm.machines.memory import Proof, prove
from aesvm.machines.problem import Expansion, Machine, Problem
from aesvm.machines.results import Terms
from aesvm.machines.rounds import Look, State

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
        rounding=0.0 if machine.squared_norm >= 0 else _rounding(machine, state.sets.kernel),
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


def _rounding(machine: Machine, kernel: TrainingKernel) -> float:
    """By how much the squared norm can be off where kernel values are right to nine digits."""
    rows = machine.set.rows
    largest = np.abs(kernel.for_sums(rows, machine.coefs).diag(rows)).max()
    return _ROUNDING * float(np.abs(machine.coefs).sum()) ** 2 * float(largest)


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
            tol,
            run,
        )
        found.append(proven(account, proof))
    return Accounts.of(found)
