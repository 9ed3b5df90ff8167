"""DaskAEOneClassSVM: outlier detection, with rows on a cluster."""

from __future__ import annotations

from typing import ClassVar

from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.callback import CallbackSupportMixin

from aesvm.dask.fitting import CLUSTER_CONSTRAINTS, initializer
from aesvm.dask.machine import DaskMachine
from aesvm.estimators.prediction import MachineEstimator
from aesvm.one_class import AEOneClassSVM


class DaskAEOneClassSVM(
    CallbackSupportMixin, DaskMachine, MachineEstimator, OutlierMixin, BaseEstimator
):
    """AEOneClassSVM of rows that lie on a cluster.

    Parameters
    ----------
    split_every, client
        As in :class:`DaskAESVC`.
    **parameters
        Those of :class:`aesvm.AEOneClassSVM`; see :class:`DaskAESVC` for ``refine``,
        ``memory_budget`` and ``n_jobs``.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Rows of X that are support vectors.
    certificate_ : Certificate
        Residuals are bounds: what the levels of sets have added up to.
    others
        As in :class:`aesvm.AEOneClassSVM`.

    Notes
    -----
    ``predict``, ``decision_function`` and ``score_samples`` are lazy where X is: an array gives an
    array, a dataframe a series.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from aesvm.dask import DaskAEOneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(5_000, 2))
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows = da.from_array(X, chunks=2_500)
    ...     model = DaskAEOneClassSVM(nu=0.05, gamma=0.5).fit(rows)
    ...     labels = model.predict(rows).compute()
    >>> bool(0.04 < np.mean(labels == -1) < 0.06)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **AEOneClassSVM._parameter_constraints,
        **CLUSTER_CONSTRAINTS,
    }
    _learns = AEOneClassSVM._learns
    __init__ = initializer(AEOneClassSVM)
    offset_ = AEOneClassSVM.offset_
    decision_function = AEOneClassSVM.decision_function
    score_samples = AEOneClassSVM.score_samples
    predict = AEOneClassSVM.predict
