"""
Choosing hull_tol
=================

``hull_tol`` is the largest squared distance in kernel space between a row and what represents
it. A value ten times as large gives far smaller sets, and a model that is slightly further away.
The default, 1e-3, is the paper's. An exact model does not use it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from aesvm import AESVC

X, y = make_moons(10_000, noise=0.4, random_state=0)
exact = AESVC(gamma=5.0, refine="exact").fit(X, y).predict(X)
tolerances = np.logspace(-4, -2, 7)
shares, same = [], []
for hull_tol in tolerances:
    model = AESVC(gamma=5.0, refine=0, hull_tol=hull_tol).fit(X, y)
    shares.append(100 * len(model.representative_set_.sample_indices_) / len(X))
    same.append(100 * (model.predict(X) == exact).mean())

figure, axes = plt.subplots(2, 1, figsize=(6.5, 5), sharex=True)
axes[0].semilogx(tolerances, shares, "o-")
axes[0].set(ylabel="rows kept, %", ylim=(0, None))
axes[1].semilogx(tolerances, same, "s-", color="C1")
axes[1].set(ylabel="labels kept, %", xlabel="hull_tol")
axes[0].axvline(1e-3, color="gray", linestyle=":")
axes[1].axvline(1e-3, color="gray", linestyle=":")
axes[0].set_title("rows kept, and labels as the exact SVM's; dotted: the default")
figure.tight_layout()
