"""How a search runs: candidates in paths, paths on folds handed to joblib, results put together.

It replaces the ``fit`` of scikit-learn's searches, which hands single candidates to joblib.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import check_cv
from sklearn.model_selection._validation import (
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted, check_memory

from aesvm import __version__
from aesvm.callbacks import Deadline
from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.validation import from_gpu
from aesvm.model_selection.evaluation import (
    CUT,
    SPENT,
    UNTRIED,
    Budget,
    Fold,
    Result,
    Search,
    evaluate_paths,
)
from aesvm.model_selection.paths import Path, last_step, paths_of, svm_of
from aesvm.runtime.progress import Ending, Limit, say
from aesvm.runtime.scikit_learn import SearchBase, check_search, with_callbacks
from aesvm.runtime.warn import warn

#: Seconds between two lines of progress.
_EVERY = 5.0

#: Entries of our results that scikit-learn's do not have.
_OURS = "spent", "warned", "ended"

#: The part of its time limit that a search takes; the rest is for the fit to all rows.
SEARCH_SHARE = 0.6

#: Tasks for each worker, at least: they take different times.
_TASKS_A_WORKER = 4

#: Parameters that results do not depend on.
_NO_MATTER = ("n_jobs", "verbose")


class _Task(NamedTuple):
    """A task for joblib: paths to fit and score on a fold."""

    fold: Fold
    paths: list[Path]


class SharedSearch(LinkedToDocumentation, SearchBase):
    """The ``fit`` of all searches."""

    memory: Any
    time_limit: float | None

    @with_callbacks  # of scikit-learn 1.9, _fit_context has them too
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self: Any, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any:
        """Fit all candidates on all folds, and the best of them to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows, or with ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,), default=None
            What is to be learned.
        **params : dict
            Parameters of ``fit`` of the estimator, of the scorer and of the splitter, as
            scikit-learn's searches take them.

        Returns
        -------
        self : object
        """
        own = None if self.time_limit is None else Limit(float(self.time_limit))
        scorers, refit_metric = self._get_scorers()
        X, y, params = _on_host(self.estimator, X, y, params)
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        weights = params.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        given = {"X": X, "y": y, "metadata": metadata}
        whole = self._init_callback_context(max_subtasks=1 + (self.refit is not False))
        whole.call_on_fit_task_begin(estimator=self, **given)
        deadline = _deadline_of(self, own, whole)
        self._checked_cv_orig = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        self._candidates_from(X, y)
        check_search(self, X, y, routed.splitter.split)
        self.n_splits_ = self._checked_cv_orig.get_n_splits(X, y, **routed.splitter.split)
        search = Search(
            estimator=clone(self.estimator),
            X=X,
            y=y,
            scorer=scorers,
            fit_params=routed.estimator.fit,
            score_params=routed.scorer.score,
            return_train_score=self.return_train_score,
            error_score=self.error_score,
            verbose=self.verbose,
            **_memory_of(self, X, y, routed),
        )
        until = None
        if deadline is not None:
            share = 1.0 if self.refit is False else SEARCH_SHARE
            until = time.time() + share * deadline.seconds_left(whole)
        evaluations = _Evaluations(self, search, routed.splitter.split, until)
        try:
            self._run_search(evaluations, callback_ctx=whole)
        finally:
            search.interruption.happened = True  # for threads that are still at work
        self.cv_results_ = results = evaluations.results
        self.multimetric_ = isinstance(evaluations.out[0]["test_scores"], dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(evaluations.out[0]["test_scores"])
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not evaluations.has_tried:
                self.best_index_ = evaluations.n_first // 2
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            self._refit(search, whole, given, deadline)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        whole.call_on_fit_task_end(estimator=self, **given)
        # at the end: where warnings are errors, all that was found is there
        _warn_once([one.get("warned", ()) for one in evaluations.out])
        self.cut_short_ = evaluations.cut_short()
        if self.cut_short_:
            warn(f"{deadline!r} has cut the search short: {self.cut_short_}", ConvergenceWarning)
        return self

    def _rounds_left(self: Any, n_made: int) -> int:
        """How many times candidates are evaluated from now on; ``n_made``: so far."""
        return 1

    def _refit(
        self: Any, search: Search, whole: Any, given: dict[str, Any], deadline: Deadline | None
    ) -> None:
        """Fit the best candidate to all rows, in the time that is left."""
        best = clone(search.estimator).set_params(**clone(self.best_params_, safe=False))
        self.best_estimator_ = best
        task = whole.subcontext(task_name="refit-with-best-params")
        with task.propagate_callback_context(best), _ending_at(deadline, best):
            task.call_on_fit_task_begin(estimator=self, **given)
            started = time.time()
            targets = () if search.y is None else (search.y,)
            best.fit(search.X, *targets, **search.fit_params)
            self.refit_time_ = time.time() - started
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
        task.call_on_fit_task_end(estimator=self, **given)

    def _candidates_from(self, X: Any, y: Any) -> None:
        """Set the candidates, where they are given by name."""

    def to_frame(self: Any) -> Any:
        """``cv_results_`` as a pandas frame, the best candidate first.

        After halving it begins with the candidates of the last round.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> from aesvm.model_selection import AEGridSearchCV
        >>> X, y = make_moons(300, noise=0.2, random_state=0)
        >>> search = AEGridSearchCV(AESVC(), {"C": [1, 10], "gamma": [0.5, 2.0]}).fit(X, y)
        >>> search.to_frame().shape[0]
        4
        """
        check_is_fitted(self, "cv_results_")
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas.") from error
        frame = pd.DataFrame(self.cv_results_)
        ranks = [name for name in frame.columns if name.startswith("rank_test_")]
        if not ranks:
            return frame
        if "iter" not in frame:
            return frame.sort_values(ranks[0], kind="stable")
        return frame.sort_values(["iter", ranks[0]], ascending=[False, True], kind="stable")


def _on_host(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> tuple[Any, Any, dict]:
    """Rows, targets and weights as arrays of the host, where folds are made of them.

    The first step of a pipeline gets rows as they are.
    """
    svm = svm_of(estimator, {})[1]
    if svm is None:
        return X, y, params
    rows, y, weights = from_gpu(
        svm, X if type(svm) is type(estimator) else None, y, params.get("sample_weight")
    )
    if "sample_weight" in params:
        params = {**params, "sample_weight": weights}
    return X if rows is None else rows, y, params


def _memory_of(owner: Any, X: Any, y: Any, routed: Any) -> dict[str, Any]:
    """The memory of a search, and a digest of all that its results depend on beside candidates."""
    memory = owner.memory
    if memory is None:
        return {}
    memory = check_memory(os.fspath(memory) if isinstance(memory, os.PathLike) else memory)
    estimator = clone(owner.estimator)
    names = [name for name in estimator.get_params() if name.rpartition("__")[2] in _NO_MATTER]
    estimator.set_params(**dict.fromkeys(names))
    parts = {
        "estimator": (__version__, estimator),
        "X and y": (X, y),
        "parameters of fit": (routed.estimator.fit, routed.scorer.score),
        "scoring": (owner.scoring, owner.return_train_score, repr(owner.error_score)),
    }
    digests = []
    for name, part in parts.items():
        try:
            digests.append(joblib.hash(part, coerce_mmap=True))
        except Exception as error:
            raise ValueError(
                f"memory={owner.memory!r} needs to pickle {name}, which fails: {error}. Define "
                "functions in a module, or leave memory out."
            ) from error
    return {"memory": memory, "digest": "-".join(digests)}


@dataclass
class _Evaluations:
    """All evaluations of one search; scikit-learn's ``_run_search`` calls it with candidates."""

    owner: Any
    search: Search
    split_params: dict[str, Any]
    until: float | None = None  #: when they end, by ``time.time``
    n_first: int = 0  #: candidates of the first call
    out: list[Result] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, list] = field(default_factory=lambda: defaultdict(list))
    results: dict[str, Any] = field(default_factory=dict)

    def __call__(
        self,
        candidate_params: Iterable[dict[str, Any]],
        cv: Any = None,
        more_results: dict[str, list] | None = None,
        callback_ctx: Any = None,
    ) -> dict[str, Any]:
        """Evaluate candidates on all folds; returns the results of all so far."""
        owner, search = self.owner, self.search
        candidates = list(candidate_params)
        splitter = cv or owner._checked_cv_orig
        splits = list(splitter.split(search.X, search.y, **self.split_params))
        folds = [
            Fold(_numbers(train), _numbers(test), number, len(splits))
            for number, (train, test) in enumerate(splits)
        ]
        if len(folds) != owner.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. "
                f"Expected {owner.n_splits_} splits, got {len(folds)}"
            )
        if not candidates or not folds:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no candidates?"
            )
        if owner.verbose > 0:
            print(
                f"Fitting {len(folds)} folds for each of {len(candidates)} candidates, totalling "
                f"{len(folds) * len(candidates)} fits",
                flush=True,
            )
        n_rounds = owner._rounds_left((more_results or {"iter": [0]})["iter"][0])
        out = self._evaluated(candidates, folds, callback_ctx, n_rounds)
        self.n_first = self.n_first or len(candidates)
        _complete(out, len(folds), search)
        _warn_or_raise_about_fit_failures(out, owner.error_score)
        if callable(owner.scoring):
            _insert_error_scores(out, owner.error_score)
        self.candidates += candidates
        self.out += out
        for name, values in (more_results or {}).items():
            self.more[name] += values
        plain = [{k: v for k, v in one.items() if k not in _OURS} for one in self.out]
        with warnings.catch_warnings():
            if any(one.get("ended") == UNTRIED for one in self.out):
                warnings.filterwarnings("ignore", message="One or more of the t")  # are not finite
            self.results = owner._format_results(self.candidates, len(folds), plain, self.more)
        _without_untried(self.results, self._ended)
        if any("spent" in one for one in self.out):
            self.results |= _spent(self.out, len(folds))
        return self.results

    @property
    def _ended(self) -> NDArray:
        """How each candidate has ended on each fold: "", ``CUT`` or ``UNTRIED``."""
        ended = np.array([one.get("ended", "") for one in self.out])
        return ended.reshape(-1, self.owner.n_splits_)

    @property
    def has_tried(self) -> bool:
        """Whether a candidate was tried."""
        return bool((self._ended != UNTRIED).any())

    def cut_short(self) -> str:
        """What there was too little time for; empty where there was enough."""
        ended, n_first = self._ended, self.n_first
        untried, n_cut = (ended == UNTRIED).all(axis=1), int((ended == CUT).sum())
        fewer_folds = int(((ended == UNTRIED).any(axis=1) & ~untried).sum())
        if not (untried.any() or n_cut or fewer_folds):
            return ""
        found = []
        if fewer_folds:
            found.append(f"{fewer_folds:,} candidates were not tried on all folds")
        if n_cut:
            found.append(f"{n_cut:,} of {ended.size:,} fits ended early")
        if untried[:n_first].any():
            found.append(f"{untried[:n_first].sum():,} of {n_first:,} candidates were not tried")
        if untried[n_first:].any():
            found.append(f"{untried[n_first:].sum():,} candidates were not tried again with more")
        best = "the best of the candidates that were tried"
        if not self.has_tried:
            best = "the one in the middle of the grid"
        advice = "Raise the limit, or take fewer candidates, folds or rows."
        return f"{', '.join(found)}. best_params_ is {best}. {advice}"

    def _evaluated(
        self,
        candidates: list[dict[str, Any]],
        folds: list[Fold],
        context: Any,
        n_rounds: int,
    ) -> list[Result]:
        """The results of all candidates, each on all folds; ``n_rounds`` share the time left."""
        found: dict[tuple[int, int], Result] = {}
        progress = _SearchProgress(self.owner, context, len(candidates) * len(folds))
        n_workers = joblib.effective_n_jobs(self.owner.n_jobs)
        paths = paths_of(self.search.estimator, candidates)
        search = self.search
        if self.until is None:
            tasks = _tasks(paths, folds, n_workers)
        else:
            # a grid is tried from its middle, and what was tried before from the best on
            order = _from_the_middle(len(paths))
            if self.out:
                order = sorted(order, key=lambda at: -max(paths[at].numbers))
            together = [[paths[at] for at in order]]
            if n_workers > 1:
                together = [[path] for path in together[0]]
            tasks = [_Task(fold, some) for fold in folds for some in together]
            now = time.time()
            shared_until = now + (self.until - now) / n_rounds
            budget = Budget(self.until, shared_until, n_workers, _fits_left(tasks))
            search = replace(search, budget=budget)
        each = _each(self.owner, search, tasks, len(candidates), n_workers)
        for fold, path, results in each:
            for number, result in zip(path.numbers, results, strict=True):
                found[number, fold] = result
            progress.done(len(results))
        return [
            found[number, fold] for number in range(len(candidates)) for fold in range(len(folds))
        ]


