"""``aesvm fit``: a tested model of a table.

Some rows are held out. The columns of the others are prepared by their types. A cross-validation,
whose folds include the preparation, chooses C and gamma. With these the model is trained on all
rows that were not held out, and certified. It is then tested on the rows held out, which no step
before has seen.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    train_test_split,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from aesvm.callbacks import Deadline
from aesvm.command.data import (
    Changed,
    DataFile,
    DataOptions,
    FrameReader,
    Wanted,
    opened,
)
from aesvm.command.formats import NATIVE, check_outputs, stem_of, suffix_of
from aesvm.command.models import check_model_path, checked_device, note_columns
from aesvm.command.report import HeldOut, at_edge, write_report
from aesvm.command.screen import CommandError, Screen, UsageError
from aesvm.command.train import class_weights, leave_out_unknown
from aesvm.io import Chunk
from aesvm.io.base import joined
from aesvm.io.model_file import save
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV
from aesvm.model_selection.shared_search import SEARCH_SHARE
from aesvm.runtime.warn import warn
from aesvm.tabular import Column, describe_columns, pipeline_of, svm_for, task_of, warnings_of

#: Rows up to which every candidate is tried on all of them.
_HALVING = 3000

_FOLDS = 5


class Parts(NamedTuple):
    """Rows to learn from and to search on, and rows held out."""

    search: Chunk
    groups: NDArray | None  #: of the rows to search on
    train: Any  #: one chunk in memory, or a source of chunks
    test: Any  #: a re-iterable of chunks
    n_train: int
    n_test: int


@dataclass
class FitResult:
    """What was found, for the screen and the report."""

    data: str
    task: str
    target: str
    parts: Parts
    columns: list[Column]  #: of a table
    scoring: str | None
    search: Any
    model: Pipeline
    certificate: Any
    test: HeldOut
    folded: tuple[NDArray, NDArray] | None  #: targets, decision values out of fold, of two classes
    files: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)


def fit(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Fit a model to a table, and write it and a report."""
    _check(options)
    checked_device(options.device)
    data = options.data
    model = options.output or ("model" if data == "-" else stem_of(data)) + NATIVE
    files = {"model": model, "report": options.report or str(Path(model).with_suffix(".html"))}
    check_model_path(model, [data, *columns.files])
    if suffix_of(model) == ".model":
        raise UsageError(f"{model}: LIBSVM's format has no columns of a table: use {NATIVE}.")
    if options.group is not None and columns.features is not None:
        columns = columns._replace(features=list(dict.fromkeys([*columns.features, options.group])))
    check_outputs([files["report"]], [data, model, *columns.files])
    with opened(data, columns, Wanted(text=[])) as file:
        file.note_target(columns, screen)
        found = _fitted(file, options, files, screen)
    save(found.model, files["model"])
    write_report(found, files["report"])
    _show(found, screen)


def _check(options: Any) -> None:
    if not 0 < options.test < 1:
        raise UsageError(f"--test {options.test:g}: a fraction between 0 and 1 is needed.")
    if options.task not in ("auto", "classification", "regression"):
        raise UsageError(f"--task {options.task}: auto, classification or regression is needed.")
    class_weights(options.class_weight)
    try:
        get_scorer(options.scoring or "accuracy")
    except ValueError as error:
        listed = ", ".join(get_scorer_names())
        raise UsageError(f"--scoring {options.scoring}: one of {listed} is needed.") from error


def _fitted(file: DataFile, options: Any, files: dict[str, str], screen: Screen) -> FitResult:
    seconds: dict[str, float] = {}
    began = time.monotonic()
    with _timed(seconds, "read"):
        if file.is_large:
            screen.note(file.why_streamed())
            parts = _large_parts(file, options)
        else:
            parts = _parts(file, options)
    y = parts.search.y
    assert y is not None
    task = task_of(y, options.task)
    if task == "classification":
        _check_classes(y, file.name)
    n_rows, test_rows = parts.n_train + parts.n_test, f"{parts.n_test:,} held out"
    screen.note(f"{n_rows:,} rows, {parts.search.X.shape[1]} columns, {test_rows}; {task}")
    known = parts.train if isinstance(parts.train, Chunk) else parts.search
    described, pipeline = _pipeline(known, options)
    for message in warnings_of(described):
        warn(message)
    leave_out_unknown(y, pipeline[-1])
    with _timed(seconds, "search"):
        search = _searched(pipeline, parts, task, options, screen, began)
    best = {name.removeprefix("svm__"): value for name, value in search.best_params_.items()}
    screen.note("best: " + ", ".join(f"{name} {value:.4g}" for name, value in best.items()))
    if edges := at_edge(search):
        screen.note(edges)
    model = clone(pipeline).set_params(**search.best_params_)
    with _timed(seconds, "train"):
        deadline = None
        if options.time_limit is not None:
            # what the search left, and its own part where the search took longer than it was to
            left = options.time_limit - (time.monotonic() - began)
            least = (1.0 - SEARCH_SHARE) * options.time_limit
            deadline = Deadline(max(left, least), f"--time-limit {options.time_limit:g}")
        certificate = _trained(model, parts, file, screen, deadline)
    with _timed(seconds, "test"):
        result = HeldOut.of(model[-1], _prepared(model, iter(parts.test)))
        folded = _out_of_fold(clone(model), parts, result, search.cv)
    if task == "regression" and result.found()["r2"] < 0:
        warn("the model predicts the rows held out worse than the mean of their targets does")
    note_columns(model[-1], model[0], file.feature_names, file.target)
    return FitResult(
        data=file.name,
        task=task,
        target=file.target or "target",
        parts=parts,
        columns=described,
        scoring=options.scoring,
        search=search,
        model=model,
        certificate=certificate,
        test=result,
        folded=folded,
        files=files,
        seconds=seconds,
    )


