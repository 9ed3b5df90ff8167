"""
Rows on a cluster
=================

``aesvm.dask`` has a twin of every estimator for Dask arrays and dataframes. Each partition is
reduced where it is, and only representatives are sent. Here the "cluster" is two threads of this
machine; with ``Client("scheduler:8786")`` it is a real one.
"""

import dask.array as da
import matplotlib.pyplot as plt
from dask.distributed import Client
from sklearn.datasets import make_moons

from aesvm.dask import DaskAESVC

X, y = make_moons(40_000, noise=0.2, random_state=0)
with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    rows, labels = da.from_array(X, chunks=(10_000, 2)), da.from_array(y, chunks=10_000)
    model = DaskAESVC(gamma=2.0, refine=0, client=client).fit(rows, labels)
    accuracy = model.score(rows, labels)
    sent, classes, weights = model.select()

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True)
axes[0].scatter(*X.T, c=[f"C{k // 10_000}" for k in range(len(X))], s=1, alpha=0.4)
axes[0].set_title(f"{len(X):,} rows, a colour for each partition")
axes[1].scatter(*sent.T, c=classes, s=weights / 4, cmap="coolwarm", alpha=0.6)
axes[1].set_title(f"{len(sent):,} travelled; accuracy {accuracy:.4f}")
figure.tight_layout()
