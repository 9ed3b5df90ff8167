"""
How close, for how many seconds
===============================

The *relative duality gap* of the certificate is a bound: the objective of the model is at most
that share of itself above the least there is. ``refine`` chooses between few seconds and a small
gap; at this size the exact SVM takes so little time that the default computes it.
"""

import time

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from aesvm import AESVC

X, y = make_moons(20_000, noise=0.3, random_state=0)
AESVC(gamma=10.0, refine=1).fit(X[:2_000], y[:2_000])  # compiles, once per machine

figure, axis = plt.subplots(figsize=(6.5, 4))
for refine in (0, 1, 2, "exact", "auto"):
    started = time.perf_counter()
    model = AESVC(gamma=10.0, refine=refine).fit(X, y)
    seconds = time.perf_counter() - started
    gap = model.certify(X, y).relative_gap
    axis.semilogy(seconds, gap, "o", label=f"refine={refine!r}")
axis.set(xlabel="seconds of fit", ylabel="relative duality gap", xlim=(0, None))
axis.legend()
figure.tight_layout()
