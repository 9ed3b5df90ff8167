"""Predictions of classifiers whose pairs of classes vote, from SVC's fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.validation import validated_rows
from aesvm.machines import one_vs_one
from aesvm.machines.prediction import PairwiseModel


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
        model = model_of(self)
        return model.decision_function(validated_rows(self, X, reset=False), self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        model = model_of(self)
        return model.predict(validated_rows(self, X, reset=False), self.n_jobs)

    @property
    def coef_(self) -> Any:
        """Weights of the features, with the linear kernel."""
        if self.kernel != "linear":
            raise AttributeError('coef_ is only available with kernel="linear".')
        coef: Any = one_vs_one.feature_weights(
            self.dual_coef_, self.support_vectors_, self.n_support_
        )
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False
        return coef

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def model_of(estimator: Any) -> PairwiseModel:
    """What a fitted classifier predicts with."""
    check_is_fitted(estimator)
    return PairwiseModel(
        kernel_spec(estimator, estimator.gamma_),
        estimator.classes_,
        estimator.support_,
        estimator.support_vectors_,
        estimator.n_support_,
        estimator.dual_coef_,
        estimator.intercept_,
        estimator.decision_function_shape,
        estimator.break_ties,
    )