def _check_classes(y: NDArray, name: str) -> None:
    n_classes = len(np.unique(y))
    if n_classes < 2:
        raise CommandError(f"{name}: the target has one class, {y[0]!s:.40}: two are needed.")
    if n_classes == len(y):
        raise CommandError(
            f"{name}: every row has another class, such as {y[0]!s:.40}: name a column of classes "
            "with --target, not one that identifies rows."
        )


def _parts(file: DataFile, options: Any) -> Parts:
    """Rows in memory, split at random, classes in proportion and groups as a whole."""
    whole = file.reader.whole() if isinstance(file.reader, FrameReader) else file.rows()
    groups = None
    if options.group is not None:
        whole, groups = _without_group(whole, options.group, file)
    y, every = np.asarray(whole.y), np.arange(whole.X.shape[0])
    split = {"test_size": options.test, "random_state": options.seed}
    is_classes = task_of(y, options.task) == "classification"
    stratify = is_classes and np.unique(y, return_counts=True)[1].min() >= 2
    try:
        if groups is not None:
            train, test = next(GroupShuffleSplit(1, **split).split(every, groups=groups))
        else:
            train, test = train_test_split(every, stratify=y if stratify else None, **split)
    except ValueError as error:
        raise CommandError(f"there are too few rows to hold some out: {error}") from error
    search = train
    if len(train) > options.search_rows:
        kept = y[train] if stratify and groups is None else None
        search = train_test_split(
            train, train_size=options.search_rows, random_state=options.seed, stratify=kept
        )[0]
    return Parts(
        whole.rows(search),
        None if groups is None else groups[search],
        whole.rows(train),
        [whole.rows(test)],
        len(train),
        len(test),
    )


def _without_group(whole: Any, group: str, file: DataFile) -> tuple[Chunk, NDArray]:
    if not hasattr(whole.X, "columns") or group not in whole.X.columns:
        raise UsageError(f"--group {group}: there is no such column in {file.name}.")
    groups = whole.X[group].factorize()[0]
    return Chunk(whole.X.drop(columns=group), whole.y, whole.weights), groups


