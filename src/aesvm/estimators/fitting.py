"""How an estimator fits: all or nothing, with callbacks, on threads.

Where a fit raises or is interrupted, the estimator is left as it was. It runs on ``n_jobs``
threads, each of them with single-threaded BLAS, and its result does not depend on their number.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeVar, cast

from aesvm.machines.processor import processor
from aesvm.runtime.jit import compiling_reported_to
from aesvm.runtime.progress import STEPS, Ending, Limit, Progress, say
from aesvm.runtime.scikit_learn import as_preferred, with_callbacks
from aesvm.runtime.threads import Threads, one_blas_thread

#: Work on a fitted model, which ``time_limit`` is not for.
_UNLIMITED = ("certify", "compress")

Method = TypeVar("Method", bound=Callable[..., Any])


def fit_method(method: Method) -> Method:
    """Decorate a method that fits: it has callbacks, and is ``all_or_nothing``."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with all_or_nothing(self):
            return method(self, *args, **kwargs)

    return cast(Method, with_callbacks(guarded))


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Check parameters before a fit; where it raises, restore the attributes of the last one."""
    before = fitted_attributes(estimator)
    try:
        estimator._validate_params()
        yield
    except BaseException:
        forget(estimator)
        vars(estimator).update(before)
        raise
    processor(getattr(estimator, "device", "cpu")).give_back()  # what its rows have taken


def fitted_attributes(estimator: Any) -> dict[str, Any]:
    """The attributes that ``fit`` has set."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("__")
    }


def forget(estimator: Any) -> None:
    """Remove the attributes that ``fit`` has set."""
    for name in fitted_attributes(estimator):
        delattr(estimator, name)


def set_fitted(estimator: Any, values: NamedTuple) -> None:
    """Write fitted attributes, each named as a field of the value, with an underscore."""
    for name, value in values._asdict().items():
        setattr(estimator, f"{name}_", as_preferred(value))


def _callbacks_above(task: Any) -> list[Any]:
    """Callbacks of the estimator of a task, and of the pipelines that it is fitted by."""
    found: dict[int, Any] = {}
    while task is not None:
        found |= {id(one): one for one in task._callbacks}
        task = task.parent
    return list(found.values())


@contextmanager
def fit_task(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    n_tasks: int | None = None,
    name: str = "fit",
    weighted: bool = False,
) -> Iterator[Progress]:
    """The task that a fit is to scikit-learn's callbacks.

    ``n_tasks``: the number of its parts, where known; ``name``: the title of progress bars;
    ``weighted``: whether each part says which fraction of the whole it is.
    """
    data = {} if X is None else {"X": X, "y": y}
    task = estimator._init_callback_context(
        task_name=name,
        max_subtasks=STEPS if weighted else n_tasks,
        sequential_subtasks=not weighted,
    )
    task.call_on_fit_task_begin(estimator=estimator, **data)
    limits = _callbacks_above(task)
    seconds = getattr(estimator, "time_limit", None)
    if seconds is not None and name not in _UNLIMITED:
        limits.append(Limit(float(seconds)))
    progress = Progress(estimator, task, ending=Ending(limits))
    yield progress.weighted() if weighted else progress
    task.call_on_fit_task_end(estimator=estimator, **data)


def compiling_announced(estimator: Any) -> AbstractContextManager[None]:
    """A context in which a line says when code has to be compiled."""
    return compiling_reported_to(functools.partial(_tell, estimator))


def _tell(estimator: Any, message: str) -> None:
    """Say why a call takes longer: on a terminal also where ``verbose`` asks for no lines."""
    if estimator.verbose:
        say(estimator, message)
    elif sys.stderr is not None and sys.stderr.isatty():
        print(f"[{type(estimator).__name__}] {message}", file=sys.stderr, flush=True)


@contextmanager
def fitting(
    estimator: Any, X: Any = None, y: Any = None, **task: Any
) -> Iterator[tuple[Threads, Progress]]:
    """The threads of a fit, with BLAS held to one thread in each, and its progress.

    ``task``: further arguments of ``fit_task``.
    """
    device = processor(getattr(estimator, "device", "cpu"))
    with (
        compiling_announced(estimator),
        fit_task(estimator, X, y, **task) as progress,
        one_blas_thread(),
        device.computing(),
        device.threads(estimator.n_jobs) as run,
    ):
        yield run, progress
