"""How a fit came closer to the exact SVM: its objective each time all rows were seen."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Step:
    """An intermediate model of a fit, all pairs of classes together.

    Attributes
    ----------
    rounds : int
        Rounds made so far: the largest number of any pair of classes.
    n_vectors : int or None
        Vectors that w is in the span of, where they are limited.
    seconds : float
        Since the fit began. Pairs trained one after another: the seconds that each had taken at
        that step, added up. Pairs trained side by side: when the last of them had made the step.
    objective : float
        On all rows.
    dual_objective : float or None
        The best so far, in the precision of training; for few vectors, estimated from a sample.
    """

    rounds: int
    n_vectors: int | None
    seconds: float
    objective: float
    dual_objective: float | None

    @property
    def relative_gap(self) -> float | None:
        """The duality gap, divided by the magnitude of the objective."""
        if self.dual_objective is None:
            return None
        gap = max(0.0, self.objective - self.dual_objective)
        return gap / abs(self.objective) if self.objective else 0.0


class FitHistory:
    """The steps of machines, each machine known by a number."""

    def __init__(self, started: float) -> None:
        self.started = started  # by the clock that ``time.perf_counter`` reads
        self.side_by_side = False  # whether machines are trained at the same time
        self._begun: dict[int, float] = {}
        self._steps: dict[int, list[Step]] = {}

    def begin(self, number: int) -> None:
        """Note that the training of a machine begins; by default it begins with the fit."""
        self._begun[number] = time.perf_counter() - self.started

    def note(
        self,
        number: int,
        objective: float | None,
        dual_objective: float | None,
        rounds: int = 0,
        n_vectors: int | None = None,
    ) -> None:
        """Note a step of a machine, if its objective is known."""
        if objective is not None:
            seconds = time.perf_counter() - self.started
            step = Step(rounds, n_vectors, seconds, objective, dual_objective)
            self._steps.setdefault(number, []).append(step)

    def steps(self) -> list[Step]:
        """The steps of all machines together; a machine keeps its last step."""
        begun = {number: self._begun.get(number, 0.0) for number in self._steps}
        first = min(begun.values(), default=0.0)
        found = []
        for at in range(max(map(len, self._steps.values()), default=0)):
            now = {number: own[min(at, len(own) - 1)] for number, own in self._steps.items()}
            duals = [one.dual_objective for one in now.values()]
            known = [dual for dual in duals if dual is not None]
            vectors = [one.n_vectors for one in now.values() if one.n_vectors is not None]
            taken = [one.seconds - begun[number] for number, one in now.items()]
            last = max(one.seconds for one in now.values())
            found.append(
                Step(
                    max(one.rounds for one in now.values()),
                    max(vectors) if vectors else None,
                    last if self.side_by_side else first + sum(taken),
                    sum(one.objective for one in now.values()),
                    sum(known) if len(known) == len(duals) else None,
                )
            )
        return found


def columns_of(steps: Iterable[Step]) -> dict[str, NDArray]:
    """Steps as plain arrays, with NaN for None: what a model keeps."""
    found = list(steps)
    return {
        one.name: np.array([getattr(step, one.name) for step in found], dtype=np.float64)
        for one in fields(Step)
    }


def steps_of(columns: dict[str, NDArray]) -> tuple[Step, ...]:
    """Steps from plain arrays."""
    found = []
    for values in zip(*(columns[one.name].tolist() for one in fields(Step)), strict=True):
        known: list[Any] = [None if value != value else value for value in values]
        rounds, n_vectors, *others = known
        found.append(Step(int(rounds), None if n_vectors is None else int(n_vectors), *others))
    return tuple(found)
