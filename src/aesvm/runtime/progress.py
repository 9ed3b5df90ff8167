"""Progress: reported to scikit-learn's callbacks, and in lines where ``verbose`` asks for them.

Where the parts of a fit are known beforehand, as for rows in memory, its progress is weighted. Each
part is a share of the whole, by the kernel values that it is expected to take. There are at most
three bars, however deep the parts go. Other fits have a task for every part.

A callback may end a fit before it is done. Its method ``is_over(context)``, where it has one, is
called wherever work can end; or its ``on_fit_task_end`` returns True. Loops check
``Progress.is_over``, leave a state that can be used, and note what they cut short. A limit that
knows how long a fit may go on says so by ``seconds_left(context)``. An estimator's ``time_limit``
is a limit like that of a callback.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from math import inf, nan
from numbers import Real
from typing import Any, Self

#: Steps of a bar that is weighted, and the most bars there are.
STEPS, MOST_BARS = 100, 3

#: The most that a part takes of what is left of the whole: there may be more of them than foreseen.
_MOST_OF_THE_REST = 0.9

#: Seconds between two lines about a long piece of work.
_EVERY = 5.0


def say(estimator: Any, message: str) -> None:
    """Print a line about a fit, where ``verbose`` asks for it."""
    if estimator.verbose:
        print(f"[{type(estimator).__name__}] {message}", flush=True)


def as_seconds(value: Any) -> float:
    """A real number of any type as a float; NaN where it is none, or too large for one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from aesvm.runtime.progress import as_seconds
    >>> as_seconds(Fraction(1, 2)), as_seconds(True), as_seconds("1"), as_seconds(10**400)
    (0.5, nan, nan, nan)
    """
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return nan
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):  # of np.timedelta64, and Decimal("sNaN")
        return nan


class OutOfTimeError(Exception):
    """The fit is to end, and what was being done is of no use unless it is finished."""


class Limit:
    """The seconds that a fit has, from now on: an estimator's ``time_limit``.

    Examples
    --------
    >>> from aesvm.runtime.progress import Limit
    >>> times = iter([0.0, 2.0, 5.0])
    >>> limit = Limit(4.0, clock=times.__next__)
    >>> limit, limit.seconds_left(None), limit.is_over(None)
    (time_limit=4, 2.0, True)
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.clock = clock
        self.began = clock()

    def __repr__(self) -> str:
        return f"time_limit={self.seconds:g}"

    def seconds_left(self, context: Any) -> float:
        return self.seconds - (self.clock() - self.began)

    def is_over(self, context: Any) -> bool:
        return self.seconds_left(context) <= 0.0


class Ending:
    """Whether a fit is to end before it is done, and what that has cut short.

    ``callbacks``: all that the fit has; None where they are not known.
    """

    def __init__(self, callbacks: Sequence[Any] | None = None) -> None:
        self.callbacks = [one for one in callbacks or () if hasattr(one, "is_over")]
        self.is_followed = callbacks is None or len(callbacks) > 0
        self.asked_by = ""
        self.cut: Counter[str] = Counter()

    @property
    def limits(self) -> list[Any]:
        """The callbacks that know how many seconds are left."""
        return [one for one in self.callbacks if hasattr(one, "seconds_left")]

    def seconds_left(self, context: Any) -> float:
        """How long the fit may go on; infinite where nothing limits it."""
        return min((one.seconds_left(context) for one in self.limits), default=inf)

    def is_due(self, context: Any) -> bool:
        if not self.asked_by:
            asking = [one for one in self.callbacks if one.is_over(context)]
            if asking:  # else another thread may have been asked in the meantime
                self.asked_by = _named(asking)
        return bool(self.asked_by)

    def ask(self, context: Any) -> None:
        """End the fit: a callback has asked for it at the end of a task."""
        if not self.is_due(context):
            self.asked_by = "a callback"

    def message(self) -> str:
        """What was cut short; empty where nothing was."""
        if not self.cut:
            return ""
        counts = self.cut.items()
        cut = "; ".join(f"{what} ({n:,} times)" if n > 1 else what for what, n in counts)
        asked_by = self.asked_by or _named(self.limits)
        return f"{asked_by} ended the fit before it was done: {cut}."


def _named(callbacks: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(map(repr, callbacks)))


