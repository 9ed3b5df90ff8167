"""AEOneClassSVM: outlier detection."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin

from aesvm.estimators.learning import Support
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import MachineParameters, with_parameters_of
from aesvm.estimators.prediction import MachineEstimator
from aesvm.estimators.validation import Interval
from aesvm.formulations.nu_hinge import OneClass
from aesvm.runtime.scikit_learn import CallbackSupportMixin
from aesvm.svr import AESVR


class AEOneClassSVM(
    CallbackSupportMixin, KernelMachine, MachineEstimator, OutlierMixin, BaseEstimator
):
    """Outlier detection for data too large for :class:`sklearn.svm.OneClassSVM`.

    The interface is OneClassSVM's. :class:`aesvm.AESVC` says when the model is exact, and how it is
    certified.

    Parameters
    ----------
    nu : float, default=0.5
        An upper bound on the fraction of training rows that are outliers, and a lower bound on the
        fraction of support vectors.
    **parameters
        The parameters of :class:`aesvm.AESVR`, without ``C`` and ``epsilon``.

    Attributes
    ----------
    offset_ : float
        The decision function is ``score_samples`` minus this. It is minus ``intercept_``.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, certificate_, ...
        As in :class:`aesvm.AESVR`.

    See Also
    --------
    AESVC : Classification.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm import AEOneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = AEOneClassSVM(nu=0.05, gamma=0.5).fit(X)
    >>> model.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    >>> bool(0.04 < np.mean(model.predict(X) == -1) < 0.06)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }
    _learns = Support(lambda estimator, _: OneClass(float(estimator.nu)))

    @with_parameters_of(AESVR, without=("C", "epsilon"))
    def __init__(self, *, nu: float = 0.5, **parameters: Unpack[MachineParameters]) -> None:
        self.nu = nu

    @property
    def offset_(self) -> float:
        """The score below which a row is an outlier."""
        return -float(self.intercept_[0])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed distances from the boundary, in OneClassSVM's unit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,)
            Negative for outliers.
        """
        return self._ask("decision_function", X)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision function plus the offset: the larger, the more usual a row is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._ask("decision_function", X) + self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Predict whether rows are outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for outliers, 1 for others. A decision value of 0 is an outlier, as in LIBSVM.
        """
        return 1 - 2 * (self._ask("decision_function", X) <= 0.0)
