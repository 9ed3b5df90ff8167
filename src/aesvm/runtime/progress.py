"""Progress: reported to scikit-learn's callbacks, and in lines where ``verbose`` asks for them.

A callback may end a fit before it is done: one that has a method ``is_over(context)`` is asked
wherever work can end, and any whose ``on_fit_task_end`` returns True has asked for it. Loops see
``Progress.is_over``, leave what they have in a state that can be used, and say what they cut short.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Seconds between two lines that tell how far a long piece of work is.
_EVERY = 5.0


def say(estimator: Any, message: str) -> None:
    """Print a line about a fit, where ``verbose`` asks for it."""
    if estimator.verbose:
        print(f"[{type(estimator).__name__}] {message}", flush=True)


class OutOfTimeError(Exception):
    """The fit is to end, and what was being done is of no use unless it is finished."""


class Ending:
    """Whether a fit is to end before it is done, and what that has cut short."""

    def __init__(self, callbacks: Sequence[Any] = ()) -> None:
        self.callbacks = [one for one in callbacks if hasattr(one, "is_over")]
        self.asked_by = ""
        self.cut: Counter[str] = Counter()

    def is_due(self, context: Any) -> bool:
        if not self.asked_by:
            asking = [repr(one) for one in self.callbacks if one.is_over(context)]
            self.asked_by = ", ".join(asking)
        return bool(self.asked_by)

    def ask(self, context: Any) -> None:
        """End the fit, since a callback has told so of a task."""
        if not self.is_due(context):
            self.asked_by = "a callback"

    def message(self) -> str:
        """What was cut short; empty where nothing was."""
        if not self.cut:
            return ""
        counts = self.cut.items()
        cut = "; ".join(f"{what} ({n:,} times)" if n > 1 else what for what, n in counts)
        return f"{self.asked_by} ended the fit before it was done: {cut}."


class Progress:
    """Where a piece of work reports, and learns whether it is to end.

    ``context`` is the callback context of the task that the work is a part of; ``quiet`` work
    prints nothing; work that is not ``limited`` never ends before it is done.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        quiet: bool = False,
        ending: Ending | None = None,
        limited: bool = True,
    ) -> None:
        self.estimator = estimator
        self.context = context
        self.quiet = quiet
        self.ending = Ending() if ending is None else ending
        self.limited = limited
        self.last_line = time.perf_counter()

    @contextmanager
    def task(self, name: str, steps: int | None = 0, quiet: bool = False) -> Iterator[Progress]:
        """A part of the work, in ``steps`` parts of its own; None where that is not known."""
        context = self.context.subcontext(task_name=name, max_subtasks=steps)
        context.call_on_fit_task_begin(estimator=self.estimator)
        out_of_time = None
        try:
            yield Progress(self.estimator, context, self.quiet or quiet, self.ending, self.limited)
        except OutOfTimeError as error:
            out_of_time = error
        if context.call_on_fit_task_end(estimator=self.estimator):
            self.ending.ask(context)
        if out_of_time is not None:
            raise out_of_time

    def quietly(self) -> Progress:
        """The same, without lines."""
        return Progress(self.estimator, self.context, True, self.ending, self.limited)

    def to_the_end(self) -> Progress:
        """The same, of work that is done whole or not at all."""
        return Progress(self.estimator, self.context, self.quiet, self.ending, limited=False)

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

    def step(self, name: str = "step") -> None:
        """One of the parts is done."""
        with self.task(name):
            pass

    def say(self, message: str) -> None:
        if not self.quiet:
            say(self.estimator, message)

    def say_now_and_then(self, message: str) -> None:
        """Print a line unless the last one of this kind was less than five seconds ago."""
        if time.perf_counter() - self.last_line > _EVERY:
            self.last_line = time.perf_counter()
            self.say(message)


class Silence(Progress):
    """Progress that is reported to no one: of work on a cluster, and of tests."""

    def __init__(self) -> None:
        super().__init__(None, None, quiet=True)

    @contextmanager
    def task(self, name: str, steps: int | None = 0, quiet: bool = False) -> Iterator[Progress]:
        yield self

    def quietly(self) -> Progress:
        return self

    def to_the_end(self) -> Progress:
        return self
