"""
Representatives and the boundary
================================

A *representative set* is a small part of the training rows, with weights, that stands for all of
them: in kernel space every row is within ``hull_tol`` of a weighted mean of representatives.
``refine=0`` trains on it alone. The boundary hardly differs from that of all rows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from aesvm import AESVC

X, y = make_moons(20_000, noise=0.25, random_state=0)
exact = AESVC(gamma=2.0, refine="exact").fit(X, y)
few = AESVC(gamma=2.0, refine=0).fit(X, y)
chosen = few.representative_set_

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True)
for axis, model in zip(axes, (exact, few), strict=True):
    DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        ax=axis,
        response_method="decision_function",
        plot_method="contour",
        levels=[0.0],
        colors="black",
        grid_resolution=200,
    )
axes[0].scatter(*X.T, c=y, s=1, cmap="coolwarm", alpha=0.3)
axes[0].set_title(f"all {len(X):,} rows")
rows = chosen.sample_indices_
axes[1].scatter(*X[rows].T, c=y[rows], s=chosen.weights_ / 2, cmap="coolwarm", alpha=0.6)
axes[1].set_title(f"{len(rows):,} representatives, area by weight")
figure.tight_layout()

# %%
# How many labels the two models have in common:
print(f"{(exact.predict(X) == few.predict(X)).mean():.2%}")
