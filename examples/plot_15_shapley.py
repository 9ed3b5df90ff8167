"""
Why this prediction?
====================

``shapley_values`` says how much each column adds to the decision value of each row, exactly.
Each dot is a tumour. A column draws the dots on the right towards "benign". The colour is the
column's value.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC
from aesvm.inspection import ShapleyDisplay

X, y = load_breast_cancer(as_frame=True, return_X_y=True)
model = make_pipeline(StandardScaler(), AESVC(C=10.0)).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
display = ShapleyDisplay.from_estimator(
    model, X[::2], background=X[1::6], max_features=10, ax=axes[0]
)
display.plot(kind="bar", max_features=10, ax=axes[1])
