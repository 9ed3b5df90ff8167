"""Model files of either kind, and what a model needs to know of its rows.

A model of ``aesvm fit`` is a pipeline: how columns are prepared, then the SVM. Names of columns
are fitted attributes: ``feature_names_in_`` of its first step, ``target_name_`` of its last.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
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
    format_of_model,
    suffix_of,
)
from aesvm.command.labels import is_numeric
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.writing import check_outputs
from aesvm.io import load_libsvm_model, save_libsvm_model
from aesvm.io.model_file import load, save

#: What names of data files end with; those of LIBSVM's text may be of a model in text as well.
_OF_DATA = (*COMPRESSED, *(suffix for suffix, kind in SUFFIXES.items() if kind != "libsvm"))


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
    def is_regression(self) -> bool:
        return is_regressor(self.svm)

    @property
    def has_text_classes(self) -> bool:
        return hasattr(self.svm, "classes_") and not is_numeric(self.svm.classes_)

    @property
    def is_of_matrix(self) -> bool:
        """Whether its rows are those of a kernel matrix."""
        return self.svm.kernel == "precomputed"

    def prepared(self, X: Any) -> Any:
        """Rows as the SVM takes them."""
        if self.columns is not None:
            from aesvm.command.frames import transformed

            return transformed(self.estimator[:-1], X)
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

        Rows stay sparse then: an index is as large as whoever wrote the file pleased.
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
    text = None
    if model.columns is not None:
        text = [name for kind in ("categories", "dates") for name in model.columns.get(kind, [])]
    wanted = Wanted(
        features=model.feature_names,
        target=model.target,
        n_features=model.n_features,
        classes="strings" if model.has_text_classes else "auto",
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
    if getattr(model.svm, "device", "cpu") != "cpu":
        model.svm.set_params(device="cpu")  # which this program computes with
    return model


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


def save_model(estimator: Any, path: str, native: bool) -> None:
    """Write a model; a pipeline can be of aesvm's format only."""
    if native:
        save(estimator, path)
    else:
        save_libsvm_model(estimator, path)


def is_native(path: str | None, native: bool) -> bool:
    """Whether a model is to be written in aesvm's format."""
    return native or (path is not None and suffix_of(path) == NATIVE)


def note_columns(svm: Any, first: Any, names: list[str] | None, target: str | None) -> None:
    """Have a model know the columns that it was trained on."""
    if names is not None:
        first.feature_names_in_ = np.array(names, dtype=object)
    if target is not None:
        svm.target_name_ = target
