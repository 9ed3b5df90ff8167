"""AESVR and AENuSVR: support vector regression."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Unpack

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from aesvm.estimators.learning import Values
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import CostParameters, with_parameters_of
from aesvm.estimators.prediction import MachineEstimator, score
from aesvm.estimators.trained import TrainedOn
from aesvm.estimators.validation import Interval
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.tube import Tube
from aesvm.runtime.scikit_learn import CallbackSupportMixin
from aesvm.svc import AESVC


class AESVR(CallbackSupportMixin, KernelMachine, MachineEstimator, RegressorMixin, BaseEstimator):
    """Epsilon-support vector regression for data too large for :class:`sklearn.svm.SVR`.

    The interface is SVR's. :class:`aesvm.AESVC` says when the model is exact, and how it is
    certified. If rows are represented, a row stands for others together with its target. Squared
    distances are then ``|phi(x) - phi(x')|^2 + (y - y')^2 / s^2``, with s the standard deviation of
    y, and ``hull_tol`` bounds these.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation parameter: the larger, the weaker the regularisation.
    epsilon : float, default=0.1
        Half the width of the tube around the prediction in which errors cost nothing.
    kernel, gamma, degree, coef0, tol, shrinking
        As in SVR, with its defaults.
    refine, max_vectors, gap_tol, time_limit, device, n_jobs, verbose, max_iter, cache_size, \
memory_budget, on_overflow, hull_tol, subset_size, partition_size, partition
        As in :class:`aesvm.AESVC`, where ``cache_size="auto"`` is that of two classes. For
        ``refine="auto"``, a prediction counts as changed if it moves by more than a twentieth of
        the standard deviation of y.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, fit_status_, n_iter_, \
shape_fit_, n_features_in_, feature_names_in_
        As in SVR.
    dual_objective_, kkt_violation_, representative_set_, certificate_, gamma_, device_
        As in :class:`aesvm.AESVC`. ``dual_objective_`` and ``kkt_violation_`` have one element.

    See Also
    --------
    AENuSVR : The same with a bound on the fraction of rows outside the tube in place of its width.
    AESVC : Classification.
    aesvm.model_selection.AEGridSearchCV : A search over C and gamma that shares work.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm import AESVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (5000, 1))
    >>> y = np.sinc(X[:, 0]) + 0.1 * rng.normal(size=5000)
    >>> model = AESVR(C=10.0, gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }
    _learns = Values(lambda estimator, spread: Tube(float(estimator.epsilon), spread))

    @with_parameters_of(AESVC, without=("class_weight", "decision_function_shape", "break_ties"))
    def __init__(self, *, epsilon: float = 0.1, **parameters: Unpack[CostParameters]) -> None:
        self.epsilon = epsilon

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the target of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,)
        """
        return self._ask("decision_function", X)

    score = score


def fitted_width(estimator: Any) -> float:
    """Half the width of the tube that ``NuTube`` has fitted: its two offsets lie on either side."""
    (record,) = TrainedOn.of(estimator).records
    return max(0.0, 0.5 * sum(record.offsets))


class AENuSVR(CallbackSupportMixin, KernelMachine, MachineEstimator, RegressorMixin, BaseEstimator):
    """Nu-support vector regression for data too large for :class:`sklearn.svm.NuSVR`.

    The interface is NuSVR's. All else is as in :class:`aesvm.AESVR`.

    Parameters
    ----------
    nu : float, default=0.5
        An upper bound on the fraction of rows outside the tube, and a lower bound on the fraction
        of support vectors. The tube's width is fitted.
    **parameters
        The parameters of :class:`aesvm.AESVR`, without ``epsilon``.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the fitted tube: AESVR with this ``epsilon`` has the same solution.
    support_, dual_coef_, intercept_, ...
        As in :class:`aesvm.AESVR`.

    See Also
    --------
    AESVR : The same with a given width of the tube.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm import AENuSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (2000, 1))
    >>> y = np.sinc(X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> model = AENuSVR(nu=0.2, C=10.0, gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> outside = np.abs(model.predict(X) - y) > model.epsilon_ + model.tol
    >>> bool(outside.mean() <= 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }
    _learns = Values(lambda estimator, spread: NuTube(spread, nu=float(estimator.nu)))

    @with_parameters_of(AESVR, without=("epsilon",))
    def __init__(self, *, nu: float = 0.5, **parameters: Unpack[CostParameters]) -> None:
        self.nu = nu

    epsilon_ = property(fitted_width)
    predict = AESVR.predict
    score = score
