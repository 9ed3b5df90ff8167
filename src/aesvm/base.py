"""What every estimator of the package shares: its kernel parameters, and how it fits.

A fit is all or nothing: where it raises or is interrupted, the estimator is left as it was.
It runs on ``n_jobs`` threads, each of them with single-threaded BLAS, and its result does
not depend on how many there are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
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
    """A ``map`` over ``n_jobs`` threads: lazy, in order, and stopped by an exception."""
    if effective_n_jobs(n_jobs) == 1:
        return map

    def run(function: Callable, items: Iterable) -> Iterator:
        workers = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")
        return workers(delayed(function)(item) for item in items)

    return run


def one_blas_thread():
    """Context in which BLAS runs single-threaded: our threads are the parallelism."""
    return _threadpools().limit(limits=1, user_api="blas")


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()