def _each(
    owner: Any, search: Search, tasks: list[_Task], n_candidates: int, n_workers: int
) -> Iterator[tuple[int, Path, list[Result]]]:
    """The results of every path on every fold, as they come."""
    if n_workers > 1:
        work = (delayed(_evaluate)(search, task, n_candidates) for task in tasks)
        for number, evaluated in _parallel(owner)(work):
            for path, results in evaluated:
                yield number, path, results
        return
    for fold, paths in tasks:
        for path, results in evaluate_paths(search, fold, paths, n_candidates):
            yield fold.number, path, results


def _parallel(owner: Any) -> Any:
    options = {"n_jobs": owner.n_jobs, "pre_dispatch": owner.pre_dispatch}
    try:
        return Parallel(**options, return_as="generator_unordered")
    except ValueError:  # a backend that gives results all at once
        return Parallel(**options)


def _from_the_middle(n: int) -> list[int]:
    """Numbers below n, in an order whose beginnings are spread evenly over all of them."""
    found, parts = [], [(0, n)]
    for begin, end in parts:  # which grow meanwhile
        if begin < end:
            middle = (begin + end) // 2
            found.append(middle)
            parts += [(begin, middle), (middle + 1, end)]
    return found


def _fits_left(tasks: list[_Task]) -> dict[tuple[int, int], int]:
    """How many fits there are from a path on, by its first candidate and fold."""
    left, n_left = {}, 0
    for fold, paths in reversed(tasks):
        for path in reversed(paths):
            n_left += len(path.numbers)
            left[path.numbers[0], fold.number] = n_left
    return left


