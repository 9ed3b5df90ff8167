"""
Rare classes
============

If one class is rare, an SVM may ignore it: errors on it are few. ``class_weight="balanced"``
raises the cost of these errors in proportion. The SVM then finds more rows of the rare class,
and gives more false alarms. Weights count in representative sets too.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.metrics import precision_score, recall_score

from aesvm import AESVC

X, y = make_blobs([9_800, 200], centers=[[0, 0], [2.2, 2.2]], cluster_std=1.0, random_state=0)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharex=True, sharey=True)
for axis, weight in zip(axes, (None, "balanced"), strict=True):
    model = AESVC(gamma=0.3, class_weight=weight).fit(X, y)
    found = model.predict(X)
    DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        ax=axis,
        response_method="decision_function",
        plot_method="contour",
        levels=[0.0],
        colors="black",
    )
    axis.scatter(*X[y == 0].T, s=1, color="#9db4c0")
    axis.scatter(*X[y == 1].T, s=8, color="#c8553d")
    recall, precision = recall_score(y, found), precision_score(y, found)
    axis.set_title(f"class_weight={weight!r}: found {recall:.0%}, right {precision:.0%}")
figure.tight_layout()
