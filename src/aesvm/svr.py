"""AESVR and AENuSVR: support vector regression, on representatives or on all rows."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Unpack

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval

from aesvm.estimators.learning import Values
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import CostParameters, by_name, with_parameters_of
from aesvm.estimators.prediction import MachineEstimator, score
from aesvm.estimators.trained import TrainedOn
from aesvm.formulations.nu_tube import NuTube
from aesvm.formulations.tube import Tube
from aesvm.runtime.scikit_learn import CallbackSupportMixin


class AESVR(CallbackSupportMixin, KernelMachine, MachineEstimator, RegressorMixin, BaseEstimator):
    """Epsilon-support vector regression, as exact as is affordable.

    A drop-in for :class:`sklearn.svm.SVR` on data too large for it: see :class:`aesvm.AESVC` for
    how rows are represented, refined and certified. A row stands for others here together with its
    target: squared distances are ``|phi(x) - phi(x')|^2 + (y - y')^2 / s^2``, with s the standard
    deviation of y, and ``hull_tol`` bounds these.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation, as in SVR: the larger, the less.
    epsilon : float, default=0.1
        Half the width of the tube in which nothing is lost.
    kernel, degree, gamma, coef0, tol, cache_size, shrinking
        As in SVR, with its defaults.
    max_iter, hull_tol, subset_size, partition_size, partition, refine, max_vectors, gap_tol, \
time_limit, memory_budget, on_overflow, n_jobs, verbose
        As in :class:`aesvm.AESVC`. A prediction counts as changed, where "auto" asks, if it moves
        by more than a twentieth of the standard deviation of y.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, fit_status_, n_iter_, \
shape_fit_, n_features_in_, feature_names_in_
        As in SVR.
    dual_objective_, kkt_violation_, representative_set_, certificate_, gamma_
        As in :class:`aesvm.AESVC`; ``dual_objective_`` and ``kkt_violation_`` have one
        element.

    See Also
    --------
    AENuSVR : The fraction of rows outside the tube is given, and not its width.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm import AESVR
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
    >>> y = np.sinc(X[:, 0])
    >>> model = AESVR(C=10.0, gamma=1.0, epsilon=0.01).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }
    _learns = Values(lambda estimator, spread: Tube(float(estimator.epsilon), spread))

    @by_name
    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        hull_tol: float = 1e-3,
        subset_size: int = 1000,
        partition_size: int = 100_000,
        partition: str = "distance",
        refine: int | str = "auto",
        max_vectors: int | None = None,
        gap_tol: float = 1e-3,
        time_limit: float | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        shrinking: bool = True,
        memory_budget: int | str | None = None,
        on_overflow: str = "raise",
        device: str = "cpu",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.hull_tol = hull_tol
        self.subset_size = subset_size
        self.partition_size = partition_size
        self.partition = partition
        self.refine = refine
        self.max_vectors = max_vectors
        self.gap_tol = gap_tol
        self.time_limit = time_limit
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.shrinking = shrinking
        self.memory_budget = memory_budget
        self.on_overflow = on_overflow
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the value of each row.

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
    """Nu-support vector regression, as exact as is affordable.

    A drop-in for :class:`sklearn.svm.NuSVR`; all else is as in :class:`aesvm.AESVR`.

    Parameters
    ----------
    nu : float, default=0.5
        An upper bound on the fraction of rows outside the tube, and a lower bound on that of
        support vectors; the tube's width is fitted.
    **parameters
        Those of :class:`aesvm.AESVR`, but ``epsilon``.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the fitted tube: AESVR with this ``epsilon`` has the same solution.
    support_, dual_coef_, intercept_, ...
        As in :class:`aesvm.AESVR`.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm import AENuSVR
    >>> X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
    >>> y = np.sinc(X[:, 0])
    >>> model = AENuSVR(nu=0.2, C=10.0, gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
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