def _large_parts(file: DataFile, options: Any) -> Parts:
    """Rows of a source, split at random, and a sample of those to learn from."""
    if options.group is not None:
        raise UsageError(f"--group needs all rows in memory, and {file.why_streamed()}.")

    def part(held_out: bool) -> Changed:
        def taken(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
            random = np.random.default_rng(options.seed)
            for chunk in chunks:
                draws = random.random(chunk.X.shape[0])
                yield chunk.rows(np.flatnonzero((draws < options.test) == held_out))

        return Changed(file.reader, taken)

    random = np.random.default_rng([options.seed, 1])
    n_train, marks = 0, np.empty(0)
    sample: list[Chunk] = []
    for chunk in part(False):
        n_train += chunk.X.shape[0]
        marks = np.concatenate([marks, random.random(chunk.X.shape[0])])
        kept = np.argsort(marks, kind="stable")[: options.search_rows]
        sample = [joined([*sample, chunk]).rows(kept)]
        marks = marks[kept]
    n_test = sum(chunk.X.shape[0] for chunk in part(True))
    if not n_train or not n_test:
        raise CommandError(f"{file.name}: there are too few rows to hold some out.")
    (held,) = sample
    if isinstance(file.reader, FrameReader):  # a column has one type in all chunks from here on
        file.reader.text = [name for name, kind in held.X.dtypes.items() if kind.kind not in "iuf"]
        texts = held.X[file.reader.text].astype(object).map(str, na_action="ignore")
        held = held._replace(X=held.X.assign(**texts))
    return Parts(held, None, part(False), part(True), n_train, n_test)


def _pipeline(rows: Chunk, options: Any) -> tuple[list[Column], Pipeline]:
    """What becomes of the columns of a table, and the pipeline; other rows are scaled."""
    X, y = rows.X, rows.y
    parameters: dict[str, Any] = {"device": options.device, "n_jobs": options.jobs}
    if task_of(y, options.task) == "classification":
        parameters["class_weight"] = class_weights(options.class_weight)
    elif options.class_weight:
        raise UsageError("--class-weight: the target has values, and no classes.")
    if not hasattr(X, "columns"):
        scaler = MaxAbsScaler() if sp.issparse(X) else StandardScaler()
        return [], Pipeline([("scale", scaler), ("svm", svm_for(y, options.task, **parameters))])
    name = "target"
    while name in X.columns:
        name += "_"
    described = describe_columns(X.assign(**{name: y}), name)
    return described, pipeline_of(described, y, options.task, **parameters)


def _folds(y: NDArray, task: str, groups: NDArray | None, seed: int) -> Any:
    if groups is not None:
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            raise CommandError("--group: two groups are needed at least, besides those held out.")
        return GroupKFold(min(_FOLDS, n_groups))
    n_folds = min(_FOLDS, len(y))
    if task == "classification":
        least = int(np.unique(y, return_counts=True)[1].min())
        if least >= 2:
            return StratifiedKFold(min(_FOLDS, least), shuffle=True, random_state=seed)
    return KFold(n_folds, shuffle=True, random_state=seed)


def _searched(
    pipeline: Pipeline, parts: Parts, task: str, options: Any, screen: Screen, began: float
) -> Any:
    X, y, _ = parts.search
    assert y is not None
    limit = options.time_limit
    if limit is not None:
        limit = max(0.0, SEARCH_SHARE * limit - (time.monotonic() - began))
    given: dict[str, Any] = {
        "cv": _folds(y, task, parts.groups, options.seed),
        "scoring": options.scoring,
        "refit": False,
        "time_limit": limit,
    }
    if len(y) > _HALVING:
        given["random_state"] = options.seed
        search: Any = AEHalvingGridSearchCV(pipeline, "svm", **given)
    else:
        search = AEGridSearchCV(pipeline, "svm", **given)
    with screen.progress(search), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of candidates that are not chosen
        search.fit(X, y, **({} if parts.groups is None else {"groups": parts.groups}))
    if np.isnan(search.best_score_) and not search.cut_short_:
        raise CommandError(_why_no_score(y, task, options.scoring))
    if search.cut_short_:
        flags = "raise --time-limit, or lower --search-rows"
        screen.note(f"the time limit has cut the search short ({flags}): {search.cut_short_}")
    return search


def _why_no_score(y: NDArray, task: str, scoring: str | None) -> str:
    """Why no candidate has a score in all folds."""
    if task == "classification":
        classes, counts = np.unique(y, return_counts=True)
        if counts.min() < 2:
            name = classes[np.argmin(counts)]
            return f"class {name!s:.40} has one row to learn from: two are needed to search."
    return f"--scoring {scoring}: it could not be computed for any candidate."


def _trained(
    model: Pipeline, parts: Parts, file: DataFile, screen: Screen, deadline: Deadline | None
) -> Any:
    """Train a pipeline on all rows to learn from; the certificate."""
    svm = model[-1]
    if deadline is not None:
        svm.set_callbacks(deadline)
    try:
        with screen.progress(svm):
            if isinstance(parts.train, Chunk):
                X, y, weights = parts.train
                X = model[:-1].fit_transform(X)
                svm.fit(X, y, weights)
                return svm.certify(X, y, weights)
            model[:-1].fit(parts.search.X)
            svm.set_params(memory_budget=int(file.limit), on_overflow="loosen")
            prepared = Changed(parts.train, partial(_prepared, model))
            svm.fit_stream(prepared)
            return svm.certify_stream(prepared)
    finally:
        svm.set_callbacks()


def _prepared(model: Pipeline, chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
    """Chunks as the SVM takes them."""
    for X, y, weights in chunks:
        yield Chunk(model[:-1].transform(X), y, weights)


def _out_of_fold(
    model: Pipeline, parts: Parts, test: HeldOut, folds: Any
) -> tuple[NDArray, NDArray] | None:
    """Targets and decision values of rows that the model which gives them has not seen."""
    X, y, _ = parts.search
    if test.values is None or isinstance(folds, KFold):  # classes too rare for every fold
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = cross_val_predict(
            model, X, y, cv=folds, groups=parts.groups, method="decision_function"
        )
    assert test.classes is not None
    return y == test.classes[1], values


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Note the seconds that a block takes."""
    began = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - began


def _lines(found: FitResult) -> Iterator[tuple[str, str]]:
    """What is shown at the end, by name."""
    yield from found.test.lines()
    yield "support vectors", f"{len(found.model[-1].support_):,} of {found.parts.n_train:,} rows"
    yield "certificate", found.certificate.verdict()
    yield "seconds", ", ".join(f"{name} {value:.1f}" for name, value in found.seconds.items())
    yield from found.files.items()


def _show(found: FitResult, screen: Screen) -> None:
    screen.table(_lines(found), f"{found.target} of {found.data}")
    score = found.search.best_score_
    screen.result(
        {
            "task": found.task,
            "rows": {"train": found.parts.n_train, "test": found.parts.n_test},
            "columns": {one.name: one.treatment for one in found.columns},
            "parameters": found.search.best_params_,
            "cross_validation_score": None if np.isnan(score) else float(score),
            "test": found.test.found(),
            "exact": found.certificate.exact,
            "relative_gap": found.certificate.relative_gap,
            "support_vectors": len(found.model[-1].support_),
            "seconds": found.seconds,
            **found.files,
        }
    )