class _EndingOfPart(Ending):
    """The ending of a part of a fit, when ``reserve`` seconds are left; it has its own notes."""

    def __init__(self, whole: Ending, reserve: float) -> None:
        super().__init__(whole.callbacks)
        self.whole = whole
        self.reserve = reserve

    def is_due(self, context: Any) -> bool:
        if not self.asked_by and self.reserve > 0.0:
            if self.whole.seconds_left(context) <= self.reserve:
                self.asked_by = "a limit"
        elif self.whole.is_due(context):
            self.asked_by = self.whole.asked_by
        return bool(self.asked_by)


class _Bar:
    """A progress bar of a hundred steps, which may show a part of another bar's work."""

    def __init__(self, estimator: Any, context: Any, ending: Ending, n_steps: int) -> None:
        self.estimator = estimator
        self.context = context
        self.ending = ending
        self.n_steps = n_steps
        self.n_shown = 0
        self.whole: _Part | None = None
        self.n_bars = 1  # this one, and those that are a part of it

    def show(self, share: float) -> None:
        """Show that this share is done; less than was shown before changes nothing."""
        if not self.ending.is_followed:
            return
        while self.n_shown < int(share * self.n_steps):
            self.n_shown += 1
            number = None if self.whole else MOST_BARS + self.n_shown  # bars have the first ones
            step = self.context.subcontext(task_name="step", task_id=number)
            step.call_on_fit_task_begin(estimator=self.estimator)
            if step.call_on_fit_task_end(estimator=self.estimator):
                self.ending.ask(step)
        if self.whole is not None:
            self.whole.reach(share)


class _Part:
    """A part of the work that a bar shows, from one share of it to another."""

    def __init__(self, bar: _Bar, begin: float = 0.0, end: float = 1.0) -> None:
        self.bar = bar
        self.begin, self.end, self.at = begin, end, begin

    def reach(self, share: float) -> None:
        """Have come so far in it."""
        self.at = max(self.at, self.begin + min(share, 1.0) * (self.end - self.begin))
        self.bar.show(self.at)

    def next(self, share: float) -> _Part:
        """The part that comes next, and has this share of it unless little is left; 1: the rest."""
        rest = self.end - self.at
        length = min(share * (self.end - self.begin), _MOST_OF_THE_REST * rest)
        return _Part(self.bar, self.at, self.end if share >= 1.0 else self.at + length)


