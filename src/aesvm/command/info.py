"""``aesvm info``: what a model or data file holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from aesvm.command.data import DataOptions, opened
from aesvm.command.formats import ONNX, format_of_model, suffix_of
from aesvm.command.labels import label_text
from aesvm.command.models import Model, certificate_of, load_model
from aesvm.command.outcome import CommandError, as_flags
from aesvm.command.screen import Screen
from aesvm.io.base import BadLineError
from aesvm.io.libsvm_model import LIBSVM_TYPES

#: Classes that are listed.
_LISTED = 20

#: What is said of a column that cannot be a feature.
_WRONG = re.compile(
    r"column '?(?P<name>.+?)'?:? (?P<what>is empty|has missing values|"
    r"('.*' )?is not a( finite)? number|is of type .* where numbers are needed)"
)

_LACKING = ("is empty", "has missing values")

_PARAMETERS = ("C", "nu", "epsilon", "kernel", "degree", "coef0", "hull_tol", "refine")


def info(path: str, columns: DataOptions, screen: Screen) -> None:
    """Say what a model or data file holds."""
    if path != "-" and format_of_model(path):
        model = load_model(path)
        found = _of_set(model) if hasattr(model.svm, "weights_") else _of_model(model)
        certificate = certificate_of(model.svm)
    elif suffix_of(path) == ONNX and columns.format is None:
        found, certificate = _of_graph(path), None
    else:
        found, certificate = _of_table(path, columns), None
    _show({"file": path, **found}, screen)
    if certificate is not None:
        screen.answer(as_flags(str(certificate)))
        found["certificate"] = certificate.as_dict()
    screen.result({"file": path, **found})


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


def _of_graph(path: str) -> dict[str, Any]:
    """A graph of ONNX, and what goes in and out where the library is there that reads it."""
    if not Path(path).is_file():
        raise CommandError(f"{path}: there is no such file.")
    found: dict[str, Any] = {"format": "onnx", "type": "graph of ONNX, for onnxruntime"}
    try:
        import onnx
    except ImportError:
        return found
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # of protobuf, which has its own
        raise CommandError(f"{path}: this is no graph of ONNX.") from error
    return found | {
        "inputs": [one.name for one in graph.input],
        "outputs": [one.name for one in graph.output],
    }


def _of_table(path: str, columns: DataOptions) -> dict[str, Any]:
    """A data file; columns of a table that cannot be features are named, and left out."""
    text: list[str] = []
    incomplete: list[str] = []
    while True:
        left_out = (*columns.ignore, *text, *incomplete)
        try:
            found = _of_data(path, columns._replace(ignore=left_out))
            break
        except (BadLineError, CommandError) as error:
            wrong = _WRONG.search(str(error))
            if path == "-" or wrong is None or wrong["name"] in (*left_out, columns.target):
                raise  # what is not a matter of one column, or of one that is to be learned
            (incomplete if wrong["what"] in _LACKING else text).append(wrong["name"])
    if text:
        found["columns_of_text"] = text
    if incomplete:
        found["columns_that_lack_values"] = incomplete
    return found


def _of_data(path: str, columns: DataOptions) -> dict[str, Any]:
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
            "not_zero": n_values / max(1, n_rows * file.n_features),
            "streamed": file.is_large,
        }
        if file.feature_names:
            found["feature_names"] = file.feature_names
    if counts and len(counts) <= _LISTED:
        found["classes"] = {label_text(value): n for value, n in counts.items()}
    return found


def _show(found: dict[str, Any], screen: Screen) -> None:
    if screen.as_json:
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    for name, value in found.items():
        if name == "not_zero":
            name, value = "values that are not zero", f"{value:.1%}"
        elif isinstance(value, bool):
            if not value:
                continue
            value = "yes"
        elif isinstance(value, list):
            more = f" and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
            value = ", ".join(map(label_text, value[:_LISTED])) + more
        elif isinstance(value, dict):
            value = ", ".join(f"{key}: {n:,}" for key, n in value.items())
        elif isinstance(value, float):
            value = f"{value:.6g}"
        table.add_row(name.replace("_", " "), Text(str(value)))
    screen.show(table)
