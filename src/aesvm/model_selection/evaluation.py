"""The candidates of paths, fitted and scored on one fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection._validation import _fit_and_score, _score
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from aesvm.estimators.prediction import model_of
from aesvm.estimators.validation import validated_rows
from aesvm.machines.sharing import SharedWork
from aesvm.model_selection.decision_values import EvaluatedSVM, with_decision_values
from aesvm.model_selection.paths import (
    Path,
    fit_path,
    last_step,
    own_params,
    svm_of,
    with_limit,
)
from aesvm.runtime.warn import kept_warnings, warn

#: Names in ``cv_results_`` of the amounts in ``SharedWork.spent``.
SPENT = {
    "partition": "partition_time",
    "sets": "set_time",
    "solve": "solve_time",
    "kernel_values": "kernel_values",
    "rows_solved": "rows_solved",
}

#: The part of a fit's time that the fit itself may take; the rest is for its scores.
_TO_FIT = 0.75

#: What ``"ended"`` says of a fit that a search had too little time for.
CUT, UNTRIED = "cut short", "not tried"

#: The result of a candidate on a fold, as scikit-learn's searches expect it; with ``"spent"`` and
#: ``"warned"`` where fits share work. ``"ended"`` is there where the time of the search has ended
#: the fit; of one that was not tried there is nothing else.
Result = dict[str, Any]


@dataclass
class Interruption:
    """Tells threads that are still fitting whether their search was interrupted."""

    happened: bool = False

    def check(self) -> None:
        if self.happened:
            raise RuntimeError("The search has ended.")


@dataclass(frozen=True)
class Budget:
    """The time that the fits of a search have, shared out evenly among those not yet begun."""

    until: float  #: by ``time.time``, which is the same in all processes
    shared_until: float  #: when these fits should end, for others to follow
    n_workers: int
    n_left: dict[tuple[int, int], int]  #: fits not begun, by first candidate of a path, and fold

    def is_over(self, fold: Fold) -> bool:
        """Whether no other fit begins. The first fold, on which all are compared, has longer."""
        return time.time() >= (self.shared_until if fold.number else self.until)

    def seconds(self, n_left: int) -> float:
        """What the next fit may take, where so many are left."""
        left = max(0.0, self.shared_until - time.time())
        return _TO_FIT * left * min(self.n_workers, n_left) / n_left


@dataclass(frozen=True)
class Search:
    """The settings of a search that all its fits have in common."""

    estimator: Any  #: not fitted
    X: Any
    y: Any
    scorer: Any
    fit_params: dict[str, Any]
    score_params: dict[str, Any]
    return_train_score: bool
    error_score: Any
    verbose: int
    memory: Any = None  #: a ``joblib.Memory`` that keeps the results of paths
    digest: str = ""  #: of all that results depend on beside paths and folds; for the memory
    interruption: Interruption = field(default_factory=Interruption)
    budget: Budget | None = None

    @property
    def scores_predictions(self) -> bool:
        """Whether the scorers look at predictions alone.

        Any other function may look at the estimator, and change the rows that it is given.
        """
        several = isinstance(self.scorer, _MultimetricScorer)
        scorers = list(self.scorer._scorers.values()) if several else [self.scorer]
        return all(isinstance(one, (_BaseScorer, _PassthroughScorer)) for one in scorers)


class Fold(NamedTuple):
    """Rows to train on and rows to score; and the number of the fold, for lines of output."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    number: int
    n_folds: int


def evaluate_paths(
    search: Search, fold: Fold, paths: Sequence[Path], n_candidates: int
) -> Iterator[tuple[Path, list[Result]]]:
    """Fit and score the candidates of paths on a fold, path by path.

    ``n_candidates``: of the search, for lines of output.
    """
    held: dict[int, _FoldRows | None] = {}

    def rows_of(path: Path) -> _FoldRows | None:
        if path.rows not in held:
            held[path.rows] = _FoldRows.of(search, fold, path.params[0])
        return held[path.rows]

    for path in paths:
        evaluate = partial(_evaluate, search, fold, rows_of, path, n_candidates)
        yield path, _kept(search, fold, path, evaluate)


def _kept(
    search: Search, fold: Fold, path: Path, evaluate: Callable[[], list[Result]]
) -> list[Result]:
    """The results of a path on a fold: from the memory, or evaluated and kept there."""
    if search.memory is None:
        return evaluate()
    key = joblib.hash((search.digest, path.params, fold.train, fold.test))
    try:
        return search.memory.cache(_without_failures, ignore=["evaluate"])(key, evaluate)
    except _FailedFitsError as failed:
        return failed.results


class _FailedFitsError(Exception):
    """Some fits of a path have failed, or there was too little time for them."""

    def __init__(self, results: list[Result]) -> None:
        super().__init__()
        self.results = results


def _without_failures(key: str, evaluate: Callable[[], list[Result]]) -> list[Result]:
    """The results of a path. Failed fits are not to be kept: their cause may pass."""
    results = evaluate()
    if any("ended" in result or result["fit_error"] is not None for result in results):
        raise _FailedFitsError(results)
    return results


