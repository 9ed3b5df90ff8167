"""Rounds that take the SVM on a representative set towards the exact one.

A row that stands for others loses them nothing where the loss is linear: where all of them lie on
the same piece of it (Jensen's inequality, the loss of the paper's Theorem 1, is then an equality).
So once a first solution is known, a round

looks       at the positions of all rows on the axis of the loss (the margins, of the hinge);
stratifies  the rows by the linear piece they are on. Delta, how far from a kink a row must be for
            its piece to be believed, is 1.5 times the root mean square of what the representatives
            get wrong: the loss that they pay for a row less its own, over the rows where these
            differ. (It was between a quarter and all of the true error of the margins, on measured
            data.) Rows nearer to a kink stand for themselves. The others are represented piece
            by piece, ten times as coarsely where the loss is zero;
solves      again, starting from the multipliers that agree with the positions. (From those lifted
            from the last solution, which are fractions nearly everywhere, it takes twice as long.)

One loop serves all rows, wherever they are: a ``Place`` is where they can be looked at and
stratified. Its policy, with ``refine`` as the estimators have it:

- where rounds are to follow, the first set is ten times as coarse as ``hull_tol``;
- ``refine=k`` makes k rounds; fewer where every row stands for itself, where none has crossed a
  kink since it was last represented, and after two in a row that did not lower the objective of all
  rows ("auto": after one);
- the objective need not fall in every round: of all that were seen the best is returned, and what
  was worse is undone. What a round did is seen at the next look, and after the last round where a
  look is cheap;
- where no round can be made after all, the first set is made anew, at ``hull_tol``;
- a fit that is to end before it is done (``Progress.is_over``) ends with the best state seen: a
  look or a round that is not finished is dropped;
- "auto" asks the plan (``plan.Rounds``) after each step whether to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from aesvm.formulations.objective import n_support
from aesvm.formulations.protocol import Formulation, Offsets
from aesvm.machines.plan import Rounds
from aesvm.machines.problem import Machine, TrainingSet, TrainingSets, different
from aesvm.runtime.progress import OutOfTimeError, Progress
from aesvm.runtime.warn import warn

#: Half the width of the band, in standard deviations of what representatives get wrong (1 leaves
#: more rows in violation, 2 solves for more rows); and the most it may be, in the formulation's
#: ``width``: the band of the hinge never reaches beyond the decision boundary.
DEVIATIONS, WIDEST = 1.5, 1.0

#: The note of a fit that ended in its rounds, or before them.
_CUT = "refining ended after {} rounds"

#: The note of a fit that ended before the set at ``hull_tol`` replaced the first.
STAYED_COARSE = "the first set stayed coarse"

#: What a certificate may take without being asked for: kernel values of all machines together, a
#: fraction of a second; or this fraction of what the fit took.
FREE, FREE_SHARE = 2e8, 0.1


class OverBudgetError(ValueError):
    """What a round gathers does not fit in ``memory_budget``."""


@dataclass(frozen=True)
class Look:
    """All rows of one machine, seen by it."""

    loss: float  #: F without ``1/2 |w|^2``, at ``offsets``
    offsets: Offsets  #: the machine's own, or those that minimise the loss
    doubt: float  #: delta: how far from a kink a row must be for its piece to be believed
    n_values: int  #: kernel values that it took
    n_crossed: int = 0  #: rows on another piece than the one they were represented on
    n_support: int | None = None  #: rows that the exact SVM would have as support vectors
    dual: float | None = None  #: the dual at the multipliers lifted from the machine's
    n_violators: int | None = None  #: rows whose lifted multiplier contradicts their position


class Cut(NamedTuple):
    """Where the rows of a machine are cut into strata."""

    offsets: Offsets
    doubt: float


@dataclass(frozen=True)
class State:
    """Trained machines, after a number of rounds."""

    machines: list[Machine]
    rounds: int
    sets: TrainingSets
    looks: list[Look] | None = None
    changed: float | None = None  #: share of weight whose prediction the last round changed

    @property
    def objective(self) -> float | None:
        """F over all rows, of all machines together; None where they were not looked at."""
        if self.looks is None:
            return None
        norms = sum(0.5 * machine.squared_norm for machine in self.machines)
        return norms + sum(look.loss for look in self.looks)

    @property
    def dual(self) -> float | None:
        """The best dual of all machines together; None where it is not known of one."""
        duals = [look.dual for look in self.looks or [] if look.dual is not None]
        return sum(duals) if self.looks and len(duals) == len(self.looks) else None

    @property
    def cost_of_all_rows(self) -> float:
        """Kernel values that positions of all rows would take."""
        return float(sum(m.set.n_rows * m.n_support for m in self.machines))


class Place(Protocol):
    """Where the rows of some machines are: in memory, in a source, or on a cluster."""

    holds_all_rows: bool  #: whether all rows are here, so that all can be solved for

    def look(self, state: State, free_offsets: bool) -> list[Look]:
        """See all rows, each machine with its own; with its offsets, or the best there are."""

    def look_cost(self, state: State) -> float:
        """Kernel values that a look would take."""

    def certificate_cost(self, state: State) -> float:
        """Kernel values that a look would take, and all that can be certified with it."""

    def stratify(self, cuts: list[Cut], progress: Progress) -> TrainingSets:
        """Sets by linear piece, as the rows were seen by the last look."""

    def finer(self, progress: Progress) -> TrainingSets | None:
        """The set at ``hull_tol``, in place of the first; None where it is the same.

        It is asked for where no round follows: the place need not be able to look afterwards.
        """

    def everything(self) -> TrainingSets:
        """All rows as they are, from the last look; asked where ``holds_all_rows``."""


@dataclass(frozen=True)
class Policy:
    """How machines are refined."""

    plan: Rounds
    share: float = 1.0  #: of what a fit may spend: that of one machine
    loosen: bool = False  #: a round over budget ends the rounds, rather than raise
    certify: bool = True  #: what is cheap to certify is
    spent: float = 0.0  #: kernel values that the first set took


#: Trains a machine on each of some sets.
Train = Callable[[TrainingSets, Progress], list[Machine]]

#: Called with every state whose rows were seen.
Note = Callable[[State], None]


def free_values(
    share: float, spent: float, machines: Iterable[Machine], work: float = 1.0
) -> float:
    """Kernel values that certifying machines may take without being asked for.

    ``share``: theirs, of all machines; ``spent``: what the first set of all of them took. The rest
    of what a fit takes is at least what their last solves did. ``work``: how many times as long as
    usual a kernel value takes.
    """
    taken = share * spent + sum(machine.n_evaluations for machine in machines)
    return max(share * FREE / work, FREE_SHARE * taken)


def refine(
    place: Place,
    first: TrainingSets,
    policy: Policy,
    formulation: Formulation,
    train: Train,
    progress: Progress,
    note: Note = lambda state: None,
) -> State:
    """Train on a first set, and make the rounds that the policy asks for."""
    plan = policy.plan
    rounds = plan.most != 0 and not first.exact
    with progress.share(plan.shares.first if rounds else 1.0) as task:
        state = State(train(first, task), 0, first)
    if rounds and all(formulation.constant(own.targets) is not None for own in first.sets):
        progress.say("no rounds: the first set has nothing to learn from")
        state = without_rounds(place, state, train, progress)
        rounds = False
    if rounds and progress.is_over():
        progress.cut_short(_CUT.format(0))
        rounds = False
    if rounds and not plan.affords_first(state.cost_of_all_rows):
        most = plan.limits.first_round
        progress.say(f"auto: no rounds, as one would take over {most:.0e} kernel values")
        state = without_rounds(place, state, train, progress)
        rounds = False
    if rounds:
        state = _Rounds(place, policy, formulation, train, progress, note).run(state)
    refit = plan.most != 0  # of offsets: the paper's method keeps the offsets of its set
    # elsewhere, of the first set alone, a look changes nothing
    useful = (policy.certify or refit) and (place.holds_all_rows or state.rounds > 0)
    if state.looks is None and useful and is_cheap(place, state, policy.share, policy.spent):
        state = seen(place, state, refit, note)
    return state


def seen(place: Place, state: State, free_offsets: bool, note: Note) -> State:
    """The state with all rows seen, unless the fit is to end first."""
    with suppress(OutOfTimeError):
        state = looked_at(place, state, free_offsets)
        note(state)
    return state


def without_rounds(place: Place, state: State, train: Train, progress: Progress) -> State:
    """The state of a first set at ``hull_tol``, where there are to be no rounds after it."""
    if not progress.is_over():
        finer = place.finer(progress)
        if finer is None:
            return state
        if not progress.is_over():
            now = State(train(finer, progress), 0, finer)
            if not (_was_cut(now.machines) and progress.is_over()):
                return now
    progress.cut_short(STAYED_COARSE)
    return state


def warn_of_round_over_budget(error: OverBudgetError, n_rounds: int) -> None:
    """Say that rounds ended where the budget does not hold what the next one gathers."""
    model = f"{n_rounds} round{'s' * (n_rounds != 1)}" if n_rounds else "0 rounds, as with refine=0"
    warn(f"{error} The model has {model}.")


def is_cheap(place: Place, state: State, share: float, spent: float) -> bool:
    """Whether the machines are certified without being asked for; see ``free_values``."""
    free = share * FREE
    if place.holds_all_rows:  # elsewhere they take a pass, whose time kernel values do not tell
        free = free_values(share, spent, state.machines)
    return place.certificate_cost(state) <= free


def looked_at(place: Place, state: State, free_offsets: bool) -> State:
    """The state with all rows seen, and the offsets that they give."""
    looks = place.look(state, free_offsets)
    machines = [
        replace(machine, offsets=look.offsets)
        for machine, look in zip(state.machines, looks, strict=True)
    ]
    return replace(state, machines=machines, looks=looks)


@dataclass(eq=False)
class _Rounds:
    """The rounds of one fit."""

    place: Place
    policy: Policy
    formulation: Formulation
    train: Train
    progress: Progress
    note: Note
    spent: float = 0.0  #: kernel values, of looks and solves

    @property
    def plan(self) -> Rounds:
        return self.policy.plan

    def run(self, state: State) -> State:
        """Make rounds until the policy or a callback ends them; the best state that was seen."""
        self.best = state
        try:
            return self._run(state)
        except OutOfTimeError:
            self.progress.cut_short(_CUT.format(self.best.rounds))
            return self.best

    def _run(self, state: State) -> State:
        best: State | None = None
        changed, n_worse = 1.0, 0
        while True:
            state = self._looked_at(state)
            looks = state.looks or []
            self.spent += sum(look.n_values for look in looks)
            if best is None or _is_better(state, best):
                best, n_worse = state, 0
            else:
                self._say_worse(state, best)
                n_worse += 1
            self.best = best
            if self.plan.ends_after(n_worse):
                return _settled(best)
            if self._can_be_exact(state):
                return self._exact(state)
            if state.rounds and not any(look.n_crossed for look in looks):
                self.progress.say(f"no row has crossed a kink since round {state.rounds}")
                return _settled(best)
            try:
                after = self._round(state)
            except OverBudgetError as error:
                if not self.policy.loosen:
                    raise
                return self._ended_by_budget(best, error)
            if after is None:
                return self._exact(state)
            state = after
            then = [look.offsets for look in looks]
            last, changed = changed, changed_share(state, then, self.formulation)
            self.best = state = replace(state, changed=changed)
            if self._is_last(state, changed, last):
                break
        if not is_cheap(self.place, state, self.policy.share, self.policy.spent):
            return state
        state = self._looked_at(state)
        if _is_better(best, state):
            self._say_worse(state, best)
            return best
        return state

    def _looked_at(self, state: State) -> State:
        seen = looked_at(self.place, state, free_offsets=True)
        self.note(seen)
        return seen

    def _ended_by_budget(self, best: State, error: OverBudgetError) -> State:
        """The model where the budget does not hold what a round gathers."""
        if not best.rounds:
            best = without_rounds(self.place, best, self.train, self.progress)
        if not best.sets.exact:  # else every row is held, and rounds would have led there
            warn_of_round_over_budget(error, best.rounds)
        return best

    def _say_worse(self, state: State, best: State) -> None:
        assert state.objective is not None
        assert best.objective is not None
        off = state.objective - best.objective
        self.progress.say(
            f"round {state.rounds} did not lower the objective ({off:.3g} above the lowest)"
        )

    def _round(self, state: State) -> State | None:
        """Stratify the rows by the piece they are on, and solve again.

        None where "auto" had better solve for all rows.
        """
        looks = state.looks or []
        stratify = self.plan.shares.stratify
        share = stratify + self.plan.shares.solve
        with self.progress.task("round", None, quiet=True, share=share) as task:
            task.check()
            cuts = [Cut(look.offsets, look.doubt) for look in looks]
            with task.share(stratify / max(share, 1e-12)) as part:
                sets = self.place.stratify(cuts, part)
            task.check()
            if self._gains_little(sets, state):
                return None
            machines = self.train(sets, task)
            if _was_cut(machines):
                task.check()
        now = State(machines, state.rounds + 1, sets)
        widest = max(look.doubt for look in looks)
        self.progress.say(
            f"round {now.rounds}: objective {state.objective:.6g} before it{_gap(state)}"
            f"{_violators(state)}; {self._n_in_band(sets, looks):,} rows in the band (within "
            f"{widest:.3g} of a kink), {len(different(own.rows for own in sets.sets)):,} solved for"
        )
        return now

    def _n_in_band(self, sets: TrainingSets, looks: list[Look]) -> int:
        """Rows so near to a kink that they stand for themselves."""
        in_band = (
            own.rows[self.formulation.pieces(own.positions_before, look.doubt) < 0]
            for own, look in zip(sets.sets, looks, strict=True)
            if own.positions_before is not None
        )
        return len(different(in_band))

    def _is_last(self, state: State, changed: float, last: float) -> bool:
        """Whether the plan wants no other round after this one."""
        plan = self.plan
        if plan.most is not None:
            return state.rounds >= plan.most
        self.progress.say(f"auto: round {state.rounds} changed {changed:.2%} of the predictions")
        solved = sum(machine.n_evaluations for machine in state.machines)
        self.spent += solved
        affordable = plan.affords_next(self.place.look_cost(state) + solved, self.spent)
        if not affordable:
            self.progress.say("auto: another round would take too many kernel values")
        return not affordable or plan.is_settled(changed, last)

    def _can_be_exact(self, state: State) -> bool:
        if not self.place.holds_all_rows:
            return False
        pairs = zip(state.machines, state.looks or [], strict=True)
        cost = sum(machine.set.n_rows * (look.n_support or 0) for machine, look in pairs)
        return self.plan.affords_exact(cost)

    def _gains_little(self, sets: TrainingSets, state: State) -> bool:
        """Whether a round would take nearly as many kernel values as the SVM of all rows."""
        if not self.place.holds_all_rows:
            return False
        cost = sum(len(own.rows) * self._n_support(own) for own in sets.sets)
        looks = zip(state.machines, state.looks or [], strict=True)
        exact = sum(machine.set.n_rows * (look.n_support or 0) for machine, look in looks)
        gains_little = self.plan.gains_little(cost, exact)
        if gains_little:
            share = cost / exact
            self.progress.say(
                f"auto: the exact SVM, since a round would take {share:.0%} of its kernel values"
            )
        return gains_little

    def _n_support(self, own: TrainingSet) -> int:
        """Support vectors that a set is expected to have, by the positions before."""
        if own.positions_before is None:
            return len(own.rows)
        return n_support(self.formulation, own.positions_before)

    def _exact(self, state: State) -> State:
        n_support = sum(look.n_support or 0 for look in state.looks or [])
        self.progress.say(f"auto: exact, with some {n_support:,} support vectors")
        sets = self.place.everything()
        now = State(self.train(sets, self.progress), state.rounds, sets)
        if _was_cut(now.machines) and self.progress.is_over():
            now = self._looked_at(now)
            return now if _is_better(now, self.best) else self.best
        return now


def _was_cut(machines: list[Machine]) -> bool:
    """Whether a solve ended before it was done."""
    return not all(one.solution.converged for one in machines if one.solution is not None)


def _settled(state: State) -> State:
    """The best state, after rounds that did not improve it: what those changed does not count."""
    return replace(state, changed=None)


def _is_better(state: State, other: State) -> bool:
    assert state.objective is not None
    assert other.objective is not None
    return state.objective < other.objective


def changed_share(state: State, then: list[Offsets], formulation: Formulation) -> float:
    """The fraction of rows, by weight, whose prediction the last round changed.

    ``then``: the offsets of the machines before it.
    """
    changed = total = 0.0
    for machine, before in zip(state.machines, then, strict=True):
        own = machine.set
        if own.positions_before is None:
            continue
        positions = formulation.positions(machine.scores, own.targets, machine.offsets)
        weights = own.weights
        differs = formulation.changed(own.positions_before, positions, before, machine.offsets)
        changed += float(weights @ differs)
        total += float(weights.sum())
    return changed / total if total else 0.0


def _gap(state: State) -> str:
    if state.dual is None or state.objective is None:
        return ""
    return f", duality gap {max(0.0, state.objective - state.dual):.3g}"


def _violators(state: State) -> str:
    counts = [look.n_violators for look in state.looks or []]
    return "" if None in counts else f", {sum(n for n in counts if n is not None):,} violators"