def _complete(out: list[Result], n_folds: int, search: Search) -> None:
    """Give fits that were not tried the results that scikit-learn expects.

    Candidates are compared on the folds on which all were tried, or else on the first: on others
    they get their own means, by which these do not change. A candidate that was not tried there has
    no score.
    """
    untried = np.array([one.get("ended") == UNTRIED for one in out]).reshape(-1, n_folds)
    if not untried.any():
        return
    used = np.flatnonzero(~untried.any(axis=0))
    used = used if len(used) else np.zeros(1, dtype=int)
    several = isinstance(search.scorer, _MultimetricScorer)
    nothing: Any = dict.fromkeys(search.scorer._scorers, np.nan) if several else np.nan
    for number, missing in enumerate(untried):
        own = [out[number * n_folds + fold] for fold in used]
        is_tried = not missing[used].any()
        other: Result = {"ended": UNTRIED, "fit_error": None, "n_test_samples": 0}
        for name in ("fit_time", "score_time"):
            other[name] = _mean([one[name] for one in own]) if is_tried else 0.0
        for name in ("test_scores", "train_scores")[: 1 + search.return_train_score]:
            other[name] = _mean([one[name] for one in own]) if is_tried else nothing
        for fold in range(n_folds):
            if fold not in used or not is_tried:
                out[number * n_folds + fold] = other


