"""
Finding outliers
================

``AEOneClassSVM`` learns where the rows are, without labels. ``nu`` is about the share of them
that is left outside. Rows outside the line get the label -1.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.inspection import DecisionBoundaryDisplay

from aesvm import AEOneClassSVM

draw = np.random.default_rng(0)
angles = draw.uniform(0, 2 * np.pi, 8_000)
usual = np.c_[np.cos(angles), np.sin(angles)] + 0.12 * draw.normal(size=(8_000, 2))
odd = draw.uniform(-1.8, 1.8, size=(60, 2))
model = AEOneClassSVM(nu=0.02, gamma=4.0).fit(usual)
found = model.predict(odd) == -1

figure, axis = plt.subplots(figsize=(5.5, 5.5))
axis.scatter(usual[:, 0], usual[:, 1], s=1, color="#9db4c0", label="usual")
axis.scatter(
    odd[found, 0], odd[found, 1], s=25, color="#c8553d", label=f"odd, found ({found.sum()})"
)
axis.scatter(
    odd[~found, 0], odd[~found, 1], s=25, color="black", marker="x", label="drawn among the usual"
)
DecisionBoundaryDisplay.from_estimator(
    model,
    np.vstack([usual, odd]),
    ax=axis,
    response_method="decision_function",
    plot_method="contour",
    levels=[0.0],
    colors="black",
)
axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncol=3, fontsize=8)
axis.set_title(f"outside of the line: {(model.predict(usual) == -1).mean():.1%} of the usual")
figure.tight_layout()
