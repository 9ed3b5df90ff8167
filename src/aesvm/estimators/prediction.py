"""Predictions from the fitted attributes of SVC and SVR, of rows in memory and chunk by chunk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.fitting import compiling_announced
from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.validation import from_gpu, validated_rows
from aesvm.machines import one_vs_one
from aesvm.machines.prediction import MachineModel, PairwiseModel
from aesvm.machines.processor import processor
from aesvm.out_of_core.source import check_chunk, check_source

#: Methods that ``predict_stream`` can call on each chunk.
_METHODS = ("predict", "decision_function", "score_samples")


def model_of(estimator: Any) -> Any:
    """The model of a fitted estimator, as a value."""
    check_is_fitted(estimator)
    return estimator._model()


def ask(estimator: Any, method: str, X: Any) -> Any:
    """Call a method of a fitted estimator's model on some rows."""
    model = model_of(estimator)
    rows = validated_rows(estimator, from_gpu(estimator, X)[0], reset=False)
    device = processor(model.spec.device)
    if not (sp.issparse(model.vectors) or sp.issparse(rows)):
        rows = device.new_rows(rows, X)
    with compiling_announced(estimator):
        found = getattr(model, method)(rows, estimator.n_jobs)
    return device.like_input(found, X)


def score(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """The fraction of rows whose class is predicted right; of a regression, R².

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    score : float
    """
    mixin = ClassifierMixin if is_classifier(estimator) else RegressorMixin
    # scikit-learn compares labels on the host
    return mixin.score(estimator, *from_gpu(estimator, X, y, sample_weight))


def predict_stream(
    estimator: Any, source: Iterable[tuple[Any, Any, Any]], method: str = "predict"
) -> Iterator[NDArray]:
    """Predict the rows of a source chunk by chunk, with no more than a chunk in memory.

    Parameters
    ----------
    source : iterable of (X, y, sample_weight)
        Chunks of rows, as ``fit_stream`` takes them; y and sample_weight are ignored. The readers
        of ``aesvm.io`` are such sources. It is read once, chunk by chunk as the iterator advances.
    method : {"predict", "decision_function", "score_samples"}, default="predict"
        The method to call on each chunk; the estimator must have it.

    Returns
    -------
    predictions : iterator of ndarray
        One for each chunk that has rows.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = AESVC(gamma=1.0).fit(X, y)
    >>> chunks = [(X[at : at + 400], None, None) for at in (0, 400, 800)]
    >>> [len(labels) for labels in model.predict_stream(chunks)]
    [400, 400, 200]
    """
    check_is_fitted(estimator)
    check_source(source)
    if method not in _METHODS or not hasattr(estimator, method):
        known = [name for name in _METHODS if hasattr(estimator, name)]
        raise ValueError(
            f"method={method!r}: {type(estimator).__name__} has {', '.join(map(repr, known))}."
        )
    names = getattr(source, "feature_names", None)
    if names is not None and hasattr(estimator, "feature_names_in_"):
        expected = estimator.feature_names_in_.tolist()
        if list(names) != expected:
            raise ValueError(
                f"source has the features {list(names)}, and the model was fitted to {expected}: "
                "they must be the same, in the same order."
            )
    return _predictions(source, getattr(estimator, method))


def _predictions(source: Iterable, ask: Callable) -> Iterator[NDArray]:
    n_rows = 0
    for chunk in source:
        check_chunk(chunk)
        if not np.shape(chunk[0])[0]:
            continue
        try:
            with warnings.catch_warnings():  # a chunk need not repeat the names
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                found = ask(chunk[0])
        except ValueError as error:
            where = f"in the chunk of source that begins at row {n_rows:,}"
            raise ValueError(f"{error} ({where})") from error
        n_rows += len(found)
        yield found


class PairwiseClassifier:
    """Predictions of a classifier that has SVC's fitted attributes."""

    kernel: Any
    degree: int
    coef0: float
    gamma_: float
    n_jobs: int | None
    decision_function_shape: str
    break_ties: bool
    classes_: NDArray
    support_: NDArray
    support_vectors_: Any
    n_support_: NDArray[np.int32]
    dual_coef_: Any
    intercept_: NDArray[np.float64]
    tie_order_: NDArray[np.intp] | None = None  #: None: the order of ``classes_``

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed distances from the margins, scaled as SVC scales them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            With two classes, positive for the second. With more, by class ("ovr") or by pair
            of classes ("ovo"), positive for the first of them.
        """
        return self._ask("decision_function", X)

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._ask("predict", X)

    @property
    def coef_(self) -> Any:
        """Weights of the features, with the linear kernel."""
        return _read_only(
            self,
            lambda: one_vs_one.feature_weights(
                self.dual_coef_, self.support_vectors_, self.n_support_
            ),
        )

    @property
    def predict_proba(self) -> Any:
        """Raises an AttributeError that names CalibratedClassifierCV."""
        raise _no_probabilities(self, "predict_proba")

    @property
    def predict_log_proba(self) -> Any:
        """Raises an AttributeError that names CalibratedClassifierCV."""
        raise _no_probabilities(self, "predict_log_proba")

    _ask = ask
    predict_stream = predict_stream
    score = score

    def _model(self) -> PairwiseModel:
        return PairwiseModel(
            kernel_spec(self, self.gamma_),
            self.classes_,
            self.support_,
            self.support_vectors_,
            self.n_support_,
            self.dual_coef_,
            self.intercept_,
            self.decision_function_shape,
            self.break_ties,
            self.tie_order_,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        return with_kernel_tags(self, super().__sklearn_tags__())  # type: ignore[misc]


class MachineEstimator:
    """Predictions of an estimator that has SVR's fitted attributes."""

    kernel: Any
    gamma_: float
    n_jobs: int | None
    support_: NDArray
    support_vectors_: Any
    dual_coef_: Any
    intercept_: NDArray[np.float64]

    @property
    def coef_(self) -> Any:
        """Weights of the features, with the linear kernel."""
        return _read_only(self, lambda: self.dual_coef_ @ self.support_vectors_)

    _ask = ask
    predict_stream = predict_stream

    def _model(self) -> MachineModel:
        return MachineModel(
            kernel_spec(self, self.gamma_),
            self.support_,
            self.support_vectors_,
            self.dual_coef_,
            self.intercept_,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        return with_kernel_tags(self, super().__sklearn_tags__())  # type: ignore[misc]


def with_kernel_tags(estimator: Any, tags: Any) -> Any:
    """scikit-learn's tags, with what the kernel says about the input."""
    tags.input_tags.sparse = estimator.kernel != "precomputed"
    tags.input_tags.pairwise = estimator.kernel == "precomputed"
    return tags


def _no_probabilities(estimator: Any, method: str) -> AttributeError:
    """The error of a method that is not there, so that ``hasattr`` is False."""
    name = type(estimator).__name__
    here = name.removeprefix("Dask")  # calibration knows rows in memory alone
    return AttributeError(
        f"{name} has no {method}: its decision values are not probabilities. With rows in memory, "
        f"CalibratedClassifierCV({here}(...), ensemble=False).fit(X, y) of sklearn.calibration "
        "has them; for a fitted model, use CalibratedClassifierCV(FrozenEstimator(model))"
        ".fit(X_new, y_new), with rows that the model was not trained on."
    )


def _read_only(estimator: Any, weights: Callable[[], Any]) -> Any:
    """The weights of the features, with the linear kernel."""
    if estimator.kernel != "linear":
        raise AttributeError('coef_ is only available with kernel="linear".')
    coef = weights()
    (coef.data if sp.issparse(coef) else coef).flags.writeable = False
    return coef
