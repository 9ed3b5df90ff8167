"""
Smaller models
==============

An SVM is asked about by way of all its support vectors. ``compress`` makes a model of fewer, without
the training rows, and bounds by how much any decision value can have changed; ``max_vectors`` trains
a small one from the start, which is nearer with as many vectors.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from aesvm import AESVC

X, y = make_moons(5_000, noise=0.3, random_state=0)
exact = AESVC(gamma=2.0).fit(X, y)
labels = exact.predict(X)
numbers = (5, 10, 20, 40, 80)
unlike: dict[str, list[float]] = {"compress": [], "max_vectors": []}
for n_vectors in numbers:
    small = exact.compress(n_vectors)
    few = AESVC(gamma=2.0, max_vectors=n_vectors, gap_tol=0.0).fit(X, y)
    for name, model in (("compress", small), ("max_vectors", few)):
        unlike[name].append(100 * (model.predict(X) != labels).mean())
    print(n_vectors, f"no decision value changed by more than {small.compression_.bound:.3g}")

figure, axis = plt.subplots(figsize=(6.5, 4))
for name, shares in unlike.items():
    axis.plot(numbers, shares, "o-", label=name)
axis.set(xlabel="vectors", xscale="log", ylabel="labels unlike the exact SVM's, %", ylim=(0, None))
axis.set_title(f"the exact SVM has {len(exact.support_):,} vectors")
axis.legend()
figure.tight_layout()
