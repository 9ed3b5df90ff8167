"""The estimators, for rows that lie on a cluster, in Dask arrays and dataframes.

Rows are reduced where they are, and no more than their representatives travel. It takes the extra
``aesvm[dask]``, and a ``dask.distributed.Client``.
"""

try:
    from aesvm.dask.estimators import (
        DaskAENuSVC,
        DaskAENuSVR,
        DaskAEOneClassSVM,
        DaskAESVC,
        DaskAESVR,
        DaskRepresentativeSet,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f'aesvm.dask needs Dask: pip install "aesvm[dask]" ({error})', name=error.name
    ) from error

__all__ = [
    "DaskAENuSVC",
    "DaskAENuSVR",
    "DaskAEOneClassSVM",
    "DaskAESVC",
    "DaskAESVR",
    "DaskRepresentativeSet",
]
