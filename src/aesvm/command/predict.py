"""``aesvm predict``: LIBSVM's svm-predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from aesvm.command.data import DataOptions
from aesvm.command.libsvm_lines import Agreement
from aesvm.command.models import load_svm, opened_for
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.writing import label_text, written_to
from aesvm.runtime.warn import warn


def predict(
    data: str,
    model: str,
    output: str | None,
    probability: int,
    columns: DataOptions,
    screen: Screen,
) -> None:
    """Predict the rows of a file chunk by chunk, and count how many are right."""
    if probability:
        raise UsageError("-b 1: the models have no probabilities.")
    found = load_svm(model)
    with opened_for(found, data, columns) as file:
        if file.n_features != found.n_features and file.format.kind != "libsvm":
            raise CommandError(
                f"{file.name} has {file.n_features} features, and {model} was trained on "
                f"{found.n_features}: --target and --ignore leave columns out."
            )
        found = found.widened(file.n_features)
        agreement = Agreement(found.is_regression)
        n_rows = 0
        labels: list[Any] = []
        known = set(found.svm.classes_.tolist()) if hasattr(found.svm, "classes_") else set()
        seen: set[Any] = set()
        collect = screen.as_json and output is None
        with written_to(None if collect else output) as file_out:
            for X, y, _ in file.reader:
                predicted = found.predict(X)
                n_rows += len(predicted)
                if y is not None:
                    agreement.add(predicted, y)
                    seen |= set(np.unique(y).tolist()) if known else set()
                if collect:
                    labels += predicted.tolist()
                else:
                    lines = (f"{label_text(one)}\n" for one in predicted.tolist())
                    file_out.write("".join(lines).encode())
    told = agreement.n_rows > 0
    if told and not seen & known and known:
        warn(f"no class of {file.name} is one of the model's: {_listed(seen)}; {_listed(known)}")
    for line in agreement.prediction_lines() if told else ():
        (screen.note if output is None else screen.line)(line)
    screen.result(
        {
            "rows": n_rows,
            "output": output,
            **(agreement.found() if told else {}),
            **({"predictions": labels} if collect else {}),
        }
    )


def _listed(classes: set[Any]) -> str:
    return ", ".join(sorted(map(label_text, classes))[:5]) + (", ..." if len(classes) > 5 else "")
