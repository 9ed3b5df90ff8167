"""``aesvm certify``: what a certificate lacks, from the rows that a model was trained on."""

from __future__ import annotations

from aesvm import AEOneClassSVM
from aesvm.command.chunks import Mapped
from aesvm.command.data import DataOptions
from aesvm.command.models import (
    certificate_of,
    check_model_path,
    is_of_fit,
    load_svm,
    opened_for,
    save_model,
)
from aesvm.command.outcome import CommandError, as_flags
from aesvm.command.screen import Screen
from aesvm.estimators.trained import check_as_trained
from aesvm.io.base import Chunk


def certify(
    model_path: str, data: str, output: str | None, columns: DataOptions, screen: Screen
) -> None:
    """Compute what a certificate lacks, from the rows that the model was trained on."""
    if output is not None:
        check_model_path(output, [model_path, data, *columns.files])
    model = load_svm(model_path)
    if certificate_of(model.svm) is None:
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
                check_as_trained(svm)
                rows = file.rows()
                try:
                    certificate = svm.certify(model.prepared(rows.X), rows.y, rows.weights)
                except ValueError as error:
                    if not is_of_fit(model):
                        raise
                    raise CommandError(
                        f"{data}: not the rows of training, of which aesvm fit has held some out "
                        "(--test, a fifth unless it said otherwise). It has certified the model on "
                        "the others: aesvm info of the model that it wrote shows that certificate."
                    ) from error
    if output is not None:
        save_model(model.estimator, output, True)
    screen.answer(as_flags(str(certificate)))
    screen.result({"model": model_path, "output": output, **certificate.as_dict()})
