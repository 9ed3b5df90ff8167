"""
A search over C and gamma
=========================

``AEGridSearchCV`` is scikit-learn's ``GridSearchCV`` with fits that share their work. The grid
``"svm"`` centres itself on the data. A frame marks the best point. The best values lie on a
ridge: a larger gamma needs a smaller C.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV
from aesvm.plotting import SearchDisplay

X, y = make_moons(1_000, noise=0.3, random_state=0)
search = AEGridSearchCV(AESVC(), "svm", cv=3).fit(X, y)
print(search.best_params_, round(search.best_score_, 4))

figure, axis = plt.subplots(figsize=(6, 5))
SearchDisplay.from_search(search, ax=axis)
figure.tight_layout()
