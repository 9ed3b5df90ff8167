"""What every estimator of the package shares: its kernel parameters, and how it fits.

A fit is all or nothing: where it raises or is interrupted, the estimator is left as it was.
It runs on ``n_jobs`` threads, each of them with single-threaded BLAS, and its result does
not depend on how many there are.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController

from aesvm.kernels import KERNELS

#: Parameter constraints of an estimator with a kernel and a representative set.
REDUCTION_CONSTRAINTS: dict[str, list] = {
    "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "hull_tol": [Interval(Real, 0.0, None, closed="left")],
    "subset_size": [Interval(Integral, 1, None, closed="left")],
    "partition_size": [Interval(Integral, 1, None, closed="left")],
    "partition": [StrOptions({"distance", "sequence"})],
    "n_jobs": [Integral, None],
    "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
}


#: Packages whose frames a warning looks past.
_INSIDE = ("aesvm", "sklearn")


def all_or_nothing(fit: Callable) -> Callable:
    """Decorate ``fit``: where it does not return, no fitted attribute has changed."""

    @functools.wraps(fit)
    def guarded(self, *args, **kwargs):
        before = fitted_attributes(self)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            for name in fitted_attributes(self):
                delattr(self, name)
            vars(self).update(before)
            raise

    return guarded


def fitted_attributes(estimator: Any) -> dict[str, Any]:
    """What ``fit`` has set."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("__")
    }


def validated_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Rows as a contiguous array or a CSR matrix, each entry listed once; float32 stays that.

    ``reset`` is scikit-learn's: whether these are the rows to fit to.
    """
    if isinstance(X, str | PathLike):
        raise ValueError(f"X={str(X)!r} is a name: pass the rows themselves, as an array.")
    X = validate_data(
        estimator,
        X,
        accept_sparse=False if estimator.kernel == "precomputed" else "csr",
        dtype=[np.float64, np.float32],
        order="C",
        reset=reset,
    )
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def say(estimator: Any, message: str) -> None:
    """Print a line about a fit, where ``verbose`` asks for it."""
    if estimator.verbose:
        print(f"[{type(estimator).__name__}] {message}", flush=True)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn whoever called into this package and scikit-learn's wrapper around it."""
    depth = 2
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame = frame.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=max(2, depth - 1))


class Progress:
    """Where a piece of work reports: to scikit-learn's callbacks, and where verbose asks in lines.

    ``context`` is the callback context of the task that the work is a part of; ``quiet`` parts
    print nothing.
    """

    def __init__(self, estimator: Any, context: Any, quiet: bool = False) -> None:
        self.estimator = estimator
        self.context = context
        self.quiet = quiet

    @contextmanager
    def task(self, name: str, steps: int | None = 0, quiet: bool = False) -> Iterator[Progress]:
        """A part of the work, with so many parts of its own; None where that is not known."""
        context = self.context.subcontext(task_name=name, max_subtasks=steps)
        context.call_on_fit_task_begin(estimator=self.estimator)
        yield Progress(self.estimator, context, self.quiet or quiet)
        context.call_on_fit_task_end(estimator=self.estimator)

    def quietly(self) -> Progress:
        """The same, but for lines."""
        return Progress(self.estimator, self.context, quiet=True)

    def step(self, name: str = "step") -> None:
        """One of the parts is done."""
        with self.task(name):
            pass

    def say(self, message: str) -> None:
        if not self.quiet:
            say(self.estimator, message)


class Silence(Progress):
    """Where work reports that nobody watches."""

    def __init__(self) -> None:
        super().__init__(None, None, quiet=True)

    @contextmanager
    def task(self, name: str, steps: int | None = 0, quiet: bool = False) -> Iterator[Progress]:
        yield self

    def quietly(self) -> Progress:
        return self


class Threads:
    """A ``map`` over ``n_jobs`` threads: in order, and stopped by an exception.

    How many threads ``n_jobs`` means is joblib's to say, contexts and nesting included. Its
    own threads are not used: they hand results over by polling, every ten milliseconds.
    A context: the threads, and what they keep for themselves, last as long as it does.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self.n_threads = effective_n_jobs(n_jobs)
        self.pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def __call__(self, function: Callable, items: Iterable) -> Generator:
        if self.pool is None:
            yield from map(function, items)
            return
        futures = [self.pool.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            # after an interrupt, do not wait for what is running: its result is dropped
            self.pool.shutdown(wait=False, cancel_futures=True)


class _OneBlasThread:
    """Context in which BLAS runs single-threaded: our threads are the parallelism.

    The limit is the process's. Where fits overlap, the first to come sets it and the last to
    go lifts it, whichever thread that is: threadpoolctl's own context lets none but the thread
    that set a limit lift it, and the last of two would restore what the first had set.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                libraries = _threadpools().select(user_api="blas").lib_controllers
                self.before = [(library, library.num_threads) for library in libraries]
                self._set([1] * len(self.before))
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self._set([count for _, count in self.before])

    def _set(self, counts: list[int]) -> None:
        for (library, _), count in zip(self.before, counts, strict=True):
            library.set_num_threads(count)
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread()


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()


one_blas_thread = _OneBlasThread()
