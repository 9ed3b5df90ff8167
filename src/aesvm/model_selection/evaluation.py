"""The candidates of a chain, fitted and scored on one fold.

What fits to the same rows share (``SharedWork``) is kept by the thread that makes them, until it
is given a chain of other rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection._validation import _fit_and_score, _score
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from aesvm.estimators.prediction import KnownRows, model_of
from aesvm.estimators.validation import validated_rows
from aesvm.machines.sharing import SharedWork
from aesvm.model_selection.chains import Chain, svm_of
from aesvm.model_selection.known import known_models
from aesvm.runtime.warn import kept_warnings

#: What ``SharedWork.spent`` counts, and the names it has in ``cv_results_``.
SPENT = {
    "partition": "partition_time",
    "sets": "set_time",
    "solve": "solve_time",
    "kernel_values": "kernel_values",
    "rows_solved": "rows_solved",
}

_own = threading.local()  # the fold that this thread has worked on last


@dataclass(frozen=True)
class Search:
    """What all fits of a search have in common."""

    estimator: Any  #: not fitted
    X: Any
    y: Any
    scorer: Any
    fit_params: dict[str, Any]
    score_params: dict[str, Any]
    return_train_score: bool
    error_score: Any
    verbose: int
    key: str  #: of this search alone

    @property
    def scorers(self) -> list[Any]:
        several = isinstance(self.scorer, _MultimetricScorer)
        return list(self.scorer._scorers.values()) if several else [self.scorer]

    @property
    def scores_predictions(self) -> bool:
        """Whether scores depend on predictions alone, and not on what else an estimator has."""
        return all(isinstance(one, (_BaseScorer, _PassthroughScorer)) for one in self.scorers)


class Fold(NamedTuple):
    """Rows to train on, and to score."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


class Said(NamedTuple):
    """What lines say of where a fit stands in its search."""

    fold: int
    n_folds: int
    n_candidates: int


class _Rows:
    """The rows of a fold, transformed by the steps before the SVM, and the work that they share."""

    def __init__(self, search: Search, fold: Fold, params: dict[str, Any]) -> None:
        estimator = clone(search.estimator).set_params(**clone(params, safe=False))
        self.train, self.y_train = _safe_split(estimator, search.X, search.y, fold.train)
        self.test, self.y_test = _safe_split(estimator, search.X, search.y, fold.test, fold.train)
        given = search.fit_params
        self.fit_params = _check_method_params(search.X, params=given, indices=fold.train)
        scoring = search.score_params
        self.score_params = [
            _check_method_params(search.X, params=scoring, indices=rows)
            for rows in (fold.train, fold.test)
        ]
        self.steps: list[tuple[str, Any]] = []
        self.own_params, self.transformed = self.fit_params, (self.train, self.test)
        if isinstance(estimator, Pipeline):
            name = estimator.steps[-1][0]
            self.own_params = {
                param.removeprefix(f"{name}__"): value for param, value in self.fit_params.items()
            }
            self.steps = estimator.steps[:-1]
            if self.steps:
                before = Pipeline(self.steps)
                train = before.fit_transform(self.train, self.y_train)
                self.transformed = train, before.transform(self.test)
        self.shared = SharedWork(in_search=True)


def can_share(search: Search, params: dict[str, Any]) -> bool:
    """Whether a candidate is of the family, and all that ``fit`` is given is for its SVM."""
    prefix, machine = svm_of(search.estimator, params)
    return machine is not None and all(name.startswith(prefix) for name in search.fit_params)


def evaluate(search: Search, fold: Fold, chain: Chain, said: Said) -> list[dict[str, Any]]:
    """Fit and score the candidates of a chain on a fold.

    Returns what scikit-learn's searches make their results of, for each of the candidates; and in
    ``"spent"`` what was spent on what, and in ``"warned"`` the warnings of fits: not of those that
    share nothing.
    """
    candidates = chain.params
    if not can_share(search, candidates[0]):
        return _alone(search, fold, chain, said)
    key = search.key, fold.train.tobytes(), fold.test.tobytes(), chain.rows_key
    started = time.perf_counter()
    try:
        rows = _rows_of(key, search, fold, candidates[0])
    except Exception:
        return _alone(search, fold, chain, said)  # each fails as it would
    results: list[dict[str, Any]] = []
    fitted: list[Any] = []
    for params in candidates:
        rows.shared.spent.clear()
        with kept_warnings() as warned:
            try:
                fitted.append(_fitted(search, rows, params))
            except Exception:
                fitted.append(None)
        now = time.perf_counter()
        spent = {name: float(rows.shared.spent[what]) for what, name in SPENT.items()}
        told = [(message, category.__name__) for message, category in warned]
        results.append(
            {"fit_error": None, "fit_time": now - started, "spent": spent, "warned": told}
        )
        started = now
    _share_values(search, rows, [one for one in fitted if one is not None])
    shared_time = (time.perf_counter() - started) / len(candidates)
    for at, (params, machine) in enumerate(zip(candidates, fitted, strict=True)):
        if machine is None:
            one = Chain(chain.numbers[at : at + 1], [params], chain.rows_key)
            (results[at],) = _alone(search, fold, one, said)
            continue
        started = time.perf_counter()
        results[at] |= _scores(search, rows, params, machine)
        results[at]["n_test_samples"] = _num_samples(rows.test)
        results[at]["score_time"] = time.perf_counter() - started + shared_time
        _say(search, said, chain.numbers[at], params, results[at])
    return results


