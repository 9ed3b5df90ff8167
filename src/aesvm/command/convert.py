"""``aesvm convert``: a model, or a data file, in another format."""

from __future__ import annotations

import warnings
from typing import Any

from aesvm.command.data import DataOptions, Wanted, opened
from aesvm.command.formats import NATIVE, ONNX, format_of_model, suffix_of
from aesvm.command.models import (
    Model,
    check_model_path,
    is_native,
    load_model,
    save_model,
)
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.writing import check_outputs, output_format, outputs_of, write_rows
from aesvm.io.atomic import written_whole


def convert(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Write a model, or a data file, in another format."""
    source, output, native = options.source, options.output, options.native
    if source != "-" and format_of_model(source):
        output = output or "-"
        _check_model_options(source, columns)
        check_model_path(output, [source], onnx=True)
        is_graph = suffix_of(output) == ONNX
        if is_graph and native:
            raise UsageError(f"--native: {output} is a graph of ONNX: one of the two is needed.")
        model = load_model(source)
        if is_graph:
            _write_onnx(model, output)
            screen.line(f"{output}: a graph of ONNX")
            screen.result({"output": output, "format": "onnx"})
            return
        as_native = is_native(output, native)
        if model.scalings and not as_native:
            raise CommandError(
                f"{source} scales its rows, and LIBSVM's model files cannot: scale the data, by "
                "aesvm scale, and train on that."
            )
        save_model(model.estimator if as_native else model.svm, output, as_native)
        kind = "aesvm's" if as_native else "LIBSVM's"
        screen.line(f"{output}: a model file of {kind} format")
        screen.result({"output": output, "format": "aesvm" if as_native else "libsvm"})
        return
    if screen.as_json and output is None:
        raise UsageError("--json needs a file: rows would be on standard output as well.")
    if native:
        raise UsageError(f"--native: {source} is no model file, and {NATIVE} files hold models.")
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
            raise UsageError(f"{flag} is of data files, and {source} is a model.")


def _write_onnx(model: Model, output: str) -> None:
    from aesvm.onnx import register_converters

    register_converters()  # which says what to install
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    rows = [("X", DoubleTensorType([None, model.n_features]))]
    if model.columns is not None:
        if set(model.columns) != {"numbers"}:
            raise CommandError(
                f"{output}: a model of columns that are all numbers can be a graph of ONNX, and "
                f"this one has {', '.join(one for one in model.columns if one != 'numbers')}."
            )
        rows = [(name, FloatTensorType([None, 1])) for name in model.columns["numbers"]]
    with warnings.catch_warnings():
        # skl2onnx reads attributes that scikit-learn will remove
        warnings.filterwarnings("ignore", "Attribute `prob[AB]_`", FutureWarning)
        graph = skl2onnx.to_onnx(model.estimator, initial_types=rows)
    with written_whole(output) as file:
        file.write(graph.SerializeToString())
