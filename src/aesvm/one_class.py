"""AEOneClassSVM: the support of a distribution, on representatives or on all rows."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils._param_validation import Interval

from aesvm.estimators.learning import Support
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import MachineParameters, with_parameters_of
from aesvm.estimators.prediction import MachineEstimator
from aesvm.formulations.one_class import OneClass
from aesvm.runtime.scikit_learn import CallbackSupportMixin
from aesvm.svr import AESVR


class AEOneClassSVM(
    CallbackSupportMixin, KernelMachine, MachineEstimator, OutlierMixin, BaseEstimator
):
    """Outlier detection, as exact as is affordable.

    A drop-in for :class:`sklearn.svm.OneClassSVM` on data too large for it: see
    :class:`aesvm.AESVC` for how rows are represented, refined and certified.

    Parameters
    ----------
    nu : float, default=0.5
        An upper bound on the fraction of training rows that are outliers, and a lower bound on
        that of support vectors.
    **parameters
        Those of :class:`aesvm.AESVR`, but ``C`` and ``epsilon``.

    Attributes
    ----------
    offset_ : float
        ``score_samples`` less this is the decision function; minus ``intercept_``.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, certificate_, ...
        As in :class:`aesvm.AESVR`.

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
        """The score that tells outliers from others."""
        return -float(self.intercept_[0])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed distances from the boundary, scaled as OneClassSVM scales them.

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
        """The decision function before the offset is taken off: the larger, the more usual.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._ask("decision_function", X) + self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Tell outliers from others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for outliers, 1 for others; -1 at 0, as LIBSVM has it.
        """
        return 1 - 2 * (self._ask("decision_function", X) <= 0.0)