def forget() -> None:
    """Let go of the rows that this thread has worked on."""
    vars(_own).clear()


def _rows_of(key: Hashable, search: Search, fold: Fold, params: dict[str, Any]) -> _Rows:
    if getattr(_own, "key", None) != key:
        forget()
        _own.rows, _own.key = _Rows(search, fold, params), key
    return _own.rows


def _fitted(search: Search, rows: _Rows, params: dict[str, Any]) -> Any:
    """The SVM of a candidate, fitted to transformed rows."""
    estimator = clone(search.estimator).set_params(**clone(params, safe=False))
    machine = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    machine._shared = rows.shared
    targets = () if rows.y_train is None else (rows.y_train,)
    try:
        return machine.fit(rows.transformed[0], *targets, **rows.own_params)
    finally:
        del machine._shared


def _share_values(search: Search, rows: _Rows, fitted: list[Any]) -> None:
    """Have the SVMs know their decision values at the rows that are scored."""
    if not fitted:
        return
    models = [model_of(machine) for machine in fitted]
    trained_on = validated_rows(fitted[0], rows.transformed[0], reset=False)
    parts = rows.transformed if search.return_train_score else rows.transformed[1:]
    for X in parts:
        valid = validated_rows(fitted[0], X, reset=False)
        known = known_models(models, trained_on, valid, fitted[0].n_jobs)
        for machine, model in zip(fitted, known or [], strict=False):
            machine._known = [*getattr(machine, "_known", ()), KnownRows(X, model)]


class _Transformed(TransformerMixin, BaseEstimator):
    """Takes the place of steps that have transformed the rows of a fold before."""

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows

    def transform(self, X: Any) -> Any:
        for given, transformed in zip(
            (self.rows.train, self.rows.test), self.rows.transformed, strict=True
        ):
            if X is given:
                return transformed
        return Pipeline(self.rows.steps).transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _scores(search: Search, rows: _Rows, params: dict[str, Any], machine: Any) -> dict[str, Any]:
    estimator = machine
    if isinstance(search.estimator, Pipeline):
        estimator = clone(search.estimator).set_params(**clone(params, safe=False))
        steps: list[tuple[str, Any]] = list(rows.steps)
        if rows.steps and search.scores_predictions:
            steps = [("transformed", _Transformed(rows))]
        estimator.steps = [*steps, (estimator.steps[-1][0], machine)]
    scored = {"test_scores": (rows.test, rows.y_test, rows.score_params[1])}
    if search.return_train_score:
        scored["train_scores"] = rows.train, rows.y_train, rows.score_params[0]
    return {
        name: _score(estimator, X, y, search.scorer, score_params, search.error_score)
        for name, (X, y, score_params) in scored.items()
    }


def _say(
    search: Search, said: Said, number: int, params: dict[str, Any], result: dict[str, Any]
) -> None:
    """A line about a fit, in scikit-learn's form."""
    if search.verbose < 2:
        return
    where = told = ""
    if search.verbose > 2:
        where = f" {said.fold + 1}/{said.n_folds}"
        scores = result["test_scores"]
        scores = scores if isinstance(scores, dict) else {"score": scores}
        told = " ".join(f"{name}: (test={value:.3f})" for name, value in sorted(scores.items()))
        told = f", {told.replace(': (test=', '=').rstrip(')')}" if len(scores) == 1 else f" {told}"
    if search.verbose > 9:
        where += f"; {number + 1}/{said.n_candidates}"
    values = ", ".join(f"{name}={params[name]}" for name in sorted(params))
    seconds = result["fit_time"] + result["score_time"]
    line = f"{values};{told} total time={seconds:6.1f}s"
    print(f"[CV{where}] END {line:.>{max(0, 80 - len(where) - 9)}}", flush=True)


def _alone(search: Search, fold: Fold, chain: Chain, said: Said) -> list[dict[str, Any]]:
    """Candidates that share nothing, fitted and scored as scikit-learn does it."""
    return [
        _fit_and_score(
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
            split_progress=(said.fold, said.n_folds),
            candidate_progress=(number, said.n_candidates),
            error_score=search.error_score,
        )
        for number, params in zip(chain.numbers, chain.params, strict=True)
    ]
