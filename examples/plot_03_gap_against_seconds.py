"""
How close, after how many seconds
=================================

The certificate's *relative duality gap* is a bound: with a gap of 0.01, the objective is at most
about 1 % above the optimum. Each round (``refine``) lowers it, and takes time.
``certificate_.history`` has the gap after each look at all rows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.plotting import CertificateDisplay

X, y = make_moons(20_000, noise=0.3, random_state=0)
AESVC(gamma=10.0, refine=1).fit(X[:2_000], y[:2_000])  # compiles, once for each kind of fit
model = AESVC(gamma=10.0, refine=3).fit(X, y)
print(model.certificate_)

figure, axis = plt.subplots(figsize=(6.5, 4))
CertificateDisplay.from_estimator(model, ax=axis)
figure.tight_layout()
