"""
Rows that arrive over time
==========================

``partial_fit`` takes chunks. It holds representatives of the rows it has seen, and the latest
rows as they are. Whenever these fill the buffer that ``memory_budget`` allows, they are reduced
too: the drops in the upper picture. The model is trained again as the stream grows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from aesvm import AESVC

X, y = make_moons(60_000, noise=0.2, random_state=0)
X_test, y_test = make_moons(5_000, noise=0.2, random_state=1)
model = AESVC(gamma=2.0, memory_budget="1 MB")
seen, held, right = [], [], []
for begin in range(0, len(X), 3_000):
    rows = slice(begin, begin + 3_000)
    model.partial_fit(X[rows], y[rows], classes=[0, 1])
    seen.append(begin + 3_000)
    held.append(len(model.select()[1]))
    right.append(100 * model.score(X_test, y_test))
model.partial_fit()  # the end of the stream: trained on all that is held

figure, axes = plt.subplots(2, 1, figsize=(6.5, 5), sharex=True)
axes[0].plot(seen, held, "o-")
axes[0].set(ylabel="rows held", ylim=(0, None))
axes[1].plot(seen, right, "s-", color="C1")
axes[1].set(ylabel="test accuracy, %", xlabel="rows seen")
axes[0].set_title(f"{min(held[-3:]):,} to {max(held[-3:]):,} rows stand for {seen[-1]:,}")
figure.tight_layout()
