"""Every pair of classes, trained one after another: what AESVC's fit does with its classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm.base import Progress
from aesvm.books import Books, Pair
from aesvm.certificate import Account
from aesvm.dual import Solution
from aesvm.one_vs_one import Trained
from aesvm.primal import feasible
from aesvm.reduction import Representatives
from aesvm.refine import Machine, completed
from aesvm.smo import minimize

#: Steps in which the progress of a single solve is reported.
_STEPS = 20

#: Rows of a sample that tells how many support vectors there will be, and how well it is solved.
_SAMPLE, _SAMPLE_TOL = 4096, 0.1


#: Multipliers to begin with, of some rows of a pair of classes, known by its number.
StartOf = Callable[[int, NDArray[np.intp]], NDArray[np.float64]]


class Pairs(Protocol):
    """What is trained: pairs of classes, and how they compare in effort."""

    @property
    def n_classes(self) -> int: ...

    def pairs(self) -> Iterator[Pair | int]:
        """Every pair of classes; where one has no rows, which wins (see ``one_vs_one``)."""

    def effort(self) -> float:
        """The squared sizes of all pairs together."""


class Problem(NamedTuple):
    """All classes: the distinct rows, and what each may weigh in a dual."""

    rows: NDArray[np.intp]  #: ascending
    labels: NDArray[np.intp]
    weights: NDArray[np.float64]
    costs: NDArray[np.float64]  #: C times the class weight
    n_classes: int

    def pairs(self) -> Iterator[Pair | int]:
        """Every pair of classes; where one has no rows, which wins (see ``one_vs_one``)."""
        members = self._members()
        for one, other in combinations(members, 2):
            if not len(one) or not len(other):
                yield int(len(one) > 0) - int(len(other) > 0)
                continue
            both = np.sort(np.concatenate([one, other]))
            signs = np.where(self.labels[both] == self.labels[one[0]], 1.0, -1.0)
            yield Pair(self.rows[both], signs, self.weights[both], self.costs[both])

    def effort(self) -> float:
        """The squared sizes of all pairs together."""
        sizes = np.bincount(self.labels, minlength=self.n_classes).astype(float).tolist()
        return sum((a + b) ** 2 for a, b in combinations(sizes, 2) if a and b)

    def _members(self) -> list[NDArray[np.intp]]:
        order = np.argsort(self.labels, kind="stable")
        ends = np.cumsum(np.bincount(self.labels, minlength=self.n_classes))
        return np.split(order, ends[:-1])


def expected_effort(
    used: NDArray[np.intp],
    problem_of: Callable[[NDArray[np.intp]], Problem],
    kernel_for: Callable,
    run: Callable,
) -> float:
    """Rows times support vectors of the exact SVMs, as those of a sample of the rows have it.

    Rather too many: of more rows, a smaller share are support vectors.

    Parameters
    ----------
    used : ndarray
        Rows of non-zero weight.
    problem_of : callable
        The problem of some of them.
    kernel_for, run
        As ``Machine`` wants them.
    """
    sample = np.sort(np.random.default_rng(0).permutation(used)[:_SAMPLE])
    share = len(sample) / len(used)
    effort = 0.0
    for pair in problem_of(sample).pairs():
        if isinstance(pair, int):
            continue
        solution = minimize(
            kernel_for(pair.rows, pair.bounds),
            pair.rows,
            pair.signs,
            -np.ones(len(pair.rows)),
            pair.bounds,
            tol=_SAMPLE_TOL,
            max_iter=100 * len(pair.rows),
            run=run,
        )
        effort += len(pair.rows) * np.count_nonzero(solution.alpha) / share**2
    return effort


class Result(NamedTuple):
    """A trained pair, the last solution, and what is kept for a certificate."""

    trained: Trained
    solution: Solution
    n_iter: int
    account: Account
    multipliers: tuple[NDArray[np.int32], NDArray[np.float64]]  #: lifted, and of which rows


class Options(NamedTuple):
    """What the solver is told, by the names of AESVC's parameters."""

    refine: int | str
    tol: float
    max_iter: int
    cache_size: float
    shrinking: bool


