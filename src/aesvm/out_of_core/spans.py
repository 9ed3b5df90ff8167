"""SVMs in the span of few vectors, of rows that are elsewhere.

A weighted set that stands for all rows is trained on as rows in memory are, which gives the vectors
and a first solution (``bases.span_training``). Where all rows can be read again, passes over them
then solve the SVM of all rows in that span (``bases.solve_in_passes``). In that case a small set is
enough, which may be a random sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import nan
from typing import NamedTuple

import numpy as np

from aesvm.bases.descent import Point
from aesvm.bases.solve_in_passes import SolvedInPasses, Start, solve_in_passes
from aesvm.bases.span_training import SpanTraining
from aesvm.bases.sums import Query, SpanMachines, SumsByMachine
from aesvm.machines.plan import Span
from aesvm.machines.problem import TrainingRows, TrainingSet
from aesvm.machines.results import Trained
from aesvm.machines.trainer import Trainer
from aesvm.out_of_core.sampling import sample
from aesvm.out_of_core.training_sets import GatheredSets, SetMaker
from aesvm.out_of_core.weighted_rows import GatheredRows, WeightedRows
from aesvm.sets.derive import PreparedRows

#: Answers queries about machines by sums over all rows.
AddUp = Callable[[SpanMachines, dict[int, Query]], SumsByMachine]

#: Where passes over all rows follow: the most bytes of the set; and the most rows of it that are
#: trained on, or as many for each vector if that is more.
SET_BYTES, _MOST, _FOR_EACH = 2.0**27, 100_000, 50

#: Bytes of kernel values that are held while a set is trained on, where there is no budget.
_HELD = 2.0**29


class InSpan(NamedTuple):
    """Machines in the span of a basis."""

    rows: WeightedRows  #: the set that the basis is of
    sets: GatheredSets
    trained: list[Trained]
    of_all_rows: bool  #: whether passes over all rows were made


def solve_in_span_of_set(
    gathered: GatheredRows,
    span: Span,
    maker: SetMaker,
    trainer: Trainer,
    add_up: AddUp | None,
) -> InSpan:
    """Train every machine in the span of few vectors, which all of them share.

    Parameters
    ----------
    gathered : GatheredRows
        A set that stands for all rows.
    span : Span
    maker : SetMaker
    trainer : Trainer
    add_up : callable or None
        None where rows cannot be read again: the machines are those of the set. It is not used
        where the set has all rows.
    """
    rows = gathered.rows
    if add_up is not None:
        n_most = max(_MOST, _FOR_EACH * span.max_vectors)
        rows = sample(rows, n_most, seed=0) if len(rows) > n_most else rows
    sets = maker.of_one_set(gathered._replace(rows=rows))
    if span.most_bytes is None:
        span = replace(span, most_bytes=_HELD)
    groups = np.unique(rows.groups, return_inverse=True)[1]
    data = TrainingRows(rows.X, rows.targets, groups, rows.weights, maker.selections)
    every = np.arange(len(rows))
    prepared = PreparedRows(every, every, rows.weights, [])  # equal ones are few in a set
    trained = SpanTraining(data, sets.kernel, prepared, trainer).train(span)
    if add_up is not None and not sets.exact:
        solved = _solved(sets, trained, maker, trainer, add_up)
        if solved:
            found = [
                _of_all_rows(one, solved[number], own) if number in solved else one
                for number, (one, own) in enumerate(zip(trained, sets.sets, strict=True))
            ]
            return InSpan(rows, sets, found, True)
    found = [_of_the_set(one, own) for one, own in zip(trained, sets.sets, strict=True)]
    return InSpan(rows, sets, found, False)


def _solved(
    sets: GatheredSets,
    trained: list[Trained],
    maker: SetMaker,
    trainer: Trainer,
    add_up: AddUp,
) -> dict[int, SolvedInPasses]:
    """Machines with something to learn, solved for all rows; empty where time was over."""
    kernel = sets.kernel
    machines = {
        number: one.machine
        for number, one in enumerate(trained)
        if one.machine.solution is not None
    }
    if not machines:
        return {}
    used = np.concatenate([machine.set.rows for machine in machines.values()])
    basis = used[np.sort(np.unique(used, return_index=True)[1])]  # as a single machine has it
    place = np.empty(kernel.X.shape[0], dtype=np.intp)
    place[basis] = np.arange(len(basis))
    enough = [kernel.in_sums(one.set.rows, one.coefs).dtype for one in machines.values()]
    accuracy = kernel.sum_tol / 10
    sent = SpanMachines(
        kernel.X[basis],
        {number: place[one.set.rows] for number, one in machines.items()},
        {number: maker.selections[number] for number in machines},
        maker.spec,
        maker.formulation,
        np.result_type(*enough),
        accuracy,
    )
    double = kernel.matrix(np.float64, accuracy)
    starts = {
        number: Start(
            np.asarray(double.square(one.set.rows), dtype=np.float64),
            Point(one.coefs, one.offsets),
            maker.selections[number].n_rows,
        )
        for number, one in machines.items()
    }

    def ask(queries: dict[int, Query]) -> SumsByMachine:
        return add_up(sent, queries)

    with trainer.progress.task("passes", None) as task:
        return solve_in_passes(starts, ask, maker.formulation, task)


def _of_all_rows(one: Trained, solved: SolvedInPasses, own: TrainingSet) -> Trained:
    """A machine of the set, replaced by the one that passes over all rows have found."""
    (coefs, offsets), loss, _ = solved.best
    solution = one.machine.solution
    assert solution is not None
    n_iter = one.n_iter + solved.n_steps
    machine = replace(
        one.machine,
        coefs=coefs,
        scores=solved.scores,
        offsets=offsets,
        solution=solution._replace(
            alpha=np.abs(coefs),
            scores=solved.scores,
            objective=nan,  # the dual's, which is not known
            n_updates=n_iter,
            converged=solved.converged,
        ),
    )
    record = replace(
        one.record.without_dual(),
        n_rows=own.n_rows,
        squared_norm=machine.squared_norm,
        loss_reduced=loss,
        loss=loss,
        offsets=offsets,
    )
    return Trained(machine, n_iter, record, None)


def _of_the_set(one: Trained, own: TrainingSet) -> Trained:
    """A machine of the set; its loss over all rows is known only if the set has all of them."""
    if one.machine.solution is None:
        return one
    covered = own.coverage
    record = replace(one.record, n_rows=covered.n_rows)
    if not covered.exact:
        record = replace(
            record.without_dual(),
            rounding=record.proof_rounding,
            max_residual=covered.max_residual,
            total_residual=covered.total_residual,
            weighted_distances=covered.weighted_distances,
            loss=None,
        )
    return one._replace(record=record, multipliers=None)
