"""``aesvm fit``: from a table to a model, with what a careful person would do on the way.

Some rows are held out. On the others features are scaled, and C and gamma searched for by
cross-validation, the scaling within its folds; the model of the best is trained on all of them, and
certified. It is then tested on the rows held out, which nothing before has seen.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from aesvm import AESVC, AESVR
from aesvm.command.chunks import Mapped, joined
from aesvm.command.data import DataFile, DataOptions, Rows, opened
from aesvm.command.formats import NATIVE, stem_of
from aesvm.command.held_out import HeldOutScores, tested
from aesvm.command.models import STEPS, check_model_path, note_columns
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.report import write_report
from aesvm.command.screen import Screen
from aesvm.command.writing import check_outputs
from aesvm.io.base import Chunk
from aesvm.io.model_file import save
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV
from aesvm.runtime.warn import warn

#: Whole numbers are classes where there are no more different ones.
_MOST_CLASSES = 20

#: epsilon and tol of a regression, as shares of its targets' standard deviation: the model does not
#: depend on the unit that targets are in.
_TUBE, _TOL = 0.1, 1e-3

#: Rows up to which every candidate is tried on all of them.
_HALVING = 3000

_FOLDS = 5


@dataclass(frozen=True)
class FitOptions:
    """What the command line asks of a fit."""

    task: str
    test_share: float
    search_rows: int
    seed: int
    jobs: int | None
    model: str | None
    report: str | None


class Parts(NamedTuple):
    """Rows to learn from and to search on, and rows held out."""

    search: Any  #: Rows with targets
    train: Rows | Mapped  #: in memory, or a source
    test: Any  #: chunks
    n_train: int
    n_test: int


@dataclass
class FitResult:
    """What was found, for the screen and the report."""

    data: str
    task: str
    target: str
    parts: Parts
    n_features: int
    feature_names: list[str] | None
    search: Any
    model: Pipeline
    certificate: Any
    test: HeldOutScores
    edges: str  #: what is said where the best candidate is at the edge of the grid
    files: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def fit(data: str, options: FitOptions, columns: DataOptions, screen: Screen) -> None:
    """Fit a model to a table, and write it and a report."""
    if not 0 < options.test_share < 1:
        raise UsageError(f"--test {options.test_share:g}: a share between 0 and 1 is needed.")
    model = options.model or ("model" if data == "-" else stem_of(data)) + NATIVE
    files = {"model": model, "report": options.report or str(Path(model).with_suffix(".html"))}
    check_model_path(model, [data, *columns.files])
    check_outputs([files["report"]], [data, model, *columns.files])
    with opened(data, columns) as file:
        file.note_target(columns, screen)
        found = _fitted(file, options, files, screen)
    save(found.model, files["model"])
    write_report(found, files["report"])
    _show(found, screen)


def _fitted(
    file: DataFile, options: FitOptions, files: dict[str, str], screen: Screen
) -> FitResult:
    seconds: dict[str, float] = {}
    with _timed(seconds, "read"):
        if file.is_large:
            screen.note(file.why_streamed())
            task, parts = _large_parts(file, options)
        else:
            task, parts = _parts(file.rows(), options)
    y = parts.search.y
    if task == "classification" and len(np.unique(y)) < 2:
        raise CommandError(f"{file.name}: the target has one class, {y[0]!s:.40}: two are needed.")
    if task == "classification" and len(np.unique(y)) == len(y):
        raise CommandError(
            f"{file.name}: every row has a class of its own, as {y[0]!s:.40}: name a column "
            "of classes with --target, not one that identifies rows."
        )
    n_rows, test_rows = parts.n_train + parts.n_test, f"{parts.n_test:,} held out"
    screen.note(f"{n_rows:,} rows, {file.n_features} features, {test_rows}; {task}")
    pipeline = _pipeline(task, parts.search, options.jobs)
    with _timed(seconds, "search"):
        search = _searched(pipeline, parts.search, task, options, screen)
    best = {name.removeprefix("svm__"): value for name, value in search.best_params_.items()}
    listed = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    screen.note(f"best of the candidates: {listed}")
    edges = at_edge(search)
    if edges:
        screen.note(edges)
    with _timed(seconds, "train"):
        model = clone(pipeline).set_params(**search.best_params_)
        certificate = _trained(model, parts, file, screen)
    with _timed(seconds, "test"):
        result = tested(model, parts.test, task)
    if task == "regression" and result.found()["r2"] < 0:
        warn("the model predicts the rows held out worse than the mean of their targets does")
    first = model.steps[0][1]
    note_columns(model.steps[-1][1], first, file.feature_names, file.target)
    return FitResult(
        data=file.name,
        task=task,
        target=file.target or "target",
        parts=parts,
        n_features=file.n_features,
        feature_names=file.feature_names,
        search=search,
        model=model,
        certificate=certificate,
        test=result,
        edges=edges,
        files=files,
        seconds=seconds,
    )


def task_of(y: NDArray, asked: str) -> str:
    """Whether classes or values are to be learned.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.command.fit import task_of
    >>> task_of(np.array(["cat", "dog"]), "auto"), task_of(np.array([0.5, 1.25]), "auto")
    ('classification', 'regression')
    """
    if asked != "auto":
        if asked not in ("classification", "regression"):
            raise UsageError(f"--task {asked}: auto, classification or regression is needed.")
        if asked == "regression" and y.dtype.kind not in "biuf":
            raise CommandError(f"--task regression: the target is {y[0]!s:.40}, and no number.")
        return asked
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = bool(np.isfinite(y).all()) and np.array_equal(y, np.trunc(y))
    return "classification" if whole and len(np.unique(y)) <= _MOST_CLASSES else "regression"


def _parts(rows: Rows, options: FitOptions) -> tuple[str, Parts]:
    """Rows in memory, split by chance; each class in its share."""
    y = rows.y
    assert y is not None
    task = task_of(y, options.task)
    counts = np.unique(y, return_counts=True)[1]
    stratify = y if task == "classification" and counts.min() >= 2 else None
    try:
        train, test = train_test_split(
            np.arange(len(y)),
            test_size=options.test_share,
            random_state=options.seed,
            stratify=stratify,
        )
    except ValueError as error:
        raise CommandError(f"there are too few rows to hold some out: {error}") from error
    search = train
    if len(train) > options.search_rows:
        kept = None if stratify is None else y[train]
        search = train_test_split(
            train, train_size=options.search_rows, random_state=options.seed, stratify=kept
        )[0]
    held_out = _taken(rows, test)
    return task, Parts(
        _taken(rows, search), _taken(rows, train), [Chunk(*held_out)], len(train), len(test)
    )


def _taken(rows: Rows, which: NDArray) -> Rows:
    return Rows(*(None if one is None else one[which] for one in rows))


def _large_parts(file: DataFile, options: FitOptions) -> tuple[str, Parts]:
    """Rows of a source, split by chance, and a sample of those to learn from."""

    def part(held_out: bool) -> Mapped:
        def taken(chunk: Chunk, first: int) -> Chunk:
            draws = np.random.default_rng([options.seed, first]).random(chunk.X.shape[0])
            kept = np.flatnonzero((draws < options.test_share) == held_out)
            return Chunk(*(None if one is None else one[kept] for one in chunk))

        return Mapped(file.reader, taken)

    random = np.random.default_rng(options.seed)
    n_train, held, marks = 0, Rows(None, None, None), np.empty(0)
    for chunk in part(False):
        n_train += chunk.X.shape[0]
        marks = np.concatenate([marks, random.random(chunk.X.shape[0])])
        kept = np.argsort(marks, kind="stable")[: options.search_rows]
        held = _taken(Rows(*map(joined, zip(held, chunk, strict=True))), kept)
        marks = marks[kept]
    n_test = sum(chunk.X.shape[0] for chunk in part(True))
    if not n_train or not n_test or held.y is None:
        raise CommandError(f"{file.name}: there are too few rows to hold some out.")
    return task_of(held.y, options.task), Parts(held, part(False), part(True), n_train, n_test)


def _pipeline(task: str, rows: Rows, jobs: int | None) -> Pipeline:
    scaler = MaxAbsScaler() if sp.issparse(rows.X) else StandardScaler()
    if task == "classification":
        svm: Any = AESVC(n_jobs=jobs)
    else:
        assert rows.y is not None
        spread = float(np.std(rows.y, dtype=np.float64)) or 1.0
        svm = AESVR(epsilon=_TUBE * spread, tol=_TOL * spread, n_jobs=jobs)
    return Pipeline(list(zip(STEPS, (scaler, svm), strict=True)))


def _searched(
    pipeline: Pipeline, rows: Rows, task: str, options: FitOptions, screen: Screen
) -> Any:
    y = rows.y
    assert y is not None
    folds: Any = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=options.seed)
    if task == "classification":
        counts = np.unique(y, return_counts=True)[1]
        if counts.min() >= 2:
            n_folds = min(_FOLDS, int(counts.min()))
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=options.seed)
    if len(y) > _HALVING:
        search: Any = AEHalvingGridSearchCV(
            pipeline, "svm", cv=folds, refit=False, random_state=options.seed
        )
    else:
        search = AEGridSearchCV(pipeline, "svm", cv=folds, refit=False)
    with screen.progress(search), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of candidates that are not chosen
        search.fit(rows.X, y)
    return search


def at_edge(search: Any) -> str:
    """What is said where the best candidate is at the edge of the grid; empty where it is not."""
    found = []
    for name, value in search.best_params_.items():
        tried = search.param_grid_.get(name, [])
        for end, word in ((min, "smallest"), (max, "largest")):
            if len(tried) > 1 and value == end(tried):
                found.append(f"{name.removeprefix('svm__')} is the {word} that was tried")
    return f"{' and '.join(found)}: others beyond it may do better" if found else ""


def _trained(model: Pipeline, parts: Parts, file: DataFile, screen: Screen) -> Any:
    """Train a pipeline on all rows to learn from; the certificate."""
    scaler, svm = (step for _, step in model.steps)
    with screen.progress(svm):
        if isinstance(parts.train, Rows):
            X = scaler.fit_transform(parts.train.X)
            svm.fit(X, parts.train.y, parts.train.weights)
            return svm.certify(X, parts.train.y, parts.train.weights)
        for chunk in parts.train:
            scaler.partial_fit(chunk.X)
        svm.set_params(memory_budget=int(file.limit), on_overflow="loosen")
        scaled = Mapped(parts.train, lambda chunk, _: Chunk(scaler.transform(chunk.X), *chunk[1:]))
        svm.fit_stream(scaled)
        return svm.certify_stream(scaled)


class _timed:  # noqa: N801 (a statement)
    """Note the seconds that a block takes."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: Any) -> None:
        self.seconds[self.name] = time.perf_counter() - self.began


