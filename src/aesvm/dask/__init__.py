"""AESVC and RepresentativeSet of rows that lie on a cluster, in Dask arrays and dataframes.

Rows are reduced where they are, and no more than their representatives travel. It takes the extra
``aesvm[dask]``, and a ``dask.distributed.Client``.
"""

from aesvm.dask.estimators import DaskAESVC, DaskRepresentativeSet

__all__ = ["DaskAESVC", "DaskRepresentativeSet"]
