"""
How close, after how many seconds
=================================

The *relative duality gap* of the certificate is a bound: the objective of the model is at most that
share of itself above the least there is. Each round (``refine``) brings it down, and takes its
time. ``certificate_.history`` has what each look at all rows saw.
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
