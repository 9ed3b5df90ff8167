"""
Smaller models
==============

To predict, an SVM sums over all of its support vectors. ``compress`` makes a model with few of
them, without the training rows. It bounds the change of every decision value. The bound is for
the worst possible row: labels hardly differ long before it is small.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from aesvm import AESVC

X, y = make_moons(5_000, noise=0.3, random_state=0)
exact = AESVC(gamma=2.0).fit(X, y)
labels = exact.predict(X)
numbers = (5, 10, 20, 40, 80)
unlike, bounds = [], []
for n_vectors in numbers:
    small = exact.compress(n_vectors)
    unlike.append((small.predict(X) != labels).mean())
    bounds.append(small.compression_.bound)

figure, axis = plt.subplots(figsize=(6.5, 4))
axis.loglog(numbers, bounds, "o-", label="change of a decision value, at most")
axis.loglog(numbers, unlike, "s-", label="share of labels that changed (none: not shown)")
axis.set_xticks(numbers, [str(number) for number in numbers])
axis.minorticks_off()
axis.set(xlabel="vectors kept")
axis.set_title(f"of {len(exact.support_):,} support vectors")
axis.legend()
figure.tight_layout()
