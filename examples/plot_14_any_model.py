"""
A set for any model
===================

``RepresentativeSet`` selects rows and weights. Train any estimator that takes ``sample_weight``
on them: here logistic regression on kernel features. A few hundred representatives do what all
rows do, and as many random rows do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from aesvm import RepresentativeSet

X, y = make_moons(20_000, noise=0.25, random_state=0)
images = Nystroem(gamma=2.0, n_components=100, random_state=0).fit(X)
draw = np.random.default_rng(0)


def loss(rows, weights):
    model = LogisticRegression(C=10.0, max_iter=500)
    model.fit(images.transform(X[rows]), y[rows], sample_weight=weights)
    return log_loss(y, model.predict_proba(images.transform(X)))


sizes, ours, random = [], [], []
for hull_tol in (3e-2, 1e-2, 3e-3, 1e-3):
    chosen = RepresentativeSet(gamma=2.0, hull_tol=hull_tol).fit(X, y)
    rows, weights = chosen.sample_indices_, chosen.weights_
    sizes.append(len(rows))
    ours.append(loss(rows, weights))
    drawn = draw.choice(len(X), (5, len(rows)))
    random.append([loss(some, np.full(len(some), len(X) / len(some))) for some in drawn])

figure, axis = plt.subplots(figsize=(6.5, 4))
axis.plot(sizes, ours, "o-", label="representatives, weighted")
axis.plot(sizes, np.mean(random, axis=1), "s-", label="random rows (mean of five)")
axis.axhline(loss(np.arange(len(X)), np.ones(len(X))), color="gray", label="all rows")
axis.set(xlabel="rows trained on", ylabel="log loss on all rows")
axis.legend()
figure.tight_layout()