class _Part(NamedTuple):
    """Training rows or test rows of a fold."""

    X: Any
    y: Any
    transformed: Any  #: X as the steps of a pipeline before the SVM make it


class _FoldRows:
    """The rows of a fold, transformed by the steps before the SVM, and the work shared by fits."""

    def __init__(self, search: Search, fold: Fold, params: dict[str, Any]) -> None:
        estimator = _candidate(search, params)
        train, y_train = _safe_split(estimator, search.X, search.y, fold.train)
        test, y_test = _safe_split(estimator, search.X, search.y, fold.test, fold.train)
        self.fit_params = _check_method_params(
            search.X, params=search.fit_params, indices=fold.train
        )
        self.steps: list[tuple[str, Any]] = []
        self.X_train, self.y_train = train, y_train  # what the SVM is fitted to
        scored_train, scored_test = train, test
        if isinstance(estimator, Pipeline):
            prefix = f"{estimator.steps[-1][0]}__"
            self.fit_params = {
                name.removeprefix(prefix): value for name, value in self.fit_params.items()
            }
            self.steps = estimator.steps[:-1]
            if self.steps:
                before = Pipeline(self.steps)
                # steps may change their input, and may transform the rows that they are fitted to
                # in another way than others
                self.X_train = before.fit_transform(_fresh(train), y_train)
                if search.return_train_score:
                    scored_train = before.transform(_fresh(train))
                scored_test = before.transform(_fresh(test))
        self.train = _Part(train, y_train, scored_train)
        self.test = _Part(test, y_test, scored_test)
        self.shared = SharedWork(in_search=True)

    @classmethod
    def of(cls, search: Search, fold: Fold, params: dict[str, Any]) -> _FoldRows | None:
        """None where fits share nothing.

        Also where a step before the SVM fails: candidates that are fitted alone have its error.
        """
        prefix, svm = svm_of(search.estimator, params)
        if svm is None or not all(name.startswith(prefix) for name in search.fit_params):
            return None
        with suppress(Exception):
            return cls(search, fold, params)
        return None


def _evaluate(
    search: Search,
    fold: Fold,
    rows_of: Callable[[Path], _FoldRows | None],
    path: Path,
    n_candidates: int,
) -> list[Result]:
    """Fit and score the candidates of a path on a fold."""
    started = time.perf_counter()
    rows = rows_of(path)
    alone = partial(_alone, search, fold, n_candidates)
    n_left = 0 if search.budget is None else search.budget.n_left[path.numbers[0], fold.number]
    if rows is None:
        each_alone = enumerate(zip(path.numbers, path.params, strict=True))
        return [alone(*one, _seconds(search, n_left - at)) for at, one in each_alone]
    prepared = time.perf_counter() - started
    prefix, _ = svm_of(search.estimator, path.params[0])
    settings = [own_params(params, prefix) for params in path.params]
    others = {
        name: value
        for name, value in path.params[0].items()
        if name.removeprefix(prefix) not in settings[0]
    }
    _, svm = svm_of(search.estimator, others)

    begun: list[dict[str, Any]] = []

    def each() -> Iterator[dict[str, Any]]:
        for params in settings:
            search.interruption.check()
            if search.budget is not None and search.budget.is_over(fold):
                return
            begun.append(params)
            yield params

    def seconds() -> float:
        return _seconds(search, n_left - len(begun) + 1)

    given = {"shared": rows.shared, "seconds": seconds, **rows.fit_params}
    fits = fit_path(svm, rows.X_train, rows.y_train, each(), **given)
    started = time.perf_counter()
    fitted = [fit.svm for fit in fits]
    scored = _evaluated(search, rows, fitted) if search.scores_predictions else fitted
    shared_time = (time.perf_counter() - started) / max(len(fits), 1)
    results: list[Result] = []
    for at, (number, params, fit) in enumerate(zip(path.numbers, path.params, fits, strict=False)):
        search.interruption.check()
        if fit.svm is None:
            results.append(alone(number, params, _seconds(search, n_left - at)))
            if results[-1]["fit_error"] is None:
                warn(f"{params} failed in a search, but not when fitted alone: please report it.")
            continue
        started = time.perf_counter()
        scores = _scores(search, fold, rows, params, scored[at])
        result = {
            "fit_error": None,
            "fit_time": fit.seconds + (prepared if at == 0 else 0.0),
            "spent": {name: fit.spent.get(what, 0.0) for what, name in SPENT.items()},
            "warned": fit.warned,
            **scores,
            "n_test_samples": len(fold.test),
            "score_time": time.perf_counter() - started + shared_time,
            **({"ended": CUT} if fit.was_cut else {}),
        }
        _say(search, fold, f"{number + 1}/{n_candidates}", params, result)
        results.append(result)
    return results + [{"ended": UNTRIED} for _ in settings[len(fits) :]]


def _seconds(search: Search, n_left: int) -> float:
    """What a fit may take, where so many are left of the search."""
    return inf if search.budget is None else search.budget.seconds(n_left)


