"""
Text
====

TF-IDF makes thousands of columns, nearly all of them zero. Sparse rows stay sparse. In so many
dimensions hardly any row is a mean of others, so no set can represent them. The exact SVM is
trained instead, and its decision values are SVC's. (The documents are drawn from two lists of
words, whose frequencies follow Zipf's law.)
"""

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


y = draw.integers(2, size=3_000)
X = TfidfVectorizer().fit_transform([document(topic) for topic in y])
train, test = slice(2_000), slice(2_000, None)
ours = AESVC().fit(X[train], y[train])
theirs = SVC().fit(X[train], y[train])
print(f"test accuracy {ours.score(X[test], y[test])}, SVC's {theirs.score(X[test], y[test])}")

figure, axis = plt.subplots(figsize=(5, 5))
values = ours.decision_function(X[test]), theirs.decision_function(X[test])
axis.scatter(*values, c=y[test], s=6, cmap="coolwarm")
axis.set(xlabel="decision values of AESVC", ylabel="decision values of SVC")
axis.set_title(f"{X.shape[1]:,} columns, {X.nnz / len(y):.0f} of them not zero in a row")
figure.tight_layout()
