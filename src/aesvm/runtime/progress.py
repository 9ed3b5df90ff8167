"""Progress: reported to scikit-learn's callbacks, and in lines where ``verbose`` asks for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds between two lines that tell how far a long piece of work is.
_EVERY = 5.0


def say(estimator: Any, message: str) -> None:
    """Print a line about a fit, where ``verbose`` asks for it."""
    if estimator.verbose:
        print(f"[{type(estimator).__name__}] {message}", flush=True)


class Progress:
    """Where a piece of work reports.

    ``context`` is the callback context of the task that the work is a part of; ``quiet`` work
    prints nothing.
    """

    def __init__(self, estimator: Any, context: Any, quiet: bool = False) -> None:
        self.estimator = estimator
        self.context = context
        self.quiet = quiet
        self.last_line = time.perf_counter()

    @contextmanager
    def task(self, name: str, steps: int | None = 0, quiet: bool = False) -> Iterator[Progress]:
        """A part of the work, in ``steps`` parts of its own; None where that is not known."""
        context = self.context.subcontext(task_name=name, max_subtasks=steps)
        context.call_on_fit_task_begin(estimator=self.estimator)
        yield Progress(self.estimator, context, self.quiet or quiet)
        context.call_on_fit_task_end(estimator=self.estimator)

    def quietly(self) -> Progress:
        """The same, without lines."""
        return Progress(self.estimator, self.context, quiet=True)

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
