"""Model files of either kind, and ``aesvm predict``: LIBSVM's svm-predict.

A model of ``aesvm fit`` is a pipeline: how columns are prepared, then the SVM. Names of columns
are fitted attributes: ``feature_names_in_`` of its first step, ``target_name_`` of its last.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.compose import ColumnTransformer

from aesvm.command.data import DataFile, DataOptions, Wanted, as_file, opened
from aesvm.command.formats import (
    COMPRESSED,
    NATIVE,
    ONNX,
    SUFFIXES,
    check_outputs,
    equal_labels,
    format_of_model,
    is_numeric,
    label_text,
    meaning,
    suffix_of,
    written_to,
)
from aesvm.command.screen import CommandError, Screen, UsageError
from aesvm.io import load_libsvm_model, save_libsvm_model
from aesvm.io.model_file import load, save
from aesvm.machines.processor import processor
from aesvm.runtime.warn import warn

#: What names of data files end with; those of LIBSVM's text may be of a model in text as well.
_OF_DATA = (*COMPRESSED, *(suffix for suffix, kind in SUFFIXES.items() if kind != "libsvm"))

#: What a one-class SVM predicts.
OUTLIER_OR_NOT = np.array([-1, 1])


class Model(NamedTuple):
    """A model that was read from a file."""

    estimator: Any  #: an SVM, or a pipeline that ends in one
    native: bool  #: whether the file is of aesvm's format

    @property
    def svm(self) -> Any:
        """The SVM itself."""
        steps = getattr(self.estimator, "steps", None)
        return self.estimator if steps is None else steps[-1][1]

    @property
    def scalings(self) -> list[Any]:
        """The steps before the SVM that do something."""
        before = [step for _, step in getattr(self.estimator, "steps", [])[:-1]]
        return [step for step in before if step is not None and step != "passthrough"]

    @property
    def columns(self) -> dict[str, list[str]] | None:
        """The columns of a table that takes any types, by the kind of column."""
        first = self.scalings[0] if self.scalings else None
        if not isinstance(first, ColumnTransformer):
            return None
        return {kind: list(names) for kind, part, names in first.transformers_ if part != "drop"}

    @property
    def feature_names(self) -> list[str] | None:
        if self.columns is not None:
            return [name for names in self.columns.values() for name in names]
        first = self.scalings[0] if self.scalings else self.svm
        names = getattr(first, "feature_names_in_", None)
        return None if names is None else [str(one) for one in names]

    @property
    def target(self) -> str | None:
        return getattr(self.svm, "target_name_", None)

    @property
    def n_features(self) -> int:
        columns = self.feature_names if self.columns is not None else None
        return int(self.svm.n_features_in_) if columns is None else len(columns)

    @property
    def is_of_matrix(self) -> bool:
        """Whether its rows are those of a kernel matrix."""
        return self.svm.kernel == "precomputed"

    def prepared(self, X: Any) -> Any:
        """Rows as the SVM takes them."""
        if self.columns is not None:
            return self.estimator[:-1].transform(X)
        sparse = sp.issparse(self.svm.support_vectors_)
        if sp.issparse(X) != sparse:
            X = sp.csr_array(X) if sparse else X.toarray()
        for step in self.scalings:
            X = step.transform(X)
        return X

    def predict(self, X: Any) -> NDArray:
        """Predictions of rows as they are in a file."""
        return self.svm.predict(self.prepared(X))

    def widened(self, n_features: int) -> Model:
        """The same for rows with more features, of which those it does not know were all zero.

        Rows stay sparse then: an index in a file may be arbitrarily large.
        """
        more = n_features - self.n_features
        if more <= 0 or self.scalings:
            return self
        svm = copy.copy(self.svm)
        svm.n_features_in_ = n_features
        if not self.is_of_matrix:  # which has no vectors
            svm.support_vectors_ = sp.csr_array(svm.support_vectors_, copy=True)
            svm.support_vectors_.resize((len(svm.support_), n_features))
        return self._replace(estimator=svm)


def opened_for(model: Model, data: str, columns: DataOptions) -> AbstractContextManager[DataFile]:
    """A data file, of which the columns are read that a model was trained on."""
    text, classes = None, getattr(model.svm, "classes_", np.empty(0))
    if model.columns is not None:
        text = [name for kind in ("categories", "dates") for name in model.columns.get(kind, [])]
    wanted = Wanted(
        features=model.feature_names,
        target=model.target,
        n_features=model.n_features,
        classes="auto" if is_numeric(classes) else "strings",
        needs_target=False,
        is_matrix=model.is_of_matrix,
        text=text,
    )
    return opened(data, columns, wanted)


def load_model(path: str) -> Model:
    """A model that can predict, of aesvm's format or of LIBSVM's, as what the file holds tells."""
    if path in ("", "-"):
        raise UsageError(f"{path!r}: the name of a model file is needed.")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder: the name of a model file is needed.")
    with as_file(path) as file:  # which a pipe is not
        try:
            if format_of_model(str(file)) != "aesvm":
                return Model(load_libsvm_model(file), False)
            model = Model(load(file), True)
        except ValueError as error:
            if str(file) == str(Path(path)):
                raise
            raise CommandError(str(error).replace(str(file), path)) from error
    if not hasattr(model.svm, "support_vectors_"):
        raise CommandError(f"{path}: this is a {type(model.svm).__name__}, and no SVM.")
    model.svm.set_params(device="cpu")  # wherever it was trained
    return model


def checked_device(name: str) -> str:
    """The device that ``--device`` names, or why it is not there: before any data is read."""
    try:
        processor(name)
    except ImportError as error:
        raise ImportError(f"--device {name}: {error}") from error
    except ValueError as error:
        raise UsageError(f"--device {name}: {error}") from error
    except RuntimeError as error:
        raise CommandError(f"--device {name}: {error}") from error
    return name


def check_model_path(path: str, inputs: Iterable[str | None], onnx: bool = False) -> None:
    """Refuse what a model cannot be written to, before the work is done.

    ``onnx``: whether it can be written as a graph.
    """
    if path == "-":
        raise UsageError("-: a model is written to a file, and not to standard output.")
    check_outputs([path], inputs)
    suffix = suffix_of(path)
    if suffix in _OF_DATA:
        known = f"{NATIVE}, {ONNX} or .model" if onnx else f"{NATIVE} or .model"
        raise UsageError(f"{path}: a model is written as {known}, not {suffix}.")
    if suffix == ONNX and not onnx:
        raise UsageError(
            f"{path}: a model is written as {NATIVE} or .model: aesvm convert makes {ONNX} of it."
        )


def save_model(estimator: Any, path: str) -> None:
    """Write a model in the format that its name asks for; a pipeline in aesvm's only."""
    if suffix_of(path) == NATIVE:
        save(estimator, path)
    else:
        save_libsvm_model(estimator, path)


