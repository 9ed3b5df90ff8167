"""DaskRepresentativeSet: RepresentativeSet, with rows on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from aesvm.dask.fitting import checked_partitions, cluster_rows, on_cluster
from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.fitting import fit_method
from aesvm.estimators.validation import with_or_without_classes
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.representative_set import RepresentativeSet, set_rows
from aesvm.runtime.scikit_learn import CallbackSupportMixin


@on_cluster(RepresentativeSet)
class DaskRepresentativeSet(CallbackSupportMixin, LinkedToDocumentation, BaseEstimator):
    """RepresentativeSet of rows that lie on a cluster.

    Every partition is reduced where it is, class by class; the sets are put together and reduced
    again, ``split_every`` at a time. The tolerance of each level is that of a stream, so that all
    levels together stay within ``hull_tol``. The result depends on the partitions, and not on the
    workers.

    Parameters
    ----------
    split_every : int, default=16
        Sets that are put together at a time.
    client : dask.distributed.Client, default=None
        The cluster to work on; None: that of the current client. Clones share it. A pickled
        estimator has none.
    **parameters
        Those of :class:`aesvm.RepresentativeSet`. ``memory_budget`` is for the set that comes here;
        ``n_jobs`` plays no role: how many tasks a worker does at a time is Dask's to say.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_representatives,)
        Rows of X that represent, ascending.
    weights_ : ndarray of shape (n_representatives,)
    max_residual_ : float
        A bound: what the levels of sets have added up to.
    n_seen_ : int
        Rows of X.
    gamma_, n_features_in_, feature_names_in_
        As in :class:`aesvm.RepresentativeSet`.

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
            raise ValueError("groups is given: on a cluster, make them a part of y.")
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
