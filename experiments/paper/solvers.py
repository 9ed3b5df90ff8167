"""How each solver of the tables is run. All have the same threads, rows and hyper-parameters.

LIBSVM is scikit-learn's SVC, which calls it. AESVM is the paper's method: a representative set,
and the weighted SVM of it; seconds are counted apart, since a set serves every C.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from math import log, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from aesvm import AESVC, RepresentativeSet
from aesvm.runtime.jit import compiling_reported_to
from benchmarks import rivals
from benchmarks.datasets import by_paper, folds, load
from experiments.paper.comparison import EPSILONS
from experiments.paper.runs import SEED, WHOLE, Outcome, Run
from experiments.rivals import BVM, CPSP, CVM, LASVM, NystroemSVM, RandomFeatureSVM, SubsampleSVM

#: Megabytes for kernel rows: the paper's, for every solver that has such a cache.
CACHE = 600

#: Rows of a block of kernel values.
_BLOCK = 2000

#: Rows of each class to warm up with.
_WARM_UP = 700

#: Rows of the first of the subsamples that are to take a given time.
_FIRST_SUBSAMPLE = 500

#: Seconds that a clock may not see.
_TICK = 1e-4

#: Seconds that are measured well by a clock that ticks in hundredths, and fits for as many at most.
_SHORTEST = 0.05
_MOST_FITS = 20


class Part(NamedTuple):
    """Rows to train and to test with."""

    X: Any
    y: NDArray
    X_test: Any
    y_test: NDArray


class Conditions(NamedTuple):
    """What a run is given beside its rows."""

    threads: int
    like: Outcome | None = None  #: of the run that it is measured against
    clock: Callable[[], float] = time.perf_counter


class Fitted(NamedTuple):
    """A classifier, and what was measured while it was trained."""

    model: Any
    seconds: float
    support_vectors: int | None = None
    reduction_seconds: float | None = None
    kept: int | None = None
    reduced: bool | None = None


@lru_cache(maxsize=1)
def _dataset(paper: str, data_dir: Path | None, all_test_rows: bool) -> Any:
    return load(by_paper(paper).name, data_dir, all_test_rows)


@lru_cache(maxsize=2)
def _part(
    dataset: str,
    fold: int,
    train_rows: int | None,
    test_rows: int | None,
    shuffled: int | None,
    all_test_rows: bool,
    data_dir: Path | None,
) -> Part:
    data = _dataset(dataset, data_dir, all_test_rows)
    if data.X_test is None and fold == WHOLE:
        X, y, X_test, y_test = data.X, data.y, data.X[:0], data.y[:0]
    elif data.X_test is None:
        train, test = folds(len(data.y))[fold]
        X, y, X_test, y_test = data.X[train], data.y[train], data.X[test], data.y[test]
    else:
        X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    if shuffled is not None:
        order = np.random.default_rng(shuffled).permutation(len(y))
        X, y = X[order], y[order]
    fewer, fewer_test = _spaced(len(y), train_rows), _spaced(len(y_test), test_rows)
    return Part(X[fewer], y[fewer], X_test[fewer_test], y_test[fewer_test])


def _spaced(n: int, most: int | None) -> slice | NDArray[np.intp]:
    if most is None or n <= most:
        return slice(None)
    return np.linspace(0, n - 1, most).astype(np.intp)


def part_of(run: Run, data_dir: Path | None) -> Part:
    """The rows of a run; folds are of consecutive rows, and fewer rows are evenly spaced."""
    chosen = (run.fold, run.train_rows, run.test_rows, run.shuffled, run.all_test_rows)
    return _part(run.dataset, *chosen, data_dir)


def carry_out(
    run: Run, rows: Part, conditions: Conditions, trained: Callable[[], None] = lambda: None
) -> Outcome:
    """Reduce, or train and test; ``trained`` is called in between."""
    shape = {"rows": len(rows.y), "features": rows.X.shape[1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of little to gain, which is recorded, and of scales
        if run.solver == "DeriveRS":
            chosen, seconds = _represented(run, rows, conditions)
            kept = len(chosen.sample_indices_)
            return Outcome("ok", seconds, kept=kept, reduced=chosen.reduced_, **shape)
        fitted = SOLVERS[run.solver](run, rows, conditions)
        trained()
        labels = _labels(run, fitted.model, rows.X_test)
        outcome = Outcome(
            "ok",
            fitted.seconds,
            support_vectors=fitted.support_vectors,
            accuracy=float(np.mean(labels == rows.y_test)),
            reduction_seconds=fitted.reduction_seconds,
            kept=fitted.kept,
            reduced=fitted.reduced,
            **shape,
        )
        if run.solver == "LIBSVM":
            return _beside_exact(outcome, fitted.model, labels, run, rows, conditions)
    return outcome


def _beside_exact(
    outcome: Outcome, model: SVC, labels: NDArray, run: Run, rows: Part, conditions: Conditions
) -> Outcome:
    """LIBSVM's outcome, and what our exact SVM of the same rows has in common with it."""
    exact = _exact(run, rows, conditions)
    objective = dual_objective(model, run)
    ours = dual_objective(exact.model, run)
    return replace(
        outcome,
        objective=objective,
        agreement=float(np.mean(exact.model.predict(rows.X_test) == labels)),
        excess=(ours - objective) / abs(objective),
        exact_seconds=exact.seconds,
    )


