"""DaskAESVC and DaskAENuSVC: classification, with rows on a cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin

from aesvm.dask.fitting import CLUSTER_CONSTRAINTS, initializer
from aesvm.dask.machine import DaskMachine
from aesvm.dask.partitions import is_lazy
from aesvm.dask.scores import accuracy
from aesvm.estimators.prediction import PairwiseClassifier, score
from aesvm.nu_svc import AENuSVC
from aesvm.svc import AESVC


class DaskAESVC(
    CallbackSupportMixin, DaskMachine, PairwiseClassifier, ClassifierMixin, BaseEstimator
):
    """AESVC of rows that lie on a cluster.

    Every partition is reduced where it is, class by class, and the sets are put together on the
    workers. The SVM of the set is trained here. In the rounds that ``refine`` asks for, every
    partition looks at its rows with that SVM, and sends those near the margin as they are, and
    representatives of the others. The rows themselves never leave the workers. The result depends
    on the partitions, and not on the workers.

    Parameters
    ----------
    split_every : int, default=16
        Sets that are put together at a time.
    client : dask.distributed.Client, default=None
        The cluster to work on; None: that of the current client. Clones share it. A pickled
        estimator has none.
    **parameters
        Those of :class:`aesvm.AESVC`. ``refine="exact"`` needs all rows in one place, and is not
        available. ``memory_budget`` is for the rows that come here, and ``n_jobs`` for the threads
        that train here: how many tasks a worker does at a time is Dask's to say.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Rows of X that are support vectors, class by class.
    certificate_ : Certificate
        Residuals are bounds: what the levels of sets have added up to.
    others
        As in :class:`aesvm.AESVC`.

    Notes
    -----
    ``predict`` and ``decision_function`` are lazy where X is. An array gives an array, of the
    chunks of X. A dataframe gives a series with its index and divisions, as in
    ``X.assign(label=model.predict(X))``; decision values of more than two classes are a dataframe,
    with a column named after each class, or after each pair ("a or b").

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from aesvm.dask import DaskAESVC
    >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, classes = (da.from_array(array, chunks=5_000) for array in (X, y))
    ...     model = DaskAESVC(gamma=1.0).fit(rows, classes)
    ...     accuracy = model.score(rows, classes)
    >>> accuracy > 0.98
    True
    >>> model.predict(rows)  # doctest: +ELLIPSIS
    dask.array<...>

    The model works without Dask as well:

    >>> int(model.predict([[0.0, 1.0]])[0])
    0
    """

    _parameter_constraints: ClassVar[dict] = {**AESVC._parameter_constraints, **CLUSTER_CONSTRAINTS}
    _learns = AESVC._learns
    __init__ = initializer(AESVC)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted right.

        Parameters
        ----------
        X : dask array or dataframe, array-like or sparse matrix of shape (n_samples, n_features)
        y : of the kind of X, shape (n_samples,)
        sample_weight : of the kind of X, shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        if is_lazy(X):
            return accuracy(self, X, y, sample_weight)
        return score(self, X, y, sample_weight)


class DaskAENuSVC(
    CallbackSupportMixin, DaskMachine, PairwiseClassifier, ClassifierMixin, BaseEstimator
):
    """AENuSVC of rows that lie on a cluster.

    Parameters
    ----------
    split_every, client
        As in :class:`DaskAESVC`, and so is all that is said there of rows and predictions.
    **parameters
        Those of :class:`aesvm.AENuSVC`. ``nu`` must be feasible for the weights of all rows.

    Attributes
    ----------
    others
        As in :class:`aesvm.AENuSVC`.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from aesvm.dask import DaskAENuSVC
    >>> X, y = make_moons(5_000, noise=0.1, random_state=0)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, classes = (da.from_array(array, chunks=2_500) for array in (X, y))
    ...     model = DaskAENuSVC(nu=0.1, gamma=1.0).fit(rows, classes)
    ...     accuracy = model.score(rows, classes)
    >>> accuracy > 0.98
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **AENuSVC._parameter_constraints,
        **CLUSTER_CONSTRAINTS,
    }
    _learns = AENuSVC._learns
    __init__ = initializer(AENuSVC)
    score = DaskAESVC.score