def _candidate(search: Search, params: dict[str, Any]) -> Any:
    return clone(search.estimator).set_params(**clone(params, safe=False))


def _fresh(X: Any) -> Any:
    return X.copy() if hasattr(X, "copy") else X


def _evaluated(search: Search, rows: _FoldRows, fitted: list[Any]) -> list[Any]:
    """SVMs with their decision values at the rows to score, computed for all of them together.

    None stands for a fit that failed.
    """
    found = [None if svm is None else EvaluatedSVM(svm) for svm in fitted]
    evaluated = [one for one in found if one is not None]
    if not evaluated:
        return found
    with suppress(Exception):  # rows that cannot be predicted are an error of the score
        svm, models = evaluated[0].svm, [model_of(one.svm) for one in evaluated]
        trained_on = validated_rows(svm, rows.X_train, reset=False)
        for part in (rows.train, rows.test) if search.return_train_score else (rows.test,):
            valid = validated_rows(svm, part.transformed, reset=False)
            with_values = with_decision_values(models, trained_on, valid, svm.n_jobs)
            if with_values is not None:
                for one, model in zip(evaluated, with_values, strict=True):
                    one.evaluated.append((part.transformed, model))
    return found


def _scores(
    search: Search, fold: Fold, rows: _FoldRows, params: dict[str, Any], svm: Any
) -> dict[str, Any]:
    estimator = svm
    # where only predictions are scored, rows that went through the steps before the SVM are used
    alone = search.scores_predictions and type(search.estimator) is Pipeline
    if isinstance(search.estimator, Pipeline) and not alone:
        estimator = _candidate(search, params)
        estimator.steps = [*rows.steps, (estimator.steps[-1][0], svm)]
    scored = {"test_scores": (rows.test, fold.test)}
    if search.return_train_score:
        scored["train_scores"] = rows.train, fold.train
    found = {}
    for name, (part, numbers) in scored.items():
        given = _check_method_params(search.X, params=search.score_params, indices=numbers)
        X, y = (part.transformed if alone else part.X), part.y
        if not search.scores_predictions:  # a function that scores may change its rows
            X, y = _fresh(X), _fresh(y)
        found[name] = _score(estimator, X, y, search.scorer, given, search.error_score)
    return found


def _say(
    search: Search, fold: Fold, which: str, params: dict[str, Any], result: dict[str, Any]
) -> None:
    """Print a line about a fit, much as scikit-learn does; ``which``: of the candidates."""
    if search.verbose < 2:
        return
    where = f" {fold.number + 1}/{fold.n_folds}" if search.verbose > 2 else ""
    where += f"; {which}" if search.verbose > 9 else ""
    said = [f"{name}={params[name]}" for name in sorted(params)]
    for key in ("train_scores", "test_scores"):
        scores = result.get(key) if search.verbose > 2 else None
        for name, value in sorted((scores if isinstance(scores, dict) else {"": scores}).items()):
            said += [] if value is None else [f"{key[:-1]} {name}".rstrip() + f"={value:.3f}"]
    seconds = result["fit_time"] + result["score_time"]
    line = f"{', '.join(said)}; total time={seconds:6.1f}s"
    print(f"[CV{where}] END {line:.>{max(0, 80 - len(where) - 9)}}", flush=True)


def _alone(
    search: Search,
    fold: Fold,
    n_candidates: int,
    number: int,
    params: dict[str, Any],
    seconds: float,
) -> Result:
    """A candidate without work in common, fitted and scored by scikit-learn.

    ``seconds``: what its fit may take. An estimator of another package may take longer.
    """
    search.interruption.check()
    if search.budget is None:
        return _by_scikit_learn(search, fold, n_candidates, number, params)
    if search.budget.is_over(fold):
        return {"ended": UNTRIED}
    prefix, last = last_step(_candidate(search, params))
    limit = with_limit(last, seconds) if hasattr(last, "time_limit") else ""
    if limit:
        params = {**params, f"{prefix}time_limit": seconds}
    with kept_warnings() as warned:
        result = _by_scikit_learn(search, fold, n_candidates, number, params)
    messages = [(message, category.__name__) for message, category in warned]
    others = [one for one in messages if not (limit and one[0].startswith(limit))]
    return {**result, "warned": others, **({"ended": CUT} if len(others) < len(messages) else {})}


def _by_scikit_learn(
    search: Search, fold: Fold, n_candidates: int, number: int, params: dict[str, Any]
) -> Result:
    return _fit_and_score(
        clone(search.estimator),
        search.X,
        search.y,
        scorer=search.scorer,
        train=fold.train,
        test=fold.test,
        verbose=search.verbose,
        parameters=params,
        fit_params=search.fit_params,
        score_params=search.score_params,
        return_train_score=search.return_train_score,
        return_n_test_samples=True,
        return_times=True,
        split_progress=(fold.number, fold.n_folds),
        candidate_progress=(number, n_candidates),
        error_score=search.error_score,
    )