def _mean(values: list[Any]) -> Any:
    """The mean of numbers, or of those of each name."""
    if isinstance(values[0], dict):
        return {name: float(np.mean([one[name] for one in values])) for name in values[0]}
    return float(np.mean(values))


def _without_untried(results: dict[str, Any], ended: NDArray) -> None:
    """Take scores of folds that were not tried out of ``cv_results_``."""
    untried = ended == UNTRIED
    if not untried.any():
        return
    for name in [name for name in results if name.startswith("std_t")]:
        splits = [f"split{fold}_{name.removeprefix('std_')}" for fold in range(untried.shape[1])]
        if splits[0] not in results:
            continue
        scores = np.where(untried, np.nan, np.column_stack([results[one] for one in splits]))
        for split, column in zip(splits, scores.T, strict=True):
            results[split] = column
        is_tried = ~untried.all(axis=1)
        results[name][is_tried] = np.nanstd(scores[is_tried], axis=1)


def _deadline_of(owner: Any, own: Limit | None, context: Any) -> Deadline | None:
    """When a search is to end: by its ``time_limit``, or by a callback such as ``TimeLimit``."""
    ending = Ending([*context._callbacks, *([] if own is None else [own])])
    if not ending.limits:
        return None
    first = min(ending.limits, key=lambda one: one.seconds_left(context))
    return Deadline(first.seconds_left(context), repr(first))


