"""A fit in the time that there is: ever better models, each of them whole.

    sample   the SVM of a random sample of the rows, class by class; then of larger ones
    exact    the exact SVM of all rows

``plan.Ladder`` says what is made next, by what the samples took: a sample that leaves time for
another, or all rows. The model is the best point on the line from the model so far to that of the
rung, ``(1 - t) (w, b) + t (w', b')``: F is convex along it. (With 32,000 of 100,000 rows of
covtype, flights and heart2020 it was 1.9, 2.1 and 4.7 % above the optimum; between two such models,
of different rows, 1.25, 1.4 and 3.2 %.)

All models are judged by the same random rows, which stand for all rows. What two of them differ by
there has a small error where they are alike. So what was cut short counts only where it is better
than what was there before. The w of a solve that was cut is the best multiple of the dual solution.
The dual of an exact solve that was cut bounds the optimum, whatever model is returned.

A sample is solved for to a relative duality gap (``gap_of_sample``) that is small beside what it is
above the optimum as a sample.

The w of a sample is its best multiple, with the best offset, by the rows that judge. (Of 8,000 of
50,000 rows that was 39 % above the optimum on hypercube, where the w of the sample itself was 52 %,
and 27 and 36 % on w8a. On covtype, flights and heart2020 it changed little.) So models of nu forms,
whose predictions do not depend on the length of w, are compared by the direction of w alone.

The SVM of n of N rows may have costs ``sqrt(N / n)`` times as large, if larger costs gave a small
sample a lower objective on all rows. (With the costs as they are, w is too short where there is
little noise: of 8,000 rows of covtype it was 13 % above the optimum, and 8 % with larger costs.
Where there is much noise it is too long already.)

There is no rung of few vectors. (Of 100,000 rows of heart2020, the SVM on 256 vectors was 4.3 %
above the optimum after half a second, and a sample 3.2 % after 0.6 s. Of 60,000 rows of two
generated regressions, 128 vectors took ten times as long as a sample that was better. Of 200,000
points of two moons, a large sample is 0.1 % above the optimum, and 128 vectors less.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import Step
from aesvm.certificate.records import Record, Records
from aesvm.certificate.text import duration
from aesvm.formulations.objective import Objective, arrays
from aesvm.formulations.protocol import Array, Formulation
from aesvm.machines import plan as plans
from aesvm.machines.fit import FitContext, every_row, train
from aesvm.machines.plan import Exact, Ladder, Rung, Sample, Sampled
from aesvm.machines.problem import Problem
from aesvm.machines.represent import Represented
from aesvm.machines.results import TrainedMachines
from aesvm.machines.samples import (
    Line,
    RowTotals,
    WholeMachine,
    as_whole,
    best_multiple,
    feasible,
    n_judges,
    sample,
    shuffled,
    sum_of,
    together,
)
from aesvm.machines.sharing import SharedWork
from aesvm.runtime.progress import Progress
from aesvm.sets.derive import PreparedRows

#: Costs of n of N rows are multiplied by a power of N / n: none, or ``_POWER``. Both are tried with
#: the second sample, whose power is half of that: its costs are then those that a sample of
#: ``sqrt(N n)`` rows has. (With the whole power, 2,000 of 200,000 rows of a regression were 1 %
#: better than with none, and 8,000 rows 3.5 %; with half of it 2,000 rows were 2 % better.)
_POWER = 0.5

#: The other costs are tried where there is time for this many such samples. (Where they always
#: were, a9a and moons had no time left after 0.1 s, and 2,000 rows in their model.)
_WORTH_A_TRIAL = 5.0

#: Kernel values that are computed between two looks at the clock.
_AT_ONCE = 1e8

#: The part of the time left that the end of a solve takes, where it is cut short: scores of rows
#: that were left out are brought up to date. (5 s were exceeded by 0.3 s, with 100,000 rows.)
_TO_END = 0.05

#: A solve that was cut short is expected to take this many times as long, at least.
_LONGER = 2.0

#: How many standard errors an estimate is given with.
_ERRORS = 2.0

#: The name of a machine that was not solved for to the end.
_CUT = "an exact SVM that was cut short"

#: What is said of a model without w. (Of a w that was cut short, the best multiple may be 0.)
_CONSTANT = ", which predicts a constant: w = 0 has the lowest objective of its multiples"

#: The share of the progress bar's rest that a rung takes.
_SHARES = {Sample: 0.05, Exact: 1.0}


class Reached(NamedTuple):
    """Where a fit in time has ended."""

    n_solved: int  #: rows that were solved for
    n_vectors: int | None = None  #: of the model; None where every machine is exact
    stopped_after: float | None = None  #: seconds; None where the exact SVM was reached
    exact_after: float | None = None  #: seconds that it is expected to take


class Made(NamedTuple):
    """The machines of a rung, as machines of all rows."""

    name: str
    trained: TrainedMachines
    n_sampled: NDArray[np.intp]  #: the rows that each was learned from
    scores: list[Array]  #: of each, at the rows that it is judged by
    objectives: Array  #: of each, where these rows stand for all; infinite without a w
    n_rows: int  #: of the largest sample, all machines together

    @property
    def objective(self) -> float:
        """Of all machines that have a w."""
        return float(self.objectives[np.isfinite(self.objectives)].sum())


def train_in_time(
    context: FitContext, prepared: PreparedRows, plan: Ladder
) -> tuple[Represented, TrainedMachines, Reached]:
    """Train every machine of rows in memory as well as the time allows."""
    trained, reached = _Climb(context, prepared, plan).run()
    return every_row(context, prepared), trained, reached


class _Climb:
    """The rungs of one fit, and the best machines so far."""

    def __init__(self, context: FitContext, prepared: PreparedRows, plan: Ladder) -> None:
        self.context = context
        self.prepared = prepared
        self.plan = plan
        self.progress = context.progress
        random = np.random.default_rng(0)
        self.samples, self.judging = shuffled(prepared, random), shuffled(prepared, random)
        self.totals = [RowTotals.of(context.formulation, problem) for problem in self._problems()]
        self.judges = _Judges([], 0)
        self.best: Made | None = None
        self.sampled = Sampled(0, 0.0)
        self.look = Look(0, 0.0)
        is_tried = not context.formulation.is_homogeneous
        self.powers = (0.0, 0.5 * _POWER) if is_tried else (0.0,)
        self.cut: TrainedMachines | None = None  # the exact SVMs, where they were cut short
        self.cut_after = 0.0  # seconds
        self.share_reached = 0.0  # of the squared rows of all of them: those of the exact ones
        self.steps: list[Step] = []
        gap = plans.TABLE.gap_of_sample if plan.facts.definite else None
        self.goal_of_sample = Exact("a sample", enough=gap)
        # made now, since rungs are timed: what kernel values in either precision take once
        context.kernel.in_sums(prepared.rows[:1], np.zeros(1))

    def run(self) -> tuple[TrainedMachines, Reached]:
        """Make rung after rung, as the plan says."""
        rung: Rung
        rung, *waiting = map(Sample, plans.TABLE.first_samples)
        while rung is not None:
            self.progress.say(f"in time: {rung}; {self._left():.2g} s left")
            with self.progress.share(_SHARES[type(rung)]) as progress:
                whole = self._make(rung, progress)
            if whole is not None:
                return whole, Reached(len(whole.solved))
            if isinstance(rung, Exact):
                break
            left = self._left()
            is_due = waiting and left > 0.0
            rung = waiting.pop(0) if is_due else self.plan.next(self.sampled, left)
        return self._stopped()

    def _make(self, rung: Sample | Exact, progress: Progress) -> TrainedMachines | None:
        """Take the machines of a rung where they are better; the exact ones, if reached."""
        if isinstance(rung, Exact):
            return self._exact(rung, progress)
        self._sample(rung, progress)
        return None

    def _left(self) -> float:
        return self.progress.seconds_left()

    def _problems(self) -> Iterator[Problem]:
        """All rows of each machine."""
        return self.context.data.problems(self.prepared.rows, self.prepared.weights)

    # --- the rungs

    def _exact(self, rung: Exact, progress: Progress) -> TrainedMachines | None:
        """The exact machines; None where they were cut short, and the better ones are kept."""
        assert self.best is not None
        before = self._left()
        part = progress.apart(_TO_END * before)
        context = replace(self.context, progress=part, every_machine=False)
        trained = train(context, every_row(context, self.prepared), rung)
        self.steps += trained.history
        objectives = trained.records.objectives
        is_whole = bool(trained.converged.all()) and not np.isnan(objectives).any()
        if is_whole or not part.ending.asked_by:  # it ended by itself: rounding, or max_iter
            return trained._replace(history=self.steps)
        self.cut, self.cut_after = trained, before - self._left()
        n_rows = trained.records["n_rows"]
        if trained.only is not None:
            self._take(self._judged(_CUT, trained, n_rows, self.best.n_rows, True))
        else:  # of several machines, those that were not cut are better
            made = self.best._replace(name="exact", trained=trained, n_sampled=n_rows)
            is_better = trained.converged & ~np.isnan(objectives)
            self.best = _put_together(self.best, made, is_better)
            squared_rows = np.array([float(own.n_rows) ** 2 for own in self.totals])
            self.share_reached = float(squared_rows[is_better].sum() / squared_rows.sum())
        return None

    def _sample(self, rung: Sample, progress: Progress) -> None:
        """Train a sample's machines; the second sample's with both costs, then with the better."""
        is_first = rung.n_rows < max(plans.TABLE.first_samples)
        found: list[tuple[Made, Sampled, float]] = []
        took = 0.0
        for power in self.powers[:1] if is_first else self.powers:
            before = self._left()
            if found and before < _WORTH_A_TRIAL * took:
                break
            found.append((*self._one_sample(rung, progress, power), power))
            took = before - self._left()
        made, sampled, power = min(found, key=lambda one: one[0].objective)
        if is_first:
            self.look = Look(0, 0.0)  # it may have loaded code
        elif len(self.powers) > 1:
            self.powers = (_POWER if power else 0.0,)
        n_used = self.sampled.n_used
        if rung.is_further:
            self.sampled = self.sampled.after_another(sampled)
        else:
            self.sampled = sampled._replace(n_used=max(n_used, sampled.n_rows))
        self._take(made)
        assert self.best is not None
        self.progress.say(f"in time: {self.best.name}, objective about {self.best.objective:.6g}")

    def _one_sample(self, rung: Sample, progress: Progress, power: float) -> tuple[Made, Sampled]:
        before, n_all = self._left(), len(self.prepared.rows)
        first = self.sampled.n_used if rung.is_further else 0
        chosen = sample(self.samples, rung.n_rows, first)
        n_rows = len(chosen.rows)
        times = (n_all / n_rows) ** power
        weighted = chosen._replace(weights=times * chosen.weights)
        # the fit does not report what is cut short here, nor keep its solutions for other fits
        part = progress.apart(_TO_END * before + self._to_look(rung))
        context = replace(self.context, progress=part, shared=SharedWork(in_search=True))
        trained = train(context, every_row(context, weighted), self.goal_of_sample)
        seconds = max(before - self._left(), 0.0)
        self.steps += trained.history
        n_sampled = trained.records["n_rows"]
        if not rung.is_further:
            self._more_judges(n_rows)
        made = self._judged(
            f"the SVM of a sample of {n_rows:,} rows",
            self._of_all(trained, times),
            n_sampled,
            n_rows,
        )
        return made, Sampled(n_rows, seconds, self.sampled[:2])

    def _of_all(self, trained: TrainedMachines, times: float) -> TrainedMachines:
        """The machines of a sample as machines of all rows."""
        each = zip(self.totals, trained.records, strict=True)
        found = [
            as_whole(
                self.context.formulation, totals, WholeMachine.one(trained, number, record), times
            )
            for number, (totals, record) in enumerate(each)
        ]
        return together(found, trained)._replace(history=())

    # --- which machines are better

    def _to_look(self, rung: Sample) -> float:
        """The seconds that looks by the machines of a sample are expected to take.

        They look at the rows that all are judged by, and at the vectors of the best machines.
        """
        if self.best is None or not self.look.n_values:
            return 0.0
        more = rung.n_rows / self.sampled.n_rows
        n_looked_at = max(1.0, more) * self.judges.n_rows + len(self.best.trained.decisions.rows)
        return self.look.seconds * more * n_looked_at / self.judges.n_rows

    def _more_judges(self, n_rows: int) -> None:
        """Judge by as many rows as a sample of this size needs, if these are more than so far."""
        n_more = min(n_judges(n_rows), len(self.prepared.rows))
        if n_more <= self.judges.n_wanted:
            return
        weights = sample(self.judging, n_more).weights
        found = [_judge(self.context.formulation, problem, weights) for problem in self._problems()]
        self.judges = _Judges(found, n_more)
        if self.best is not None:
            best = self.best
            self.best = self._judged(best.name, best.trained, best.n_sampled, best.n_rows)

    def _judged(
        self,
        name: str,
        trained: TrainedMachines,
        n_sampled: NDArray,
        n_rows: int,
        scores_known: bool = False,
    ) -> Made:
        """Machines with their objectives, by the rows that all are judged by.

        ``scores_known``: whether all rows were trained on, so that scores are known. Others get the
        best multiples of their w.
        """
        before, n_values = self._left(), 0
        found, scores = [], []
        objectives = np.zeros(len(self.judges.each))
        each = zip(self.judges.each, trained.records, strict=True)
        for number, ((rows, objective), record) in enumerate(each):
            one = WholeMachine.one(trained, number, record)
            if not record.n_rows:  # there was nothing to learn, in a sample at least
                found.append(one)
                scores.append(np.zeros(len(rows)))
                objectives[number] = np.inf
                continue
            own = self._scores_by(trained, number, record, rows, scores_known)
            if not scores_known:
                n_values += len(one.decided[0]) * len(rows)
                one, own = best_multiple(self.context.formulation, objective, one, own)
            found.append(one)
            scores.append(own)
            loss = objective.loss(own, arrays(one.record.offsets))
            objectives[number] = 0.5 * max(one.record.squared_norm, 0.0) + float(loss[0])
        self.look = Look(n_values, max(before - self._left(), 0.0)) if n_values else self.look
        return Made(name, together(found, trained), n_sampled, scores, objectives, n_rows)

    def _take(self, made: Made) -> None:
        """The best machines on the lines from those so far to others; those so far if no better."""
        if self.best is not None:
            made = self._between(self.best, made)
            made = _put_together(self.best, made, made.objectives < self.best.objectives)
        self.best = made

    def _between(self, best: Made, made: Made) -> Made:
        """The best machines on the lines from those so far to others.

        F is convex along them. Where neither end is much better, the best point is between them.
        """
        found: list[WholeMachine] = []
        scores, objectives, is_mean = [], made.objectives.copy(), False
        n_sampled = made.n_sampled.copy()
        ends = list(zip(best.trained.records, made.trained.records, strict=True))
        for number, (old, new) in enumerate(ends):
            if not (old.n_rows and new.n_rows):
                found.append(WholeMachine.one(made.trained, number, new))
                scores.append(made.scores[number])
                continue
            rows, coefs = self._w(best.trained, number, old)
            product = float(coefs @ self._scores_by(made.trained, number, new, rows, new.exact))
            line = Line(
                self.judges.each[number].objective,
                (old.squared_norm, product, new.squared_norm),
                (old.offsets, new.offsets),
                (best.scores[number], made.scores[number]),
            )
            t = line.lowest()
            is_mean = is_mean or t < 1.0
            objectives[number] = line.value(t)
            scores.append(line.scores(t))
            if t == 1.0:
                found.append(WholeMachine.one(made.trained, number, new))
                continue
            # an exact one was cut: its dual counts, whatever becomes of its w
            is_new = made.n_sampled[number] >= best.n_sampled[number] and not new.exact
            n_sampled[number] = (made if is_new else best).n_sampled[number]
            record = replace(
                new if is_new else old,
                squared_norm=line.squared_norm(t),
                offsets=line.offsets(t),
                loss=None,
            )
            shares, decision = (1.0 - t, t), self.context.formulation.decision(line.offsets(t))
            others, their = self._w(made.trained, number, new)
            vectors, w = sum_of(shares, (rows, others), (coefs, their))
            record = replace(record, n_vectors=len(vectors))
            lifted = [one.trained.multipliers.one(number) for one in (best, made)]
            multipliers = sum_of(shares, *zip(*lifted, strict=True))
            decided = vectors, w / decision.scale
            found.append(WholeMachine(record, decided, float(decision.intercept), multipliers))
        trained = together(found, made.trained)
        trained = trained._replace(solved=np.union1d(best.trained.solved, trained.solved))
        name, n_rows = made.name, made.n_rows
        if is_mean:
            n_rows = max(best.n_rows, n_rows)
            name = f"a mean of SVMs of samples, the largest of {n_rows:,} rows"
        return Made(name, trained, n_sampled, scores, objectives, n_rows)

    def _scores_by(
        self,
        trained: TrainedMachines,
        number: int,
        record: Record,
        rows: NDArray,
        scores_known: bool,
    ) -> Array:
        """``<w, phi(x)>`` of rows; ``scores_known``: trained on all rows."""
        if scores_known and trained.only is not None:
            return trained.only.scores[np.searchsorted(trained.only.set.rows, rows)]
        return self._scores(*self._w(trained, number, record), rows)

    def _w(
        self, trained: TrainedMachines, number: int, record: Record
    ) -> tuple[NDArray[np.intp], Array]:
        """The vectors of a machine and their coefficients in w."""
        rows, decided = trained.decisions.one(number)
        return rows, self.context.formulation.decision(record.offsets).scale * decided

    def _scores(
        self, vectors: NDArray, coefs: Array, rows: NDArray, until_over: bool = False
    ) -> Array:
        """``<w, phi(x)>`` of rows; ``until_over``: NaN where there is no time for them."""
        scores = np.full(len(rows), np.nan)
        kernel = self.context.kernel.for_sums(rows, coefs)
        step = max(1, int(_AT_ONCE / max(1, len(vectors))))
        for first in range(0, len(rows), step):
            if until_over and self.progress.is_over():
                break
            part = slice(first, first + step)
            scores[part] = kernel.scores(vectors, coefs, rows[part], self.context.run)
        return scores

    # --- the end

    def _stopped(self) -> tuple[TrainedMachines, Reached]:
        """The best machines, where the exact ones were not reached."""
        assert self.best is not None
        best = self.best
        trained = self._seen(best)
        seconds = self._seconds_of_exact()
        if seconds is not None and seconds <= self.plan.facts.seconds - self._left():
            seconds = None  # it was expected sooner, and not reached
        takes = "" if seconds is None else f"the exact SVM takes {duration(seconds)}, and "
        constant = "" if trained.records["squared_norm"].any() else _CONSTANT
        self.progress.end_by_plan(f"{takes}the model is {best.name}{constant}")
        trained = self._bounded(trained)._replace(history=self.steps)
        n_vectors = None
        if not trained.records["exact"].all():
            n_vectors = len(np.unique(trained.decisions.rows))
        elapsed = time.perf_counter() - self.progress.started
        return trained, Reached(len(trained.solved), n_vectors, elapsed, seconds)

    def _seen(self, best: Made) -> TrainedMachines:
        """The machines with objectives on all rows, or estimated by the rows that judge.

        Where there is time, all rows are looked at. Multipliers are made feasible.
        """
        trained, formulation = best.trained, self.context.formulation
        sizes = zip(self.totals, trained.decisions.sizes, strict=True)
        n_values = sum(totals.n_rows * size for totals, size in sizes)
        is_time = bool(self.look.n_values) and n_values * self.look.each <= self._left()
        found = []
        each = zip(self._problems(), trained.records, strict=True)
        for number, (problem, record) in enumerate(each):
            one = WholeMachine.one(trained, number, record)
            if not record.n_rows or record.loss is not None:
                found.append(one)
                continue
            objective, scores = self.judges.each[number].objective, best.scores[number]
            if is_time:
                vectors, coefs = self._w(trained, number, record)
                all_scores = self._scores(vectors, coefs, problem.rows, until_over=True)
                is_time = not np.isnan(all_scores).any()
            if is_time:
                objective = Objective(formulation, problem.targets, problem.bounds)
                scores = all_scores
            offsets = arrays(record.offsets)
            loss = float(objective.loss(scores, offsets)[0])
            losses = formulation.losses(objective.positions(scores, offsets))
            spread = np.sqrt(np.average((losses - losses.mean()) ** 2, weights=objective.bounds))
            # the dual is that of a sample
            shares = 1.0 / best.n_sampled[number] + (0.0 if is_time else 1.0 / len(scores))
            error = _ERRORS * float(spread) * record.total_cost * sqrt(shares)
            known = loss if is_time else None
            record = replace(
                record,
                loss=known,
                loss_reduced=known,
                estimated_loss=loss,
                estimated_error=error,
            )
            found.append(feasible(formulation, problem, one._replace(record=record)))
        return together(found, trained)

    def _seconds_of_exact(self) -> float | None:
        """What the exact SVM is expected to take: longer than it was tried for, if it was cut.

        Of several machines, those that were reached tell. None where samples do not tell: they are
        far smaller, or there was only the first, which takes what a fit takes once, such as
        compiling.
        """
        if self.share_reached:
            return self.cut_after / self.share_reached
        n_rows, n_first = self.sampled.n_rows, plans.TABLE.first_samples[0]
        is_known = n_rows > n_first and self.plan.facts.n_rows <= plans.TABLE.far * n_rows
        expected = self.plan.seconds_of_exact(self.sampled) if is_known else 0.0
        return max(expected, _LONGER * self.cut_after) or None

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


class Look(NamedTuple):
    """The kernel values and the seconds that the last look at rows took."""

    n_values: int
    seconds: float

    @property
    def each(self) -> float:
        return self.seconds / max(self.n_values, 1)


class _Judge(NamedTuple):
    """Rows that a machine is judged by, and its objective where they stand for all."""

    rows: NDArray[np.intp]
    objective: Objective


class _Judges(NamedTuple):
    """The judging rows of all machines."""

    each: list[_Judge]
    n_wanted: int

    @property
    def n_rows(self) -> int:
        return sum(len(one.rows) for one in self.each)


def _judge(formulation: Formulation, problem: Problem, weights: Array) -> _Judge:
    """The rows of a machine that have weights in a sample, or all.

    Each group has the costs of all its rows.
    """
    chosen = weights[problem.rows]
    chosen = chosen if chosen.any() else problem.weights
    at = np.flatnonzero(chosen)
    judges = problem.take(at)._replace(weights=chosen[at])
    groups, of_group = np.unique(problem.groups, return_inverse=True)
    costs = np.bincount(of_group, problem.bounds, len(groups))
    seen = np.bincount(of_group[at], judges.bounds, len(groups))
    bounds = judges.bounds * (costs / np.where(seen > 0.0, seen, 1.0))[of_group[at]]
    return _Judge(judges.rows, Objective(formulation, judges.targets, bounds))


def _put_together(best: Made, made: Made, is_better: NDArray[np.bool_]) -> Made:
    """Of each machine the better one."""
    new, kept = np.flatnonzero(is_better), np.flatnonzero(~is_better)
    if not len(new):
        return best
    if not len(kept):
        return made
    trained = made.trained.take(new).put_together(new, best.trained.take(kept), kept)
    scores = [(made if better else best).scores[k] for k, better in enumerate(is_better)]
    objectives = np.where(is_better, made.objectives, best.objectives)
    n_sampled = np.where(is_better, made.n_sampled, best.n_sampled)
    n_exact, n_rows = np.count_nonzero(trained.records["exact"]), max(best.n_rows, made.n_rows)
    name = "a mean of SVMs of samples"
    if n_exact:
        name = f"{n_exact:,} exact SVMs and others of samples"
    name += f", the largest of {n_rows:,} rows"
    return Made(name, trained, n_sampled, scores, objectives, n_rows)