class Training:
    """Trains pairs, and tells how far it is.

    Parameters
    ----------
    options : Options
    kernel_for, represent, definite, run, progress
        As ``Machine`` wants them.
    """

    def __init__(
        self,
        options: Options,
        kernel_for: Callable,
        represent: Callable,
        definite: bool,
        run: Callable,
        progress: Progress,
    ) -> None:
        self.options = options
        self.kernel_for = kernel_for
        self.represent = represent
        self.definite = definite
        self.run = run
        self.progress = progress
        self.told = time.perf_counter()
        self.n_pairs = self.n_done = 0

    def __call__(
        self,
        problem: Pairs,
        first: Representatives | None,
        start_of: StartOf | None = None,
    ) -> list[Result | int]:
        """Train every pair; without a first set, each on all of its rows.

        ``start_of``: multipliers that a pair begins with, by its number and rows; what is not
        feasible is made so.
        """
        started = time.perf_counter()
        self.n_pairs = problem.n_classes * (problem.n_classes - 1) // 2
        total = problem.effort()
        results: list[Result | int] = []
        alone = self.n_pairs == 1
        steps = None if alone else self.n_pairs
        with self.progress.task("solve", steps, quiet=not alone) as task:
            for number, pair in enumerate(problem.pairs()):
                if isinstance(pair, int):
                    results.append(pair)
                    task.step("pair")
                    self.n_done += 1
                    continue
                start = None if start_of is None else start_of(number, pair.rows)
                if alone:
                    results.append(self._train(pair, first, 1.0, task, start))
                else:
                    with task.task("pair", None) as own:
                        share = len(pair.rows) ** 2 / total
                        results.append(self._train(pair, first, share, own, start))
                self.n_done += 1
        found = [result for result in results if not isinstance(result, int)]
        self.progress.say(
            f"solve: {len(found):,} pairs of classes "
            f"({sum(r.account.exact for r in found):,} on all rows given, rounds "
            f"{max(r.account.rounds for r in found)}), "
            f"{sum(r.account.n_solved for r in found):,} rows, largest gap "
            f"{max(r.solution.gap for r in found):.3g}, "
            f"{sum(r.n_iter for r in found):,} iterations, "
            f"{time.perf_counter() - started:.1f} s"
        )
        return results

    def _train(
        self,
        pair: Pair,
        first: Representatives | None,
        share: float,
        progress: Progress,
        start: NDArray[np.float64] | None,
    ) -> Result:
        machine = Machine(
            pair,
            self.kernel_for,
            self.represent,
            partial(self._solve, progress),
            tol=self.options.tol,
            definite=self.definite,
            run=self.run,
            progress=progress,
        )
        books = Books.everyone(len(pair.rows)) if first is None else Books.of(pair, first)
        if start is not None:
            start = feasible(start, pair.signs, pair.bounds)
        machine.train(books, self.options.refine, share, start)
        books, solution = machine.state.books, machine.state.solution
        alpha = machine.lifted()
        held = np.flatnonzero(alpha)
        return Result(
            Trained(pair.rows[books.members], machine.coefs, machine.offset),
            solution,
            machine.n_iter,
            machine.account(),
            (pair.rows[held].astype(np.int32), alpha[held]),
        )

    def _solve(
        self,
        progress: Progress,
        rows: NDArray[np.intp],
        signs: NDArray[np.float64],
        bounds: NDArray[np.float64],
        start: NDArray[np.float64] | None,
        duality_tol: float | None,
    ) -> Solution:
        tol = self.options.tol
        alone = self.n_pairs == 1
        with progress.task("steps", _STEPS if alone else 0) as task:
            watch = _Watch(self, task if alone else None, tol)
            return minimize(
                self.kernel_for(rows, bounds),
                rows,
                signs,
                -np.ones(len(rows)),
                bounds,
                start=start,
                tol=tol,
                duality_tol=duality_tol,
                max_iter=self.options.max_iter,
                cache_bytes=int(self.options.cache_size * 1e6),
                shrinking=self.options.shrinking,
                run=self.run,
                watch=watch,
            )


class _Watch:
    """Reports a solve: steps on the way from the largest gap to tol, and now and then a line."""

    def __init__(self, training: Training, task: Progress | None, tol: float) -> None:
        self.training = training
        self.task = task
        self.tol = tol
        self.steps, self.largest = 0, 0.0

    def __call__(self, gap: float, n_iter: int) -> None:
        self.largest = max(self.largest, gap)
        if self.task is not None and self.largest > self.tol:
            way = np.log(self.largest / max(gap, self.tol)) / np.log(self.largest / self.tol)
            while self.steps < int(way * _STEPS):
                self.steps += 1
                self.task.step()
        training: Any = self.training
        if time.perf_counter() - training.told > 5.0:
            training.told = time.perf_counter()
            training.progress.say(
                f"solve: pair {training.n_done + 1:,} of {training.n_pairs:,} at gap {gap:.3g} "
                f"after {n_iter:,} iterations"
            )


def complete(
    accounts: list[Account],
    problem: Problem,
    trained: Iterable[Trained],
    multipliers: list[tuple[NDArray[np.int32], NDArray[np.float64]] | None],
    kernel_for: Callable,
    *,
    tol: float,
    definite: bool,
    run: Callable,
    say: Callable[[str], None],
) -> list[Account]:
    """The accounts of all pairs that have rows, with all rows seen."""
    found: list[Account] = []
    alpha = np.zeros(int(problem.rows[-1]) + 1)
    for pair, held, one in zip(problem.pairs(), multipliers, trained, strict=True):
        if isinstance(pair, int) or held is None:
            continue
        account = accounts[len(found)]
        if account.hinge is None:
            say(f"certify: looking at {len(pair.rows):,} rows")
        rows, values = held
        alpha[rows] = values
        own = alpha[pair.rows]
        alpha[rows] = 0.0
        found.append(
            completed(account, pair, one, own, kernel_for, tol=tol, definite=definite, run=run)
        )
    return found
