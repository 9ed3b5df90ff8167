"""``aesvm convert``: a model or data file in another format; ``aesvm info``: what it holds."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from aesvm.command.data import DataOptions, Wanted, opened
from aesvm.command.formats import (
    NATIVE,
    ONNX,
    check_outputs,
    format_of_model,
    label_text,
    output_format,
    outputs_of,
    suffix_of,
    write_rows,
)
from aesvm.command.models import (
    Model,
    check_model_path,
    load_model,
    save_model,
)
from aesvm.command.screen import CommandError, Screen, UsageError
from aesvm.io.files import written_whole
from aesvm.io.libsvm_model import LIBSVM_TYPES


def convert(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Write a model, or a data file, in another format."""
    source, output = options.source, options.output
    if source != "-" and format_of_model(source):
        output = output or "-"
        _check_model_options(source, columns)
        check_model_path(output, [source], onnx=True)
        is_graph = suffix_of(output) == ONNX
        model = load_model(source)
        if is_graph:
            _write_onnx(model, output)
            screen.line(f"{output}: an ONNX graph")
            screen.result({"output": output, "format": "onnx"})
            return
        as_native = suffix_of(output) == NATIVE
        if model.scalings and not as_native:
            raise CommandError(
                f"{source} scales its rows, and LIBSVM's model files cannot: scale the data, by "
                "aesvm scale, and train on that."
            )
        save_model(model.estimator if as_native else model.svm, output)
        kind = "aesvm's" if as_native else "LIBSVM's"
        screen.line(f"{output}: a model file of {kind} format")
        screen.result({"output": output, "format": "aesvm" if as_native else "libsvm"})
        return
    if screen.as_json and output is None:
        raise UsageError("--json needs a file: rows would be on standard output as well.")
    check_outputs(outputs_of(output, columns.is_weighted), [source, *columns.files])
    with opened(source, columns, Wanted(needs_target=False)) as file:
        output_format(output, file, columns.is_weighted)  # refused before rows are read
        file.note_target(columns, screen)
        n_rows, written = write_rows(file.reader, output, file)
    if output is not None:
        screen.line(f"{', '.join(written)}: {n_rows:,} rows")
    screen.result({"output": written, "rows": n_rows})


def _check_model_options(source: str, columns: DataOptions) -> None:
    """Refuse options about data files."""
    flags = {"weights_file": "-W", "header": "--header or --no-header"}
    for option, value in columns._asdict().items():
        if value not in (None, ()):
            flag = flags.get(option, f"--{option}")
            raise UsageError(f"{flag} is for data files, and {source} is a model.")


def _write_onnx(model: Model, output: str) -> None:
    from aesvm.onnx import register_converters

    register_converters()  # which says what to install
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    rows = [("X", DoubleTensorType([None, model.n_features]))]
    if model.columns is not None:
        if set(model.columns) != {"numbers"}:
            raise CommandError(
                f"{output}: a model of columns that are all numbers can be an ONNX graph, and "
                f"this one has {', '.join(one for one in model.columns if one != 'numbers')}."
            )
        rows = [(name, FloatTensorType([None, 1])) for name in model.columns["numbers"]]
    with warnings.catch_warnings():
        # skl2onnx reads attributes that scikit-learn will remove
        warnings.filterwarnings("ignore", "Attribute `prob[AB]_`", FutureWarning)
        graph = skl2onnx.to_onnx(model.estimator, initial_types=rows)
    with written_whole(output) as file:
        file.write(graph.SerializeToString())


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
    own = {"degree": ("poly",), "coef0": ("poly", "sigmoid")}  # parameters of some kernels alone
    found |= {
        name: kept[name]
        for name in _PARAMETERS
        if name in kept and svm.kernel in own.get(name, (svm.kernel,))
    }
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
