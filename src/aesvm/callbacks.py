"""TimeLimit: a callback that ends a fit before it is done."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Callable
from math import inf
from typing import Any

from sklearn.pipeline import Pipeline

from aesvm.runtime.progress import as_seconds


class TimeLimit:
    """End each fit of an estimator after a time, with the model that it has by then.

    A callback of scikit-learn. Set it on an estimator of this package, or on a pipeline that ends
    with one: the time then counts from the beginning of the pipeline's fit. Clones keep it, so a
    search limits each of its fits: ``GridSearchCV(AESVR().set_callbacks(TimeLimit(60)), grid)``.
    Set on a search of this package it limits the search as a whole, as its ``time_limit`` does. On
    other estimators, such as scikit-learn's searches, it raises an error. When the time is over

    - a fit to rows in memory with ``refine`` "auto" or "exact" returns the best of the models that
      it has made, as with the parameter ``time_limit``: SVMs of larger and larger samples, then the
      exact SVM, or SVMs of further rows, combined. It ends early only when there is no time for
      half as many rows again, or no rows are left;
    - with a number for ``refine``, reducing ends at the next batch of subsets, and rows that were
      not reached represent themselves; refining ends with the best model seen;
    - with ``max_vectors`` a fit ends within its present step, with the vectors chosen so far;
    - ``fit_stream`` reads until half of the time is left, and learns from the rows read so far:
      ``n_seen_`` and the certificate count these, and ``certify_stream`` needs the same rows. If
      they have one class, a classifier raises an error;
    - ``partial_fit`` takes in all rows it is given. It also finishes reducing them (at most 50,000
      rows at a time), since the set must fit in its budget;
    - ``certify`` and ``certify_stream`` are not limited.

    A ``ConvergenceWarning`` says what was cut short and what to change. ``certificate_`` says how
    close the model is to the exact SVM, and repeats both in its ``plan`` and ``remedy``.

    Parameters
    ----------
    seconds : float
        Counted from the beginning of a fit, after its input was checked. The clock is read between
        steps of the work, so the last step may exceed the limit. Infinity is no limit.
    clock : callable, default=time.monotonic
        Returns the time in seconds.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC, TimeLimit
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = AESVC(gamma=1.0).set_callbacks(TimeLimit(600)).fit(X, y)
    >>> model.fit_status_
    0
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = as_seconds(seconds)
        if not self.seconds >= 0.0:
            raise ValueError(
                f"seconds={reprlib.repr(seconds)} must be a number that is not negative and that a "
                "float can hold: at most 1.7e308, or float('inf') for no limit."
            )
        self.clock = clock
        self._began: dict[Any, float] = {}  # by the callback context of a fit

    def __repr__(self) -> str:
        return f"TimeLimit({self.seconds:g})"

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to count, as a fit begins."""
        if not _ends_when_asked(estimator):
            name = type(estimator).__name__
            raise ValueError(
                f"{self!r} was set on {name}, which does not end a fit when asked to. Set it on "
                "an estimator or a search of aesvm, or on a pipeline whose last step is one. In a "
                "search of scikit-learn, set it on the estimator before the search is made: "
                f"GridSearchCV(AESVC().set_callbacks({self!r}), grid)."
            )
        self._began[context] = self.clock()

    def teardown(self, estimator: Any, context: Any) -> None:
        """Count no more, as a fit has ended."""
        self._began.pop(context, None)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing: ``is_over`` is called for a task that has begun."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Whether the work that the task is a part of is to end."""
        return self.is_over(context)

    def is_over(self, context: Any) -> bool:
        """Whether the fit that a task belongs to has had its time."""
        return self.seconds_left(context) <= 0.0

    def seconds_left(self, context: Any) -> float:
        """How long the fit that a task belongs to may go on."""
        while context is not None and context not in self._began:
            context = context.parent
        if context is None:
            return inf
        return self.seconds - (self.clock() - self._began[context])


def _ends_when_asked(estimator: Any) -> bool:
    """Whether it is an estimator of this package, or a pipeline to one."""
    if isinstance(estimator, Pipeline):
        return _ends_when_asked(estimator.steps[-1][1])
    return any(base.__module__.startswith("aesvm.") for base in type(estimator).__mro__)


class Deadline(TimeLimit):
    """A callback that ends all fits at one time, some seconds from now; clones share it.

    ``name``: what it is called in messages; None: as a ``TimeLimit``.

    Examples
    --------
    >>> from aesvm.callbacks import Deadline
    >>> Deadline(60.0, "time_limit=100")
    time_limit=100
    """

    def __init__(self, seconds: float, name: str | None = None) -> None:
        super().__init__(max(seconds, 0.0))
        self.name = name
        self.at = self.clock() + seconds

    def __repr__(self) -> str:
        return super().__repr__() if self.name is None else self.name

    def __deepcopy__(self, memo: dict) -> Deadline:
        return self

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing: the time was set before."""

    def seconds_left(self, context: Any) -> float:
        """How long fits may go on."""
        return self.at - self.clock()
