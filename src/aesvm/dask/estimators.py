"""The estimators for rows on a cluster, each the twin of the one whose parameters it has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from aesvm.dask.fitting import DaskMachine, checked_partitions, cluster_rows, on_cluster
from aesvm.dask.lazy import score_lazily
from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.fitting import fit_method
from aesvm.estimators.prediction import MachineEstimator, PairwiseClassifier
from aesvm.estimators.validation import with_or_without_classes
from aesvm.one_class import AEOneClassSVM
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.representative_set import RepresentativeSet, set_rows
from aesvm.runtime.scikit_learn import CallbackSupportMixin
from aesvm.svc import AESVC, AENuSVC
from aesvm.svr import AESVR, AENuSVR, fitted_width


@on_cluster(AESVC)
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

    score = score_lazily


@on_cluster(AENuSVC)
class DaskAENuSVC(
    CallbackSupportMixin, DaskMachine, PairwiseClassifier, ClassifierMixin, BaseEstimator
):
    """AENuSVC of rows that lie on a cluster.

    Parameters and attributes are those of :class:`aesvm.AENuSVC`, with ``split_every`` and
    ``client``; all else is as in :class:`DaskAESVC`. ``nu`` must be feasible for the
    weights of all rows.

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

    score = score_lazily


@on_cluster(AESVR)
class DaskAESVR(CallbackSupportMixin, DaskMachine, MachineEstimator, RegressorMixin, BaseEstimator):
    """AESVR of rows that lie on a cluster.

    Parameters and attributes are those of :class:`aesvm.AESVR`, with ``split_every`` and
    ``client``; all else is as in :class:`DaskAESVC`. A row stands for others together with its
    target. The unit of targets, their standard deviation, is that of all rows. It is found in a
    pass before they are reduced (the one that ``gamma="scale"`` takes).

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

    predict = AESVR.predict
    score = score_lazily


@on_cluster(AENuSVR)
class DaskAENuSVR(
    CallbackSupportMixin, DaskMachine, MachineEstimator, RegressorMixin, BaseEstimator
):
    """AENuSVR of rows that lie on a cluster.

    Parameters and attributes are those of :class:`aesvm.AENuSVR`, with ``split_every`` and
    ``client``; all else is as in :class:`DaskAESVR`.

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

    epsilon_ = property(fitted_width)
    predict = AESVR.predict
    score = score_lazily


@on_cluster(AEOneClassSVM)
class DaskAEOneClassSVM(
    CallbackSupportMixin, DaskMachine, MachineEstimator, OutlierMixin, BaseEstimator
):
    """AEOneClassSVM of rows that lie on a cluster.

    Parameters and attributes are those of :class:`aesvm.AEOneClassSVM`, with ``split_every`` and
    ``client``; all else is as in :class:`DaskAESVC`. ``score_samples`` is lazy where X is, too.

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

    offset_ = AEOneClassSVM.offset_
    decision_function = AEOneClassSVM.decision_function
    score_samples = AEOneClassSVM.score_samples
    predict = AEOneClassSVM.predict


@on_cluster(RepresentativeSet)
class DaskRepresentativeSet(CallbackSupportMixin, LinkedToDocumentation, BaseEstimator):
    """RepresentativeSet of rows that lie on a cluster.

    Every partition is reduced where it is, class by class; the sets are put together and reduced
    again, ``split_every`` at a time. The tolerance of each level is that of a stream, so that all
    levels together stay within ``hull_tol``. The result depends on the partitions, and not on the
    workers.

    ``split_every`` and ``client`` are as in :class:`DaskAESVC`. Other parameters and all attributes
    are those of :class:`aesvm.RepresentativeSet`. ``max_residual_`` is a bound: what the levels of
    sets have added up to. ``memory_budget`` is for the set that comes here; ``n_jobs`` plays no
    role: how many tasks a worker does at a time is Dask's to say.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from aesvm.dask import DaskRepresentativeSet
    >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0"):
    ...     rows, classes = (da.from_array(array, chunks=5_000) for array in (X, y))
    ...     chosen = DaskRepresentativeSet(gamma=1.0).fit(rows, classes)
    >>> X_small, y_small, weights = chosen.select()
    >>> len(X_small) < 1_000
    True
    >>> float(round(weights.sum(), 6))
    20000.0
    """

    _rows_: WeightedRows

    @fit_method
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> DaskRepresentativeSet:
        """Compute the representative set of X.

        Parameters
        ----------
        X : dask array or dask dataframe of shape (n_samples, n_features)
            Its chunk sizes need not be known.
        y : dask array or series of shape (n_samples,), default=None
            Classes, in the partitions of X. Without them all rows belong together.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Weights of the rows; those of weight zero are left out.
        groups : None
            Not on a cluster: make classes of them.

        Returns
        -------
        self : DaskRepresentativeSet
        """
        if groups is not None:
            raise ValueError("groups must be None on a cluster: make the groups part of y.")
        if self.keep_combinations:
            raise ValueError(
                "keep_combinations=True: combinations of rows on many machines are not kept."
            )
        found = checked_partitions(self, X, y, sample_weight)
        with cluster_rows(self, found, with_or_without_classes) as rows:
            tree, _ = rows.reduce(self.hull_tol, keep=False)
        warn_if_looser(tree, self.hull_tol, self.memory_budget)
        set_rows(self, tree.everything(), tree.n_rows, self.gamma_)
        return self

    def fit_select(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> tuple[Any, Any, NDArray[np.float64]]:
        """Compute the set, and return its rows, their classes and weights (see ``select``)."""
        self.fit(X, y, sample_weight, groups)
        rows, classes, weights = self.select()
        return rows, None if y is None else classes, weights

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """Rows, classes and weights of the set: see ``aesvm.RepresentativeSet.select``."""
        check_is_fitted(self)
        return self._rows_.columns()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "sample_indices_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = False
        return tags