def _lines(found: FitResult) -> Iterator[tuple[str, str]]:
    """What is shown at the end, by name."""
    for name, value in found.test.lines():
        yield name, value
    svm = found.model.steps[-1][1]
    yield "support vectors", f"{len(svm.support_):,} of {found.parts.n_train:,} rows"
    yield "certificate", found.certificate.verdict()
    yield "seconds", ", ".join(f"{name} {value:.1f}" for name, value in found.seconds.items())
    for name, path in found.files.items():
        yield name, path


def _show(found: FitResult, screen: Screen) -> None:
    if not screen.as_json:
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, box=None)
        for name, value in _lines(found):
            table.add_row(Text(name, style="cyan"), Text(value))
        title = Text(f"{found.target} of {found.data}")
        screen.show(Panel(table, title=title, expand=False))
    screen.result(
        {
            "task": found.task,
            "rows": {"train": found.parts.n_train, "test": found.parts.n_test},
            "parameters": found.search.best_params_,
            "cross_validation_score": float(found.search.best_score_),
            "test": found.test.found(),
            "exact": found.certificate.exact,
            "relative_gap": found.certificate.relative_gap,
            "support_vectors": len(found.model.steps[-1][1].support_),
            "seconds": found.seconds,
            **found.files,
        }
    )
