"""
Representatives and the boundary
================================

A *representative set* is a small, weighted part of the training rows that stands for all of
them. In kernel space, every row is within ``hull_tol`` of a weighted mean of representatives.
``refine=0`` trains on the set alone. The boundary (black) hardly differs from that of all rows
(dashed).
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from aesvm import AESVC
from aesvm.plotting import RepresentativeSetDisplay

X, y = make_moons(20_000, noise=0.3, random_state=0)
exact = AESVC(gamma=2.0, refine="exact").fit(X, y)
few = AESVC(gamma=2.0, refine=0).fit(X, y)

figure, axis = plt.subplots(figsize=(8, 5))
RepresentativeSetDisplay.from_estimator(few, X, y, ax=axis)
for model, color, style in ((few, "black", "solid"), (exact, "gray", "dashed")):
    DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        ax=axis,
        response_method="decision_function",
        plot_method="contour",
        levels=[0.0],
        colors=color,
        linestyles=style,
        grid_resolution=200,
    )
axis.set(xlim=(-1.9, 2.9), ylim=(-1.3, 1.8))  # far from all rows boundaries mean nothing
figure.tight_layout()

# %%
# How many labels the two models have in common:
print(f"{(exact.predict(X) == few.predict(X)).mean():.2%}")
