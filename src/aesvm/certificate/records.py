"""What is known of trained machines: a record of each, and the records of many as columns.

A certificate is computed from these. F1 is the objective on all rows, F2 that on representatives;
``certificate.py`` defines both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.proof import Proof
from aesvm.runtime.cached import cached_property


@dataclass(frozen=True)
class Record:
    """What is known of one machine."""

    exact: bool = True
    rounds: int = 0
    n_rows: int = 0
    max_residual: float = 0.0
    total_residual: float | None = 0.0  #: None where only a bound on the largest is known
    squared_norm: float = 0.0
    #: What F2 is off by, at most; where the squared norm is negative, what that is.
    rounding: float = 0.0
    loss_reduced: float | None = 0.0  #: the losses of F2
    total_cost: float = 0.0  #: sum_i c_i
    worst_optimum: float = 0.0  #: F at w = 0, which the optimum does not exceed
    squared_norm_bound: float | None = 0.0  #: what |w|^2 is at most, of an optimum
    target_reach: float = 0.0  #: how far apart targets are, at most, for a unit of distance
    offsets: tuple[float, ...] = (0.0,)
    weighted_distances: float = 0.0  #: sum_i c_i |tau_i|
    loss: float | None = None  #: the losses of F1
    dual_objective: float | None = None
    violators: int | None = None
    changed: float | None = None  #: share of the rows whose prediction the last round changed
    proof_rounding: float = 0.0  #: what F1 is off by, at most, where it was proven
    proven: bool = False  #: whether F1 and the dual were proven (``proof.py``)
    n_vectors: int | None = None  #: the vectors of a span that w was restricted to
    estimated_loss: float | None = None  #: the loss of F1, from a sample of the rows
    estimated_dual: float | None = None  #: from a sample of the rows
    estimated_error: float = 0.0  #: two standard errors of the estimates

    def without_dual(self) -> Record:
        """The same without what multipliers of all rows tell: dual, violators and proof."""
        return replace(
            self,
            dual_objective=None,
            violators=None,
            proof_rounding=0.0,
            proven=False,
            estimated_loss=None,
            estimated_dual=None,
            estimated_error=0.0,
        )

    def proven_by(self, proof: Proof) -> Record:
        """The same with the numbers of its proof."""
        return replace(
            self,
            squared_norm=float(proof.squared_norm[0]),
            loss=float(proof.loss[0]),
            loss_reduced=float(proof.loss[0]) if self.exact else self.loss_reduced,
            dual_objective=None if proof.dual is None else float(proof.dual[0]),
            violators=int(proof.n_violators[0]),
            proof_rounding=float(proof.rounding[0]),
            proven=True,
        )

    @classmethod
    def of_nothing(cls) -> Record:
        """The record of a machine with nothing to learn, such as a pair with one empty class."""
        return cls(loss=0.0, dual_objective=0.0, violators=0, proven=True)


#: An objective is negligible below its rounding, where that is below a fraction of the costs.
_NEGLIGIBLE_SHARE = 1e-9

#: Below this fraction of its gap an objective counts as zero, and the relative gap as infinite: the
#: quotient would overflow.
_LEAST_SHARE = 1e-300

#: Columns of counts, where -1 stands for None, and of flags. In all others NaN stands for None.
_COUNTS, _FLAGS = ("rounds", "n_rows", "violators", "n_vectors"), ("exact", "proven")


@dataclass(frozen=True)
class Records:
    """The records of several machines, a column for each number."""

    columns: dict[str, NDArray]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Records:
        found = [vars(record) for record in records]
        columns = {}
        for one in fields(Record):
            values: list[Any] = [record[one.name] for record in found]
            if one.name == "offsets":
                width = max(map(len, values), default=1)
                values = [(*offsets, *(width - len(offsets)) * [None]) for offsets in values]
            columns[one.name] = _column(one.name, values)
        return cls(columns)

    @classmethod
    def of_numbers(cls, n: int, known: dict[str, NDArray]) -> Records:
        """Known columns; all others as in ``Record.of_nothing``."""
        nothing = {name: column.repeat(n, 0) for name, column in _OF_NOTHING.columns.items()}
        return cls(nothing | known)

    def take(self, numbers: NDArray) -> Records:
        """The records of some machines."""
        return Records({name: column[numbers] for name, column in self.columns.items()})

    def put_together(self, numbers: NDArray, others: Records, their: NDArray) -> Records:
        """These records and others, in the order of their machines' numbers."""
        order = np.argsort(np.concatenate([numbers, their]))
        columns = {}
        for name, column in self.columns.items():
            both = [column, others.columns[name]]
            if name == "offsets":
                width = max(one.shape[1] for one in both)
                both = [_padded(one, width) for one in both]
            columns[name] = np.concatenate(both)[order]
        return Records(columns)

    def __len__(self) -> int:
        return len(self.columns["exact"])

    def __getitem__(self, name: str) -> NDArray:
        return self.columns[name]

    def __iter__(self) -> Iterator[Record]:
        columns = {name: column.tolist() for name, column in self.columns.items()}
        known = {name: self.known(name).tolist() for name in columns if name != "offsets"}
        for k in range(len(self)):
            values: dict[str, Any] = {
                name: columns[name][k] if known[name][k] else None for name in known
            }
            offsets = tuple(offset for offset in columns["offsets"][k] if offset == offset)
            yield Record(offsets=offsets, **values)

    def known(self, name: str) -> NDArray[np.bool_]:
        """Which machines have a number."""
        column = self.columns[name]
        return column >= 0 if name in _COUNTS else ~np.isnan(column)

    def total(self, name: str) -> Any:
        """The sum of a number; None where it is not known of all machines."""
        total = self.columns[name].sum().item()
        may_lack = name in _COUNTS or total != total
        return None if may_lack and not self.known(name).all() else total

    def relative_gaps(self) -> NDArray[np.float64]:
        """The duality gap of each machine with its rounding, divided by its objective.

        NaN where the gap is not known; 0 where it is negligible.
        """
        objective, rounding = self.objectives, self["proof_rounding"]
        gap = np.maximum(objective - self["dual_objective"], 0.0)
        whole, size = gap + rounding, np.abs(objective)
        relative = np.where(np.isnan(whole), np.nan, np.where(whole > 0.0, np.inf, 0.0))
        # divided only where the quotient is a number: an objective may be next to nothing
        np.divide(whole, size, out=relative, where=size > _LEAST_SHARE * whole)
        return np.where(self.negligible, 0.0, relative)

    @cached_property
    def objectives(self) -> NDArray[np.float64]:
        """F1 of each machine; NaN where it is not known."""
        return 0.5 * np.maximum(self["squared_norm"], 0.0) + self["loss"]

    @cached_property
    def negligible(self) -> NDArray[np.bool_]:
        """Machines whose objective and gap are zero to within rounding, as their optimum may be."""
        objective, rounding = self.objectives, self["proof_rounding"]
        nothing = np.maximum(objective - self["dual_objective"], np.abs(objective)) <= rounding
        nothing &= self["dual_objective"] <= 0.0
        return nothing & (rounding <= _NEGLIGIBLE_SHARE * self["total_cost"])


def _column(name: str, values: list[Any]) -> NDArray:
    if name in _FLAGS:
        return np.array(values, dtype=bool)
    if name in _COUNTS:
        return np.array([-1 if value is None else value for value in values], dtype=np.int64)
    return np.array(values, dtype=np.float64)  # which has NaN for None


def _padded(offsets: NDArray, width: int) -> NDArray:
    return np.pad(offsets, ((0, 0), (0, width - offsets.shape[1])), constant_values=np.nan)


#: Of one machine with nothing to learn.
_OF_NOTHING = Records.of([Record.of_nothing()])
