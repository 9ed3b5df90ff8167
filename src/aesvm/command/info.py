"""``aesvm info``: what a model or data file holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from aesvm.command.data import DataOptions, Wanted, opened
from aesvm.command.formats import format_of_model
from aesvm.command.labels import label_text
from aesvm.command.models import Model, load_model
from aesvm.command.screen import Screen
from aesvm.io.libsvm_model import LIBSVM_TYPES

#: Classes and columns that are listed.
_LISTED = 20

_PARAMETERS = ("C", "nu", "epsilon", "kernel", "degree", "coef0", "hull_tol", "refine")


def info(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Say what a model or data file holds."""
    path, certificate = options.file, None
    if path != "-" and format_of_model(path):
        model = load_model(path)
        found = _of_model(model)
        if hasattr(model.svm, "_trained_on_"):  # else its file has no certificate
            certificate = model.svm.certificate_
    else:
        found = _of_data(path, columns)
    screen.table(_lines({"file": path, **found}))
    if certificate is not None:
        screen.answer(str(certificate))
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
    if model.columns is not None:
        found |= model.columns
    elif model.scalings:
        found["scaling"] = ", ".join(type(one).__name__ for one in model.scalings)
    if model.feature_names and model.columns is None:
        found["feature_names"] = model.feature_names
    if model.target:
        found["target"] = model.target
    return found


def _of_data(path: str, columns: DataOptions) -> dict[str, Any]:
    n_rows = n_values = 0
    counts: Counter = Counter()
    text: dict[str, None] = {}  # columns, in their order
    incomplete: dict[str, None] = {}
    with opened(path, columns, Wanted(needs_target=False, text=[])) as file:
        for X, y, _ in file.reader:
            n_rows += X.shape[0]
            if hasattr(X, "select_dtypes"):
                numbers = X.select_dtypes("number")
                text |= dict.fromkeys(name for name in X if name not in numbers)
                incomplete |= dict.fromkeys(name for name in numbers if X[name].isna().any())
                X = numbers.fillna(0.0).to_numpy()
            n_values += int(X.count_nonzero() if hasattr(X, "nnz") else np.count_nonzero(X))
            if y is not None and len(counts) <= _LISTED:
                counts.update(y.tolist())
        used = file.n_features - len({*text, *incomplete})
        found: dict[str, Any] = {
            "format": file.format.kind,
            "rows": n_rows,
            "features": used,
            "not_zero": n_values / max(1, n_rows * (file.n_features - len(text))),
            "streamed": file.is_large,
        }
        if file.feature_names:
            out = {*text, *incomplete}
            found["feature_names"] = [one for one in file.feature_names if one not in out]
    if text:
        found["columns_of_text"] = list(text)
    if incomplete:
        found["columns_with_missing_values"] = [one for one in incomplete if one not in text]
    if counts and len(counts) <= _LISTED:
        found["classes"] = {label_text(value): counts[value] for value in sorted(counts)}
    return found


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
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
        yield name.replace("_", " "), str(value)