@contextmanager
def _ending_at(deadline: Deadline | None, estimator: Any) -> Iterator[None]:
    """Have a deadline end a fit, where it can be ended."""
    _, last = last_step(estimator)
    if deadline is None or not hasattr(last, "time_limit"):
        yield
        return
    before = getattr(last, "_skl_callbacks", [])
    last.set_callbacks(*before, deadline)
    try:
        yield
    finally:
        last.set_callbacks(*before)


def _tasks(paths: list[Path], folds: list[Fold], n_workers: int) -> list[_Task]:
    """Paths on folds. Those of the same rows are together, unless workers would be idle."""
    by_rows: dict[int, list[Path]] = defaultdict(list)
    for path in paths:
        by_rows[path.rows].append(path)
    n_parts = 1
    if n_workers > 1:
        n_parts = -(-_TASKS_A_WORKER * n_workers // (len(folds) * len(by_rows)))
    return [
        _Task(fold, part)
        for fold in folds
        for together in by_rows.values()
        for part in (together[at::n_parts] for at in range(n_parts))
        if part
    ]


def _evaluate(
    search: Search, task: _Task, n_candidates: int
) -> tuple[int, list[tuple[Path, list[Result]]]]:
    """Evaluate the paths of a task: the function that joblib calls."""
    found = list(evaluate_paths(search, task.fold, task.paths, n_candidates))
    return task.fold.number, found


def _numbers(rows: Any) -> Any:
    """Row numbers, from the numbers or the mask of a splitter."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _warn_once(warned: list[Any]) -> None:
    """Give each kind of warning of the fits once, in the words of the first."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for of_fit in warned:
        for message, category in of_fit:
            kind = re.sub(r"[0-9][0-9.,e+-]*", "#", message), category
            kinds.setdefault(kind, []).append(message)
    for (_, category), messages in kinds.items():
        named = ConvergenceWarning if category == ConvergenceWarning.__name__ else UserWarning
        fits = f"{len(messages):,} of {len(warned):,} fits"
        warn(f"{messages[0]} ({fits} of the search warn of this.)", named)


def _spent(out: list[dict[str, Any]], n_splits: int) -> dict[str, Any]:
    """Seconds and counts of the fits, as columns of ``cv_results_``."""
    columns = {}
    for name in SPENT.values():
        counted = [one.get("spent", {}).get(name, 0.0) for one in out]
        values = np.array(counted, dtype=float).reshape(-1, n_splits)  # None is NaN
        columns[f"mean_{name}"] = values.mean(axis=1)
        columns[f"std_{name}"] = values.std(axis=1)
    return columns


class _SearchProgress:
    """Reports progress to callbacks and in lines of output: one step for every fit."""

    def __init__(self, owner: Any, context: Any, n_steps: int) -> None:
        self.owner = owner
        self.context = context
        self.n_steps = n_steps
        self.n_done = 0
        self.started = self.last_line = time.perf_counter()

    def done(self, n_fits: int) -> None:
        """Some more fits are done."""
        for step in range(self.n_done, self.n_done + n_fits):
            if self.context is not None:
                task = self.context.subcontext(task_name="candidate-split-evaluation", task_id=step)
                task.call_on_fit_task_begin(estimator=self.owner)
                task.call_on_fit_task_end(estimator=self.owner)
        self.n_done += n_fits
        now = time.perf_counter()
        if self.owner.verbose and (now - self.last_line > _EVERY or self.n_done == self.n_steps):
            self.last_line = now
            left = (now - self.started) * (self.n_steps - self.n_done) / self.n_done
            say(
                self.owner,
                f"{self.n_done:,} of {self.n_steps:,} fits, about {left:.0f} s left",
            )
