"""Trained machines as values: one, and all of a fit as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import Step
from aesvm.certificate.records import Record, Records
from aesvm.formulations.protocol import Array, Formulation
from aesvm.machines.problem import Machine, different


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
    def machines(self) -> NDArray[np.intp]:
        """The number of each term's machine."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    def one(self, number: int) -> tuple[NDArray, Array]:
        """The rows and coefficients of one machine."""
        own = slice(self.ends[number - 1] if number else 0, self.ends[number])
        return self.rows[own], self.coefs[own]

    def take(self, numbers: NDArray) -> Terms:
        """The terms of some machines, their numbers ascending."""
        held = np.isin(self.machines, numbers)
        sizes = np.diff(self.ends, prepend=0)[numbers]
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
