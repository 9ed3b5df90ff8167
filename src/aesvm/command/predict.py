"""``aesvm predict``: LIBSVM's svm-predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from aesvm.command.data import DataOptions
from aesvm.command.labels import label_text
from aesvm.command.libsvm_lines import OUTLIER_OR_NOT, Agreement
from aesvm.command.models import load_model, opened_for
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.writing import check_outputs, written_to


def predict(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Predict the rows of a file chunk by chunk, and count how many are right."""
    data, model, output = options.data, options.model, options.output
    if options.model_option is not None:  # the second argument is the output then
        if output is not None:
            raise UsageError(f"-m and {model}: one model is needed.")
        model, output = options.model_option, None if model == "-" else model
    if model is None:
        raise UsageError("MODEL: the name of a model file is needed, or -m.")
    if options.probability:
        raise UsageError("-b 1: the models have no probabilities.")
    check_outputs([output], [data, model, *columns.files])
    found = load_model(model)
    with opened_for(found, data, columns) as file:
        if found.columns is not None and file.format.kind not in ("csv", "parquet"):
            raise CommandError(f"{file.name}: {model} was trained on a table: CSV or Parquet.")
        if file.n_features != found.n_features and file.format.kind != "libsvm":
            raise CommandError(
                f"{file.name} has {file.n_features} features, and {model} was trained on "
                f"{found.n_features}: --target and --drop leave columns out."
            )
        found = found.widened(file.n_features)
        agreement = Agreement(found.is_regression, getattr(found.svm, "classes_", OUTLIER_OR_NOT))
        n_rows = 0
        labels: list[Any] = []
        collect = screen.as_json and output is None
        if not collect:
            _check_lines(found.svm, model)
        with written_to(None if collect else output) as file_out:
            for X, y, _ in file.reader:
                if not X.shape[0]:
                    raise CommandError(f"{file.name}: there are no rows in the file.")
                predicted = found.predict(X)
                n_rows += len(predicted)
                if y is not None:
                    agreement.add(predicted, y)
                if collect:
                    labels += predicted.tolist()
                else:
                    lines = (f"{label_text(one)}\n" for one in predicted.tolist())
                    file_out.write("".join(lines).encode())
    told = agreement.n_rows > 0
    agreement.warn_of_strangers(file.name)
    for line in agreement.lines() if told else ():
        (screen.note if output is None else screen.line)(line)
    screen.result(
        {
            "rows": n_rows,
            "output": output,
            **(agreement.found() if told else {}),
            **({"predictions": labels} if collect else {}),
        }
    )


def _check_lines(svm: Any, path: str) -> None:
    """Refuse classes that are not a line each: it could not be told which row has which."""
    for label in map(label_text, getattr(svm, "classes_", np.array([])).tolist()):
        if set(label) & set("\r\n"):
            raise CommandError(
                f"{path}: the class {label[:40]!r} has a line break, and predictions are a line "
                "each: --json, without a file to write to, can have it."
            )