def _labels(run: Run, model: Any, X: Any) -> NDArray:
    """LIBSVM's predictions take longer than its training: its model's, in blocks of rows."""
    if run.solver != "LIBSVM" or X.shape[0] == 0:
        return model.predict(X)
    a, vectors = _coefficients(model), model.support_vectors_
    scores = np.empty(X.shape[0])
    for start in range(0, len(scores), _BLOCK):
        block = slice(start, start + _BLOCK)
        K = pairwise_kernels(X[block], vectors, metric=run.kernel, **_kernel_values(run))
        scores[block] = K @ a + model.intercept_[0]
    return model.classes_[(scores > 0).astype(int)]


def _coefficients(model: Any) -> NDArray:
    found = model.dual_coef_
    return np.ravel(found.toarray() if sp.issparse(found) else found)


def dual_objective(model: Any, run: Run) -> float:
    """Half of a'Ka less the sum of |a|, from a model's coefficients and vectors alone."""
    a, vectors = _coefficients(model), model.support_vectors_
    quadratic = 0.0
    for start in range(0, len(a), _BLOCK):
        block = slice(start, start + _BLOCK)
        K = pairwise_kernels(vectors[block], vectors, metric=run.kernel, **_kernel_values(run))
        quadratic += float(a[block] @ (K @ a))
    return 0.5 * quadratic - float(np.abs(a).sum())