def note_columns(svm: Any, first: Any, names: list[str] | None, target: str | None) -> None:
    """Have a model know the columns that it was trained on."""
    if names is not None:
        first.feature_names_in_ = np.array(names, dtype=object)
    if target is not None:
        svm.target_name_ = target


class Agreement:
    """How predictions agree with targets, counted chunk by chunk."""

    def __init__(self, regression: bool, known: NDArray | None = None) -> None:
        self.regression = regression
        self.known = [] if regression or known is None else known.tolist()  # classes
        self.strangers: dict[Any, None] = {}  # other classes, until there is a known one
        self.any_known = not self.known
        self.n_rows = 0
        self.correct = 0
        self.origin = 0.0  # that predictions p and targets t are counted from: digits are kept so
        self.sums = np.zeros(6)  # of squared errors, p, t, p^2, t^2 and p t

    def add(self, predicted: NDArray, targets: NDArray) -> None:
        """Some more rows."""
        is_first = not self.n_rows
        self.n_rows += len(predicted)
        if not self.regression:
            self.correct += int(np.sum(equal_labels(predicted, targets)))
            if not self.any_known:
                self.strangers |= dict.fromkeys(np.unique(targets).tolist())
                known = set(map(meaning, self.known))
                self.any_known = not known.isdisjoint(map(meaning, self.strangers))
            return
        if not is_numeric(targets):
            raise CommandError(f"the target is {targets[0]!s:.40}, and the model predicts numbers.")
        if is_first:
            self.origin = float(targets[0])
        p, t = predicted - self.origin, targets - self.origin
        self.sums += [float(one.sum()) for one in ((p - t) ** 2, p, t, p**2, t**2, p * t)]

    def warn_of_strangers(self, name: str) -> None:
        """Warn if no class of the data file ``name`` is a class of the model."""
        if self.strangers and not self.any_known:
            data, model = _listed(self.strangers), _listed(self.known)
            warn(f"none of the classes in {name} is a class of the model: {data}; {model}")

    def found(self) -> dict[str, float | int]:
        """The numbers, by name."""
        if not self.regression:
            share = 100.0 * self.correct / self.n_rows
            return {"accuracy": share, "correct": self.correct, "rows": self.n_rows}
        squares, p, t, pp, tt, pt = self.sums
        n = self.n_rows
        spread = (n * pp - p * p) * (n * tt - t * t)
        correlation = (n * pt - p * t) ** 2 / spread if spread else float("nan")
        return {
            "mean_squared_error": squares / n,
            "squared_correlation_coefficient": correlation,
            "rows": n,
        }

    def lines(self, cross_validation: bool = False) -> Iterator[str]:
        """Those of svm-predict, or of svm-train -v."""
        found = self.found()
        before = "Cross Validation " if cross_validation else ""
        if self.regression:
            after = "" if cross_validation else " (regression)"
            yield f"{before}Mean squared error = {found['mean_squared_error']:g}{after}"
            correlation = found["squared_correlation_coefficient"]
            yield f"{before}Squared correlation coefficient = {correlation:g}{after}"
        else:
            counts = f" ({self.correct}/{self.n_rows}) (classification)"
            after = "" if cross_validation else counts
            yield f"{before}Accuracy = {found['accuracy']:g}%{after}"


