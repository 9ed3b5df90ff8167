"""``aesvm convert``: a model, or a data file, in another format."""

from __future__ import annotations

from pathlib import Path

from aesvm.command.data import DataOptions, opened
from aesvm.command.models import (
    Model,
    check_model_path,
    format_of_model,
    is_native,
    load_svm,
    save_model,
)
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.tables import TARGET, write_rows
from aesvm.command.writing import check_outputs
from aesvm.io.atomic import written_whole


def convert(
    source: str, output: str | None, native: bool, columns: DataOptions, screen: Screen
) -> None:
    """Write a model, or a data file, in another format."""
    if source != "-" and format_of_model(source):
        output = output or "-"
        check_model_path(output, [source])
        model = load_svm(source)
        if Path(output).suffix == ".onnx":
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
    check_outputs([output], [source, *columns.files])
    # tables that were made of LIBSVM's text have a column of that name
    with opened(source, columns, target=TARGET, needs_target=False) as file:
        if file.target == TARGET and columns.target is None:
            screen.note(f"labels are the column {TARGET!r}")
        n_rows, written = write_rows(file.reader, output, file)
    if output is not None:
        screen.line(f"{', '.join(written)}: {n_rows:,} rows")
    screen.result({"output": written, "rows": n_rows})


def _write_onnx(model: Model, output: str) -> None:
    from aesvm.onnx import register_converters

    register_converters()  # which says what to install
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType

    rows = [("X", DoubleTensorType([None, model.n_features]))]
    graph = skl2onnx.to_onnx(model.estimator, initial_types=rows)
    with written_whole(output) as file:
        file.write(graph.SerializeToString())
