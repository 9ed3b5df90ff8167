"""
What a round does
=================

The loss of an SVM is linear on either side of the margin. Rows on one side lose nothing by being
represented together; a mixture of both sides does. A *round* (``refine=1``) computes the margin
of every row and cuts each class into two *strata*, inside the margin and outside. It keeps the
rows of the *band* between them as they are, and represents each stratum separately.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from aesvm import AESVC

X, y = make_moons(15_000, noise=0.3, random_state=0)
exact = AESVC(gamma=5.0, refine="exact").fit(X, y)
margins = np.where(y == 1, 1, -1) * exact.decision_function(X)
strata = {
    "inside the margin": margins < 0.97,
    "band: rows stand for themselves": np.abs(margins - 1) <= 0.03,
    "outside": margins > 1.03,
}

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
for (name, rows), color in zip(strata.items(), ("#c8553d", "black", "#9db4c0"), strict=True):
    left.scatter(*X[rows].T, s=2, color=color, label=f"{name} ({rows.mean():.0%})")
left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncol=3, fontsize=8, markerscale=4)
left.set_title("the strata of both classes")

labels, gaps = [], []
for refine in (0, 1, 2):
    model = AESVC(gamma=5.0, refine=refine).fit(X, y)
    labels.append((model.predict(X) != exact.predict(X)).mean())
    gaps.append(model.certify(X, y).relative_gap)
right.semilogy([0, 1, 2], gaps, "o-", label="relative duality gap (a bound)")
right.semilogy([0, 1, 2], labels, "s-", label="share of labels unlike the exact SVM's")
right.set(xlabel="rounds (refine)", xticks=[0, 1, 2], title="how close")
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8)
figure.tight_layout()
