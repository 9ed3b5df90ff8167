"""What a fit does: the one place where ``refine="auto"`` is decided.

A plan is a value, one of four:

    Exact   solve for all rows;
    Rounds  solve for representatives (the paper's AESVM), then refine by rounds (``rounds``);
    Span    solve for all rows with w in the span of few vectors (``bases``);
    Ladder  make ever better models while the time lasts (``ladder``).

It depends on counts alone (``Facts``, and a ``Survey`` of a sample), so that the same
data gets the same plan on every machine. The unit is the kernel value. An exact SVM computes about
twice rows times support vectors of them. With "auto", for rows in memory:

1. the exact SVM, where rows times support vectors are at most the device's ``exact``. Rows times
   rows are a bound on it. Where that is too large, a pilot tells how many support vectors to
   expect: the exact SVM of a sample of the rows;
2. else the span of few vectors, where few carry the pilot's w, and take less time;
3. else rounds, where a first set that keeps few rows would make them faster than the exact SVM;
4. else the exact SVM.

Rows that are not in memory cannot be solved for at once: "auto" makes rounds while they pay.

A fit to rows in memory that has a time limit, and is to be as exact as that allows ("auto" or
"exact"), climbs a ladder: the SVM of a small sample, of larger ones, and the exact SVM, or SVMs of
further rows in the time that is left. How large they are follows from the time that the samples
before took. (That depends on the machine, as a limit does.) Of very many pairs of classes, the
exact SVMs follow the second sample; where the pairs are small, there are no samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from sys import maxsize
from typing import NamedTuple, Protocol

import numpy as np

from aesvm.certificate.text import EXACT_GAP, in_digits
from aesvm.runtime.warn import ParameterError
from aesvm.sets.derive import ReductionSettings

#: How much coarser than ``hull_tol`` rows are represented before a position is known, and later
#: where the loss is zero.
COARSER = 10.0


class Limits(NamedTuple):
    """What "auto" may spend on a kind of device, in rows times support vectors."""

    #: The exact SVM. (2e10 take some 30 s on two cores, 2e12 some 20 s on an H200. Of 100,000 rows
    #: with 44,548 support vectors an approximation took 32 s on 16 threads, the exact SVM 8.3 s.)
    exact: float
    #: The first round, which looks at all rows: some minutes.
    first_round: float
    #: The exact SVM of one machine, on average, below which a span is not considered. Each machine
    #: in a span takes some tenths of a second, however few rows it has. (Ten classes of 100,000
    #: rows, 2e8 each, took twice as long in a span as exactly; four classes, 9e8 each, 1.3 times.)
    machine_in_span: float


#: By kind of device. An H200 computes some hundred times as many kernel values a second as two
#: cores do.
LIMITS = {"cpu": Limits(2e10, 3e11, 1e9), "cuda": Limits(2e12, 3e13, 1e11)}


class _Table(NamedTuple):
    """The other numbers of "auto", each with the measurement that it comes from."""

    #: Rounds are made where they take less than this fraction of the exact SVM. What is expected
    #: of them was within a fifth of what they took on covtype, ijcnn1 and generated noise.
    worth: float = 0.8
    #: A round that changes a smaller fraction of predictions is the last; so is one that changes
    #: over ``falls`` times as many as the one before. On covtype and ijcnn1 the next round then
    #: changed about as many as two orders of the same rows do.
    changes: float = 1e-3
    falls: float = 0.5
    #: Kernel values that an exact solve computes for each row and support vector: 1.1 to 1.9 where
    #: few support vectors are free, more where many are.
    exact_values: float = 2.0
    #: Reducing a subset is worth ``reduce + reduce_kept f`` times its kernel values, where it keeps
    #: a fraction f. That was measured with 54 features; the products of 20 features take as long as
    #: the exponential and the sums of a kernel value.
    reduce: float = 1.0
    reduce_kept: float = 8.0
    features: float = 54.0
    other_work: float = 20.0
    #: The fraction of rows within the band of the first round: 40 % or somewhat more on covtype,
    #: ijcnn1, a9a and generated noise. An SVM has scores about 1 and -1 at many rows.
    band: float = 0.4
    #: How many times as many rows a set keeps at ``hull_tol`` as one that is ten times as coarse:
    #: about three on the same data.
    finer_keeps: float = 3.0
    #: A span is considered where there are this many times the rows of a pilot.
    pilots: float = 2.0
    #: The most vectors that may carry a pilot. The basis may become twice as large.
    span_vectors: int = 2000
    #: What these may leave of the pilot's w: this fraction of the pilot's objective, and at most
    #: ``left_of_norm`` of its squared norm. With r for what is left, the dual of the SVM in their
    #: span is larger by ``1/2 |r|^2`` at the pilot's multipliers. (Generated noise with 3 to 50
    #: features left 0.03 % at most, covtype 0.1 %, flights 0.4 %; covtype at C=16, gamma=4, which
    #: few vectors do not carry, 8 %.) The choice ends early where ``hopeless`` times as much would
    #: be left.
    left: float = 0.01
    left_of_norm: float = 0.25
    hopeless: float = 3.0
    #: A span pays where the square of the vectors that carry a pilot is at most this many times the
    #: support vectors of the exact SVM: its Hessians take the square of the vectors for each row.
    #: (A thousand vectors took as long as 10,000 to 15,000 support vectors.)
    span_pays: float = 20.0
    #: The least number of vectors of a basis.
    least_vectors: int = 128
    #: Rows of the pilots of all machines together: they take at most a fiftieth of what the exact
    #: SVM may take. Each machine has ``pilot_least`` of them at least. Of more machines than
    #: ``pilot_machines``, the pairs of ten classes, a random choice stands for all.
    pilot_rows: int = 20_000
    pilot_least: int = 1000
    pilot_machines: int = 45
    #: Of several machines, samples are trained where a machine has over this many rows, on average:
    #: smaller pairs of classes are trained many at a time (``small_pairs``), and a sample of them
    #: takes about as long. (40 classes of 60,000 rows: 0.9 s for the samples, and for the exact
    #: SVMs. Of 150,000 rows: 1.1 and 13 s. usps, ten classes: 0.4 s and 0.3 s.)
    rows_of_small_pairs: int = 3072
    #: How much of the fall in the fraction of support vectors goes on as the rows double. (From an
    #: eighth or a twelfth of the rows of 28 fits it was 0.78 to 1.37 times as many as there were;
    #: with half of the fall 0.84 to 1.5 times, with all of it 0.72 to 1.25 times.)
    falls_on: float = 0.75
    #: A pilot chooses no more vectors where those that it has leave this fraction of its squared
    #: norm. (On covtype 1,250 vectors leave 1 %; from there on the SVM of all rows wants others
    #: than the pilot does.)
    carries: float = 0.01
    #: The relative duality gap that ``refine="exact"`` solves to. It is a tenth below what is
    #: called exact (``EXACT_GAP``), which leaves room for the rounding that a proof counts.
    duality_tol: float = 0.9 * EXACT_GAP
    #: Vectors are added to the pilot's while more than this fraction of ``max_vectors`` is free.
    #: It trades vectors for time: however few are added, all rows are solved for once more.
    least_added: float = 0.1
    #: They are added while that lowers the objective by over this fraction of ``gap_tol``.
    #: It trades accuracy for time: ten times the gain that is forgone is the gap that is accepted.
    settled: float = 0.1
    #: An exact solve ends at a gap of ``gap_tol`` where that is larger than this, its default.
    usual_gap: float = 1e-3
    #: They are added while a pursuit finds this fraction of the vectors it was asked for. A
    #: pursuit that finds fewer has candidates in the span already: more of them gain little.
    exhausted: float = 0.5
    #: Where no pilot was asked, for progress alone: the fraction of rows that are support vectors,
    #: and that a first set keeps. On the paper's datasets they were 2 to 60 %, and 1 to 40 %.
    support_share: float = 0.3
    kept: float = 0.1
    #: Rows of the first two samples of a ladder, which are made in any case (the first takes what a
    #: fit takes once, the second is measured), and how many times as many the next one has.
    first_samples: tuple[int, int] = 500, 2000
    larger_sample: int = 4
    #: The relative duality gap to which the SVM of a sample is solved for. (Of 8,000 rows of
    #: covtype, heart2020 and flights that took 1, 0.6 and 0.7 times as long as to ``tol``. The
    #: objective on all rows was the same to 0.05 %. At 0.01 it was 0.2 % larger.) To ``tol`` it
    #: takes ``exact_takes`` times as long.
    gap_of_sample: float = 0.005
    exact_takes: float = 1.4
    #: The SVM of n times a sample's rows takes n to this power times as long. (From 8,000 to 32,000
    #: rows, that was 1.5 on covtype, flights and a generated regression, and 1.9 on heart2020; from
    #: there to 100,000 it was 1.75 to 1.8. To measure it on small samples is too uncertain. With
    #: 1.65, the last sample of covtype was cut after 4.4 s, and of no use.)
    power: float = 1.8
    #: The exact SVM is begun if a sample of all rows should take this fraction of the time left.
    #: The largest sample is chosen to take ``largest`` of it: a solve may take twice as long as
    #: expected. (In eight cases, each with three orders of the rows, 0.8 was as good in the mean.
    #: But covtype was 10.5 % above the optimum after 1 s where the last sample was cut, and 3.8 %
    #: with 0.5. Without noise, as on mnist, one large sample is better.)
    fills: float = 0.8
    largest: float = 0.5
    #: A larger sample follows if it has this many times the rows of the one before. Where the
    #: largest one would have over ``far`` times as many, a sample between tells how long it takes;
    #: it is not needed if there is time for ``amply`` times the rows that there are.
    worth_a_sample: float = 1.1
    far: float = 6.0
    amply: float = 2.0
    #: In the time that is left then, another sample of other rows is trained, if it has this
    #: fraction of the rows of the last one. (A sample as large removed a third of the excess over
    #: the optimum on covtype, heart2020 and flights, and one a quarter as large 1 to 5 %.)
    worth_another: float = 0.5
    #: Reducing is given up where ``n_probes`` subsets, spread over all rows, keep more than this
    #: fraction of theirs: a set of nine tenths of the rows saves a fifth of a solve at most. More
    #: probes are surer, and take longer where there is little to gain.
    most_kept: float = 0.9
    n_probes: int = 8


TABLE = _Table()

_DEFAULTS = ReductionSettings(1e-3, 1000, 100_000, "distance", TABLE.most_kept, TABLE.n_probes)

#: The number of rows that progress bars assume while it is unknown. They hardly depend on it.
_NOMINAL_ROWS = 100_000


@dataclass(frozen=True)
class Facts:
    """The counts that a plan is made from, and what the user has set."""

    n_rows: int  #: distinct rows of non-zero weight
    n_machines: int = 1
    squared_rows: float = inf  #: the squared numbers of rows of all machines, added up
    n_features: float = TABLE.features  #: of a row, other than zero
    device: str = "cpu"  #: "cpu" or "cuda"
    kernel: str = "the kernel"  #: by the parameters that name it, for errors
    definite: bool = True  #: whether the kernel is positive semidefinite
    in_memory: bool = True  #: whether all rows are here
    asked_again: bool = True  #: whether rows that are elsewhere can be asked again
    refine: int | str = "auto"
    settings: ReductionSettings = _DEFAULTS
    max_vectors: int | None = None
    gap_tol: float = 1e-3
    most_bytes: float | None = None  #: of kernel values that a span may hold
    seconds: float = inf  #: that are left of a time limit


class Expected(NamedTuple):
    """What a pilot predicts of the exact SVMs."""

    n_rows: float  #: of all machines, added up
    n_support: float  #: support vectors of one machine, the mean over rows of all machines

    @property
    def values(self) -> float:
        """Rows times support vectors, of all machines."""
        return self.n_rows * self.n_support


class Survey(Protocol):
    """What pilots predict. They are exact SVMs of a sample, trained when first asked for."""

    def expected(self) -> Expected:
        """What the exact SVMs take, by the pilots."""

    def norm_share(self) -> float:
        """``1/2 |w|^2`` as a fraction of the objective, of the pilots."""

    def carried(self, most_vectors: int, most_left: float) -> tuple[int, float]:
        """How many vectors carry the pilots, and the fraction of squared norms that they leave.

        The choice ends early where it is clear that more than ``most_left`` would be left.
        """


@dataclass(frozen=True)
class Exact:
    """Solve for all rows."""

    reason: str
    support_share: float | None = None  #: of the rows, expected; None where nothing tells
    duality_tol: float | None = None  #: the relative duality gap that is solved to besides ``tol``
    enough: float | None = None  #: the relative duality gap at which it ends, if larger than usual
    #: Kernel values of a solve, expected, over the square of its rows; None where nothing tells.
    values_share: float | None = None

    def __str__(self) -> str:
        if self.enough is not None:
            return f"exact, to a relative duality gap of {self.enough:g} ({self.reason})"
        return f"exact ({self.reason})"


@dataclass(frozen=True)
class Rounds:
    """Solve for representatives of the rows, then refine by rounds."""

    reason: str
    settings: ReductionSettings  #: of the first set
    most: int | None  #: rounds, at most; None: as long as they pay ("auto")
    phases: Phases  #: what its parts are expected to take
    limits: Limits = LIMITS["cpu"]
    support_share: float | None = None

    def __str__(self) -> str:
        if self.most == 0:
            return f"approximate: representatives only ({self.reason})"
        rounds = f"{self.most} round{'s' * (self.most != 1)}"
        if self.most is None:
            rounds = "rounds while they pay"
        return f"approximate: representatives, then {rounds} ({self.reason})"

    def of_machine(self, share: float) -> Rounds:
        """For one of several machines: its part of what may be spent."""
        return replace(self, limits=Limits(*(share * limit for limit in self.limits)))

    @property
    def n_expected(self) -> int:
        """Rounds that progress expects."""
        return 1 if self.most is None else self.most

    @property
    def shares(self) -> Phases:
        """What each part is of all parts after the first set, for progress."""
        rest = max(self.phases.whole(self.n_expected) - self.phases.reduce, 1.0)
        return Phases(*(values / rest for values in self.phases))

    # "auto", once work has shown more than the pilot did. Costs are rows times support vectors;
    # for rounds that were made, kernel values.

    def affords_first(self, cost: float) -> bool:
        """Whether a first round is made, where it looks at this many rows times support vectors."""
        return self.most is not None or cost <= self.limits.first_round

    def affords_exact(self, cost: float) -> bool:
        """Whether the exact SVM is solved for instead, since it has become affordable."""
        return self.most is None and cost <= self.limits.exact

    def gains_little(self, cost: float, exact: float) -> bool:
        """Whether the exact SVM is solved for, since a round would take about as long."""
        reachable = exact <= self.limits.first_round
        return self.most is None and reachable and TABLE.worth * exact < cost

    def affords_next(self, cost: float, spent: float) -> bool:
        """Whether another round is made, by the kernel values of it and of those so far."""
        return self.most is not None or cost + spent <= self.limits.exact

    def is_settled(self, changed: float, before: float) -> bool:
        """Whether the fraction of predictions that a round changed says that it is the last."""
        few = changed <= TABLE.changes or changed > TABLE.falls * before
        return self.most is None and few

    def ends_after(self, n_worse: int) -> bool:
        """Whether rounds end after some in a row that did not lower the objective."""
        return n_worse >= (1 if self.most is None else 2)


@dataclass(frozen=True)
class Span:
    """Solve for all rows with w in the span of few vectors."""

    reason: str
    max_vectors: int
    gap_tol: float  #: no vectors are added where the relative gap is estimated to be smaller
    most_bytes: float | None = None  #: of kernel values that are held
    settles: bool = False  #: whether it ends as soon as more vectors gain little ("auto")

    def __str__(self) -> str:
        return f"approximate: all rows, on at most {self.max_vectors:,} vectors ({self.reason})"


@dataclass(frozen=True)
class Sample:
    """A rung of a ladder: the SVM of a random sample of the rows."""

    n_rows: int
    is_further: bool = False  #: of other rows, to improve the model of the samples before

    def __str__(self) -> str:
        return f"the SVM of {self.n_rows:,} {'other ' * self.is_further}rows"


class Sampled(NamedTuple):
    """What the largest sample of a ladder was, and took."""

    n_rows: int
    seconds: float  #: that its solves took
    before: tuple[int, float] = (0, 0.0)  #: rows and seconds of the sample before it
    n_used: int = 0  #: different rows that samples had so far

    @property
    def own_seconds(self) -> float:
        """Without what solves of any size take."""
        n_before, seconds = self.before
        more = self.seconds - seconds
        if more <= 0.0:
            return max(self.seconds, 1e-9)
        part = (n_before / self.n_rows) ** TABLE.power
        # on a busy machine a sample may take several times as long as the one before suggests
        return min(more / (1.0 - part), seconds / part if part else inf)

    def after_another(self, other: Sampled) -> Sampled:
        """With another sample, which may have taken less for its size: it was disturbed less."""
        seconds = other.seconds * (self.n_rows / other.n_rows) ** TABLE.power
        n_used = self.n_used + other.n_rows
        return self._replace(seconds=min(self.seconds, seconds), n_used=n_used)

    def seconds_of(self, n_rows: float) -> float:
        """The seconds that the SVM of ``n_rows`` rows is expected to take."""
        return self.own_seconds * (n_rows / self.n_rows) ** TABLE.power

    def n_rows_in(self, seconds: float) -> int:
        """How many rows it may have, to end in time."""
        times = (max(seconds, 0.0) / self.own_seconds) ** (1.0 / TABLE.power)
        return int(min(self.n_rows * times, maxsize))


#: What is made next on a ladder; None: nothing more.
Rung = Sample | Exact | None


@dataclass(frozen=True)
class Ladder:
    """Make ever better models while the time lasts, and at last the exact SVM.

    Examples
    --------
    >>> from aesvm.machines.plan import Facts, Sampled, plan
    >>> ladder = plan(Facts(n_rows=100_000, squared_rows=1e10, seconds=10.0))
    >>> print(ladder)
    the best SVM in 10 s (auto): samples, the exact SVM
    >>> print(ladder.next(Sampled(1000, seconds=0.01), left=9.9))
    the SVM of 4,000 rows
    >>> print(ladder.next(Sampled(4000, seconds=0.1), left=1.0))
    the SVM of 9,780 rows
    >>> print(ladder.next(Sampled(20_000, seconds=0.3), left=9.7))
    exact (auto, in time)
    """

    reason: str
    facts: Facts
    goal: Exact

    def __str__(self) -> str:
        within = in_digits(max(self.facts.seconds, 0.0))
        return f"the best SVM in {within} ({self.reason}): samples, the exact SVM"

    def seconds_of_exact(self, made: Sampled) -> float:
        """What the exact SVM of all rows is expected to take."""
        more = TABLE.exact_takes if self.facts.definite else 1.0
        return more * made.seconds_of(self.facts.n_rows)

    def next(self, made: Sampled, left: float) -> Rung:
        """What is made next; nothing follows the exact SVM.

        Parameters
        ----------
        made : Sampled
            The largest sample.
        left : float
            Seconds.
        """
        if left <= 0.0:
            return None
        if self.facts.n_machines > TABLE.pilot_machines:
            return self.goal  # small samples do not tell what many pairs of classes take
        n_all, n_far = self.facts.n_rows, TABLE.far * made.n_rows
        if n_all <= n_far:
            is_in_time = made.n_rows_in(TABLE.fills * left) >= n_all
        else:
            # so far ahead, overhead is not subtracted: the difference of two short times is too
            # uncertain
            with_overhead = made._replace(before=(0, 0.0))
            is_in_time = with_overhead.n_rows_in(TABLE.fills * left) >= TABLE.amply * n_all
        if is_in_time:
            return self.goal
        n_rows = min(made.n_rows_in(TABLE.largest * left), n_all)
        if n_rows > n_far:
            larger = TABLE.larger_sample
            return Sample(min(larger * made.n_rows, n_rows // larger))
        if n_rows >= TABLE.worth_a_sample * made.n_rows:
            return Sample(n_rows)
        n_further = min(made.n_rows_in(TABLE.fills * left), n_all - made.n_used, made.n_rows)
        if n_further >= TABLE.worth_another * made.n_rows:
            return Sample(n_further, is_further=True)
        # of several machines, those that are reached are exact
        return self.goal if self.facts.n_machines > 1 else None


Plan = Exact | Rounds | Span | Ladder


def plan(facts: Facts, survey: Survey | None = None) -> Plan:
    """What is done with some rows; ``survey`` is asked by "auto" alone.

    Examples
    --------
    >>> from aesvm.machines.plan import Facts, plan
    >>> print(plan(Facts(n_rows=30_000, squared_rows=9e8)))
    exact (auto: at most 9e+08 rows x support vectors, limit 2e+10)
    >>> print(plan(Facts(n_rows=30_000, refine=2)))
    approximate: representatives, then 2 rounds (refine=2)
    """
    check(facts)
    found = _plan(facts, survey)
    if facts.refine != "auto" or not facts.definite or facts.gap_tol <= TABLE.usual_gap:
        return found
    if isinstance(found, Ladder):
        return replace(found, goal=replace(found.goal, enough=facts.gap_tol))
    return replace(found, enough=facts.gap_tol) if isinstance(found, Exact) else found


def _plan(facts: Facts, survey: Survey | None) -> Plan:
    refine, settings = facts.refine, facts.settings
    if facts.max_vectors is not None:
        reason = f"max_vectors={facts.max_vectors}"
        return Span(reason, facts.max_vectors, facts.gap_tol, facts.most_bytes)
    if facts.in_memory:
        climbs = facts.seconds < inf and not _are_small_pairs(facts)
        if climbs and isinstance(refine, str) and facts.n_rows > max(TABLE.first_samples):
            return _in_time(facts)
        if refine == "exact":
            return Exact(
                'refine="exact"', duality_tol=TABLE.duality_tol if facts.definite else None
            )
        if settings.hull_tol == 0:
            return Exact("hull_tol=0")
        if facts.n_rows <= settings.subset_size:
            return Exact(f"{facts.n_rows:,} rows are one subset")
    if not facts.in_memory and not facts.asked_again:
        return Rounds("the rows are read once", settings, 0, _usual(facts))
    if isinstance(refine, int):
        coarser = COARSER if refine else 1.0
        first = settings._replace(hull_tol=coarser * settings.hull_tol)
        return Rounds(f"refine={refine}", first, refine, _usual(facts))
    return _auto(facts, survey)


def check(facts: Facts) -> None:
    """Refuse what no plan can do, whatever the counts are.

    Examples
    --------
    >>> from aesvm.machines.plan import Facts, check
    >>> check(Facts(n_rows=0, in_memory=False, refine="exact"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    aesvm.runtime.warn.ParameterError: refine="exact" needs all rows in one place: ...
    """
    if facts.refine == "exact" and not facts.in_memory:
        raise ParameterError(
            "refine",
            'refine="exact" needs all rows in one place: use fit with rows in memory, or '
            'refine="auto", or a number of rounds.',
        )
    if facts.max_vectors is None:
        return
    if facts.refine != "auto":
        raise ParameterError(
            "max_vectors",
            f"max_vectors={facts.max_vectors} trains on all rows, and "
            f'refine={facts.refine!r} says how rows are represented: use refine="auto".',
        )
    if not facts.definite:
        raise ParameterError(
            "max_vectors",
            f"max_vectors={facts.max_vectors} needs a positive semidefinite kernel, and "
            f"{facts.kernel} is not: use another kernel, or max_vectors=None.",
        )


def outcome(plan: Plan, exact: bool, n_rounds: int, cut_short: str = "") -> str:
    """A plan in words, and what came of it where that differs.

    Parameters
    ----------
    plan : Exact, Rounds or Span
    exact : bool
        Whether every row was solved for in the end.
    n_rounds : int
        Rounds that were made.
    cut_short : str, default=""
        What a callback has cut short.

    Examples
    --------
    >>> from aesvm.machines.plan import Facts, outcome, plan
    >>> print(outcome(plan(Facts(n_rows=30_000, refine=2)), exact=False, n_rounds=1))
    approximate: representatives, then 2 rounds (refine=2); outcome: 1 round
    """
    made = f"{n_rounds} round{'s' * (n_rounds != 1)}"
    found = []
    if isinstance(plan, Rounds) and exact:
        found.append(f"exact after {made}" if n_rounds else "exact")
    elif isinstance(plan, Rounds) and plan.most != n_rounds:
        found.append(made)
    if cut_short:
        found.append(f"cut short: {cut_short}")
    return f"{plan}; outcome: {', '.join(found)}" if found else str(plan)


def remedy(plan: Plan, definite: bool) -> str:
    """What to change where a callback has cut a fit short.

    ``definite``: whether the kernel is positive semidefinite.

    Examples
    --------
    >>> from aesvm.machines.plan import Facts, plan, remedy
    >>> remedy(plan(Facts(n_rows=30_000, refine=2)), definite=True)
    'raise the limit'
    """
    if not isinstance(plan, Exact):
        return "raise the limit"
    vectors = ", max_vectors" if definite else ""
    return f"raise the limit, or use what takes less time: fewer rows{vectors} or refine=1"


def _are_small_pairs(facts: Facts) -> bool:
    """Whether there are several machines, of few rows each."""
    small = TABLE.rows_of_small_pairs**2 * facts.n_machines
    return facts.n_machines > 1 and facts.squared_rows <= small


def _in_time(facts: Facts) -> Ladder:
    reason = facts.refine if facts.refine == "auto" else f'refine="{facts.refine}"'
    is_proven = facts.refine == "exact" and facts.definite
    goal = Exact(f"{reason}, in time", duality_tol=TABLE.duality_tol if is_proven else None)
    return Ladder(str(reason), facts, goal)


def _auto(facts: Facts, survey: Survey | None) -> Plan:
    settings, limits = facts.settings, LIMITS[facts.device]
    first = settings._replace(hull_tol=COARSER * settings.hull_tol)
    if not facts.in_memory:
        return Rounds("auto: the rows are not in memory", first, None, _usual(facts), limits)
    limit = f"limit {limits.exact:.0e}"
    if facts.squared_rows <= limits.exact:
        most = f"at most {facts.squared_rows:.2g} rows x support vectors"
        return Exact(f"auto: {most}, {limit}")
    assert survey is not None  # of rows in memory there is one
    expected = survey.expected()
    share = min(1.0, expected.n_support * facts.n_machines / max(expected.n_rows, 1.0))
    pairs = f"{facts.n_machines:,} pairs of classes, each of " if facts.n_machines > 1 else ""
    counts = (
        f"auto: {pairs}{expected.n_rows / facts.n_machines:,.0f} rows x some "
        f"{expected.n_support:,.0f} support vectors (by a pilot) = {expected.values:.2g}, {limit}"
    )
    if expected.values <= limits.exact:
        return Exact(counts, share)
    in_span = _span(facts, expected, survey, counts)
    if in_span is not None:
        return in_span
    most_kept = _most_kept(facts, expected)
    if most_kept:
        reason = f"{counts}; rounds pay if at most {most_kept:.0%} of the rows represent all"
        first = first._replace(most_kept=most_kept)
        return Rounds(reason, first, None, phases(facts, expected, most_kept), limits, share)
    return Exact(f"{counts}; nothing else is faster", share)


def _span(facts: Facts, expected: Expected, survey: Survey, counts: str) -> Span | None:
    """The span of few vectors, where few carry the pilots."""
    many_rows = facts.n_rows > TABLE.pilots * TABLE.pilot_rows
    long = expected.values > facts.n_machines * LIMITS[facts.device].machine_in_span
    if not (facts.definite and many_rows and long):
        return None
    # of K classes a pair uses the vectors of two
    n_classes = 0.5 + sqrt(0.25 + 2.0 * facts.n_machines) if facts.n_machines > 1 else 1.0
    own_share = min(1.0, 2.0 / n_classes)
    most = min(TABLE.span_vectors, int(sqrt(TABLE.span_pays * expected.n_support) / own_share))
    norms = survey.norm_share()
    most_left = min(TABLE.left_of_norm, TABLE.left / norms if norms > 0.0 else inf)
    n_vectors, left = survey.carried(most, TABLE.hopeless * most_left)
    if left > most_left or not n_vectors:
        return None
    reason = (
        f"{counts}; {n_vectors:,} vectors carry {1.0 - left:.1%} of the pilot, "
        f"{1.0 - most_left:.1%} are needed"
    )
    max_vectors = max(2 * n_vectors, TABLE.least_vectors)
    return Span(reason, max_vectors, facts.gap_tol, facts.most_bytes, settles=True)


class Phases(NamedTuple):
    """Kernel values that the parts of a fit by representatives are expected to take.

    The plan and the progress bar both use them.
    """

    reduce: float  #: the first set
    first: float  #: the solve for it
    look: float  #: at the positions of all rows
    stratify: float  #: sets of the rows on each piece of the loss
    solve: float  #: for these, and for the rows in the band

    def whole(self, n_rounds: int) -> float:
        """Kernel values of a whole fit with ``n_rounds`` rounds."""
        return self.reduce + self.first + n_rounds * (self.look + self.stratify + self.solve)


def phases(facts: Facts, expected: Expected, kept: float) -> Phases:
    """What the parts of a fit take, where a first set keeps a fraction of the rows.

    A round solves for the rows in the band, for those that lose, represented at ``hull_tol``, and
    for the others, represented as coarsely as in the first set.
    """
    exact = TABLE.exact_values * expected.values
    finer = min(1.0, TABLE.finer_keeps * kept)
    share = min(1.0, expected.n_support * facts.n_machines / max(expected.n_rows, 1.0))
    others = 1.0 - TABLE.band
    solved = TABLE.band + others * (share * finer + (1.0 - share) * kept)
    supporting = TABLE.band + others * finer
    work = (TABLE.features + TABLE.other_work) / (facts.n_features + TABLE.other_work)
    by_kept, size = TABLE.reduce_kept * work, facts.settings.subset_size
    return Phases(
        reduce=(TABLE.reduce + by_kept * kept) * size * facts.n_rows,
        first=kept**2 * exact,
        look=kept * expected.values,
        stratify=(TABLE.reduce + by_kept * finer) * size * expected.n_rows,
        solve=solved * supporting * exact,
    )


def rounds_share(facts: Facts, expected: Expected, kept: float) -> float:
    """What one round takes as a fraction of the exact SVMs, where a first set keeps some rows.

    Examples
    --------
    >>> from aesvm.machines.plan import Expected, Facts, rounds_share
    >>> noisy = Expected(n_rows=1e5, n_support=4e4)
    >>> [round(rounds_share(Facts(100_000), noisy, kept), 2) for kept in (0.05, 0.2, 0.5)]
    [0.29, 0.71, 1.5]
    """
    exact = TABLE.exact_values * max(expected.values, expected.n_rows)
    return phases(facts, expected, kept).whole(1) / exact


def _usual(facts: Facts) -> Phases:
    """What the parts take where no pilot was asked: by what is usual."""
    known = 0 < facts.squared_rows < inf
    each = sqrt(facts.squared_rows / facts.n_machines) if known else float(_NOMINAL_ROWS)
    expected = Expected(each * facts.n_machines, TABLE.support_share * each)
    own = facts if known else replace(facts, n_rows=_NOMINAL_ROWS)
    return phases(own, expected, TABLE.kept)


def _most_kept(facts: Facts, expected: Expected) -> float:
    """The fraction of the rows that a first set may keep where rounds are to pay; 0: none."""
    shares = np.linspace(0.0, TABLE.most_kept, 91)
    worth = [kept for kept in shares if rounds_share(facts, expected, kept) < TABLE.worth]
    return float(max(worth, default=0.0))
