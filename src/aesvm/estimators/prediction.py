"""Predictions from the fitted attributes of SVC and SVR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.stream_prediction import predict_stream
from aesvm.estimators.twins import to_sklearn
from aesvm.estimators.validation import from_gpu, validated_rows
from aesvm.machines import one_vs_one
from aesvm.machines.prediction import MachineModel, PairwiseModel
from aesvm.machines.processor import processor


def score(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """The share of rows whose class is predicted right; of a regression, R².

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
        """Not there: the error says how probabilities are had."""
        raise _no_probabilities(self, "predict_proba")

    @property
    def predict_log_proba(self) -> Any:
        """Not there: the error says how probabilities are had."""
        raise _no_probabilities(self, "predict_log_proba")

    def _ask(self, method: str, X: Any) -> Any:
        return ask(self, method, X)

    predict_stream = predict_stream
    score = score
    to_sklearn = to_sklearn

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
            getattr(self, "_tie_order_", None),
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

    predict_stream = predict_stream
    to_sklearn = to_sklearn

    def _model(self) -> MachineModel:
        return MachineModel(
            kernel_spec(self, self.gamma_),
            self.support_,
            self.support_vectors_,
            self.dual_coef_,
            self.intercept_,
        )

    def _ask(self, method: str, X: Any) -> Any:
        return ask(self, method, X)

    def _values(self, X: ArrayLike) -> NDArray[np.float64]:
        return self._ask("decision_function", X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        return with_kernel_tags(self, super().__sklearn_tags__())  # type: ignore[misc]


def model_of(estimator: Any) -> Any:
    """What a fitted estimator predicts with."""
    check_is_fitted(estimator)
    return estimator._model()


class EvaluatedRows(NamedTuple):
    """Rows whose decision values a search has computed for many models together."""

    X: Any  #: the rows as they will be given to predict
    model: Any  #: the estimator's, with its decision values there


def ask(estimator: Any, method: str, X: Any) -> Any:
    """What a method of a fitted estimator's model gives for some rows."""
    for rows in getattr(estimator, "_evaluated_rows", ()):
        if rows.X is X:
            return getattr(rows.model, method)(X, estimator.n_jobs)
    model = model_of(estimator)
    rows = validated_rows(estimator, from_gpu(estimator, X)[0], reset=False)
    device = processor(model.spec.device)
    if not sp.issparse(model.vectors):
        rows = device.new_rows(rows, X)
    return device.like_input(getattr(model, method)(rows, estimator.n_jobs), X)


def with_kernel_tags(estimator: Any, tags: Any) -> Any:
    """scikit-learn's tags, with what the kernel says about the input."""
    tags.input_tags.sparse = estimator.kernel != "precomputed"
    tags.input_tags.pairwise = estimator.kernel == "precomputed"
    return tags


def _no_probabilities(estimator: Any, method: str) -> AttributeError:
    """What is said of a method that is not there, so that ``hasattr`` is False."""
    name = type(estimator).__name__
    here = name.removeprefix("Dask")  # calibration knows rows in memory alone
    return AttributeError(
        f"{name} has no {method}: its decision values are no probabilities. With rows in memory, "
        f"CalibratedClassifierCV({here}(...), ensemble=False).fit(X, y) of sklearn.calibration "
        "gives them; of a model that is fitted, CalibratedClassifierCV(FrozenEstimator(model))"
        ".fit(X_new, y_new) does, with rows that it was not trained on."
    )


def _read_only(estimator: Any, weights: Callable[[], Any]) -> Any:
    """The weights of the features, with the linear kernel."""
    if estimator.kernel != "linear":
        raise AttributeError('coef_ is only available with kernel="linear".')
    coef = weights()
    (coef.data if sp.issparse(coef) else coef).flags.writeable = False
    return coef