def _listed(classes: Collection[Any]) -> str:
    return ", ".join(sorted(map(label_text, classes))[:5]) + (", ..." if len(classes) > 5 else "")


def predict(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Predict the rows of a file chunk by chunk, and count how many are right."""
    data, model, output = options.data, options.model, options.output
    if options.probability:
        raise UsageError("-b 1: the models have no probabilities.")
    check_outputs([output], [data, model, *columns.files])
    device = checked_device(options.device)
    found = load_model(model)
    found.svm.set_params(device=device)
    with opened_for(found, data, columns) as file:
        if found.columns is not None and file.format.kind not in ("csv", "parquet"):
            raise CommandError(f"{file.name}: {model} was trained on a table: CSV or Parquet.")
        if file.n_features != found.n_features and file.format.kind != "libsvm":
            raise CommandError(
                f"{file.name} has {file.n_features} features, and {model} was trained on "
                f"{found.n_features}: --target and --drop leave columns out."
            )
        found = found.widened(file.n_features)
        agreement = Agreement(
            is_regressor(found.svm), getattr(found.svm, "classes_", OUTLIER_OR_NOT)
        )
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
    has_targets = agreement.n_rows > 0
    agreement.warn_of_strangers(file.name)
    for line in agreement.lines() if has_targets else ():
        (screen.note if output is None else screen.line)(line)
    screen.result(
        {
            "rows": n_rows,
            "output": output,
            **(agreement.found() if has_targets else {}),
            **({"predictions": labels} if collect else {}),
        }
    )


def _check_lines(svm: Any, path: str) -> None:
    """Refuse classes with line breaks: predictions are one line for each row."""
    for label in map(label_text, getattr(svm, "classes_", np.array([])).tolist()):
        if set(label) & set("\r\n"):
            raise CommandError(
                f"{path}: the class {label[:40]!r} has a line break, and predictions are a line "
                "each: --json, without a file to write to, can have it."
            )
