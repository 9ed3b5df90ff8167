"""``aesvm info``, ``certify``, ``compress`` and ``convert``: what is done with models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from aesvm import AEOneClassSVM
from aesvm.command.data import Columns, Mapped, opened
from aesvm.command.models import (
    Model,
    format_of_model,
    is_native,
    load_model,
    load_svm,
    opened_for,
    save_model,
)
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.tables import write_rows
from aesvm.io.atomic import written_whole
from aesvm.io.base import Chunk
from aesvm.io.libsvm_model import LIBSVM_TYPES

#: Classes that are listed.
_LISTED = 20

_PARAMETERS = ("C", "nu", "epsilon", "kernel", "degree", "coef0", "hull_tol", "refine")


def info(path: str, columns: Columns, screen: Screen) -> None:
    """Say what a model or data file holds."""
    if path != "-" and format_of_model(path):
        model = load_model(path)
        found = _of_set(model) if hasattr(model.svm, "weights_") else _of_model(model)
        certificate = _certificate(model.svm)
    else:
        found, certificate = _of_data(path, columns), None
    _show({"file": path, **found}, screen)
    if certificate is not None:
        screen.answer(str(certificate))
        found["certificate"] = asdict(certificate)
    screen.result({"file": path, **found})


def certify(
    model_path: str, data: str, output: str | None, columns: Columns, screen: Screen
) -> None:
    """Compute what a certificate lacks, from the rows that the model was trained on."""
    model = load_svm(model_path)
    if _certificate(model.svm) is None:
        raise CommandError(
            f"{model_path}: LIBSVM's model files do not have what a certificate is made of: train "
            "with --native."
        )
    svm = model.svm
    needs_target = not isinstance(svm, AEOneClassSVM)
    with opened_for(model, data, columns, needs_target) as file:

        def prepared(chunk: Chunk, _: int) -> Chunk:
            return Chunk(model.prepared(chunk.X), chunk.y, chunk.weights)

        with screen.progress(svm):
            if svm._stream_ is not None:
                certificate = svm.certify_stream(Mapped(file.reader, prepared))
            else:
                rows = file.rows()
                certificate = svm.certify(model.prepared(rows.X), rows.y, rows.weights)
    if output is not None:
        save_model(model.estimator, output, True)
    screen.answer(str(certificate))
    screen.result({"model": model_path, "output": output, **asdict(certificate)})


def compress(
    model_path: str,
    output: str,
    n_vectors: int | None,
    tol: float | None,
    data: str | None,
    native: bool,
    columns: Columns,
    screen: Screen,
) -> None:
    """Write a model on fewer of its support vectors."""
    if n_vectors is None and tol is None:
        raise UsageError("--vectors or --tol: how small, or how near, must be said.")
    model = load_svm(model_path)
    X = None
    if data is not None:
        with opened_for(model, data, columns) as file:
            X = model.prepared(file.rows().X)
    svm = model.svm
    with screen.progress(svm):
        small = svm.compress(n_vectors, tol=tol, X=X)
    if hasattr(svm, "target_name_"):
        small.target_name_ = svm.target_name_
    estimator = small
    if model.scalings:
        estimator = model.estimator
        estimator.steps[-1] = (estimator.steps[-1][0], small)
    native = is_native(output, native) or (model.native and bool(model.scalings))
    save_model(estimator, output, native)
    screen.line(str(small.compression_))
    screen.result({"model": output, **asdict(small.compression_)})


def convert(source: str, output: str, native: bool, columns: Columns, screen: Screen) -> None:
    """Write a model, or a data file, in another format."""
    if source != "-" and format_of_model(source):
        model = load_svm(source)
        if Path(output).suffix == ".onnx":
            _write_onnx(model, output)
            screen.line(f"{output}: a graph of ONNX")
            screen.result({"output": output, "format": "onnx"})
            return
        if model.scalings and not is_native(output, native):
            raise CommandError(
                f"{source} scales its rows, and LIBSVM's model files cannot: scale the data, by "
                "aesvm scale, and train on that."
            )
        as_native = is_native(output, native)
        save_model(model.estimator, output, as_native)
        kind = "our own" if as_native else "LIBSVM's"
        screen.line(f"{output}: a model file of {kind} format")
        screen.result({"output": output, "format": "aesvm" if as_native else "libsvm"})
        return
    with opened(source, columns, needs_target=False) as file:
        n_rows, written = write_rows(file.reader, output, file)
    screen.line(f"{', '.join(written)}: {n_rows:,} rows")
    screen.result({"output": written, "rows": n_rows})


def _write_onnx(model: Model, output: str) -> None:
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType

    from aesvm.onnx import register_converters

    register_converters()
    rows = [("X", DoubleTensorType([None, model.n_features]))]
    graph = skl2onnx.to_onnx(model.estimator, initial_types=rows)
    with written_whole(output) as file:
        file.write(graph.SerializeToString())


def _certificate(svm: Any) -> Any:
    return svm.certificate_ if hasattr(svm, "_trained_on_") else None


def _of_model(model: Model) -> dict[str, Any]:
    svm = model.svm
    found: dict[str, Any] = {
        "format": "aesvm" if model.native else "libsvm",
        "type": LIBSVM_TYPES[type(svm).__name__.removeprefix("Dask")].title,
    }
    kept = svm.get_params() if model.native else {"kernel": svm.kernel}
    found |= {name: kept[name] for name in _PARAMETERS if name in kept}
    found |= {
        "gamma": float(svm.gamma_),
        "features": model.n_features,
        "support_vectors": len(svm.support_),
    }
    if hasattr(svm, "classes_"):
        found["classes"] = svm.classes_.tolist()
        found["vectors_by_class"] = svm.n_support_.tolist()
    if model.scalings:
        found["scaling"] = ", ".join(type(one).__name__ for one in model.scalings)
    if model.feature_names:
        found["feature_names"] = model.feature_names
    if model.target:
        found["target"] = model.target
    return found


def _of_set(model: Model) -> dict[str, Any]:
    chosen = model.svm
    return {
        "format": "aesvm",
        "type": "representative set",
        "kernel": chosen.kernel,
        "gamma": float(chosen.gamma_),
        "hull_tol": chosen.hull_tol,
        "representatives": len(chosen.weights_),
        "max_residual": float(chosen.max_residual_),
    }


def _of_data(path: str, columns: Columns) -> dict[str, Any]:
    n_rows = n_values = 0
    counts: dict[Any, int] = {}
    with opened(path, columns, needs_target=False) as file:
        for X, y, _ in file.reader:
            n_rows += X.shape[0]
            n_values += int(X.count_nonzero() if hasattr(X, "nnz") else np.count_nonzero(X))
            if y is not None and len(counts) <= _LISTED:
                values, times = np.unique(y, return_counts=True)
                for value, n in zip(values.tolist(), times.tolist(), strict=True):
                    counts[value] = counts.get(value, 0) + n
        found: dict[str, Any] = {
            "format": file.format.kind,
            "rows": n_rows,
            "features": file.n_features,
            "not_zero": n_values / (n_rows * file.n_features),
            "streamed": file.is_large,
        }
        if file.feature_names:
            found["feature_names"] = file.feature_names
    if counts and len(counts) <= _LISTED:
        found["classes"] = {str(value): n for value, n in counts.items()}
    return found


def _show(found: dict[str, Any], screen: Screen) -> None:
    if screen.as_json:
        return
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, value in found.items():
        if isinstance(value, list):
            more = f", ... ({len(value)})" if len(value) > _LISTED else ""
            value = ", ".join(map(str, value[:_LISTED])) + more
        elif isinstance(value, dict):
            value = ", ".join(f"{key}: {n:,}" for key, n in value.items())
        elif isinstance(value, float):
            value = f"{value:.6g}"
        table.add_row(name.replace("_", " "), str(value))
    screen.show(table)
