"""A fit in the time that there is: ever better models, each of them whole.

    sample   the SVM of a random sample of the rows, class by class; then of larger ones
    exact    the exact SVM of all rows

``plan.Ladder`` says what is made next, by what the samples took: the largest sample that ends in
time, or all rows. Each machine ends with the best model that was made of it: the one with the
lowest objective on all rows. The objective of a sample's model is estimated from other rows. So
what was cut short counts only where it is better than what was there before. The w of a solve that
was cut is the best multiple of the dual solution. (Of 20,000 rows of flights, the objective was
0.2 % above the optimum after 60 % of the time, and there was no difference after 80 %.) The dual
of an exact solve that was cut bounds the optimum, whatever model is returned.

A sample is solved for to a relative duality gap (``gap_of_sample``) that is small beside what it is
above the optimum as a sample.

The SVM of n of N rows may have costs ``sqrt(N / n)`` times as large, if that gave a small sample a
lower objective on all rows. (With the costs as they are, w is too short where there is little
noise: of 8,000 rows of covtype it was 13 % above the optimum, and 8 % with larger costs. Where
there is much noise it is too long already.)

There is no rung of few vectors. (Of 100,000 rows of heart2020, the SVM on 256 vectors was 4.3 %
above the optimum after half a second, and a sample 3.2 % after 0.6 s. Of 60,000 rows of two
generated regressions, 128 vectors took ten times as long as a sample that was better. Of 200,000
points of two moons, a large sample is 0.1 % above the optimum, and 128 vectors less.)
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import Step
from aesvm.certificate.records import Record, Records
from aesvm.certificate.text import duration
from aesvm.formulations.objective import worst_optimum
from aesvm.formulations.protocol import Array, Offsets
from aesvm.machines import plan as plans
from aesvm.machines.fit import Work, every_row, train
from aesvm.machines.plan import Exact, Ladder, Rung, Sample, Sampled
from aesvm.machines.problem import Problem
from aesvm.machines.represent import Represented
from aesvm.machines.results import Terms, TrainedMachines
from aesvm.machines.sharing import SharedWork
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import PreparedRows

#: Rows of a sample in each group of rows, at least.
_LEAST_OF_GROUP = 10

#: A sample is judged by a fraction of as many other rows, and by so many at least.
_JUDGES, _LEAST_JUDGES = 0.125, 4000

#: Costs of n of N rows are multiplied by a power of N / n: by the better of these.
_POWERS = 0.0, 0.5

#: Kernel values that are computed between two looks at the clock.
_AT_ONCE = 1e8

#: The part of the time left that the end of a solve takes, where it is cut short: scores of rows
#: that were left out are brought up to date. (5 s were exceeded by 0.3 s, with 100,000 rows.)
_TO_END = 0.05

#: A solve that was cut short is expected to take this many times as long, at least.
_LONGER = 2.0

#: How many standard errors an estimate is given with.
_ERRORS = 2.0

#: The share of the progress bar's rest that a rung takes.
_SHARES = {Sample: 0.05, Exact: 1.0}


class Reached(NamedTuple):
    """Where a fit in time has ended."""

    n_solved: int  #: rows that were solved for
    n_vectors: int | None = None  #: of the model; None where every machine is exact
    stopped_after: float | None = None  #: seconds; None where the exact SVM was reached
    exact_after: float | None = None  #: seconds that it is expected to take


class Made(NamedTuple):
    """The machines of a rung."""

    name: str
    trained: TrainedMachines
    objectives: Array  #: of each machine on all rows, maybe estimated; NaN where not known
    n_solved: int  #: rows that were solved for
    errors: Array | float = 0.0  #: two standard errors of the objectives, where estimated

    def or_better(self, other: Made) -> Made:
        """Of each machine the one with the lower objective; this one where that is not known.

        Of two that are estimated the other one, from more rows, is taken unless it is surely worse,
        or its solve was cut short.
        """
        both = (np.asarray(self.errors) > 0.0) & (np.asarray(other.errors) > 0.0)
        doubt = np.where(both, np.hypot(self.errors, other.errors), 0.0)
        doubt = np.where(other.trained.converged, doubt, 0.0)
        is_better = other.objectives < self.objectives + doubt
        is_better |= np.isnan(self.objectives) & ~np.isnan(other.objectives)
        new, kept = np.flatnonzero(is_better), np.flatnonzero(~is_better)
        if not len(new):
            return self
        if not len(kept):
            return other
        trained = other.trained.take(new).put_together(new, self.trained.take(kept), kept)
        objectives = np.where(is_better, other.objectives, self.objectives)
        errors = np.where(is_better, other.errors, self.errors)
        name = f"{other.name} for {len(new):,} of {len(is_better):,} pairs, {self.name} for others"
        return Made(name, trained, objectives, max(self.n_solved, other.n_solved), errors)


def train_in_time(
    work: Work, prepared: PreparedRows, plan: Ladder
) -> tuple[Represented, TrainedMachines, Reached]:
    """Train every machine of rows in memory as well as the time allows."""
    trained, reached = _Climb(work, prepared, plan).run()
    return every_row(work, prepared), trained, reached


class _Climb:
    """The rungs of one fit, and the best machines so far."""

    def __init__(self, work: Work, prepared: PreparedRows, plan: Ladder) -> None:
        self.work = work
        self.prepared = prepared
        self.plan = plan
        self.progress = work.progress
        self.ranks = np.random.default_rng(0).permutation(len(work.data.weights))
        self.best: Made | None = None
        self.sampled = Sampled(0, 0.0)
        self.look_seconds = 0.0  # that a look at all rows by the last sample takes
        self.judge_seconds = 0.0  # that the look at other rows took
        self.of_sample: TrainedMachines | None = None  # the last one, as it was trained
        self.last_sample: Made | None = None
        self.powers = (0.0,) if work.formulation.is_homogeneous else _POWERS
        self.cut: TrainedMachines | None = None  # the exact SVMs, where they were cut short
        self.cut_after = 0.0  # seconds
        self.steps: list[Step] = []
        gap = plans.TABLE.gap_of_sample if plan.facts.definite else None
        self.goal_of_sample = Exact("a sample", enough=gap)
        # made now, since rungs are timed: what kernel values in either precision take once
        work.kernel.in_sums(prepared.rows[:1], np.zeros(1))

    def run(self) -> tuple[TrainedMachines, Reached]:
        """Make rung after rung, as the plan says."""
        rung: Rung
        rung, *waiting = map(Sample, plans.TABLE.first_samples)
        while rung is not None:
            self.progress.say(f"in time: {rung}; {self._left():.2g} s left")
            with self.progress.share(_SHARES[type(rung)]) as progress:
                made, is_done = self._make(rung, progress)
            self.steps += made.trained.history
            if is_done:
                return made.trained._replace(history=self.steps), Reached(made.n_solved)
            self.best = made if self.best is None else self.best.or_better(made)
            self.progress.say(f"in time: {made.name}, objective {made.objectives.sum():.6g}")
            left = self._left()
            if isinstance(rung, Exact):
                break
            is_due = waiting and left > 0.0
            rung = waiting.pop(0) if is_due else self.plan.next(self.sampled, left)
        return self._stopped()

    def _make(self, rung: Sample | Exact, progress: Progress) -> tuple[Made, bool]:
        """The machines of a rung, and whether they are the exact ones."""
        reserve = _TO_END * self._left()
        if isinstance(rung, Exact):
            return self._exact(rung, progress.apart(reserve))
        # the fit does not report what is cut short here, nor keep its solutions for other fits
        part, apart = progress.apart(reserve + self._to_judge(rung)), SharedWork(in_search=True)
        return self._sample(rung, replace(self.work, progress=part, shared=apart)), False

    def _left(self) -> float:
        return self.progress.seconds_left()

    # --- the rungs

    def _exact(self, rung: Exact, part: Progress) -> tuple[Made, bool]:
        before = self._left()
        work = replace(self.work, progress=part, every_machine=False)
        trained = train(work, every_row(work, self.prepared), rung)
        objectives = trained.records.objectives
        made = Made("the exact SVM", trained, objectives, len(trained.solved))
        if trained.converged.all() and not np.isnan(objectives).any():
            return made, True
        if not part.ending.asked_by:  # it ended by itself: rounding, or max_iter
            return made, True
        self.cut, self.cut_after = trained, before - self._left()
        return made._replace(name="an exact SVM that was cut short"), False

    def _to_judge(self, rung: Sample) -> float:
        """The seconds that a look at other rows is expected to take, by the machines of a sample.

        That is rows that carry them, times rows that are looked at.
        """
        last = max(self.sampled.n_rows, 1)
        more = rung.n_rows / last * n_judges(rung.n_rows) / n_judges(last)
        return more * self.judge_seconds

    def _sample(self, rung: Sample, work: Work) -> Made:
        """The machines of a sample; once, those with the better costs."""
        is_first = rung.n_rows < max(plans.TABLE.first_samples)
        found: list[tuple[Made, float, TrainedMachines | None, Sampled]] = []
        before = self.sampled.n_rows, self.sampled.seconds
        for power in self.powers[:1] if is_first else self.powers:
            if not found or not self.progress.is_over():
                made = self._one_sample(rung, work, power, before)
                found.append((made, power, self.of_sample, self.sampled))
        made, power, self.of_sample, self.sampled = min(
            found, key=lambda one: one[0].objectives.sum()
        )
        if is_first:
            self.judge_seconds = 0.0  # it may have loaded code
        else:
            self.powers = (power,)
        self.last_sample = made
        return made

    def _one_sample(self, rung: Sample, work: Work, power: float, last: tuple[int, float]) -> Made:
        before, n_all = self._left(), len(self.prepared.rows)
        chosen, others = split(self.prepared, self.ranks, rung.n_rows)
        n_rows = len(chosen.rows)
        times = (n_all / n_rows) ** power
        weighted = chosen._replace(weights=times * chosen.weights)
        trained = train(work, every_row(work, weighted), self.goal_of_sample)
        held = trained.multipliers._replace(coefs=trained.multipliers.coefs / times)
        self.of_sample = trained._replace(history=(), multipliers=held)
        after = self._left()
        made = self._seen(f"the SVM of a sample of {n_rows:,} rows", others, chosen.rows)
        self.judge_seconds = after - self._left()
        # one look at all rows by this machine takes about so long
        self.look_seconds = self.judge_seconds * n_all / max(len(others), 1)
        seconds = max(before - after, 0.0)
        self.sampled = Sampled(n_rows, seconds, last)
        return made

    def _seen(
        self, name: str, rows: NDArray[np.intp], sample: NDArray[np.intp] | None = None
    ) -> Made:
        """The machines of a sample as machines of all rows, by a look at some of these.

        ``sample``: its rows; None where all rows are looked at.
        """
        trained, data, prepared = self.of_sample, self.work.data, self.prepared
        assert trained is not None
        every = sample is None
        is_seen, is_own = np.zeros((2, len(data.weights)), dtype=bool)
        is_seen[rows] = True
        is_own[sample] = True
        objectives = np.full(data.n_machines, np.nan)
        found: list[_OfSample] = []
        problems = data.problems(prepared.rows, prepared.weights)
        for number, (problem, record) in enumerate(zip(problems, trained.records, strict=True)):
            one = _OfSample(self.work, problem, trained, number, record)
            at = np.flatnonzero(is_seen[problem.rows])
            at = at if len(at) else np.arange(len(problem.rows))
            if one.look(at, None if every else is_own[problem.rows], self._known(number)):
                objectives[number] = one.objective
            found.append(one)
        seen = trained._replace(
            decisions=Terms.of((one.rows, one.decided) for one in found),
            intercept=np.array([one.intercept for one in found]),
            multipliers=Terms.of(one.multipliers() for one in found),
            records=Records.of([one.record for one in found]),
        )
        errors = np.array([0.0 if every else one.error for one in found])
        return Made(name, seen, objectives, len(trained.solved), errors)

    def _known(self, number: int) -> _Judged | None:
        """The best machine so far, where its loss on all rows is known."""
        if self.best is None:
            return None
        error = np.broadcast_to(self.best.errors, len(self.best.objectives))[number]
        (record,) = self.best.trained.records.take(np.array([number]))
        if error > 0.0 or record.loss is None or not record.n_rows:
            return None
        rows, decided = self.best.trained.decisions.one(number)
        coefs = self.work.formulation.decision(record.offsets).scale * decided
        return _Judged(rows, coefs, record.offsets, record.loss)

    # --- the end

    def _stopped(self) -> tuple[TrainedMachines, Reached]:
        """The best machines, where the exact ones were not reached."""
        assert self.best is not None
        if self.best is self.last_sample and self.look_seconds <= self._left():
            self.best = self._seen(self.best.name, self.prepared.rows)
        best, seconds = self.best, self._seconds_of_exact()
        takes = "" if seconds is None else f"the exact SVM takes {duration(seconds)}, and "
        self.progress.end_by_plan(f"{takes}the model is {best.name}")
        trained = self._bounded(best.trained)._replace(history=self.steps)
        n_vectors = None
        if not trained.records["exact"].all():
            n_vectors = len(np.unique(trained.decisions.rows))
        elapsed = time.perf_counter() - self.progress.started
        return trained, Reached(best.n_solved, n_vectors, elapsed, seconds)

    def _seconds_of_exact(self) -> float | None:
        """What the exact SVM is expected to take: longer than it was tried for, if it was cut.

        The first sample does not tell: it takes what a fit takes once, such as compiling.
        """
        if self.sampled.n_rows <= plans.TABLE.first_samples[0] and not self.cut_after:
            return None
        return max(self.plan.seconds_of_exact(self.sampled), _LONGER * self.cut_after)

    def _bounded(self, trained: TrainedMachines) -> TrainedMachines:
        """Machines with the dual of an exact solve that was cut, where it is the better bound."""
        if self.cut is None:
            return trained
        records = trained.records
        cut = self.cut.records["dual_objective"]
        known = np.where(records["exact"], records["dual_objective"], records["estimated_dual"])
        is_better = ~records["exact"] & ~np.isnan(cut) & ~(known >= cut)
        new, kept = np.flatnonzero(is_better), np.flatnonzero(~is_better)
        if not len(new):
            return trained
        dual = np.where(is_better, cut, records["dual_objective"])
        given = self.cut.multipliers.take(new)
        multipliers = given.put_together(new, trained.multipliers.take(kept), kept)
        records = Records({**records.columns, "dual_objective": dual})
        return trained._replace(records=records, multipliers=multipliers)


class _Judged(NamedTuple):
    """A machine whose loss on all rows is known."""

    rows: NDArray
    coefs: Array  #: of w
    offsets: Offsets
    loss: float


class _OfSample:
    """A machine of a sample, as a machine of all rows."""

    def __init__(
        self, work: Work, problem: Problem, trained: TrainedMachines, number: int, record: Record
    ) -> None:
        self.work = work
        self.problem = problem
        self.record = record
        self.rows, self.decided = trained.decisions.one(number)
        self.intercept = float(trained.intercept[number])
        self.sample_multipliers = trained.multipliers.one(number)
        formulation, bounds = work.formulation, problem.bounds
        self.error, self.n_sampled = 0.0, record.n_rows
        self.own_loss: float | None = None  # by the rows of the sample, standing for all
        self.times = 1.0  # w and the offsets of nu forms grow with the costs
        scale = formulation.decision(record.offsets).scale
        if not record.n_rows:  # there was nothing to learn
            self.coefs = self.decided
            self.objective = 0.0
            return
        total = float(bounds.sum())
        ratio = total / record.total_cost
        offsets = record.offsets
        if formulation.is_homogeneous:
            self.times = ratio
            offsets = tuple(self.times * one for one in offsets)
        if record.loss is not None:
            self.own_loss = self.times * ratio * record.loss
        self.coefs = self.times * scale * self.decided
        decision = formulation.decision(offsets)
        if formulation.is_homogeneous:
            self.decided, self.intercept = self.coefs / decision.scale, float(decision.intercept)
        worst = worst_optimum(formulation, problem.targets, bounds)
        dual = None
        if record.dual_objective is not None:  # of the sample, its rows standing for all
            gain = record.dual_objective + 0.5 * record.squared_norm
            dual = float(formulation.dual_value(ratio * gain, ratio**2 * record.squared_norm))
        self.record = replace(
            record,
            exact=False,
            n_rows=len(problem.rows),
            n_vectors=len(self.rows),
            squared_norm=self.times**2 * record.squared_norm,
            rounding=0.0,
            loss=None,
            loss_reduced=None,
            total_cost=total,
            worst_optimum=worst,
            squared_norm_bound=formulation.squared_norm_bound(total, worst),
            offsets=offsets,
            dual_objective=None,
            estimated_dual=dual,
            violators=None,
            proof_rounding=0.0,
            proven=False,
        )

    def look(
        self, at: NDArray[np.intp], is_own: NDArray[np.bool_] | None, known: _Judged | None
    ) -> bool:
        """Compute the objective from the rows at some positions.

        False where there is no time for all rows. Some are always looked at: that takes little
        beside what the sample took.

        Parameters
        ----------
        at : ndarray
        is_own : ndarray of bool
            The rows that it was trained on, whose loss is known; None where ``at`` is all rows.
        known : _Judged
            Another machine. What it loses at these positions, and on all rows, tells how much
            worse these positions are than all.
        """
        record, formulation = self.record, self.work.formulation
        if not record.n_rows:
            return True
        judges = self.problem.take(at)
        losses = self._losses(judges, self.rows, self.coefs, record.offsets, is_own is None)
        if losses is None:
            return False
        groups, of_group = np.unique(self.problem.groups, return_inverse=True)
        costs = np.bincount(of_group, self.problem.bounds, len(groups))
        seen = np.bincount(of_group[at], judges.bounds, len(groups))
        bounds = judges.bounds * (costs / np.where(seen > 0.0, seen, 1.0))[of_group[at]]
        linear = formulation.slopes(record.total_cost)
        loss = float(bounds @ losses) + float(np.dot(linear, record.offsets))
        if is_own is None:
            self.objective = 0.5 * max(record.squared_norm, 0.0) + loss
            error = self._error(losses, bounds, self.n_sampled)  # the dual is that of the sample
            self.record = replace(record, loss=loss, loss_reduced=loss, estimated_error=error)
            return True
        if known is not None:
            others = self._losses(judges, known.rows, known.coefs, known.offsets)
            assert others is not None
            losses = losses - others
            loss += known.loss - float(bounds @ others) - float(np.dot(linear, known.offsets))
        share = 0.0
        if self.own_loss is not None:
            share = float(self.problem.bounds[is_own].sum()) / record.total_cost
            loss = share * self.own_loss + (1.0 - share) * loss
        self.objective = 0.5 * max(record.squared_norm, 0.0) + loss
        self.error = (1.0 - share) * self._error(losses, bounds, len(at))
        return True

    def _error(self, losses: Array, bounds: Array, n: int) -> float:
        """Of a loss on all rows that is estimated from n rows."""
        spread = np.sqrt(np.average(np.square(losses - np.mean(losses)), weights=bounds))
        return _ERRORS * float(spread) * self.record.total_cost / sqrt(max(n, 1))

    def _losses(
        self, judges: Problem, rows: NDArray, coefs: Array, offsets: Offsets, limited: bool = False
    ) -> Array | None:
        """What a machine loses at some rows; None where it is limited and there is no time."""
        scores = np.zeros(len(judges.rows))
        kernel = self.work.kernel.for_sums(judges.rows, coefs)
        step = max(1, int(_AT_ONCE / max(1, len(rows))))
        for first in range(0, len(scores), step):
            if limited and self.work.progress.is_over():
                return None
            part = slice(first, first + step)
            scores[part] = kernel.scores(rows, coefs, judges.rows[part], self.work.run)
        formulation = self.work.formulation
        return formulation.losses(formulation.positions(scores, judges.targets, offsets))

    def multipliers(self) -> tuple[NDArray, Array]:
        """Rows, and multipliers that are feasible for the dual of all rows."""
        rows, coefs = self.sample_multipliers
        if not self.record.n_rows:
            return rows, coefs
        problem = self.problem
        whole = np.zeros(len(problem.rows))
        whole[np.searchsorted(problem.rows, rows)] = self.times * coefs
        whole = self.work.formulation.feasible(whole, problem.targets, problem.bounds)
        held = np.flatnonzero(whole)
        return problem.rows[held].astype(np.int32), whole[held]


def n_judges(n_rows: int) -> int:
    """By how many other rows the machines of a sample are judged.

    Examples
    --------
    >>> from aesvm.machines.ladder import n_judges
    >>> n_judges(2000), n_judges(64_000)
    (4000, 8000)
    """
    return max(_LEAST_JUDGES, int(_JUDGES * n_rows))


def split(
    prepared: PreparedRows, ranks: NDArray[np.intp], n_rows: int
) -> tuple[PreparedRows, NDArray[np.intp]]:
    """A random sample of the rows, and others to judge its machines by.

    Groups have the shares that they have of all rows: small ones, of which more rows are taken, by
    their weights. A larger sample holds the smaller ones. Of a group that is in the sample as a
    whole, these rows are judged by, too.

    Parameters
    ----------
    prepared : PreparedRows
    ranks : ndarray
        A random order of all rows.
    n_rows : int

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.ladder import split
    >>> from aesvm.sets.derive import prepare
    >>> groups = np.repeat([0, 1], [90, 60])
    >>> prepared = prepare(np.arange(150.0)[:, None], groups, np.ones(150))
    >>> chosen, others = split(prepared, np.arange(150), 50)
    >>> [len(own) for own in chosen.groups], len(others), float(chosen.weights[:90].sum())
    ([30, 20], 100, 30.0)
    """
    n_all, weights = len(prepared.rows), np.zeros(len(prepared.weights))
    groups, others = [], []
    for own in prepared.groups:
        size = min(len(own), max(_LEAST_OF_GROUP, -(-n_rows * len(own) // n_all)))
        order = own[np.argsort(ranks[own])]
        groups.append(np.sort(order[:size]))
        n_looked_at = -(-n_judges(n_rows) * len(own) // n_all)
        others.append(order[size : size + n_looked_at] if size < len(own) else order[:n_looked_at])
        share = prepared.weights[own].sum() / prepared.weights[groups[-1]].sum()
        weights[groups[-1]] = share * prepared.weights[groups[-1]]
    rows = np.sort(np.concatenate(groups))
    weights *= prepared.weights[rows].sum() / weights[rows].sum()
    judges = np.sort(np.concatenate(others))
    return prepared._replace(rows=rows, weights=weights, groups=groups), judges
