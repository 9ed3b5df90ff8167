"""``aesvm compress``: a model on fewer of its support vectors."""

from __future__ import annotations

from dataclasses import asdict

from aesvm.command.data import DataOptions
from aesvm.command.models import check_model_path, is_native, load_svm, opened_for, save_model
from aesvm.command.outcome import UsageError
from aesvm.command.screen import Screen


def compress(
    model_path: str,
    output: str,
    n_vectors: int | None,
    tol: float | None,
    data: str | None,
    native: bool,
    columns: DataOptions,
    screen: Screen,
) -> None:
    """Write a model on fewer of its support vectors."""
    if n_vectors is None and tol is None:
        raise UsageError("--max-vectors or --tol: how small, or how near, must be said.")
    check_model_path(output, [model_path, data, *columns.files])
    model = load_svm(model_path)
    X = None
    if data is not None:
        with opened_for(model, data, columns) as file:
            X = model.prepared(file.rows().X)
    svm = model.svm
    with screen.progress(svm):
        small = svm.compress(n_vectors, tol=tol, X=X)
    estimator = small
    if model.scalings:
        estimator = model.estimator
        estimator.steps[-1] = (estimator.steps[-1][0], small)
    native = is_native(output, native) or (model.native and bool(model.scalings))
    save_model(estimator, output, native)
    screen.line(small.compression_.in_words(of_unit_length=svm.kernel == "rbf"))
    screen.result({"model": output, **asdict(small.compression_)})
