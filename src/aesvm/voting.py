"""Prediction: the pairs of classes of a fitted model vote, as in LIBSVM and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from aesvm import one_vs_one
from aesvm.base import Threads, one_blas_thread, validated_rows
from aesvm.expansion import expand
from aesvm.kernels import Columns, KernelMatrix, kernel_matrix

#: Error in a kernel value beyond which predictions use a slower way to compute it.
_ACCURACY = 1e-8


class Voting:
    """Decision values and labels, from the attributes of a fitted classifier in SVC's layout."""

    kernel: Any
    degree: int
    coef0: float
    gamma_: float
    n_jobs: int | None
    decision_function_shape: str
    break_ties: bool
    classes_: NDArray
    support_: NDArray[np.int32]
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
        n_classes = self._n_classes()
        if n_classes == 2:
            return self._decide(X, lambda values: -values[:, 0])
        if self.decision_function_shape == "ovr":
            return self._decide(
                X, lambda values: _ovr_decision_function(values < 0, -values, n_classes)
            )
        return self._decide(X, lambda values: values)

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        n_classes = self._n_classes()
        if self.break_ties and n_classes > 2:
            if self.decision_function_shape == "ovo":
                raise ValueError(
                    'break_ties=True needs decision_function_shape="ovr", and got "ovo".'
                )
            return self.classes_[self.decision_function(X).argmax(axis=1)]

        return self.classes_[self._decide(X, partial(one_vs_one.winners, n_classes=n_classes))]

    @property
    def coef_(self):
        """Weights of the features, with the linear kernel."""
        if self.kernel != "linear":
            raise AttributeError('coef_ is only available with kernel="linear".')
        coef: Any = one_vs_one.feature_weights(
            self.dual_coef_, self.support_vectors_, self.n_support_
        )
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False
        return coef

    def _kernel_of(self, X, accuracy: float, dtype) -> KernelMatrix:
        return kernel_matrix(
            X,
            kernel=self.kernel,
            gamma=self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
            accuracy=accuracy,
            dtype=dtype,
        )

    def _n_classes(self) -> int:
        check_is_fitted(self)
        return len(self.classes_)

    def _decide(self, X, decide: Callable[[NDArray[np.float64]], NDArray]) -> NDArray:
        """What ``decide`` makes of the decision values of every pair of classes.

        They are positive for the first class of a pair, and handed over for a few rows at a
        time: with many classes there are very many pairs.
        """
        X = validated_rows(self, X, reset=False)
        dual: Any = self.dual_coef_
        dual = dual.toarray() if sp.issparse(dual) else dual
        edges = np.r_[0, np.cumsum(self.n_support_)]

        def combine(sums: NDArray[np.float64]) -> NDArray:
            return decide(one_vs_one.pair_values(sums, self.intercept_))

        columns, X = self._support_columns(X)
        with one_blas_thread, Threads(self.n_jobs) as run:
            return expand(columns, X, edges, np.ascontiguousarray(dual.T), combine, run)

    def _support_columns(self, X) -> tuple[Columns, Any]:
        """The support vectors as columns of the kernel matrix, and rows of the same kind."""
        if self.kernel == "precomputed":
            rows = self.support_.astype(np.intp)
            return self._kernel_of(X, _ACCURACY, np.float64).columns(rows), X
        vectors = self.support_vectors_
        if sp.issparse(X) and not sp.issparse(vectors):
            vectors = type(X)(vectors)
        elif sp.issparse(vectors) and not sp.issparse(X):
            X = sp.csr_array(X)
        kernel = self._kernel_of(vectors, _ACCURACY, np.float64)
        return kernel.columns(np.arange(vectors.shape[0])), X
