"""DaskAESVR and DaskAENuSVR: regression, with rows on a cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.callback import CallbackSupportMixin

from aesvm.dask.fitting import CLUSTER_CONSTRAINTS, initializer
from aesvm.dask.machine import DaskMachine
from aesvm.dask.partitions import is_lazy
from aesvm.dask.scores import r_squared
from aesvm.estimators.prediction import MachineEstimator, score
from aesvm.svr import AESVR, AENuSVR, fitted_width


class DaskAESVR(CallbackSupportMixin, DaskMachine, MachineEstimator, RegressorMixin, BaseEstimator):
    """AESVR of rows that lie on a cluster.

    A row stands for others together with its target. The unit of targets, their standard deviation,
    is that of all rows, found in a pass before they are reduced (the one that ``gamma="scale"``
    takes); all else is as in :class:`DaskAESVC`.

    Parameters
    ----------
    split_every, client
        As in :class:`DaskAESVC`.
    **parameters
        Those of :class:`aesvm.AESVR`; see :class:`DaskAESVC` for ``refine``, ``memory_budget`` and
        ``n_jobs``.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Rows of X that are support vectors.
    certificate_ : Certificate
        Residuals are bounds: what the levels of sets have added up to.
    others
        As in :class:`aesvm.AESVR`.

    Notes
    -----
    ``predict`` is lazy where X is: an array gives an array, a dataframe a series.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from aesvm.dask import DaskAESVR
    >>> X = np.random.default_rng(0).uniform(-3, 3, (20_000, 1))
    >>> y = np.sinc(X[:, 0])
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, values = (da.from_array(array, chunks=5_000) for array in (X, y))
    ...     model = DaskAESVR(C=10.0, gamma=1.0, epsilon=0.01).fit(rows, values)
    ...     r_squared = model.score(rows, values)
    >>> r_squared > 0.99
    True
    """

    _parameter_constraints: ClassVar[dict] = {**AESVR._parameter_constraints, **CLUSTER_CONSTRAINTS}
    _learns = AESVR._learns
    __init__ = initializer(AESVR)
    predict = AESVR.predict

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the share of the variance of y that is predicted.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)
        y : of the kind of X, shape (n_samples,)
        sample_weight : of the kind of X, shape (n_samples,), default=None

        Returns
        -------
        r_squared : float
        """
        if is_lazy(X):
            return r_squared(self, X, y, sample_weight)
        return score(self, X, y, sample_weight)


class DaskAENuSVR(
    CallbackSupportMixin, DaskMachine, MachineEstimator, RegressorMixin, BaseEstimator
):
    """AENuSVR of rows that lie on a cluster.

    Parameters
    ----------
    split_every, client
        As in :class:`DaskAESVR`, and so is all that is said there of rows and predictions.
    **parameters
        Those of :class:`aesvm.AENuSVR`.

    Attributes
    ----------
    others
        As in :class:`aesvm.AENuSVR`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from aesvm.dask import DaskAENuSVR
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5_000, 1))
    >>> y = np.sinc(X[:, 0])
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, values = (da.from_array(array, chunks=2_500) for array in (X, y))
    ...     model = DaskAENuSVR(nu=0.2, C=10.0, gamma=1.0).fit(rows, values)
    ...     r_squared = model.score(rows, values)
    >>> r_squared > 0.99
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **AENuSVR._parameter_constraints,
        **CLUSTER_CONSTRAINTS,
    }
    _learns = AENuSVR._learns
    __init__ = initializer(AENuSVR)
    epsilon_ = property(fitted_width)
    predict = AESVR.predict
    score = DaskAESVR.score
