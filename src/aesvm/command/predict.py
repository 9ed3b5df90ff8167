"""``aesvm predict``: LIBSVM's svm-predict."""

from __future__ import annotations

from typing import Any

from aesvm.command.data import DataOptions
from aesvm.command.libsvm_lines import Agreement
from aesvm.command.models import load_svm, opened_for
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.writing import label_text, written_to


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
        collect = screen.as_json and output is None
        with written_to(None if collect else output) as file_out:
            for X, y, _ in file.reader:
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
