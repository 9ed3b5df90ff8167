"""
Text
====

TF-IDF makes thousands of columns, nearly all of them zero. Sparse rows stay sparse. In so many
dimensions no row is a mean of others, so no set is smaller than the rows: what helps is the exact
solver, whose answer is SVC's. (The documents are drawn from two lists of words, by Zipf's law.)
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import SVC

from aesvm import AESVC

draw = np.random.default_rng(0)
words = np.array([f"word{k}" for k in range(4_000)])
orders = [draw.permutation(words), draw.permutation(words)]
orders[1][:200] = orders[0][:200]  # both topics have the commonest words in common


def document(topic):
    ranks = np.minimum(draw.zipf(1.3, size=60), len(words)) - 1
    return " ".join(orders[topic][ranks])


y = draw.integers(2, size=6_000)
X = TfidfVectorizer().fit_transform([document(topic) for topic in y])
AESVC().fit(X[:100], y[:100])  # compiles, once per machine

sizes = (1_000, 2_000, 4_000)
seconds: dict[str, list[float]] = {"SVC": [], "AESVC": []}
for n in sizes:
    for name, model in (("SVC", SVC()), ("AESVC", AESVC())):
        started = time.perf_counter()
        model.fit(X[:n], y[:n])
        seconds[name].append(time.perf_counter() - started)
        print(n, name, f"accuracy on the last 2,000: {model.score(X[4_000:], y[4_000:]):.4f}")

figure, axis = plt.subplots(figsize=(6.5, 4))
for name, taken in seconds.items():
    axis.plot(sizes, taken, "o-", label=name)
axis.set(xlabel="documents", ylabel="seconds of fit", ylim=(0, None))
axis.set_title(f"{X.shape[1]:,} columns, {X.nnz / len(y):.0f} of them not zero in a row")
axis.legend()
figure.tight_layout()