class Progress:
    """Where a piece of work reports, and learns whether it is to end.

    ``context`` is the callback context of the task that the work is a part of; ``quiet`` work
    prints nothing; work that is not ``limited`` never ends before it is done. ``part``: what it is
    of a progress that is weighted; ``started``: when the fit began, by ``time.perf_counter``.
    """

    limited = True
    part: _Part | None = None
    steps: int | None = None
    n_steps = 0

    def __init__(
        self, estimator: Any, context: Any, quiet: bool = False, ending: Ending | None = None
    ) -> None:
        self.estimator = estimator
        self.context = context
        self.quiet = quiet
        self.ending = Ending() if ending is None else ending
        self.started = self.last_line = time.perf_counter()

    def weighted(self) -> Progress:
        """The same, of a fit whose task has ``STEPS`` subtasks that are given their numbers."""
        bar = _Bar(self.estimator, self.context, self.ending, STEPS - MOST_BARS + 1)
        return self._like(part=_Part(bar))

    def _like(self, **others: Any) -> Self:
        own = object.__new__(type(self))
        vars(own).update(vars(self), n_steps=0, last_line=time.perf_counter(), **others)
        return own

    @contextmanager
    def task(
        self,
        name: str,
        steps: int | None = 0,
        quiet: bool = False,
        share: float | None = None,
        bar: bool = False,
    ) -> Iterator[Progress]:
        """A part of the work, in a number of ``steps``; None where that is not known.

        ``share`` and ``bar`` matter where progress is weighted: the share of this work that it is
        expected to take, and whether it has its own bar, if there are not too many.
        """
        if self.part is not None:
            with self._part_of(self.part, name, steps, quiet, share, bar) as own:
                yield own
            return
        context = self.context.subcontext(task_name=name, max_subtasks=steps)
        with self._announced(context):
            yield self._like(context=context, quiet=self.quiet or quiet, steps=steps)

    @contextmanager
    def _announced(self, context: Any) -> Iterator[None]:
        """Call the callbacks where a task begins and ends, also where the time is over."""
        context.call_on_fit_task_begin(estimator=self.estimator)
        out_of_time = None
        try:
            yield
        except OutOfTimeError as error:
            out_of_time = error
        if context.call_on_fit_task_end(estimator=self.estimator):
            self.ending.ask(context)
        if out_of_time is not None:
            raise out_of_time

    @contextmanager
    def _part_of(
        self,
        whole: _Part,
        name: str,
        steps: int | None,
        quiet: bool,
        share: float | None,
        bar: bool,
    ) -> Iterator[Progress]:
        """A task of a progress that is weighted."""
        if share is None:
            share = 1.0 / self.steps if self.steps else 0.5
        part = whole.next(share)
        own = self._like(part=part, quiet=self.quiet or quiet, steps=steps)
        if not bar or whole.bar.whole is not None or whole.bar.n_bars == MOST_BARS:
            yield own
        else:
            whole.bar.n_bars += 1
            number = whole.bar.n_bars - 1
            context = self.context.subcontext(name, task_id=number, max_subtasks=STEPS)
            inner = _Bar(self.estimator, context, self.ending, STEPS)
            inner.whole = part
            with self._announced(context):
                yield own._like(context=context, part=_Part(inner))
        part.reach(1.0)
        whole.at = max(whole.at, part.end)

    @contextmanager
    def share(self, share: float) -> Iterator[Progress]:
        """A share of the work, where progress is weighted; there is no task for it."""
        if self.part is None:
            yield self
        else:
            with self._part_of(self.part, "", None, False, share, False) as own:
                yield own

    def reach(self, share: float) -> None:
        """Have come so far in this work."""
        if self.part is not None:
            self.part.reach(share)
        else:
            for _ in range(self.n_steps, int(share * (self.steps or 0))):
                self.step()

    def quietly(self) -> Progress:
        """The same, without lines."""
        return self._like(quiet=True)

    def to_the_end(self) -> Progress:
        """The same, of work that is done whole or not at all."""
        return self._like(limited=False)

    def apart(self, reserve: float = 0.0) -> Progress:
        """The same, of work that ends while ``reserve`` seconds are left, and has its own notes."""
        return self._like(ending=_EndingOfPart(self.ending, reserve))

    def seconds_left(self) -> float:
        """How long the fit may go on; infinite where nothing limits it."""
        return self.ending.seconds_left(self.context)

    def is_over(self) -> bool:
        """Whether the work is to end where it is."""
        return self.limited and self.ending.is_due(self.context)

    def check(self) -> None:
        """End work that is of no use unless it is finished, where it is to end."""
        if self.is_over():
            raise OutOfTimeError

    def cut_short(self, what: str) -> None:
        """Note something that was left undone because the work was over."""
        self.ending.cut[what] += 1

    def end_by_plan(self, what: str) -> None:
        """Note what was left undone, or not begun, since there was no time for it."""
        if not self.ending.asked_by:
            self.ending.asked_by = _named(self.ending.limits)
        self.cut_short(what)

    def step(self, name: str = "step") -> None:
        """One of the parts is done."""
        self.n_steps += 1
        if self.part is None:
            with self.task(name):
                pass
        elif self.steps:
            self.part.reach(self.n_steps / self.steps)

    @property
    def says(self) -> bool:
        """Whether lines are printed."""
        return not self.quiet and bool(self.estimator.verbose)

    def say(self, message: str) -> None:
        if self.says:
            say(self.estimator, message)

    def say_now_and_then(self, message: str) -> None:
        """Print a line unless the last one of this kind was less than five seconds ago."""
        if time.perf_counter() - self.last_line > _EVERY:
            self.last_line = time.perf_counter()
            self.say(message)


class Watched:
    """Runs functions on threads, and reads the clock before each call.

    Where the work is to end, a call raises ``OutOfTimeError``.
    """

    def __init__(self, run: Callable, progress: Progress) -> None:
        self.run = run
        self.progress = progress

    def __call__(self, function: Callable, items: Iterable) -> Iterator:
        def one(item: Any) -> Any:
            self.progress.check()
            return function(item)

        return self.run(one, items)


class Silence(Progress):
    """Progress that is not reported: of work on a cluster, and of tests."""

    def __init__(self) -> None:
        super().__init__(None, None, quiet=True)

    @contextmanager
    def task(self, *details: Any, **others: Any) -> Iterator[Progress]:
        yield self


class Aside(Silence):
    """Progress of work that is done beside other work: not reported, but it ends with the fit.

    ``is_dropped()`` is True once the caller has given the result up, after an error or an
    interrupt: the work ends then, too.
    """

    def __init__(self, fit: Progress, is_dropped: Callable[[], bool]) -> None:
        super().__init__()
        self.context, self.ending, self.is_dropped = fit.context, fit.ending, is_dropped
        self.limited = fit.limited

    def is_over(self) -> bool:
        return self.is_dropped() or super().is_over()
