"""Pilots: the exact SVMs of a sample of the rows.

A fit is planned by them (``plan``), and a basis of few vectors begins with theirs (``bases``). Each
machine has one. Of more rows a smaller part are support vectors. A second sample, a quarter of the
pilot's rows, tells how fast that falls.
"""

from __future__ import annotations

from math import log2

import numpy as np
from numpy.typing import NDArray

from aesvm.machines import plan
from aesvm.machines.plan import Expected
from aesvm.machines.problem import Coverage, Machine, Problem, TrainingRows, TrainingSet
from aesvm.machines.trainer import Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.cached import cached_property
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import PreparedRows


class Pilots:
    """The pilot of each machine, trained when it is first asked for.

    Parameters
    ----------
    data : TrainingRows
    kernel : TrainingKernel
    prepared : PreparedRows
        The distinct ones of them.
    trainer : Trainer
        Of these machines.
    progress : Progress
    """

    def __init__(
        self,
        data: TrainingRows,
        kernel: TrainingKernel,
        prepared: PreparedRows,
        trainer: Trainer,
        progress: Progress,
    ) -> None:
        self.data = data
        self.kernel = kernel
        self.prepared = prepared
        self.trainer = trainer
        self.progress = progress
        n_rows = max(len(prepared.rows), 1)
        self.share = min(1.0, plan.TABLE.pilot_rows / n_rows)  #: of the rows of a machine
        self._found: dict[int, Machine] = {}

    @cached_property
    def _ranks(self) -> NDArray[np.intp]:
        """A random order of all rows."""
        return np.random.default_rng(0).permutation(len(self.data.weights))

    def shuffled(self, problem: Problem) -> Problem:
        """A problem with its rows in random order: a pilot is of the first."""
        return problem.take(np.argsort(self._ranks[problem.rows]))

    def machine(self, number: int, shuffled: Problem) -> Machine:
        """The pilot of a machine, whose rows are in random order."""
        if number not in self._found:
            self._found[number] = self.trained(number, shuffled, self._n_rows(shuffled))
        return self._found[number]

    def expected(self) -> Expected:
        """What the exact SVMs of all rows take."""
        n_sampled = round(self.share * len(self.prepared.rows))
        self.trainer.progress.say(
            f"pilot: the exact SVM of a sample of {n_sampled:,} rows, to choose a plan"
        )
        data, formulation = self.data, self.trainer.formulation
        numbers = np.random.default_rng(0).permutation(data.n_machines)[: plan.TABLE.pilot_machines]
        numbers = np.sort(numbers)
        problems = data.problems(self.prepared.rows, self.prepared.weights, numbers)
        n_rows = values = 0.0
        for number, problem in zip(numbers.tolist(), problems, strict=True):
            n_rows += len(problem.rows)
            if formulation.constant(problem.targets) is None:
                values += len(problem.rows) * self._n_support(number, self.shuffled(problem))
        n_all = n_rows * data.n_machines / max(len(numbers), 1)
        return Expected(n_all, values / n_rows if n_rows else 0.0)

    def _n_rows(self, problem: Problem) -> int:
        n_rows = len(problem.rows)
        return min(n_rows, max(round(self.share * n_rows), plan.TABLE.pilot_least))

    def _n_support(self, number: int, shuffled: Problem) -> float:
        """The support vectors that the exact SVM of all rows of a machine is expected to have."""
        n_rows, n_all = self._n_rows(shuffled), len(shuffled.rows)
        more = self.machine(number, shuffled).n_support
        if n_rows == n_all or not more:
            return more
        n_fewer = max(n_rows // 4, 2)
        fewer = self.trained(number, shuffled, n_fewer).n_support
        return expected_support((n_fewer, fewer), (n_rows, more), n_all)

    def trained(self, number: int, shuffled: Problem, n_rows: int) -> Machine:
        """The exact SVM of the first rows of a machine."""
        own = shuffled.take(np.arange(n_rows))
        sample = TrainingSet(own.rows, own.targets, own.weights, own.costs, Coverage(n_rows))
        return self.trainer.train(number, self.kernel, sample, self.progress)


def expected_support(fewer: tuple[int, float], more: tuple[int, float], n_rows: int) -> float:
    """Support vectors of an SVM of ``n_rows`` rows, by the rows and those of two smaller ones.

    Examples
    --------
    >>> from aesvm.machines.pilots import expected_support
    >>> round(expected_support((1000, 300), (4000, 1200), 16_000))  # the same fraction
    4800
    """
    (n_fewer, support_fewer), (n_more, support_more) = fewer, more
    share = support_more / n_more
    falls = min(1.0, share * n_fewer / support_fewer) if support_fewer else 1.0
    doublings = plan.TABLE.falls_on * log2(n_rows / n_more) / log2(n_more / n_fewer)
    return share * n_rows * falls**doublings
