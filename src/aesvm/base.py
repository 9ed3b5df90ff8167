"""What every estimator of the package shares: its kernel parameters, and how it fits.

A fit is all or nothing: where it raises or is interrupted, the estimator is left as it was.
It runs on ``n_jobs`` threads, each of them with single-threaded BLAS, and its result does
not depend on how many there are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any

from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval, StrOptions
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


def all_or_nothing(fit: Callable) -> Callable:
    """Decorate ``fit``: where it does not return, no fitted attribute has changed."""

    @functools.wraps(fit)
    def guarded(self, *args, **kwargs):
        before = _fitted_attributes(self)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            for name in _fitted_attributes(self):
                delattr(self, name)
            vars(self).update(before)
            raise

    return guarded


def _fitted_attributes(estimator: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }


def threads(n_jobs: int | None) -> Callable[[Callable, Iterable], Iterator]:
    """A ``map`` over ``n_jobs`` threads: in order, and stopped by an exception.

    How many threads ``n_jobs`` means is joblib's to say, contexts and nesting included. Its
    own threads are not used: they hand results over by polling, every ten milliseconds.
    """
    n_threads = effective_n_jobs(n_jobs)
    if n_threads == 1:
        return map

    def run(function: Callable, items: Iterable) -> Iterator:
        pool = ThreadPoolExecutor(n_threads)
        try:
            futures = [pool.submit(function, item) for item in items]
            for future in futures:
                yield future.result()
        finally:
            # after an interrupt, do not wait for what is running: its result is dropped
            pool.shutdown(wait=False, cancel_futures=True)

    return run


def one_blas_thread():
    """Context in which BLAS runs single-threaded: our threads are the parallelism."""
    return _threadpools().limit(limits=1, user_api="blas")


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()
