"""
Regression and its tube
=======================

``AESVR`` ignores errors smaller than ``epsilon``: rows within the tube around the curve do not
influence it. ``AENuSVR`` takes the share of rows that may lie outside instead, and finds the
width.
"""

import matplotlib.pyplot as plt
import numpy as np

from aesvm import AESVR, AENuSVR

draw = np.random.default_rng(0)
x = np.sort(draw.uniform(0, 10, 5_000))
y = np.sin(x) + 0.1 * x + 0.2 * draw.normal(size=len(x))
X = x[:, None]

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
fixed = AESVR(gamma=1.0, C=10.0, epsilon=0.3).fit(X, y)
fitted = AENuSVR(gamma=1.0, C=10.0, nu=0.1).fit(X, y)
for axis, model, width, name in (
    (axes[0], fixed, fixed.epsilon, "AESVR(epsilon=0.3)"),
    (axes[1], fitted, fitted.epsilon_, "AENuSVR(nu=0.1)"),
):
    curve = model.predict(X)
    outside = np.abs(y - curve) > width
    axis.scatter(x[~outside], y[~outside], s=1, color="#9db4c0")
    axis.scatter(x[outside], y[outside], s=3, color="#c8553d")
    axis.plot(x, curve, color="black")
    axis.fill_between(x, curve - width, curve + width, alpha=0.15, color="black")
    axis.set_title(f"{name}: width {width:.2f}, {outside.mean():.0%} outside")
figure.tight_layout()