def warm_up(run: Run, rows: Part, conditions: Conditions) -> None:
    """The same with a few rows, so that what is compiled, or loaded, is so before time counts."""
    few = np.concatenate([np.flatnonzero(rows.y == c)[:_WARM_UP] for c in np.unique(rows.y)])
    small = Part(rows.X[few], rows.y[few], rows.X_test[:100], rows.y_test[:100])
    run = replace(run, components=min(run.components, len(few)))
    carry_out(run, small, conditions._replace(like=Outcome("ok", 1e-3, kept=len(few) // 2)))


def _seconds_to_fit(conditions: Conditions, model: Any, *data: Any, **others: Any) -> float:
    """Of a fit that compiles nothing: where a first one has to, it is made again.

    So is one too short for the clock, and the mean counts.
    """
    compiled: list[str] = []

    def seconds() -> float:
        with compiling_reported_to(compiled.append):
            started = conditions.clock()
            model.fit(*data, **others)
            return conditions.clock() - started

    measured = [seconds()]
    if compiled:
        measured = [seconds()]
    while sum(measured) < _SHORTEST and len(measured) < _MOST_FITS:
        measured.append(seconds())
    return fmean(measured)


def _kernel(run: Run) -> dict[str, Any]:
    """The paper's: exp(-g |x - y|^2), or (1 + x.y)^d."""
    return {"kernel": run.kernel, **_kernel_values(run)} if run.degree else {"gamma": run.gamma}


def _kernel_values(run: Run) -> dict[str, Any]:
    if run.kernel == "rbf":
        return {"gamma": run.gamma}
    return {"degree": run.degree, "gamma": 1.0, "coef0": 1.0}


class _LastSet(NamedTuple):
    """A representative set serves every C: the last one is kept."""

    key: str
    X: Any
    found: tuple[RepresentativeSet, float]


_last_set: list[_LastSet] = []


def _shared_set(run: Run, rows: Part, conditions: Conditions) -> tuple[RepresentativeSet, float]:
    key = replace(run, solver="DeriveRS", C=1.0, like=None).key
    for kept in _last_set:
        if kept.key == key and kept.X is rows.X:
            return kept.found
    found = _represented(run, rows, conditions)
    _last_set[:] = [_LastSet(key, rows.X, found)]
    return found


def _represented(run: Run, rows: Part, conditions: Conditions) -> tuple[RepresentativeSet, float]:
    chosen = RepresentativeSet(
        hull_tol=run.epsilon,
        partition=run.partition,
        partition_size=run.partition_size,
        subset_size=run.subset_size,
        n_jobs=conditions.threads,
        **_kernel(run),
    )
    return chosen, _seconds_to_fit(conditions, chosen, rows.X, rows.y)


def _fit(model: Any, rows: Part, conditions: Conditions) -> Fitted:
    seconds = _seconds_to_fit(conditions, model, rows.X, rows.y)
    n_support = getattr(model, "n_support_", None)
    return Fitted(model, seconds, None if n_support is None else int(np.sum(n_support)))


def _libsvm(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    return _fit(SVC(C=run.C, cache_size=CACHE, **_kernel(run)), rows, conditions)


def _intelex(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    model = rivals.intelex(run.C, run.gamma, conditions.threads)
    return _fit(model.set_params(cache_size=CACHE, **_kernel(run)), rows, conditions)


def _aesvm(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    chosen, reduction_seconds = _shared_set(run, rows, conditions)
    at = chosen.sample_indices_
    model = AESVC(
        C=run.C,
        hull_tol=0.0,
        refine=0,
        cache_size=CACHE,
        n_jobs=conditions.threads,
        device=run.device,
        **_kernel(run),
    )
    weights = chosen.weights_
    seconds = _seconds_to_fit(conditions, model, rows.X[at], rows.y[at], sample_weight=weights)
    n_support = int(model.n_support_.sum())
    return Fitted(model, seconds, n_support, reduction_seconds, len(at), chosen.reduced_)


def _auto(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    model = AESVC(C=run.C, n_jobs=conditions.threads, device=run.device, **_kernel(run))
    return _fit(model, rows, conditions)


def _exact(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    """The SVM of all rows, to LIBSVM's tolerance."""
    others: dict[str, Any] = {"n_jobs": conditions.threads, "device": run.device}
    model = AESVC(C=run.C, refine="exact", cache_size=CACHE, **others, **_kernel(run))
    return _fit(model, rows, conditions)


def _rival(kind: type, run: Run, rows: Part, conditions: Conditions, **others: Any) -> Fitted:
    model = kind(C=run.C, random_state=SEED, n_jobs=conditions.threads, **_kernel(run), **others)
    return _fit(model, rows, conditions)


def _cpsp(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    fitted = _rival(CPSP, run, rows, conditions, n_basis=run.components)
    return fitted._replace(support_vectors=int(fitted.model.n_basis_))


def _random_features(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    """LIBLINEAR takes seconds where the paper's LIBSVM takes hours, for the same accuracies."""
    model = RandomFeatureSVM(
        C=run.C,
        gamma=run.gamma,
        n_components=run.components,
        loss="hinge",
        max_iter=1000,
        random_state=SEED,
    )
    return _fit(model, rows, conditions)


def _nystroem(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    model = NystroemSVM(C=run.C, gamma=run.gamma, n_components=run.components, random_state=SEED)
    return _fit(model, rows, conditions)._replace(support_vectors=run.components)


def _as_many(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    """A random subsample of as many rows as the set of another run."""
    assert conditions.like is not None
    assert conditions.like.kept is not None
    return _subsample(run, rows, conditions, conditions.like.kept)


def _as_long(run: Run, rows: Part, conditions: Conditions) -> Fitted:
    """A random subsample so large that it takes as long as another run.

    Its size is found from two smaller ones, the second of which shows how seconds grow with rows.
    """
    assert conditions.like is not None
    target, most = max(conditions.like.total_seconds, _TICK), len(rows.y)
    first = min(_FIRST_SUBSAMPLE, most)
    before = max(_subsample(run, rows, conditions, first).seconds, _TICK)
    second = int(np.clip(first * sqrt(0.5 * target / before), 2, most))
    seconds = max(_subsample(run, rows, conditions, second).seconds, _TICK)
    growth = 2.0
    if second != first and seconds != before:
        growth = float(np.clip(log(seconds / before) / log(second / first), 1.0, 3.0))
    size = int(np.clip(second * (target / seconds) ** (1.0 / growth), 2, most))
    return _subsample(run, rows, conditions, size)


def _subsample(run: Run, rows: Part, conditions: Conditions, size: int) -> Fitted:
    fitted = _rival(SubsampleSVM, run, rows, conditions, sample_size=size, cache_size=CACHE)
    return fitted._replace(kept=size)


SOLVERS: dict[str, Callable[[Run, Part, Conditions], Fitted]] = {
    "LIBSVM": _libsvm,
    "exact": _exact,
    **dict.fromkeys(EPSILONS.values(), _aesvm),
    "CVM": partial(_rival, CVM),
    "BVM": partial(_rival, BVM, cache_size=CACHE),
    "LASVM": partial(_rival, LASVM),
    "CPSP": _cpsp,
    "RfeatSVM": _random_features,
    "intelex": _intelex,
    "AESVC auto": _auto,
    "subsample, same M": _as_many,
    "subsample, same time": _as_long,
    "Nystroem": _nystroem,
}
